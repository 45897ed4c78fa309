//! How much one WebRTC viewer's path carries: a send-side congestion controller without socket,
//! clock or thread.
//!
//! A [`Controller`] belongs to one transport. **It is told each packet when it leaves
//! ([`Controller::sent`]), each report of the receiver ([`Controller::feedback`]), and the time
//! when [`Controller::next_timeout`] comes.** It says what the path carries for longer
//! ([`Controller::estimate`], to choose layers by), what to send now ([`Controller::target`]), and
//! what may leave at this moment ([`Controller::pacing`]), which includes the packets of probes.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use congestion::{Config, Controller, Ecn, Kind, PacketReport};
//!
//! let start = Instant::now();
//! let mut controller = Controller::new(Config::default(), start);
//! let mut reports = Vec::new();
//! for number in 0..200u16 {
//!     let at = start + Duration::from_millis(10) * u32::from(number);
//!     if controller.pacing(at).bytes > 0 {
//!         controller.sent(number, 1200, at, Kind::Video);
//!     }
//!     // 20 ms later, by a clock of the receiver's own.
//!     let arrival_us = Some(10_000 * i64::from(number) + 20_000);
//!     reports.push(PacketReport { number, arrival_us, ecn: Ecn::None });
//!     if number % 10 == 9 {
//!         controller.feedback(reports.drain(..), at + Duration::from_millis(40));
//!     }
//! }
//! assert!(controller.estimate() > 900_000, "what arrives without waiting is carried");
//! ```
//!
//! # How it decides
//!
//! - **Delay.** Packets' one-way delays against the least of ten seconds are what they wait. More
//!   than 8 ms and half of a packet's own time in two reports, or twice as much at the end of one,
//!   is a queue; more than that where waits jump, as behind radios. What the path carries is then
//!   seen directly: packets that waited arrive at its pace. The rate becomes 92 % of that, less
//!   where it changes often, and is held below it until the queue is gone; how many bytes are under
//!   way says when. (Ideas: LEDBAT, RFC 6817; NADA, RFC 8698; Copa, NSDI 2018; BBR;
//!   draft-ietf-rmcat-gcc-02 for the overall shape.)
//! - **Loss.** Losses without a queue are tried: does a slightly lower rate lose less? If not they
//!   are the link's, at any rate. Eight in a row are an outage. Either way the
//!   estimate is at most 1.5 times of what was seen to arrive in the last ten seconds; probes and bursts
//!   of a picture are faster for their moment.
//! - **Probes.** At the start, after a fall, and while the source could use more than is known to
//!   be there: five packets or 30 ms (50 from 0.5 to 1 Mbit/s), faster than the estimate; the next
//!   one at once if it arrived as fast. Pairs of packets that left together show earlier whether
//!   that is worth trying.
//! - **Others.** A deep queue that does not get shorter while we send much less than the bottleneck
//!   carries is someone else's, as is any that moves but has not gone after two seconds: then losses
//!   decide, as in TCP (RFC 5681), until it has gone. After 8 s it is looked again, then less often.
//!   A queue that does not move is a longer route.
//! - **Marks** (RFC 9331): the rate falls by half of the share that is marked, once a round trip,
//!   and bursts are avoided. Packets leave as ECN-capable while they arrive so
//!   ([`Controller::is_ecn_usable`]).
//! - **Silence.** Half the rate each 0.5 s without a report, nothing after 10 s (RFC 8083 allows
//!   three intervals of 5 s). What was known before counts half when reports come again.
//! - **Receivers that report no packets:** REMB, or else the losses of receiver reports. Neither raises
//!   the rate above 1.5 times of what receiver reports lately show to have arrived.
//!
//! A report is believed as far as it can be checked: about packets that were sent, once each, at
//! times that can be. A receiver that lies can have what it pretends to get, up to
//! [`Config::ceiling`] and what the source has to send.
//!
//! Left out: which layer is sent and what is thinned, which is for the owner of the stream; numbers
//! of RFC 8888 (per SSRC), for which the caller keeps transport-wide ones.

mod controller;
mod delay;
mod ecn;
mod history;
mod loss;
mod meter;
mod probe;

pub use controller::{Allowance, Bottleneck, Config, Controller, Ecn, Kind, PacketReport, Snapshot};
