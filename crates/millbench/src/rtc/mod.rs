//! WebRTC sessions: WHIP publishers and WHEP viewers.

pub mod http;
pub mod impair;
pub mod mark;
pub mod media;
pub mod picture;
pub mod signalling;
pub mod track;
