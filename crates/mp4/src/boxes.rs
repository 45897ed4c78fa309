//! Box headers (ISO/IEC 14496-12, 4.2), in memory and at the top level of a file.
//!
//! ```text
//!  size 32 [1: behind the type, 64; 0: to the end] | type 32 | [size 64] | body
//! ```
//!
//! Sizes are checked against the bytes left before anything is read or allocated. What the bodies of
//! small boxes mean is the business of the crate `mp4-atom`.

use mp4_atom::Atom;

use super::Mp4Error;
use media::FourCc;

/// A box header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: FourCc,
    /// Bytes of the header: 8 or 16.
    pub(super) bytes: u64,
    /// Bytes of the body; `None`: up to the end of what holds the box.
    pub(super) body: Option<u64>,
}

impl Header {
    /// Most bytes that a header has.
    pub(super) const MAX_BYTES: usize = 16;

    /// Reads a header; `None` if there are too few bytes for it.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, Mp4Error> {
        let Some((&[a, b, c, d, kind @ ..], rest)) = bytes.split_first_chunk::<8>() else { return Ok(None) };
        let kind = FourCc(kind);
        let short = u64::from(u32::from_be_bytes([a, b, c, d]));
        let (bytes, size) = match short {
            0 => return Ok(Some(Self { kind, bytes: 8, body: None })),
            1 => match rest.first_chunk() {
                Some(size) => (16, u64::from_be_bytes(*size)),
                None => return Ok(None),
            },
            size => (8, size),
        };
        let why = "its size is smaller than its header";
        let body = size.checked_sub(bytes).ok_or(Mp4Error::Malformed { kind, why })?;
        Ok(Some(Self { kind, bytes, body: Some(body) }))
    }
}

/// The boxes in the body of another one. Fewer than eight bytes behind the last are padding.
pub(super) struct Boxes<'a>(pub(super) &'a [u8]);

impl<'a> Boxes<'a> {
    /// The first box of a kind, if any.
    pub(super) fn find(self, kind: &[u8; 4]) -> Result<Option<&'a [u8]>, Mp4Error> {
        for next in self {
            let (found, body) = next?;
            if found.0 == *kind {
                return Ok(Some(body));
            }
        }
        Ok(None)
    }

    /// The first box of a kind, which has to be there.
    pub(super) fn require(self, kind: &[u8; 4]) -> Result<&'a [u8], Mp4Error> {
        self.find(kind)?.ok_or(Mp4Error::malformed(kind, "it is missing"))
    }
}

impl<'a> Iterator for Boxes<'a> {
    type Item = Result<(FourCc, &'a [u8]), Mp4Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.0);
        let header = match Header::read(rest) {
            Ok(header) => header?,
            Err(error) => return Some(Err(error)),
        };
        let behind = &rest[header.bytes as usize..];
        let size = header.body.unwrap_or(behind.len() as u64);
        // On 32 bits, too: what does not fit in `usize` does not fit in memory.
        let parts = usize::try_from(size).ok().and_then(|size| behind.split_at_checked(size));
        let Some((body, rest)) = parts else {
            return Some(Err(Mp4Error::Malformed {
                kind: header.kind,
                why: "larger than the box around it",
            }));
        };
        self.0 = rest;
        Some(Ok((header.kind, body)))
    }
}

/// Has `mp4-atom` read the body of a small box; bytes behind what it knows are ignored.
pub(super) fn decode<T: Atom>(mut body: &[u8]) -> Result<T, Mp4Error> {
    T::decode_body(&mut body).map_err(|_| {
        let kind = FourCc(T::KIND.into());
        Mp4Error::Malformed { kind, why: "cut short, or of an unknown version" }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_three_notations_of_size() {
        let kind = FourCc(*b"free");
        for (bytes, expected) in [
            (&b"\0\0\0\x0afreexy"[..], Some(Header { kind, bytes: 8, body: Some(2) })),
            (b"\0\0\0\0free", Some(Header { kind, bytes: 8, body: None })),
            (b"\0\0\0\x01free\0\0\0\0\0\0\0\x13", Some(Header { kind, bytes: 16, body: Some(3) })),
            (b"\0\0\0\x01free\0\0\0\0\0\0\0", None),
            (b"\0\0\0\x0afre", None),
            (b"", None),
        ] {
            assert_eq!(Header::read(bytes).unwrap(), expected, "{}", bytes.escape_ascii());
        }
        assert!(Header::read(b"\0\0\0\x07free").is_err(), "smaller than its header");
        assert!(Header::read(b"\0\0\0\x01free\0\0\0\0\0\0\0\x0f").is_err());
    }

    #[test]
    fn boxes_are_walked_to_the_end_and_never_beyond() {
        let body = b"\0\0\0\x0aaaaaxy\0\0\0\x08bbbb\0\0\0\0ccccrest";
        let found: Vec<_> = Boxes(body).map(|next| next.unwrap()).collect();
        let kinds: Vec<_> = found.iter().map(|(kind, body)| (kind.to_string(), *body)).collect();
        assert_eq!(
            kinds,
            [("aaaa".into(), &b"xy"[..]), ("bbbb".into(), &b""[..]), ("cccc".into(), &b"rest"[..])]
        );
        assert_eq!(Boxes(body).find(b"bbbb").unwrap(), Some(&b""[..]));
        assert!(Boxes(body).require(b"dddd").is_err());
        // Padding of QuickTime behind the last one.
        assert_eq!(Boxes(b"\0\0\0\x08aaaa\0\0\0\0").count(), 1);
        // Larger than what holds it: one error, and no more.
        let mut walk = Boxes(b"\0\0\0\x09aaaa");
        assert!(walk.next().unwrap().is_err());
        assert!(walk.next().is_none());
        assert!(Boxes(b"\0\0\0\x01aaaa\xff\xff\xff\xff\xff\xff\xff\xff").next().unwrap().is_err());
    }
}
