//! From the frames of a stream to the fragments of its files: where a file begins, and what goes into it.
//!
//! A file is continuous. It ends, and the next one begins with a key frame, when it is long enough, and also
//! where the publisher ends or comes back, its clock jumps, a format changes, a track is added, or fragments
//! were lost: a gap is where one file ends and the next one begins later.

mod flv;
mod mp4;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use media::Frame;

use crate::settings::{Format, Rotation};

/// What a cutter has made, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A file begins.
    Begin {
        /// Its number, from 0.
        file: u64,
        /// Wall clock of its first frame, since 1970.
        start: Duration,
        /// Its first bytes.
        head: Vec<u8>,
    },
    /// It goes on.
    Fragment {
        /// Its number.
        file: u64,
        /// What goes behind the rest.
        bytes: Bytes,
        /// How long it is played, in the track that decides how long the file is; zero in others.
        media: Duration,
    },
    /// It is over.
    End {
        /// Its number.
        file: u64,
    },
}

/// Makes the files of one stream.
#[derive(Debug)]
pub struct Cutter(Kind);

#[derive(Debug)]
enum Kind {
    Mp4(Box<mp4::Mp4Cutter>),
    Flv(flv::FlvCutter),
}

impl Cutter {
    /// For files of this format.
    pub fn new(format: Format, rotation: Rotation, fragment: Duration) -> Self {
        Self(match format {
            Format::Mp4 => Kind::Mp4(Box::new(mp4::Mp4Cutter::new(rotation, fragment))),
            Format::Flv => Kind::Flv(flv::FlvCutter::new(rotation, fragment)),
        })
    }

    /// Takes in a frame that came when the wall clock was `now` since 1970.
    pub fn push(&mut self, now: Duration, frame: &Arc<Frame>) {
        match &mut self.0 {
            Kind::Mp4(cutter) => cutter.push(now, frame),
            Kind::Flv(cutter) => cutter.push(now, frame),
        }
    }

    /// The publisher has gone, or frames are missing: the file ends. What comes next is another one.
    pub fn interrupt(&mut self) {
        match &mut self.0 {
            Kind::Mp4(cutter) => cutter.interrupt(),
            Kind::Flv(cutter) => cutter.interrupt(),
        }
    }

    /// A fragment of a file was lost: what is left of it goes nowhere, and the next one begins as soon as it
    /// can.
    pub fn lose(&mut self, file: u64) {
        match &mut self.0 {
            Kind::Mp4(cutter) => cutter.lose(file),
            Kind::Flv(cutter) => cutter.lose(file),
        }
    }

    /// What was made, in order.
    pub fn poll(&mut self) -> Option<Piece> {
        match &mut self.0 {
            Kind::Mp4(cutter) => cutter.poll(),
            Kind::Flv(cutter) => cutter.poll(),
        }
    }

    /// Frames that could not be put into a file.
    pub fn frames_dropped(&self) -> u64 {
        match &self.0 {
            Kind::Mp4(cutter) => cutter.frames_dropped(),
            Kind::Flv(cutter) => cutter.frames_dropped(),
        }
    }
}
