//! The catalogue of a broadcast: which tracks it has and how they are coded, as JSON.
//!
//! The format is that of hang (<https://doc.moq.dev/concept/layer/hang>), which the players and
//! publishers of browsers have; only what this server uses of it is here, and what is unknown is
//! passed over. The catalogue is a track itself, [`CATALOG_TRACK`]: the first frame of a group is a
//! whole catalogue, and each frame behind it changes that as a merge patch (RFC 7396).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the track that carries the catalogue.
pub const CATALOG_TRACK: &str = "catalog.json";
/// Longest catalogue, with the changes applied.
pub const CATALOG_BYTES_MAX: usize = 64 << 10;

/// What a broadcast has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// Video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<Renditions<Video>>,
    /// Audio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio: Option<Renditions<Audio>>,
}

/// Tracks of one kind, by the name of their track.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Renditions<T> {
    /// Each is the same picture or sound, coded in another way.
    pub renditions: BTreeMap<String, T>,
}

/// How a track of video is coded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Video {
    /// As WebCodecs names it.
    pub codec: String,
    /// What is around each access unit.
    #[serde(default)]
    pub container: Container,
    /// `avcC` or `hvcC` in hexadecimal digits. Without it, H.264 and H.265 have start codes, and
    /// their parameter sets in key frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Width in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coded_width: Option<u32>,
    /// Height in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coded_height: Option<u32>,
}

/// How a track of audio is coded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audio {
    /// As WebCodecs names it.
    pub codec: String,
    /// What is around each access unit.
    #[serde(default)]
    pub container: Container,
    /// Samples per second.
    pub sample_rate: u32,
    /// Channels.
    pub number_of_channels: u8,
    /// AudioSpecificConfig in hexadecimal digits, of AAC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What is around each access unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Container {
    /// `legacy`: the presentation time in microseconds as a QUIC integer, then the access unit.
    /// Others are not taken.
    pub kind: String,
}

impl Default for Container {
    fn default() -> Self {
        Self { kind: Self::LEGACY.to_owned() }
    }
}

impl Container {
    const LEGACY: &str = "legacy";

    /// Whether it is the one that this server reads.
    pub fn is_read(&self) -> bool {
        self.kind == Self::LEGACY
    }
}

impl Catalog {
    /// As the track has it.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("maps with texts as keys, and numbers, are JSON")
    }
}

/// Puts a catalogue together from the frames of a group.
#[derive(Debug, Default)]
pub struct CatalogReader {
    whole: Option<Value>,
}

impl CatalogReader {
    /// Another group begins.
    pub fn begin_group(&mut self) {
        self.whole = None;
    }

    /// The catalogue after the next frame of the group; `None` if it is none.
    pub fn frame(&mut self, json: &[u8]) -> Option<Catalog> {
        if json.len() > CATALOG_BYTES_MAX {
            return None;
        }
        let value: Value = serde_json::from_slice(json).ok()?;
        match &mut self.whole {
            Some(whole) => merge(whole, value),
            None => self.whole = Some(value),
        }
        // A list would be read as the fields of a catalogue in their order.
        let whole = self.whole.as_ref().filter(|whole| whole.is_object())?;
        // What is too long goes, and the changes to come with it.
        let is_short = serde_json::to_vec(whole).is_ok_and(|json| json.len() <= CATALOG_BYTES_MAX);
        if !is_short {
            self.whole = None;
            return None;
        }
        Catalog::deserialize(whole).ok()
    }
}

/// RFC 7396 section 2. No deeper than JSON may be nested, which its parser limits.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(&key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes of hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"video":{"renditions":{"v":{"codec":"avc1.64001f","description":"0164",
        "codedWidth":1280,"container":{"kind":"legacy"},"later":true}},"rotation":0},"clock":{}}"#;

    #[test]
    fn what_is_written_is_read_and_what_is_unknown_is_passed_over() {
        let mut reader = CatalogReader::default();
        let catalog = reader.frame(WHOLE.as_bytes()).expect("a catalogue");
        let video = &catalog.video.as_ref().expect("video").renditions["v"];
        assert_eq!(
            (video.codec.as_str(), video.coded_width, video.coded_height),
            ("avc1.64001f", Some(1280), None)
        );
        reader.begin_group();
        assert_eq!(reader.frame(&catalog.to_json()), Some(catalog));
    }

    #[test]
    fn frames_behind_the_first_change_it() {
        let mut reader = CatalogReader::default();
        reader.frame(WHOLE.as_bytes()).expect("a catalogue");
        let audio = r#"{"audio":{"renditions":{"a":{"codec":"opus","sampleRate":48000,"numberOfChannels":2}}},
            "video":{"renditions":{"v":null,"w":{"codec":"vp8"}}}}"#;
        let catalog = reader.frame(audio.as_bytes()).expect("a catalogue");
        let names: Vec<_> = catalog.video.expect("video").renditions.into_keys().collect();
        let audio = &catalog.audio.expect("audio").renditions["a"];
        assert_eq!((names, audio.container.is_read()), (vec!["w".to_owned()], true));
        assert_eq!(reader.frame(br#"{"audio":7}"#), None, "no catalogue any more");
        assert_eq!(reader.frame(br#"{"audio":null,"video":null}"#), Some(Catalog::default()));
    }

    #[test]
    fn what_is_no_catalogue_or_grows_without_end_is_refused() {
        let mut reader = CatalogReader::default();
        for broken in [&b""[..], b"{", b"[]", b"{\"video\":{}}", &[b'['; 1000]] {
            reader.begin_group();
            assert_eq!(reader.frame(broken), None);
        }
        reader.begin_group();
        let filled = |key: usize| format!("{{\"{key}\":\"{}\"}}", "x".repeat(15 << 10));
        let read: Vec<bool> = (0..5).map(|key| reader.frame(filled(key).as_bytes()).is_some()).collect();
        assert_eq!(read, [true, true, true, true, false]);
        assert_eq!(reader.frame(&vec![b' '; CATALOG_BYTES_MAX + 1]), None);
    }

    #[test]
    fn hexadecimal_digits_are_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        assert_eq!((from_hex("0"), from_hex("0g"), from_hex("é")), (None, None, None));
    }
}
