//! AAC and MP3 of a push to Opus, on a thread of its own: codecs take a good part of a millisecond
//! for a frame, and other pushes would wait for them.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use media::CodedAudio;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use transcode::{OpusSettings, ToOpus};

/// Pieces that may wait, on either side: ten seconds of them. More are left out.
const PIECES_MAX: usize = 512;
/// As the bridges of this server have it by default.
const OPUS: OpusSettings = OpusSettings { bits_per_second: 96_000 };

/// A piece of Opus, or why there is none of what went in.
pub(crate) type Transcoded = Result<CodedAudio, &'static str>;

/// A transcoder. Its thread ends with it.
#[derive(Debug)]
pub(crate) struct Transcoder {
    pieces: SyncSender<CodedAudio>,
    transcoded: Receiver<Transcoded>,
}

impl Transcoder {
    pub(crate) fn start() -> io::Result<Self> {
        let (pieces, waiting) = sync_channel::<CodedAudio>(PIECES_MAX);
        let (out, transcoded) = channel(PIECES_MAX);
        worker_api::thread::spawn("push-audio", move || {
            let mut opus = ToOpus::new(OPUS);
            let mut packets = Vec::new();
            for piece in waiting {
                let format = piece.format.as_deref();
                if let Err(error) = opus.push(format, piece.pts_us, &piece.data, &mut packets)
                    && error.is_permanent()
                    && out.blocking_send(Err(error.text())).is_err()
                {
                    return;
                }
                if !hand_on(&mut packets, &out) {
                    return;
                }
            }
        })?;
        Ok(Self { pieces, transcoded })
    }

    /// Takes a piece; `false` if too many wait.
    pub(crate) fn push(&mut self, piece: CodedAudio) -> bool {
        !matches!(self.pieces.try_send(piece), Err(TrySendError::Full(_)))
    }

    /// The next piece of Opus; none once its thread has ended. Nothing is lost when it is dropped while it
    /// waits.
    pub(crate) async fn next(&mut self) -> Option<Transcoded> {
        self.transcoded.recv().await
    }
}

fn hand_on(packets: &mut Vec<CodedAudio>, out: &Sender<Transcoded>) -> bool {
    packets.drain(..).all(|packet| out.blocking_send(Ok(packet)).is_ok())
}
