//! Headers for viewers: one template per packet and profile, patched for each viewer.
//!
//! Viewers whose header extensions have the same ids, whose m-line has the same MID and whose
//! codecs have the same payload types share a profile; in practice there is one for each browser.
//! Everything but SSRC, sequence number and (for joiners) timestamp is the same for all viewers of
//! a profile, and written once.
//!
//! All of this is chosen by the viewers' offers, so each could have a profile of its own: which of
//! them have templates is decided in `header_profiles.rs`.

use rtp::extension::{BlockWriter, Extension, ExtensionMap, Form};
use rtp::{FIXED_HEADER_LEN, HeaderFields};

use super::inputs::{ViewerPayload, ViewerTrackInput};
use super::packet::{EXTENSION_BYTES_MAX, Packet};

/// Longest header of an outgoing packet, in bytes; a multiple of 32.
pub const HEADER_LEN_MAX: usize = 256;

// Fixed header, head of the block, MID with its head, padding, and what a packet carries on.
const _: () = assert!(FIXED_HEADER_LEN + 4 + 2 + MID_LEN_MAX + 3 + EXTENSION_BYTES_MAX <= HEADER_LEN_MAX);

/// Longest MID that is sent, in bytes. Longer ones are left out, and the viewer tells tracks apart
/// by SSRC alone.
const MID_LEN_MAX: usize = 32;

/// What the headers of some viewers have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderProfile {
    mid: String,
    payloads: Vec<ViewerPayload>,
    extensions: ExtensionMap,
    form: Form,
}

/// The header fields that differ by viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewerFields {
    pub(crate) ssrc: u32,
    pub(crate) sequence_number: u16,
    pub(crate) timestamp: u32,
    /// Its timestamp is not the packet's own, so extensions that refer to it are left out.
    pub(crate) is_catch_up: bool,
}

impl HeaderProfile {
    pub(crate) fn new(input: &ViewerTrackInput) -> Self {
        Self {
            mid: input.mid.clone(),
            payloads: input.payloads.clone(),
            extensions: input.extensions,
            form: input.form,
        }
    }

    /// The payload types for a packet; `None` if viewers of this profile do not take its codec.
    pub(crate) fn payload_of(&self, packet: &Packet) -> Option<&ViewerPayload> {
        self.payloads.iter().find(|payload| payload.codec == packet.meta.codec)
    }

    /// Writes the header of `packet`; returns its length, or `None` if viewers of this profile do
    /// not take its codec.
    pub(crate) fn header(
        &self,
        packet: &Packet,
        to: ViewerFields,
        out: &mut [u8; HEADER_LEN_MAX],
    ) -> Option<usize> {
        let payload_type = self.payload_of(packet)?.payload_type;
        Some(self.write(packet, to, payload_type, out))
    }

    /// Writes the header of a retransmission of `packet`; `None` if viewers of this profile take
    /// none (RFC 4588).
    pub(crate) fn rtx_header(
        &self,
        packet: &Packet,
        to: ViewerFields,
        out: &mut [u8; HEADER_LEN_MAX],
    ) -> Option<usize> {
        let payload_type = self.payload_of(packet)?.rtx?;
        Some(self.write(packet, to, payload_type, out))
    }

    fn write(
        &self,
        packet: &Packet,
        to: ViewerFields,
        payload_type: u8,
        out: &mut [u8; HEADER_LEN_MAX],
    ) -> usize {
        let mut block = [0; HEADER_LEN_MAX - FIXED_HEADER_LEN];
        let mut writer = BlockWriter::new(&mut block, self.form);
        // What does not fit a viewer's form is left out: the media is worth more than the
        // extension.
        if let Some(id) = self.extensions.id_of(Extension::Mid)
            && !self.mid.is_empty()
            && self.mid.len() <= MID_LEN_MAX
        {
            let _ = writer.push(id, self.mid.as_bytes());
        }
        for (extension, data) in packet.extensions() {
            let is_left_out = match extension {
                Extension::AbsCaptureTime => to.is_catch_up,
                // Its structure, which comes with key frames, fits the two-byte form only, and
                // without it what follows cannot be read: all or none.
                Extension::DependencyDescriptor => self.form == Form::OneByte,
                _ => false,
            };
            if is_left_out {
                continue;
            }
            if let Some(id) = self.extensions.id_of(extension) {
                let _ = writer.push(id, data);
            }
        }
        let len = writer.finish();
        let fields = HeaderFields {
            marker: packet.meta.marker,
            payload_type,
            sequence_number: to.sequence_number,
            timestamp: to.timestamp,
            ssrc: to.ssrc,
        };
        let len = fields.write(&block[..len], out);
        if packet.is_padded() {
            out[0] |= PADDING_BIT;
        }
        len
    }
}

/// P in the first byte of an RTP header (RFC 3550 section 5.1).
const PADDING_BIT: u8 = 0x20;

/// A header ready to be patched. Empty for viewers that do not take the packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderTemplate {
    pub(crate) bytes: [u8; HEADER_LEN_MAX],
    pub(crate) len: u16,
}

impl HeaderTemplate {
    pub(crate) const EMPTY: Self = Self { bytes: [0; HEADER_LEN_MAX], len: 0 };

    /// Writes the header with this SSRC and sequence number to `out`.
    #[inline]
    pub(crate) fn write(&self, ssrc: u32, sequence_number: u16, out: &mut [u8; HEADER_LEN_MAX]) -> usize {
        let len = usize::from(self.len);
        // Most headers are shorter than this; copying a fixed length is one or two instructions.
        out[..SHORT].copy_from_slice(&self.bytes[..SHORT]);
        if len > SHORT {
            out[SHORT..].copy_from_slice(&self.bytes[SHORT..]);
        }
        out[2..4].copy_from_slice(&sequence_number.to_be_bytes());
        out[8..12].copy_from_slice(&ssrc.to_be_bytes());
        len
    }
}

/// Bytes of a header that are copied without looking at its length.
const SHORT: usize = 32;
