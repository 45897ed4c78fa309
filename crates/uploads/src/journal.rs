//! What is known of uploads, on the disk beside the files: a restart goes on where the last run ended.
//!
//! Lines that are only ever appended, each with a checksum and complete in itself:
//!
//! ```text
//! 8c0b4f21 {"Store":"s3://bucket/prefix"}
//! 1f0e77a3 {"Begun":{"path":"live/cam/1.mp4","file":{"bytes":9,"modified_ns":1},"sha256":"..","multipart":..}}
//! a2b90417 {"Part":{"path":"live/cam/1.mp4","upload":"id","index":0,"e_tag":".."}}
//! 03d1be90 {"Confirmed":{"path":"live/cam/1.mp4","file":{..},"sha256":"..","at_ms":1795800000000}}
//! 77f00c1e {"Forgotten":{"path":"live/cam/1.mp4"}}
//! ```
//!
//! A line that is torn or damaged counts as not written, and those behind it still count: what is lost costs
//! a look at the store, or a part that is sent again, never an object. When most lines are of no use any more
//! the journal is rewritten beside itself and renamed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Name of the journal in the directory whose files are sent.
pub const JOURNAL: &str = ".uploads.journal";
/// Lines without use that are kept at least before the journal is compacted.
const USELESS_LINES: usize = 1_000;

/// How a file is known again without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    pub(crate) bytes: u64,
    /// Time of its last change, since 1970. Only ever compared for equality: clocks are set back.
    pub(crate) modified_ns: u128,
}

/// An upload in parts that the store knows of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Multipart {
    pub(crate) upload: String,
    pub(crate) part_bytes: usize,
    /// What the store called each part so far.
    pub(crate) parts: BTreeMap<usize, String>,
}

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) file: FileIdentity,
    /// Of the content, in hexadecimal digits.
    pub(crate) sha256: String,
    pub(crate) multipart: Option<Multipart>,
    /// When the store confirmed it, in milliseconds since 1970.
    pub(crate) confirmed_at_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    Store(String),
    Begun { path: String, file: FileIdentity, sha256: String, multipart: Option<Multipart> },
    Part { path: String, upload: String, index: usize, e_tag: String },
    Confirmed { path: String, file: FileIdentity, sha256: String, at_ms: u64 },
    Forgotten { path: String },
}

/// Where the lines are.
pub(crate) trait Medium: Debug + Send {
    fn read(&mut self) -> io::Result<Vec<u8>>;
    /// Writes behind the end, and brings it to the disk. After an error nothing or some of it is there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Replaces all of it: after an error the old one is still there.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// The journal of a directory.
#[derive(Debug)]
pub(crate) struct Journal {
    medium: Box<dyn Medium>,
    store: String,
    known: BTreeMap<String, Known>,
    lines: usize,
    /// Why the medium does not have all that is known.
    failure: Option<String>,
}

impl Journal {
    /// Reads what the last run knew of `store`; what was sent to another one counts for nothing.
    pub(crate) fn open(mut medium: Box<dyn Medium>, store: &str) -> io::Result<Self> {
        let bytes = medium.read()?;
        let (known, damaged) = read(&bytes, store);
        if damaged > 0 {
            tracing::warn!(damaged, "lines of the journal of uploads were torn or damaged, and are left out");
        }
        let mut journal = Self { medium, store: store.to_owned(), known, lines: 0, failure: None };
        journal.compact();
        Ok(journal)
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Known> {
        self.known.get(path)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    /// Why the disk does not take it; what is known is kept in memory meanwhile.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(crate) fn begin(
        &mut self,
        path: &str,
        file: FileIdentity,
        sha256: &str,
        multipart: Option<Multipart>,
    ) {
        self.add(Line::Begun { path: path.to_owned(), file, sha256: sha256.to_owned(), multipart });
    }

    pub(crate) fn part(&mut self, path: &str, upload: &str, index: usize, e_tag: &str) {
        let (upload, e_tag) = (upload.to_owned(), e_tag.to_owned());
        self.add(Line::Part { path: path.to_owned(), upload, index, e_tag });
    }

    pub(crate) fn confirm(&mut self, path: &str, file: FileIdentity, sha256: &str, at_ms: u64) {
        self.add(Line::Confirmed { path: path.to_owned(), file, sha256: sha256.to_owned(), at_ms });
    }

    pub(crate) fn forget(&mut self, path: &str) {
        if self.known.contains_key(path) {
            self.add(Line::Forgotten { path: path.to_owned() });
        }
    }

    /// Writes what the disk has refused so far; after a failure, time for another attempt.
    pub(crate) fn tend(&mut self) {
        if self.failure.is_some() {
            self.compact();
        }
    }

    fn add(&mut self, line: Line) {
        let text = written(&line);
        apply(&mut self.known, line);
        if self.failure.is_some() {
            // The end may be torn, and what was refused is missing: only all of it together is right.
            return;
        }
        if let Err(error) = self.medium.append(text.as_bytes()) {
            self.fail(&error);
            return;
        }
        self.lines += 1;
        if self.lines > 2 * self.known.len() + USELESS_LINES {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let mut text = written(&Line::Store(self.store.clone()));
        for (path, known) in &self.known {
            let Known { file, sha256, multipart, confirmed_at_ms } = known.clone();
            let path = path.clone();
            text.push_str(&written(&match confirmed_at_ms {
                Some(at_ms) => Line::Confirmed { path, file, sha256, at_ms },
                None => Line::Begun { path, file, sha256, multipart },
            }));
        }
        match self.medium.replace(text.as_bytes()) {
            Ok(()) => {
                self.lines = self.known.len();
                if self.failure.take().is_some() {
                    tracing::info!("the journal of uploads is written again");
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &io::Error) {
        if self.failure.is_none() {
            tracing::warn!(%error, "the journal of uploads cannot be written; a restart would look at the store");
        }
        self.failure = Some(error.to_string());
    }
}

fn written(line: &Line) -> String {
    let json = serde_json::to_string(line).expect("text, numbers and maps with integer keys");
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

/// What lines say of files that were sent to `store`, and how many lines are damaged.
fn read(bytes: &[u8], store: &str) -> (BTreeMap<String, Known>, usize) {
    let (mut known, mut damaged) = (BTreeMap::new(), 0);
    let mut is_store = false;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match read_line(line) {
            Some(Line::Store(name)) => is_store = name == store,
            // Without a store in front, the first line is the damaged one: nobody knows whose these are.
            Some(line) if is_store => apply(&mut known, line),
            Some(_) => {}
            None => damaged += 1,
        }
    }
    (known, damaged)
}

fn read_line(line: &[u8]) -> Option<Line> {
    let (sum, json) = line.split_at_checked(8)?;
    let json = json.strip_prefix(b" ")?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    (crc32fast::hash(json) == sum).then(|| serde_json::from_slice(json).ok())?
}

fn apply(known: &mut BTreeMap<String, Known>, line: Line) {
    match line {
        Line::Store(_) => {}
        Line::Begun { path, file, sha256, multipart } => {
            known.insert(path, Known { file, sha256, multipart, confirmed_at_ms: None });
        }
        Line::Part { path, upload, index, e_tag } => {
            let multipart = known.get_mut(&path).and_then(|known| known.multipart.as_mut());
            if let Some(multipart) = multipart.filter(|multipart| multipart.upload == upload) {
                multipart.parts.insert(index, e_tag);
            }
        }
        Line::Confirmed { path, file, sha256, at_ms } => {
            known.insert(path, Known { file, sha256, multipart: None, confirmed_at_ms: Some(at_ms) });
        }
        Line::Forgotten { path } => {
            known.remove(&path);
        }
    }
}

/// The journal as a file.
#[derive(Debug)]
pub(crate) struct JournalFile {
    directory: PathBuf,
    file: Option<File>,
}

impl JournalFile {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), file: None }
    }
}

impl Medium for JournalFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        match fs::read(self.directory.join(JOURNAL)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().append(true).open(self.directory.join(JOURNAL))?;
                self.file.insert(file)
            }
        };
        file.write_all(bytes)?;
        file.sync_data()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file = None;
        let beside = self.directory.join(format!("{JOURNAL}.new"));
        let mut file = File::create(&beside)?;
        let replaced = file
            .write_all(bytes)
            .and_then(|()| file.sync_data())
            .and_then(|()| fs::rename(&beside, self.directory.join(JOURNAL)))
            .and_then(|()| File::open(&self.directory)?.sync_all());
        if replaced.is_err() {
            // A full disk needs its room; the next attempt begins from nothing.
            let _ = fs::remove_file(&beside);
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A disk with room for so many bytes.
    #[derive(Debug, Clone, Default)]
    struct Memory(Arc<Mutex<(Vec<u8>, Option<usize>)>>);

    impl Medium for Memory {
        fn read(&mut self) -> io::Result<Vec<u8>> {
            Ok(self.0.lock().expect("one thread").0.clone())
        }

        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            let (content, room) = &mut *self.0.lock().expect("one thread");
            let fits = room.map_or(bytes.len(), |room| room.saturating_sub(content.len()).min(bytes.len()));
            content.extend(&bytes[..fits]);
            if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
            let (content, room) = &mut *self.0.lock().expect("one thread");
            if room.is_some_and(|room| bytes.len() > room) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *content = bytes.to_vec();
            Ok(())
        }
    }

    const FILE: FileIdentity = FileIdentity { bytes: 9, modified_ns: 7 };

    fn open(memory: &Memory) -> Journal {
        Journal::open(Box::new(memory.clone()), "s3://b").expect("it reads")
    }

    /// One file confirmed, one with two parts of an upload, one forgotten.
    fn filled(memory: &Memory) -> Journal {
        let mut journal = open(memory);
        journal.begin("a", FILE, "aa", None);
        journal.confirm("a", FILE, "aa", 5);
        let multipart = Multipart { upload: "u".into(), part_bytes: 4, parts: BTreeMap::new() };
        journal.begin("b", FILE, "bb", Some(multipart));
        journal.part("b", "u", 0, "e0");
        journal.part("b", "u", 1, "e1");
        journal.part("b", "another", 2, "e2");
        journal.begin("c", FILE, "cc", None);
        journal.forget("c");
        journal
    }

    #[test]
    fn a_restart_knows_what_the_last_run_knew() {
        let memory = Memory::default();
        let before = filled(&memory);
        let after = open(&memory);
        assert_eq!(after.known, before.known);
        assert_eq!(after.known.len(), 2);
        assert_eq!(after.get("a").and_then(|known| known.confirmed_at_ms), Some(5));
        let parts = after.get("b").and_then(|known| known.multipart.clone()).expect("in parts").parts;
        assert_eq!(parts, BTreeMap::from([(0, "e0".to_owned()), (1, "e1".to_owned())]));
        // Opening it has compacted it, which changes nothing.
        assert_eq!(open(&memory).known, before.known);
        let other = Journal::open(Box::new(memory), "s3://other").expect("it reads");
        assert!(other.known.is_empty(), "another store has nothing of it");
    }

    #[test]
    fn a_journal_torn_at_any_byte_is_what_was_written_before_it() {
        let memory = Memory::default();
        filled(&memory);
        let whole = memory.0.lock().expect("one thread").0.clone();
        for length in 0..=whole.len() {
            let torn = Memory::default();
            torn.0.lock().expect("one thread").0 = whole[..length].to_vec();
            let complete = whole[..length].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            // A last line that lacks only its end is whole.
            let expected = match read_line(&whole[complete..length]) {
                Some(_) => read(&whole[..length], "s3://b").0,
                None => read(&whole[..complete], "s3://b").0,
            };
            let mut journal = open(&torn);
            assert_eq!(journal.known, expected, "torn at {length}");
            // And what comes next is kept.
            journal.confirm("next", FILE, "dd", 1);
            assert!(open(&torn).get("next").is_some(), "torn at {length}");
        }
    }

    #[test]
    fn a_damaged_byte_costs_its_line_alone() {
        let memory = Memory::default();
        filled(&memory);
        let whole = memory.0.lock().expect("one thread").0.clone();
        let first = whole.iter().position(|byte| *byte == b'\n').expect("lines") + 1;
        for at in first..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            let (known, _) = read(&damaged, "s3://b");
            let lost = ["a", "b"].iter().filter(|path| !known.contains_key(**path)).count();
            assert!(lost <= 1, "byte {at}: {known:?}");
        }
    }

    #[test]
    fn a_full_disk_keeps_what_is_known_in_memory_and_is_caught_up_with() {
        let memory = Memory::default();
        let mut journal = open(&memory);
        journal.confirm("a", FILE, "aa", 5);
        let length = memory.0.lock().expect("one thread").0.len();
        // Room for some of the next line.
        memory.0.lock().expect("one thread").1 = Some(length + 10);
        journal.confirm("b", FILE, "bb", 6);
        journal.confirm("c", FILE, "cc", 7);
        assert!(journal.failure().is_some());
        journal.tend();
        assert!(journal.failure().is_some());
        let after_crash = open(&memory);
        assert!(after_crash.get("a").is_some() && after_crash.get("b").is_none());
        memory.0.lock().expect("one thread").1 = None;
        journal.tend();
        assert_eq!(journal.failure(), None);
        assert_eq!(open(&memory).known, journal.known);
        assert_eq!(journal.known.len(), 3);
    }

    #[test]
    fn lines_without_use_are_compacted_away() {
        let memory = Memory::default();
        let mut journal = open(&memory);
        for round in 0..5_000 {
            journal.confirm("a", FILE, "aa", round);
        }
        let length = memory.0.lock().expect("one thread").0.len();
        assert!(length < 300_000, "{length}");
        assert_eq!(open(&memory).get("a").and_then(|known| known.confirmed_at_ms), Some(4_999));
    }
}
