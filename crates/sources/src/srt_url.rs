//! URLs of SRT listeners: who is called, for what, and by which passphrase.

use std::fmt;
use std::time::Duration;

use srt::{CipherMode, KeyLength, Passphrase, STREAM_ID_BYTES_MAX};
use url::Url;

/// Delay where the URL names none.
const LATENCY: Duration = Duration::from_millis(120);
/// Most that a URL may ask for.
const LATENCY_ASKED_MS_MAX: u64 = u16::MAX as u64;

/// A listener to call: `srt://host:port?streamid=..&latency=..&passphrase=..&pbkeylen=..&cryptomode=..`.
#[derive(Clone)]
pub struct SrtUrl {
    /// Name or address.
    pub host: String,
    /// UDP port.
    pub port: u16,
    /// What the listener is asked for; secret, since tokens are in it.
    pub stream_id: String,
    /// Delay that is asked for.
    pub latency: Duration,
    /// What payloads are encrypted by.
    pub passphrase: Option<(Passphrase, KeyLength, CipherMode)>,
    /// The number of the program. `None`: the first one with a track that is carried.
    pub program: Option<u16>,
    /// All of it, to tell two apart.
    text: String,
}

impl PartialEq for SrtUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for SrtUrl {}

impl SrtUrl {
    /// Reads a URL that begins with `srt://`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "cannot use its URL: `srt://` takes a host and a port".to_owned();
        let url = Url::parse(text).map_err(|_| invalid())?;
        let (host, port) = url.host_str().zip(url.port()).ok_or_else(invalid)?;
        let mut key = (None, KeyLength::Aes128, CipherMode::Ctr);
        let mut found = Self {
            host: host.to_owned(),
            port,
            stream_id: String::new(),
            latency: LATENCY,
            passphrase: None,
            program: None,
            text: text.to_owned(),
        };
        // What `Url` has behind `#` belongs to stream IDs of the form `#!::r=...`.
        let fragment = url.fragment().map(|fragment| format!("#{fragment}")).unwrap_or_default();
        let query = format!("{}{fragment}", url.query().unwrap_or_default());
        for field in query.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let value = rtmp::name::query_value(&format!("v={value}"), "v").unwrap_or_default();
            let is_taken = match name {
                "streamid" => {
                    found.stream_id = value;
                    found.stream_id.len() <= STREAM_ID_BYTES_MAX
                }
                "latency" => {
                    let latency = value.parse().ok().filter(|ms| *ms <= LATENCY_ASKED_MS_MAX);
                    found.latency = latency.map_or(LATENCY, Duration::from_millis);
                    latency.is_some()
                }
                "passphrase" => {
                    key.0 = Passphrase::new(&value);
                    key.0.is_some()
                }
                "pbkeylen" => {
                    let length = [KeyLength::Aes128, KeyLength::Aes192, KeyLength::Aes256]
                        .into_iter()
                        .find(|length| length.bytes().to_string() == value);
                    key.1 = length.unwrap_or(KeyLength::Aes128);
                    length.is_some()
                }
                // By libsrt's numbers as well, of which 0 leaves it to the caller.
                "cryptomode" => {
                    let mode = match value.as_str() {
                        "ctr" | "0" | "1" => Some(CipherMode::Ctr),
                        "gcm" | "2" => Some(CipherMode::Gcm),
                        _ => None,
                    };
                    key.2 = mode.unwrap_or_default();
                    mode.is_some()
                }
                "program" => {
                    found.program = value.parse().ok().filter(|number| *number != 0);
                    found.program.is_some()
                }
                "mode" => value == "caller",
                other => {
                    return Err(format!(
                        "cannot use its URL: `srt://` has no option `{}`",
                        other.escape_debug()
                    ));
                }
            };
            if !is_taken {
                let allowed = match name {
                    "streamid" => format!("at most {STREAM_ID_BYTES_MAX} bytes"),
                    "latency" => format!("milliseconds, at most {LATENCY_ASKED_MS_MAX}"),
                    "passphrase" => "10 to 80 bytes".to_owned(),
                    "pbkeylen" => "16, 24 or 32".to_owned(),
                    "cryptomode" => "`ctr` or `gcm`".to_owned(),
                    "program" => format!("a number from 1 to {}", u16::MAX),
                    _ => "`caller`".to_owned(),
                };
                return Err(format!("cannot use its URL: `{name}` has to be {allowed}"));
            }
        }
        // Whoever asks for it counts on it.
        if key.2 == CipherMode::Gcm && key.0.is_none() {
            return Err("cannot use its URL: `cryptomode` needs a `passphrase`".to_owned());
        }
        found.passphrase = key.0.map(|passphrase| (passphrase, key.1, key.2));
        Ok(found)
    }

    /// Whether the names of a stream may have been put into it. In stream ids of the form `#!::` a `,`
    /// ends a field, and nothing stands for it: behind it a name could say what it likes.
    pub fn check_names(&self, app: &str, name: &str) -> Result<(), String> {
        if self.stream_id.starts_with("#!::") && (app.contains(',') || name.contains(',')) {
            return Err("a name with `,` cannot stand in a stream id of the form `#!::`".to_owned());
        }
        Ok(())
    }
}

/// Without secrets.
impl fmt::Display for SrtUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = if self.text.contains('?') { "?..." } else { "" };
        write!(f, "srt://{}:{}{hidden}", self.host, self.port)
    }
}

impl fmt::Debug for SrtUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_listener_and_hide_secrets() {
        let url = "srt://media.example:9000?streamid=read:live/cam?token=secret&latency=400\
                   &passphrase=much%20secret&pbkeylen=32&program=7";
        let url = SrtUrl::parse(url).expect("a URL");
        assert_eq!(url.to_string(), "srt://media.example:9000?...");
        assert_eq!((url.host.as_str(), url.port, url.program), ("media.example", 9000, Some(7)));
        assert_eq!((url.stream_id.as_str(), url.latency.as_millis()), ("read:live/cam?token=secret", 400));
        let expected = Some((KeyLength::Aes256, CipherMode::Ctr));
        assert_eq!(url.passphrase.map(|(_, length, mode)| (length, mode)), expected);
        for (value, expected) in [
            ("ctr", CipherMode::Ctr),
            ("0", CipherMode::Ctr),
            ("1", CipherMode::Ctr),
            ("gcm", CipherMode::Gcm),
            ("2", CipherMode::Gcm),
        ] {
            let url = SrtUrl::parse(&format!("srt://h:1?cryptomode={value}&passphrase=much%20secret"));
            let mode = url.expect("a URL").passphrase.map(|(.., mode)| mode);
            assert_eq!(mode, Some(expected), "{value}");
        }
        let url = SrtUrl::parse("srt://[::1]:9000?streamid=#!::r=live/cam,m=request").expect("a URL");
        assert_eq!(url.stream_id, "#!::r=live/cam,m=request");
        let long = format!("srt://h:1?streamid={}", "x".repeat(513));
        for (text, reason) in [
            ("srt://", "takes a host and a port"),
            ("srt://media.example", "takes a host and a port"),
            ("srt://h:1?passphrase=short", "`passphrase` has to be 10 to 80 bytes"),
            ("srt://h:1?pbkeylen=20", "`pbkeylen` has to be 16, 24 or 32"),
            ("srt://h:1?cryptomode=GCM&passphrase=0123456789", "`cryptomode` has to be `ctr` or `gcm`"),
            ("srt://h:1?cryptomode=gcm", "`cryptomode` needs a `passphrase`"),
            ("srt://h:1?latency=99999", "`latency` has to be milliseconds, at most 65535"),
            ("srt://h:1?mode=listener", "`mode` has to be `caller`"),
            ("srt://h:1?transtype=file", "has no option `transtype`"),
            ("srt://h:1?program=0", "`program` has to be a number from 1 to 65535"),
            (&long, "`streamid` has to be at most 512 bytes"),
        ] {
            let error = SrtUrl::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
