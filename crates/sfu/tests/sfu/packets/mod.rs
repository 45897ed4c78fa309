//! The packets lane as its callers see it: RTP in, headers and payloads out. One behaviour per
//! file.

pub(crate) mod common;
#[path = "../../../../rtp/tests/rtp/dependency_descriptor/model.rs"]
#[allow(dead_code, reason = "tests of descriptors need more of it")]
pub(crate) mod descriptor_model;

mod batches;
mod ends;
mod extensions;
mod feedback;
mod gop_cache;
mod hand_over;
mod key_frames;
mod layers;
mod mirror;
mod nack_storm;
mod padding;
mod pool;
mod publisher_restarts;
mod redundant_audio;
mod relayed;
mod reports;
mod resending;
mod sequence_numbers;
mod simulcast;
mod ssrcs;
mod twin;
mod unwatched;
mod wraps;
