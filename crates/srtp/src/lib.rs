//! SRTP and SRTCP for servers (RFC 3711, RFC 7714, RFC 6188): protect and unprotect packets of many streams.
//!
//! ```
//! use srtp::{Config, InboundContext, MasterKey, OutboundContext, Profile};
//!
//! let key = MasterKey::new(Profile::AeadAes128Gcm, &[7; 16], &[9; 12])?;
//! let mut sender = OutboundContext::new(&Config::default(), std::slice::from_ref(&key))?;
//! let mut receiver = InboundContext::new(&Config::default(), std::slice::from_ref(&key))?;
//!
//! let header = [0x80, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 42];
//! let mut packet = [0; 1500];
//! let len = sender.protect_rtp_from(&header, b"shared by all viewers", &mut packet)?;
//! let len = receiver.unprotect_rtp(&mut packet[..len])?;
//! assert_eq!(&packet[12..len], b"shared by all viewers");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`OutboundContext`] and [`InboundContext`] are the two directions; each serves many SSRCs of one sender.
//! - A packet is protected from a plaintext that others share straight into its destination, or in
//!   place; one call protects one plaintext for many recipients, or many packets of one
//!   ([`protect_rtp_batch`]). A server that writes packets one by one and sends them together leaves their
//!   tags to a [`TagQueue`].
//! - A receiver looks into the replay window, authenticates, then changes its state, in this order,
//!   and only an authentic packet begins a stream. A packet that is refused is left as it was.
//! - [`aead`] has the AES-GCM keys beneath, for datagrams of other formats.
//! - Nothing is allocated per packet. Ciphers are those of well-kept libraries, or vector code
//!   where it is much faster ([`Backend`]).
//!
//! Left out: header extension encryption (RFC 6904), Cryptex (RFC 9335), key derivation rates other
//! than 0, <From, To> key lifetimes, unencrypted and unauthenticated profiles.

pub mod aead;
mod backend;
mod batch;
mod cipher;
mod config;
mod error;
mod inbound;
#[cfg(feature = "internals")]
pub mod internals;
mod key_derivation;
mod master_key;
mod outbound;
mod packet;
mod position;
mod profile;
mod sent_packets;
mod session_key;
mod tags;

pub use backend::{Backend, Unsupported};
pub use batch::{
    InboundSet, Incoming, OutboundSet, Outgoing, Plaintext, protect_rtp_batch, unprotect_rtp_batch,
};
pub use config::Config;
pub use error::{ProtectError, SetupError, UnprotectError};
pub use inbound::InboundContext;
pub use master_key::MasterKey;
pub use outbound::OutboundContext;
pub use position::{InboundPosition, OutboundPosition, UsedIndices};
pub use profile::Profile;
pub use tags::{TagPlaces, TagQueue};

/// A worker thread may be handed a context that was made on another.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<OutboundContext>();
    is_send_and_sync::<InboundContext>();
};

/// The first example of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
