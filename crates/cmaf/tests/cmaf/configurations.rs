//! Init segments of every codec, read back by the crates `mp4-atom` and `mp4`.

use media::{Codec, FrameRole, Timestamp, TrackId};
use mp4_atom::{Decode, Moov};

use cmaf::Settings;

use crate::boxes::read_init;
use crate::stream::{Stream, frame};

/// Publishes two seconds of a codec; gives the `codecs` parameter and the init segment.
fn init_of(codec: Codec, track: TrackId, config: &[u8], data: &[u8], step: Timestamp) -> (String, Vec<u8>) {
    let mut stream = Stream::new(Settings::default());
    let role = if track == TrackId::AUDIO { FrameRole::Audio } else { FrameRole::Key };
    let zero = (Timestamp::ZERO, Timestamp::ZERO);
    if !config.is_empty() {
        stream.push(frame(track, FrameRole::Config, codec, zero, config));
    }
    for index in 0..2_000_000_000 / step.to_duration().as_nanos() as i64 {
        let time = Timestamp::from_units(step.units() * index);
        stream.push(frame(track, role, codec, (time, time), data));
    }
    stream.finish();
    let (init, _) = &stream.track(track).inits[0];
    (init.format.codecs.clone(), init.bytes.to_vec())
}

fn moov(bytes: &[u8]) -> Moov {
    let ftyp = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
    Moov::decode(&mut &bytes[ftyp..]).unwrap()
}

fn entry(bytes: &[u8]) -> mp4_atom::Codec {
    moov(bytes).trak[0].mdia.minf.stbl.stsd.codecs[0].clone()
}

fn samples(count: i64, rate: u32) -> Timestamp {
    Timestamp::from_ticks(count, rate)
}

#[test]
fn aac_has_its_configuration_byte_for_byte() {
    let config = b"\x11\x90\x08\x00";
    let (codecs, init) = init_of(Codec::Aac, TrackId::AUDIO, config, b"\x21\x10", samples(1024, 48_000));
    assert_eq!(codecs, "mp4a.40.2");
    let mp4_atom::Codec::Mp4a(mp4a) = entry(&init) else { panic!("mp4a") };
    let config_of = mp4a.esds.es_desc.dec_config;
    assert_eq!(
        (config_of.object_type_indication, config_of.dec_specific.unwrap().raw),
        (0x40, config.to_vec())
    );
    assert_eq!((mp4a.audio.channel_count, mp4a.audio.sample_rate.integer()), (2, 48_000));
}

#[test]
fn opus_numbers_change_their_byte_order() {
    let head = b"OpusHead\x01\x02\x38\x01\x80\xbb\x00\x00\x00\x01\x00";
    let (codecs, init) = init_of(Codec::Opus, TrackId::AUDIO, head, b"\xf8\xff", samples(960, 48_000));
    assert_eq!(codecs, "opus");
    let mp4_atom::Codec::Opus(opus) = entry(&init) else { panic!("Opus") };
    assert_eq!((opus.dops.output_channel_count, opus.dops.pre_skip), (2, 312));
    assert_eq!((opus.dops.input_sample_rate, opus.dops.output_gain), (48_000, 256));
}

#[test]
fn mp3_ac3_and_e_ac3_are_described_by_their_frames() {
    let mp3 = b"\xff\xfb\x90\x64\x00\x00";
    let (codecs, init) = init_of(Codec::Mp3, TrackId::AUDIO, b"", mp3, samples(1152, 44_100));
    assert_eq!(codecs, "mp4a.6B");
    let mp4_atom::Codec::Mp4a(mp4a) = entry(&init) else { panic!("mp4a") };
    assert_eq!(mp4a.esds.es_desc.dec_config.object_type_indication, 0x6b);
    // 48 kHz, 384 kbit/s, 3/2 with LFE.
    let ac3 = b"\x0b\x77\x00\x00\x1c\x40\xe1\x00\x00";
    let (codecs, init) = init_of(Codec::Ac3, TrackId::AUDIO, b"", ac3, samples(1536, 48_000));
    assert_eq!(codecs, "ac-3");
    let mp4_atom::Codec::Ac3(ac3) = entry(&init) else { panic!("ac-3") };
    assert_eq!((ac3.dac3.fscod, ac3.dac3.bsid, ac3.dac3.acmod, ac3.dac3.bit_rate_code), (0, 8, 7, 14));
    // Independent substream of 768 bytes, 48 kHz, six blocks, 2/0.
    let eac3 = b"\x0b\x77\x01\x7f\x34\x80\x00";
    let (codecs, init) = init_of(Codec::Eac3, TrackId::AUDIO, b"", eac3, samples(1536, 48_000));
    assert_eq!(codecs, "ec-3");
    let mp4_atom::Codec::Eac3(eac3) = entry(&init) else { panic!("ec-3") };
    let first = &eac3.dec3.substreams[0];
    assert_eq!((eac3.dec3.data_rate, first.fscod, first.bsid, first.acmod), (192, 0, 16, 2));
}

#[test]
fn flac_has_its_stream_information() {
    let mut record = b"fLaC\x80\x00\x00\x22\x10\x00\x10\x00\x00\x00\x00\x00\x00\x00\x0b\xb8\x02\xf0".to_vec();
    record.resize(4 + 38, 0);
    let data = b"\xff\xf8\xc9\x18\x00\x00";
    // With the marker, without it, and without the head of the block.
    for record in [&record[..], &record[4..], &record[8..]] {
        let (codecs, init) = init_of(Codec::Flac, TrackId::AUDIO, record, data, samples(4096, 48_000));
        assert_eq!(codecs, "fLaC");
        let mp4_atom::Codec::Flac(flac) = entry(&init) else { panic!("fLaC") };
        assert_eq!(flac.dfla.blocks.len(), 1);
        let entry = read_init(&init).entry_body;
        assert!(entry.ends_with(&record[record.len() - 34..]), "STREAMINFO as it came");
    }
}

#[test]
fn records_of_video_go_in_as_they_came() {
    let av1 = b"\x81\x01\x0c\x00\x0a\x0b\x00\x00\x00\x0c\xc5\x03\x69\x36\xbe\x40\x10";
    let vp9 = b"\x00\x15\x82\x02\x02\x02\x00\x00";
    for (codec, record, kind, codecs) in [
        (Codec::Av1, &av1[..], b"av01", "av01.0.01M.08"),
        (Codec::Vp9, vp9, b"vp09", "vp09.00.21.08"),
        (Codec::H264, crate::stream::AVCC, b"avc1", "avc1.42c00a"),
    ] {
        let step = Timestamp::from_millis(40);
        let (named, init) = init_of(codec, TrackId::VIDEO, record, b"\0\0\0\x01\x65", step);
        assert_eq!(named, codecs);
        let read = read_init(&init);
        assert_eq!((read.entry, read.timescale), (*kind, 90_000));
        assert!(read.entry_body.windows(record.len()).any(|window| window == record), "{codec}");
    }
}

#[test]
fn configurations_that_cannot_be_read_are_refused() {
    for (codec, config) in [
        (Codec::H264, &b"\x01"[..]),
        (Codec::H265, b"\x01\x01"),
        (Codec::Av1, b"\x00"),
        (Codec::Aac, b""),
        (Codec::Opus, b"Opus"),
        (Codec::Flac, b"fLaC"),
    ] {
        let mut stream = Stream::new(Settings::default());
        let track = if codec.kind() == media::MediaKind::Video { TrackId::VIDEO } else { TrackId::AUDIO };
        let zero = (Timestamp::ZERO, Timestamp::ZERO);
        stream.push(frame(track, FrameRole::Config, codec, zero, config));
        assert_eq!(
            stream.segmenter.refusals().next(),
            Some((track, cmaf::Refusal::Configuration(codec))),
            "{codec}"
        );
        stream.push(frame(track, FrameRole::Key, codec, zero, b"data"));
        stream.finish();
        assert_eq!(stream.segmenter.counters().frames_refused, 1);
    }
}
