//! k datagrams to N UDP recipients in one call, and batches of datagrams received.
//!
//! [`Sender`] sends: a group of shared packets to many [`Recipient`]s, each with private bytes
//! around them and a [`Slot`] for the result; or a [`SendBatch`], into which datagrams were written
//! one by one. [`RecvBatch`] receives, [`peer_table::PeerTable`] finds sessions by address,
//! [`socket`] sets what a server's socket needs. How datagrams reach the network is chosen at run
//! time among the back ends of [`Config`].
//!
//! ```
//! use group_send::{Config, Recipient, Sender, Slot};
//! # let (one, other) = (std::net::UdpSocket::bind("127.0.0.1:0")?, std::net::UdpSocket::bind("127.0.0.1:0")?);
//! # let viewers = [one.local_addr()?, other.local_addr()?];
//! let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! let mut sender = Sender::new(&socket, &Config::default())?;
//! for reason in sender.not_chosen() {
//!     eprintln!("not by {reason}");
//! }
//! let frame: [&[u8]; 2] = [b"first packet", b"second packet"];
//! // Private to each recipient: two headers, one for each packet.
//! let headers: Vec<[[u8; 4]; 2]> = (0..2).map(|viewer| [[viewer, 0, 0, 1], [viewer, 0, 0, 2]]).collect();
//! let headers: Vec<[&[u8]; 2]> = headers.iter().map(|[first, second]| [&first[..], &second[..]]).collect();
//! let recipients: Vec<Recipient> = viewers
//!     .iter()
//!     .zip(&headers)
//!     .map(|(&destination, prepend)| Recipient { destination, prepend, append: &[] })
//!     .collect();
//! let mut slots = vec![Slot::default(); recipients.len()];
//! let progress = sender.send_group(&frame, &recipients, &mut slots);
//! assert_eq!((progress.sent, progress.failed, progress.blocked), (4, 0, false));
//! # let mut bytes = [0; 64];
//! # let len = other.recv(&mut bytes)?;
//! # assert_eq!(&bytes[..len], b"\x01\0\0\x01first packet");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A server that makes each recipient's datagrams itself, by encrypting them for example, writes
//! them where they are sent from, and sends once a turn of its loop:
//!
//! ```
//! use group_send::{BatchLimits, Config, Envelope, SendBatch, Sender};
//! # let listener = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! # let (viewer, now) = (listener.local_addr()?, 7);
//! let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! let mut sender = Sender::new(&socket, &Config::default())?;
//! let mut batch = SendBatch::new(BatchLimits::default());
//! // The stamp is the caller's: here the time, to drop by age.
//! let id = batch.reserve(Envelope { stamp: now, ..viewer.into() }, 1200)?;
//! batch.buffer(id)[..5].copy_from_slice(b"hello");
//! batch.set_len(id, 5);
//! let progress = sender.flush(&mut batch, usize::MAX);
//! if progress.blocked {
//!     batch.retain(|envelope, _| envelope.stamp + 100 > now);
//! }
//! # assert_eq!((progress.sent, batch.len()), (1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Features, none of them on by default, add back ends and change nothing else: `io-uring`,
//! `af-xdp`, `tc-clone` (needs clang to build). `internals` opens parsers to fuzzing and
//! system calls to simulations, and promises nothing.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod backend;
mod batch;
#[cfg(target_os = "linux")]
mod cmsg;
mod config;
mod datagram;
mod error;
#[cfg(all(target_os = "linux", any(feature = "af-xdp", feature = "tc-clone")))]
mod frame;
mod group;
#[cfg(feature = "internals")]
pub mod internals;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(all(target_os = "linux", any(feature = "af-xdp", feature = "tc-clone")))]
mod origin;
pub mod peer_table;
#[cfg(target_os = "linux")]
mod pending_errors;
#[cfg(any(test, not(target_os = "linux")))]
mod portable_recv;
mod recipient_order;
#[cfg(all(target_os = "linux", any(feature = "af-xdp", feature = "tc-clone")))]
mod recipients;
mod recv;
#[cfg(all(target_os = "linux", any(feature = "af-xdp", feature = "tc-clone", feature = "internals")))]
mod route;
mod sender;
pub mod socket;
#[cfg(target_os = "linux")]
pub mod steering;

#[cfg(target_os = "linux")]
pub use backend::{LentSender, SendFlags};
pub use batch::{BatchLimits, DatagramId, Envelope, Failure, ReserveError, SendBatch};
pub use config::{
    AfXdpConfig, BackendKind, Config, IoUringConfig, NotChosen, SetupError, TcCloneConfig, Traffic,
};
pub use error::SendError;
pub use group::{Progress, Recipient, Slot};
#[cfg(target_os = "linux")]
pub use netlink::qdisc::qdiscs;
pub use recv::{Ecn, Received, RecvBatch, RecvConfig};
pub use sender::Sender;

/// The first example of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
