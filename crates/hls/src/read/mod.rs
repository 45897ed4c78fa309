//! Playlists of other servers (RFC 8216), as values.
//!
//! [`Playlist::read`] takes the bytes of one and gives a [`MasterPlaylist`] or a [`MediaPlaylist`]: what
//! is needed to fetch media, each line looked at once. Nothing is resolved or fetched here, and
//! nothing of what it says is believed: durations and ranges are checked by who uses them.
//!
//! Own, and not the crate `m3u8-rs` 6.0.1: that one takes `#EXT-X-KEY:METHOD=NONE` for a tag that it
//! does not know, so that what follows would be taken for encrypted; a playlist of 200 kB may cost
//! it 55 MB (552 bytes for a line of two); and an attribute list without an end is searched through
//! all lines that follow (decision 52).
//!
//! Left out: parts and hints of low latency (whole segments are listed as well), dates, subtitles,
//! pictures of `EXT-X-I-FRAME-STREAM-INF`, and variables (`EXT-X-DEFINE`), which are refused.

mod attributes;
mod master;
mod media;

pub use master::{MasterPlaylist, Rendition, RenditionKind, Variant};
pub use media::{ByteRange, DURATION_MAX, Key, Map, MediaPlaylist, Segment};

/// Bytes of a playlist: twelve hours of segments of two seconds with long names.
pub const PLAYLIST_BYTES_MAX: usize = 4 << 20;
/// Segments of a media playlist: eleven hours of segments of two seconds.
pub const SEGMENTS_MAX: usize = 20_000;
/// Variants and renditions of a master playlist, each.
pub const VARIANTS_MAX: usize = 128;
/// Bytes of a line that is kept.
pub const LINE_BYTES_MAX: usize = 8 << 10;

/// What a playlist is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Playlist {
    /// It lists other playlists.
    Master(MasterPlaylist),
    /// It lists segments.
    Media(MediaPlaylist),
}

/// Why a text is no playlist that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaylistError {
    /// It does not begin with `#EXTM3U`.
    NoPlaylist,
    /// It is not text in UTF-8.
    NotText,
    /// It has more bytes, or a longer line, than is read.
    TooLong,
    /// It lists more than is read.
    TooMany,
    /// A tag says nothing that makes sense.
    Malformed(&'static str),
    /// It has variables.
    Variables,
}

impl std::fmt::Display for PlaylistError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoPlaylist => f.write_str("what comes is no HLS playlist"),
            Self::NotText => f.write_str("the playlist is not text"),
            Self::TooLong => f.write_str("the playlist is too long"),
            Self::TooMany => f.write_str("the playlist lists too many segments or variants"),
            Self::Malformed(tag) => write!(f, "the playlist has a {tag} that makes no sense"),
            Self::Variables => f.write_str("the playlist has variables (EXT-X-DEFINE), which are not read"),
        }
    }
}

impl std::error::Error for PlaylistError {}

impl Playlist {
    /// Reads one. Takes time and memory in proportion to its bytes, at most [`PLAYLIST_BYTES_MAX`].
    pub fn read(bytes: &[u8]) -> Result<Self, PlaylistError> {
        if bytes.len() > PLAYLIST_BYTES_MAX {
            return Err(PlaylistError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| PlaylistError::NotText)?;
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        if !lines.next().is_some_and(|first| first.starts_with("#EXTM3U")) {
            return Err(PlaylistError::NoPlaylist);
        }
        let lines = lines.filter(|line| !line.is_empty());
        // Players that do not know variables must not play what has them (RFC 8216bis section 4.4.2.3).
        if lines.clone().any(|line| line.starts_with("#EXT-X-DEFINE:")) {
            return Err(PlaylistError::Variables);
        }
        // A playlist has tags of one kind only (section 4.1), and each kind has one that it must have.
        let is_master = lines.clone().any(|line| line.starts_with("#EXT-X-STREAM-INF:"));
        if is_master {
            MasterPlaylist::read(lines).map(Self::Master)
        } else {
            MediaPlaylist::read(lines).map(Self::Media)
        }
    }
}

/// A URI line or attribute, if it is not too long.
fn kept(uri: &str) -> Result<String, PlaylistError> {
    if uri.len() > LINE_BYTES_MAX { Err(PlaylistError::TooLong) } else { Ok(uri.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_playlist_is_said() {
        let long = format!("#EXTM3U\n#EXTINF:1,\n{}", "x".repeat(LINE_BYTES_MAX + 1));
        let many = format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n{}", "x\n".repeat(SEGMENTS_MAX + 1));
        let cases: [(&[u8], PlaylistError); 7] = [
            (b"", PlaylistError::NoPlaylist),
            (b"<html>", PlaylistError::NoPlaylist),
            (b"#EXTM3U\n#\xff\n", PlaylistError::NotText),
            (&vec![b'#'; PLAYLIST_BYTES_MAX + 1], PlaylistError::TooLong),
            (long.as_bytes(), PlaylistError::TooLong),
            (many.as_bytes(), PlaylistError::TooMany),
            (b"#EXTM3U\n#EXT-X-DEFINE:NAME=\"a\",VALUE=\"b\"\n", PlaylistError::Variables),
        ];
        for (text, error) in cases {
            let begin = &text[..text.len().min(40)];
            assert_eq!(Playlist::read(text), Err(error), "{}", begin.escape_ascii());
        }
    }

    #[test]
    fn ends_of_lines_and_marks_before_the_text_do_not_matter() {
        let unix = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n\n#EXTINF:4,\na.ts\n#EXT-X-ENDLIST";
        let other = format!("\u{feff}{}\r\n", unix.replace('\n', "\r\n"));
        assert_eq!(Playlist::read(unix.as_bytes()), Playlist::read(other.as_bytes()));
        let Ok(Playlist::Media(media)) = Playlist::read(unix.as_bytes()) else { panic!("a media playlist") };
        assert!(media.is_ended && media.segments.len() == 1);
    }
}
