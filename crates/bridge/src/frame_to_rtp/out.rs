//! What comes out of a bridge to packets, in memory the caller uses again.

use rtp::packetize::PacketSlab;

use crate::audio::CodedAudio;

/// What came out of a call. Calls append; the caller clears.
#[derive(Debug, Default)]
pub struct PacketsOut {
    pub(super) packets: PacketSlab,
    /// To be transcoded to Opus, in order.
    pub audio: Vec<CodedAudio>,
}

impl PacketsOut {
    /// RTP packets, whole, in order.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator {
        self.packets.iter()
    }

    /// Forgets what came out and keeps the memory.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.audio.clear();
    }
}
