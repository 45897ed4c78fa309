//! `https://host/path.m3u8#height_max=720&audio=de`: where a playlist is, and which of its variants is
//! wanted. What stands behind `#` is never sent, so that it cannot be an option of the server.

use std::fmt;

use hls::read::{MasterPlaylist, Rendition, RenditionKind, Variant};
use url::Url;

use super::super::http_url::shown_http;

/// A playlist, and what to choose of it.
#[derive(Clone, PartialEq, Eq)]
pub struct HlsUrl {
    /// Its URL, with credentials, without what stands behind `#`.
    pub url: Url,
    /// What to choose.
    pub(super) choice: Choice,
}

/// What is chosen of a master playlist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Lines of the picture, at most.
    height_max: Option<u32>,
    /// Bits per second, at most.
    bandwidth_max: Option<u64>,
    /// Language or name of the audio.
    audio: Option<String>,
}

/// What was chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chosen<'a> {
    pub(super) variant: &'a Variant,
    /// Audio in a playlist of its own.
    pub(super) audio: Option<&'a str>,
}

/// What codecs that are carried begin with in `CODECS` (RFC 6381).
const CARRIED: [&str; 13] =
    ["avc1", "avc3", "hvc1", "hev1", "av01", "vp09", "vp9", "mp4a", "opus", "ac-3", "ec-3", "flac", "mp3"];

impl HlsUrl {
    /// Whether a URL is one of a playlist.
    pub(in crate::pull) fn is_playlist(url: &Url) -> bool {
        let path = url.path().to_ascii_lowercase();
        path.ends_with(".m3u8") || path.ends_with(".m3u")
    }

    /// Reads a URL for which [`is_playlist`](Self::is_playlist) holds.
    pub(in crate::pull) fn new(mut url: Url) -> Result<Self, String> {
        let mut choice = Choice::default();
        let fragment = url.fragment().unwrap_or_default().to_owned();
        for field in fragment.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let is_taken = match name {
                "height_max" => {
                    choice.height_max = value.parse().ok();
                    choice.height_max.is_some()
                }
                "bandwidth_max" => {
                    choice.bandwidth_max = value.parse().ok();
                    choice.bandwidth_max.is_some()
                }
                "audio" => {
                    choice.audio = rtmp::name::query_value(field, "audio").filter(|value| !value.is_empty());
                    choice.audio.is_some()
                }
                _ => {
                    return Err(format!(
                        "cannot use its URL: behind `#` it takes `height_max`, `bandwidth_max` and `audio`, \
                         not `{}`",
                        name.escape_debug()
                    ));
                }
            };
            if !is_taken {
                return Err(format!("cannot use its URL: `{name}` cannot be `{}`", value.escape_debug()));
            }
        }
        url.set_fragment(None);
        Ok(Self { url, choice })
    }
}

/// Without secrets.
impl fmt::Display for HlsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_http(&self.url))
    }
}

impl fmt::Debug for HlsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Choice {
    /// The best variant within the limits, of those whose codecs are carried if there are any; the
    /// smallest if all are beyond the limits. `None` if there is none at all.
    pub(super) fn of<'a>(&self, master: &'a MasterPlaylist) -> Option<Chosen<'a>> {
        let is_carried = |variant: &&Variant| {
            let codecs = variant.codecs.as_deref().unwrap_or_default().to_ascii_lowercase();
            let mut codecs = codecs.split(',').map(str::trim).filter(|codec| !codec.is_empty());
            codecs.all(|codec| CARRIED.iter().any(|begin| codec.starts_with(begin)))
        };
        let mut variants: Vec<&Variant> = master.variants.iter().filter(is_carried).collect();
        if variants.is_empty() {
            variants = master.variants.iter().collect();
        }
        let is_within = |variant: &&&Variant| {
            let height = variant.resolution.map(|(_, height)| height);
            self.bandwidth_max.is_none_or(|most| variant.bandwidth <= most)
                && self.height_max.zip(height).is_none_or(|(most, height)| height <= most)
        };
        // Of several that are equal, the first: others are there for when that fails.
        let best = variants.iter().filter(is_within).rev().max_by_key(|variant| variant.bandwidth);
        let smallest = || variants.iter().min_by_key(|variant| variant.bandwidth);
        let variant = *best.or_else(smallest)?;
        Some(Chosen { variant, audio: self.audio_of(master, variant) })
    }

    /// Where the audio of a variant is, if that is not beside its video.
    fn audio_of<'a>(&self, master: &'a MasterPlaylist, variant: &Variant) -> Option<&'a str> {
        let group = variant.audio.as_deref()?;
        let is_of_group = |of: &&Rendition| of.kind == RenditionKind::Audio && of.group == group;
        let of_group: Vec<&Rendition> = master.renditions.iter().filter(is_of_group).collect();
        let is_wanted = |of: &&&Rendition| {
            let wanted = self.audio.as_deref();
            wanted.is_some_and(|wanted| of.name == wanted || of.language.as_deref() == Some(wanted))
        };
        let wanted = of_group.iter().find(is_wanted);
        let chosen = wanted.or_else(|| of_group.iter().find(|of| of.is_default)).or(of_group.first())?;
        // The variant itself may be an audio rendition, too (RFC 8216 section 4.3.4.2.1).
        chosen.uri.as_deref().filter(|uri| *uri != variant.uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<HlsUrl, String> {
        HlsUrl::new(Url::parse(text).expect("a URL"))
    }

    fn master() -> MasterPlaylist {
        let variant = |uri: &str, bandwidth, height, codecs: &str| Variant {
            uri: uri.to_owned(),
            bandwidth,
            resolution: Some((16 * height / 9, height)),
            codecs: Some(codecs.to_owned()),
            audio: Some("a".to_owned()),
        };
        let audio = |name: &str, language: &str, is_default, uri: Option<&str>| Rendition {
            kind: RenditionKind::Audio,
            group: "a".to_owned(),
            uri: uri.map(str::to_owned),
            name: name.to_owned(),
            language: Some(language.to_owned()),
            is_default,
        };
        MasterPlaylist {
            variants: vec![
                variant("360", 800_000, 360, "avc1.4d401e, mp4a.40.2"),
                variant("1080", 5_000_000, 1080, "avc1.640028,mp4a.40.2"),
                variant("1080-again", 5_000_000, 1080, "avc1.640028,mp4a.40.2"),
                variant("2160", 20_000_000, 2160, "vvc1.1.L123,mp4a.40.2"),
                variant("720", 2_500_000, 720, "avc1.64001f,mp4a.40.2"),
            ],
            renditions: vec![
                audio("Deutsch", "de", false, Some("de")),
                audio("English", "en", true, Some("en")),
                audio("beside", "fr", false, None),
            ],
        }
    }

    #[test]
    fn the_best_variant_that_is_carried_is_chosen_within_limits() {
        for (fragment, variant, audio) in [
            ("", "1080", Some("en")),
            ("#height_max=720", "720", Some("en")),
            ("#bandwidth_max=2499999&audio=de", "360", Some("de")),
            ("#audio=Deutsch", "1080", Some("de")),
            ("#audio=it", "1080", Some("en")),
            ("#audio=fr", "1080", None),
            ("#height_max=100", "360", Some("en")),
        ] {
            let master = master();
            let url = url(&format!("https://h/a.m3u8{fragment}")).expect(fragment);
            let chosen = url.choice.of(&master).expect("a variant");
            assert_eq!((chosen.variant.uri.as_str(), chosen.audio), (variant, audio), "{fragment}");
        }
        let mut unknown = master();
        unknown.variants.retain(|variant| variant.uri == "2160");
        assert!(Choice::default().of(&unknown).is_some(), "codecs may be called something else");
        assert_eq!(Choice::default().of(&MasterPlaylist::default()), None);
    }

    #[test]
    fn options_are_checked_and_not_sent() {
        let read = url("https://u:p@h/a.m3u8?token=x#height_max=1080").expect("a URL");
        assert_eq!(read.url.as_str(), "https://u:p@h/a.m3u8?token=x");
        assert_eq!(read.to_string(), "https://h/a.m3u8?...");
        for fragment in ["height_max=big", "height_max", "audio=", "quality=best", "bandwidth_max=-1"] {
            url(&format!("https://h/a.m3u8#{fragment}")).expect_err(fragment);
        }
    }

    #[test]
    fn playlists_are_known_by_their_names() {
        for (text, is_one) in
            [("http://h/a.m3u8", true), ("http://h/A.M3U8?x=.flv", true), ("http://h/a.flv?x=.m3u8", false)]
        {
            assert_eq!(HlsUrl::is_playlist(&Url::parse(text).expect("a URL")), is_one, "{text}");
        }
    }
}
