//! Times of one stream on both sides of a bridge.
