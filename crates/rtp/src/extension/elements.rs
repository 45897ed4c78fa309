//! Reading a block of header extensions element by element, in the one-byte and the two-byte form.
//!
//! A broken element ends the walk and leaves what came before it valid (RFC 8285 section 4.2); a
//! block of another profile has no elements.

use std::iter::FusedIterator;
use std::ops::Range;

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

#[cfg(test)]
mod tests {
    use super::*;

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
