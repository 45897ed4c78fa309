//! What the fuzz target of recorded files checks: any file is read to some point, and what is whole up to
//! there is so as well without what comes behind.
//!
//! `crates/recording/tests/recording/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::io;

use recording::duration;
use recording::scan::{Check as Checksums, scan};
use recording::settings::Format;
use recording::storage::StoredFile;

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("recording_scan", recording_scan)];

/// A file: where it is whole does not depend on what is behind.
pub fn recording_scan(data: &[u8]) {
    for format in Format::ALL {
        duration::read(&mut File(data), format).expect("reading does not fail");
        for checksums in [Checksums::Nothing, Checksums::Newest, Checksums::Everything] {
            let found = scan(&mut File(data), format, checksums).expect("reading does not fail");
            assert!(found.whole_bytes <= data.len() as u64);
            if !found.is_complete && found.is_sound {
                let whole = &data[..found.whole_bytes as usize];
                let again = scan(&mut File(whole), format, checksums).expect("reading does not fail");
                assert_eq!((again.whole_bytes, again.fragments), (found.whole_bytes, found.fragments));
            }
        }
    }
}

#[derive(Debug)]
struct File<'a>(&'a [u8]);

impl StoredFile for File<'_> {
    fn append(&mut self, _parts: &[&[u8]]) -> io::Result<()> {
        unreachable!("it is only read")
    }

    fn write_at(&mut self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
        unreachable!("it is only read")
    }

    fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let from = (at as usize).min(self.0.len());
        let count = bytes.len().min(self.0.len() - from);
        bytes[..count].copy_from_slice(&self.0[from..from + count]);
        Ok(count)
    }

    fn set_len(&mut self, _len: u64) -> io::Result<()> {
        unreachable!("it is only read")
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn sync(&mut self) -> io::Result<()> {
        unreachable!("it is only read")
    }
}
