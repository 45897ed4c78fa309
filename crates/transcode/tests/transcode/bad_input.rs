//! Configurations and pieces that make no sense: an error each, never a panic, and what follows is heard.

use crate::common::{BASE_US, sample};
use media::{Codec, CodecConfig, CodedAudio};
use transcode::{OpusSettings, PIECE_BYTES_MAX, ToOpus, TranscodeError};

fn transcoder() -> ToOpus {
    ToOpus::new(OpusSettings { bits_per_second: 96_000 })
}

fn aac(config: &[u8]) -> CodecConfig {
    CodecConfig::new(Codec::Aac, config.to_vec())
}

#[test]
fn audio_before_its_configuration_is_refused() {
    let mut out = Vec::new();
    assert_eq!(transcoder().push(None, BASE_US, &[0; 100], &mut out), Err(TranscodeError::NoFormat));
}

#[test]
fn a_configuration_of_one_byte_is_refused_until_there_is_a_better_one() {
    let (mut transcoder, mut out) = (transcoder(), Vec::new());
    let audio = sample("aac-44100-busy.aac");
    let short = aac(&audio.format.record[..1]);
    for (pts_us, data) in &audio.pieces[..3] {
        let error = transcoder.push(Some(&short), *pts_us, data, &mut out).unwrap_err();
        assert!(error == TranscodeError::BadConfig && error.is_permanent());
        assert_eq!(transcoder.push(None, *pts_us, data, &mut out), Err(error));
    }
    for (pts_us, data) in &audio.pieces[3..12] {
        transcoder.push(Some(&audio.format), *pts_us, data, &mut out).unwrap();
    }
    assert!(out.len() >= 8);
}

#[test]
fn pieces_of_0_and_65535_bytes_are_refused_and_the_audio_goes_on_in_step() {
    let (mut transcoder, mut out) = (transcoder(), Vec::new());
    let audio = sample("aac-44100-busy.aac");
    for (index, (pts_us, data)) in audio.pieces[..40].iter().enumerate() {
        let (piece, expected) = match index {
            10 => (Vec::new(), Err(TranscodeError::Broken)),
            20 => (vec![0xff; 65_535], Err(TranscodeError::Oversized)),
            30 => (vec![0xff; PIECE_BYTES_MAX], Err(TranscodeError::Broken)),
            _ => (data.clone(), Ok(())),
        };
        assert_eq!(transcoder.push(Some(&audio.format), *pts_us, &piece, &mut out), expected, "{index}");
    }
    assert!(out.len() >= 40);
    assert!(out.windows(2).all(|pair| pair[1].pts_us - pair[0].pts_us == 20_000));
}

/// Every sampling rate by index and written out from 0 to far too much, every channel configuration.
#[test]
fn every_rate_and_every_number_of_channels_is_decoded_or_refused() {
    let audio = sample("aac-44100-busy.aac");
    let written_out = [0, 1, 6_999, 7_000, 7_350, 12_345, 44_101, 96_000, 96_001, 0xff_ffff];
    let by_index = (0..16_u64).map(|index| (2 << 11 | index << 7, 16));
    let rates = by_index.chain(written_out.map(|rate| (2 << 35 | 15 << 31 | rate << 7, 40)));
    for (bits, width) in rates {
        for channels in 0..16_u64 {
            let config = ((bits | channels << 3) << (64 - width)).to_be_bytes()[..width / 8].to_vec();
            let (mut transcoder, mut out, mut decoded) = (transcoder(), Vec::new(), 0);
            for (pts_us, data) in &audio.pieces[3..6] {
                decoded += usize::from(transcoder.push(Some(&aac(&config)), *pts_us, data, &mut out).is_ok());
            }
            // The frames are stereo, of a rate with the same bands as these; others may or may not make sense
            // of them.
            if channels == 2 && width == 16 && matches!(bits >> 7 & 15, 3 | 4) {
                assert_eq!(decoded, 3, "{config:02x?}");
            }
        }
    }
}

#[test]
fn times_that_jump_by_hours_and_back_are_followed() {
    let (mut transcoder, mut out) = (transcoder(), Vec::new());
    let audio = sample("aac-44100-busy.aac");
    let hour_us = 3_600_000_000;
    let jumps_us = [0, 5 * hour_us, 2 * hour_us, i64::MAX - 2 * BASE_US, i64::MIN + BASE_US, hour_us];
    for (part, jump_us) in jumps_us.into_iter().enumerate() {
        for (pts_us, data) in &audio.pieces[part * 8 + 2..part * 8 + 10] {
            transcoder.push(Some(&audio.format), pts_us + jump_us, data, &mut out).unwrap();
        }
    }
    let near = |at_us: i64| out.iter().filter(|packet| (packet.pts_us - at_us).abs() < 3_000_000).count();
    for jump_us in [0, 5 * hour_us, 2 * hour_us, hour_us] {
        assert!(near(BASE_US + jump_us) >= 6, "{jump_us}");
    }
    assert!(out.iter().all(|packet| packet.pts_us >= 0));
}

/// Bits of real frames flipped, frames cut and joined; the seed is in the message of a failure.
#[test]
fn damaged_frames_of_every_codec_do_not_stop_the_audio() {
    for name in ["aac-44100-busy.aac", "aac-16000-mono.aac", "mp3-44100-stereo.mp3", "mp3-22050-mono.mp3"] {
        let audio = sample(name);
        let piece_us = audio.pieces[4].0 - audio.pieces[3].0;
        let (mut transcoder, mut out) = (transcoder(), Vec::new());
        let mut random = 0x2545_f491_u32;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            random as usize % below.max(1)
        };
        for round in 0..150 {
            let (_, data) = &audio.pieces[3 + round % (audio.pieces.len() - 4)];
            let mut data = data.clone();
            match next(4) {
                0 => data.truncate(next(data.len())),
                1 => data.extend_from_within(..next(data.len())),
                _ => (0..1 + next(8)).for_each(|_| {
                    let at = next(data.len());
                    data[at] ^= 1 << next(8);
                }),
            }
            println!("{name}, round {round}");
            let _ = transcoder.push(Some(&audio.format), BASE_US + round as i64 * piece_us, &data, &mut out);
        }
        let before = out.len();
        let last_us = BASE_US + 150 * piece_us;
        for (index, (_, data)) in audio.pieces[3..24].iter().enumerate() {
            transcoder.push(Some(&audio.format), last_us + index as i64 * piece_us, data, &mut out).unwrap();
        }
        // Audio is due for all of it; where a damaged frame held more or fewer frames, a little less.
        let expected = 21 * piece_us as usize / 20_000;
        assert!(out.len() + 3 >= before + expected, "{name}: {} of {expected} packets", out.len() - before);
    }
}

#[test]
fn another_format_in_the_middle_goes_on_at_its_time() {
    let names =
        ["aac-44100-stereo.aac", "aac-16000-mono.aac", "mp3-44100-stereo.mp3", "aac-48000-stereo.aac"];
    let (mut transcoder, mut out): (_, Vec<CodedAudio>) = (transcoder(), Vec::new());
    for (part, name) in names.iter().enumerate() {
        let audio = sample(name);
        let from_us = part as i64 * 1_000_000;
        let within = |pts_us: i64| (BASE_US..BASE_US + 1_000_000).contains(&pts_us);
        for (pts_us, data) in audio.pieces.iter().filter(|(pts_us, _)| within(*pts_us)) {
            transcoder.push(Some(&audio.format), pts_us + from_us, data, &mut out).unwrap();
        }
    }
    let (first, last) = (out[0].pts_us, out[out.len() - 1].pts_us);
    assert!(
        (first - BASE_US).abs() < 80_000 && (last - BASE_US - 3_900_000).abs() < 100_000,
        "{first} {last}"
    );
    for pair in out.windows(2) {
        assert!((20_000..120_000).contains(&(pair[1].pts_us - pair[0].pts_us)), "{pair:?}");
    }
}
