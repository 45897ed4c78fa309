//! Cues of SCTE 35 and private sections: from a publisher's stream into those that are written.

use media::{Frame, FrameRole, MediaKind, Timestamp, TrackId};
use mpegts::{CUE, DemuxSettings, MUX_DELAY, Muxer, PRIVATE_SECTION};

use crate::common::*;
use crate::program::{crc32, media, ms, pat, pictures, pmt_with_descriptors, sizes};

const CUES: u16 = 0x150;
const PRIVATE: u16 = 0x151;
/// How a broadcaster marks the PID of its cues (ANSI/SCTE 35 section 8.2): all commands.
const CUE_IDENTIFIER: &[u8] = &[0x8a, 1, 1];

/// A splice at this PTS ("time_signal", ANSI/SCTE 35 section 9.7.4) with an adjustment.
fn cue(pts: u64, adjustment: u64) -> Vec<u8> {
    let mut cue = vec![0xfc, 0x30, 22, 0, (adjustment >> 32) as u8];
    cue.extend_from_slice(&(adjustment as u32).to_be_bytes());
    cue.extend_from_slice(&[0, 0xff, 0xf0, 5, 6, 0xfe | (pts >> 32) as u8]);
    cue.extend_from_slice(&(pts as u32).to_be_bytes());
    cue.extend_from_slice(&[0, 0]);
    cue.extend_from_slice(&crc32(&cue).to_be_bytes());
    cue
}

/// When a cue is to be spliced.
fn splice_pts(cue: &[u8]) -> u64 {
    assert_eq!((cue[0], crc32(cue)), (0xfc, 0), "{cue:x?}");
    let field = |at: usize| cue[at..at + 5].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    (field(4) + field(14)) & ((1 << 33) - 1)
}

/// Packets with the sections one behind the other, the rest stuffed.
fn packets_of(pid: u16, counter: u8, sections: &[u8]) -> Vec<u8> {
    let payload = [&[0], sections].concat();
    let mut out = Vec::new();
    for (at, part) in payload.chunks(184).enumerate() {
        let [high, low] = pid.to_be_bytes();
        let starts = if at == 0 { 0x40 } else { 0 };
        out.extend_from_slice(&[0x47, starts | high, low, 0x10 | (counter + at as u8) & 0x0f]);
        out.extend_from_slice(part);
        out.resize(out.len().next_multiple_of(188), 0xff);
    }
    out
}

/// A stream with pictures from a time on, and these packets in the middle of them.
fn stream(from_ms: i64, middle: &[u8]) -> Vec<u8> {
    let rows = [(0x1b, 0x100, &[][..]), (0x86, CUES, CUE_IDENTIFIER), (0x05, PRIVATE, &[0x52, 1, 9])];
    let pictures = media(&pictures(from_ms, 6, 11), 0);
    let (first, second) = pictures.split_at(3 * 188);
    [&pat(0, &[(1, 0x20)]), &pmt_with_descriptors(0x20, 0, 1, &rows), first, middle, second].concat()
}

/// Frames of data, and what they are.
fn passed(frames: &[Frame]) -> Vec<&Frame> {
    frames.iter().filter(|frame| frame.track.kind == MediaKind::Data).collect()
}

/// What is written for frames whose stream time is so much later than theirs.
fn remux(frames: &[Frame], later: Timestamp) -> Vec<u8> {
    let (mut muxer, mut out) = (Muxer::default(), Vec::new());
    for frame in frames {
        muxer.write(&mut out, frame, frame.dts + later, frame.is_key()).expect("it is carried");
    }
    out
}

/// The sections of a PID.
fn sections(packets: &[Packet], pid: u16) -> Vec<Vec<u8>> {
    let mut sections: Vec<Vec<u8>> = Vec::new();
    for packet in packets.iter().filter(|packet| packet.pid == pid) {
        match packet.starts {
            true => sections.push(packet.payload[1..].to_vec()),
            false => sections.last_mut().expect("a start").extend_from_slice(&packet.payload),
        }
    }
    sections
}

#[test]
fn cues_keep_their_distance_to_the_pictures_whatever_clock_the_stream_has() {
    for (from_ms, later) in [
        (40, ms(0)),
        (40, ms(7_200_123)),
        (7_200_000, ms(-7_199_000)),
        // Both clocks wrap.
        (95_443_700, ms(5_000)),
        (1_000, Timestamp::from_ticks((1 << 33) - 90_100, 90_000)),
    ] {
        // To be spliced at the last picture, said in two ways.
        let last = ((from_ms as u64 + 5 * 40) * 90) & ((1 << 33) - 1);
        let input = [packets_of(CUES, 0, &cue(last, 0)), packets_of(CUES, 1, &cue(last - 7, 7))].concat();
        // Cues of the writer that made the pictures begin 200 ms later, too.
        let delay = MUX_DELAY.ticks(90_000) as u64;
        let (frames, demuxer) = demux(&stream(from_ms, &input), 1316, DemuxSettings::default());
        assert_eq!((sizes(&frames).len(), demuxer.counters().scte35), (6, 2));
        let pts_read = frames.iter().rfind(|frame| frame.track == TrackId::VIDEO).expect("one").pts;
        let written = remux(&frames, later);
        let packets = packets(&written);
        assert_counters_are_exact(&packets);
        let cues = sections(&packets, 0x108);
        assert_eq!(cues.len(), 2, "{from_ms}");
        // What a receiver sees: the PTS of the last picture, less what that picture was late in the input.
        let (again, _) = demux(&written, 1316, DemuxSettings::default());
        let pts_written = again.iter().rfind(|frame| frame.track == TrackId::VIDEO).expect("one").pts;
        let moved = (pts_written - pts_read).ticks(90_000).rem_euclid(1 << 33).cast_unsigned();
        assert_eq!(
            moved,
            (later.ticks(90_000).rem_euclid(1 << 33).cast_unsigned() + delay) & ((1 << 33) - 1)
        );
        for cue in cues {
            assert_eq!(splice_pts(&cue), (last + moved) & ((1 << 33) - 1), "{from_ms} {later:?}");
        }
    }
}

#[test]
fn the_table_names_cues_and_private_sections_with_their_descriptors() {
    let private: Vec<u8> = [&[0x74, 0x31, 0x2b][..], &[0xaa; 299]].concat();
    let input = [packets_of(CUES, 0, &cue(1, 0)), packets_of(PRIVATE, 0, &private)].concat();
    let (frames, demuxer) = demux(&stream(40, &input), 1316, DemuxSettings::default());
    let kinds: Vec<_> = passed(&frames).iter().map(|frame| (frame.codec, frame.track.index)).collect();
    assert_eq!(kinds, [(CUE, 0), (PRIVATE_SECTION, 1)]);
    assert_eq!(demuxer.counters().private_sections, 1);
    let packets = packets(&remux(&frames, ms(0)));
    let private_back = &sections(&packets, 0x109)[0];
    assert_eq!(private_back[..302], private, "as it came");
    let table = sections(&packets, 0x1000).pop().expect("a table");
    let length = usize::from(u16::from_be_bytes([table[1] & 0x0f, table[2]]));
    assert_eq!(crc32(&table[..3 + length]), 0);
    let expected = [
        &[0xe1, 0x00, 0xf0, 6][..],
        b"\x05\x04CUEI",
        &[0x1b, 0xe1, 0x00, 0xf0, 0],
        &[0x86, 0xe1, 0x08, 0xf0, 3],
        CUE_IDENTIFIER,
        &[0x05, 0xe1, 0x09, 0xf0, 3, 0x52, 1, 9],
    ]
    .concat();
    assert_eq!(table[8..3 + length - 4], expected);
    // Those who begin with the next entry point get that table first.
    let (mut muxer, mut start) = (Muxer::default(), Vec::new());
    for frame in frames.iter().chain(&pictures(400, 2, 11)) {
        muxer.write(&mut Vec::new(), frame, frame.dts, frame.is_key()).expect("it is carried");
    }
    muxer.write_start(&mut start, true);
    let start = crate::common::packets(&start);
    assert!(start.iter().any(|packet| packet.pid == 0x108 && packet.discontinuity));
    assert_eq!(sections(&start, 0x1000)[0][8..3 + length - 4], expected);
    // The next publisher has none.
    muxer.restart();
    let mut out = Vec::new();
    for frame in pictures(0, 2, 11) {
        muxer.write(&mut out, &frame, ms(1_000) + frame.dts, frame.is_key()).expect("it is carried");
    }
    let table = sections(&crate::common::packets(&out), 0x1000).pop().expect("a table");
    assert_eq!(table[8..17], [0xe1, 0x00, 0xf0, 0, 0x1b, 0xe1, 0x00, 0xf0, 0]);
}

#[test]
fn sections_that_say_nothing_or_take_too_much_are_counted() {
    let settings = DemuxSettings::default;
    // Ahead of the first picture, no clock is known.
    let early = [&pat(0, &[(1, 0x20)])[..], &stream(40, &[])[188..376], &packets_of(CUES, 0, &cue(1, 0))];
    let (frames, demuxer) = demux(&early.concat(), 188, settings());
    assert_eq!((passed(&frames).len(), demuxer.counters().sections_left_out), (0, 1));
    // A wrong CRC.
    let mut wrong = cue(1, 0);
    wrong[20] ^= 1;
    let (frames, demuxer) = demux(&stream(40, &packets_of(CUES, 0, &wrong)), 188, settings());
    assert_eq!((passed(&frames).len(), demuxer.counters().sections_invalid), (0, 1));
    // Sections of four bytes, 45 in each packet: what leaves is no more than what came.
    let tiny = [0x40, 0x30, 1, 7].repeat(45);
    let flood: Vec<u8> = (0..100).flat_map(|at| packets_of(PRIVATE, at, &tiny)).collect();
    let (frames, demuxer) = demux(&stream(40, &flood), 188, settings());
    assert_eq!(passed(&frames).len(), 104, "one for each packet, and four at once");
    assert_eq!(demuxer.counters().sections_left_out, 4_500 - 104);
    assert_eq!(sizes(&frames).len(), 6);
    // More PIDs than are passed on.
    let rows: Vec<_> = (0..6).map(|at| (0x05, 0x200 + at, &[][..])).collect();
    let rows = [&[(0x1b, 0x100, &[][..])], &rows[..]].concat();
    let packets: Vec<u8> = (0..6).flat_map(|at| packets_of(0x200 + at, 0, &[0x40, 0x30, 1, 7])).collect();
    let media = media(&pictures(40, 6, 11), 0);
    let bytes = [&pat(0, &[(1, 0x20)])[..], &pmt_with_descriptors(0x20, 0, 1, &rows), &media, &packets];
    let (frames, demuxer) = demux(&bytes.concat(), 188, settings());
    assert_eq!((passed(&frames).len(), demuxer.counters().sections_left_out), (4, 2));
}

#[test]
fn other_data_and_frames_of_no_section_write_nothing() {
    let (mut muxer, mut out) = (Muxer::default(), Vec::new());
    for frame in pictures(0, 2, 11) {
        muxer.write(&mut out, &frame, frame.dts, frame.is_key()).expect("it is carried");
    }
    let before = out.len();
    for (codec, data) in [(CUE, &[][..]), (CUE, &[9, 1]), (CUE, &[0; 20]), (PRIVATE_SECTION, &[0, 1, 2])] {
        let frame = Frame::new(TrackId::DATA, FrameRole::Other, codec, (ms(40), ms(40)), data.to_vec());
        muxer.write(&mut out, &frame, ms(40), false).expect("nothing to carry");
    }
    assert_eq!(out.len(), before);
}
