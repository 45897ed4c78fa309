//! Which node to fetch a stream from.
