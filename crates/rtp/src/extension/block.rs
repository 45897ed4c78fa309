//! A block of header extensions: read element by element, written, and rewritten with the ids of
//! another session.
//!
//! A broken element ends the walk and leaves what came before it valid (RFC 8285 section 4.2); a
//! block of another profile has no elements. A block is begun in the one-byte form, which every
//! receiver takes and which is smaller, and turned into the two-byte form when an element needs it,
//! if the receiver takes that (`a=extmap-allow-mixed`).

use std::error::Error;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

use super::ExtensionMap;

/// Iterator over id and data of each element of a block.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    block: &'a [u8],
    /// Where the next element begins; the length of `block` when there is none.
    at: usize,
    two_byte: bool,
}

impl<'a> Elements<'a> {
    /// Reads a block that begins with its four-byte head; an empty one, and one shorter than its
    /// head, have no elements. The length in the head is not looked at, the slice is the block.
    #[inline]
    pub fn new(block: &'a [u8]) -> Self {
        let (at, two_byte) = match block {
            [0xbe, 0xde, _, _, ..] => (4, false),
            [0x10, appbits, _, _, ..] if appbits & 0xf0 == 0 => (4, true),
            _ => (block.len(), false),
        };
        Self { block, at, two_byte }
    }

    /// The next element's id and where in the block its data is.
    #[inline]
    pub fn next_range(&mut self) -> Option<(u8, Range<usize>)> {
        // Padding.
        while self.block.get(self.at) == Some(&0) {
            self.at += 1;
        }
        let head = *self.block.get(self.at)?;
        let (id, data, len) = if self.two_byte {
            let Some(len) = self.block.get(self.at + 1) else { return self.end() };
            (head, self.at + 2, usize::from(*len))
        } else {
            (head >> 4, self.at + 1, 1 + usize::from(head & 0x0f))
        };
        // Id 0 with a length, and id 15, end the one-byte form (RFC 8285 section 4.2).
        if id == 0 || (id == 15 && !self.two_byte) || len > self.block.len() - data {
            return self.end();
        }
        self.at = data + len;
        Some((id, data..self.at))
    }

    fn end(&mut self) -> Option<(u8, Range<usize>)> {
        self.at = self.block.len();
        None
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let block = self.block;
        self.next_range().map(|(id, range)| (id, &block[range]))
    }
}

impl FusedIterator for Elements<'_> {}

/// Where in `block` the data of the first element with this id is, to patch it.
#[inline]
pub fn find(block: &[u8], id: u8) -> Option<Range<usize>> {
    let mut elements = Elements::new(block);
    while let Some((found, range)) = elements.next_range() {
        if found == id {
            return Some(range);
        }
    }
    None
}

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

/// Appends the elements of `block`, whose ids are those of `from`, under the ids they have in `to`.
///
/// Leaves out elements that one of the two sessions does not have, those for which `keep` is false,
/// and those that do not fit. `keep` excludes extensions that the caller writes itself (MID,
/// transport-cc).
#[inline]
pub fn rewrite(
    block: &[u8],
    from: &ExtensionMap,
    to: &ExtensionMap,
    keep: impl Fn(super::Extension) -> bool,
    writer: &mut BlockWriter<'_>,
) {
    for (id, data) in Elements::new(block) {
        let Some(extension) = from.extension_of(id).filter(|extension| keep(*extension)) else { continue };
        if let Some(id) = to.id_of(extension) {
            // A full block loses its last elements; the media is worth more than they.
            let _ = writer.push(id, data);
        }
    }
}

const ONE_BYTE: [u8; 2] = [0xbe, 0xde];
const TWO_BYTE: [u8; 2] = [0x10, 0x00];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::Extension;

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

    #[test]
    fn ids_of_one_session_become_those_of_another() {
        let from: ExtensionMap =
            [(1, Extension::Mid), (2, Extension::AudioLevel), (3, Extension::AbsSendTime)]
                .into_iter()
                .collect();
        let to: ExtensionMap = [(9, Extension::AudioLevel), (4, Extension::Mid)].into_iter().collect();
        let (block, _) = write(Form::Either, 64, &[(1, b"0"), (2, &[0x85]), (3, &[1, 2, 3]), (7, &[6])]);
        let mut out = [0; 64];
        let mut writer = BlockWriter::new(&mut out, Form::OneByte);
        writer.push(4, b"video").unwrap();
        rewrite(&block, &from, &to, |extension| extension != Extension::Mid, &mut writer);
        let len = writer.finish();
        assert_eq!(Elements::new(&out[..len]).collect::<Vec<_>>(), [(4, &b"video"[..]), (9, &[0x85])]);
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
        assert_eq!(find(&one, 3), Some(12..16));
        assert_eq!(find(&two, 2), Some(8..9));
        assert_eq!(find(&two, 4), None);
    }
}
