//! Bytes of a file on their way to one player.
//!
//! A task per answer reads pieces and waits while the player takes none. Players of one file take
//! turns at its reader: a turn ends when the player is behind, or after a megabyte, because each change
//! of position may cost a request.

use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};
use range_reader::AsyncRangeReader;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::mpsc;

use crate::films::{Film, Films};

/// Bytes read at a time.
const PIECE_BYTES: u64 = 64 << 10;
/// Pieces that wait for a player.
const PIECES_MAX: usize = 2;
/// Bytes of one turn.
const TURN_BYTES: u64 = 1 << 20;

/// The body of an answer: a text, or bytes of a file.
#[derive(Debug)]
pub(crate) enum AnswerBody {
    /// A text, until it is taken.
    Text(Option<Bytes>),
    /// Pieces of a file, of so many bytes in all if that is known.
    Pieces(mpsc::Receiver<io::Result<Bytes>>, Option<u64>),
}

impl AnswerBody {
    /// The body of an answer to HEAD, whose fields say what GET would get.
    pub(crate) fn empty() -> Self {
        Self::Pieces(mpsc::channel(1).1, None)
    }
}

/// Bytes that a player has asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The number of the answer.
    pub(crate) number: u64,
    /// Position of the next one.
    pub(crate) position: u64,
    /// Position behind the last one; `None` for all there are.
    pub(crate) end: Option<u64>,
}

impl Wanted {
    /// The next bytes, at the end none.
    pub(crate) async fn read(&mut self, film: &Film, reader: &mut AsyncRangeReader) -> io::Result<Bytes> {
        let left = self.end.map_or(PIECE_BYTES, |end| end - self.position);
        if left == 0 {
            return Ok(Bytes::new());
        }
        reader.seek(SeekFrom::Start(self.position)).await?;
        let mut piece = BytesMut::with_capacity(left.min(PIECE_BYTES) as usize);
        let read = reader.take(left.min(PIECE_BYTES)).read_buf(&mut piece).await;
        film.note_read(reader, piece.len());
        if read? == 0 && self.end.is_some() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.position += piece.len() as u64;
        Ok(piece.freeze())
    }

    /// The body of an answer whose first piece has been read.
    pub(crate) fn into_body(self, first: Bytes, films: Arc<Films>, film: Arc<Film>) -> AnswerBody {
        let total = self.end.map(|end| end - self.position + first.len() as u64);
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        tokio::spawn(async move {
            // There is room.
            let _ = sender.try_send(Ok(first));
            if let Err(error) = self.send(&film, &sender).await {
                if is_final(&error) {
                    films.forget(&film);
                }
                // The answer breaks off, which is all that HTTP has for it.
                let _ = sender.send(Err(error)).await;
            }
        });
        AnswerBody::Pieces(receiver, total)
    }

    /// Sends what is left, until the player has gone.
    async fn send(mut self, film: &Film, sender: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
        while self.end != Some(self.position) {
            let Ok(mut permit) = sender.reserve().await else { return Ok(()) };
            let mut reader = tokio::select! {
                reader = film.reader.lock() => reader,
                () = sender.closed() => return Ok(()),
            };
            let turn_end = self.position + TURN_BYTES;
            film.hint(self.number, &mut reader, self.position..self.end.unwrap_or(u64::MAX));
            loop {
                let piece = tokio::select! {
                    piece = self.read(film, &mut reader) => Some(piece?),
                    () = sender.closed() => None,
                };
                let Some(piece) = piece.filter(|piece| !piece.is_empty()) else {
                    // A read that was dropped may have cost a request.
                    film.note_read(&reader, 0);
                    return Ok(());
                };
                permit.send(Ok(piece));
                if self.position >= turn_end || self.end == Some(self.position) {
                    break;
                }
                match sender.try_reserve() {
                    Ok(next) => permit = next,
                    Err(_) => break,
                }
            }
        }
        Ok(())
    }
}

/// Whether a reader that has failed so gives no more bytes.
pub(crate) fn is_final(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::ConnectionAborted
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match self.get_mut() {
            Self::Text(text) => text.take().map(|text| Ok(Frame::data(text))),
            Self::Pieces(pieces, _) => ready!(pieces.poll_recv(context)).map(|piece| piece.map(Frame::data)),
        })
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            // Asked once, for the head.
            Self::Pieces(_, total) => total.map_or_else(SizeHint::new, SizeHint::with_exact),
        }
    }
}
