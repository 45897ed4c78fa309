//! The reader itself, between the caller and a source.
pub(crate) mod asynchronous;
pub(crate) mod blocking;
