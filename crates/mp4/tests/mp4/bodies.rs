//! Bodies made of samples say what the samples say, in the notation of FLV.

use crate::muxer::{Layout, full, pictures, sound_entry, video, visual, write};
use mp4::{BodyWriter, Sample, Track, TrackKind};
use mp4::{Limits, Mp4, Mp4Error};
use rtmp::flv::{Codec, audio_format, video_body, video_format};
use std::io::Cursor;

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

/// A track of a file with this sample entry.
fn track(entry: Vec<u8>) -> Track {
    let mut track = video(pictures(1, 1, 10));
    if !matches!(&entry[4..8], b"avc1" | b"avc3" | b"hvc1" | b"hev1" | b"av01" | b"vp09") {
        track.handler = *b"soun";
    }
    track.descriptions = vec![entry];
    let (bytes, _) = write(&[track], &Layout::default());
    Mp4::open(Cursor::new(bytes), Limits::default()).unwrap().tracks()[0].clone()
}

fn sample(data: &[u8], is_key: bool) -> Sample {
    Sample {
        track_id: 1,
        kind: TrackKind::Video,
        dts_ns: 0,
        pts_ns: 0,
        duration_ns: 0,
        is_key,
        is_hidden: false,
        description: 0,
        offset: 0,
        data: data.to_vec(),
    }
}

/// NAL units with sizes of four bytes.
fn units(units: &[&[u8]]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&(unit.len() as u32).to_be_bytes()[..], unit].concat()).collect()
}

#[test]
fn a_configuration_comes_once_and_again_when_asked_for() {
    let mut writer = BodyWriter::new(&track(visual(b"avc1", b"avcC", &record(4, true))));
    let key = sample(&units(&[b"\x65abc"]), true);
    let config = writer.config(&key).unwrap().unwrap();
    assert_eq!(config, [b"\x17\0\0\0\0", &record(4, true)[..]].concat());
    let format = video_format(Codec::H264, &config).unwrap();
    assert_eq!((format.width, format.height), (1280, 718));
    assert_eq!(writer.config(&key).unwrap(), None);
    writer.resend();
    assert_eq!(writer.config(&key).unwrap(), Some(config));
    let body = writer.frame(&key, 40).unwrap();
    assert_eq!(body, [b"\x17\x01\0\0\x28", &key.data[..]].concat());
    assert_eq!(writer.frame(&sample(&key.data, false), -1).unwrap()[..5], *b"\x27\x01\xff\xff\xff");
}

#[test]
fn sizes_of_nal_units_get_four_bytes() {
    for (length_size, data) in [(1, &b"\x04\x65abc\x01\x09"[..]), (2, b"\0\x04\x65abc\0\x01\x09")] {
        let mut writer = BodyWriter::new(&track(visual(b"avc1", b"avcC", &record(length_size, true))));
        let key = sample(data, true);
        assert_eq!(writer.config(&key).unwrap().unwrap()[5..], record(4, true));
        let body = writer.frame(&key, 0).unwrap();
        assert_eq!(body[5..], units(&[b"\x65abc", b"\x09"]));
        for len in 1..data.len() {
            // Cut anywhere but between units it is an error, and no panic.
            let cut = writer.frame(&sample(&data[..len], true), 0);
            assert_eq!(cut.is_ok(), len == data.len() - 1 - usize::from(length_size), "{len}");
        }
    }
    let broken = BodyWriter::new(&track(visual(b"avc1", b"avcC", &record(3, true))));
    assert!(matches!(broken.frame(&sample(b"", true), 0), Err(Mp4Error::Malformed { .. })));
}

#[test]
fn parameter_sets_in_the_samples_become_a_configuration() {
    let mut writer = BodyWriter::new(&track(visual(b"avc3", b"avcC", &record(4, false))));
    let picture = sample(&units(&[b"\x41abc"]), false);
    assert_eq!(writer.config(&picture).unwrap(), None, "nothing is known yet");
    let key = sample(&units(&[SPS, PPS, b"\x65abc"]), true);
    let config = writer.config(&key).unwrap().unwrap();
    assert_eq!(config[5..], record(4, true));
    assert_eq!(writer.config(&picture).unwrap(), None, "it still holds");
    assert_eq!(writer.config(&key).unwrap(), None, "the same again");
    // Another PPS of the same id takes its place.
    let other = sample(&units(&[SPS, b"\x68\xce\x3c\x80", b"\x65abc"]), true);
    let changed = writer.config(&other).unwrap().unwrap();
    assert!(changed.ends_with(b"\x01\0\x04\x68\xce\x3c\x80"));
    assert_eq!(writer.config(&key).unwrap(), Some(config), "and back");
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
    let mut writer = BodyWriter::new(&track(visual(b"hev1", b"hvcC", &hvcc)));
    let key = sample(&units(&[vps, sps, pps, b"\x26\x01abc"]), true);
    let config = writer.config(&key).unwrap().unwrap();
    let format = video_format(Codec::H265, &config).unwrap();
    assert_eq!((format.width, format.height), (1920, 1080));
    assert_eq!(video_body(&writer.frame(&key, 7).unwrap()).unwrap().composition_ms, 7);
}

#[test]
fn an_av1_record_without_a_sequence_header_is_completed() {
    // SVT-AV1, 640x360.
    let header: &[u8] = b"\x0a\x0b\x00\x00\x00\x0c\xc4\xff\x67\x00\xbe\x00\x10";
    let mut writer = BodyWriter::new(&track(visual(b"av01", b"av1C", b"\x81\x01\x0c\x00")));
    let key = sample(&[header, b"\x32\x01\x10"].concat(), true);
    let config = writer.config(&key).unwrap().unwrap();
    let format = video_format(Codec::Av1, &config).unwrap();
    assert_eq!((format.width, format.height), (640, 360));
    let full = [b"\x81\x01\x0c\x00", header].concat();
    let mut writer = BodyWriter::new(&track(visual(b"av01", b"av1C", &full)));
    assert_eq!(writer.config(&key).unwrap().unwrap(), [b"\x90av01", &full[..]].concat());
}

#[test]
fn sound_carries_its_configuration() {
    let mut writer = BodyWriter::new(&track(crate::muxer::sound()));
    let frame = Sample { kind: TrackKind::Audio, ..sample(b"aac", true) };
    assert_eq!(writer.config(&frame).unwrap().unwrap(), b"\xaf\x00\x11\x90");
    assert_eq!(writer.frame(&frame, 0).unwrap(), b"\xaf\x01aac");
    // Two channels, 312 samples to skip, 48 kHz, no gain, family 0.
    let dops = crate::muxer::boxed(b"dOps", b"\0\x02\x01\x38\0\0\xbb\x80\0\0\0");
    let mut writer = BodyWriter::new(&track(sound_entry(b"Opus", &dops)));
    let config = writer.config(&frame).unwrap().unwrap();
    assert_eq!(config, b"\x90OpusOpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0");
    assert_eq!(audio_format(Codec::Opus, &config).unwrap().channels, 2);
    assert_eq!(writer.frame(&frame, 0).unwrap(), b"\x91Opusaac");
}

#[test]
fn sound_of_quicktime_is_found_in_its_wave_box() {
    let esds = crate::muxer::sound()[8 + 28..].to_vec();
    let wave =
        crate::muxer::boxed(b"wave", &[crate::muxer::boxed(b"frma", b"mp4a"), esds, vec![0; 4]].concat());
    let mut entry = sound_entry(b"mp4a", &[&[0; 16][..], &wave].concat());
    entry[8 + 9] = 1;
    let mut writer = BodyWriter::new(&track(entry));
    let frame = Sample { kind: TrackKind::Audio, ..sample(b"aac", true) };
    assert_eq!(writer.config(&frame).unwrap().unwrap(), b"\xaf\x00\x11\x90");
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
    mp3.descriptions = vec![sound_entry(b"mp4a", &full(b"esds", 0, 0, esds))];
    let (bytes, _) = write(&[video(pictures(3, 1, 10)), mp3], &Layout::default());
    let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
    assert_eq!(file.tracks()[1].codec, Codec::Mp3);
    assert!(file.audio().is_none());
    assert!(matches!(file.select(Some(1), Some(2)), Err(Mp4Error::NoTrack(2))));
    assert!(matches!(file.select(Some(2), None), Err(Mp4Error::NoTrack(2))), "sound is no picture");
}
