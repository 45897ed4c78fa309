//! Source description (RFC 3550 section 6.5): the canonical name that ties the streams of one
//! sender together.
//!
//! Only CNAME is written; other items are read as they are and mean nothing to this server.

use super::{SOURCE_DESCRIPTION, begin, end, word};

/// A source description.
#[derive(Clone, Copy, Debug)]
pub struct SourceDescription<'a> {
    chunks: u8,
    body: &'a [u8],
}

/// One item of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdesItem<'a> {
    /// The SSRC it describes.
    pub ssrc: u32,
    /// Type of the item; 1 is CNAME.
    pub kind: u8,
    /// Its text, which should be UTF-8 and need not.
    pub text: &'a [u8],
}

impl SdesItem<'_> {
    /// Type of a canonical name.
    pub const CNAME: u8 = 1;
}

impl<'a> SourceDescription<'a> {
    pub(super) fn read(count: u8, body: &'a [u8]) -> Option<Self> {
        let mut rest = body;
        for _ in 0..count {
            word(rest, 0)?;
            rest = &rest[4..];
            loop {
                rest = match rest {
                    [0, ..] => break,
                    [_, len, text @ ..] => text.get(usize::from(*len)..)?,
                    _ => return None,
                };
            }
            // At least one zero ends the chunk, and zeros fill its last word.
            let at = body.len() - rest.len();
            rest = body.get((at + 1).next_multiple_of(4)..)?;
        }
        Some(Self { chunks: count, body })
    }

    /// Each item of each chunk.
    pub fn items(&self) -> impl Iterator<Item = SdesItem<'a>> + 'a {
        let (body, mut at, mut chunks, mut ssrc) = (self.body, 0, self.chunks, None);
        std::iter::from_fn(move || {
            loop {
                let Some(current) = ssrc else {
                    chunks = chunks.checked_sub(1)?;
                    ssrc = Some(word(body, at)?);
                    at += 4;
                    continue;
                };
                match *body.get(at..)? {
                    [0, ..] => {
                        at = (at + 1).next_multiple_of(4);
                        ssrc = None;
                    }
                    [kind, len, ref text @ ..] => {
                        at += 2 + usize::from(len);
                        return Some(SdesItem { ssrc: current, kind, text: text.get(..usize::from(len))? });
                    }
                    _ => return None,
                }
            }
        })
    }

    /// Appends a description with one chunk that holds a canonical name, cut at 255 bytes.
    pub fn write_cname(out: &mut Vec<u8>, ssrc: u32, cname: &str) {
        let cname = &cname.as_bytes()[..cname.len().min(255)];
        let start = begin(out, SOURCE_DESCRIPTION, 1);
        out.extend(ssrc.to_be_bytes());
        out.extend([SdesItem::CNAME, cname.len() as u8]);
        out.extend(cname);
        out.push(0);
        end(out, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_several_chunks_are_read_and_chunks_that_do_not_end_are_refused() {
        let body = [0, 0, 0, 7, 1, 1, b'a', 6, 2, b't', b'o', 0, 0, 0, 0, 8, 1, 2, b'b', b'c', 0, 0, 0, 0];
        let items: Vec<_> = SourceDescription::read(2, &body).unwrap().items().collect();
        assert_eq!(
            items,
            [
                SdesItem { ssrc: 7, kind: 1, text: b"a" },
                SdesItem { ssrc: 7, kind: 6, text: b"to" },
                SdesItem { ssrc: 8, kind: 1, text: b"bc" },
            ]
        );
        for (chunks, len, remark) in [
            (3, body.len(), "a chunk that is missing"),
            (2, 20, "no end of the items"),
            (2, 19, "half an item"),
            (1, 3, "half an SSRC"),
            (1, 4, "no items and no end"),
        ] {
            assert!(SourceDescription::read(chunks, &body[..len]).is_none(), "{remark}");
        }
        assert_eq!(SourceDescription::read(0, &[]).unwrap().items().count(), 0);
    }
}
