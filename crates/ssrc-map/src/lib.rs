//! Look-up from SSRC (RFC 3550 section 5.1) to a value, for media servers.
#![cfg_attr(not(feature = "std"), no_std)]
