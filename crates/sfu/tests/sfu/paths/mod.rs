//! Viewers whose paths carry less than the stream has, for a while or for good.

mod congestion;
mod crowd;
mod layers;
pub(crate) mod world;
