//! Attribute lists (RFC 8216 section 4.2): `NAME=value,NAME="value"`, on one line.

use super::ByteRange;

/// The attributes of a tag, in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes<'a>(pub(super) &'a str);

impl<'a> Attributes<'a> {
    /// The value of one, without quotes; the first if it is there twice.
    pub(super) fn value(mut self, name: &str) -> Option<&'a str> {
        self.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Whether one is `YES`.
    pub(super) fn is_yes(self, name: &str) -> bool {
        self.value(name) == Some("YES")
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.0.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (value, behind) = quoted.split_once('"')?;
                (value, behind.strip_prefix(',').unwrap_or(behind))
            }
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        self.0 = rest;
        Some((name.trim(), value.trim()))
    }
}

/// `length[@offset]` (section 4.3.2.2).
pub(super) fn byte_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (length, offset) = match text.split_once('@') {
        Some((length, offset)) => (length, Some(offset.trim().parse().ok()?)),
        None => (text, None),
    };
    Some((length.trim().parse().ok()?, offset))
}

/// A range of bytes that has some, and an end.
pub(super) fn range_at(offset: u64, length: u64) -> Option<ByteRange> {
    offset.checked_add(length).filter(|_| length > 0).map(|_| ByteRange { offset, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_or_not() {
        let list = Attributes("METHOD=AES-128,URI=\"a,b=c\", IV=0x1,EMPTY=\"\",LAST=x");
        let all: Vec<_> = list.collect();
        let expected = [("METHOD", "AES-128"), ("URI", "a,b=c"), ("IV", "0x1"), ("EMPTY", ""), ("LAST", "x")];
        assert_eq!(all, expected);
        assert_eq!(list.value("IV"), Some("0x1"));
        assert_eq!(Attributes("URI=\"without an end").value("URI"), None);
        assert_eq!(Attributes("no value").next(), None);
    }

    #[test]
    fn ranges_have_an_end() {
        assert_eq!(byte_range("10@5"), Some((10, Some(5))));
        assert_eq!(byte_range("10"), Some((10, None)));
        assert_eq!(byte_range("-1@0"), None);
        assert_eq!(range_at(u64::MAX, 1), None);
        assert_eq!(range_at(5, 0), None);
    }
}
