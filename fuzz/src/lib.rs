//! What each fuzz target checks, apart from the fuzzer: one file per crate, one function per target.
//!
//! The targets hand their input to these functions under a nightly compiler. `fuzz_corpus.rs`
//! in the tests of the crate concerned includes its file and replays the kept corpus (`replay.rs`) with the
//! stable one, so that `cargo test` covers it.

pub mod bridge_b_frames;
pub mod bridge_frame_to_rtp;
pub mod bridge_rtp_to_frame;
pub mod group_send;
pub mod hls;
pub mod media;
pub mod moq;
pub mod mp4;
pub mod mpegts;
pub mod msgpack_array;
pub mod msgpack_array_c;
pub mod node_link;
pub mod range_reader;
pub mod range_reader_c;
pub mod recording;
pub mod relay;
pub mod rtc;
pub mod rtc_dtls;
pub mod rtc_sdp;
pub mod rtmp;
pub mod rtp;
pub mod rtp_depacketize;
pub mod rtp_fec;
pub mod rtp_packetize;
pub mod rtsp;
pub mod sendgroup;
pub mod sfu;
pub mod sources;
pub mod srt;
pub mod srtp;
pub mod srtp_c;
pub mod ssrc_map;
pub mod transcode;
pub mod vod;
pub mod worker_api;

// The server of the tests of `range-reader-c`.
#[path = "../../libs/range-reader-c/tests/range-reader-c/origin.rs"]
#[allow(dead_code, reason = "its tests look at more of it")]
mod origin;
