//! Streams and fan-out decisions.
