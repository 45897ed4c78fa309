//! Text of playlists: numbers, dates, and URIs that a client's query may be appended to.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use media::Timestamp;
use media::calendar::date;

/// A playlist, and where its URIs end.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    bytes: Bytes,
    uri_ends: Arc<[usize]>,
}

impl Text {
    /// One whose URIs are not known.
    pub(crate) fn opaque(text: String) -> Self {
        Self { bytes: Bytes::from(text), uri_ends: Arc::default() }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The playlist for a client whose requests have this query: its children's have it, too, so that a
    /// token carries over. Costs a copy; without a query the bytes are shared.
    pub(crate) fn with_suffix(&self, query: &str) -> Bytes {
        if query.is_empty() {
            return self.bytes.clone();
        }
        let mut out = Vec::with_capacity(self.bytes.len() + self.uri_ends.len() * (query.len() + 1));
        let mut from = 0;
        for end in self.uri_ends.iter() {
            out.extend_from_slice(&self.bytes[from..*end]);
            out.push(b'?');
            out.extend_from_slice(query.as_bytes());
            from = *end;
        }
        out.extend_from_slice(&self.bytes[from..]);
        Bytes::from(out)
    }
}

/// A playlist that is being written.
#[derive(Debug, Default)]
pub(crate) struct TextWriter {
    out: String,
    uri_ends: Vec<usize>,
}

impl TextWriter {
    /// Appends what is no URI.
    pub(crate) fn put(&mut self, text: fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a string takes everything");
    }

    /// Appends a URI.
    pub(crate) fn uri(&mut self, prefix: &str, uri: impl fmt::Display) {
        self.put(format_args!("{prefix}{uri}"));
        self.uri_ends.push(self.out.len());
    }

    pub(crate) fn finish(self) -> Text {
        Text { bytes: Bytes::from(self.out), uri_ends: self.uri_ends.into() }
    }
}

/// A text that is written once after a change and shared by all that ask for it.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// What leads from it to the other objects.
    pub(crate) prefix: String,
    pub(crate) text: Text,
    gzip: OnceLock<Bytes>,
}

impl Shared {
    pub(crate) fn new(prefix: &str, text: Text) -> Self {
        Self { prefix: prefix.to_owned(), text, gzip: OnceLock::new() }
    }

    /// The text in gzip.
    pub(crate) fn gzip(&self) -> Bytes {
        self.gzip.get_or_init(|| gzip(&self.text.bytes)).clone()
    }
}

/// Bytes in gzip (RFC 1952).
pub(crate) fn gzip(text: &[u8]) -> Bytes {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).expect("a vector takes everything");
    Bytes::from(encoder.finish().expect("a vector takes everything"))
}

/// Seconds with five decimals: to 10 us, so that sums of a window are right to a millisecond.
pub(crate) struct Seconds(pub(crate) Timestamp);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ticks = self.0.ticks(100_000).max(0);
        write!(f, "{}.{:05}", ticks / 100_000, ticks % 100_000)
    }
}

/// Date and time of ISO 8601, UTC, to the millisecond, of a time since 1970.
pub(crate) struct Date(pub(crate) Duration);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // To the nearest, so that dates and durations agree.
        let millis = ((self.0.as_micros() + 500) / 1000) as u64;
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (millis, date) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_107_542_400_001, "2100-03-01T00:00:00.001Z"),
        ] {
            assert_eq!(Date(Duration::from_millis(millis)).to_string(), date);
        }
    }

    #[test]
    fn seconds_are_to_ten_microseconds() {
        assert_eq!(Seconds(Timestamp::from_ticks(1024, 48_000)).to_string(), "0.02133");
        assert_eq!(Seconds(Timestamp::from_millis(2_001)).to_string(), "2.00100");
        assert_eq!(Seconds(Timestamp::from_millis(-1)).to_string(), "0.00000");
    }
}
