//! Media playlists: segments, and what is needed to read each.

use std::sync::Arc;
use std::time::Duration;

use super::attributes::{Attributes, byte_range, range_at};
use super::{PlaylistError, SEGMENTS_MAX, kept};

/// A playlist of segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MediaPlaylist {
    /// Longest segment, as it says (section 4.3.3.1).
    pub target_duration: Duration,
    /// Number of the first segment (section 4.3.3.2).
    pub media_sequence: u64,
    /// Discontinuities before the first segment (section 4.3.3.3).
    pub discontinuity_sequence: u64,
    /// No more segments will come (section 4.3.3.4).
    pub is_ended: bool,
    /// Segments, in order.
    pub segments: Vec<Segment>,
}

/// A piece of media.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// Where it is.
    pub uri: String,
    /// Its length, as the playlist says; at most [`DURATION_MAX`].
    pub duration: Duration,
    /// The part of the resource that it is; `None` is all.
    pub range: Option<ByteRange>,
    /// Nothing connects it with the segment before: times, tracks and codecs may differ.
    pub is_discontinuity: bool,
    /// There is no media: it is not to be asked for (RFC 8216bis, `EXT-X-GAP`).
    pub is_gap: bool,
    /// What it is encrypted with.
    pub key: Option<Arc<Key>>,
    /// What a reader needs before it.
    pub map: Option<Arc<Map>>,
}

/// Bytes of a resource: `0 < length`, and `offset + length` is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// The first.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// How segments are encrypted (section 4.3.2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// As a whole, AES-128 in CBC mode with PKCS #7 padding.
    Aes128 {
        /// Where the 16 bytes of the key are.
        uri: String,
        /// The initialization vector; `None`: the number of the segment.
        iv: Option<[u8; 16]>,
    },
    /// Otherwise; its `METHOD`, or `KEYFORMAT`.
    Other(String),
}

/// The part of a file that is needed before its segments (section 4.3.2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// Where it is.
    pub uri: String,
    /// The part of the resource that it is; `None` is all.
    pub range: Option<ByteRange>,
    /// What it is encrypted with.
    pub key: Option<Arc<Key>>,
}

/// Longest duration that is believed.
pub const DURATION_MAX: Duration = Duration::from_secs(3600);

impl MediaPlaylist {
    pub(super) fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Self, PlaylistError> {
        let mut playlist = Self::default();
        let (mut next, mut key, mut map) = (Segment::default(), None, None);
        // Length and offset of the range of the next segment.
        let mut range = None;
        for line in lines {
            let Some(tag) = line.strip_prefix('#') else {
                if playlist.segments.len() == SEGMENTS_MAX {
                    return Err(PlaylistError::TooMany);
                }
                next.uri = kept(line)?;
                next.range = match range.take() {
                    Some(range) => Some(range_behind(range, &next.uri, playlist.segments.last())?),
                    None => None,
                };
                (next.key, next.map) = (key.clone(), map.clone());
                playlist.segments.push(std::mem::take(&mut next));
                continue;
            };
            let (name, value) = tag.split_once(':').unwrap_or((tag, ""));
            match name {
                "EXTINF" => next.duration = seconds(value.split(',').next().unwrap_or_default(), "EXTINF")?,
                "EXT-X-BYTERANGE" => {
                    range = Some(byte_range(value).ok_or(PlaylistError::Malformed("EXT-X-BYTERANGE"))?);
                }
                "EXT-X-DISCONTINUITY" => next.is_discontinuity = true,
                "EXT-X-GAP" => next.is_gap = true,
                "EXT-X-KEY" => key = Key::of(Attributes(value))?.map(Arc::new),
                "EXT-X-MAP" => map = Some(Arc::new(Map::of(Attributes(value), key.clone())?)),
                "EXT-X-TARGETDURATION" => playlist.target_duration = seconds(value, "EXT-X-TARGETDURATION")?,
                "EXT-X-MEDIA-SEQUENCE" => {
                    playlist.media_sequence = number(value, "EXT-X-MEDIA-SEQUENCE")?;
                }
                "EXT-X-DISCONTINUITY-SEQUENCE" => {
                    playlist.discontinuity_sequence = number(value, "EXT-X-DISCONTINUITY-SEQUENCE")?;
                }
                "EXT-X-ENDLIST" => playlist.is_ended = true,
                _ => {}
            }
        }
        Ok(playlist)
    }
}

impl Key {
    /// `None`: segments are not encrypted.
    fn of(list: Attributes<'_>) -> Result<Option<Self>, PlaylistError> {
        const MALFORMED: PlaylistError = PlaylistError::Malformed("EXT-X-KEY");
        let format = list.value("KEYFORMAT").unwrap_or("identity");
        match list.value("METHOD").ok_or(MALFORMED)? {
            "NONE" => Ok(None),
            "AES-128" if format == "identity" => {
                let iv = list.value("IV").map(|text| hexadecimal(text).ok_or(MALFORMED)).transpose()?;
                Ok(Some(Self::Aes128 { uri: kept(list.value("URI").ok_or(MALFORMED)?)?, iv }))
            }
            "AES-128" => Ok(Some(Self::Other(kept(format)?))),
            other => Ok(Some(Self::Other(kept(other)?))),
        }
    }
}

impl Map {
    fn of(list: Attributes<'_>, key: Option<Arc<Key>>) -> Result<Self, PlaylistError> {
        const MALFORMED: PlaylistError = PlaylistError::Malformed("EXT-X-MAP");
        let range = list.value("BYTERANGE").map(|text| {
            let (length, offset) = byte_range(text)?;
            range_at(offset.unwrap_or(0), length)
        });
        let range = range.map(|range| range.ok_or(MALFORMED)).transpose()?;
        Ok(Self { uri: kept(list.value("URI").ok_or(MALFORMED)?)?, range, key })
    }
}

/// A range that says no offset begins where that of the segment before ends, of the same resource.
fn range_behind(
    (length, offset): (u64, Option<u64>),
    uri: &str,
    before: Option<&Segment>,
) -> Result<ByteRange, PlaylistError> {
    let before = before.filter(|before| before.uri == uri).and_then(|before| before.range);
    let offset = offset.or(before.map(|before| before.offset + before.length));
    range_at(offset.unwrap_or(0), length).ok_or(PlaylistError::Malformed("EXT-X-BYTERANGE"))
}

fn seconds(text: &str, tag: &'static str) -> Result<Duration, PlaylistError> {
    let seconds: f64 = text.trim().parse().map_err(|_| PlaylistError::Malformed(tag))?;
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PlaylistError::Malformed(tag));
    }
    Ok(Duration::try_from_secs_f64(seconds).map_or(DURATION_MAX, |duration| duration.min(DURATION_MAX)))
}

fn number(text: &str, tag: &'static str) -> Result<u64, PlaylistError> {
    text.trim().parse().map_err(|_| PlaylistError::Malformed(tag))
}

/// `0x` and up to 32 digits.
fn hexadecimal(text: &str) -> Option<[u8; 16]> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"))?;
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::Playlist;
    use super::*;

    fn media(text: &str) -> Result<MediaPlaylist, PlaylistError> {
        match Playlist::read(format!("#EXTM3U\n{text}").as_bytes())? {
            Playlist::Media(media) => Ok(media),
            Playlist::Master(master) => panic!("{master:?}"),
        }
    }

    #[test]
    fn a_live_playlist_is_read() {
        let playlist = media(
            "#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:6\n#EXT-X-MEDIA-SEQUENCE:70\n\
             #EXT-X-DISCONTINUITY-SEQUENCE:3\n#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES\n\
             #EXT-X-PROGRAM-DATE-TIME:2026-11-29T10:00:00Z\n#EXTINF:5.96,title, with a comma\na.m4s\n\
             #EXT-X-DISCONTINUITY\n#EXT-X-GAP\n#EXTINF:6\nb.m4s\n\
             #EXT-X-PART:DURATION=0.2,URI=\"c.0.m4s\"\n#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"c.1.m4s\"\n",
        )
        .expect("a playlist");
        assert_eq!((playlist.media_sequence, playlist.discontinuity_sequence), (70, 3));
        assert_eq!(playlist.target_duration, Duration::from_secs(6));
        assert!(!playlist.is_ended);
        let [a, b] = &playlist.segments[..] else { panic!("{:?}", playlist.segments) };
        assert_eq!((a.uri.as_str(), a.duration), ("a.m4s", Duration::from_millis(5_960)));
        assert!(!a.is_discontinuity && !a.is_gap && b.is_discontinuity && b.is_gap);
    }

    #[test]
    fn keys_and_maps_hold_until_the_next() {
        let playlist = media(
            "#EXTINF:1,\nplain\n\
             #EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0x0102\n#EXT-X-MAP:URI=\"i\",BYTERANGE=\"10@20\"\n\
             a\nb\n#EXT-X-KEY:METHOD=NONE\nc\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\"\nd\n\
             #EXT-X-KEY:METHOD=AES-128,URI=\"skd://x\",KEYFORMAT=\"com.apple.streamingkeydelivery\"\ne\n",
        )
        .expect("a playlist");
        let mut iv = [0; 16];
        iv[14..].copy_from_slice(&[1, 2]);
        let aes = Some(Arc::new(Key::Aes128 { uri: "k".to_owned(), iv: Some(iv) }));
        let other = |method: &str| Some(Arc::new(Key::Other(method.to_owned())));
        let keys: Vec<_> = playlist.segments.iter().map(|segment| segment.key.clone()).collect();
        let expected = [
            None,
            aes.clone(),
            aes.clone(),
            None,
            other("SAMPLE-AES"),
            other("com.apple.streamingkeydelivery"),
        ];
        assert_eq!(keys, expected);
        let map = Map { uri: "i".to_owned(), range: Some(ByteRange { offset: 20, length: 10 }), key: aes };
        assert!(playlist.segments[0].map.is_none());
        assert!(playlist.segments[1..].iter().all(|segment| segment.map.as_deref() == Some(&map)));
    }

    #[test]
    fn ranges_go_on_within_a_resource() {
        let playlist = media(
            "#EXT-X-BYTERANGE:10@5\na\n#EXT-X-BYTERANGE:20\na\n#EXT-X-BYTERANGE:7\nb\n\
             #EXT-X-BYTERANGE:1@99\nb\nb\n",
        )
        .expect("a playlist");
        let ranges: Vec<_> = playlist
            .segments
            .iter()
            .map(|segment| segment.range.map(|range| (range.offset, range.length)))
            .collect();
        assert_eq!(ranges, [Some((5, 10)), Some((15, 20)), Some((0, 7)), Some((99, 1)), None]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let cases = [
            ("#EXTINF:-1,\na", "EXTINF"),
            ("#EXTINF:NaN,\na", "EXTINF"),
            ("#EXTINF:\na", "EXTINF"),
            ("#EXT-X-TARGETDURATION:x", "EXT-X-TARGETDURATION"),
            ("#EXT-X-MEDIA-SEQUENCE:-4", "EXT-X-MEDIA-SEQUENCE"),
            ("#EXT-X-BYTERANGE:1@18446744073709551615\na", "EXT-X-BYTERANGE"),
            ("#EXT-X-BYTERANGE:0@1\na", "EXT-X-BYTERANGE"),
            ("#EXT-X-KEY:URI=\"k\"", "EXT-X-KEY"),
            ("#EXT-X-KEY:METHOD=AES-128", "EXT-X-KEY"),
            ("#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0x112233445566778899aabbccddeeff0011", "EXT-X-KEY"),
            ("#EXT-X-MAP:BYTERANGE=\"1@1\"", "EXT-X-MAP"),
        ];
        for (text, tag) in cases {
            assert_eq!(media(text), Err(PlaylistError::Malformed(tag)), "{text}");
        }
        let long = media("#EXTINF:1e300,\na\n#EXTINF:inf,\nb").expect("a playlist");
        assert!(long.segments.iter().all(|segment| segment.duration == DURATION_MAX));
    }
}
