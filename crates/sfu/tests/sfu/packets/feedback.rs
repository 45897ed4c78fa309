//! What the publisher is told: what is missing, how its packets arrive, and what of its network.

use std::time::Duration;

use rtp::rtcp::{NtpTime, ReportBlock, Rtcp, SenderInfo, SenderReport};
use sfu::TrackInput;

use crate::packets::common::{
    AUDIO_SSRC, H264_RTX, SERVER_SSRC, TWCC_ID, VIDEO_RTX_SSRC, VIDEO_SSRC, World, audio_input, audio_packet,
    frame, video_input,
};

#[test]
fn a_missing_packet_is_asked_for_when_it_is_not_merely_late_and_again_each_round_trip() {
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    world.receive(&frame(103, 10_800, false)).unwrap();
    assert_eq!(world.nacked(), []);
    world.receive(&frame(102, 7_200, false)).unwrap();
    world.wait(Duration::from_millis(10));
    assert_eq!(world.nacked(), [(VIDEO_SSRC, 101)], "102 was only late");
    world.wait(Duration::from_millis(100));
    assert_eq!(world.nacked(), [], "the round trip is taken to be 100 ms");
    world.wait(Duration::from_millis(50));
    assert_eq!(world.nacked(), [(VIDEO_SSRC, 101)]);
    let lost = frame(101, 3_600, false);
    world.receive(&lost.rtx(VIDEO_RTX_SSRC, H264_RTX, 1)).unwrap();
    world.wait(Duration::from_secs(3));
    assert_eq!(world.nacked(), []);
    assert_eq!(world.stream.stats().repaired_packets, 1);
}

#[test]
fn the_round_trip_is_learnt_from_what_is_repaired() {
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    let mut sequence_number = 100;
    for rtx in 0..60 {
        world.receive(&frame(sequence_number + 2, 0, false)).unwrap();
        world.wait(Duration::from_millis(8 + 20));
        let lost = frame(sequence_number + 1, 0, false);
        world.receive(&lost.rtx(VIDEO_RTX_SSRC, H264_RTX, rtx)).unwrap();
        sequence_number += 2;
    }
    let learnt = world.stream.publisher_round_trip().unwrap();
    assert!((19..25).contains(&learnt.as_millis()), "{learnt:?}");
}

#[test]
fn a_packet_that_never_comes_is_given_up() {
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    world.receive(&frame(102, 7_200, false)).unwrap();
    world.wait(Duration::from_secs(10));
    let asked = world.nacked().len();
    assert!((5..=10).contains(&asked), "{asked} times");
}

#[test]
fn more_than_is_worth_asking_for_becomes_a_key_frame_request() {
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    world.receive(&frame(1_000, 90_000, false)).unwrap();
    world.wait(Duration::from_millis(20));
    let (mut nacks, mut requests) = (0, 0);
    world.told(|_, packet| match packet {
        Rtcp::Nack(_) => nacks += 1,
        Rtcp::Pli(_) => requests += 1,
        _ => {}
    });
    assert_eq!((nacks, requests), (0, 1));
}

#[test]
fn audio_is_asked_for_only_if_negotiated() {
    let mut world = World::published();
    for sequence_number in [1, 3] {
        world.receive(&audio_packet(sequence_number, 0)).unwrap();
    }
    world.wait(Duration::from_millis(100));
    assert_eq!(world.nacked(), []);
    world.publish(vec![TrackInput { nack: true, ..audio_input() }, video_input()]);
    for sequence_number in [1, 3] {
        world.receive(&audio_packet(sequence_number, 0)).unwrap();
    }
    world.wait(Duration::from_millis(100));
    assert_eq!(world.nacked(), [(AUDIO_SSRC, 2)]);
}

fn reports(world: &mut World) -> Vec<(Duration, ReportBlock)> {
    let start = world.start;
    let mut reports = Vec::new();
    world.told(|at, packet| {
        if let Rtcp::ReceiverReport(report) = packet {
            assert_eq!(report.ssrc, SERVER_SSRC);
            reports.extend(report.blocks.iter().map(|block| (at - start, block)));
        }
    });
    reports
}

#[test]
fn receiver_reports_count_as_the_standard_does() {
    let mut world = World::published();
    // 65,530 to 65,581 without every fourth from the beginning.
    for at in 0..52u16 {
        if at % 4 != 1 {
            world.receive(&frame(65_530u16.wrapping_add(at), u32::from(at) * 3_600, at == 0)).unwrap();
        }
        world.wait(Duration::from_millis(20));
    }
    let reports = reports(&mut world);
    assert_eq!(reports.len(), 1, "one a second");
    let (at, block) = reports[0];
    assert_eq!((at, block.ssrc), (Duration::from_secs(1), VIDEO_SSRC));
    // 49 expected by then (0..=48; 49 is not missed yet), 12 of them lost (1, 5, .. 45).
    assert_eq!(block.highest_sequence_number, 65_530 + 48, "the first cycle is 0, and it has rolled over");
    assert_eq!(block.cumulative_lost, 12);
    assert_eq!(block.fraction_lost, (12 * 256 / 49) as u8);
    assert_eq!((block.last_report.0, block.delay_since_last_report.0), (0, 0));
}

#[test]
fn what_was_repaired_was_lost_all_the_same() {
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    world.receive(&frame(102, 7_200, false)).unwrap();
    world.receive(&frame(101, 3_600, false).rtx(VIDEO_RTX_SSRC, H264_RTX, 1)).unwrap();
    world.wait(Duration::from_secs(1));
    assert_eq!(reports(&mut world)[0].1.cumulative_lost, 1);
}

#[test]
fn duplicates_make_the_loss_negative() {
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    for sequence_number in [101, 101, 101] {
        let _ = world.receive(&frame(sequence_number, 3_600, false));
    }
    world.wait(Duration::from_secs(1));
    let block = reports(&mut world)[0].1;
    assert_eq!((block.cumulative_lost, block.fraction_lost), (0, 0), "a duplicate is dropped, not counted");
}

#[test]
fn reports_tell_when_the_last_sender_report_came() {
    let mut world = World::published();
    world.receive(&frame(100, 0, true)).unwrap();
    world.wait(Duration::from_millis(400));
    let mut rtcp = Vec::new();
    let info = SenderInfo { ntp: NtpTime(0x0123_4567_89ab_cdef), ..SenderInfo::default() };
    SenderReport::write(&mut rtcp, VIDEO_SSRC, &info, &[]);
    world.stream.receive_rtcp(world.now, &rtcp);
    world.wait(Duration::from_millis(600));
    let block = reports(&mut world)[0].1;
    assert_eq!(block.last_report.0, 0x4567_89ab);
    assert_eq!(block.delay_since_last_report.duration().as_millis(), 599, "600 ms in units of 2^-16 s");
}

#[test]
fn jitter_is_that_of_arrivals_against_timestamps() {
    let mut world = World::published();
    for at in 0..200u16 {
        world.receive(&frame(at, u32::from(at) * 3_600, at == 0)).unwrap();
        // Alternately 10 ms early and late.
        world.wait(Duration::from_millis(if at % 2 == 0 { 30 } else { 50 }));
    }
    let last = reports(&mut world).pop().unwrap().1;
    // 10 ms of 90 kHz.
    assert!((800..=900).contains(&last.jitter_rtp_units), "{}", last.jitter_rtp_units);
}

#[test]
fn a_whole_compound_is_sent_where_reduced_size_was_not_negotiated() {
    let mut world = World::published();
    let mut input = crate::packets::common::publisher(vec![audio_input(), video_input()]);
    input.reduced_size = false;
    world.stream.publisher_started(world.now, 9, input);
    world.receive(&frame(100, 0, true)).unwrap();
    world.receive(&frame(102, 7_200, false)).unwrap();
    world.wait(Duration::from_millis(20));
    let mut kinds = Vec::new();
    world.told(|_, packet| {
        kinds.push(match packet {
            Rtcp::ReceiverReport(_) => "report",
            Rtcp::SourceDescription(_) => "description",
            Rtcp::Nack(_) => "nack",
            _ => "other",
        });
    });
    assert_eq!(kinds, ["report", "description", "nack"]);
}

#[test]
fn transport_wide_feedback_tells_of_every_packet_that_has_a_number() {
    let mut world = World::published();
    world.publish(vec![audio_input(), TrackInput { transport_cc: true, ..video_input() }]);
    let begin = world.now;
    let mut arrivals = Vec::new();
    for at in 0..40u16 {
        if at % 7 == 3 {
            // On its way for ever.
            continue;
        }
        let number = 65_520u16.wrapping_add(at);
        let packet = if at % 2 == 0 { frame(at / 2, 0, at == 0) } else { audio_packet(at / 2, 0) };
        let _ = world.receive(&packet.with(TWCC_ID, &number.to_be_bytes()));
        arrivals.push((number, world.now - begin));
        world.wait(Duration::from_millis(10));
    }
    world.wait(Duration::from_millis(200));
    let (mut told, mut counts, mut lost) = (Vec::new(), Vec::new(), 0);
    let mut at = begin;
    let mut gaps = Vec::new();
    world.told(|now, packet| {
        if let Rtcp::TransportFeedback(feedback) = packet {
            gaps.push(now - at);
            at = now;
            counts.push(feedback.count);
            for status in feedback.packets() {
                match status.arrival_ticks {
                    Some(ticks) => told.push((status.sequence_number, ticks)),
                    None => lost += 1,
                }
            }
        }
    });
    assert_eq!(counts, (0..counts.len() as u8).collect::<Vec<_>>());
    assert_eq!(told.len(), arrivals.len(), "each once");
    let origin = told[0].1;
    for (told, arrived) in told.iter().zip(&arrivals) {
        assert_eq!(told.0, arrived.0);
        assert_eq!(Duration::from_micros((told.1 - origin) as u64 * 250), arrived.1, "{told:?}");
    }
    assert_eq!(lost, 6);
    assert!(gaps.iter().all(|gap| *gap <= Duration::from_millis(110)), "{gaps:?}");
}

#[test]
fn a_publisher_without_transport_wide_feedback_gets_an_estimate_that_falls_with_loss() {
    let mut world = World::published();
    world.publish(vec![audio_input(), TrackInput { remb: true, nack: false, ..video_input() }]);
    let estimates = |world: &mut World, lose: bool, from: u16| {
        for at in 0..500u16 {
            if !lose || at % 4 != 0 {
                let mut packet = frame(from + at, u32::from(from + at) * 900, at == 0 && from == 0);
                packet.payload.resize(1_000, 0);
                let _ = world.receive(&packet);
            }
            world.wait(Duration::from_millis(10));
        }
        let mut estimates = Vec::new();
        world.told(|_, packet| {
            if let Rtcp::Remb(remb) = packet {
                assert_eq!(remb.ssrcs().collect::<Vec<_>>(), [VIDEO_SSRC]);
                estimates.push(remb.bits_per_second);
            }
        });
        estimates
    };
    let clean = estimates(&mut world, false, 0);
    assert!((4..=6).contains(&clean.len()), "one a second: {clean:?}");
    assert!(clean.windows(2).all(|pair| pair[1] > pair[0]), "{clean:?}");
    let lossy = estimates(&mut world, true, 500);
    assert!(*lossy.last().unwrap() < 600_000, "below the 600 kbit/s that still arrive: {lossy:?}");
}

#[test]
fn what_was_lost_in_a_long_silence_is_not_asked_for_and_leaves_no_gap() {
    let mut world = World::published();
    world.join(1);
    world.play(100, 0, 10, 100);
    world.wait(Duration::from_secs(2));
    world.key_frame_requests();
    for at in 160..165 {
        assert!(!world.receive(&frame(at, u32::from(at) * 3_600, false)).unwrap().forwarded);
        world.wait(Duration::from_millis(40));
    }
    let (mut nacks, mut requests) = (0, 0);
    world.told(|_, packet| match packet {
        Rtcp::Nack(_) => nacks += 1,
        Rtcp::Pli(_) => requests += 1,
        _ => {}
    });
    assert_eq!((nacks, requests), (0, 1));
    world.receive(&frame(165, 165 * 3_600, true)).unwrap();
    let numbers = world.numbers(1);
    assert_eq!(numbers[10], numbers[9] + 1);
}

#[test]
fn arrivals_are_told_also_while_no_source_is_known() {
    let mut world = World::new(sfu::Limits::default());
    let input = TrackInput { ssrcs: Vec::new(), transport_cc: true, ..video_input() };
    world.publish(vec![input]);
    let mut stranger = frame(1, 0, true).with(TWCC_ID, &[0, 1]);
    stranger.fields.payload_type = 1;
    assert!(world.receive(&stranger).is_err(), "it belongs to no track");
    world.wait(Duration::from_millis(200));
    let mut told = 0;
    world.told(|_, rtcp| told += usize::from(matches!(rtcp, Rtcp::TransportFeedback(_))));
    assert_eq!(told, 1);
}

/// Takes what is due now until nothing is, and returns each compound packet.
fn drain(world: &mut World) -> Vec<Vec<u8>> {
    let mut compounds = Vec::new();
    loop {
        let mut out = Vec::new();
        if !world.stream.poll_feedback(world.now, &mut out) {
            return compounds;
        }
        compounds.push(out);
        assert!(compounds.len() < 1_000, "it never ends");
    }
}

#[test]
fn feedback_on_numbers_that_jump_fits_datagrams_of_1200_bytes() {
    for reduced_size in [true, false] {
        for step in [1_100u16, 1, 5, 15, 500] {
            let mut world = World::published();
            let input = TrackInput { transport_cc: true, ..video_input() };
            let mut input = crate::packets::common::publisher(vec![audio_input(), input]);
            (input.reduced_size, input.cname) = (reduced_size, "x".repeat(255));
            world.stream.publisher_started(world.now, 9, input);
            let count = 1_500u16;
            for at in 0..count {
                // Arrivals a little apart, so that statuses and deltas are of all lengths.
                world.now += Duration::from_micros(u64::from(at % 3) * 60_000 + 10);
                let number = at.wrapping_mul(step);
                let packet = frame(at, 0, at == 0).with(TWCC_ID, &number.to_be_bytes());
                world.stream.receive(world.now, &packet.bytes()).unwrap();
            }
            let compounds = drain(&mut world);
            assert!(compounds.iter().all(|compound| compound.len() <= 1_180), "{step}");
            let (mut told, mut counts) = (Vec::new(), Vec::new());
            for compound in &compounds {
                for packet in rtp::rtcp::packets(compound) {
                    if let Rtcp::TransportFeedback(feedback) = packet.unwrap() {
                        counts.push(feedback.count);
                        let arrived = feedback.packets().filter(|status| status.arrival_ticks.is_some());
                        told.extend(arrived.map(|status| status.sequence_number));
                    }
                }
            }
            let sent: Vec<u16> = (0..count).map(|at| at.wrapping_mul(step)).collect();
            assert_eq!(told, sent, "each once, in order");
            assert!(counts.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "none is left out");
            assert!(compounds.len() >= 2, "{} with {step}", compounds.len());
        }
    }
}

#[test]
fn what_is_missing_of_many_layers_is_asked_for_in_datagrams_of_1200_bytes() {
    // In rows, of which one entry names 17, and one by one, which takes an entry each.
    for (last, in_rows) in [(500u16, true), (4_760, false)] {
        let is_lost = |at: u16| if in_rows { !at.is_multiple_of(25) } else { at % 17 == 8 && at > 17 };
        let mut world = World::published();
        let layers: Vec<(u32, Option<u32>)> = (0..4).map(|layer| (VIDEO_SSRC + 16 * layer, None)).collect();
        let input = TrackInput { ssrcs: layers.clone(), remb: true, ..video_input() };
        let mut input = crate::packets::common::publisher(vec![input]);
        (input.reduced_size, input.cname) = (false, "x".repeat(255));
        world.stream.publisher_started(world.now, 9, input);
        for at in (0..=last).filter(|at| !is_lost(*at)) {
            for (ssrc, _) in &layers {
                let _ = world.stream.receive(world.now, &frame(at, 0, at == 0).ssrc(*ssrc).bytes());
            }
        }
        // With the first report.
        world.now += Duration::from_secs(1);
        let compounds = drain(&mut world);
        assert!(compounds.iter().all(|compound| compound.len() <= 1_180));
        let mut asked: Vec<(u32, u16)> = Vec::new();
        for packet in compounds.iter().flat_map(|compound| rtp::rtcp::packets(compound)) {
            if let Rtcp::Nack(nack) = packet.unwrap() {
                asked.extend(nack.lost().map(|lost| (nack.media_ssrc, lost)));
            }
        }
        asked.sort_unstable();
        let missing = layers.iter().flat_map(|(ssrc, _)| (0..last).map(move |at| (*ssrc, at)));
        let missing: Vec<(u32, u16)> = missing.filter(|(_, at)| is_lost(*at)).collect();
        assert_eq!(asked, missing, "each once");
        assert_eq!(world.stream.stats().nacked_packets, missing.len() as u64);
        assert!(compounds.len() >= 3, "{}", compounds.len());
    }
}
