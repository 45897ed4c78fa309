//! Where a recording is: `{app}/{stream}/{time}.mp4` below its directory, and `.part` behind it until it is
//! complete.
//!
//! Names of streams come from the network. Each becomes one component of a path in which only letters,
//! digits, `-`, `_` and `.` stand for themselves, so that none leads out of the directory, and two streams
//! never share one.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use media::calendar;
use sha2::{Digest, Sha256};

use crate::settings::Format;

/// Behind the name of a file that is not complete.
pub const PART: &str = ".part";
/// Longest component that is not cut; file systems have 255.
const COMPONENT_BYTES_MAX: usize = 200;
/// Bytes of the hash behind one that is cut.
const HASH_BYTES: usize = 16;

/// A recording of a stream, as its path says it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordingName {
    /// Component of the application.
    pub app: String,
    /// Component of the stream.
    pub stream: String,
    /// When it begins, since 1970, in whole milliseconds.
    pub start: Duration,
    /// Which of those that begin at that time; the first is 1.
    pub number: u32,
    /// How it is written.
    pub format: Format,
}

impl RecordingName {
    /// That of a recording of `app/stream` which begins at `start`.
    pub fn new(app: &str, stream: &str, start: Duration, format: Format) -> Self {
        let start = Duration::from_millis(u64::try_from(start.as_millis()).unwrap_or(0));
        Self { app: encode(app), stream: encode(stream), start, number: 1, format }
    }

    /// Reads a path below the directory, and whether the recording is complete. `None`: it is none.
    pub fn parse(path: &Path) -> Option<(Self, bool)> {
        let mut components = path.components().map(|component| component.as_os_str().to_str());
        let (app, stream, file) = (components.next()??, components.next()??, components.next()??);
        let (file, is_complete) = match file.strip_suffix(PART) {
            Some(file) => (file, false),
            None => (file, true),
        };
        let (time, format) = file.rsplit_once('.')?;
        let format = Format::ALL.into_iter().find(|known| known.extension() == format)?;
        let (time, number) = match time.split_once("Z-") {
            Some((time, number)) => (time, number.parse().ok()?),
            None => (time.strip_suffix('Z')?, 1),
        };
        let name =
            Self { app: app.to_owned(), stream: stream.to_owned(), start: parse_time(time)?, number, format };
        (path == name.path() || path == name.part_path()).then_some((name, is_complete))
    }

    /// The folder of the stream, below the directory.
    pub fn folder(&self) -> PathBuf {
        [&self.app, &self.stream].iter().collect()
    }

    /// Name of the file once it is complete.
    pub fn file_name(&self) -> String {
        let number = if self.number > 1 { format!("-{}", self.number) } else { String::new() };
        format!("{}Z{number}.{}", time(self.start), self.format.extension())
    }

    /// The complete file, below the directory.
    pub fn path(&self) -> PathBuf {
        self.folder().join(self.file_name())
    }

    /// The file as long as it is not complete.
    pub fn part_path(&self) -> PathBuf {
        self.folder().join(self.file_name() + PART)
    }

    /// Application and stream, as publishers name them; of names that were cut, what is left.
    pub fn stream_name(&self) -> (String, String) {
        (decode(&self.app), decode(&self.stream))
    }
}

/// The component of a path that stands for this name, and for no other.
pub fn encode(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        let is_plain =
            byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || byte == b'.' && !out.is_empty();
        if is_plain { out.push(char::from(byte)) } else { _ = write!(out, "%{byte:02X}") }
    }
    if out.is_empty() {
        // No name is empty; a folder needs one all the same.
        out.push('~');
    }
    if out.len() > COMPONENT_BYTES_MAX {
        let hash = Sha256::digest(name.as_bytes());
        out.truncate(COMPONENT_BYTES_MAX - HASH_BYTES - 1);
        out.push('~');
        for byte in &hash[..HASH_BYTES / 2] {
            let _ = write!(out, "{byte:02x}");
        }
    }
    out
}

/// The name that a component stands for; of one that was cut, what is left of it.
pub fn decode(component: &str) -> String {
    let whole = component.split('~').next().unwrap_or_default();
    let mut bytes = Vec::with_capacity(whole.len());
    let mut rest = whole.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = behind.first_chunk::<2>().filter(|_| *first == b'%');
        let escaped = escaped.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `20261127T190500.123`, UTC.
fn time(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = calendar::date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = since_1970.subsec_millis();
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{millis:03}")
}

fn parse_time(text: &str) -> Option<Duration> {
    let number = |range: std::ops::Range<usize>| -> Option<u64> {
        let digits = text.get(range).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse().ok()
    };
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let (hour, minute, second, millis) = (number(9..11)?, number(11..13)?, number(13..15)?, number(16..19)?);
    // Days from the years: few steps, and no second formula of the calendar.
    let near = (year.checked_sub(1970)? * 1461 / 4 + month.checked_sub(1)? * 30 + day).saturating_sub(35);
    let days = (near..near + 70).find(|days| calendar::date(*days) == (year, month, day))?;
    let since = Duration::from_millis((days * 86_400 + hour * 3600 + minute * 60 + second) * 1000 + millis);
    (time(since) == text).then_some(since)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_names_are_one_component_each() {
        for (name, component) in [
            ("live", "live"),
            ("a/b", "a%2Fb"),
            ("..", "%2E."),
            (".", "%2E"),
            ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
            ("a%2Fb", "a%252Fb"),
            ("\0\n", "%00%0A"),
            ("Ä", "%C3%84"),
            ("~", "%7E"),
            ("", "~"),
            ("x.part", "x.part"),
        ] {
            assert_eq!(encode(name), component);
            assert_eq!(decode(component), name);
        }
        let long = "a".repeat(300);
        assert_eq!(encode(&long).len(), COMPONENT_BYTES_MAX);
        assert_ne!(encode(&long), encode(&"a".repeat(301)));
    }

    #[test]
    fn names_of_files_are_read_back_and_others_are_not() {
        let start = Duration::from_millis(1_795_806_300_123);
        let mut name = RecordingName::new("live", "a b", start, Format::Mp4);
        assert_eq!(name.path(), Path::new("live/a%20b/20261127T190500.123Z.mp4"));
        assert_eq!(RecordingName::parse(&name.path()), Some((name.clone(), true)));
        name.number = 3;
        assert_eq!(name.part_path(), Path::new("live/a%20b/20261127T190500.123Z-3.mp4.part"));
        assert_eq!(RecordingName::parse(&name.part_path()), Some((name, false)));
        for other in [
            "live/a/film.mp4",
            "live/a/20261127T190500.123Z.mkv",
            "live/a/20261327T190500.123Z.mp4",
            "live/a/b/20261127T190500.123Z.mp4",
            "a/20261127T190500.123Z.mp4",
            "live/a/20261127T190500.123Z-1.mp4",
            "live/a/20261127T190500.123Z.mp4.part.part",
        ] {
            assert_eq!(RecordingName::parse(Path::new(other)), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_name_has_a_component_of_its_own(a in ".{0,60}", b in ".{0,60}") {
            let (x, y) = (encode(&a), encode(&b));
            prop_assert_eq!(x == y, a == b);
            prop_assert!(!x.contains('/') && !x.starts_with('.') && !x.is_empty());
            if x.len() < COMPONENT_BYTES_MAX {
                prop_assert_eq!(decode(&x), a);
            }
        }

        #[test]
        fn every_time_is_read_back(millis in 0_u64..4_000_000_000_000) {
            let since = Duration::from_millis(millis);
            prop_assert_eq!(parse_time(&time(since)), Some(since));
        }
    }
}
