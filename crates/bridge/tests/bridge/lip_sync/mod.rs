//! Lip sync from an RTMP publisher to a browser, in virtual time and through everything between:
//! the stream of frames, the bridge, the stream of packets, and a viewer that plays by its sender
//! reports. One behaviour per file.

mod browser;
mod world;

mod bridge_again;
mod drift;
mod first_reports;
mod jumps;
mod stalls;
