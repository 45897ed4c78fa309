//! What a path of a request names: a file, and which object of it.
//!
//! ```text
//!  /vod/recordings/{app}/{stream}/{time}.mp4     /vod/files/{path}.mp4     /vod/remote/{name}/{path}.mp4
//!      the file itself, by ranges
//!      .../index.m3u8      multivariant playlist of HLS
//!      .../manifest.mpd    MPD of DASH
//!      .../{tag}/{object}  what these list: `v0.m3u8`, `v0/init-0.mp4`, `v0/17.m4s`
//!  /vod/live/{app}/{stream}.m3u8, .mpd           the recording of a stream that is being made
//! ```
//!
//! The tag names a version of the file, so that objects never change. Paths come from the network: each
//! component is decoded once, and one that is empty, begins with a dot or has a slash in it names nothing.

use std::fmt::Write as _;

use hls::Object;
use percent_encoding::percent_decode_str;

/// What all paths begin with.
pub const PREFIX: &str = "/vod/";
/// Longest path, bytes, as it is in the request.
const PATH_BYTES_MAX: usize = 4096;
/// Longest component; file systems have 255.
const COMPONENT_BYTES_MAX: usize = 255;
/// Components of a path below `vod.root`, or of a URL.
const COMPONENTS_MAX: usize = 32;
/// Extensions of files that are served, in lower case.
const EXTENSIONS: [&str; 5] = ["mp4", "m4v", "m4a", "mov", "flv"];

/// A file that can be played.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A recording of a stream.
    Recording {
        /// Application.
        app: String,
        /// Name of the stream.
        stream: String,
        /// Name of the file.
        file: String,
    },
    /// A file below `vod.root`.
    File {
        /// Its path there, of plain components.
        path: String,
    },
    /// A file of another server.
    Remote {
        /// Name of the server's entry.
        name: String,
        /// Path below its URL, of plain components.
        path: String,
    },
}

/// What of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileObject {
    /// The file as it is.
    Whole,
    /// The multivariant playlist.
    Multivariant,
    /// The MPD.
    Mpd,
    /// What playlists list, of a version of the file.
    Tagged(String, Object),
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The list of what there is.
    List,
    /// An object of a file.
    Object(Source, FileObject),
    /// The recording of a stream that is being made.
    Live {
        /// Application.
        app: String,
        /// Name of the stream.
        stream: String,
        /// By DASH, or by HLS.
        is_dash: bool,
    },
}

impl Target {
    /// Reads the path of a request; `None` if it names nothing.
    pub fn read(path: &str) -> Option<Self> {
        let path = path.strip_prefix(PREFIX).filter(|path| path.len() <= PATH_BYTES_MAX)?;
        let Some((kind, rest)) = path.split_once('/') else { return path.is_empty().then_some(Self::List) };
        let components: Vec<String> = rest.split('/').map(component).collect::<Option<_>>()?;
        match kind {
            "live" => {
                let (stream, app) = components.split_last().filter(|(_, app)| !app.is_empty())?;
                let (stream, extension) = stream.rsplit_once('.')?;
                let is_dash = match extension {
                    "m3u8" => false,
                    "mpd" => true,
                    _ => return None,
                };
                Some(Self::Live { app: app.join("/"), stream: stream.to_owned(), is_dash })
            }
            "recordings" | "files" | "remote" => {
                let (of_file, object) = split_object(&components)?;
                let (last, _) = of_file.split_last()?;
                let (_, extension) = last.rsplit_once('.')?;
                if !EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()) {
                    return None;
                }
                Some(Self::Object(Source::of(kind, of_file)?, object))
            }
            _ => None,
        }
    }
}

impl Source {
    fn of(kind: &str, components: &[String]) -> Option<Self> {
        // A slash that was written `%2F` is one in the name of an application only: there it makes no path.
        let is_plain = |components: &[String]| {
            components.len() <= COMPONENTS_MAX && !components.iter().any(|part| part.contains('/'))
        };
        match (kind, components) {
            ("recordings", [app, stream, file]) if is_plain(&components[1..]) => {
                Some(Self::Recording { app: app.clone(), stream: stream.clone(), file: file.clone() })
            }
            ("files", path) if is_plain(path) => Some(Self::File { path: path.join("/") }),
            ("remote", [name, path @ ..]) if !path.is_empty() && is_plain(components) => {
                Some(Self::Remote { name: name.clone(), path: path.join("/") })
            }
            _ => None,
        }
    }

    /// Application and stream that the rules for players are asked about.
    pub fn rule_name(&self) -> (String, &str) {
        match self {
            Self::Recording { app, stream, .. } => (app.clone(), stream),
            Self::File { path } => ("vod/files".to_owned(), path),
            Self::Remote { name, path } => (format!("vod/remote/{name}"), path),
        }
    }

    /// The path of requests for the file.
    pub fn url_path(&self) -> String {
        let (kind, components): (_, Vec<&str>) = match self {
            Self::Recording { app, stream, file } => ("recordings", vec![app, stream, file]),
            Self::File { path } => ("files", path.split('/').collect()),
            Self::Remote { name, path } => {
                ("remote", [&name[..]].into_iter().chain(path.split('/')).collect())
            }
        };
        let mut out = format!("{PREFIX}{kind}");
        for component in components {
            out.push('/');
            for byte in component.bytes() {
                let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
                if is_plain { out.push(char::from(byte)) } else { _ = write!(out, "%{byte:02X}") }
            }
        }
        out
    }

    /// Name of the file without its folders.
    pub fn file_name(&self) -> &str {
        let path = match self {
            Self::Recording { file, .. } => file,
            Self::File { path } | Self::Remote { path, .. } => path,
        };
        path.rsplit('/').next().unwrap_or(path)
    }
}

/// Whether a file of this name is one that may be played.
pub(crate) fn is_playable_name(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    !name.starts_with('.') && extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
}

/// The components of the file, and the object behind it.
fn split_object(components: &[String]) -> Option<(&[String], FileObject)> {
    let last = components.last()?;
    if let "index.m3u8" | "manifest.mpd" = &last[..] {
        let object = if last == "index.m3u8" { FileObject::Multivariant } else { FileObject::Mpd };
        return Some((&components[..components.len() - 1], object));
    }
    // `{tag}/v0.m3u8`, `{tag}/v0/17.m4s`.
    for behind in [2, 3] {
        let Some(at) = components.len().checked_sub(behind).filter(|at| *at > 0) else { break };
        let name = components[at + 1..].join("/");
        if let (Some(object), true) = (Object::parse(&name), is_playable_name(&components[at - 1])) {
            return match object {
                Object::Playlist(_) | Object::Init(..) | Object::Segment(..) | Object::Time => {
                    Some((&components[..at], FileObject::Tagged(components[at].clone(), object)))
                }
                _ => None,
            };
        }
    }
    Some((components, FileObject::Whole))
}

/// A component, decoded; `None` if no file has such a name.
fn component(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    let is_name = !decoded.is_empty()
        && decoded.len() <= COMPONENT_BYTES_MAX
        && !decoded.starts_with('.')
        && !decoded.split('/').any(|part| part.is_empty() || part.starts_with('.'))
        && !decoded.contains(|c: char| c.is_control() || c == '\\');
    is_name.then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use media::{MediaKind, TrackId};
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str) -> Source {
        Source::File { path: path.to_owned() }
    }

    #[test]
    fn paths_name_a_file_and_an_object_of_it() {
        let v0 = TrackId { kind: MediaKind::Video, index: 0 };
        let tagged = |object| FileObject::Tagged("1f".to_owned(), object);
        let recording = |app: &str| Source::Recording {
            app: app.to_owned(),
            stream: "mill".to_owned(),
            file: "20261127T190500.123Z.mp4".to_owned(),
        };
        let remote = Source::Remote { name: "store".to_owned(), path: "a/b.mp4".to_owned() };
        for (path, source, object) in [
            ("files/a.mp4", file("a.mp4"), FileObject::Whole),
            ("files/a%20b/c.MOV", file("a b/c.MOV"), FileObject::Whole),
            ("files/a.mp4/index.m3u8", file("a.mp4"), FileObject::Multivariant),
            ("files/x/a.mp4/manifest.mpd", file("x/a.mp4"), FileObject::Mpd),
            ("files/a.mp4/1f/v0.m3u8", file("a.mp4"), tagged(Object::Playlist(v0))),
            ("files/a.mp4/1f/v0/7.m4s", file("a.mp4"), tagged(Object::Segment(v0, 7))),
            ("files/a.mp4/1f/v0/init-0.mp4", file("a.mp4"), tagged(Object::Init(v0, 0))),
            ("files/d.mp4/a.mp4", file("d.mp4/a.mp4"), FileObject::Whole),
            ("recordings/live/mill/20261127T190500.123Z.mp4", recording("live"), FileObject::Whole),
            (
                "recordings/a%2Fb/mill/20261127T190500.123Z.mp4/index.m3u8",
                recording("a/b"),
                FileObject::Multivariant,
            ),
            ("remote/store/a/b.mp4", remote, FileObject::Whole),
        ] {
            let target = Target::read(&format!("{PREFIX}{path}"));
            assert_eq!(target, Some(Target::Object(source, object)), "{path}");
        }
        assert_eq!(Target::read("/vod/"), Some(Target::List));
        let live = Target::Live { app: "live/x".to_owned(), stream: "mill".to_owned(), is_dash: false };
        assert_eq!(Target::read("/vod/live/live/x/mill.m3u8"), Some(live));
    }

    #[test]
    fn path_tricks_name_nothing() {
        for path in [
            "files",
            "files/",
            "files/..",
            "files/../a.mp4",
            "files/a/../b.mp4",
            "files/%2e%2e/a.mp4",
            "files/a%2F..%2Fb.mp4",
            "files/a%2Fb.mp4",
            "files//a.mp4",
            "files/.hidden.mp4",
            "files/.git/a.mp4",
            "files/a.mp4%00.txt",
            "files/a%5C..%5Cb.mp4",
            "files/a.txt",
            "files/%ff.mp4",
            "files/a.mp4/",
            "files/a.mp4/1f/v0/7.3.m4s",
            "files/index.m3u8",
            "files/1f/v0.m3u8",
            "recordings/live/mill",
            "recordings/live/mill.mp4",
            "recordings/live/a/mill/20261127T190500.123Z.mp4",
            "recordings/live/a%2Fb/20261127T190500.123Z.mp4",
            "remote/store",
            "remote/a.mp4",
            "remote/s/%2e%2e/a.mp4",
            "remote/s/http:%2F%2Fother/a.mp4",
            "live/mill.m3u8",
            "live/live/mill.flv",
            "other/a.mp4",
        ] {
            let read = Target::read(&format!("{PREFIX}{path}"));
            assert_eq!(read, None, "{path}");
        }
        assert_eq!(Target::read(&format!("{PREFIX}files/{}.mp4", "a".repeat(300))), None);
        assert_eq!(Target::read(&format!("{PREFIX}files/{}a.mp4", "a/".repeat(40))), None);
    }

    proptest! {
        #[test]
        fn what_is_named_has_one_path(path in "[a-zA-Z0-9 %/.]{1,40}\\.mp4") {
            if let Some(Target::Object(source, FileObject::Whole)) = Target::read(&format!("/vod/files/{path}")) {
                let again = Target::read(&source.url_path());
                prop_assert_eq!(again, Some(Target::Object(source, FileObject::Whole)));
            }
        }
    }
}
