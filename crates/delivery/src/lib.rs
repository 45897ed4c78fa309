//! The frames lane of a stream: which player gets which frame, and when.
//!
//! Everything here only decides. There are no sockets, formats or clocks: input is a
//! [`media::Frame`] and `now`, output is positions in bytes that all receivers share. The caller writes.
//!
//! A stream is driven like this: [`Stream::receive`] for every frame of its publisher; what it
//! returns is serialised by the caller into a [`DeliveryLog`] per wire format; each player has a
//! [`Cursor`] into such a log, and a [`Schedule`] says which players are served when, so that
//! writes are merged and spread over time.

mod gop;
mod log;
mod schedule;
mod state;
mod stream;
mod timeline;

pub use gop::{GopCache, GopLimits};
pub use log::{Cursor, DeliveryLog, Mark, PlayerAction, QueueLimits, SEGMENT_BYTES};
pub use schedule::{PlayerId, Schedule, SlotId};
pub use state::{StateImpossible, StreamState};
pub use stream::{Headers, Received, Stream, StreamRates};
pub use timeline::Timeline;
