//! Live statistics as they travel: one message a second with a column per figure.
//!
//! Shared by the side that sends (`control::stats`) and the side that reads (`top`). What is
//! counted is counted by the workers, in columns from the start (`worker::columns`).

pub mod message;
