//! Test only: whole servers in virtual time, from a seed.
//!
//! The workers are the real ones (`sim-worker` has the sources of `worker`), several of a server and several
//! servers in one thread. Their network is `netsim`'s kernel; clients are built on the client machines of
//! `rtmp` and `rtc-test`. [`swarm::Config::of`] draws a simulation from a seed, and a seed that finds
//! something finds it again. docs/simulation.md says how to write an actor, an invariant, a fault.

pub mod actors;
pub mod checker;
pub mod content;
pub mod ledger;
pub mod server;
pub mod swarm;
pub mod world;
