//! Transport streams: of a player to frames, of a publisher from messages.

use media::Frame;
use mpegts::{DemuxSettings, Demuxer, Muxer, PACKET_BYTES};
use rtmp::MediaKind;
use rtmp::flv::{FlvError, Tag, read_frames};

use crate::http_flv::{HttpBody, HttpFlvError};
use crate::sample::Due;

/// A player's stream.
#[derive(Debug)]
pub struct TsInput(Demuxer);

impl TsInput {
    /// One that has seen nothing yet.
    pub fn new() -> TsInput {
        TsInput(Demuxer::new(DemuxSettings::default()))
    }

    /// Takes bytes, and calls `on_frame` for each frame that is complete.
    pub fn push(&mut self, bytes: &[u8], mut on_frame: impl FnMut(&Frame)) {
        self.0.push(bytes);
        while let Some(frame) = self.0.next_frame() {
            on_frame(&frame);
        }
    }
}

impl Default for TsInput {
    fn default() -> TsInput {
        TsInput::new()
    }
}

/// A player by HTTP.
#[derive(Debug, Default)]
pub struct HttpTsClient {
    body: HttpBody,
    ts: TsInput,
}

impl HttpTsClient {
    /// Takes bytes from the server and calls `on_frame` for each complete frame.
    ///
    /// # Errors
    /// When the answer is none of a stream.
    pub fn handle_input(
        &mut self,
        input: &[u8],
        mut on_frame: impl FnMut(&Frame),
    ) -> Result<(), HttpFlvError> {
        let ts = &mut self.ts;
        self.body.handle_input(input, |bytes| {
            ts.push(bytes, &mut on_frame);
            Ok(())
        })
    }

    /// Whether the server has ended the answer.
    pub fn is_ended(&self) -> bool {
        self.body.is_ended()
    }
}

/// A publisher's stream: messages in, payloads of datagrams out.
#[derive(Debug, Default)]
pub struct TsOutput {
    muxer: Muxer,
    /// Packets that were not taken yet.
    bytes: Vec<u8>,
    taken: usize,
}

impl TsOutput {
    /// Appends a message, as RTMP has it; data is left out, and what the format does not carry.
    pub fn write(&mut self, due: &Due<'_>) {
        if due.kind == MediaKind::Data {
            return;
        }
        if let Ok((frame, _)) = frame_of(due) {
            // The sample has nothing that is not carried: players would miss it.
            let _ = self.muxer.write(&mut self.bytes, &frame, frame.dts, frame.is_key());
        }
    }

    /// The next payload: as many packets as a datagram holds.
    pub fn payload(&self) -> Option<&[u8]> {
        let rest = &self.bytes[self.taken..];
        (!rest.is_empty()).then(|| &rest[..rest.len().min(7 * PACKET_BYTES)])
    }

    /// That payload was taken.
    pub fn advance(&mut self) {
        self.taken += self.payload().map_or(0, <[u8]>::len);
        // A server that is always a little behind never has all of it.
        if self.taken == self.bytes.len() || self.taken > TAKEN_BYTES_MAX {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Bytes that were not taken.
    pub fn unsent(&self) -> usize {
        self.bytes.len() - self.taken
    }
}

/// A message as a frame, and further ones of the same message.
///
/// # Errors
/// When the body ends before its header does.
pub fn frame_of(due: &Due<'_>) -> Result<(Frame, Vec<Frame>), FlvError> {
    read_frames(Tag { kind: due.kind, timestamp: due.timestamp, body: due.body.to_vec() }.into())
}

/// Bytes that were taken and are not let go of yet.
const TAKEN_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::super::frames;
    use super::*;
    use crate::sample::{Sample, Timeline};
    use crate::stamp::PREFIX_BYTES;
    use crate::tally::Tally;

    /// From the publisher's messages to the player's tally, as by SRT.
    #[test]
    fn a_stream_that_is_whole_is_exact_and_a_lost_datagram_is_not() {
        for lost in [None, Some(300)] {
            let mut sample = Sample::embedded().expect("the embedded sample is readable");
            let (mut output, mut input) = (TsOutput::default(), TsInput::new());
            for (kind, body) in &sample.headers.clone() {
                output.write(&Due { kind: *kind, timestamp: 0, body });
            }
            let (mut timeline, mut tally) = (Timeline::new(5), Tally::default());
            let mut number = 0;
            for at in 0..1000 {
                output.write(&timeline.take(&mut sample, at * 1_000_000));
                while let Some(payload) = output.payload() {
                    number += 1;
                    if Some(number) != lost {
                        input.push(payload, |frame| {
                            let mut prefix = [0; PREFIX_BYTES];
                            if let Some(arrival) = frames::arrival(frame, &mut prefix) {
                                tally.handle_media(at * 1_000_000, arrival, 500);
                            }
                        });
                    }
                    output.advance();
                }
            }
            assert!(tally.judged.expected.messages > 900, "{:?}", tally.judged);
            assert_eq!(tally.judged.is_exact(), lost.is_none(), "{:?}", tally.judged);
        }
    }
}
