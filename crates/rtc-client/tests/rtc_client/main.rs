//! Behaviour of this crate, one module each.

mod sender;
