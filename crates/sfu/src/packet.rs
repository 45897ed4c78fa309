//! A packet as the stream keeps it: what was received, taken apart once, and never changed again.
//!
//! A packet holds the payload and those header extensions that are passed on, and knows its place in
//! the output of its track. It has no header: each viewer gets one of its own (`header_profile.rs`).
//! What is known of it and its bytes are one piece of memory, which `spares.rs` uses again.

use std::time::Instant;

use rtp::extension::Extension;
use rtp::payload::Codec;

use super::clock::NtpRtpMapping;
use super::track::TrackIndex;

/// One received packet. Immutable once others can see it. `B` is `[u8]` wherever there is one.
#[derive(Debug)]
pub struct Packet<B: ?Sized = [u8]> {
    pub(crate) meta: PacketMeta,
    /// Bytes in use.
    len: u32,
    payload_at: u16,
    padded: bool,
    /// Extensions (each: which, length, data), payload, and one byte of padding when `padded`; then
    /// room that is not in use.
    bytes: B,
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
        &self.bytes[usize::from(self.payload_at)..self.len as usize]
    }

    /// Whether [`Packet::payload`] ends with padding, which the header must say.
    pub fn is_padded(&self) -> bool {
        self.padded
    }

    /// Bytes of payload, padding and extensions: what is equal for packets whose datagrams are.
    pub(crate) fn sent_len(&self) -> usize {
        self.len as usize
    }

    /// The extensions that are passed on.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = (Extension, &[u8])> {
        let mut rest = &self.bytes[..usize::from(self.payload_at)];
        std::iter::from_fn(move || {
            let (&[which, len], behind) = rest.split_first_chunk()?;
            let (data, behind) = behind.split_at_checked(usize::from(len))?;
            rest = behind;
            Some((*PASSED_ON.get(usize::from(which))?, data))
        })
    }

    /// Appends a byte of padding, unless it has padding already.
    pub(crate) fn pad(&mut self) {
        if !self.padded {
            self.bytes[self.len as usize] = 1;
            self.len += 1;
            self.padded = true;
        }
    }

    /// Makes it another packet. **`parts` and a byte of padding must fit into [`Packet::room`].**
    pub(crate) fn fill(&mut self, meta: PacketMeta, parts: &Parts<'_>) {
        let (extensions, payload) = (parts.extensions(), parts.payload);
        self.bytes[..extensions.len()].copy_from_slice(extensions);
        self.bytes[extensions.len()..][..payload.len()].copy_from_slice(payload);
        (self.payload_at, self.len) = (extensions.len() as u16, (extensions.len() + payload.len()) as u32);
        (self.padded, self.meta) = (false, meta);
        if meta.filler {
            self.pad();
        }
    }

    /// Bytes it has room for.
    pub(crate) fn room(&self) -> usize {
        self.bytes.len()
    }

    /// Memory it takes, its counts included.
    pub(crate) fn memory(&self) -> usize {
        COUNTS_BYTES + size_of_val(self)
    }
}

impl<const ROOM: usize> Packet<[u8; ROOM]> {
    /// One without content.
    pub(crate) fn empty(meta: PacketMeta) -> Self {
        Self { meta, len: 0, payload_at: 0, padded: false, bytes: [0; ROOM] }
    }
}

/// What the bytes of a packet are made of.
pub(crate) struct Parts<'a> {
    extensions: [u8; EXTENSION_BYTES_MAX],
    extensions_len: usize,
    payload: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Of the extensions those are taken that are passed on.
    pub(crate) fn new<'e>(
        extensions: impl Iterator<Item = (Extension, &'e [u8])>,
        payload: &'a [u8],
    ) -> Self {
        let mut parts = Self { extensions: [0; EXTENSION_BYTES_MAX], extensions_len: 0, payload };
        for (extension, data) in extensions {
            let Some(which) = PASSED_ON.iter().position(|passed_on| *passed_on == extension) else {
                continue;
            };
            let Ok(len) = u8::try_from(data.len()) else { continue };
            let room = &mut parts.extensions[parts.extensions_len..];
            if let Some(([to_which, to_len], rest)) = room.split_first_chunk_mut()
                && let Some(to_data) = rest.get_mut(..data.len())
            {
                (*to_which, *to_len) = (which as u8, len);
                to_data.copy_from_slice(data);
                parts.extensions_len += 2 + data.len();
            }
        }
        parts
    }

    /// Room a packet of them needs, with a byte of padding.
    pub(crate) fn room(&self) -> usize {
        self.extensions_len + self.payload.len() + 1
    }

    fn extensions(&self) -> &[u8] {
        &self.extensions[..self.extensions_len]
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

/// The counts of an `Arc`, which stand ahead of its content.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();
/// Memory of a packet besides its room.
pub(crate) const PACKET_OVERHEAD: usize = COUNTS_BYTES + size_of::<Packet<[u8; 0]>>();
