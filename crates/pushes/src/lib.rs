//! Streams of this server that are sent on to other servers: RTMP, RTSP and WHIP, all also by TLS,
//! SRT, and MPEG-TS by UDP.
//!
//! ```text
//! worker (home) -- tap, bounded --> task.rs: queue.rs, bounded -- target.rs: rtmp, rtsp .. --> peer
//! ```
//!
//! A rule says which streams go where. For each published stream that a rule matches, a task is a
//! player inside the process; it ends with the publication, and tries again with growing pauses for
//! as long as that lasts. All tasks run on one thread (`thread.rs`). Nobody waits for a target:
//! what has no room in the queue is left out, up to the next key frame.

mod common;
mod failure;
mod opus;
mod queue;
mod rtmp;
mod rtsp;
mod spec;
mod srt;
mod target;
mod task;
mod thread;
mod times;
mod ts;
mod udp;
mod whip;
mod wire;

pub use common::PushSettings;
pub use queue::QueueLimits;
pub use spec::PushSpec;
pub use task::{Push, PushStatus};
pub use thread::{NotAdded, Pushes, PushesInput, PushesThread, Rule};
