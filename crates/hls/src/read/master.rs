//! Master playlists: the variants of a stream, and renditions in playlists of their own.

use super::attributes::Attributes;
use super::{PlaylistError, VARIANTS_MAX, kept};

/// A playlist of playlists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MasterPlaylist {
    /// Versions of the same stream, in the order of the playlist.
    pub variants: Vec<Variant>,
    /// What they refer to.
    pub renditions: Vec<Rendition>,
}

/// One version of a stream (section 4.3.4.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variant {
    /// Its media playlist.
    pub uri: String,
    /// Most bits per second, as it says; 0 if it does not.
    pub bandwidth: u64,
    /// Width and height in pixels.
    pub resolution: Option<(u32, u32)>,
    /// `CODECS`, as it is written.
    pub codecs: Option<String>,
    /// Group of its audio renditions.
    pub audio: Option<String>,
}

/// A track in a playlist of its own, or beside others (section 4.3.4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendition {
    /// What it has.
    pub kind: RenditionKind,
    /// Its group.
    pub group: String,
    /// Its media playlist; `None`: it is in that of the variant.
    pub uri: Option<String>,
    /// Its name.
    pub name: String,
    /// Its language, if it says one.
    pub language: Option<String>,
    /// It is what players take that were asked for nothing.
    pub is_default: bool,
}

/// What a rendition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenditionKind {
    /// Audio.
    Audio,
    /// Another angle of the video.
    Video,
    /// Subtitles, captions.
    Text,
}

impl MasterPlaylist {
    pub(super) fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Self, PlaylistError> {
        let mut playlist = Self::default();
        let mut next = None;
        for line in lines {
            if let Some(list) = line.strip_prefix("#EXT-X-STREAM-INF:") {
                next = Some(Variant::of(Attributes(list))?);
            } else if let Some(list) = line.strip_prefix("#EXT-X-MEDIA:") {
                playlist.renditions.extend(Rendition::of(Attributes(list))?);
            } else if !line.starts_with('#')
                && let Some(variant) = next.take()
            {
                playlist.variants.push(Variant { uri: kept(line)?, ..variant });
            }
            if playlist.variants.len() > VARIANTS_MAX || playlist.renditions.len() > VARIANTS_MAX {
                return Err(PlaylistError::TooMany);
            }
        }
        Ok(playlist)
    }
}

impl Variant {
    fn of(list: Attributes<'_>) -> Result<Self, PlaylistError> {
        let resolution = list.value("RESOLUTION").and_then(|text| {
            let (width, height) = text.split_once(['x', 'X'])?;
            Some((width.parse().ok()?, height.parse().ok()?))
        });
        Ok(Self {
            uri: String::new(),
            bandwidth: list.value("BANDWIDTH").and_then(|text| text.parse().ok()).unwrap_or(0),
            resolution,
            codecs: list.value("CODECS").map(kept).transpose()?,
            audio: list.value("AUDIO").map(kept).transpose()?,
        })
    }
}

impl Rendition {
    /// `None` if nothing can refer to it.
    fn of(list: Attributes<'_>) -> Result<Option<Self>, PlaylistError> {
        let Some(group) = list.value("GROUP-ID") else { return Ok(None) };
        Ok(Some(Self {
            kind: match list.value("TYPE") {
                Some("AUDIO") => RenditionKind::Audio,
                Some("VIDEO") => RenditionKind::Video,
                _ => RenditionKind::Text,
            },
            group: kept(group)?,
            uri: list.value("URI").filter(|uri| !uri.is_empty()).map(kept).transpose()?,
            name: kept(list.value("NAME").unwrap_or_default())?,
            language: list.value("LANGUAGE").map(kept).transpose()?,
            is_default: list.is_yes("DEFAULT"),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Playlist;
    use super::*;

    #[test]
    fn variants_and_renditions_are_listed() {
        let text = "#EXTM3U\n#EXT-X-INDEPENDENT-SEGMENTS\n\
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"English\",LANGUAGE=\"en\",\
            DEFAULT=YES,URI=\"en.m3u8\"\n\
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"beside\"\n\
            #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"s\",NAME=\"x\",URI=\"s.m3u8\"\n\
            #EXT-X-MEDIA:TYPE=AUDIO\n\
            #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI=\"i.m3u8\"\n\
            #EXT-X-STREAM-INF:BANDWIDTH=3000000,RESOLUTION=1280x720,\
            CODECS=\"avc1.64001f,mp4a.40.2\",AUDIO=\"a\"\n\
            # a comment\n720.m3u8\n\
            #EXT-X-STREAM-INF:RESOLUTION=big\nsmall.m3u8\nnobody.m3u8\n";
        let Ok(Playlist::Master(master)) = Playlist::read(text.as_bytes()) else {
            panic!("a master playlist")
        };
        assert_eq!(
            master.variants,
            [
                Variant {
                    uri: "720.m3u8".to_owned(),
                    bandwidth: 3_000_000,
                    resolution: Some((1280, 720)),
                    codecs: Some("avc1.64001f,mp4a.40.2".to_owned()),
                    audio: Some("a".to_owned()),
                },
                Variant { uri: "small.m3u8".to_owned(), ..Variant::default() },
            ]
        );
        let listed: Vec<_> = master
            .renditions
            .iter()
            .map(|of| (of.kind, of.name.as_str(), of.uri.as_deref(), of.is_default))
            .collect();
        assert_eq!(
            listed,
            [
                (RenditionKind::Audio, "English", Some("en.m3u8"), true),
                (RenditionKind::Audio, "beside", None, false),
                (RenditionKind::Text, "x", Some("s.m3u8"), false),
            ]
        );
    }

    #[test]
    fn there_are_not_more_variants_than_are_read() {
        let many = format!("#EXTM3U\n{}", "#EXT-X-STREAM-INF:BANDWIDTH=1\na\n".repeat(VARIANTS_MAX + 1));
        assert_eq!(Playlist::read(many.as_bytes()), Err(PlaylistError::TooMany));
    }
}
