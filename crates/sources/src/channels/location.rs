//! Where an item of a playlist is: a URL, a file of this machine, or a recording.
//!
//! Decides what may be named, and shows locations without what must stay secret. Whether a server
//! may be connected to is decided once its name is resolved, in `range_reader::http`; what is in
//! the file, in `mp4`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use recording::names::{RecordingName, encode};
use recording::settings::Format;
use url::Url;

use crate::settings::{AddedBy, SourceSettings};

/// Longest location, in bytes.
pub(super) const LOCATION_BYTES_MAX: usize = 2_048;
/// What names of recordings begin with.
const RECORDING: &str = "recording:";

/// An item's place. Shown without user, password and query, which may let in whoever knows them.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// `http` or `https`.
    Remote(Url),
    /// A file of this machine.
    Local {
        /// As it was written.
        shown: String,
        /// What is opened.
        path: PathBuf,
        /// The directory it must be in once links are followed; `None`: anywhere.
        below: Option<PathBuf>,
    },
    /// A complete recording of a stream.
    Recording {
        /// Application.
        app: String,
        /// Name of the stream.
        stream: String,
        /// Name of the file; `None`: the newest there is when the item is opened.
        file: Option<String>,
    },
}

impl Location {
    /// Reads `text`; relative paths begin at `root`, which has no links in it. The error is for
    /// people.
    pub fn parse(text: &str, root: Option<&Path>, added_by: AddedBy) -> Result<Self, String> {
        if text.is_empty() || text.len() > LOCATION_BYTES_MAX {
            return Err(format!("an item is a URL or a path of 1 to {LOCATION_BYTES_MAX} bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err("an item has no control characters".to_owned());
        }
        if let Some(recording) = text.strip_prefix(RECORDING) {
            return Self::recording(recording);
        }
        match scheme_of(text) {
            Some(_) => Self::remote(text),
            None => Self::local(text, root, added_by),
        }
    }

    /// So many, for tests that look into none.
    #[cfg(test)]
    pub fn some(count: usize) -> Vec<Self> {
        let url = Url::parse("http://media.example/a.mp4").expect("a URL");
        vec![Self::Remote(url); count]
    }

    /// Refuses a URL whose host is written as an address that may not be connected to.
    pub fn check_host(&self, settings: &SourceSettings) -> Result<(), String> {
        match self {
            Self::Remote(url) => url.host_str().map_or(Ok(()), |host| settings.check_host(host)),
            Self::Local { .. } | Self::Recording { .. } => Ok(()),
        }
    }

    fn recording(text: &str) -> Result<Self, String> {
        let is_file = text.ends_with(".mp4");
        let (stream, file) = match text.rsplit_once('/').filter(|_| is_file) {
            Some((stream, file)) => (stream, Some(file.to_owned())),
            None => (text, None),
        };
        let names = stream.rsplit_once('/').filter(|(app, name)| !app.is_empty() && !name.is_empty());
        let wanted = "a recording is `recording:APP/STREAM`, and may end with the name of a file";
        let (app, stream) = names.ok_or_else(|| wanted.to_owned())?;
        let found = Self::Recording { app: app.to_owned(), stream: stream.to_owned(), file };
        if let Self::Recording { app, stream, file: Some(file) } = &found {
            let path = Path::new(&encode(app)).join(encode(stream)).join(file);
            RecordingName::parse(&path).ok_or_else(|| wanted.to_owned())?;
        }
        Ok(found)
    }

    fn remote(text: &str) -> Result<Self, String> {
        // The parser's words do not repeat what was given, which may hold a password.
        let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
        match url.scheme() {
            "http" | "https" => Ok(Self::Remote(url)),
            other => Err(format!("the scheme `{other}` is not read: take `http`, `https` or a path")),
        }
    }

    fn local(text: &str, root: Option<&Path>, added_by: AddedBy) -> Result<Self, String> {
        let written = Path::new(text);
        let path = root.map_or_else(|| written.to_owned(), |root| root.join(written));
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let below = match (added_by, root) {
            (AddedBy::Configuration, _) => None,
            (AddedBy::Api, None) => {
                return Err("local files need `sources.files_root` to be configured".to_owned());
            }
            (AddedBy::Api, Some(root)) if written.components().all(is_plain) => Some(root.to_owned()),
            (AddedBy::Api, Some(_)) => {
                let wanted = "a local file is named by a path below `sources.files_root`, without `..`";
                return Err(wanted.to_owned());
            }
        };
        Ok(Self::Local { shown: text.to_owned(), path, below })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { shown, .. } => f.write_str(shown),
            Self::Recording { app, stream, file } => {
                write!(f, "{RECORDING}{app}/{stream}")?;
                file.as_ref().map_or(Ok(()), |file| write!(f, "/{file}"))
            }
            Self::Remote(url) => {
                let mut url = url.clone();
                let had_query = url.query().is_some();
                url.set_query(None);
                url.set_fragment(None);
                // Only URLs without a host refuse, and those of HTTP have one.
                let _ = url.set_username("");
                let _ = url.set_password(None);
                write!(f, "{url}{}", if had_query { "?..." } else { "" })
            }
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The path of a recording below one of `directories`: of this name, or the newest of its stream.
pub(super) fn find_recording(
    directories: &[PathBuf],
    app: &str,
    stream: &str,
    file: Option<&str>,
) -> io::Result<PathBuf> {
    let folder = Path::new(&encode(app)).join(encode(stream));
    let mut newest: Option<(RecordingName, PathBuf)> = None;
    for directory in directories {
        let Ok(entries) = std::fs::read_dir(directory.join(&folder)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if file.is_some_and(|file| name.to_str() != Some(file)) {
                continue;
            }
            let Some((name, true)) = RecordingName::parse(&folder.join(name)) else { continue };
            let is_newer = newest
                .as_ref()
                .is_none_or(|(known, _)| (known.start, known.number) < (name.start, name.number));
            if name.format == Format::Mp4 && is_newer {
                newest = Some((name, entry.path()));
            }
        }
    }
    let none = || io::Error::new(io::ErrorKind::NotFound, "there is no complete recording of that name");
    newest.map(|(_, path)| path).ok_or_else(none)
}

/// Opens a regular file of at most `bytes_max` bytes, which must be below `below`, a path without
/// links.
///
/// Looks at what was opened, not at what the path named before: a link that changes in between
/// leads nowhere.
pub(super) fn open_local(path: &Path, below: Option<&Path>, bytes_max: Option<u64>) -> io::Result<File> {
    // A pipe would wait for its writer.
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if let Some(below) = below {
        let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        if !opened.starts_with(below) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the path leads out of `sources.files_root`",
            ));
        }
    }
    if bytes_max.is_some_and(|most| metadata.len() > most) {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "the file is larger than `sources.file_max_bytes`",
        ));
    }
    Ok(file)
}

/// `O_NONBLOCK` of open(2) on Linux.
const O_NONBLOCK: i32 = nix::libc::O_NONBLOCK;

/// The scheme of what looks like a URL: a word before `://`.
fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let mut letters = scheme.chars();
    let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic());
    (begins && letters.all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter)))
        .then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_urls_of_http_or_files_where_their_writer_may_look() {
        use crate::settings::AddedBy::{Api, Configuration};
        let rows = [
            ("http://example.com/a.mp4", "", Api, Ok("http://example.com/a.mp4")),
            ("HTTPS://example.com/a", "", Api, Ok("https://example.com/a")),
            ("https://me:secret@example.com/a?key=1#x", "", Api, Ok("https://example.com/a?...")),
            ("ftp://example.com/a", "", Api, Err("scheme `ftp`")),
            ("file:///etc/passwd", "/srv", Api, Err("scheme `file`")),
            ("http://", "", Api, Err("not a URL")),
            ("a.mp4", "/srv", Api, Ok("a.mp4")),
            ("sub/a.mp4", "/srv", Api, Ok("sub/a.mp4")),
            ("a.mp4", "", Api, Err("files_root")),
            ("../a.mp4", "/srv", Api, Err("..")),
            ("sub/../../a.mp4", "/srv", Api, Err("..")),
            ("/etc/passwd", "/srv", Api, Err("below")),
            ("/var/a.mp4", "/srv", Configuration, Ok("/var/a.mp4")),
            ("../a.mp4", "", Configuration, Ok("../a.mp4")),
            ("", "/srv", Configuration, Err("1 to")),
            ("a\nb", "/srv", Configuration, Err("control")),
        ];
        for (text, root, added_by, expected) in rows {
            let root = (!root.is_empty()).then(|| Path::new(root));
            let read = Location::parse(text, root, added_by);
            match (&read, expected) {
                (Ok(location), Ok(shown)) => assert_eq!(location.to_string(), shown),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                _ => panic!("{text}: {read:?}, not {expected:?}"),
            }
        }
        let long = format!("http://example.com/{}", "a".repeat(LOCATION_BYTES_MAX));
        assert!(Location::parse(&long, None, Api).is_err());
    }

    #[test]
    fn relative_paths_begin_at_the_root() {
        let path =
            |root: &str, text| match Location::parse(text, Some(Path::new(root)), AddedBy::Configuration) {
                Ok(Location::Local { path, .. }) => path,
                other => panic!("{other:?}"),
            };
        assert_eq!(path("/srv", "a.mp4"), Path::new("/srv/a.mp4"));
        assert_eq!(path("/srv", "/a.mp4"), Path::new("/a.mp4"));
        assert_eq!(path("", "a.mp4"), Path::new("a.mp4"));
    }

    #[test]
    fn a_recording_is_the_newest_complete_one_or_the_one_that_is_named() {
        let dir = std::env::temp_dir().join(format!("millstream-recordings-{}", std::process::id()));
        let folder = dir.join("live").join("mill");
        std::fs::create_dir_all(&folder).expect("a directory");
        let names = ["20261127T190500.000Z.mp4", "20261127T200500.000Z.mp4", "20261127T210500.000Z.mp4.part"];
        for name in names.iter().chain(&["20261127T220500.000Z.flv", "notes.txt"]) {
            std::fs::write(folder.join(name), b"x").expect("a file");
        }
        let find = |text: &str| match Location::parse(text, None, AddedBy::Api) {
            Ok(Location::Recording { app, stream, file }) => {
                find_recording(std::slice::from_ref(&dir), &app, &stream, file.as_deref()).ok()
            }
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(find("recording:live/mill"), Some(folder.join(names[1])), "newest complete MP4");
        assert_eq!(find(&format!("recording:live/mill/{}", names[0])), Some(folder.join(names[0])));
        assert_eq!(find("recording:live/mill/20261127T190500.001Z.mp4"), None);
        assert_eq!(find("recording:live/other"), None);
        assert_eq!(find("recording:../mill"), None, "names are one component each");
        for text in ["recording:", "recording:mill", "recording:/mill", "recording:live/mill/../x.mp4"] {
            assert!(Location::parse(text, None, AddedBy::Api).is_err(), "{text}");
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn links_that_lead_out_of_the_root_and_what_is_no_file_are_refused() {
        let dir = std::env::temp_dir().join(format!("millstream-location-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("root")).expect("a directory");
        let dir = std::fs::canonicalize(&dir).expect("a path without links");
        let root = dir.join("root");
        std::fs::write(dir.join("outside"), b"12345").expect("a file");
        std::fs::write(root.join("inside"), b"12345").expect("a file");
        std::os::unix::fs::symlink(dir.join("outside"), root.join("out")).expect("a link");
        std::os::unix::fs::symlink(root.join("inside"), root.join("in")).expect("a link");
        nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let open = |name: &str, most| open_local(&root.join(name), Some(&root), most).map_err(|e| e.kind());
        assert!(open("inside", None).is_ok() && open("in", Some(5)).is_ok());
        assert_eq!(open("out", None).expect_err("outside"), io::ErrorKind::PermissionDenied);
        assert_eq!(open("pipe", None).expect_err("a pipe"), io::ErrorKind::InvalidInput);
        assert_eq!(open(".", None).expect_err("a directory"), io::ErrorKind::InvalidInput);
        assert_eq!(open("inside", Some(4)).expect_err("too large"), io::ErrorKind::FileTooLarge);
        assert!(open_local(&dir.join("outside"), None, None).is_ok(), "the configuration may name it");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
