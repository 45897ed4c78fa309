//! Senders that mean harm, or have a bad line.

use media::{Codec, Frame, FrameRole, Timestamp};
use mpegts::{DemuxSettings, Demuxer};
use proptest::prelude::*;

use crate::common::*;

fn ms(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn stream(pictures: i64) -> Vec<Frame> {
    let mut frames = vec![video_config(), aac_config()];
    for at in 0..pictures {
        let role = if at % 10 == 0 { FrameRole::Key } else { FrameRole::Inter };
        frames.push(video(role, ms(at * 40), ms(at * 40), 1_000));
        frames.push(audio(Codec::Aac, ms(at * 40), 200));
    }
    frames
}

fn pictures(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| matches!(frame.role, FrameRole::Key | FrameRole::Inter)).count()
}

#[test]
fn a_pes_packet_without_end_takes_no_more_than_its_limit() {
    let head = mux(&stream(1));
    let settings = DemuxSettings { pes_bytes_max: 1 << 20, ..DemuxSettings::default() };
    let mut demuxer = Demuxer::new(settings);
    demuxer.push(&head);
    // A picture begins, and nothing else comes than more of it: 100 MB.
    let mut counter = 15;
    let mut packet = [0xaa; 188];
    packet[..4].copy_from_slice(&[0x47, 0x41, 0x00, 0x10]);
    packet[4..18].copy_from_slice(&[0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1]);
    for at in 0..550_000u32 {
        counter = (counter + 1) & 0x0f;
        packet[3] = 0x10 | counter;
        if at == 1 {
            packet[1] = 0x01;
            packet[4..18].fill(0xaa);
        }
        demuxer.push(&packet);
        while demuxer.next_frame().is_some() {}
        assert!(demuxer.bytes_held() <= 3 << 20, "{}", demuxer.bytes_held());
    }
    assert_eq!(demuxer.counters().pes_too_long, 1);
    assert!(demuxer.bytes_held() <= 256 << 10);
}

#[test]
fn a_flood_of_pids_is_counted_and_nothing_else() {
    let mut demuxer = Demuxer::new(DemuxSettings::default());
    demuxer.push(&mux(&stream(1)));
    while demuxer.next_frame().is_some() {}
    let before = demuxer.bytes_held();
    let mut packet = [0; 188];
    for round in 0..20u32 {
        for pid in 0x200..0x1fffu16 {
            let [high, low] = pid.to_be_bytes();
            packet[..4].copy_from_slice(&[0x47, 0x40 | high, low, 0x10 | (round & 15) as u8]);
            if pid != 0x1000 {
                demuxer.push(&packet);
            }
        }
    }
    assert_eq!(demuxer.bytes_held(), before);
    assert_eq!(demuxer.counters().others, 20 * (0x1fff - 0x200 - 1));
}

#[test]
fn lost_and_doubled_packets_cost_the_frames_that_they_were_in() {
    let bytes = mux(&stream(40));
    let packets: Vec<_> = bytes.as_chunks::<188>().0.to_vec();
    let (whole, _) = demux(&bytes, 188, DemuxSettings::default());
    // In the middle of a picture.
    let is_middle = |packet: &[u8; 188]| packet[1..3] == [0x01, 0x00] && packet[3] & 0x30 == 0x10;
    let at = packets.iter().rposition(is_middle).expect("a packet");
    let kept = packets.iter().enumerate().filter(|(other, _)| *other != at);
    let lost: Vec<u8> = kept.flat_map(|(_, packet)| *packet).collect();
    let (frames, demuxer) = demux(&lost, 188, DemuxSettings::default());
    assert_eq!(demuxer.counters().discontinuities, 1);
    assert_eq!(frames.len() + 1, whole.len());
    let doubled: Vec<u8> = packets.iter().flat_map(|packet| [*packet, *packet].concat()).collect();
    let (frames, demuxer) = demux(&doubled, 188, DemuxSettings::default());
    assert_eq!((frames, demuxer.counters().discontinuities), (whole, 0));
}

#[test]
fn a_clock_that_jumps_loses_no_frame() {
    for jump_ms in [-3_000, 50_000, -90_000, 40_000_000] {
        let mut frames = stream(20);
        for frame in frames.iter_mut().skip(2).filter(|frame| frame.dts >= ms(400)) {
            (frame.dts, frame.pts) = (frame.dts + ms(100_000 + jump_ms), frame.pts + ms(100_000 + jump_ms));
        }
        for frame in frames.iter_mut().skip(2).filter(|frame| frame.dts < ms(400)) {
            (frame.dts, frame.pts) = (frame.dts + ms(100_000), frame.pts + ms(100_000));
        }
        let (got, _) = demux(&mux(&frames), 1316, DemuxSettings::default());
        assert_eq!(got.len(), frames.len(), "{jump_ms}");
    }
}

/// The stream of [`stream`], damaged in one of many ways.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let bytes = mux(&stream(12));
    let length = bytes.len();
    let edits = prop::collection::vec((0..length, any::<u8>(), 0..6usize), 0..30);
    edits.prop_map(move |edits| {
        let mut bytes = bytes.clone();
        for (at, value, kind) in edits {
            let at = at.min(bytes.len().saturating_sub(1));
            match kind {
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value & 7),
                2 => drop(bytes.drain(at..(at + usize::from(value)).min(bytes.len()))),
                3 => drop(bytes.splice(at..at, vec![value; usize::from(value)])),
                // The head of a packet, of which earlier edits may have left a part.
                4 => {
                    if let Some(byte) = bytes.get_mut(at / 188 * 188 + usize::from(value % 13)) {
                        *byte = value;
                    }
                }
                _ => {
                    let packet = at / 188 * 188;
                    let copy = bytes[packet..(packet + 188).min(bytes.len())].to_vec();
                    bytes.splice(packet..packet, copy);
                }
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_left_out_and_chunks_do_not_matter(bytes in damaged(), chunk in 1..700usize) {
        let settings = DemuxSettings { pes_bytes_max: 20_000, ..DemuxSettings::default() };
        let (whole, demuxer) = demux(&bytes, bytes.len().max(1), settings);
        prop_assert!(demuxer.bytes_held() < 1 << 20);
        let (chunked, _) = demux(&bytes, chunk, settings);
        prop_assert_eq!(whole, chunked);
    }

    #[test]
    fn what_follows_damage_is_read(bytes in damaged()) {
        // With an undamaged stream behind it, at least what follows the first tables and key frame is there.
        let whole = [bytes, mux(&stream(12)), mux(&stream(12))].concat();
        let (frames, _) = demux(&whole, 1316, DemuxSettings::default());
        prop_assert!(pictures(&frames) >= 12, "{}", pictures(&frames));
    }

    #[test]
    fn noise_is_no_stream(bytes in prop::collection::vec(any::<u8>(), 0..5_000)) {
        let (frames, _) = demux(&bytes, 77, DemuxSettings::default());
        prop_assert!(frames.is_empty());
    }

    #[test]
    fn frames_of_any_size_come_back(sizes in prop::collection::vec((1..70_000usize, 1..1_500usize), 1..20)) {
        let mut frames = vec![video_config(), aac_config()];
        for (at, (picture, sound)) in sizes.iter().enumerate() {
            let role = if at == 0 { FrameRole::Key } else { FrameRole::Inter };
            let time = ms(at as i64 * 40);
            frames.push(video(role, time, time + ms(80), *picture));
            frames.push(audio(Codec::Aac, time, *sound));
        }
        let bytes = mux(&frames);
        assert_counters_are_exact(&packets(&bytes));
        let (got, _) = demux(&bytes, 1316, DemuxSettings::default());
        for track in [media::TrackId::VIDEO, media::TrackId::AUDIO] {
            prop_assert_eq!(contents(&got, track), contents(&frames, track));
        }
    }
}

#[test]
fn a_pes_packet_of_audio_without_end_is_dropped_early() {
    let mut demuxer = Demuxer::new(DemuxSettings::default());
    demuxer.push(&mux(&stream(1)));
    while demuxer.next_frame().is_some() {}
    // The first track of audio of our multiplexer.
    let pid = 0x0104_u16;
    // Frames of Opus as small as they get would be two million in 8 MiB.
    let (mut counter, mut dropped) = (0, 0);
    for at in 0..50_000_u32 {
        let mut packet = [0xff; 188];
        let [high, low] = pid.to_be_bytes();
        packet[..4].copy_from_slice(&[0x47, high, low, 0x10 | counter]);
        if at == 0 {
            packet[1] |= 0x40;
            packet[4..18].copy_from_slice(&[0, 0, 1, 0xc0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1]);
        }
        counter = (counter + 1) & 0x0f;
        demuxer.push(&packet);
        dropped = dropped.max(demuxer.counters().pes_too_long);
        assert!(demuxer.bytes_held() <= 1 << 20, "{}", demuxer.bytes_held());
    }
    assert_eq!(dropped, 1);
}
