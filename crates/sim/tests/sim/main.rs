//! Whole servers in virtual time.

mod contract;
mod found;
mod replay;
mod seeds;
mod silence;
