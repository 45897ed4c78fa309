//! The transport stream of a pull, however its packets come.

use media::Frame;
use mpegts::{DemuxSettings, Demuxer, Unreadable};

use crate::settings::SourceSettings;

/// What reads it, and what is wanted of it.
#[derive(Debug)]
pub(super) struct TsInput {
    demuxer: Demuxer,
    program: Option<u16>,
    has_come: bool,
}

impl TsInput {
    /// Of a program; `None`: the first one with a track that is carried.
    pub(super) fn new(program: Option<u16>, settings: &SourceSettings) -> Self {
        let settings = DemuxSettings { program, pes_bytes_max: settings.message_bytes_max as usize };
        Self { demuxer: Demuxer::new(settings), program, has_come: false }
    }

    /// Bytes of it have come.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.has_come = true;
        self.demuxer.push(bytes);
        while let Some(codec) = self.demuxer.take_left_out() {
            tracing::warn!(codec, "a track of a pull is left out: its codec is not carried");
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        self.demuxer.finish();
    }

    /// The next frame.
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        self.demuxer.next_frame()
    }

    /// Why nothing of what has come since the last frame is one; `None` if nothing has come.
    pub(super) fn complaint(&self) -> Option<String> {
        let unreadable = self.demuxer.unreadable()?;
        Some(match (unreadable, self.program.or(self.demuxer.program())) {
            (Unreadable::NoProgram, Some(number)) => format!("what comes has no program {number}"),
            (Unreadable::NoFrame, Some(number)) => format!("no frame of program {number} can be read"),
            _ => unreadable.reason().to_owned(),
        })
    }
}

/// What was left out says why a stream looks as it does.
impl Drop for TsInput {
    fn drop(&mut self) {
        if self.has_come {
            tracing::debug!(counters = ?self.demuxer.counters(), "MPEG-TS ended");
        }
    }
}
