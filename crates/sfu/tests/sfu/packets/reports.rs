//! Reports to viewers: audio and video that were captured together have the same time, whatever
//! happens between.

use std::time::{Duration, Instant};

use rtp::HeaderFields;
use rtp::rtcp::{NtpTime, ReceiverReport, ReportBlock, Rtcp, SenderInfo, SenderReport};
use sfu::{DropReason, NtpRtpMapping, ViewerId};

use crate::packets::common::{
    AUDIO_SSRC, VIDEO_SSRC, World, audio_input, audio_packet, audio_ssrc, frame, video_input, video_ssrc,
};

/// A publisher's clocks: when it began by its wall clock, and its timestamps then.
#[derive(Clone, Copy)]
struct Clocks {
    began: Instant,
    ntp: u64,
    video: u32,
    audio: u32,
}

impl Clocks {
    fn info(&self, now: Instant, rate: u64, start: u32) -> SenderInfo {
        let passed = (now - self.began).as_nanos() as u64;
        let ntp = NtpTime(self.ntp.wrapping_add(((u128::from(passed) << 32) / 1_000_000_000) as u64));
        let rtp_timestamp =
            start.wrapping_add((u128::from(passed) * u128::from(rate) / 1_000_000_000) as u32);
        SenderInfo { ntp, rtp_timestamp, packets: 1, payload_bytes: 1 }
    }

    fn report(&self, world: &mut World, late: Duration) {
        let captured = world.now;
        world.wait(late);
        let mut rtcp = Vec::new();
        SenderReport::write(&mut rtcp, VIDEO_SSRC, &self.info(captured, 90_000, self.video), &[]);
        SenderReport::write(&mut rtcp, AUDIO_SSRC, &self.info(captured, 48_000, self.audio), &[]);
        world.stream.receive_rtcp(world.now, &rtcp);
    }

    /// A frame and a packet of audio captured now.
    fn send(&self, world: &mut World, sequence_number: u16, key: bool) {
        let video = self.info(world.now, 90_000, self.video).rtp_timestamp;
        let audio = self.info(world.now, 48_000, self.audio).rtp_timestamp;
        world.receive(&frame(sequence_number, video, key)).unwrap();
        world.receive(&audio_packet(sequence_number, audio)).unwrap();
    }
}

/// The newest report of each track a viewer got, and who it says it is.
fn newest(world: &World, token: u64) -> Option<([SenderInfo; 2], Instant)> {
    let (at, compound) = world.reports.get(&token)?.last()?;
    let mut infos = [None, None];
    let mut names = Vec::new();
    for packet in rtp::rtcp::packets(compound) {
        match packet.unwrap() {
            Rtcp::SenderReport(report) => {
                infos[usize::from(report.ssrc == video_ssrc(token))] = Some(report.info);
            }
            Rtcp::SourceDescription(description) => {
                names.extend(description.items().map(|item| (item.ssrc, item.text.to_vec())));
            }
            _ => panic!("a report has reports and descriptions"),
        }
    }
    assert_eq!(names, [(audio_ssrc(token), b"stream".to_vec()), (video_ssrc(token), b"stream".to_vec())]);
    Some(([infos[0]?, infos[1]?], *at))
}

/// By the reports, how much later than its audio a viewer plays the video of packets captured
/// together, in seconds.
fn skew(world: &World, token: u64) -> f64 {
    let ([audio_packet, video_frame], _) = newest(world, token).unwrap();
    let at = |info: SenderInfo, timestamp: u32, rate: f64| {
        f64::from(timestamp.wrapping_sub(info.rtp_timestamp).cast_signed()) / rate
            + (info.ntp.0.wrapping_sub(crate::packets::common::WALL.0) as f64) / 4_294_967_296.0
    };
    let video = at(video_frame, world.video(token).last().unwrap().timestamp(), 90_000.0);
    let audio = at(audio_packet, world.audio(token).last().unwrap().timestamp(), 48_000.0);
    video - audio
}

fn assert_in_sync(world: &World, token: u64) {
    let skew = skew(world, token);
    assert!(skew.abs() < 0.002, "audio and video are {skew} s apart");
}

#[test]
fn audio_and_video_stay_together_across_restarts_and_clocks() {
    let mut world = World::published();
    world.join(1);
    let clocks = [
        (0x1111_0000_0000_0000, 77, 4_000_000_000),
        (0xffff_ffff_f000_0000, u32::MAX - 90_000, 12),
        (3 << 32, 0, u32::MAX),
    ];
    for (round, (ntp, video, audio)) in clocks.into_iter().enumerate() {
        if round > 0 {
            world.wait(Duration::from_secs(3));
            world.publish(vec![audio_input(), video_input()]);
        }
        let clocks = Clocks { began: world.now, ntp, video, audio };
        for at in 0..200u16 {
            clocks.send(&mut world, at, at == 0);
            world.wait(Duration::from_millis(20));
            if at % 25 == 5 {
                // Reports are under way for 5 to 35 ms.
                clocks.report(&mut world, Duration::from_millis(5 + u64::from(at) % 30));
            }
        }
        assert_in_sync(&world, 1);
    }
}

#[test]
fn the_first_report_comes_with_the_first_video_and_then_one_a_second() {
    let mut world = World::published();
    let clocks = Clocks { began: world.now, ntp: 99 << 32, video: 0, audio: 0 };
    clocks.send(&mut world, 0, true);
    clocks.report(&mut world, Duration::from_millis(5));
    clocks.send(&mut world, 1, false);
    let joined = world.now;
    world.join(1);
    for at in 2..200 {
        clocks.send(&mut world, at, false);
        world.wait(Duration::from_millis(25));
    }
    let times: Vec<Duration> = world.reports[&1].iter().map(|(at, _)| *at - joined).collect();
    assert!(times[0] <= Duration::from_millis(30), "{times:?}");
    assert!((5..=7).contains(&times.len()), "{times:?}");
    assert_in_sync(&world, 1);
    let ([_, video_frame], at) = newest(&world, 1).unwrap();
    let wall = video_frame.ntp.since(crate::packets::common::WALL);
    let off = wall.abs_diff(at - world.start);
    assert!(off < Duration::from_micros(1), "the time of the report is when it is sent: {off:?}");
    assert!(world.video(1).len() - video_frame.packets as usize <= 45, "{}", video_frame.packets);
}

#[test]
fn a_track_that_begins_later_is_told_of_at_once() {
    let mut world = World::published();
    world.join(1);
    let clocks = Clocks { began: world.now, ntp: 99 << 32, video: 0, audio: 0 };
    let video_frame = clocks.info(world.now, 90_000, 0).rtp_timestamp;
    world.receive(&frame(0, video_frame, true)).unwrap();
    clocks.report(&mut world, Duration::ZERO);
    world.wait(Duration::from_millis(100));
    assert_eq!(world.reports[&1].len(), 1, "of the video");
    for at in 1..10 {
        clocks.send(&mut world, at, false);
        world.wait(Duration::from_millis(20));
        if at == 1 {
            clocks.report(&mut world, Duration::ZERO);
        }
    }
    assert_eq!(world.reports[&1].len(), 2, "of both");
    assert_in_sync(&world, 1);
}

#[test]
fn all_viewers_are_told_anew_when_a_publisher_comes_back() {
    let mut world = World::published();
    let clocks = Clocks { began: world.now, ntp: 99 << 32, video: 0, audio: 0 };
    (1..=600).for_each(|token| _ = world.join(token));
    for at in 0..50 {
        clocks.send(&mut world, at, at == 0);
        world.wait(Duration::from_millis(20));
        if at == 0 {
            clocks.report(&mut world, Duration::ZERO);
        }
    }
    world.publish(vec![audio_input(), video_input()]);
    let back = world.now;
    let clocks = Clocks { began: back, ntp: 5 << 32, video: 4_000_000_000, audio: 7 };
    for at in 0..6 {
        clocks.send(&mut world, at, at == 0);
        if at == 0 {
            clocks.report(&mut world, Duration::ZERO);
        }
        world.wait(Duration::from_millis(20));
    }
    for token in 1..=600 {
        let told = world.reports[&token].iter().filter(|(at, _)| *at > back).count();
        assert!(told >= 1, "viewer {token} plays by the clock of a publisher that has gone");
        assert_in_sync(&world, token);
    }
}

#[test]
fn a_publisher_whose_timestamps_go_on_keeps_what_viewers_were_told() {
    let mut world = World::published();
    world.join(1);
    let clocks = Clocks { began: world.now, ntp: 99 << 32, video: 5_000, audio: 60_000 };
    let mut differences = Vec::new();
    for round in 0..3u16 {
        for at in 0..100 {
            clocks.send(&mut world, round * 1_000 + at, at == 0);
            world.wait(Duration::from_millis(20));
            if at == 0 {
                clocks.report(&mut world, Duration::ZERO);
            }
        }
        let ([_, video_frame], _) = newest(&world, 1).unwrap();
        let units = ((u128::from(video_frame.ntp.0) * 90_000) >> 32) as u32;
        differences.push(units.wrapping_sub(video_frame.rtp_timestamp));
        world.wait(Duration::from_secs(2));
        world.publish(vec![audio_input(), video_input()]);
    }
    let off = differences.iter().map(|difference| difference.abs_diff(differences[0])).max();
    assert!(off.is_some_and(|off| off <= 2), "wall time minus timestamps changed: {differences:?}");
}

#[test]
fn a_stalled_connection_does_not_take_audio_and_video_apart() {
    let mut world = World::published();
    world.join(1);
    let clocks = Clocks { began: world.now, ntp: 99 << 32, video: 5_000, audio: 60_000 };
    for at in 0..100 {
        clocks.send(&mut world, at, at == 0);
        world.wait(Duration::from_millis(20));
        if at % 40 == 0 {
            clocks.report(&mut world, Duration::ZERO);
        }
    }
    // A report of the video alone comes eight seconds late; that of audio is lost.
    let mut rtcp = Vec::new();
    SenderReport::write(&mut rtcp, VIDEO_SSRC, &clocks.info(world.now, 90_000, clocks.video), &[]);
    world.wait(Duration::from_secs(8));
    world.stream.receive_rtcp(world.now, &rtcp);
    for at in 100..200 {
        clocks.send(&mut world, at, false);
        world.wait(Duration::from_millis(20));
    }
    assert_in_sync(&world, 1);
}

#[test]
fn many_viewers_get_their_reports_spread_over_the_second() {
    let mut world = World::published();
    let clocks = Clocks { began: world.now, ntp: 99 << 32, video: 0, audio: 0 };
    clocks.send(&mut world, 0, true);
    clocks.report(&mut world, Duration::from_millis(5));
    for token in 0..500 {
        world.join(token);
    }
    for at in 1..160 {
        clocks.send(&mut world, at, false);
        world.wait(Duration::from_millis(25));
    }
    for token in 0..500 {
        let count = world.reports[&token].len();
        assert!((4..=5).contains(&count), "viewer {token} has {count} in four seconds");
    }
    let last_second = world.now - Duration::from_secs(1);
    let mut at_once = std::collections::BTreeMap::<Instant, usize>::new();
    for (at, _) in world.reports.values().flatten().filter(|(at, _)| *at > last_second) {
        *at_once.entry(*at).or_default() += 1;
    }
    assert!(at_once.len() >= 40, "at {} times", at_once.len());
}

#[test]
fn a_publisher_that_never_reports_is_guessed_by_its_arrivals() {
    let mut world = World::published();
    world.join(1);
    let clocks = Clocks { began: world.now, ntp: 0, video: 5, audio: 1_000_000 };
    for at in 0..400 {
        clocks.send(&mut world, at, at == 0);
        world.wait(Duration::from_millis(20));
    }
    let first = world.reports[&1].first().unwrap().0 - world.start;
    assert!(first >= Duration::from_secs(5), "{first:?}");
    assert_in_sync(&world, 1);
}

#[test]
fn a_clock_that_runs_fast_is_followed() {
    let mut world = World::published();
    world.join(1);
    let mut clocks = Clocks { began: world.now, ntp: 7 << 32, video: 0, audio: 0 };
    for second in 0..120u16 {
        clocks.send(&mut world, second, second == 0);
        clocks.report(&mut world, Duration::from_millis(10));
        // 300 ppm.
        clocks.ntp += (300 << 32) / 1_000_000;
        clocks.video = clocks.video.wrapping_add(27);
        clocks.audio = clocks.audio.wrapping_add(14);
        world.wait(Duration::from_secs(1));
    }
    assert_in_sync(&world, 1);
    let ([_, video_frame], at) = newest(&world, 1).unwrap();
    let captured = video_frame.rtp_timestamp.wrapping_sub(world.video(1).last().unwrap().timestamp());
    let age = f64::from(captured.cast_signed()) / 90_000.0;
    let true_age = (at - world.video(1).last().unwrap().at).as_secs_f64();
    assert!((age - true_age).abs() < 0.02, "{age} against {true_age}");
}

fn says(world: &mut World, id: ViewerId, blocks: &[ReportBlock]) {
    world.viewer_says(id, |rtcp| ReceiverReport::write(rtcp, 5, blocks));
}

#[test]
fn what_viewers_report_becomes_statistics() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(0, 0, 10, 100);
    let video = ReportBlock {
        ssrc: video_ssrc(1),
        fraction_lost: 64,
        cumulative_lost: 17,
        jitter_rtp_units: 900,
        ..ReportBlock::default()
    };
    let audio = ReportBlock { ssrc: audio_ssrc(1), cumulative_lost: -2, ..ReportBlock::default() };
    says(&mut world, id, &[video, audio, ReportBlock { ssrc: 1, cumulative_lost: 99, ..audio }]);
    let stats = world.stream.viewer_stats(id).unwrap();
    assert_eq!((stats.fraction_lost, stats.lost), (0.25, 15));
    assert_eq!(stats.jitter, Duration::from_millis(10));
    assert_eq!(stats.round_trip, None, "it has answered no report");
    assert_eq!((stats.packets, stats.payload_bytes), (10, 640));
}

#[test]
fn goodbyes_go_both_ways() {
    let mut world = World::published();
    let id = world.join(1);
    let mut out = Vec::new();
    world.stream.bye(id, "the stream has ended", &mut out);
    let packets: Vec<_> = rtp::rtcp::packets(&out).map(Result::unwrap).collect();
    let [Rtcp::ReceiverReport(_), Rtcp::SourceDescription(_), Rtcp::Bye(bye)] = &packets[..] else {
        panic!("{packets:?}")
    };
    assert_eq!(bye.ssrcs().collect::<Vec<_>>(), [audio_ssrc(1), video_ssrc(1)]);

    let mut rtcp = Vec::new();
    rtp::rtcp::Bye::write(&mut rtcp, &[5], "");
    assert!(world.stream.viewer_rtcp(world.now, id, &rtcp, None, &mut Vec::new()).bye);
}

#[test]
fn packets_and_clocks_handed_over_as_values_come_out_as_those_read_from_the_wire() {
    let (mut wire, mut values) = (World::published(), World::published());
    // One clock for both, as within a process.
    values.now = wire.now;
    let clocks = Clocks { began: wire.now, ntp: crate::packets::common::WALL.0, video: 0, audio: 0 };
    for world in [&mut wire, &mut values] {
        world.join(1);
    }
    for at in 0..100u16 {
        clocks.send(&mut wire, at, at == 0);
        clocks.report(&mut wire, Duration::ZERO);
        let stamp = |rate| clocks.info(values.now, rate, 0).rtp_timestamp;
        let (video_frame, audio_packet) =
            (frame(at, stamp(90_000), at == 0), audio_packet(at, stamp(48_000)));
        for (track, rtp) in [
            (crate::packets::common::video(), &video_frame),
            (crate::packets::common::audio(), &audio_packet),
        ] {
            let is_key = at == 0 && track == crate::packets::common::video();
            values.stream.receive_packet(values.now, &rtp.fields, &rtp.payload, is_key).unwrap();
            values.settle();
            let mapping = NtpRtpMapping { at: values.now, timestamp: rtp.fields.timestamp };
            values.stream.set_clock(track, mapping);
        }
        wire.wait(Duration::from_millis(20));
        values.wait(Duration::from_millis(20));
    }
    assert_in_sync(&values, 1);
    for got in [World::video, World::audio] {
        let bytes = |world| got(world, 1).iter().map(|got| got.bytes.clone()).collect::<Vec<_>>();
        assert_eq!(bytes(&values).len(), 100);
        assert_eq!(bytes(&values), bytes(&wire));
    }
    let unknown = HeaderFields { ssrc: 99, ..audio_packet(0, 0).fields };
    assert_eq!(values.stream.receive_packet(values.now, &unknown, &[1], false), Err(DropReason::UnknownSsrc));
}
