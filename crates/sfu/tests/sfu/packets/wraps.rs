//! Every number that wraps: sequence numbers, timestamps, NTP, transport-wide numbers, RTX.

use std::time::Duration;

use rtp::rtcp::{Nack, NtpTime, SenderInfo, SenderReport};

use crate::packets::common::{VIDEO_SSRC, World, frame, video_ssrc, written};

#[test]
fn hundreds_of_thousands_of_packets_go_through_in_order() {
    let mut world = World::published();
    let id = world.join(1);
    let mut timestamp = u32::MAX - 1_000_000;
    for at in 0..140_000u32 {
        let packet = frame(at.wrapping_add(65_000) as u16, timestamp, at % 50 == 0);
        world.stream.receive(world.now, &packet.bytes()).unwrap();
        world.now += Duration::from_millis(5);
        timestamp = timestamp.wrapping_add(450);
        if at % 16 == 0 {
            world.settle();
            world.feedback.clear();
        }
    }
    world.settle();
    let got = world.video(1);
    assert_eq!(got.len(), 140_000);
    for (at, pair) in got.windows(2).enumerate() {
        assert_eq!(pair[1].number(), pair[0].number().wrapping_add(1), "at {at}");
        assert_eq!(pair[1].timestamp(), pair[0].timestamp().wrapping_add(450), "at {at}");
    }
    let lost = got[139_900].clone();
    let resent = world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, video_ssrc(1), &[lost.number()]));
    let bytes = written(&resent[0]);
    let packet = rtp::Packet::parse(&bytes).unwrap();
    let original = rtp::rtx::unwrap(packet.payload()).unwrap();
    assert_eq!(original, (lost.number(), lost.packet().payload()));
}

#[test]
fn rtx_numbers_wrap() {
    let mut world = World::published();
    let id = world.join(1);
    let mut next = 0u16;
    for at in 0..230_000u32 {
        let mut packet = frame(at as u16, at.wrapping_mul(90), at % 500 == 0);
        packet.payload.resize(1_000, 1);
        world.stream.receive(world.now, &packet.bytes()).unwrap();
        world.now += Duration::from_millis(1);
        world.settle();
        world.feedback.clear();
        let number = world.video(1).last().unwrap().number();
        if at > 10 {
            // Three in ten of what was just sent.
            let lost: &[u16] = if at % 10 < 3 { &[number] } else { &[] };
            for resend in world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, video_ssrc(1), lost)) {
                let bytes = written(&resend);
                assert_eq!(rtp::Packet::parse(&bytes).unwrap().sequence_number(), next);
                next = next.wrapping_add(1);
            }
        }
        world.got.values_mut().for_each(|got| got.drain(..got.len().saturating_sub(1)).for_each(drop));
    }
    let resent = world.stream.viewer_stats(id).unwrap().resent_packets;
    assert!(resent > 65_536, "{resent}");
}

#[test]
fn wall_time_wraps_in_2036() {
    let mut world = World::published();
    world.join(1);
    world.receive(&frame(0, 0, true)).unwrap();
    let mut seconds = Vec::new();
    for second in 0..6u64 {
        // The publisher's clock passes the end of the era.
        let ntp = NtpTime((u64::from(u32::MAX) - 2).wrapping_add(second).wrapping_shl(32));
        let info = SenderInfo { ntp, rtp_timestamp: (second * 90_000) as u32, ..SenderInfo::default() };
        let mut rtcp = Vec::new();
        SenderReport::write(&mut rtcp, VIDEO_SSRC, &info, &[]);
        world.stream.receive_rtcp(world.now, &rtcp);
        world.receive(&frame(1 + second as u16, second as u32 * 90_000, false)).unwrap();
        world.wait(Duration::from_secs(1));
        let (at, compound) = world.reports[&1].last().unwrap();
        let Some(Ok(rtp::rtcp::Rtcp::SenderReport(report))) = rtp::rtcp::packets(compound).next() else {
            panic!("a sender report")
        };
        seconds.push((at.duration_since(world.start).as_secs_f64(), report.info.rtp_timestamp));
    }
    for (at, timestamp) in &seconds {
        let off = at - f64::from(*timestamp) / 90_000.0;
        assert!(off.abs() < 0.005, "timestamps follow time across the wrap: {seconds:?}");
    }
}
