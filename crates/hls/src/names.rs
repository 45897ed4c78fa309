//! Names of what a stream consists of, below the stream's own: `v0.m3u8`, `v0/init-0.mp4`,
//! `v0/17.m4s`, `v0/17.3.m4s`.
//!
//! A rendition is named by its track: `v` or `a`, and its index. Numbers are decimal without leading
//! zeros, so that an object has one name only and caches hold it once.

use std::fmt;

use media::{MediaKind, TrackId};

/// An object of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    /// Multivariant playlist. Servers give it under the stream's name, too.
    Multivariant,
    /// MPD of DASH; the same.
    Mpd,
    /// The server's clock, for players of DASH.
    Time,
    /// Media playlist of a rendition.
    Playlist(TrackId),
    /// Init segment of a rendition, by the first segment that needs it.
    Init(TrackId, u64),
    /// Segment of a rendition, by its media sequence number.
    Segment(TrackId, u64),
    /// Part of a segment of a rendition.
    Part(TrackId, u64, u32),
}

impl Object {
    /// Reads a name; `None` if it is none.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "index.m3u8" => return Some(Self::Multivariant),
            "index.mpd" => return Some(Self::Mpd),
            "time" => return Some(Self::Time),
            _ => {}
        }
        if let Some(rendition) = name.strip_suffix(".m3u8") {
            return Some(Self::Playlist(track(rendition)?));
        }
        let (rendition, object) = name.split_once('/')?;
        let rendition = track(rendition)?;
        if let Some(init) = object.strip_prefix("init-") {
            return Some(Self::Init(rendition, number(init.strip_suffix(".mp4")?)?));
        }
        let object = object.strip_suffix(".m4s")?;
        Some(match object.split_once('.') {
            Some((msn, part)) => Self::Part(rendition, number(msn)?, number(part)?.try_into().ok()?),
            None => Self::Segment(rendition, number(object)?),
        })
    }

    /// The rendition that it is of, if it is of one.
    pub fn rendition(self) -> Option<TrackId> {
        Some(match self {
            Self::Multivariant | Self::Mpd | Self::Time => return None,
            Self::Playlist(rendition)
            | Self::Init(rendition, _)
            | Self::Segment(rendition, _)
            | Self::Part(rendition, ..) => rendition,
        })
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(TrackId { kind, index }) = self.rendition() {
            let kind = if kind == MediaKind::Video { 'v' } else { 'a' };
            write!(f, "{kind}{index}")?;
        }
        match self {
            Self::Multivariant => f.write_str("index.m3u8"),
            Self::Mpd => f.write_str("index.mpd"),
            Self::Time => f.write_str("time"),
            Self::Playlist(_) => f.write_str(".m3u8"),
            Self::Init(_, number) => write!(f, "/init-{number}.mp4"),
            Self::Segment(_, msn) => write!(f, "/{msn}.m4s"),
            Self::Part(_, msn, part) => write!(f, "/{msn}.{part}.m4s"),
        }
    }
}

fn track(name: &str) -> Option<TrackId> {
    let kind = match name.as_bytes().first()? {
        b'v' => MediaKind::Video,
        b'a' => MediaKind::Audio,
        _ => return None,
    };
    Some(TrackId { kind, index: number(&name[1..])?.try_into().ok()? })
}

/// A decimal number in its one spelling.
fn number(digits: &str) -> Option<u64> {
    let is_canonical = digits.bytes().all(|digit| digit.is_ascii_digit())
        && (digits.len() == 1 || digits.len() <= 20 && !digits.starts_with('0'));
    if is_canonical { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_are_none_are_refused() {
        for name in [
            "",
            "v0",
            ".m3u8",
            "v.m3u8",
            "x0.m3u8",
            "v256.m3u8",
            "v00.m3u8",
            "v0/",
            "v0/.m4s",
            "v0/1.",
            "v0/01.m4s",
            "v0/+1.m4s",
            "v0/1.2.3.m4s",
            "v0/init-.mp4",
            "v0/init-18446744073709551616.mp4",
            "v0/../v0.m3u8",
            "v0/18446744073709551616.m4s",
            "v0/1.4294967296.m4s",
            "v0/1 .m4s",
            "\u{fc}0.m3u8",
            "v0//1.m4s",
        ] {
            assert_eq!(Object::parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn an_object_has_one_name(index: u8, msn: u64, part: u32, is_video: bool) {
            let kind = if is_video { MediaKind::Video } else { MediaKind::Audio };
            let track = TrackId { kind, index };
            for object in [
                Object::Multivariant,
                Object::Mpd,
                Object::Time,
                Object::Playlist(track),
                Object::Init(track, msn),
                Object::Segment(track, msn),
                Object::Part(track, msn, part),
            ] {
                prop_assert_eq!(Object::parse(&object.to_string()), Some(object));
            }
        }

        #[test]
        fn what_is_read_is_written_the_same(
            name in "[va][0-9]{1,3}(\\.m3u8|/[0-9]{1,4}(\\.[0-9]{1,3})?\\.m4s)",
        ) {
            if let Some(object) = Object::parse(&name) {
                prop_assert_eq!(object.to_string(), name);
            }
        }
    }
}
