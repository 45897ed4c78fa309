//! Byte ranges of objects (RFC 9110 section 14).

use bytes::Bytes;

use crate::Body;

/// What a `Range` field asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// All of it: the field has a unit, a form or a number of ranges that is not answered in parts, as a
    /// server may decide (section 14.2).
    All,
    /// These bytes: 206.
    Part {
        /// Position of the first.
        first: u64,
        /// Position of the last.
        last: u64,
    },
    /// None that there is: 416.
    Unsatisfiable,
}

impl Range {
    /// Reads the value of the field, for a body of so many bytes.
    pub fn read(value: &str, bytes: u64) -> Self {
        let Some(range) = value.trim().strip_prefix("bytes=") else { return Self::All };
        let Some((first, last)) = range.split_once('-') else { return Self::All };
        // Digits only: `parse` would take a sign. What is beyond all numbers is beyond every body.
        let number = |digits: &str| {
            let is_decimal = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            is_decimal.then(|| digits.parse().unwrap_or(u64::MAX))
        };
        let (first, last) = match (first.trim(), last.trim()) {
            ("", suffix) => match number(suffix) {
                Some(0) => return Self::Unsatisfiable,
                Some(suffix) => (bytes.saturating_sub(suffix), u64::MAX),
                None => return Self::All,
            },
            (first, "") => match number(first) {
                Some(first) => (first, u64::MAX),
                None => return Self::All,
            },
            (first, last) => match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => (first, last),
                _ => return Self::All,
            },
        };
        if first >= bytes {
            return Self::Unsatisfiable;
        }
        Self::Part { first, last: last.min(bytes - 1) }
    }
}

impl Body {
    /// Its length.
    pub fn len(&self) -> u64 {
        self.bytes.iter().map(|piece| piece.len() as u64).sum()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves only the bytes from `first` to `last`, which are in it.
    pub fn cut(&mut self, first: u64, last: u64) {
        let mut at = 0;
        let mut cut = |piece: Bytes| {
            let (from, length) = (at, piece.len() as u64);
            at += length;
            let begin = first.saturating_sub(from).min(length) as usize;
            let end = (last + 1).saturating_sub(from).min(length) as usize;
            (begin < end).then(|| piece.slice(begin..end))
        };
        self.bytes = std::mem::take(&mut self.bytes).into_iter().filter_map(&mut cut).collect();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Cache;

    fn body(pieces: &[&[u8]]) -> Body {
        let bytes = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
        Body { bytes, content_type: "", is_gzip: false, cache: Cache::Never, grows_from: None }
    }

    #[test]
    fn ranges_are_read_as_the_standard_has_them() {
        for (value, expected) in [
            ("bytes=0-0", Range::Part { first: 0, last: 0 }),
            ("bytes=2-4", Range::Part { first: 2, last: 4 }),
            ("bytes=2-", Range::Part { first: 2, last: 9 }),
            ("bytes=2-99999999999999999999999", Range::Part { first: 2, last: 9 }),
            ("bytes=-3", Range::Part { first: 7, last: 9 }),
            ("bytes=-30", Range::Part { first: 0, last: 9 }),
            ("bytes=10-", Range::Unsatisfiable),
            ("bytes=99999999999999999999999-", Range::Unsatisfiable),
            ("bytes=-0", Range::Unsatisfiable),
            ("bytes=4-2", Range::All),
            ("bytes=0-1,4-5", Range::All),
            ("bytes=+1-2", Range::All),
            ("bytes=-", Range::All),
            ("bytes", Range::All),
            ("items=0-1", Range::All),
            ("", Range::All),
        ] {
            assert_eq!(Range::read(value, 10), expected, "{value}");
        }
        assert_eq!(Range::read("bytes=0-", 0), Range::Unsatisfiable);
    }

    proptest! {
        #[test]
        fn what_is_cut_is_what_was_asked_for(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 1..6),
            range in "bytes=[0-9]{0,2}-[0-9]{0,2}",
        ) {
            let whole: Vec<u8> = pieces.concat();
            let mut body = body(&pieces.iter().map(|piece| &piece[..]).collect::<Vec<_>>());
            if let Range::Part { first, last } = Range::read(&range, body.len()) {
                body.cut(first, last);
                prop_assert_eq!(body.bytes.concat(), &whole[first as usize..=last as usize]);
            }
        }

        #[test]
        fn nothing_panics(value in ".*", bytes: u64) {
            if let Range::Part { first, last } = Range::read(&value, bytes) {
                prop_assert!(first <= last && last < bytes);
            }
        }
    }
}
