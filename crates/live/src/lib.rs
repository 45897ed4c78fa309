//! Live streaming protocols as byte machines: RTMP, AMF0 and FLV; and MP4 files as a source of samples.
//!
//! Everything here takes bytes and returns bytes and decisions; [`mp4`] alone takes a reader, which is
//! the caller's, too. There are no sockets, no threads and no clock in this crate: the caller
//! moves the bytes, reads the time and decides who may publish or play. What a stream is,
//! who watches it and what is kept for late comers is the business of `relay`.
//!
//! Input comes from the network and is hostile until proven otherwise: nothing in this crate panics on
//! it, and each table, queue and buffer has a named limit that ends the session or drops the packet.
//!
//! - [`rtmp`]: handshake, chunk stream, commands; [`rtmp::server`] and [`rtmp::client`] are the two ends
//!   of a connection.
//! - [`flv`]: file and tag framing, and what can be read from a tag's body: codec, key frame,
//!   composition time, picture size, sample rate. RTMP carries the same bodies.
//! - [`mp4`]: samples of plain and fragmented files by decoding time, read forward, and FLV bodies of them.

pub mod flv;
pub mod mp4;
pub mod rtmp;
