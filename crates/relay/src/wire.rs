//! Layout of datagrams, as drawn at the head of the crate. Parsing is strict, and reads no key.

use crate::limits::CONTROL_BYTES_MAX;
use srtp::aead::TAG_BYTES;

/// Bytes that differ per node, before the shared payload.
pub const PRIVATE_BYTES: usize = 16;

/// Bytes that sealing adds to an RTP packet: index, length of the padding, tag.
pub const SHARED_BYTES_ADDED: usize = INDEX_BYTES + 1 + TAG_BYTES;

pub(crate) const INDEX_BYTES: usize = 4;

/// First byte of each kind of datagram: version 1.
const MEDIA: u8 = 0xd1;
pub(crate) const TO_SENDER: u8 = 0xd2;
pub(crate) const TO_RECEIVER: u8 = 0xd3;

/// Kind and counter of a control datagram.
pub(crate) const CONTROL_HEADER_BYTES: usize = 8;

/// Shortest packet that is sealed: the fixed part of an RTCP header with its SSRC.
pub(crate) const PACKET_BYTES_MIN: usize = 8;

/// Which half of a node a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// [`Receiver::handle_datagram`](crate::Receiver::handle_datagram).
    Receiver,
    /// [`Sender::handle_control`](crate::Sender::handle_control).
    Sender,
}

/// Which half of this node a datagram is for, by its first byte; `None` if it is no relay datagram of
/// this version.
#[inline]
pub fn destination(datagram: &[u8]) -> Option<Destination> {
    match *datagram.first()? {
        MEDIA | TO_RECEIVER => Some(Destination::Receiver),
        TO_SENDER => Some(Destination::Sender),
        _ => None,
    }
}

/// The private bytes of a media datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Private {
    pub(crate) epoch: u8,
    pub(crate) handle: u16,
    /// Lower half of the link sequence number.
    pub(crate) sequence: u32,
    pub(crate) authenticator: u64,
}

impl Private {
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; PRIVATE_BYTES] {
        let [h0, h1] = self.handle.to_be_bytes();
        let [s0, s1, s2, s3] = self.sequence.to_be_bytes();
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.authenticator.to_be_bytes();
        [MEDIA, self.epoch, h0, h1, s0, s1, s2, s3, a0, a1, a2, a3, a4, a5, a6, a7]
    }
}

/// A media datagram taken apart, nothing of it verified.
#[derive(Debug)]
pub(crate) struct Media<'a> {
    pub(crate) private: Private,
    pub(crate) index: u32,
    /// Sealed packet, padding and its length.
    pub(crate) text: &'a mut [u8],
    pub(crate) tag: [u8; TAG_BYTES],
}

impl<'a> Media<'a> {
    /// `None` if it is none, or too short to hold a packet.
    #[inline]
    pub(crate) fn parse(datagram: &'a mut [u8]) -> Option<Self> {
        let (private, shared) = datagram.split_first_chunk_mut::<PRIVATE_BYTES>()?;
        let [MEDIA, epoch, h0, h1, s0, s1, s2, s3, authenticator @ ..] = *private else { return None };
        let (index, sealed) = shared.split_first_chunk_mut::<INDEX_BYTES>()?;
        let (text, tag) = sealed.split_last_chunk_mut::<TAG_BYTES>()?;
        (text.len() > PACKET_BYTES_MIN).then_some(Self {
            private: Private {
                epoch,
                handle: u16::from_be_bytes([h0, h1]),
                sequence: u32::from_be_bytes([s0, s1, s2, s3]),
                authenticator: u64::from_be_bytes(authenticator),
            },
            index: u32::from_be_bytes(*index),
            text,
            tag: *tag,
        })
    }
}

/// What a media datagram shares with those of other nodes, nothing of it verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) epoch: u8,
    pub(crate) index: u32,
    /// The first bytes of the tag.
    pub(crate) tag: u64,
    /// All of it.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Shared<'a> {
    /// `None` if it is none, or too short to hold a packet.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (&[MEDIA, epoch, ..], bytes) = datagram.split_first_chunk::<PRIVATE_BYTES>()? else {
            return None;
        };
        let (index, sealed) = bytes.split_first_chunk()?;
        let (text, tag) = sealed.split_last_chunk::<TAG_BYTES>()?;
        (text.len() > PACKET_BYTES_MIN).then_some(Self {
            epoch,
            index: u32::from_be_bytes(*index),
            tag: first_of(tag),
            bytes,
        })
    }
}

/// The part of a tag that authenticators cover.
#[inline]
pub(crate) fn first_of(tag: &[u8; TAG_BYTES]) -> u64 {
    let [first @ .., _, _, _, _, _, _, _, _] = *tag;
    u64::from_be_bytes(first)
}

/// A control datagram taken apart, nothing of it verified.
#[derive(Debug)]
pub(crate) struct Control<'a> {
    pub(crate) header: [u8; CONTROL_HEADER_BYTES],
    pub(crate) counter: u64,
    pub(crate) text: &'a mut [u8],
    pub(crate) tag: [u8; TAG_BYTES],
}

impl<'a> Control<'a> {
    /// `None` if it is none of this kind, or its length cannot be right.
    pub(crate) fn parse(datagram: &'a mut [u8], kind: u8) -> Option<Self> {
        if datagram.len() > CONTROL_BYTES_MAX {
            return None;
        }
        let (header, sealed) = datagram.split_first_chunk_mut::<CONTROL_HEADER_BYTES>()?;
        if header[0] != kind {
            return None;
        }
        let (text, tag) = sealed.split_last_chunk_mut::<TAG_BYTES>()?;
        let counter = u64::from_be_bytes(*header) & COUNTER_MAX;
        (!text.is_empty()).then_some(Self { header: *header, counter, text, tag: *tag })
    }
}

/// Kind and counter as they are sent.
pub(crate) fn control_header(kind: u8, counter: u64) -> [u8; CONTROL_HEADER_BYTES] {
    (u64::from(kind) << 56 | counter & COUNTER_MAX).to_be_bytes()
}

/// Control datagrams of one direction: 56 bits.
pub(crate) const COUNTER_MAX: u64 = (1 << 56) - 1;

/// The number nearest to `near` whose lower half is `low`; never below 0.
#[inline]
pub(crate) fn extend(low: u32, near: u64) -> u64 {
    let distance = i64::from(low.wrapping_sub(near as u32).cast_signed());
    near.checked_add_signed(distance).unwrap_or(u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_number_is_found_across_the_wrap() {
        for (low, near, expected) in [
            (0, 0, 0),
            (5, 3, 5),
            (2, 0xffff_fffe, 0x1_0000_0002), // the next one rolls over
            (0xffff_ffff, 0x1_0000_0001, 0xffff_ffff), // a late one before it
            (0xffff_ffff, 0, 0xffff_ffff),   // nothing is below 0
            (7, 0x5_0000_0009, 0x5_0000_0007),
        ] {
            assert_eq!(extend(low, near), expected, "{low:x} near {near:x}");
        }
    }

    #[test]
    fn private_bytes_come_back_as_they_were() {
        let private =
            Private { epoch: 7, handle: 0x1234, sequence: 0x89ab_cdef, authenticator: 0x0123_4567_89ab_cdef };
        let mut datagram = private.to_bytes().to_vec();
        datagram.extend([0, 0, 0, 9]);
        datagram.extend([1; 9]);
        datagram.extend([2; 16]);
        let media = Media::parse(&mut datagram).unwrap();
        assert_eq!((media.private, media.index), (private, 9));
        assert_eq!((&*media.text, media.tag), (&[1; 9][..], [2; 16]));
        for len in 0..datagram.len() {
            assert!(Media::parse(&mut datagram[..len]).is_none(), "{len} bytes");
        }
    }
}
