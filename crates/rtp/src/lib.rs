//! RTP and RTCP (RFC 3550) wire formats, header extensions (RFC 8285), and what a server must know of payloads.
//!
//! Knows no keys, sessions or time.
