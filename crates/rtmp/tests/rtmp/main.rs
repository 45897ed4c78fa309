//! What the protocol machines do, from outside: one behaviour per module.

mod acknowledgement;
mod amf_limits;
mod bytewise_input;
mod chunk_size;
mod chunk_stream_limit;
mod client_servers;
mod common;
mod extended_timestamp;
mod formats;
mod fuzz_corpus;
mod hand_over;
mod handshake_digest;
mod interleaving;
mod names;
mod player_lifecycle;
mod publish_and_play;
mod publisher_lifecycle;
mod timestamp_wrap;
mod truncated_tags;
