//! Decoded samples, and packets as Symphonia takes them.

use symphonia_core::audio::GenericAudioBufferRef;
use symphonia_core::packet::PacketRef;
use symphonia_core::units::{Duration, Timestamp};

/// Decoded samples.
#[derive(Default)]
pub(crate) struct Pcm {
    /// Samples per second.
    pub(crate) rate: u32,
    /// Channels.
    pub(crate) channels: usize,
    /// Samples, interleaved, -1 to 1.
    pub(crate) samples: Vec<f32>,
    /// How many samples of each channel later audio comes out than the timestamps say.
    pub(crate) delay_samples: u32,
    scratch: Vec<f32>,
}

impl Pcm {
    /// Appends what Symphonia decoded.
    pub(crate) fn append(&mut self, buffer: &GenericAudioBufferRef<'_>) {
        buffer.copy_to_vec_interleaved(&mut self.scratch);
        self.samples.extend_from_slice(&self.scratch);
    }
}

/// A packet as Symphonia takes it; its times are not used.
pub(crate) fn packet(data: &[u8]) -> PacketRef<'_> {
    PacketRef::new(0, Timestamp::ZERO, Duration::ZERO, data)
}
