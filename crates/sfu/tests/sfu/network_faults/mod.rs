//! A publisher, the packets lane and viewers, joined by bad links in virtual time.
//!
//! One file per fault. `world` is the server's loop without sockets, with SRTP to the viewers;
//! `publisher` and `viewer` behave as browsers do: one answers NACKs and key-frame requests, the
//! other asks for what it misses. Every run is decided by the seeds of its links.

mod bursts;
mod jitter_and_order;
mod loss;
mod publisher;
mod repairs;
mod slow_viewer;
mod viewer;
mod world;
mod wraps;
