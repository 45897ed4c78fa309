//! RTP header extensions (RFC 8285): which there are, which id each has in a session, reading,
//! writing.
//!
//! ```text
//! one-byte form   |    0xbede     |     words     |  then |  id |len-1| data ...      id 1..=14, 1..=16 bytes
//! two-byte form   | 0x100 |appbits|     words     |  then |   id    |   len   | data  id 1..=255, 0..=255 bytes
//! ```
//! Zero bytes between elements are padding. What the data of an element says is in `values` and
//! `dependency_descriptor`; which ids a session has is negotiated by SDP, elsewhere.

mod dependency_descriptor;
mod values;

use std::error::Error;
use std::fmt;
use std::iter::FusedIterator;

use serde::{Deserialize, Serialize};

pub use dependency_descriptor::{
    CHAINS_MAX, DECODE_TARGETS_MAX, DESCRIPTOR_LEN_MAX, DecodeTarget, DependencyDescriptor, DependencyError,
    DependencyReader, DependencyStructure, DescriptorWriteError, FrameDependencies, Indication, LAYERS_MAX,
    Layer, REFERENCES_MAX, TEMPLATES_MAX, TargetSelector, shift_frame_number, write_active_decode_targets,
};
pub use values::{
    AbsoluteCaptureTime, AudioLevel, PlayoutDelay, VideoOrientation, abs_send_time, abs_send_time_from_ntp,
    text, transport_sequence_number,
};

/// The header extensions this server takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Extension {
    /// The m-line of the packet (RFC 9143 section 15).
    Mid,
    /// Which simulcast layer (RFC 8852 section 3.1).
    Rid,
    /// The simulcast layer of a repair packet (RFC 8852 section 3.2).
    RepairedRid,
    /// Client-to-mixer audio level (RFC 6464).
    AudioLevel,
    /// When the packet was sent, 24 bits of NTP time.
    AbsSendTime,
    /// Transport-wide sequence number (draft-holmer-rmcat-transport-wide-cc-extensions-01).
    TransportCc,
    /// Coordination of video orientation, CVO (3GPP TS 26.114 section 7.4.5).
    VideoOrientation,
    /// Frames and layers beside the payload (AV1 RTP specification, appendix A).
    DependencyDescriptor,
    /// Least and greatest playout delay.
    PlayoutDelay,
    /// When the first byte of the frame was captured.
    AbsCaptureTime,
}

impl Extension {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Mid,
        Self::Rid,
        Self::RepairedRid,
        Self::AudioLevel,
        Self::AbsSendTime,
        Self::TransportCc,
        Self::VideoOrientation,
        Self::DependencyDescriptor,
        Self::PlayoutDelay,
        Self::AbsCaptureTime,
    ];

    /// Its name in `a=extmap`.
    pub fn uri(self) -> &'static str {
        match self {
            Self::Mid => "urn:ietf:params:rtp-hdrext:sdes:mid",
            Self::Rid => "urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id",
            Self::RepairedRid => "urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id",
            Self::AudioLevel => "urn:ietf:params:rtp-hdrext:ssrc-audio-level",
            Self::AbsSendTime => "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time",
            Self::TransportCc => "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01",
            Self::VideoOrientation => "urn:3gpp:video-orientation",
            Self::DependencyDescriptor => {
                "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension"
            }
            Self::PlayoutDelay => "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay",
            Self::AbsCaptureTime => "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time",
        }
    }

    /// The extension of that name, if it is one of ours.
    pub fn from_uri(uri: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|extension| extension.uri() == uri)
    }
}

/// Ids of the header extensions of one m-line, both ways round. Ids are `1..=15`; each extension has
/// at most one. Ids from 15 exist in the two-byte form only, and browsers do not offer them.
///
/// Two small arrays, copied with the track they belong to: a lookup is an index, not a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u8, Extension)>", into = "Vec<(u8, Extension)>")]
pub struct ExtensionMap {
    by_id: [Option<Extension>; 16],
    /// 0: none.
    ids: [u8; Extension::ALL.len()],
}

impl ExtensionMap {
    /// A map without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `extension` this id; what had the id before, and the id it had before, are forgotten.
    ///
    /// `false`, and nothing is changed, for an id outside `1..=15`.
    pub fn set(&mut self, id: u8, extension: Extension) -> bool {
        if !(1..=15).contains(&id) {
            return false;
        }
        self.remove(extension);
        if let Some(before) = self.by_id[usize::from(id)].replace(extension) {
            self.ids[before as usize] = 0;
        }
        self.ids[extension as usize] = id;
        true
    }

    /// Forgets an extension.
    pub fn remove(&mut self, extension: Extension) {
        let id = std::mem::take(&mut self.ids[extension as usize]);
        self.by_id[usize::from(id)] = None;
    }

    /// The id of an extension.
    #[inline]
    pub fn id_of(&self, extension: Extension) -> Option<u8> {
        match self.ids[extension as usize] {
            0 => None,
            id => Some(id),
        }
    }

    /// The extension that has this id.
    #[inline]
    pub fn extension_of(&self, id: u8) -> Option<Extension> {
        *self.by_id.get(usize::from(id))?
    }

    /// Ids and extensions, by rising id.
    pub fn iter(&self) -> impl Iterator<Item = (u8, Extension)> + '_ {
        (0..).zip(&self.by_id).filter_map(|(id, extension)| Some((id, (*extension)?)))
    }

    /// Whether no extension has an id.
    pub fn is_empty(&self) -> bool {
        self.ids == [0; Extension::ALL.len()]
    }
}

impl From<Vec<(u8, Extension)>> for ExtensionMap {
    fn from(entries: Vec<(u8, Extension)>) -> Self {
        entries.into_iter().collect()
    }
}

impl From<ExtensionMap> for Vec<(u8, Extension)> {
    fn from(map: ExtensionMap) -> Self {
        map.iter().collect()
    }
}

impl FromIterator<(u8, Extension)> for ExtensionMap {
    /// Entries with an id outside `1..=15` are left out.
    fn from_iter<T: IntoIterator<Item = (u8, Extension)>>(entries: T) -> Self {
        let mut map = Self::new();
        for (id, extension) in entries {
            map.set(id, extension);
        }
        map
    }
}

/// Iterator over id and data of each element of a block.
///
/// A broken element ends the walk and leaves what came before it valid (section 4.2).
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    /// What has not been read.
    rest: &'a [u8],
    two_byte: bool,
}

impl<'a> Elements<'a> {
    /// Reads a block that begins with its four-byte head; an empty one, one shorter than its head,
    /// and one of another profile have no elements. The length in the head is not looked at, the
    /// slice is the block.
    #[inline]
    pub fn new(block: &'a [u8]) -> Self {
        match block {
            [0xbe, 0xde, _, _, rest @ ..] => Self { rest, two_byte: false },
            [0x10, appbits, _, _, rest @ ..] if appbits & 0xf0 == 0 => Self { rest, two_byte: true },
            _ => Self { rest: &[], two_byte: false },
        }
    }

    /// Bytes of the block behind the element that was returned last.
    pub(crate) fn rest_len(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = std::mem::take(&mut self.rest);
        // Padding.
        while let [0, behind @ ..] = rest {
            rest = behind;
        }
        let (id, len, rest) = match *rest {
            [id, len, ref rest @ ..] if self.two_byte => (id, usize::from(len), rest),
            // Id 0 with a length, and id 15, end the one-byte form (section 4.2).
            [head @ 0x10..=0xef, ref rest @ ..] if !self.two_byte => {
                (head >> 4, 1 + usize::from(head & 0x0f), rest)
            }
            _ => return None,
        };
        let (data, rest) = rest.split_at_checked(len)?;
        self.rest = rest;
        Some((id, data))
    }
}

impl FusedIterator for Elements<'_> {}

/// Longest block written, in bytes, its head included. An MTU has no room for more beside a payload.
pub const BLOCK_LEN_MAX: usize = 4 + 256;

/// What forms a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Only the one-byte form; elements that do not fit it are refused.
    OneByte,
    /// Either, as the elements need it.
    Either,
}

/// An element does not fit: the block is full, or the form cannot represent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no room for a header extension")
    }
}

impl Error for NoRoom {}

/// Writes the elements of one block into a buffer of the caller's.
///
/// It begins in the one-byte form, which every receiver takes and which is smaller, and turns into the
/// two-byte form when an element needs it, if the receiver takes that (`a=extmap-allow-mixed`).
///
/// **`push` each element, then `finish`.** An element that is refused leaves the block as it was.
#[derive(Debug)]
pub struct BlockWriter<'a> {
    out: &'a mut [u8],
    /// Bytes written, the head included; `4 <= len <= out.len()` if `out` has room for a head.
    len: usize,
    form: Form,
    two_byte: bool,
}

impl<'a> BlockWriter<'a> {
    /// Begins a block at the start of `out`, of which at most [`BLOCK_LEN_MAX`] bytes are used.
    #[inline]
    pub fn new(out: &'a mut [u8], form: Form) -> Self {
        // Whole words only, so that there is always room for the padding.
        let room = out.len().min(BLOCK_LEN_MAX) & !3;
        Self { out: &mut out[..room], len: 4, form, two_byte: false }
    }

    /// Appends an element. Ids are `1..=14`, or with the two-byte form `1..=255`.
    #[inline]
    pub fn push(&mut self, id: u8, data: &[u8]) -> Result<(), NoRoom> {
        if !self.two_byte && (!(1..=14).contains(&id) || !(1..=16).contains(&data.len())) {
            self.widen(id, data.len())?;
        }
        let head = 1 + usize::from(self.two_byte);
        let end = self.len + head + data.len();
        let Some(element) = self.out.get_mut(self.len..end) else { return Err(NoRoom) };
        if self.two_byte {
            let (Ok(len), 1..) = (u8::try_from(data.len()), id) else { return Err(NoRoom) };
            element[..2].copy_from_slice(&[id, len]);
        } else {
            element[0] = id << 4 | (data.len() - 1) as u8;
        }
        element[head..].copy_from_slice(data);
        self.len = end;
        Ok(())
    }

    /// Converts the elements written so far to the two-byte form, if `id` with `len` bytes then
    /// fits after them.
    fn widen(&mut self, id: u8, len: usize) -> Result<(), NoRoom> {
        if self.form == Form::OneByte || id == 0 || len > 255 || self.out.len() < 4 {
            return Err(NoRoom);
        }
        let mut before = [0; BLOCK_LEN_MAX];
        let before = &mut before[..self.len];
        before.copy_from_slice(&self.out[..self.len]);
        before[..2].copy_from_slice(&ONE_BYTE);
        let elements = Elements::new(before);
        if self.len + elements.clone().count() + 2 + len > self.out.len() {
            return Err(NoRoom);
        }
        self.two_byte = true;
        self.len = 4;
        for (id, data) in elements {
            self.push(id, data)?;
        }
        Ok(())
    }

    /// Pads the block, writes its head, and returns its length in bytes: 0 if it has no elements,
    /// else a multiple of four.
    #[inline]
    pub fn finish(self) -> usize {
        if self.len <= 4 {
            return 0;
        }
        let end = self.len.next_multiple_of(4);
        self.out[self.len..end].fill(0);
        self.out[..2].copy_from_slice(if self.two_byte { &TWO_BYTE } else { &ONE_BYTE });
        self.out[2..4].copy_from_slice(&((end / 4 - 1) as u16).to_be_bytes());
        end
    }
}

const ONE_BYTE: [u8; 2] = [0xbe, 0xde];
const TWO_BYTE: [u8; 2] = [0x10, 0x00];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uri_names_its_extension_and_no_other() {
        for extension in Extension::ALL {
            assert_eq!(Extension::from_uri(extension.uri()), Some(extension));
        }
        assert_eq!(Extension::from_uri("urn:ietf:params:rtp-hdrext:toffset"), None);
        assert_eq!(Extension::from_uri(""), None);
    }

    #[test]
    fn both_directions_agree_after_every_change() {
        let mut map = ExtensionMap::new();
        assert!(map.is_empty());
        for step in 0..2000usize {
            let extension = Extension::ALL[step * 7 % 10];
            let id = (step * 11 % 17) as u8;
            let before = map;
            if step % 5 == 4 {
                map.remove(extension);
                assert_eq!(map.id_of(extension), None);
            } else if map.set(id, extension) {
                assert_eq!((map.id_of(extension), map.extension_of(id)), (Some(id), Some(extension)));
            } else {
                assert!(id == 0 || id > 15);
                assert_eq!(map, before);
            }
            assert_eq!(map.iter().count(), Extension::ALL.iter().filter_map(|e| map.id_of(*e)).count());
            for (id, extension) in map.iter() {
                assert_eq!(map.id_of(extension), Some(id));
            }
        }
        assert_eq!(map.extension_of(0), None);
        assert_eq!(map.extension_of(255), None);
        assert_eq!(map.iter().collect::<ExtensionMap>(), map);
    }

    fn write(form: Form, room: usize, elements: &[(u8, &[u8])]) -> (Vec<u8>, usize) {
        let mut out = vec![0xee; room];
        let mut writer = BlockWriter::new(&mut out, form);
        let refused = elements.iter().filter(|(id, data)| writer.push(*id, data).is_err()).count();
        let len = writer.finish();
        out.truncate(len);
        (out, refused)
    }

    #[test]
    fn the_smaller_form_is_written_unless_an_element_needs_the_other() {
        assert_eq!(write(Form::Either, 64, &[]), (vec![], 0));
        assert_eq!(write(Form::Either, 64, &[(1, &[7])]), (vec![0xbe, 0xde, 0, 1, 0x10, 7, 0, 0], 0));
        assert_eq!(
            write(Form::Either, 64, &[(1, &[7]), (15, &[8])]),
            (vec![0x10, 0, 0, 2, 1, 1, 7, 15, 1, 8, 0, 0], 0)
        );
        assert_eq!(write(Form::Either, 64, &[(2, &[])]), (vec![0x10, 0, 0, 1, 2, 0, 0, 0], 0));
        let (long, refused) = write(Form::Either, 64, &[(1, &[7]), (2, &[9; 17]), (3, &[5])]);
        assert_eq!(refused, 0);
        assert_eq!(Elements::new(&long).collect::<Vec<_>>(), [(1, &[7][..]), (2, &[9; 17]), (3, &[5])]);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_the_rest() {
        for form in [Form::OneByte, Form::Either] {
            assert_eq!(write(form, 64, &[(0, &[1])]), (vec![], 1), "id 0");
        }
        assert_eq!(write(Form::OneByte, 64, &[(1, &[7]), (15, &[8])]).1, 1);
        assert_eq!(write(Form::OneByte, 64, &[(1, &[0; 17])]).1, 1);
        assert_eq!(write(Form::Either, 400, &[(1, &[0; 255])]), (vec![], 1), "block too long");
        for room in 0..40 {
            let elements: [(u8, &[u8]); 4] = [(1, &[1; 3]), (2, &[2; 2]), (3, &[3; 17]), (4, &[4; 1])];
            let (block, refused) = write(Form::Either, room, &elements);
            assert!(block.len() <= room && block.len().is_multiple_of(4));
            assert_eq!(Elements::new(&block).count() + refused, 4, "room {room}");
            for element in Elements::new(&block) {
                assert!(elements.contains(&element), "room {room}");
            }
        }
    }

    type Case = (&'static [u8], &'static [(u8, &'static [u8])]);

    #[test]
    fn both_forms_are_read_and_broken_elements_end_the_walk() {
        let cases: &[Case] = &[
            (&[], &[]),
            (&[0xbe, 0xde, 0], &[]),                            // half a head
            (&[0xbe, 0xde, 0, 0], &[]),                         // nothing in it
            (&[0xbe, 0xde, 0, 1, 0x10, 7, 0, 0], &[(1, &[7])]), // padding behind
            (&[0xbe, 0xde, 0, 1, 0, 0, 0x20, 7], &[(2, &[7])]), // padding ahead
            (&[0xbe, 0xde, 0, 1, 0x10, 7, 0x20, 8], &[(1, &[7]), (2, &[8])]), // no padding
            (&[0xbe, 0xde, 0, 1, 0x10, 7, 0x21, 8], &[(1, &[7])]), // one byte too many
            (&[0xbe, 0xde, 0, 1, 0x10, 7, 0xf0, 8], &[(1, &[7])]), // id 15
            (&[0xbe, 0xde, 0, 1, 0x01, 7, 0x20, 8], &[]),       // id 0 with a length
            (&[0x10, 0x00, 0, 1, 1, 1, 7, 0], &[(1, &[7])]),    // two-byte form
            (&[0x10, 0x0f, 0, 1, 0, 15, 1, 9], &[(15, &[9])]),  // appbits, id 15
            (&[0x10, 0x00, 0, 1, 200, 0, 3, 0], &[(200, &[]), (3, &[])]), // empty elements
            (&[0x10, 0x00, 0, 1, 1, 1, 7, 2], &[(1, &[7])]),    // no length
            (&[0x10, 0x00, 0, 1, 1, 3, 7, 2], &[]),             // too long
            (&[0x10, 0x10, 0, 1, 1, 1, 7, 2], &[]),             // another profile
            (&[0xab, 0xac, 0, 1, 1, 1, 7, 2], &[]),             // another profile
        ];
        for (block, expected) in cases {
            assert_eq!(Elements::new(block).collect::<Vec<_>>(), *expected, "{block:x?}");
        }
    }

    /// The examples of RFC 8285 sections 4.2 and 4.3: three elements of 1, 2 and 4 bytes; 0, 1 and 4 bytes.
    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let one = [0xbe, 0xde, 0, 3, 0x10, 0xa0, 0x21, 0xb0, 0xb1, 0, 0, 0x33, 0xc0, 0xc1, 0xc2, 0xc3];
        assert_eq!(
            Elements::new(&one).collect::<Vec<_>>(),
            [(1, &[0xa0][..]), (2, &[0xb0, 0xb1]), (3, &[0xc0, 0xc1, 0xc2, 0xc3])]
        );
        let two = [0x10, 0, 0, 3, 1, 0, 2, 1, 0xb0, 0, 3, 4, 0xc0, 0xc1, 0xc2, 0xc3];
        assert_eq!(
            Elements::new(&two).collect::<Vec<_>>(),
            [(1, &[][..]), (2, &[0xb0]), (3, &[0xc0, 0xc1, 0xc2, 0xc3])]
        );
    }
}
