//! Coded samples with clicks in them, and where the clicks are in what comes out.

use std::path::Path;

use media::{Codec, CodecConfig, CodedAudio};
use transcode::{OpusSettings, ToOpus};

/// Where the samples' time 0 is put, so that nothing is due before the beginning of the stream.
pub(crate) const BASE_US: i64 = 10_000_000;
/// Where the clicks are.
pub(crate) const CLICKS_US: [i64; 2] = [BASE_US + 500_000, BASE_US + 1_000_000];

/// A sample file taken apart.
pub(crate) struct Sample {
    /// What the decoder is told.
    pub(crate) format: CodecConfig,
    /// Each piece with its time, microseconds.
    pub(crate) pieces: Vec<(i64, Vec<u8>)>,
}

/// Reads a file of `scripts/make-audio-samples`.
pub(crate) fn sample(name: &str) -> Sample {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if name.ends_with(".mp3") { mp3(&bytes, name) } else { adts(&bytes) }
}

/// ADTS (ISO/IEC 13818-7 §6.2): a header of seven bytes in front of each access unit. The encoder's delay is
/// 1,024 samples.
fn adts(mut bytes: &[u8]) -> Sample {
    let rates = [
        96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
    ];
    let index = bytes[2] >> 2 & 15;
    let rate = rates[usize::from(index)];
    let channels = bytes[2] << 2 & 4 | bytes[3] >> 6;
    let config = vec![2 << 3 | index >> 1, index << 7 | channels << 3];
    let mut pieces = Vec::new();
    while bytes.len() > 7 {
        assert_eq!(bytes[..2], [0xff, 0xf1], "an ADTS header without checksum");
        let length =
            usize::from(bytes[3] & 3) << 11 | usize::from(bytes[4]) << 3 | usize::from(bytes[5] >> 5);
        let first_sample = pieces.len() as i64 * 1_024 - 1_024;
        pieces.push((BASE_US + first_sample * 1_000_000 / rate, bytes[7..length].to_vec()));
        bytes = &bytes[length..];
    }
    Sample { format: CodecConfig::new(Codec::Aac, config), pieces }
}

/// MP3 frames of one length but for padding. Encoder and decoder together delay by 576 + 529 samples.
fn mp3(bytes: &[u8], name: &str) -> Sample {
    let (rate, samples, bytes_min) =
        if name.contains("44100") { (44_100, 1_152, 208) } else { (22_050, 576, 104) };
    let mut pieces: Vec<(i64, Vec<u8>)> = Vec::new();
    let mut rest = bytes;
    while rest.len() >= bytes_min {
        let length = (bytes_min + usize::from(rest[2] >> 1 & 1)).min(rest.len());
        let first_sample = pieces.len() as i64 * samples - 1_105;
        pieces.push((BASE_US + first_sample * 1_000_000 / rate, rest[..length].to_vec()));
        rest = &rest[length..];
    }
    Sample { format: CodecConfig::new(Codec::Mp3, Vec::new()), pieces }
}

/// Transcodes a sample with timestamps in whole milliseconds, as RTMP has them.
pub(crate) fn to_opus(sample: &Sample) -> Vec<CodedAudio> {
    let mut transcoder = ToOpus::new(OpusSettings { bits_per_second: 128_000 });
    let mut out = Vec::new();
    for (pts_us, data) in &sample.pieces {
        let rounded = (pts_us + 500) / 1_000 * 1_000;
        transcoder.push(Some(&sample.format), rounded, data, &mut out).unwrap();
    }
    out
}

/// Decodes Opus packets: the time of the first sample, and the first channel.
pub(crate) fn decode_opus(packets: &[CodedAudio]) -> (i64, Vec<f32>) {
    let mut decoder = opus::Decoder::new(48_000, opus::Channels::Stereo).unwrap();
    let mut block = vec![0.0; 2 * 5_760];
    let mut samples = Vec::new();
    for packet in packets {
        let length = decoder.decode_float(&packet.data, &mut block, false).unwrap();
        samples.extend(block[..2 * length].iter().step_by(2));
    }
    (packets[0].pts_us, samples)
}

/// Times of the loudest sample around each expected click, relative to where it should be, microseconds.
pub(crate) fn click_errors_us((begin_us, samples): (i64, Vec<f32>)) -> Vec<i64> {
    CLICKS_US
        .iter()
        .map(|click_us| {
            let from = ((click_us - 100_000 - begin_us) * 48 / 1_000).max(0) as usize;
            let to = (((click_us + 100_000 - begin_us) * 48 / 1_000).max(0) as usize).min(samples.len());
            let around = &samples[from..to];
            let loudest =
                (0..around.len()).max_by(|a, b| around[*a].abs().total_cmp(&around[*b].abs())).unwrap();
            assert!(around[loudest].abs() > 0.02, "no click: {}", around[loudest]);
            begin_us + (from + loudest) as i64 * 1_000 / 48 - click_us
        })
        .collect()
}
