//! Live statistics on the wire: one message a second with a column per figure.
//!
//! Shared by the sender (`control::stats`) and the reader (`top`). The workers count, in columns
//! from the start (`worker::columns`).

pub mod message;
