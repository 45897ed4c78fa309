//! Behaviour tests of `rtsp`: sessions, media both ways, and the kept fuzz corpus.

mod a_day;
mod clock_rates;
mod fuzz_corpus;
mod media_both_ways;
mod play_cameras;
mod record;
mod sdp_bombs;
mod sessions;
