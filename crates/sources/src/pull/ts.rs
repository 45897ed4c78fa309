//! The transport stream of a pull, however its packets come.

use media::Frame;
use mpegts::{DemuxSettings, Demuxer};

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
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        self.demuxer.finish();
    }

    /// The next frame.
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        self.demuxer.next_frame()
    }

    /// Why nothing of what has come is a frame; `None` if nothing has come.
    pub(super) fn complaint(&self) -> Option<String> {
        let counters = self.demuxer.counters();
        self.has_come.then(|| match (self.demuxer.program(), self.program) {
            _ if counters.packets == 0 => "what comes is no MPEG-TS".to_owned(),
            (None, Some(number)) => format!("what comes has no program {number}"),
            (None, None) => "what comes has no program".to_owned(),
            _ if counters.scrambled > 0 => "what comes is scrambled".to_owned(),
            (Some(number), _) => format!("no frame of program {number} can be read"),
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
