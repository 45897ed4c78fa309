//! URLs of SRT listeners, as far as the load generator calls them: no passphrases.

use std::str::FromStr;
use std::time::Duration;

/// Whom to call, and for what: `srt://host:port?streamid=...&latency=MS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrtUrl {
    /// Host name or address, without brackets.
    pub host: String,
    /// UDP port.
    pub port: u16,
    /// What the listener is asked for.
    pub stream_id: String,
    /// Delay that is asked for, in both directions.
    pub latency: Duration,
}

impl FromStr for SrtUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<SrtUrl, String> {
        let expected = || "expected srt://host:port?streamid=...[&latency=MS]".to_owned();
        let rest = url.strip_prefix("srt://").ok_or_else(expected)?;
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = authority.trim_end_matches('/').rsplit_once(':').ok_or_else(expected)?;
        let port = port.parse().map_err(|_| expected())?;
        let (mut stream_id, mut latency) = (String::new(), LATENCY);
        for field in query.split('&').filter(|field| !field.is_empty()) {
            match field.split_once('=') {
                Some(("streamid", value)) => value.clone_into(&mut stream_id),
                Some(("latency", value)) => {
                    latency = Duration::from_millis(value.parse().map_err(|_| expected())?);
                }
                _ => return Err(format!("srt:// has no option {field:?} here")),
            }
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(SrtUrl { host, port, stream_id, latency })
    }
}

/// Where the URL names none.
const LATENCY: Duration = Duration::from_millis(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_listener_and_a_stream() {
        let parsed =
            |text: &str| SrtUrl::from_str(text).map(|url| (url.host, url.port, url.stream_id, url.latency));
        let ms = Duration::from_millis;
        assert_eq!(
            parsed("srt://127.0.0.1:8890?streamid=read:live/a&latency=400"),
            Ok(("127.0.0.1".into(), 8890, "read:live/a".into(), ms(400)))
        );
        assert_eq!(
            parsed("srt://[::1]:1?streamid=#!::r=live/a,m=request"),
            Ok(("::1".into(), 1, "#!::r=live/a,m=request".into(), ms(120)))
        );
        for wrong in
            ["srt://h", "rtmp://h:1", "srt://h:x?streamid=a", "srt://h:1?pbkeylen=16", "srt://h:1?latency=x"]
        {
            assert!(SrtUrl::from_str(wrong).is_err(), "{wrong}");
        }
    }
}
