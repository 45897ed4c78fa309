//! Live statistics as they travel: one message a second with a column per figure.
//!
//! Shared by the side that sends (`control::stats`) and the side that reads (the terminal console). What is counted is counted by
//! the workers, in columns from the start (`worker::columns`).

#[expect(dead_code, reason = "the sending side comes next, the reading side with the terminal console")]
pub mod message;
