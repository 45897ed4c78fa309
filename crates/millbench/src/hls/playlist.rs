//! What a player needs of playlists (RFC 8216bis) and of MPDs (ISO/IEC 23009-1), and no more.

use std::rc::Rc;

/// A media playlist.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct MediaPlaylist {
    pub(crate) target_s: f64,
    /// Init segment of the newest segment.
    pub(crate) map: String,
    pub(crate) segments: Vec<Segment>,
    pub(crate) parts: Vec<Part>,
    /// The part that is to come next.
    pub(crate) next: (u64, u32),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Segment {
    pub(crate) msn: u64,
    pub(crate) uri: String,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) msn: u64,
    pub(crate) number: u32,
    pub(crate) is_independent: bool,
    pub(crate) uri: String,
}

impl MediaPlaylist {
    fn read(text: &str) -> Result<Self, String> {
        let mut read = Self::default();
        let (mut msn, mut part) = (0, 0);
        for line in text.lines() {
            if let Some(value) = line.strip_prefix("#EXT-X-TARGETDURATION:") {
                read.target_s = value.parse().map_err(|_| "a playlist's target duration is no number")?;
            } else if let Some(value) = line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:") {
                msn = value.parse().map_err(|_| "a playlist's media sequence is no number")?;
            } else if let Some(attributes) = line.strip_prefix("#EXT-X-MAP:") {
                read.map = attribute(attributes, "URI").unwrap_or_default().to_owned();
            } else if let Some(attributes) = line.strip_prefix("#EXT-X-PART:") {
                let uri = attribute(attributes, "URI").ok_or("a part without a URI")?.to_owned();
                let is_independent = attributes.contains("INDEPENDENT=YES");
                read.parts.push(Part { msn, number: part, is_independent, uri });
                part += 1;
            } else if !line.starts_with('#') && !line.is_empty() {
                read.segments.push(Segment { msn, uri: line.to_owned() });
                (msn, part) = (msn + 1, 0);
            }
        }
        read.next = (msn, part);
        if !text.starts_with("#EXTM3U") || read.target_s <= 0.0 {
            return Err("no media playlist".to_owned());
        }
        Ok(read)
    }
}

/// Media playlists are the same for all players that get them at the same time: each is read once.
#[derive(Debug, Default)]
pub(crate) struct Playlists {
    read: Vec<(Vec<u8>, Rc<MediaPlaylist>)>,
}

impl Playlists {
    pub(crate) fn read(&mut self, text: &[u8]) -> Result<Rc<MediaPlaylist>, String> {
        if let Some((_, known)) = self.read.iter().rev().find(|(known, _)| known == text) {
            return Ok(Rc::clone(known));
        }
        let playlist = std::str::from_utf8(text).map_err(|_| "a playlist is not UTF-8")?;
        let playlist = Rc::new(MediaPlaylist::read(playlist)?);
        if self.read.len() == KEPT {
            self.read.remove(0);
        }
        self.read.push((text.to_vec(), Rc::clone(&playlist)));
        Ok(playlist)
    }
}

/// The URI of the first variant of a multivariant playlist.
pub(crate) fn first_variant(text: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().skip_while(|line| !line.starts_with("#EXT-X-STREAM-INF:")).skip(1);
    let uri = lines.find(|line| !line.starts_with('#') && !line.is_empty());
    uri.map(str::to_owned).ok_or_else(|| "no multivariant playlist".to_owned())
}

/// The video of an MPD with a timeline of segments.
#[derive(Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) init: String,
    /// With `$Number$` in it.
    pub(crate) media: String,
    /// Number of the newest segment.
    pub(crate) newest: u64,
    pub(crate) update_s: f64,
}

impl Manifest {
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(text);
        let update = attribute(&text, "minimumUpdatePeriod").and_then(|period| period.strip_prefix("PT"));
        let update_s = update.and_then(|period| period.strip_suffix('S')).and_then(|s| s.parse().ok());
        let base = text.split_once("<BaseURL>").and_then(|(_, rest)| rest.split_once("</BaseURL>"));
        let base = base.map_or("", |(base, _)| base);
        // The newest period is the last one.
        let period = text.rsplit_once("<Period").map_or("", |(_, period)| period);
        let video = period.split("<AdaptationSet").find(|set| set.contains("contentType=\"video\""));
        let video = video.ok_or("an MPD without video")?;
        let of = |name| attribute(video, name).ok_or("an MPD without a template of segments");
        let first: u64 = of("startNumber")?.parse().map_err(|_| "an MPD's number is none")?;
        let listed = video.matches("<S ").count() as u64;
        if listed == 0 {
            return Err("an MPD without segments".to_owned());
        }
        Ok(Self {
            init: format!("{base}{}", of("initialization")?),
            media: format!("{base}{}", of("media")?),
            newest: first + listed - 1,
            update_s: update_s.unwrap_or(1.0),
        })
    }
}

/// The value of an attribute in quotes.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = attributes.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// The path of a URI that stands in what `base` is the path of (RFC 3986 section 5.2).
pub(crate) fn resolve(base: &str, uri: &str) -> Result<String, String> {
    if uri.contains("://") {
        return Err("a URI of another server".to_owned());
    }
    if uri.starts_with('/') {
        return Ok(uri.to_owned());
    }
    let path = base.split('?').next().unwrap_or(base);
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    Ok(format!("{folder}/{uri}"))
}

/// Different playlists that players get at the same time: some are behind by a part or two.
const KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_parts_and_what_is_next_are_read() {
        let text = b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:7\n#EXT-X-MAP:URI=\"i.mp4\"\n\
            #EXT-X-PART:DURATION=1,URI=\"7.0\",INDEPENDENT=YES\n#EXTINF:1,\n7.m4s\n\
            #EXT-X-PART:DURATION=1,URI=\"8.0\"\n#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"8.1\"\n";
        let mut playlists = Playlists::default();
        let read = playlists.read(text).expect("a playlist");
        assert_eq!((read.target_s, &*read.map, read.next), (2.0, "i.mp4", (8, 1)));
        assert_eq!(read.segments, [Segment { msn: 7, uri: "7.m4s".to_owned() }]);
        let parts: Vec<_> =
            read.parts.iter().map(|part| (part.msn, part.number, part.is_independent)).collect();
        assert_eq!(parts, [(7, 0, true), (8, 0, false)]);
        assert!(Rc::ptr_eq(&read, &playlists.read(text).expect("a playlist")));
        assert!(playlists.read(b"<html>").is_err());
    }

    #[test]
    fn the_newest_segment_of_an_mpd_is_found() {
        let text = b"<MPD minimumUpdatePeriod=\"PT0.500S\"><BaseURL>a/</BaseURL><Period><AdaptationSet \
            contentType=\"audio\"/><AdaptationSet contentType=\"video\"><SegmentTemplate startNumber=\"5\" \
            initialization=\"i.mp4\" media=\"$Number$.m4s\"><S t=\"0\" d=\"1\"/><S t=\"1\" d=\"1\"/>";
        let read = Manifest::read(text).expect("an MPD");
        let (init, media) = ("a/i.mp4".to_owned(), "a/$Number$.m4s".to_owned());
        assert_eq!(read, Manifest { init, media, newest: 6, update_s: 0.5 });
        assert!(Manifest::read(b"<MPD></MPD>").is_err());
    }

    #[test]
    fn uris_are_relative_to_their_playlist() {
        for (base, uri, expected) in
            [("/a/b.m3u8?x/y", "c/d", "/a/c/d"), ("/b.m3u8", "c", "/c"), ("/a/b", "/c", "/c")]
        {
            assert_eq!(resolve(base, uri), Ok(expected.to_owned()));
        }
        assert!(resolve("/a", "http://b/c").is_err());
    }
}
