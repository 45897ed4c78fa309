//! One WebRTC peer as a state machine: it is given datagrams and the time, and gives datagrams and events.
//!
//! Knows no other peers, sockets or clock.
