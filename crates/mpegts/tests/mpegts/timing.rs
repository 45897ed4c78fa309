//! Times: of PCRs, tables and frames as they are written, and of frames as they are read.

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use mpegts::{DemuxSettings, MUX_DELAY, Muxer};

use crate::common::*;

fn ms(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Pictures every so many milliseconds with B-frames, and audio of 48 kHz.
fn stream(picture_ms: i64, end_ms: i64) -> Vec<Frame> {
    let mut frames = vec![video_config(), aac_config()];
    for at in 0..end_ms / picture_ms {
        let role = if at % 25 == 0 { FrameRole::Key } else { FrameRole::Inter };
        let later = [2, 4, 1, 1][at as usize % 4];
        let bytes = if role == FrameRole::Key { 90_000 } else { 700 };
        frames.push(video(role, ms(at * picture_ms), ms((at + later) * picture_ms), bytes));
    }
    for at in 0..end_ms * 48 / 1024 {
        frames.push(audio(Codec::Aac, Timestamp::from_ticks(at * 1024, 48_000), 180));
    }
    frames.sort_by_key(|frame| (frame.role != FrameRole::Config, frame.dts));
    frames
}

/// PTS and DTS of each PES packet of a PID, in ticks, read apart from the crate.
fn pes_times(packets: &[Packet], pid: u16) -> Vec<(u64, u64)> {
    let ticks = |field: &[u8]| {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|at| u64::from(field[at]));
        (a >> 1 & 7) << 30 | b << 22 | c >> 1 << 15 | d << 7 | e >> 1
    };
    let begins = packets.iter().filter(|packet| packet.pid == pid && packet.starts);
    begins
        .map(|packet| {
            let header = &packet.payload;
            let pts = ticks(&header[9..14]);
            (pts, if header[7] >> 6 == 3 { ticks(&header[14..19]) } else { pts })
        })
        .collect()
}

/// Largest distance of PCRs, and of each table, in ticks of 90 kHz.
fn distances(packets: &[Packet]) -> (u64, u64) {
    let (mut pcr, mut last_pcr) = (0, None);
    let mut tables = [(0, None); 2];
    for packet in packets {
        if let Some(now) = packet.pcr.map(|pcr| pcr / 300) {
            pcr = pcr.max(now - last_pcr.unwrap_or(now));
            last_pcr = Some(now);
        }
        let table = match packet.pid {
            0 => &mut tables[0],
            0x1000 => &mut tables[1],
            _ => continue,
        };
        let now = last_pcr.unwrap_or(0);
        *table = (table.0.max(now - table.1.unwrap_or(now)), Some(now));
    }
    (pcr, tables[0].0.max(tables[1].0))
}

#[test]
fn pcrs_and_tables_are_as_close_as_the_standard_asks() {
    for picture_ms in [16, 20, 40, 67, 100, 500, 1_000] {
        let packets = packets(&mux(&stream(picture_ms, 6_000)));
        assert_counters_are_exact(&packets);
        let (pcr, tables) = distances(&packets);
        assert!(pcr <= 40 * 90 && tables <= 100 * 90, "{picture_ms} ms: PCR {pcr}, tables {tables}");
    }
    // Audio alone has the PCR itself.
    let mut frames = stream(40, 6_000);
    frames.retain(|frame| frame.track == TrackId::AUDIO);
    let packets = packets(&mux(&frames));
    assert_counters_are_exact(&packets);
    let (pcr, tables) = distances(&packets);
    assert!(pcr <= 40 * 90 && tables <= 100 * 90 && pcr > 0, "audio: PCR {pcr}, tables {tables}");
}

#[test]
fn every_picture_arrives_the_same_time_before_it_is_decoded() {
    let frames = stream(40, 4_000);
    let packets = packets(&mux(&frames));
    let begins = packets.iter().filter(|packet| packet.pid == 0x100 && packet.starts);
    let pcrs: Vec<u64> = begins.map(|packet| packet.pcr.expect("each picture has one") / 300).collect();
    let times = pes_times(&packets, 0x100);
    let pictures = frames.iter().filter(|frame| matches!(frame.role, FrameRole::Key | FrameRole::Inter));
    assert_eq!(times.len(), 100);
    for ((&(pts, dts), pcr), picture) in times.iter().zip(pcrs).zip(pictures) {
        assert_eq!(dts - pcr, MUX_DELAY.ticks(90_000) as u64);
        assert_eq!(pts - dts, (picture.pts - picture.dts).ticks(90_000) as u64, "as the publisher has it");
    }
}

#[test]
fn a_pause_is_filled_or_announced() {
    for (pause_ms, is_announced) in [(1_500, false), (60_000, true)] {
        let frames = [
            video_config(),
            video(FrameRole::Key, ms(0), ms(0), 100),
            video(FrameRole::Inter, ms(pause_ms), ms(pause_ms), 100),
        ];
        let packets = packets(&mux(&frames));
        assert_eq!(packets.iter().any(|packet| packet.pcr.is_some() && packet.discontinuity), is_announced);
        assert!(packets.len() < 100, "{} packets", packets.len());
        assert_counters_are_exact(&packets);
    }
}

#[test]
fn who_begins_late_or_again_misses_no_counter() {
    let (mut muxer, mut all) = (Muxer::default(), Vec::new());
    let (mut entry, mut left_at) = (0, 0);
    for frame in stream(40, 3_500) {
        if frame.is_key() {
            entry = all.len();
        }
        if frame.dts < ms(500) {
            left_at = all.len();
        }
        muxer.write(&mut all, &frame, frame.dts, frame.is_key()).expect("it is carried");
    }
    let mut late = Vec::new();
    muxer.write_start(&mut late, false);
    late.extend_from_slice(&all[entry..]);
    let late = packets(&late);
    assert_counters_are_exact(&late);
    assert_eq!([late[0].pid, late[1].pid], [0, 0x1000]);
    // A slow one that was moved from somewhere ahead.
    let mut again = all[..left_at].to_vec();
    muxer.write_start(&mut again, true);
    again.extend_from_slice(&all[entry..]);
    assert_counters_are_exact(&packets(&again));
    let (frames, demuxer) = demux(&again, 1316, DemuxSettings::default());
    assert_eq!((demuxer.counters().discontinuities, demuxer.counters().pes_invalid), (0, 0));
    assert!(frames.iter().filter(|frame| frame.is_key()).count() >= 2);
}

#[test]
fn times_go_on_where_33_bits_wrap() {
    // 26.5 hours, less a second.
    let begin = Timestamp::from_ticks((1 << 33) - 90_000, 90_000) - MUX_DELAY;
    let mut frames = stream(40, 3_000);
    for frame in &mut frames {
        (frame.dts, frame.pts) = (frame.dts + begin, frame.pts + begin);
    }
    let bytes = mux(&frames);
    assert_counters_are_exact(&packets(&bytes));
    let (read, _) = demux(&bytes, 1316, DemuxSettings::default());
    let pictures = |frames: &[Frame]| {
        let pictures = frames.iter().filter(|frame| matches!(frame.role, FrameRole::Key | FrameRole::Inter));
        pictures.map(|frame| (frame.dts, frame.pts)).collect::<Vec<_>>()
    };
    let (want, got) = (pictures(&frames), pictures(&read));
    assert_eq!(want.len(), got.len());
    for ((dts, pts), (want_dts, want_pts)) in got.iter().zip(&want) {
        assert_eq!((*dts - got[0].0, *pts - got[0].0), (*want_dts - want[0].0, *want_pts - want[0].0));
    }
}

#[test]
fn a_day_of_times_has_no_step() {
    let mut demuxer = mpegts::Demuxer::new(DemuxSettings::default());
    let (mut muxer, mut last) = (Muxer::default(), None);
    let mut pictures = 0;
    for second in (0..27 * 3_600).step_by(5) {
        let mut out = Vec::new();
        let config = video_config();
        muxer.write(&mut out, &config, ms(0), false).expect("it is carried");
        let picture = video(FrameRole::Key, ms(second * 1_000), ms(second * 1_000), 60);
        muxer.write(&mut out, &picture, picture.dts, true).expect("it is carried");
        demuxer.push(&out);
        while let Some(frame) = demuxer.next_frame() {
            if frame.is_key() {
                assert!(last.is_none_or(|last| frame.dts - last == ms(5_000)), "second {second}");
                last = Some(frame.dts);
                pictures += 1;
            }
        }
    }
    assert_eq!(pictures, 27 * 720);
    assert_eq!(demuxer.counters().discontinuities, 0);
}

#[test]
fn audio_behind_the_video_moves_no_pcr_back() {
    let mut frames = stream(40, 2_000);
    frames.sort_by_key(|frame| {
        (
            frame.role != FrameRole::Config,
            frame.dts
                + match frame.role {
                    FrameRole::Audio => ms(600),
                    _ => ms(0),
                },
        )
    });
    let packets = packets(&mux(&frames));
    let pcrs: Vec<u64> = packets.iter().filter_map(|packet| packet.pcr).collect();
    assert!(pcrs.is_sorted() && distances(&packets).0 <= 40 * 90);
}
