//! A connected peer that another process goes on with.
//!
//! ICE goes on as it was. DTLS does not: its library keeps the keys of the association to itself. What it was
//! needed for, the keys of media, is there; later only its alerts are missed. A close_notify of the peer is
//! not understood, so that its session ends when consent does; and none can be sent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Path;
use crate::sdp::IceCredentials;

/// What goes over to the other process, beside the keys of media.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Established {
    /// Our ICE credentials.
    pub local_ice: IceCredentials,
    /// The peer's.
    pub remote_ice: IceCredentials,
    /// Where media goes.
    pub path: Path,
    /// How long ago the last check came over it.
    pub checked: Duration,
    /// The path whose host has shown that it receives what is sent there.
    pub proven: Option<Path>,
    /// Checks that were taken lately, by transaction and path, so that a replay is known.
    pub seen: Vec<(u32, u32)>,
}
