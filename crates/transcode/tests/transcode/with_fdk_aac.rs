//! Times through libfdk-aac: a click that goes in at a time comes out at the same.

use crate::common::{BASE_US, Sample, click_errors_us, decode_opus, sample, to_opus};
use fdk_aac::enc;
use media::{Codec, CodecConfig, CodedAudio};
use transcode::{AacSettings, ToAac};

fn assert_in_time(what: &str, sample: &Sample) {
    let errors = click_errors_us(decode_opus(&to_opus(sample)));
    println!("{what}: {errors:?} us");
    assert!(errors.iter().all(|error| error.abs() <= 2_000), "{what}: {errors:?} us");
}

fn to_aac(opus: &[CodedAudio]) -> Sample {
    let mut transcoder = ToAac::new(AacSettings { bits_per_second: 128_000 }).unwrap();
    let mut out = Vec::new();
    for packet in opus {
        transcoder.push(packet.pts_us, &packet.data, &mut out).unwrap();
    }
    let format = CodecConfig::new(Codec::Aac, transcoder.config().to_vec());
    Sample { format, pieces: out.into_iter().map(|frame| (frame.pts_us, frame.data)).collect() }
}

#[test]
fn clicks_stay_where_they_are_through_opus_to_aac() {
    let aac = to_aac(&to_opus(&sample("aac-48000-stereo.aac")));
    assert_eq!(aac.format.record, [0x11, 0x90]);
    assert_in_time("Opus to AAC", &aac);
}

#[test]
fn frames_of_aac_follow_one_another_without_a_gap_across_lost_packets() {
    let mut opus = to_opus(&sample("aac-48000-stereo.aac"));
    opus.drain(12..15);
    let aac = to_aac(&opus);
    for pair in aac.pieces.windows(2) {
        assert!((21_333..=21_334).contains(&(pair[1].0 - pair[0].0)), "{} us", pair[1].0 - pair[0].0);
    }
    assert_in_time("after a loss", &aac);
}

#[test]
fn six_channels_are_mixed_down() {
    assert_in_time("5.1", &sample("aac-48000-51.aac"));
}

#[test]
fn high_efficiency_aac_is_decoded_at_its_full_rate() {
    let (config, frames, delay) = high_efficiency();
    let pieces = frames
        .into_iter()
        .enumerate()
        .map(|(index, data)| (BASE_US + (index as i64 * 2_048 - delay) * 1_000_000 / 48_000, data));
    let sample = Sample { format: CodecConfig::new(Codec::Aac, config), pieces: pieces.collect() };
    assert_in_time("HE-AAC", &sample);
}

/// The clicks as HE-AAC at 48 kHz: configuration, access units, delay in samples.
fn high_efficiency() -> (Vec<u8>, Vec<Vec<u8>>, i64) {
    let encoder = enc::Encoder::new(enc::EncoderParams {
        bit_rate: enc::BitRate::Cbr(48_000),
        sample_rate: 48_000,
        transport: enc::Transport::Raw,
        channels: enc::ChannelMode::Stereo,
        audio_object_type: enc::AudioObjectType::Mpeg4HeAac,
    })
    .unwrap();
    let info = encoder.info().unwrap();
    assert_eq!(info.frameLength, 2_048);
    let mut samples = vec![0_i16; 2 * 72_000];
    for click in [24_000, 48_000] {
        // A band-limited click: a half-wave of a millisecond.
        for offset in 0..48 {
            let value = (f64::from(offset) / 48.0 * std::f64::consts::PI).sin() * 25_000.0;
            let at = 2 * (click - 24 + offset as usize);
            samples[at..at + 2].fill(value as i16);
        }
    }
    let mut frames = Vec::new();
    for block in samples.chunks_exact(2 * 2_048) {
        let mut frame = vec![0; 4_096];
        let encoded = encoder.encode(block, &mut frame).unwrap();
        if encoded.output_size > 0 {
            frames.push(frame[..encoded.output_size].to_vec());
        }
    }
    (info.confBuf[..info.confSize as usize].to_vec(), frames, i64::from(info.nDelay))
}
