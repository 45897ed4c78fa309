//! Sound between what RTMP and what WebRTC carries: AAC and MP3 to Opus, Opus to AAC.
//!
//! Decoding and encoding take a good part of a millisecond a frame: none of this belongs on a thread that serves sockets.
