//! Configurations are given out where they change, and access units in one notation, however the
//! file has them.

use crate::muxer::{Layout, Unit, audio_sample_entry, full, pictures, video, visual, write};
use media::config::{audio_format, video_format};
use media::{Codec, FrameRole, TrackId};
use mp4::{Limits, Mp4, Mp4Error, Sample};
use std::io::Cursor;
use std::time::Duration;

/// SPS of 1280x718 and PPS of libx264; the record ffmpeg 5.1 made of them.
const SPS: &[u8] =
    b"\x67\x42\xc0\x1f\xda\x01\x40\x16\xfe\xb0\x11\x00\x00\x03\x00\x01\x00\x00\x03\x00\x3c\x0f\x18\x32\xa0";
const PPS: &[u8] = b"\x68\xce\x0f\xc8";

fn record(length_size: u8, with_sets: bool) -> Vec<u8> {
    let mut record = vec![1, 0x42, 0xc0, 0x1f, 0xfc | (length_size - 1)];
    if with_sets {
        record.push(0xe1);
        record.extend([0, SPS.len() as u8]);
        record.extend(SPS);
        record.push(1);
        record.extend([0, PPS.len() as u8]);
        record.extend(PPS);
    } else {
        record.extend([0xe0, 0]);
    }
    record
}

/// A file with one track of this sample entry, whose samples (each with whether it is a key frame)
/// are these.
fn file(entry: Vec<u8>, samples: &[(&[u8], bool)]) -> Mp4<Cursor<Vec<u8>>> {
    let unit = |(data, is_key): &(&[u8], bool)| Unit {
        size: data.len() as u32,
        duration: 512,
        composition: 0,
        is_key: *is_key,
    };
    let mut track = video(samples.iter().map(unit).collect());
    if !matches!(&entry[4..8], b"avc1" | b"avc3" | b"hvc1" | b"hev1" | b"av01" | b"vp09") {
        track.handler = *b"soun";
    }
    track.descriptions = vec![entry];
    let (mut bytes, expected) = write(&[track], &Layout::default());
    for (place, (data, _)) in expected[0].iter().zip(samples) {
        bytes[place.offset as usize..][..data.len()].copy_from_slice(data);
    }
    Mp4::open(Cursor::new(bytes), Limits::default()).unwrap()
}

fn next(file: &mut Mp4<Cursor<Vec<u8>>>) -> Sample {
    file.next_sample().unwrap().unwrap()
}

/// The configuration that comes with each sample.
fn configs(entry: Vec<u8>, samples: &[(&[u8], bool)]) -> Vec<Option<Vec<u8>>> {
    let mut file = file(entry, samples);
    let config = |sample: Sample| {
        let config = sample.config?;
        assert_eq!(
            (config.role, config.codec, config.dts),
            (FrameRole::Config, sample.frame.codec, sample.frame.dts)
        );
        Some(config.data().to_vec())
    };
    samples.iter().map(|_| config(next(&mut file))).collect()
}

/// NAL units with sizes of four bytes.
fn units(units: &[&[u8]]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&(unit.len() as u32).to_be_bytes()[..], unit].concat()).collect()
}

#[test]
fn a_configuration_comes_once_and_again_after_a_seek() {
    let data = units(&[b"\x65abc"]);
    let mut file =
        file(visual(b"avc1", b"avcC", &record(4, true)), &[(&data, true), (&data, true), (&data, false)]);
    let first = next(&mut file);
    assert_eq!(first.config.as_ref().unwrap().data(), record(4, true));
    let format = video_format(Codec::H264, first.config.as_ref().unwrap().data()).unwrap();
    assert_eq!((format.width, format.height), (1280, 718));
    assert_eq!((first.frame.data(), first.frame.role), (&data[..], FrameRole::Key));
    assert_eq!(next(&mut file).config, None);
    file.seek_to(Duration::ZERO).unwrap();
    assert_eq!(next(&mut file), first);
    assert_eq!(next(&mut file).config, None);
    let last = next(&mut file);
    assert_eq!((last.frame.data(), last.frame.role, last.config), (&data[..], FrameRole::Inter, None));
}

#[test]
fn lengths_of_nal_units_get_four_bytes() {
    for (length_size, data) in [(1, &b"\x04\x65abc\x01\x09"[..]), (2, b"\0\x04\x65abc\0\x01\x09")] {
        let entry = visual(b"avc1", b"avcC", &record(length_size, true));
        let sample = next(&mut file(entry.clone(), &[(data, true)]));
        assert_eq!(sample.config.unwrap().data(), record(4, true));
        assert_eq!(sample.frame.data(), units(&[b"\x65abc", b"\x09"]));
        for len in 1..data.len() {
            // Cut anywhere but between units it is an error, and no panic.
            let cut = file(entry.clone(), &[(&data[..len], true)]).next_sample();
            assert_eq!(cut.is_ok(), len == data.len() - 1 - usize::from(length_size), "{len}");
        }
    }
    let broken = file(visual(b"avc1", b"avcC", &record(3, true)), &[(b"\0", true)]).next_sample();
    assert!(matches!(broken, Err(Mp4Error::Malformed { .. })));
}

#[test]
fn parameter_sets_in_the_samples_become_a_configuration() {
    let picture = units(&[b"\x41abc"]);
    let key = units(&[SPS, PPS, b"\x65abc"]);
    // Another PPS of the same id takes its place.
    let other = units(&[SPS, b"\x68\xce\x3c\x80", b"\x65abc"]);
    let entry = visual(b"avc3", b"avcC", &record(4, false));
    let configs = configs(
        entry,
        &[(&picture, false), (&key, true), (&picture, false), (&key, true), (&other, true), (&key, true)],
    );
    assert_eq!(configs[0], None, "nothing is known yet");
    assert_eq!(configs[1], Some(record(4, true)));
    assert_eq!(configs[2], None, "it still holds");
    assert_eq!(configs[3], None, "the same again");
    assert!(configs[4].as_ref().unwrap().ends_with(b"\x01\0\x04\x68\xce\x3c\x80"));
    assert_eq!(configs[5], configs[1], "and back");
}

#[test]
fn parameter_sets_of_h265_in_the_samples_become_a_configuration() {
    // libx265, Main 10, 1080p.
    let vps: &[u8] =
        b"\x40\x01\x0c\x01\xff\xff\x02\x20\x00\x00\x03\x00\x90\x00\x00\x03\x00\x00\x03\x00\x78\x95\x94\x09";
    let sps: &[u8] = b"\x42\x01\x01\x02\x20\x00\x00\x03\x00\x90\x00\x00\x03\x00\x00\x03\x00\x78\xa0\x03\xc0\x80\x11\x07\xca\xd9\x65\x65\
        \x4a\x4c\x2f\x01\x68\x08\x00\x00\x03\x00\x08\x00\x00\x03\x00\xf0\x40\x22\x00";
    let pps: &[u8] = b"\x44\x01\xc0\x73\xc1\x89\x27";
    let mut hvcc = vec![0; 23];
    (hvcc[0], hvcc[21]) = (1, 0x0f);
    let key = units(&[vps, sps, pps, b"\x26\x01abc"]);
    let config = configs(visual(b"hev1", b"hvcC", &hvcc), &[(&key, true)]).remove(0).unwrap();
    let format = video_format(Codec::H265, &config).unwrap();
    assert_eq!((format.width, format.height), (1920, 1080));
}

#[test]
fn an_av1_record_without_a_sequence_header_is_completed() {
    // SVT-AV1, 640x360.
    let header: &[u8] = b"\x0a\x0b\x00\x00\x00\x0c\xc4\xff\x67\x00\xbe\x00\x10";
    let key = [header, b"\x32\x01\x10"].concat();
    let config = configs(visual(b"av01", b"av1C", b"\x81\x01\x0c\x00"), &[(&key, true)]).remove(0).unwrap();
    let format = video_format(Codec::Av1, &config).unwrap();
    assert_eq!((format.width, format.height), (640, 360));
    let full = [b"\x81\x01\x0c\x00", header].concat();
    let samples = [(&key[..], true), (&key, true)];
    assert_eq!(configs(visual(b"av01", b"av1C", &full), &samples), [Some(full), None]);
}

#[test]
fn audio_has_its_configuration() {
    let samples = [(&b"aac"[..], true), (b"aac", true)];
    assert_eq!(configs(crate::muxer::audio_entry(), &samples), [Some(b"\x11\x90".to_vec()), None]);
    // Two channels, 312 samples to skip, 48 kHz, no gain, family 0.
    let dops = crate::muxer::boxed(b"dOps", b"\0\x02\x01\x38\0\0\xbb\x80\0\0\0");
    let mut opus = file(audio_sample_entry(b"Opus", &dops), &samples);
    let sample = next(&mut opus);
    let config = sample.config.unwrap();
    assert_eq!(config.data(), b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0");
    assert_eq!(audio_format(Codec::Opus, config.data()).unwrap().channels, 2);
    assert_eq!((sample.frame.data(), sample.frame.role), (&b"aac"[..], FrameRole::Audio));
}

#[test]
fn audio_of_quicktime_is_found_in_its_wave_box() {
    let esds = crate::muxer::audio_entry()[8 + 28..].to_vec();
    let wave =
        crate::muxer::boxed(b"wave", &[crate::muxer::boxed(b"frma", b"mp4a"), esds, vec![0; 4]].concat());
    let mut entry = audio_sample_entry(b"mp4a", &[&[0; 16][..], &wave].concat());
    entry[8 + 9] = 1;
    assert_eq!(configs(entry, &[(b"aac", true)]), [Some(b"\x11\x90".to_vec())]);
}

#[test]
fn tracks_of_a_kind_are_counted() {
    let [mut second, third] =
        [3, 4].map(|id| crate::muxer::Track { id, ..crate::muxer::audio(crate::muxer::frames(3, 10)) });
    second.descriptions = vec![audio_sample_entry(b"alac", b"")];
    let (bytes, _) = write(&[third, video(pictures(3, 1, 10)), second], &Layout::default());
    let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
    let tracks: Vec<_> = file.tracks().iter().map(|track| (track.id, track.track)).collect();
    let second = TrackId { index: 1, ..TrackId::AUDIO };
    assert_eq!(tracks, [(4, TrackId::AUDIO), (1, TrackId::VIDEO), (3, second)]);
    file.select(None, Some(4)).unwrap();
    assert_eq!(next(&mut file).frame.track, TrackId::AUDIO);
}

#[test]
fn what_cannot_be_played_is_listed_and_not_chosen() {
    let mut encrypted = video(pictures(3, 1, 10));
    encrypted.descriptions = vec![visual(b"encv", b"avcC", b"")];
    let mut subtitles = video(pictures(3, 1, 10));
    (subtitles.id, subtitles.handler) = (7, *b"text");
    subtitles.descriptions = vec![crate::muxer::boxed(b"tx3g", b"")];
    let (bytes, _) = write(&[encrypted, subtitles], &Layout::default());
    let error = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "no track can be played, it has encv");

    let mut mp3 = crate::muxer::audio(crate::muxer::frames(3, 10));
    let esds =
        b"\x03\x15\x00\x00\x00\x04\x0d\x6b\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x06\x01\x02";
    mp3.descriptions = vec![audio_sample_entry(b"mp4a", &full(b"esds", 0, 0, esds))];
    let (bytes, _) = write(&[video(pictures(3, 1, 10)), mp3], &Layout::default());
    let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
    assert_eq!(file.tracks()[1].codec, Codec::Mp3);
    assert!(file.audio().is_none());
    assert!(matches!(file.select(Some(1), Some(2)), Err(Mp4Error::NoTrack(2))));
    assert!(matches!(file.select(Some(2), None), Err(Mp4Error::NoTrack(2))), "audio is no picture");
}
