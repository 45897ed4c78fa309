//! Load generator for live streaming servers, and the report it prints.
//!
//! One run holds N sessions (publishers or players) on a few event-loop threads, checks every byte that
//! arrives, and says what each client cost the server. A run fails when a session fails or a byte is
//! missing. The pieces, in the order data takes:
//!
//! ```text
//! sample -> stamp -> publisher -> (server) -> player -> tally, playback -> stats -> report
//! ```
//!
//! It knows nothing of a server's internals: everything is measured from outside, by sockets and `/proc`.

pub mod bottleneck;
pub mod cli;
pub mod clock;
pub mod counters;
pub mod doors;
pub mod floor;
pub mod hls;
pub mod http_flv;
pub mod live;
pub mod machine;
pub mod net;
pub mod option_values;
pub mod playback;
pub mod procfs;
pub mod report;
pub mod rtc;
pub mod run;
pub mod sample;
pub mod session;
pub mod srt_url;
pub mod stamp;
pub mod stats;
pub mod tally;
pub mod worker;
