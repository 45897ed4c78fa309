//! Programs: chosen by number, changed on the way, and what is in them besides tracks.

use media::{Codec, Frame, FrameRole, MediaKind, Timestamp, TrackId};
use mpegts::{DemuxSettings, Demuxer, Muxer, Unreadable};

use crate::common::*;

pub(crate) fn ms(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            if crc >> 31 == 1 { crc << 1 ^ 0x04c1_1db7 } else { crc << 1 }
        })
    })
}

/// A packet with a section.
pub(crate) fn table(pid: u16, counter: u8, table: u8, number: u16, content: &[u8]) -> Vec<u8> {
    let length = 9 + content.len();
    let mut section = vec![table, 0xb0 | (length >> 8) as u8, length as u8];
    section.extend_from_slice(&number.to_be_bytes());
    section.extend_from_slice(&[0xc1, 0, 0]);
    section.extend_from_slice(content);
    section.extend_from_slice(&crc32(&section).to_be_bytes());
    let [high, low] = pid.to_be_bytes();
    let mut packet = [&[0x47, 0x40 | high, low, 0x10 | counter, 0][..], &section].concat();
    packet.resize(188, 0xff);
    packet
}

pub(crate) fn pat(counter: u8, programs: &[(u16, u16)]) -> Vec<u8> {
    let content: Vec<u8> = programs
        .iter()
        .flat_map(|(number, pid)| [number.to_be_bytes(), (0xe000 | pid).to_be_bytes()].concat())
        .collect();
    table(0, counter, 0, 1, &content)
}

fn pmt(pid: u16, counter: u8, number: u16, rows: &[(u8, u16)]) -> Vec<u8> {
    let rows: Vec<_> = rows.iter().map(|(stream_type, pid)| (*stream_type, *pid, &[][..])).collect();
    pmt_with_descriptors(pid, counter, number, &rows)
}

pub(crate) fn pmt_with_descriptors(pid: u16, counter: u8, number: u16, rows: &[(u8, u16, &[u8])]) -> Vec<u8> {
    let mut content = vec![0xff, 0xff, 0xf0, 0];
    for (stream_type, pid, info) in rows {
        content.push(*stream_type);
        content.extend_from_slice(&(0xe000 | pid).to_be_bytes());
        content.extend_from_slice(&[0xf0, info.len() as u8]);
        content.extend_from_slice(info);
    }
    table(pid, counter, 2, number, &content)
}

/// What is written for these frames, without its tables, with the PIDs moved.
pub(crate) fn media(frames: &[Frame], move_pid: u16) -> Vec<u8> {
    let bytes = mux(frames);
    let packets = bytes.as_chunks::<188>().0.iter().copied();
    let moved = packets.filter_map(|mut packet| {
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        let moved = (0x100..0x110).contains(&pid).then_some(pid + move_pid)?;
        let [high, low] = moved.to_be_bytes();
        (packet[1], packet[2]) = (packet[1] & 0xe0 | high, low);
        Some(packet)
    });
    moved.flatten().collect()
}

pub(crate) fn pictures(from_ms: i64, count: i64, bytes: usize) -> Vec<Frame> {
    let mut frames = vec![video_config()];
    frames.extend((0..count).map(|at| {
        let role = if at == 0 { FrameRole::Key } else { FrameRole::Inter };
        video(role, ms(from_ms + at * 40), ms(from_ms + at * 40), bytes)
    }));
    frames
}

/// Bytes of each picture that was read.
pub(crate) fn sizes(frames: &[Frame]) -> Vec<usize> {
    let pictures = frames.iter().filter(|frame| matches!(frame.role, FrameRole::Key | FrameRole::Inter));
    pictures.map(|frame| frame.data().len() - 4).collect()
}

#[test]
fn a_codec_that_is_left_out_is_named_once() {
    let mut demuxer = Demuxer::new(DemuxSettings::default());
    let opus = b"\x05\x04Opus";
    let rows: [&[(u8, u16, &[u8])]; 3] = [
        &[(0x02, 0x100, b""), (0x0f, 0x101, b""), (0x06, 0x102, opus), (0x06, 0x103, b"\x59\x00")],
        &[(0x02, 0x110, b""), (0x0f, 0x101, b"")],
        &[(0x02, 0x100, b""), (0x06, 0x102, b"\x05\x04AV01"), (0x02, 0x104, b"")],
    ];
    let mut named = Vec::new();
    for (counter, rows) in (0..9).map(|at| (at, rows[usize::from(at) % 3])) {
        demuxer.push(&pat(counter, &[(1, 0x20)]));
        demuxer.push(&pmt_with_descriptors(0x20, counter, 1, rows));
        named.extend(std::iter::from_fn(|| demuxer.take_left_out()));
    }
    assert_eq!(named, ["MPEG-2 video", "AV1"]);
}

fn two_programs() -> Vec<u8> {
    [
        pat(0, &[(1, 0x20), (7, 0x21)]),
        pmt(0x20, 0, 1, &[(0x1b, 0x100)]),
        pmt(0x21, 0, 7, &[(0x1b, 0x300)]),
        media(&pictures(0, 3, 11), 0),
        media(&pictures(0, 3, 77), 0x200),
    ]
    .concat()
}

#[test]
fn a_program_is_chosen_by_its_number() {
    for (program, expected) in [(None, 11), (Some(1), 11), (Some(7), 77)] {
        let settings = DemuxSettings { program, ..DemuxSettings::default() };
        let (frames, demuxer) = demux(&two_programs(), 1316, settings);
        assert_eq!(sizes(&frames), [expected; 3], "{program:?}");
        assert_eq!(demuxer.program(), Some(program.unwrap_or(1)));
        assert!(demuxer.counters().others > 0);
    }
    let settings = DemuxSettings { program: Some(9), ..DemuxSettings::default() };
    let (frames, demuxer) = demux(&two_programs(), 1316, settings);
    assert!(frames.is_empty() && demuxer.program().is_none());
}

#[test]
fn without_a_number_the_first_program_with_a_track_is_taken() {
    let bytes = [
        pat(0, &[(1, 0x20), (7, 0x21)]),
        // Teletext alone.
        pmt(0x20, 0, 1, &[(0x06, 0x100)]),
        pmt(0x21, 0, 7, &[(0x1b, 0x300)]),
        media(&pictures(0, 3, 77), 0x200),
    ]
    .concat();
    let (frames, demuxer) = demux(&bytes, 1316, DemuxSettings::default());
    assert_eq!((sizes(&frames), demuxer.program()), (vec![77; 3], Some(7)));
}

#[test]
fn a_track_that_moves_to_another_pid_goes_on() {
    let bytes = [
        pat(0, &[(1, 0x20)]),
        pmt(0x20, 0, 1, &[(0x1b, 0x100)]),
        media(&pictures(0, 3, 11), 0),
        pmt(0x20, 1, 1, &[(0x1b, 0x300)]),
        media(&pictures(120, 3, 12), 0x200),
        // The table itself moves, too.
        pat(1, &[(1, 0x40)]),
        pmt(0x40, 0, 1, &[(0x1b, 0x500)]),
        media(&pictures(240, 3, 13), 0x400),
    ]
    .concat();
    let (frames, demuxer) = demux(&bytes, 188, DemuxSettings::default());
    assert_eq!(sizes(&frames), [11, 11, 11, 12, 12, 12, 13, 13, 13]);
    assert!(frames.iter().all(|frame| frame.track == TrackId::VIDEO && frame.role != FrameRole::End));
    let configs = frames.iter().filter(|frame| frame.role == FrameRole::Config).count();
    assert_eq!((configs, demuxer.counters().table_changes), (1, 3), "the configuration is the same");
    let times: Vec<i64> = frames
        .iter()
        .filter(|frame| frame.role != FrameRole::Config)
        .map(|frame| frame.dts.millis())
        .collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 40), "{times:?}");
}

#[test]
fn another_codec_is_a_new_configuration_and_a_track_that_is_gone_ends() {
    let second = |at: i64, codec, bytes| audio(codec, ms(at * 24), bytes);
    let (mut muxer, mut bytes) = (Muxer::default(), Vec::new());
    let mut write = |frame: &Frame| muxer.write(&mut bytes, frame, frame.dts, false).expect("it is carried");
    pictures(0, 2, 11).iter().for_each(&mut write);
    write(&aac_config());
    (0..5).for_each(|at| write(&second(at, Codec::Aac, 100)));
    write(&config(TrackId::AUDIO, Codec::Opus, b"OpusHead\x01\x02\0\0\x80\xbb\0\0\0\0\0".to_vec()));
    // 20 ms of CELT.
    (5..10).for_each(|at| {
        let mut frame = second(at, Codec::Opus, 100);
        let mut data = frame.data().to_vec();
        data[0] = 0xfc;
        frame = Frame::new(frame.track, frame.role, frame.codec, (frame.dts, frame.pts), data);
        write(&frame);
    });
    write(&Frame::new(TrackId::AUDIO, FrameRole::End, Codec::Opus, (ms(240), ms(240)), Vec::new()));
    pictures(240, 2, 12).iter().for_each(&mut write);
    let (frames, demuxer) = demux(&bytes, 1316, DemuxSettings::default());
    let audio: Vec<(FrameRole, Codec)> = frames
        .iter()
        .filter(|frame| frame.track.kind == MediaKind::Audio)
        .map(|frame| (frame.role, frame.codec))
        .collect();
    let mut expected = vec![(FrameRole::Config, Codec::Aac)];
    expected.extend([(FrameRole::Audio, Codec::Aac); 5]);
    expected.push((FrameRole::Config, Codec::Opus));
    expected.extend([(FrameRole::Audio, Codec::Opus); 5]);
    expected.push((FrameRole::End, Codec::Opus));
    assert_eq!(audio, expected);
    assert_eq!(sizes(&frames), [11, 11, 12, 12]);
    assert_counters_are_exact(&packets(&bytes));
    assert_eq!(demuxer.counters().discontinuities, 0);
}

#[test]
fn tables_with_wrong_crcs_change_nothing() {
    let mut wrong = pmt(0x20, 1, 1, &[(0x1b, 0x300)]);
    wrong[20] ^= 1;
    let bytes =
        [pat(0, &[(1, 0x20)]), pmt(0x20, 0, 1, &[(0x1b, 0x100)]), wrong, media(&pictures(0, 3, 11), 0)]
            .concat();
    let (frames, demuxer) = demux(&bytes, 1316, DemuxSettings::default());
    assert_eq!((sizes(&frames), demuxer.counters().sections_invalid), (vec![11; 3], 1));
}

#[test]
fn packets_of_192_and_204_bytes_are_read_as_those_of_188() {
    let bytes = two_programs();
    let (expected, plain) = demux(&bytes, 1316, DemuxSettings::default());
    for (ahead, behind) in [(4, 0), (0, 16)] {
        let packets = bytes.as_chunks::<188>().0.iter().enumerate();
        let longer = packets.flat_map(|(at, packet)| {
            let between = [at as u8; 16];
            [&between[..ahead], packet, &between[..behind]].concat()
        });
        let longer: Vec<u8> = longer.collect();
        for chunk in [1, 188, 192, 1316, 1344, 1428, 100_000] {
            let (frames, demuxer) = demux(&longer, chunk, DemuxSettings::default());
            assert!(frames == expected && demuxer.counters() == plain.counters(), "{ahead} {behind} {chunk}");
        }
    }
}

#[test]
fn what_has_no_place_is_said_and_left_out() {
    let mut muxer = Muxer::default();
    let mut out = Vec::new();
    let time = (ms(0), ms(0));
    for (codec, reason) in [
        (Codec::Av1, "MPEG-TS cannot carry AV1"),
        (Codec::Vp9, "MPEG-TS cannot carry VP9"),
        (Codec::H264, "MPEG-TS cannot carry the codec in this configuration, or it has none"),
    ] {
        let frame = Frame::new(TrackId::VIDEO, FrameRole::Key, codec, time, vec![0; 10]);
        let error = muxer.write(&mut out, &frame, ms(0), true).expect_err("not carried");
        assert_eq!((error.reason(), out.len()), (reason, 0));
    }
}

#[test]
fn why_no_frame_comes_is_known() {
    let (begin, picture) = (pat(0, &[(1, 0x20)]), media(&pictures(0, 3, 11), 0));
    let video = pmt(0x20, 0, 1, &[(0x1b, 0x100)]);
    let mut scrambled = picture.clone();
    scrambled.chunks_mut(188).for_each(|packet| packet[3] |= 0x80);
    // Its parameter sets are filler.
    let mut broken = picture.clone();
    for at in 3..broken.len() {
        if broken[at - 3..at] == [0, 0, 1] && matches!(broken[at], 0x67 | 0x68) {
            broken[at] = 0x0c;
        }
    }
    let cases = [
        (vec![0; 5_000], None, Unreadable::NotTransportStream),
        (picture.clone(), None, Unreadable::NoPat),
        ([&begin[..], &picture].concat(), None, Unreadable::NoPmt),
        ([&begin[..], &video, &picture].concat(), Some(7), Unreadable::NoProgram),
        (pat(0, &[]).repeat(4), None, Unreadable::NoProgram),
        // MPEG-2 video and DVB subtitles.
        (
            [&begin[..], &pmt(0x20, 0, 1, &[(0x02, 0x100), (0x06, 0x101)]), &picture].concat(),
            None,
            Unreadable::NoTrack,
        ),
        // Of two programs neither has a track.
        (
            [&pat(0, &[(1, 0x20), (7, 0x21)]), &pmt(0x20, 0, 1, &[]), &pmt(0x21, 0, 7, &[]), &picture[..]]
                .concat(),
            None,
            Unreadable::NoTrack,
        ),
        ([&begin[..], &video, &scrambled].concat(), None, Unreadable::Scrambled),
        // Without parameter sets.
        ([&begin[..], &video, &broken].concat(), None, Unreadable::NoFrame),
    ];
    for (bytes, program, expected) in cases {
        let settings = DemuxSettings { program, ..DemuxSettings::default() };
        let (frames, demuxer) = demux(&bytes, 1316, settings);
        assert_eq!((sizes(&frames), demuxer.unreadable()), (Vec::new(), Some(expected)));
    }
}

#[test]
fn what_has_been_read_is_no_reason_and_what_comes_after_it_may_be_one() {
    let mut demuxer = Demuxer::new(DemuxSettings::default());
    assert_eq!(demuxer.unreadable(), None, "nothing has come");
    let begin = [pat(0, &[(1, 0x20)]), pmt(0x20, 0, 1, &[(0x1b, 0x100)]), media(&pictures(0, 3, 11), 0)];
    demuxer.push(&begin.concat());
    demuxer.finish();
    assert_eq!(std::iter::from_fn(|| demuxer.next_frame()).count(), 4);
    assert_eq!(demuxer.unreadable(), None);
    // The encoder goes on with a codec that is not carried.
    demuxer.push(&[pmt(0x20, 1, 1, &[(0x02, 0x100)]), media(&pictures(120, 3, 11), 0)].concat());
    while demuxer.next_frame().is_some() {}
    assert_eq!(demuxer.unreadable(), Some(Unreadable::NoTrack));
    demuxer.push(&[0; 5_000]);
    assert_eq!(demuxer.unreadable(), Some(Unreadable::NoTrack), "since the last frame");
}
