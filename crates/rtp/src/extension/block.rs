//! Writing a block of header extensions, and rewriting one with the ids of another session.
//!
//! A block is begun in the one-byte form, which every receiver takes and which is smaller, and
//! turned into the two-byte form when an element needs it, if the receiver takes that
//! (`a=extmap-allow-mixed`).

use std::error::Error;
use std::fmt;

use super::{Elements, ExtensionMap};

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
}
