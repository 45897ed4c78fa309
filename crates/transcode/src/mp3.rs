//! MP3 frames (ISO/IEC 11172-3 §2.4.2.3, 13818-3; MPEG 2.5 as its encoders write it): headers, and
//! one frame after another.
//!
//! The decoder refuses a frame that is not exactly as long as its header says and one whose rate or
//! channels differ from the first: both are settled here.

use symphonia_bundle_mp3::MpaDecoder;
use symphonia_core::codecs::audio::well_known::CODEC_ID_MP3;
use symphonia_core::codecs::audio::{AudioCodecParameters, AudioDecoder as _, AudioDecoderOptions};

use crate::TranscodeError;
use crate::pcm::{Pcm, packet};

/// Decoder of MP3 frames.
#[derive(Default)]
pub(crate) struct Mp3 {
    decoder: Option<(Header, MpaDecoder)>,
}

/// What tells how long a frame is, and what must stay the same within a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    sample_rate: u32,
    channels: usize,
    /// The whole frame, its header included.
    bytes: usize,
}

impl Mp3 {
    /// Decodes all frames of a piece into `pcm`. A frame that is cut short or broken ends it.
    pub(crate) fn decode(&mut self, mut data: &[u8], pcm: &mut Pcm) -> Result<(), TranscodeError> {
        pcm.samples.clear();
        pcm.delay_samples = 0;
        while !data.is_empty() {
            let decoded = self.decode_frame(data, pcm);
            match decoded {
                Ok(bytes) => data = &data[bytes..],
                Err(_) if !pcm.samples.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        if pcm.samples.is_empty() { Err(TranscodeError::Broken) } else { Ok(()) }
    }

    fn decode_frame(&mut self, data: &[u8], pcm: &mut Pcm) -> Result<usize, TranscodeError> {
        let header = Header::read(data).ok_or(TranscodeError::Broken)?;
        let frame = data.get(..header.bytes).ok_or(TranscodeError::Broken)?;
        if !pcm.samples.is_empty() && (pcm.rate, pcm.channels) != (header.sample_rate, header.channels) {
            return Err(TranscodeError::Broken);
        }
        let decoder = match &mut self.decoder {
            Some((first, decoder)) if first.same_audio(&header) => decoder,
            other => &mut other.insert((header, decoder()?)).1,
        };
        let buffer = decoder.decode_ref(&packet(frame)).map_err(|_| TranscodeError::Broken)?;
        (pcm.rate, pcm.channels) = (header.sample_rate, header.channels);
        pcm.append(&buffer);
        Ok(header.bytes)
    }
}

fn decoder() -> Result<MpaDecoder, TranscodeError> {
    let mut parameters = AudioCodecParameters::new();
    parameters.for_codec(CODEC_ID_MP3);
    MpaDecoder::try_new(&parameters, &AudioDecoderOptions::default()).map_err(|_| TranscodeError::Codec)
}

impl Header {
    /// Reads the four bytes of a header; `None` for other layers, reserved values and free format.
    fn read(data: &[u8]) -> Option<Self> {
        let word = u32::from_be_bytes(*data.first_chunk()?);
        let version = word >> 19 & 3;
        if word >> 21 != 0x7ff || version == 1 || word >> 17 & 3 != 1 {
            return None;
        }
        let is_version_1 = version == 3;
        let kilobits_per_second = match (is_version_1, (word >> 12 & 15) as usize) {
            (_, 0 | 15) => return None,
            (true, index) => [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320][index - 1],
            (false, index) => [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160][index - 1],
        };
        let sample_rate =
            [44_100, 48_000, 32_000].get((word >> 10 & 3) as usize)? >> [2, 2, 1, 0][version as usize];
        let slots = if is_version_1 { 144_000 } else { 72_000 } * kilobits_per_second / sample_rate;
        let channels = if word >> 6 & 3 == 3 { 1 } else { 2 };
        Some(Self { sample_rate, channels, bytes: (slots + (word >> 9 & 1)) as usize })
    }

    fn same_audio(&self, other: &Self) -> bool {
        (self.sample_rate, self.channels) == (other.sample_rate, other.channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_rate_channels_and_length() {
        let header = |sample_rate, channels, bytes| Some(Header { sample_rate, channels, bytes });
        let cases = [
            ([0xff, 0xfb, 0x90, 0x64], header(44_100, 2, 417)), // MPEG 1, 128 kbit/s, joint stereo
            ([0xff, 0xfb, 0x92, 0x64], header(44_100, 2, 418)), // padded
            ([0xff, 0xfb, 0x94, 0xc4], header(48_000, 1, 384)), // mono
            ([0xff, 0xf3, 0x84, 0xc4], header(24_000, 1, 192)), // MPEG 2, 64 kbit/s
            ([0xff, 0xe3, 0x18, 0xc4], header(8_000, 1, 72)),   // MPEG 2.5, 8 kbit/s
            ([0xff, 0xfb, 0x00, 0x64], None),                   // free format
            ([0xff, 0xfb, 0xf0, 0x64], None),                   // reserved bit rate
            ([0xff, 0xfb, 0x9c, 0x64], None),                   // reserved sampling rate
            ([0xff, 0xfd, 0x90, 0x64], None),                   // layer II
            ([0xff, 0xeb, 0x90, 0x64], None),                   // reserved version
            ([0x49, 0x44, 0x33, 0x04], None),                   // an ID3 tag
        ];
        for (bytes, expected) in cases {
            assert_eq!(Header::read(&bytes), expected, "{bytes:02x?}");
        }
        assert_eq!(Header::read(&[0xff, 0xfb, 0x90]), None);
    }
}
