//! The demo channel.
