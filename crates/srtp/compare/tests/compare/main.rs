//! Every packet of ours read by libsrtp, and every packet of libsrtp by ours.

mod batches;
mod loss_and_order;
mod mki;
mod rollover;
mod sizes_and_headers;
mod streams;
