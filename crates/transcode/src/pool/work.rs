//! The transcoders of the crate `transcode`, in the types that bridges use.

use std::sync::Arc;

use media::{Codec, CodecConfig, CodedAudio};

use super::Work;
use crate::{AacSettings, Coded, NotBuiltIn, OpusSettings, ToAac, ToOpus, TranscodeError};

/// AAC and MP3 to Opus.
pub(super) struct Opus {
    transcoder: ToOpus,
    coded: Vec<Coded>,
    format: Option<Arc<CodecConfig>>,
}

/// Opus to AAC.
pub(super) struct Aac {
    transcoder: ToAac,
    coded: Vec<Coded>,
    format: Option<Arc<CodecConfig>>,
}

impl Opus {
    pub(super) fn new(settings: OpusSettings) -> Self {
        let format = CodecConfig { codec: Codec::Opus, record: Vec::new(), sample_rate: 48_000, channels: 2 };
        Self { transcoder: ToOpus::new(settings), coded: Vec::new(), format: Some(Arc::new(format)) }
    }
}

impl Aac {
    pub(super) fn new(settings: AacSettings) -> Result<Self, NotBuiltIn> {
        let transcoder = ToAac::new(settings)?;
        let format = CodecConfig {
            codec: Codec::Aac,
            record: transcoder.config().to_vec(),
            sample_rate: 48_000,
            channels: 2,
        };
        Ok(Self { transcoder, coded: Vec::new(), format: Some(Arc::new(format)) })
    }
}

impl Work for Opus {
    fn transcode(&mut self, piece: &CodedAudio, out: &mut Vec<CodedAudio>) -> Result<(), TranscodeError> {
        let format = piece.format.as_deref();
        let result = self.transcoder.push(format, piece.pts_us, &piece.data, &mut self.coded);
        hand_out(&mut self.coded, &mut self.format, out);
        result
    }
}

impl Work for Aac {
    fn transcode(&mut self, piece: &CodedAudio, out: &mut Vec<CodedAudio>) -> Result<(), TranscodeError> {
        let result = self.transcoder.push(piece.pts_us, &piece.data, &mut self.coded);
        hand_out(&mut self.coded, &mut self.format, out);
        result
    }
}

/// Moves what came out; the very first piece says what it is.
fn hand_out(coded: &mut Vec<Coded>, format: &mut Option<Arc<CodecConfig>>, out: &mut Vec<CodedAudio>) {
    out.extend(coded.drain(..).map(|piece| CodedAudio {
        pts_us: piece.pts_us,
        format: format.take(),
        data: piece.data,
    }));
}
