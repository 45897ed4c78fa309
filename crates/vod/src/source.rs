//! A file as `Read + Seek`: of this machine, or of another server.
//!
//! Files are opened below their directory by the kernel (`openat2`), which follows links as far as they stay
//! there, and looks at what it opens: no path is checked first and opened then. What blocks here runs on
//! tokio's blocking threads.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use range_reader::http::HttpConfig;
use range_reader::{RangeReader, ReaderConfig};
use recording::names::{PART, RecordingName, encode};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use url::Url;

use crate::VodError;
use crate::names::Source;
use crate::settings::VodSettings;

/// Bytes fetched ahead of what is read of another server's file.
const WINDOW_BYTES: usize = 2 << 20;
/// What lies between two boxes of an index is less.
const FAR_BYTES: u64 = 64 << 10;
/// Attempts at another server without a new byte.
const TRIES_MAX: u32 = 2;

/// A file that is open.
#[derive(Debug)]
pub(crate) enum MediaFile {
    Local(File),
    Remote(Box<RangeReader>),
}

/// What tells versions of a file apart, and how much there is of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    pub(crate) length: u64,
    /// It is a recording that is being made.
    pub(crate) grows: bool,
}

impl Stamp {
    /// Whether a file is the same one, and may have grown.
    pub(crate) fn is_later_of(&self, other: &Self) -> bool {
        self.is_file_of(other) && self.grows && other.grows && self.length >= other.length
    }

    /// Whether a recording that was being made was the same file, seen before `other`: requests
    /// that race are not answered in the order in which they open it.
    pub(crate) fn is_earlier_of(&self, other: &Self) -> bool {
        self.is_file_of(other) && self.grows && (!other.grows || self.length < other.length)
    }

    fn is_file_of(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether it can be read from the start to here as `other` says.
    pub(crate) fn version(&self) -> [u64; 4] {
        let (seconds, nanos) = self.modified;
        [self.inode, seconds.cast_unsigned(), nanos.cast_unsigned(), self.length]
    }
}

impl Read for MediaFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(file) => file.read(bytes),
            Self::Remote(reader) => reader.read(bytes),
        }
    }
}

impl Seek for MediaFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Local(file) => file.seek(to),
            Self::Remote(reader) => reader.seek(to),
        }
    }
}

/// Reads the index of another server's file: what is far behind the begin is an index at the end, which is
/// fetched by one request.
#[derive(Debug)]
pub(crate) struct IndexReader<'a> {
    pub(crate) reader: &'a mut RangeReader,
    pub(crate) position: u64,
    pub(crate) length: u64,
}

impl Read for IndexReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(bytes)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for IndexReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let before = self.position;
        self.position = self.reader.seek(to)?;
        if self.position > before.saturating_add(FAR_BYTES) && self.position < self.length {
            self.reader.will_need(std::iter::once(self.position..self.length));
        }
        Ok(self.position)
    }
}

/// Opens a file of this machine.
///
/// # Errors
/// It is not there, or is none that may be read.
pub(crate) fn open_local(settings: &VodSettings, source: &Source) -> Result<(File, Stamp), VodError> {
    match source {
        Source::File { path } => {
            let root = settings.root.as_ref().ok_or(VodError::NotFound)?;
            open_below(root, Path::new(path), false)
        }
        Source::Recording { app, stream, file } => {
            let folder: PathBuf = [encode(app), encode(stream)].iter().collect();
            // A name that was cut off is ambiguous, and so is not asked for.
            if folder.as_os_str().as_encoded_bytes().contains(&b'~') {
                return Err(VodError::NotFound);
            }
            let (name, _) = RecordingName::parse(&folder.join(file)).ok_or(VodError::NotFound)?;
            // Again in the end: it may have got its name in between.
            for (path, grows) in [(name.path(), false), (name.part_path(), true), (name.path(), false)] {
                for directory in &settings.recordings {
                    match open_below(directory, &path, grows) {
                        Err(VodError::NotFound) => {}
                        found => return found,
                    }
                }
            }
            Err(VodError::NotFound)
        }
        Source::Remote { .. } => Err(VodError::NotFound),
    }
}

fn open_below(root: &Path, path: &Path, grows: bool) -> Result<(File, Stamp), VodError> {
    debug_assert!(!path.to_string_lossy().ends_with(PART) || grows);
    let directory = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    // A pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let opened =
        directory.and_then(|directory| rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve));
    let file = match opened {
        Ok(file) => File::from(file),
        Err(error) => {
            use rustix::io::Errno;
            return Err(match error {
                // Out of the directory, a loop of links, a socket, a name that is too long: as if it were
                // not there.
                Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NXIO => VodError::NotFound,
                Errno::NAMETOOLONG | Errno::ACCESS | Errno::PERM | Errno::INVAL => VodError::NotFound,
                error => VodError::Disk(io::Error::from(error).to_string()),
            });
        }
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(VodError::NotFound);
    }
    let stamp = Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        length: metadata.len(),
        grows,
    };
    Ok((file, stamp))
}

/// A file of another server, with which nothing has been exchanged yet.
pub(crate) fn open_remote(settings: &VodSettings, source: &Source) -> Result<MediaFile, VodError> {
    let Source::Remote { name, path } = source else { return Err(VodError::NotFound) };
    let remote = settings.remotes.iter().find(|remote| remote.name == *name).ok_or(VodError::NotFound)?;
    let url = url_below(&remote.url, path).ok_or(VodError::NotFound)?;
    let config = ReaderConfig { window_bytes: WINDOW_BYTES, tries_max: TRIES_MAX, ..ReaderConfig::default() };
    let reader = RangeReader::open(&url, HttpConfig { connections_max: 2, ..settings.http.clone() }, config)?;
    Ok(MediaFile::Remote(Box::new(reader)))
}

/// The URL of a path of plain components; the query of the base stays.
fn url_below(base: &Url, path: &str) -> Option<Url> {
    let mut url = base.clone();
    // Segments are percent-encoded by the parser: none of them can add one, or a query.
    url.path_segments_mut().ok()?.pop_if_empty().extend(path.split('/'));
    Some(url)
}

/// The length of a file that is open.
pub(crate) fn length_of(file: &mut MediaFile) -> Result<u64, VodError> {
    match file {
        MediaFile::Local(file) => Ok(file.metadata()?.len()),
        MediaFile::Remote(reader) => {
            let reason = || VodError::Remote("the server does not say how long the file is".to_owned());
            reader.len()?.ok_or_else(reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_url_of_its_server() {
        for (base, path, expected) in [
            ("http://h/films/", "a.mp4", "http://h/films/a.mp4"),
            ("http://h/films", "x/a b.mp4", "http://h/films/x/a%20b.mp4"),
            ("http://h/films/?key=1", "a?b#c.mp4", "http://h/films/a%3Fb%23c.mp4?key=1"),
            ("http://h", "%2e%2e.mp4", "http://h/%252e%252e.mp4"),
        ] {
            let base = Url::parse(base).expect("a URL");
            assert_eq!(url_below(&base, path).expect("a URL").as_str(), expected);
        }
    }
}
