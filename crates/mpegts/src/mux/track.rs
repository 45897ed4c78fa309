//! One track: what its codec needs around a frame in a PES packet.
//!
//! ```text
//!  H.264, H.265: | access unit delimiter | parameter sets if it is key | units, behind start codes |
//!  AAC:          | ADTS header | frame |        ISO/IEC 13818-7 section 6.2
//!  Opus:         | 0x7fe | flags 5 | size, 255 a byte | packet |     "Opus in MPEG-TS" (draft of xiph.org)
//!  MP3, AC-3:    | frame |
//! ```

use media::bitstream::NalUnits;
use media::config::{self, AudioSpecificConfig};
use media::{Codec, Frame, FrameRole};

use super::NotCarried;
use crate::codecs::{self, AAC_RATES};
use crate::pes::{LENGTH_MAX, PesHeader};

/// Bytes of an ADTS header without CRC.
const ADTS_BYTES: usize = 7;
/// Largest frame that an ADTS header can count.
const ADTS_FRAME_BYTES_MAX: usize = (1 << 13) - 1;

/// A track.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) codec: Codec,
    pub(super) stream_type: u8,
    /// Descriptors in the table.
    pub(super) info: Vec<u8>,
    /// Of the next packet with payload.
    pub(super) counter: u8,
    /// The publisher has it at present.
    pub(super) is_active: bool,
    setup: Setup,
}

/// What its configuration says.
#[derive(Debug)]
enum Setup {
    Nals {
        length_bytes: u8,
        /// Parameter sets, one behind the other, and where each ends.
        sets: Vec<Vec<u8>>,
    },
    Adts([u8; ADTS_BYTES]),
    Opus,
    Plain,
}

impl Track {
    /// A track that begins with a configuration.
    pub(super) fn with_config(codec: Codec, record: &[u8]) -> Result<Self, NotCarried> {
        let config = NotCarried::Config(codec);
        let setup = match codec {
            Codec::H264 | Codec::H265 => {
                let read = match codec {
                    Codec::H264 => config::read_avcc(record),
                    _ => config::read_hvcc(record),
                };
                let sets = read.map_err(|_| config)?;
                let length_bytes = sets.length_bytes;
                Setup::Nals { length_bytes, sets: sets.sets.into_iter().map(<[u8]>::to_vec).collect() }
            }
            Codec::Aac => Setup::Adts(adts_header(record).ok_or(config)?),
            Codec::Opus => Setup::Opus,
            _ => Setup::Plain,
        };
        // Behind "OpusHead" and the version.
        let channels = record.get(9).copied().filter(|channels| (1..=8).contains(channels)).unwrap_or(2);
        let (stream_type, info) = codecs::announce(codec, channels).ok_or(NotCarried::Codec(codec))?;
        Ok(Self { codec, stream_type, info, counter: 0, is_active: true, setup })
    }

    /// A track that begins with a frame.
    pub(super) fn without_config(codec: Codec) -> Result<Self, NotCarried> {
        match codec {
            Codec::H264 | Codec::H265 | Codec::Aac => Err(NotCarried::Config(codec)),
            _ => Self::with_config(codec, &[]),
        }
    }

    /// Appends a frame as a PES packet with PTS and DTS.
    pub(super) fn write_pes(
        &self,
        out: &mut Vec<u8>,
        frame: &Frame,
        times: (i64, i64),
    ) -> Result<(), NotCarried> {
        let data = frame.data();
        if data.is_empty() {
            return Err(NotCarried::Frame);
        }
        let index = frame.track.index;
        match &self.setup {
            Setup::Nals { length_bytes, sets } => {
                // How long it becomes is known once it is written: most pictures are shorter than what the
                // length can count, and receivers need not wait for the next picture to see their end.
                let begin = out.len();
                PesHeader::write(out, 0xe0 | index, times, 0);
                let behind_length = begin + 6;
                self.write_picture(out, frame, *length_bytes, sets)?;
                let length = out.len() - behind_length;
                let length = if length > LENGTH_MAX { 0 } else { length as u16 };
                out[begin + 4..begin + 6].copy_from_slice(&length.to_be_bytes());
            }
            Setup::Adts(header) => {
                let bytes = ADTS_BYTES + data.len();
                if bytes > ADTS_FRAME_BYTES_MAX {
                    return Err(NotCarried::Frame);
                }
                let mut header = *header;
                header[3] |= (bytes >> 11) as u8;
                header[4] = (bytes >> 3) as u8;
                header[5] |= (bytes << 5) as u8;
                PesHeader::write(out, 0xc0 | index, times, bytes);
                out.extend_from_slice(&header);
                out.extend_from_slice(data);
            }
            Setup::Opus => {
                let size_bytes = data.len() / 255 + 1;
                self.write_audio_header(out, 0xbd, times, 2 + size_bytes + data.len())?;
                out.extend_from_slice(&[0x7f, 0xe0]);
                out.resize(out.len() + size_bytes - 1, 255);
                out.push((data.len() % 255) as u8);
                out.extend_from_slice(data);
            }
            Setup::Plain => {
                let stream_id = if self.codec == Codec::Mp3 { 0xc0 | index } else { 0xbd };
                self.write_audio_header(out, stream_id, times, data.len())?;
                out.extend_from_slice(data);
            }
        }
        Ok(())
    }

    fn write_audio_header(
        &self,
        out: &mut Vec<u8>,
        stream_id: u8,
        times: (i64, i64),
        bytes: usize,
    ) -> Result<(), NotCarried> {
        // Only video may be unbounded.
        if bytes + 13 > LENGTH_MAX {
            return Err(NotCarried::Frame);
        }
        PesHeader::write(out, stream_id, times, bytes);
        Ok(())
    }

    fn write_picture(
        &self,
        out: &mut Vec<u8>,
        frame: &Frame,
        length_bytes: u8,
        sets: &[Vec<u8>],
    ) -> Result<(), NotCarried> {
        let units = NalUnits::of(frame.data(), length_bytes).map_err(|_| NotCarried::Frame)?;
        let is_h264 = self.codec == Codec::H264;
        let delimiter = if is_h264 { &[0x09, 0xf0][..] } else { &[0x46, 0x01, 0x50] };
        let kind = |unit: &[u8]| if is_h264 { unit[0] & 0x1f } else { unit[0] >> 1 & 0x3f };
        let (delimiter_kind, set_kind) = if is_h264 { (9, 7) } else { (35, 33) };
        out.extend_from_slice(&[0, 0, 0, 1]);
        out.extend_from_slice(delimiter);
        let is_key = frame.role == FrameRole::Key;
        if is_key && !units.clone().any(|unit| kind(unit) == set_kind) {
            for set in sets {
                out.extend_from_slice(&[0, 0, 0, 1]);
                out.extend_from_slice(set);
            }
        }
        for unit in units.filter(|unit| kind(unit) != delimiter_kind) {
            out.extend_from_slice(&[0, 0, 1]);
            out.extend_from_slice(unit);
        }
        Ok(())
    }
}

/// The header of frames with this AudioSpecificConfig, without their length.
///
/// ```text
///  sync 12, id 1, layer 2, no CRC 1 | profile 2, rate 4, private 1, channels 3, .. 4, length 13
///  | fullness 11, frames-1 2 |
/// ```
fn adts_header(record: &[u8]) -> Option<[u8; ADTS_BYTES]> {
    let config = AudioSpecificConfig::read(record).ok()?;
    let rate = AAC_RATES.iter().position(|rate| *rate == config.sample_rate)? as u8;
    let channels = config.channel_configuration as u8;
    if !(1..=4).contains(&config.object_type) || !(1..=7).contains(&channels) || config.short_frames {
        return None;
    }
    let profile = config.object_type as u8 - 1;
    Some([0xff, 0xf1, profile << 6 | rate << 2 | channels >> 2, channels << 6, 0, 0x1f, 0xfc])
}
