//! AAC in ADTS (ISO/IEC 13818-7 section 6.2) and in LOAS (ISO/IEC 14496-3 section 1.7.2), as raw
//! frames and AudioSpecificConfig.
//!
//! ```text
//!  ADTS: | sync 12, id 1, layer 2, no CRC 1 | profile 2, rate 4, private 1, channels 3, .. 4, length 13
//!        | fullness 11, frames-1 2 | [CRC 16] | frame
//!  LOAS: | sync 11 (0x2b7) | length 13 | AudioMuxElement
//! ```

use media::bitstream::{BitReader, BitWriter, Malformed, StreamMuxConfig};

use super::audio::{AudioFrame, AudioRead};
use crate::codecs::AAC_RATES;

/// Reads a frame behind an ADTS header.
pub(super) fn read_adts(bytes: &[u8]) -> AudioRead {
    let Some(head) = bytes.first_chunk::<7>() else {
        let is_beginning =
            bytes.first() == Some(&0xff) && bytes.get(1).is_none_or(|byte| byte & 0xf6 == 0xf0);
        return if is_beginning { AudioRead::Incomplete } else { AudioRead::Nothing };
    };
    if head[0] != 0xff || head[1] & 0xf6 != 0xf0 {
        return AudioRead::Nothing;
    }
    let rate = AAC_RATES.get(usize::from(head[2] >> 2 & 0x0f));
    let channels = (head[2] & 1) << 2 | head[3] >> 6;
    let length = usize::from(head[3] & 3) << 11 | usize::from(head[4]) << 3 | usize::from(head[5] >> 5);
    let head_bytes = if head[1] & 1 == 0 { 9 } else { 7 };
    // Several frames behind one header, which nobody sends, would need their lengths from the decoder.
    let (Some(&sample_rate), true, 0) = (rate, length > head_bytes, head[6] & 3) else {
        return AudioRead::Nothing;
    };
    let Some(data) = bytes.get(head_bytes..length) else { return AudioRead::Incomplete };
    let mut config = BitWriter::default();
    config.u(u32::from(head[2] >> 6) + 1, 5);
    config.u(u32::from(head[2] >> 2 & 0x0f), 4);
    config.u(channels.into(), 4);
    config.u(0, 3);
    AudioRead::Frame(AudioFrame {
        bytes: length,
        data: data.to_vec(),
        config: Some(config.bytes().to_vec()),
        samples: 1024,
        sample_rate,
        channels: 0,
    })
}

/// Reads a frame in LOAS. Elements with several are not taken: nobody sends them.
pub(super) fn read_latm(bytes: &[u8], known: &mut Option<StreamMuxConfig>) -> AudioRead {
    let Some(&[first, second, third]) = bytes.first_chunk::<3>() else {
        let is_beginning = bytes.first() == Some(&0x56) && bytes.get(1).is_none_or(|byte| byte >> 5 == 7);
        return if is_beginning { AudioRead::Incomplete } else { AudioRead::Nothing };
    };
    if first != 0x56 || second >> 5 != 7 {
        return AudioRead::Nothing;
    }
    let length = 3 + (usize::from(second & 0x1f) << 8 | usize::from(third));
    let Some(element) = bytes.get(3..length) else { return AudioRead::Incomplete };
    match read_element(element, known) {
        Ok((data, config)) => AudioRead::Frame(AudioFrame {
            bytes: length,
            data,
            config: Some(config.record),
            samples: config.samples,
            sample_rate: config.sample_rate,
            channels: 0,
        }),
        Err(Malformed) => AudioRead::Nothing,
    }
}

fn read_element(
    element: &[u8],
    known: &mut Option<StreamMuxConfig>,
) -> Result<(Vec<u8>, StreamMuxConfig), Malformed> {
    let mut bits = BitReader::new(element);
    if !bits.bit()? {
        *known = Some(StreamMuxConfig::read(&mut bits)?);
    }
    let config = known.clone().filter(|config| config.frames == 1).ok_or(Malformed)?;
    let mut data = Vec::new();
    match config.frames(&mut bits, element.len(), |_, frame| data = frame.to_vec())? {
        0 => Ok((data, config)),
        _ => Err(Malformed),
    }
}
