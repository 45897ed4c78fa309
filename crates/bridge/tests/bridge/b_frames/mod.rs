//! Coded pictures on their way to WebRTC: which are sent, in which form, and what becomes of those
//! that cannot be.
//!
//! Samples are made, and checked with a decoder, by `scripts/make-b-frame-samples`.

mod annex_b;
mod as_checked;
mod broken;
mod headers;
mod in_order;
mod refused;
mod resolution;
mod samples;
