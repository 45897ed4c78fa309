//! WebRTC sessions: WHIP publishers and WHEP viewers; and RTMP publishers that viewers get through a bridge.
//!
//! ```text
//! signalling (threads, HTTP) ─▶ describe ─▶ engine ─▶ session ─▶ link (socket, ICE, DTLS, SRTP)
//!                                                       ├─▶ publisher ◀─ media ◀─ h264, mark; recording, opus
//!                                                       ├─▶ rtmp ◀─ flv ◀─ h264, mark
//!                                                       └─▶ viewer ─▶ track ─▶ counters ─▶ report
//!                                                             └─▶ trace ─▶ floor ─▶ (viewer, by hello)
//! ```

pub mod arrivals;
pub mod cli;
pub mod counters;
pub mod delays;
pub mod describe;
pub mod engine;
pub mod floor;
pub mod flv;
pub mod h264;
pub mod hello;
mod html;
pub mod http;
pub mod impair;
pub mod link;
pub mod mark;
pub mod media;
mod opus;
pub mod publisher;
pub mod recording;
pub mod report;
pub mod rtmp;
pub mod run;
pub mod session;
pub mod signalling;
pub mod target;
pub mod trace;
pub mod track;
pub mod viewer;
