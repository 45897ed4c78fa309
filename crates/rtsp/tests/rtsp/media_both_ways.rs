//! Frames to RTP and back: nothing is lost, and times are what they were.

use std::sync::Arc;
use std::time::{Duration, Instant};

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use rtp::rtcp::{NtpTime, SenderInfo, SenderReport};
use rtsp::{Incoming, IncomingSettings, Outgoing, Passing, announced};

/// Parameter sets of x264, 320 by 180, High, with B-frames.
pub(crate) const AVCC: &[u8] = &[
    0x01, 0x64, 0x00, 0x0c, 0xff, 0xe1, 0x00, 0x1a, 0x67, 0x64, 0x00, 0x0c, 0xac, 0xd9, 0x41, 0x41, 0x9f,
    0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00, 0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0x99, 0x60,
    0x01, 0x00, 0x06, 0x68, 0xeb, 0xe3, 0xcb, 0x22, 0xc0, 0xfd, 0xf8, 0xf8, 0x00,
];

#[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
pub(crate) fn start() -> Instant {
    Instant::now() + Duration::from_secs(1_000_000)
}

fn frame(track: TrackId, role: FrameRole, codec: Codec, (dts, pts): (i64, i64), data: Vec<u8>) -> Frame {
    let times = (Timestamp::from_millis(dts), Timestamp::from_millis(pts));
    Frame::new(track, role, codec, times, data)
}

fn picture(head: u8, number: u8) -> Vec<u8> {
    let unit = [&[head, 0x88, 0x84, number][..], &[number | 1; 3_000]].concat();
    [&(unit.len() as u32).to_be_bytes()[..], &unit].concat()
}

/// A second of video of 25 pictures, sent as I P B b, and AAC.
fn film() -> Vec<Frame> {
    let mut frames = vec![
        frame(TrackId::VIDEO, FrameRole::Config, Codec::H264, (0, 0), AVCC.to_vec()),
        frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, (0, 0), vec![0x11, 0x90]),
    ];
    let shown = |at: i64| match at {
        0 => 0,
        at => (at - 1) / 3 * 3 + [3, 1, 2][(at as usize - 1) % 3],
    };
    for at in 0..25i64 {
        let (role, head) = if at == 0 { (FrameRole::Key, 0x65) } else { (FrameRole::Inter, 0x41) };
        let times = (at * 40, (shown(at) + 1) * 40);
        frames.push(frame(TrackId::VIDEO, role, Codec::H264, times, picture(head, at as u8)));
    }
    for at in 0..47i64 {
        let at_ms = (at * 64 + 1) / 3;
        frames.push(frame(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, (at_ms, at_ms), vec![at as u8; 50]));
    }
    frames[2..].sort_by_key(|frame| frame.dts);
    frames
}

/// Interleaved packets: channel and bytes.
pub(crate) fn packets(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while let [b'$', channel, high, low, behind @ ..] = rest {
        let (packet, next) = behind.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        found.push((*channel, packet.to_vec()));
        rest = next;
    }
    assert!(rest.is_empty());
    found
}

/// Packets come in by their channels, none of which says goodbye.
pub(crate) fn take(incoming: &mut Incoming, now: Instant, packets: Vec<(u8, Vec<u8>)>) {
    for (channel, packet) in packets {
        let track = usize::from(channel / 2);
        match channel % 2 {
            0 => incoming.rtp(now, track, &packet).expect("a packet"),
            _ => assert!(!incoming.rtcp(now, track, &packet).expect("a report")),
        }
    }
}

#[test]
fn frames_that_go_out_come_in_as_they_were() {
    let began = start();
    let mut outgoing = Outgoing::new([1, 2], began);
    let (mut sent, mut bytes) = (Vec::new(), Vec::new());
    for frame in film() {
        bytes.clear();
        let now = began + Duration::from_millis(frame.dts.millis() as u64);
        outgoing.write(now, NtpTime(1 << 60), frame.dts, &frame, &mut bytes);
        sent.push((now, packets(&bytes)));
    }
    let text = outgoing.description("cam").expect("a description");
    assert_eq!(outgoing.tracks().collect::<Vec<_>>(), [0, 1]);
    let tracks = announced(text.as_bytes()).expect("what is written can be read");
    assert_eq!(tracks.iter().map(|track| track.codec).collect::<Vec<_>>(), [Codec::H264, Codec::Aac]);
    assert!(!tracks[0].passes_on(), "it has B-frames");
    let mut incoming = Incoming::new(&tracks, IncomingSettings { delay_max: Duration::ZERO }, began);
    let mut came: Vec<Arc<Frame>> = Vec::new();
    // Publishers report first: video begins with what is shown after 40 ms, audio at once.
    for (track, shown_ms) in [(0, 40), (1, 0)] {
        let of_track = |(channel, _): &&(u8, Vec<u8>)| usize::from(*channel) == 2 * track;
        let (_, first) = sent.iter().flat_map(|(_, packets)| packets).find(of_track).expect("a packet");
        let first = rtp::Packet::parse(first).expect("RTP");
        let ntp = NtpTime((1 << 60) + (shown_ms << 32) / 1_000);
        let info = SenderInfo { ntp, rtp_timestamp: first.timestamp(), packets: 0, payload_bytes: 0 };
        let mut report = Vec::new();
        SenderReport::write(&mut report, first.ssrc(), &info, &[]);
        incoming.rtcp(began, track, &report).expect("a report");
    }
    for (now, packets) in sent {
        take(&mut incoming, now, packets);
        came.extend(std::iter::from_fn(|| incoming.next_frame()));
    }
    incoming.poll(began + Duration::from_secs(5));
    came.extend(std::iter::from_fn(|| incoming.next_frame()));
    let of = |frames: Vec<&Frame>, role: FrameRole, other: FrameRole| {
        let chosen = frames.into_iter().filter(|frame| frame.role == role || frame.role == other);
        chosen
            .map(|frame| (frame.data().to_vec(), frame.dts.millis(), frame.pts.millis()))
            .collect::<Vec<_>>()
    };
    let film = film();
    for (role, other) in [(FrameRole::Key, FrameRole::Inter), (FrameRole::Audio, FrameRole::Audio)] {
        let mut sent = of(film.iter().collect(), role, other);
        // What is heard before the first picture is left out.
        sent.retain(|(_, _, shown_ms)| *shown_ms >= 21);
        let came = of(came.iter().map(|frame| &**frame).collect(), role, other);
        assert_eq!(came.len(), sent.len(), "{role:?}");
        let offset = came[0].2 - sent[0].2;
        for (at, (came, sent)) in came.iter().zip(&sent).enumerate() {
            assert_eq!(came.0, sent.0, "{role:?} {at}");
            assert!((came.2 - sent.2 - offset).abs() <= 1, "{role:?} {at}: {} {}", came.2, sent.2 + offset);
            assert!(came.1 <= came.2, "{role:?} {at} is decoded before it is shown");
        }
        assert!(came.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{role:?}: decoding times rise");
    }
    for codec in [Codec::H264, Codec::Aac] {
        assert!(came.iter().any(|frame| frame.role == FrameRole::Config && frame.codec == codec), "{codec}");
    }
}

#[test]
fn a_source_that_begins_again_with_lower_numbers_is_heard() {
    const SDP: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\n";
    let tracks = announced(SDP.as_bytes()).expect("a description");
    let (began, delay_max) = (start(), Duration::from_millis(200));
    let mut incoming = Incoming::new(&tracks, IncomingSettings { delay_max }, began);
    let mut heard = 0;
    // Another source, and then the same one with other numbers.
    for (second, (ssrc, first)) in (0u32..).zip([(1u32, 60_000u16), (2, 20_000), (2, 100)]) {
        for at in 0..50u16 {
            let now = began + Duration::from_millis(u64::from(second) * 1_000 + u64::from(at) * 20);
            let mut packet = vec![0x80, 0];
            packet.extend_from_slice(&(first + at).to_be_bytes());
            packet.extend_from_slice(&((second * 50 + u32::from(at)) * 160).to_be_bytes());
            packet.extend_from_slice(&ssrc.to_be_bytes());
            packet.extend_from_slice(&[0xd5; 160]);
            incoming.rtp(now, 0, &packet).expect("a packet");
            incoming.poll(now);
            let frames = std::iter::from_fn(|| incoming.next_frame());
            heard += frames.filter(|frame| frame.role == FrameRole::Audio).count();
        }
    }
    incoming.poll(began + Duration::from_secs(5));
    let rest = std::iter::from_fn(|| incoming.next_frame());
    heard += rest.filter(|frame| frame.role == FrameRole::Audio).count();
    assert!((140..=160).contains(&heard), "{heard}");
}

#[test]
fn packets_that_pass_have_one_source_and_parameter_sets_ahead_of_key_frames() {
    const SDP: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\n\
        a=rtpmap:96 H264/90000\r\n\
        a=fmtp:96 sprop-parameter-sets=Z0LADNkBQZ+fARAAAAMAEAAAAwMg8UKkgA==,aMuDyyA=\r\n";
    let tracks = announced(SDP.as_bytes()).expect("a description");
    assert!(tracks[0].passes_on(), "baseline has no B-frames");
    assert!(tracks[0].passed_fmtp().ends_with("profile-level-id=42c00c"), "{}", tracks[0].passed_fmtp());
    let now = start();
    let mut passing = Passing::new(&tracks, &[Some(9)], now);
    let mut out: Vec<(u16, u32, u8)> = Vec::new();
    let mut pass = |sequence: u16, timestamp: u32, head: u8| {
        let mut packet = vec![0x80, 96];
        packet.extend(sequence.to_be_bytes());
        packet.extend(timestamp.to_be_bytes());
        packet.extend([0xaa, 0xbb, 0xcc, 0xdd, head, 1, 2]);
        let take = |packet: &[u8]| {
            let read = rtp::Packet::parse(packet).expect("RTP");
            out.push((read.sequence_number(), read.ssrc(), read.payload()[0] & 0x1f));
        };
        passing.rtp(now, 0, &packet, take).expect("it passes");
    };
    pass(65_535, 0, 0x65);
    pass(0, 3_600, 0x41);
    // One that was overtaken has the number it would have had.
    pass(2, 7_200, 0x65);
    pass(1, 7_200, 0x06);
    // A key frame that brings its own.
    pass(3, 10_800, 0x67);
    pass(4, 10_800, 0x65);
    let expected =
        [(65_535, 9, 24), (0, 9, 5), (1, 9, 1), (3, 9, 24), (4, 9, 5), (2, 9, 6), (5, 9, 7), (6, 9, 5)];
    assert_eq!(out, expected);
}

#[test]
fn sender_reports_say_when_what_is_shown_was_captured() {
    let began = start();
    let mut outgoing = Outgoing::new([1, 2], began);
    let (mut bytes, mut reports) = (Vec::new(), 0);
    // By track: an RTP timestamp, and the time in the film that it stands for.
    let mut known: [Option<(u32, i64)>; 2] = [None; 2];
    for round in 0..12i64 {
        for frame in film().iter().filter(|frame| round == 0 || frame.role != FrameRole::Config) {
            let by = Timestamp::from_millis(round * 1_000);
            let times = (frame.dts + by, frame.pts + by);
            let frame = Frame::new(frame.track, frame.role, frame.codec, times, frame.data().to_vec());
            let now_us = u64::try_from(frame.dts.micros()).expect("it is positive");
            let ntp = NtpTime((1 << 60) + ((u128::from(now_us) << 32) / 1_000_000) as u64);
            bytes.clear();
            outgoing.write(began + Duration::from_micros(now_us), ntp, frame.dts, &frame, &mut bytes);
            for (channel, packet) in packets(&bytes) {
                let track = usize::from(channel / 2);
                if channel % 2 == 0 {
                    let timestamp = rtp::Packet::parse(&packet).expect("RTP").timestamp();
                    known[track] = Some((timestamp, frame.pts.micros()));
                    continue;
                }
                let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().expect("a word"));
                let since = (u64::from(word(8)) << 32 | u64::from(word(12))).wrapping_sub(1 << 60);
                let reported_us = ((u128::from(since) * 1_000_000) >> 32) as i64;
                let (timestamp, shown_us) = known[track].expect("reports follow media");
                let rate = [90_000, 48_000][track];
                let apart = i64::from(word(16).wrapping_sub(timestamp) as i32) * 1_000_000 / rate;
                let off_us = shown_us + apart - reported_us;
                // Audio of this film repeats 2.7 ms early, which counting samples evens out.
                assert!(off_us.abs() <= 5_000, "track {track} after {now_us} us: {off_us} us");
                reports += 1;
            }
        }
    }
    assert!(reports >= 8, "{reports}");
}

#[test]
fn aac_in_latm_comes_in_as_it_was() {
    let began = start();
    // AAC-LC, 48 kHz, two channels, one frame in an element, as GStreamer and cameras announce it.
    let text = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 0 RTP/AVP 97\r\n\
        a=rtpmap:97 MP4A-LATM/48000/2\r\na=fmtp:97 cpresent=0;object=2;config=400023203fc0\r\n";
    let tracks = announced(text.as_bytes()).expect("it is carried");
    assert_eq!(tracks[0].aac.as_ref().map(|(record, _)| &record[..]), Some(&[0x11, 0x90][..]));
    let mut incoming = Incoming::new(&tracks, IncomingSettings { delay_max: Duration::ZERO }, began);
    let sent: Vec<Vec<u8>> = (0..20u8).map(|at| vec![at; 250 + usize::from(at)]).collect();
    let mut number = 0u16;
    for (at, unit) in sent.iter().enumerate() {
        let element = [&vec![255; unit.len() / 255][..], &[(unit.len() % 255) as u8], unit].concat();
        // Each third is in two packets.
        let cut = if at % 3 == 0 { 100 } else { element.len() };
        for part in [&element[..cut], &element[cut..]].into_iter().filter(|part| !part.is_empty()) {
            number += 1;
            let head = [&[0x80, 97][..], &number.to_be_bytes(), &(at as u32 * 1_024).to_be_bytes(), b"ssrc"];
            let now = began + Duration::from_micros(at as u64 * 21_333);
            incoming.rtp(now, 0, &[&head.concat()[..], part].concat()).expect("a packet");
        }
    }
    incoming.poll(began + Duration::from_secs(5));
    let mut came: Vec<Arc<Frame>> = std::iter::from_fn(|| incoming.next_frame()).collect();
    came.retain(|frame| frame.role != FrameRole::Metadata);
    assert_eq!((came[0].role, came[0].data()), (FrameRole::Config, &[0x11, 0x90][..]));
    let units: Vec<&[u8]> = came[1..].iter().map(|frame| frame.data()).collect();
    assert_eq!(units, sent);
    let times: Vec<i64> = came[1..].iter().map(|frame| frame.pts.millis() - came[1].pts.millis()).collect();
    let expected: Vec<i64> = (0..20).map(|at| at * 1_024 * 1_000 / 48_000).collect();
    assert!(times.iter().zip(&expected).all(|(came, sent)| (came - sent).abs() <= 1), "{times:?}");
    let short = announced(text.replace("400023203fc0", "40002320").as_bytes()).expect("as GStreamer has it");
    assert_eq!(short[0].aac, tracks[0].aac);
    for (fmtp, what) in [
        ("cpresent=0", "no configuration"),
        ("cpresent=0;config=ffffffffffff", "another version of it"),
        ("cpresent=0;config=4000", "it is cut"),
    ] {
        let other = text.replace("cpresent=0;object=2;config=400023203fc0", fmtp);
        assert!(announced(other.as_bytes()).is_err(), "{what}");
    }
}
