//! Tests and benchmarks only: a virtual clock, links that lose, delay, reorder and duplicate datagrams,
//! the [`kernel`] of simulated hosts with TCP, UDP, event queues and disks, [rings](ring) between
//! threads, and a [`bottleneck`] with a [bulk flow](bulk_tcp) beside.
//!
//! ```
//! use std::time::Duration;
//! use netsim::{Clock, Link, LinkConfig};
//!
//! let mut clock = Clock::new();
//! let config = LinkConfig { loss: 0.05, delay: Duration::from_millis(40), ..LinkConfig::default() };
//! let mut link = Link::new(config, 7);
//! link.send(clock.now(), b"ping".to_vec());
//! while let Some(at) = link.next_timeout() {
//!     clock.advance_to(at);
//!     while let Some(datagram) = link.poll(clock.now()) {
//!         assert_eq!(datagram, b"ping");
//!     }
//! }
//! ```
//!
//! A test is a loop: advance the clock to the earliest [`earliest`] of all parts, let each handle
//! it, move what they send into links. Everything is decided by the seed of each link, so that a
//! failing run fails again; nothing sleeps and no socket is opened. What a datagram contains does
//! not matter here.

pub mod bottleneck;
pub mod bulk_tcp;
mod clock;
mod disk;
mod hash;
pub mod kernel;
mod link;
mod random;
pub mod ring;

pub use clock::{Clock, earliest};
pub use hash::{FastHasher, FastMap};
pub use link::{Burst, Link, LinkConfig, Payload, Statistics};
pub use random::Random;
