//! Reading a file at given places, forward without a seek.
//!
//! Sizes come from the file: what is read into memory grows with the bytes that arrive, not with
//! what was declared.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use super::Mp4Error;
use super::boxes::Header;
use media::FourCc;

/// A reader and its position.
#[derive(Debug)]
pub(super) struct Input<R> {
    pub(super) reader: R,
    position: Option<u64>,
    /// The header that was read last: some are looked at twice.
    last: Option<TopBox>,
}

/// A box at the top level of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopBox {
    pub(super) kind: FourCc,
    pub(super) at: u64,
    pub(super) body_at: u64,
    /// Bytes of its body; `None`: up to the end of the file.
    pub(super) bytes: Option<u64>,
}

impl TopBox {
    /// Where the next box is, if the file has one.
    pub(super) fn end(&self) -> Option<u64> {
        self.body_at.checked_add(self.bytes?)
    }
}

impl<R: Read + Seek> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, position: None, last: None }
    }

    /// Where the next byte comes from without a seek.
    pub(super) fn position(&self) -> u64 {
        self.position.unwrap_or(0)
    }

    /// Bytes of the file.
    pub(super) fn len(&mut self) -> Result<u64, Mp4Error> {
        self.position = None;
        Ok(self.reader.seek(SeekFrom::End(0))?)
    }

    /// The box at `at`; `None` if the file ends there, or within the header.
    pub(super) fn top_box(&mut self, at: u64) -> Result<Option<TopBox>, Mp4Error> {
        if let Some(last) = self.last.filter(|last| last.at == at) {
            return Ok(Some(last));
        }
        let mut bytes = [0; Header::MAX_BYTES];
        self.go(at)?;
        // Not a byte more than the header has: the next read would have to go back.
        if self.fill(&mut bytes[..8])? < 8 {
            return Ok(None);
        }
        let length = if bytes[..4] == [0, 0, 0, 1] { 16 } else { 8 };
        if self.fill(&mut bytes[8..length])? < length - 8 {
            return Ok(None);
        }
        let header = Header::read(&bytes[..length])?;
        self.last = header.map(|header| TopBox {
            kind: header.kind,
            at,
            body_at: at.saturating_add(header.bytes),
            bytes: header.body,
        });
        Ok(self.last)
    }

    /// The body of a box of at most `limit` bytes.
    pub(super) fn body(&mut self, found: &TopBox, limit: u64) -> Result<Vec<u8>, Mp4Error> {
        Mp4Error::check("bytes of the index", found.bytes.unwrap_or(0), limit)?;
        let body = self.read(found.body_at, found.bytes.unwrap_or(limit + 1))?;
        Mp4Error::check("bytes of the index", body.len() as u64, limit)?;
        if found.bytes.is_some_and(|bytes| bytes != body.len() as u64) {
            return Err(Mp4Error::Truncated { at: found.body_at });
        }
        Ok(body)
    }

    /// A sample.
    pub(super) fn sample(&mut self, at: u64, size: u32) -> Result<Vec<u8>, Mp4Error> {
        let data = self.read(at, size.into())?;
        if data.len() as u64 == u64::from(size) { Ok(data) } else { Err(Mp4Error::Truncated { at }) }
    }

    /// At most `size` bytes from `at` on: fewer if the file ends.
    fn read(&mut self, at: u64, size: u64) -> Result<Vec<u8>, Mp4Error> {
        self.go(at)?;
        let mut bytes = Vec::with_capacity(size.min(RESERVED_BYTES_MAX) as usize);
        let before = self.position.take();
        self.reader.by_ref().take(size).read_to_end(&mut bytes)?;
        self.position = before.map(|before| before + bytes.len() as u64);
        Ok(bytes)
    }

    fn go(&mut self, at: u64) -> Result<(), Mp4Error> {
        if self.position != Some(at) {
            self.position = None;
            self.reader.seek(SeekFrom::Start(at))?;
            self.position = Some(at);
        }
        Ok(())
    }

    /// Fills `bytes` as far as the file goes.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, Mp4Error> {
        let mut filled = 0;
        let before = self.position.take();
        while filled < bytes.len() {
            match self.reader.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.position = before.map(|before| before + filled as u64);
        Ok(filled)
    }
}

/// Memory that is taken for a declared size before its bytes are there.
const RESERVED_BYTES_MAX: u64 = 64 << 10;
