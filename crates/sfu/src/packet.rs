//! A packet as the stream keeps it: what was received, taken apart once, and never changed again.
//!
//! It holds the payload and those header extensions that are passed on, and knows its place in the
//! output of its track. It has no header: each viewer gets one of its own (`header_profile.rs`).
//! Packets are shared by reference, between the cache and the workers; [`Pool`] uses their memory
//! again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rtp::extension::Extension;
use rtp::payload::Codec;

use super::clock::NtpRtpMapping;
use super::inputs::TrackIndex;

/// One received packet. Immutable once others can see it.
#[derive(Debug, Clone)]
pub struct Packet {
    /// Extensions (each: which, length, data), payload, and one byte of padding when `padded`.
    buffer: Vec<u8>,
    payload_at: u16,
    pub(crate) meta: PacketMeta,
    padded: bool,
}

/// What is known of a packet besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketMeta {
    pub(crate) track: TrackIndex,
    /// Which publisher: counts up with every one that starts.
    pub(crate) epoch: u64,
    /// Position in the output of the track, continuous over publishers and layers. Its low 16 bits
    /// are sent.
    pub(crate) number: u64,
    /// Output timestamp.
    pub(crate) timestamp: u32,
    pub(crate) clock_rate: u32,
    pub(crate) arrival: Instant,
    pub(crate) codec: Codec,
    pub(crate) marker: bool,
    /// Belongs to a frame a decoder can start with.
    pub(crate) key_frame: bool,
    /// Fills a number that turned out to be the publisher's padding. Has no payload.
    pub(crate) filler: bool,
    /// The clock mapping of the track, if the publisher has reported.
    pub(crate) mapping: Option<NtpRtpMapping>,
}

/// Bytes of extensions a packet carries on; elements beyond are left out. A dependency descriptor
/// with its structure takes up to about 100.
pub(crate) const EXTENSION_BYTES_MAX: usize = 192;

impl Packet {
    /// The track it belongs to.
    pub fn track(&self) -> TrackIndex {
        self.meta.track
    }

    /// Position in the output of its track where it was received, continuous over publishers and
    /// layers.
    pub fn number(&self) -> u64 {
        self.meta.number
    }

    /// Which publisher of the stream sent it: counts up.
    pub fn epoch(&self) -> u64 {
        self.meta.epoch
    }

    /// When it arrived.
    pub fn arrival(&self) -> Instant {
        self.meta.arrival
    }

    /// Its codec.
    pub fn codec(&self) -> Codec {
        self.meta.codec
    }

    /// Output timestamp on the worker that received it, in units of [`Packet::clock_rate`]:
    /// continuous over publishers and layers, wraps.
    pub fn timestamp(&self) -> u32 {
        self.meta.timestamp
    }

    /// Units of its timestamp in a second.
    pub fn clock_rate(&self) -> u32 {
        self.meta.clock_rate
    }

    /// The marker bit: the last packet of a frame of video, the first of audio after silence.
    pub fn marker(&self) -> bool {
        self.meta.marker
    }

    /// When some timestamp of its track was captured, by our clock, as far as was known when it
    /// arrived: from the publisher's sender reports, or guessed if it sends none for the first 5 s.
    pub fn clock_mapping(&self) -> Option<NtpRtpMapping> {
        self.meta.mapping
    }

    /// Whether it belongs to a frame a decoder can start with.
    pub fn is_key_frame(&self) -> bool {
        self.meta.key_frame
    }

    /// The payload without padding; empty for a packet that fills the place of the publisher's
    /// padding.
    pub fn media(&self) -> &[u8] {
        let payload = self.payload();
        &payload[..payload.len() - usize::from(self.padded)]
    }

    /// What follows the header: the payload and, if [`Packet::is_padded`], the padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer[usize::from(self.payload_at)..]
    }

    /// Whether [`Packet::payload`] ends with padding, which the header must say.
    pub fn is_padded(&self) -> bool {
        self.padded
    }

    /// Bytes of payload, padding and extensions: what is equal for packets whose datagrams are.
    pub(crate) fn sent_len(&self) -> usize {
        self.buffer.len()
    }

    /// The extensions that are passed on.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = (Extension, &[u8])> {
        let mut rest = &self.buffer[..usize::from(self.payload_at)];
        std::iter::from_fn(move || {
            let (&[which, len], behind) = rest.split_first_chunk()?;
            let (data, behind) = behind.split_at_checked(usize::from(len))?;
            rest = behind;
            Some((*PASSED_ON.get(usize::from(which))?, data))
        })
    }

    /// Appends a byte of padding; `false` if it has padding already.
    pub(crate) fn pad(&mut self) -> bool {
        if !self.padded {
            self.buffer.push(1);
            self.padded = true;
            return true;
        }
        false
    }

    fn room(&self) -> usize {
        self.buffer.capacity()
    }
}

/// Extensions that mean the same behind this server as before it. MID is written for each viewer;
/// RID, send time and transport-wide numbers describe the path from the publisher to this server
/// and end here.
const PASSED_ON: [Extension; 5] = [
    Extension::AudioLevel,
    Extension::VideoOrientation,
    Extension::DependencyDescriptor,
    Extension::PlayoutDelay,
    Extension::AbsCaptureTime,
];

/// Memory of packets that are no longer needed, used again for new ones.
///
/// A packet others still hold (another worker, a batch under way) waits its turn and is given up if
/// there are too many.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    classes: [VecDeque<Arc<Packet>>; CLASSES.len()],
}

impl Pool {
    /// A packet with this content.
    pub(crate) fn packet<'a>(
        &mut self,
        meta: PacketMeta,
        extensions: impl Iterator<Item = (Extension, &'a [u8])>,
        payload: &[u8],
    ) -> Arc<Packet> {
        // Extensions are a few bytes as a rule; the byte of padding must always fit.
        let room = payload.len() + 32;
        let class = CLASSES.iter().position(|class| room <= *class).unwrap_or(CLASSES.len() - 1);
        let mut known = self.classes[class].pop_front();
        if let Some(held) = known.take_if(|known| Arc::get_mut(known).is_none()) {
            self.keep(class, held);
        }
        let mut known = known.unwrap_or_else(|| {
            let buffer = Vec::with_capacity(CLASSES[class].max(room));
            Arc::new(Packet { buffer, payload_at: 0, meta, padded: false })
        });
        let packet = Arc::get_mut(&mut known).expect("it is new, or was found to have no other holder");
        packet.buffer.clear();
        for (extension, data) in extensions {
            let Some(which) = PASSED_ON.iter().position(|passed_on| *passed_on == extension) else {
                continue;
            };
            let Ok(len) = u8::try_from(data.len()) else { continue };
            if packet.buffer.len() + 2 + data.len() <= EXTENSION_BYTES_MAX {
                packet.buffer.extend_from_slice(&[which as u8, len]);
                packet.buffer.extend_from_slice(data);
            }
        }
        packet.payload_at = packet.buffer.len() as u16;
        packet.buffer.extend_from_slice(payload);
        (packet.padded, packet.meta) = (false, meta);
        if meta.filler {
            packet.pad();
        }
        known
    }

    /// Takes back a packet.
    pub(crate) fn recycle(&mut self, packet: Arc<Packet>) {
        // Only the last holder may use it again; with others about it is theirs to free.
        let class = CLASSES.iter().rposition(|class| *class <= packet.room());
        if let Some(class) = class {
            self.keep(class, packet);
        }
    }

    fn keep(&mut self, class: usize, packet: Arc<Packet>) {
        let known = &mut self.classes[class];
        if known.len() < KEPT_PER_CLASS {
            known.push_back(packet);
        }
    }

    /// Frees what is kept.
    pub(crate) fn clear(&mut self) {
        self.classes = Default::default();
    }
}

/// Sizes of buffers, in bytes: audio, small and full packets of video. Rounding costs at most half
/// a packet, and video has mostly full ones.
const CLASSES: [usize; 5] = [128, 256, 512, 896, 1_280];

/// Unused packets kept for each size. In the steady state as many leave the cache as enter it;
/// batches differ.
const KEPT_PER_CLASS: usize = 16;
