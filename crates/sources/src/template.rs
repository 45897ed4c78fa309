//! A URL for many streams, of a pull or a push: `{app}` and `{stream}` stand for the names of the
//! stream.
//!
//! Names come from players and publishers. They are put into the path or the query only,
//! percent-encoded but for letters, digits and `-_.~`, so that they end nothing of the URL; the slashes
//! of `{app}` stay. RTMP has no such encoding: servers take its names as they are written, and only
//! what would end a part of the URL is encoded. What a name may be is checked before (`NameRules`): no
//! part of it is empty or begins with a dot, so that none is `..`.

use std::fmt::Write;

/// The name of the stream.
const STREAM: &str = "{stream}";
/// Its application.
const APP: &str = "{app}";

/// A URL with places for names.
#[derive(Clone, PartialEq, Eq)]
pub struct Template(String);

impl Template {
    /// Reads a URL; `None` if it has no place for a name.
    ///
    /// # Errors
    /// Names in braces that are none, or stand where they cannot.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        if !text.contains(['{', '}']) {
            return Ok(None);
        }
        if text.replace(STREAM, "").replace(APP, "").contains(['{', '}']) {
            return Err("cannot use its URL: of names in braces it takes `{app}` and `{stream}`".to_owned());
        }
        // What stands before the first slash behind `://` says which server it is.
        let (_, rest) = text.split_once("://").unwrap_or(("", text));
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        // Parsers of URLs leave out control characters and slashes too many, and take the next part for it.
        if authority.is_empty() || text.contains(|one: char| one.is_control() || one == '\\') {
            return Err("cannot use its URL: the name of its server does not stand behind `://`".to_owned());
        }
        let scheme_bytes = text.len() - rest.len();
        let fragment = text.split_once('#').map_or("", |(_, fragment)| fragment);
        if authority.contains('{') || text[..scheme_bytes].contains('{') || fragment.contains('{') {
            return Err(
                "cannot use its URL: `{app}` and `{stream}` may stand in its path and query only".to_owned()
            );
        }
        Ok(Some(Self(text.to_owned())))
    }

    /// The URL for a stream whose names were checked.
    pub fn fill(&self, app: &str, name: &str) -> String {
        let scheme = self.0.split_once("://").map_or("", |(scheme, _)| scheme);
        let is_rtmp = ["rtmp", "rtmps"].iter().any(|rtmp| scheme.eq_ignore_ascii_case(rtmp));
        let stays = if is_rtmp { is_inside_of_rtmp } else { is_unreserved };
        // One pass: a name that looks like a place is none.
        let mut url = String::with_capacity(self.0.len() + app.len() + name.len());
        let mut rest = self.0.as_str();
        while let Some(at) = rest.find('{') {
            url.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(behind) = rest.strip_prefix(STREAM) {
                encode(name, stays, &mut url);
                rest = behind;
            } else {
                for (index, part) in app.split('/').enumerate() {
                    url.push_str(if index == 0 { "" } else { "/" });
                    encode(part, stays, &mut url);
                }
                rest = rest.strip_prefix(APP).unwrap_or_default();
            }
        }
        url.push_str(rest);
        url
    }

    /// As people are shown it, given how the URL of a stream with these stand-ins is shown.
    pub(crate) fn shown(shown: &str) -> String {
        shown.replace(STAND_INS.0, APP).replace(STAND_INS.1, STREAM)
    }
}

/// Names by which a template is checked and shown.
pub(crate) const STAND_INS: (&str, &str) = ("app-of-a-player", "stream-of-a-player");

/// Percent-encodes all characters that do not stay as they are.
fn encode(text: &str, stays: fn(char) -> bool, out: &mut String) {
    for character in text.chars() {
        if stays(character) {
            out.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// RFC 3986 section 2.3.
fn is_unreserved(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.~".contains(character)
}

/// What ends no part of a URL of RTMP.
fn is_inside_of_rtmp(character: char) -> bool {
    !character.is_control() && !character.is_whitespace() && !"/?#&%".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, app: &str, name: &str) -> String {
        Template::parse(template).expect("a template").expect("places").fill(app, name)
    }

    #[test]
    fn names_are_put_in_and_change_nothing_else() {
        // (template, app, name, URL)
        for (template, app, name, url) in [
            ("rtsp://h/{stream}", "cam", "front", "rtsp://h/front"),
            ("rtsp://h/{app}/{stream}?x={stream}", "a/b", "c", "rtsp://h/a/b/c?x=c"),
            ("rtsp://h/{stream}", "cam", "a@b:c+d", "rtsp://h/a%40b%3Ac%2Bd"),
            (
                "http://h/{stream}.flv",
                "cam",
                "a/../b?c#d&e=%2f",
                "http://h/a%2F..%2Fb%3Fc%23d%26e%3D%252f.flv",
            ),
            ("http://h/?s={stream}", "cam", "a&token=x", "http://h/?s=a%26token%3Dx"),
            ("rtsp://h/{stream}", "cam", "\u{e4}\r\n", "rtsp://h/%C3%A4%0D%0A"),
            ("rtsp://h/{app}/{stream}", "{stream}", "{app}", "rtsp://h/%7Bstream%7D/%7Bapp%7D"),
            ("rtmp://h/{app}/{stream}", "a/b", "\u{e4}@b:c+d", "rtmp://h/a/b/\u{e4}@b:c+d"),
            ("RTMPS://h/{app}/{stream}", "a", "b?c#d&e/f", "RTMPS://h/a/b%3Fc%23d%26e%2Ff"),
        ] {
            assert_eq!(filled(template, app, name), url);
        }
    }

    #[test]
    fn places_are_where_they_cannot_choose_the_server() {
        for text in [
            "rtsp://{stream}/a",
            "rtsp://{stream}.example/a",
            "rtsp://u:{stream}@h/a",
            "{stream}://h/a",
            "rtsp://h:{app}?x",
            "http://h/a#{stream}",
            "http://h/{name}",
            "http://h/{stream",
            "http://h/}",
            "http:///{stream}/a.m3u8",
            "http://\t/{stream}/a.m3u8",
            "http://\\{stream}/a.m3u8",
        ] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
        assert!(Template::parse("http://h/a").is_ok_and(|template| template.is_none()));
    }
}
