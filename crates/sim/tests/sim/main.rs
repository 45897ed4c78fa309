//! Whole servers in virtual time.

mod contract;
mod replay;
mod seeds;
