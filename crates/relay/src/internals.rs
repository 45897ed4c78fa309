//! What fuzz targets need: control datagrams with any text in them, sealed as a node with the right
//! keys would.
//!
//! Behind the feature `internals`. No promise is kept about anything here.

use crate::control::ControlSealer;
use crate::keys::{ReceiverKeys, SenderKeys};

/// Seals control datagrams of one direction.
pub struct Forger(ControlSealer);

impl Forger {
    /// As the sender of these keys.
    pub fn sender(keys: SenderKeys) -> Self {
        let (_, sealer, _) = keys.build();
        Self(sealer)
    }

    /// As the receiver of these keys.
    pub fn receiver(keys: ReceiverKeys) -> Self {
        let (_, sealer, _) = keys.build();
        Self(sealer)
    }

    /// A datagram with this text, cut to what fits into one.
    pub fn seal(&mut self, text: &[u8]) -> Vec<u8> {
        self.0.seal_text(text)
    }
}
