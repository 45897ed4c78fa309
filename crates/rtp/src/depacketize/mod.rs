//! Payloads back to coded frames, one file per payload format.
//!
//! A [`Depacketizer`] is given the payloads of one track in order: [`Depacketizer::push`] for each,
//! [`Depacketizer::finish`] where a frame ends (marker, or another timestamp),
//! [`Depacketizer::abandon`] where packets are missing. What a frame looks like is what containers
//! hold:
//!
//! ```text
//! H.264, H.265   size 32 | NAL unit | size 32 | NAL unit | ...        (ISO/IEC 14496-15, sizes of four bytes)
//! AV1            OBUs with sizes, no temporal delimiters, no padding  (AV1 section 5.2, "low overhead")
//! VP8            the frame                VP9   the frame, or a superframe of all spatial layers (VP9 annex B)
//! Opus, G.711    the payload
//! ```
//! Putting packets into order and waiting for late ones is left to the caller, and so is knowing
//! which frame needs which.

pub mod aac;
mod av1;
mod h264;
mod h265;
mod nal;
mod vp8;
mod vp9;

use crate::payload::{Codec, opus::Toc};

/// Why a frame cannot be put together. Each is a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A payload contradicts its format: cut off, packets inside packets, fields that cannot be.
    Malformed,
    /// A packetization that is never negotiated: interleaved H.264 (STAP-B, MTAP, FU-B), PACI of
    /// H.265.
    Unsupported,
    /// A fragment without its first fragment.
    MissingStart,
    /// A fragment, or the frame, ends before what it began with does.
    MissingEnd,
    /// Longer than [`FRAME_BYTES_MAX`].
    TooLarge,
    /// The frame has ended and there is nothing in it.
    Empty,
}

/// Longest frame, in bytes: half of what an FLV tag can hold. A longer one is given up.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// Puts the frames of one track together.
#[derive(Debug)]
pub struct Depacketizer {
    codec: Codec,
    format: Format,
    frame: Vec<u8>,
    /// The current frame is lost, for this reason.
    broken: Option<Broken>,
}

#[derive(Debug)]
enum Format {
    H264(h264::State),
    H265(h265::State),
    Vp8(vp8::State),
    Vp9(vp9::State),
    Av1(av1::State),
    Opus,
    Plain,
}

impl Format {
    fn of(codec: Codec) -> Self {
        match codec {
            Codec::H264 => Self::H264(h264::State::default()),
            Codec::H265 => Self::H265(h265::State::default()),
            Codec::Vp8 => Self::Vp8(vp8::State::default()),
            Codec::Vp9 => Self::Vp9(vp9::State::default()),
            Codec::Av1 => Self::Av1(av1::State::default()),
            Codec::Opus => Self::Opus,
            _ => Self::Plain,
        }
    }
}

impl Depacketizer {
    /// For a track of this codec. One without a payload format here is taken to have a frame per
    /// packet, like G.711.
    pub fn new(codec: Codec) -> Self {
        Self { codec, format: Format::of(codec), frame: Vec::new(), broken: None }
    }

    /// Its codec.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Takes the next payload (without padding) of the current frame, or the first of a new one.
    ///
    /// # Errors
    /// [`Broken`] when this payload is what breaks the frame. Further payloads of a broken frame
    /// are passed over without an error: it is counted once.
    pub fn push(&mut self, payload: &[u8]) -> Result<(), Broken> {
        if self.broken.is_some() {
            return Ok(());
        }
        let pushed = self.take(payload);
        self.broken = pushed.err();
        pushed
    }

    fn take(&mut self, payload: &[u8]) -> Result<(), Broken> {
        // No format makes more of a payload than this: sizes of four bytes for units of one byte
        // with a size of two.
        if self.frame.len() + 4 * payload.len() > FRAME_BYTES_MAX {
            return Err(Broken::TooLarge);
        }
        let frame = &mut self.frame;
        match &mut self.format {
            Format::H264(state) => state.push(payload, frame),
            Format::H265(state) => state.push(payload, frame),
            Format::Vp8(state) => state.push(payload, frame),
            Format::Vp9(state) => state.push(payload, frame),
            Format::Av1(state) => state.push(payload, frame),
            Format::Opus => {
                Toc::parse(payload).ok_or(Broken::Malformed)?;
                frame.extend_from_slice(payload);
                Ok(())
            }
            Format::Plain => {
                frame.extend_from_slice(payload);
                Ok(())
            }
        }
    }

    /// The frame is complete: hands it out, until the next call.
    ///
    /// # Errors
    /// [`Broken`], the reason [`Depacketizer::push`] gave if it gave one.
    pub fn finish(&mut self) -> Result<Frame<'_>, Broken> {
        let ended = match self.broken {
            Some(broken) => Err(broken),
            None => self.end(),
        };
        let data = std::mem::take(&mut self.frame);
        self.abandon();
        // Its memory is used for the next frame, which begins with `Frame`'s end.
        self.frame = data;
        match ended {
            Ok(()) if self.frame.is_empty() => Err(Broken::Empty),
            Ok(()) => Ok(Frame { bytes: &mut self.frame }),
            Err(broken) => {
                self.frame.clear();
                Err(broken)
            }
        }
    }

    fn end(&mut self) -> Result<(), Broken> {
        let frame = &mut self.frame;
        match &mut self.format {
            Format::H264(state) => state.end(),
            Format::H265(state) => state.end(),
            Format::Vp8(_) | Format::Opus | Format::Plain => Ok(()),
            Format::Vp9(state) => state.end(frame),
            Format::Av1(state) => state.end(),
        }
    }

    /// Discards the current frame.
    pub fn abandon(&mut self) {
        self.frame.clear();
        self.format = Format::of(self.codec);
        self.broken = None;
    }

    /// The current frame lacks a packet: [`Depacketizer::finish`] will report it, whatever else
    /// arrives.
    pub fn break_frame(&mut self, reason: Broken) {
        self.broken.get_or_insert(reason);
    }

    /// Whether the current frame is lost.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }
}

/// A frame that was put together; its memory goes back when it is dropped.
#[derive(Debug)]
pub struct Frame<'a> {
    bytes: &'a mut Vec<u8>,
}

impl std::ops::Deref for Frame<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        self.bytes.clear();
        // One huge frame does not hold its memory for ever.
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }
}

/// Memory kept for the next frame, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audio_frame_is_its_payload() {
        for (codec, payload) in [(Codec::Opus, &[0xfc, 1, 2][..]), (Codec::Pcma, &[0xd5; 160])] {
            let mut depacketizer = Depacketizer::new(codec);
            assert_eq!(depacketizer.finish().unwrap_err(), Broken::Empty);
            depacketizer.push(payload).unwrap();
            assert_eq!(&*depacketizer.finish().unwrap(), payload);
            assert_eq!(depacketizer.finish().unwrap_err(), Broken::Empty);
        }
        let mut opus = Depacketizer::new(Codec::Opus);
        assert_eq!(opus.push(&[0xff, 7, 1]), Err(Broken::Malformed), "140 ms");
        assert_eq!(opus.finish().unwrap_err(), Broken::Malformed);
        opus.push(&[0xfc, 1, 2]).unwrap();
        assert_eq!(&*opus.finish().unwrap(), &[0xfc, 1, 2], "the next one is not affected");
    }

    #[test]
    fn a_broken_frame_is_counted_once_and_ends_with_its_reason() {
        let mut depacketizer = Depacketizer::new(Codec::H264);
        depacketizer.push(&[0x41, 1]).unwrap();
        assert_eq!(depacketizer.push(&[0x79, 1]), Err(Broken::Unsupported));
        assert_eq!(depacketizer.push(&[0x79, 1]), Ok(()), "said already");
        assert_eq!(depacketizer.finish().unwrap_err(), Broken::Unsupported);
        depacketizer.break_frame(Broken::MissingStart);
        depacketizer.push(&[0x41, 1]).unwrap();
        assert_eq!(depacketizer.finish().unwrap_err(), Broken::MissingStart);
        depacketizer.push(&[0x41, 1]).unwrap();
        assert_eq!(&*depacketizer.finish().unwrap(), &[0, 0, 0, 2, 0x41, 1]);
    }

    #[test]
    fn a_frame_without_end_is_given_up_at_the_limit() {
        for codec in [Codec::H264, Codec::H265, Codec::Vp8, Codec::Vp9, Codec::Av1] {
            let mut depacketizer = Depacketizer::new(codec);
            let (first, further): (&[u8], &[u8]) = match codec {
                Codec::H264 => (&[0x7c, 0x85], &[0x7c, 0x05]),
                Codec::H265 => (&[0x62, 1, 0x93], &[0x62, 1, 0x13]),
                Codec::Vp8 => (&[0x10], &[0x00]),
                Codec::Vp9 => (&[0x08], &[0x00]),
                _ => (&[0x50, 0x30], &[0xd0]),
            };
            let mut payload = [first, &[7; 60_000]].concat();
            let mut pushed = 0;
            let broken = loop {
                if let Err(broken) = depacketizer.push(&payload) {
                    break broken;
                }
                pushed += 60_000;
                assert!(pushed <= FRAME_BYTES_MAX, "{codec:?}");
                payload = [further, &[7; 60_000]].concat();
            };
            assert_eq!(broken, Broken::TooLarge, "{codec:?}");
            assert!(pushed + 300_000 > FRAME_BYTES_MAX, "{codec:?} gave up at {pushed}");
        }
    }
}
