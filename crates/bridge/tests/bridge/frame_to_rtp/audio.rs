//! Audio: Opus and G.711 pass as they are, AAC and MP3 by way of the transcoder.

use media::CodedAudio;
use rtp::payload::Codec;

use crate::frame_to_rtp::Rig;

/// Opus, CELT, 20 ms.
const OPUS: &[u8] = &[0xfc, 1, 2, 3];

fn enhanced(kind: u8, fourcc: &[u8; 4], data: &[u8]) -> Vec<u8> {
    [&[0x90 | kind], &fourcc[..], data].concat()
}

#[test]
fn opus_passes_with_timestamps_that_follow_its_samples() {
    let mut rig = Rig::new();
    rig.audio(0, &enhanced(0, b"Opus", b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0"));
    assert_eq!(rig.bridge.formats().audio, Some(Codec::Opus));
    let mut first = None;
    for index in 0..100u32 {
        // Times that jitter by the rounding of a publisher whose clock ticks in units of 4 ms.
        let time_ms = u64::from(1_000 + 20 * index) & !3;
        let sent = rig.audio(time_ms, &enhanced(1, b"Opus", OPUS));
        assert_eq!((sent.len(), &sent[0].data[..]), (1, OPUS));
        assert_eq!(sent[0].marker, index == 0, "the marker where audio begins");
        let first = *first.get_or_insert(sent[0].timestamp);
        assert_eq!(sent[0].timestamp.wrapping_sub(first), 960 * index);
    }
    let resumed = rig.audio(10_000, &enhanced(1, b"Opus", OPUS));
    let off = resumed[0].timestamp.wrapping_sub(first.unwrap()).cast_signed() - 9 * 48_000;
    assert!(off.abs() <= 48 * 4, "a gap stays one: {off}");
    assert_eq!(rig.broken(), 0);
}

#[test]
fn opus_without_a_header_is_taken_and_of_many_channels_is_not() {
    let mut rig = Rig::new();
    assert_eq!(rig.audio(0, &enhanced(1, b"Opus", OPUS)).len(), 1);
    let mut rig = Rig::new();
    rig.audio(
        0,
        &enhanced(0, b"Opus", b"OpusHead\x01\x06\x38\x01\x80\xbb\0\0\0\0\x01\x04\x02\0\x04\x01\x02\x03\x05"),
    );
    assert_eq!(rig.audio(0, &enhanced(1, b"Opus", OPUS)), []);
    let formats = rig.bridge.formats();
    assert_eq!(formats.audio, None);
    assert_eq!(
        formats.refused.map(|refused| refused.to_string()).as_deref(),
        Some("audio: WebRTC has no Opus of more than two channels")
    );
    assert_eq!(rig.broken(), 0);
}

#[test]
fn g711_is_cut_into_packets_of_20_ms_whatever_the_tags_hold() {
    for (body, codec) in [(0x82u8, Codec::Pcmu), (0x72, Codec::Pcma)] {
        let mut rig = Rig::new();
        let mut samples = 0u32;
        let mut first = None;
        for (index, len) in [160usize, 1_024, 100, 400, 1].into_iter().enumerate() {
            let data: Vec<u8> = (0..len).map(|at| (at + index) as u8).collect();
            let time_ms = 500 + u64::from(samples) / 8;
            let sent = rig.audio(time_ms, &[&[body], &data[..]].concat());
            assert_eq!(sent.len(), len.div_ceil(160));
            assert_eq!(sent.iter().flat_map(|piece| piece.data.clone()).collect::<Vec<_>>(), data);
            for piece in sent {
                let first = *first.get_or_insert(piece.timestamp);
                assert_eq!(piece.timestamp.wrapping_sub(first), samples);
                samples += piece.data.len() as u32;
            }
        }
        assert_eq!(rig.bridge.formats().audio, Some(codec));
    }
}

#[test]
fn of_stereo_g711_the_mean_is_sent() {
    let mut rig = Rig::new();
    // Loudest and its opposite, silence, and the same on both sides.
    let sent = rig.audio(0, &[0x83, 0x80, 0x00, 0xff, 0xff, 0x8f, 0x8f, 0x80]);
    assert_eq!((sent.len(), &sent[0].data[..]), (1, &[0xff, 0xff, 0x8f][..]));
    assert_eq!(rig.bridge.formats().audio, Some(Codec::Pcmu));
    let next = rig.audio(1, &[0x83, 0x8f, 0x8f]);
    assert_eq!(next[0].timestamp - sent[0].timestamp, 3, "three samples later");
    assert_eq!(rig.audio(2, &[0x83, 0x8f]), [], "half a pair");
    assert_eq!(rig.broken(), 1);
}

#[test]
fn mp3_is_handed_out_and_what_comes_back_is_sent() {
    let mut rig = Rig::new();
    for (index, body) in
        [&[0x2fu8, 0xff, 0xfb, 0x90, 0x64][..], &[0x2f, 0xff, 0xfb, 0x90, 0x65]].into_iter().enumerate()
    {
        assert_eq!(rig.audio(26 * index as u64, body), []);
    }
    assert_eq!(rig.bridge.formats().audio, Some(Codec::Opus));
    assert_eq!(rig.audio_jobs.len(), 2);
    assert_eq!(rig.audio_jobs[0].format.as_ref().unwrap().codec, Codec::Mp3);
    assert_eq!((rig.audio_jobs[1].pts_us, rig.audio_jobs[1].format.is_none()), (26_000, true));
    let mut timestamps = Vec::new();
    for index in 0..50 {
        let audio = CodedAudio { pts_us: 1_000 + 20_000 * index, format: None, data: OPUS.to_vec() };
        timestamps.extend(rig.transcoded(60, &audio).into_iter().map(|sent| sent.timestamp));
    }
    assert_eq!(timestamps.len(), 50);
    assert!(timestamps.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == 960));
    assert_eq!(timestamps[0], 48);
    let nonsense = CodedAudio { pts_us: 0, format: None, data: Vec::new() };
    assert_eq!(rig.transcoded(60, &nonsense), []);
    assert_eq!(rig.broken(), 1);
}

#[test]
fn a_changed_aac_header_reaches_the_transcoder_with_the_next_piece() {
    let mut rig = Rig::new();
    for (index, config) in [[0x12, 0x10], [0x12, 0x10], [0x11, 0x90]].iter().enumerate() {
        let time_ms = 100 * index as u64;
        rig.audio(time_ms, &[&[0xaf, 0], &config[..]].concat());
        rig.audio(time_ms, &[0xaf, 1, 0x21, 0x10]);
        rig.audio(time_ms + 23, &[0xaf, 1, 0x21, 0x11]);
    }
    let formats: Vec<_> =
        rig.audio_jobs.iter().map(|job| job.format.as_ref().map(|format| format.record.clone())).collect();
    assert_eq!(formats, [Some(vec![0x12, 0x10]), None, None, None, Some(vec![0x11, 0x90]), None]);
}

#[test]
fn audio_that_cannot_be_transcoded_is_refused_until_it_changes() {
    let mut rig = Rig::new();
    rig.audio(0, &[0xaf, 0, 0x12, 0x10]);
    assert!(rig.take_formats_change());
    rig.bridge.refuse_audio("no transcoder is free", &mut rig.out);
    assert!(rig.take_formats_change());
    assert_eq!(
        rig.bridge.formats().refused.map(|refused| refused.to_string()).as_deref(),
        Some("audio: no transcoder is free")
    );
    rig.audio(23, &[0xaf, 1, 0x21, 0x10]);
    let late = CodedAudio { pts_us: 0, format: None, data: OPUS.to_vec() };
    assert_eq!(rig.transcoded(23, &late), []);
    assert_eq!((rig.audio_jobs.len(), rig.bridge.formats().audio), (0, None));
    rig.audio(46, &[0xaf, 0, 0x11, 0x90]);
    assert_eq!(rig.bridge.formats().audio, Some(Codec::Opus));
    rig.audio(46, &[0xaf, 1, 0x21, 0x10]);
    assert_eq!(rig.audio_jobs.len(), 1);
    assert_eq!(rig.broken(), 0);
}
