//! Clocks of a bridge in virtual time, with the real stream of packets between publisher and
//! bridge: drift, restarts, jumps, wraps and silence must not take audio and video apart. One
//! behaviour per file.

mod publisher;

mod bursts;
mod drift;
mod first_reports;
mod jumps;
mod restarts;
mod rtp_to_frame;
mod silence;
mod wraps;
