//! Streams of other servers that this one publishes as its own.

mod spec;

pub use spec::PullSpec;
