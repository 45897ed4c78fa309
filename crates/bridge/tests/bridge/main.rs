//! What a bridge does, from outside: one behaviour per module.

mod b_frames;
mod clocks;
mod frame_to_rtp;
mod fuzz_corpus;
mod lip_sync;
mod rtp_to_frame;
