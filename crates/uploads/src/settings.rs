//! Where files are sent, and how.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use worker_api::pattern::Pattern;

/// All that the thread of uploads has to know.
#[derive(Debug, Clone)]
pub struct UploadSettings {
    /// Where to.
    pub destination: Destination,
    /// In front of the path that a file has below its directory; empty or without slashes at its ends.
    pub prefix: String,
    /// Files that are sent at a time.
    pub concurrency: usize,
    /// Larger files are sent in parts of so many bytes.
    pub part_bytes: usize,
    /// Bytes per second of all files together; `None`: what the network carries.
    pub bytes_per_second: Option<u64>,
    /// A request without progress for this long has failed.
    pub stall_timeout: Duration,
    /// Pause after the first failure; it doubles with each further one.
    pub retry_min: Duration,
    /// Longest pause.
    pub retry_max: Duration,
    /// Local files are removed this long after they were confirmed; `None`: whoever wrote them removes them.
    pub delete_local_after: Option<Duration>,
    /// Endings of the names of complete files, such as `.mp4`.
    pub suffixes: Vec<String>,
    /// Live streams that are sent as segments; `None`: none.
    pub mirror: Option<MirrorSettings>,
}

/// Live streams in the store: segments and playlists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorSettings {
    /// Which streams, by `app/stream`.
    pub streams: Pattern,
    /// Folder of all of them, below [`UploadSettings::prefix`].
    pub prefix: String,
    /// Time that playlists list.
    pub listed: Duration,
    /// Whether segments are deleted that playlists no longer list, and all of a stream that is over.
    pub deletes: bool,
    /// Bytes of segments of all streams together that may wait for the store.
    pub waiting_bytes: usize,
}

/// A store.
#[derive(Debug, Clone)]
pub enum Destination {
    /// A bucket of S3, or of what speaks its protocol.
    S3(S3Settings),
    /// A directory, such as a mounted file system.
    Directory(PathBuf),
}

/// A bucket.
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// Name of the bucket.
    pub bucket: String,
    /// Region that requests are signed for.
    pub region: String,
    /// `http://` or `https://` URL; `None`: that of AWS for the region.
    pub endpoint: Option<String>,
    /// Whether the bucket is in the path of requests and not in the name of the host.
    pub path_style: bool,
    /// Who asks.
    pub credentials: Credentials,
    /// Certificates of authorities to trust besides those of the system, PEM.
    pub extra_roots_pem: Vec<u8>,
}

/// Where the keys come from. They are never printed.
#[derive(Clone)]
pub enum Credentials {
    /// As the environment had them at the start.
    Keys(Keys),
    /// A file in the format of AWS, which is read for each request: keys may be changed while the server
    /// runs.
    File(PathBuf),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(_) => f.write_str("Keys(...)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// What signs requests.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// `AWS_ACCESS_KEY_ID`.
    pub id: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret: String,
    /// `AWS_SESSION_TOKEN`, for keys that are lent.
    pub token: Option<String>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(...)")
    }
}

impl Keys {
    /// Keys from the environment; `None` if it has none.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        Some(Self {
            id: set("AWS_ACCESS_KEY_ID")?,
            secret: set("AWS_SECRET_ACCESS_KEY")?,
            token: set("AWS_SESSION_TOKEN"),
        })
    }

    /// Keys from the text of a credentials file: the first profile that has both.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut id, mut secret, mut token) = (None, None, None);
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                if id.is_some() && secret.is_some() {
                    break;
                }
                (id, secret, token) = (None, None, None);
            }
            let Some((name, value)) = line.split_once('=') else { continue };
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match name.trim() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
        Some(Self { id: id?, secret: secret?, token })
    }

    /// `text` without them.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.replace(&self.secret, "***").replace(&self.id, "***");
        if let Some(token) = &self.token {
            text = text.replace(token, "***");
        }
        text
    }
}

impl Credentials {
    /// The keys at present.
    ///
    /// # Errors
    /// The file cannot be read or has no keys, in words that have none of its content.
    pub fn keys(&self) -> Result<Keys, String> {
        match self {
            Self::Keys(keys) => Ok(keys.clone()),
            Self::File(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("credentials file {}: {error}", path.display()))?;
                Keys::parse(&text).ok_or_else(|| {
                    let path = path.display();
                    format!("credentials file {path}: no `aws_access_key_id` and `aws_secret_access_key`")
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credentials_file_gives_the_first_profile_with_both_keys() {
        let text = "# keys\n[other]\naws_access_key_id = half\n[default]\naws_access_key_id=AK\n\
                    aws_secret_access_key = s/e=c \naws_session_token=t\n[third]\naws_access_key_id=X\n";
        let keys = Keys::parse(text).expect("keys");
        assert_eq!((keys.id.as_str(), keys.secret.as_str()), ("AK", "s/e=c"));
        assert_eq!(keys.token.as_deref(), Some("t"));
        assert_eq!(Keys::parse("aws_access_key_id = AK\naws_secret_access_key =\n"), None);
        assert_eq!(Keys::parse(""), None);
    }

    #[test]
    fn keys_are_never_printed() {
        let keys = Keys { id: "AKID".into(), secret: "SECRET".into(), token: Some("TOKEN".into()) };
        let printed = format!("{keys:?} {:?}", Credentials::Keys(keys.clone()));
        assert!(!["AKID", "SECRET", "TOKEN"].iter().any(|secret| printed.contains(secret)), "{printed}");
        assert_eq!(keys.redact("<Id>AKID</Id> SECRET TOKEN"), "<Id>***</Id> *** ***");
    }
}
