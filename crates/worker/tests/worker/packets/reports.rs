//! Clocks: viewers at another node play audio and video in sync, as those at the first do.

use rtc_test::{AUDIO_SSRC, OfferOptions, UdpClient, VIDEO_SSRC};
use rtp::payload::MediaKind;
use rtp::rtcp::{NtpTime, Rtcp, SenderInfo, SenderReport};

use crate::packets::common::media::{count, send_audio, send_frame};
use crate::packets::common::node::{Node, link};
use crate::packets::common::until;

/// When a timestamp of a kind was captured by what the server reports, in seconds of its clock.
fn captured(client: &UdpClient, kind: MediaKind, rate: f64, timestamp: u32) -> Option<f64> {
    let ssrc = client.source(kind).ssrc;
    let packets = client.reports.iter().flat_map(|rtcp| rtp::rtcp::packets(rtcp).flatten());
    let reports = packets.filter_map(|packet| match packet {
        Rtcp::SenderReport(report) if report.ssrc == ssrc => Some(report.info),
        _ => None,
    });
    let info = reports.last()?;
    let passed = f64::from(timestamp.wrapping_sub(info.rtp_timestamp).cast_signed()) / rate;
    // Seconds of a day are enough.
    let wall = (info.ntp.0 & 0xffff_ffff_ffff) as f64 / f64::from(u32::MAX);
    Some(wall + passed)
}

#[test]
fn audio_and_video_are_as_far_apart_as_the_publisher_says() {
    let (one, other) = (Node::start(1), Node::start(1));
    let link = link(&one, &other);
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    other.fetch_from(&one, "live/a", link);
    let (mut near, mut far) = (one.play(0, "live/a"), other.play(0, "live/a"));
    // Timestamp 0 of video was captured a quarter of a second after that of audio, by a clock of its own.
    let report = |client: &mut UdpClient, ssrc, ntp: u64| {
        let info = SenderInfo { ntp: NtpTime(ntp), rtp_timestamp: 0, packets: 1, payload_bytes: 1 };
        let mut rtcp = Vec::new();
        SenderReport::write(&mut rtcp, ssrc, &info, &[]);
        client.send_rtcp(&rtcp);
    };
    let apart = |client: &UdpClient| {
        let audio = captured(client, MediaKind::Audio, 48_000.0, 0)?;
        Some(captured(client, MediaKind::Video, 90_000.0, 0)? - audio)
    };
    let mut frame = 0;
    // The first reports of the server may be older than those of the publisher.
    until(
        "reports at both by the publisher's clock",
        &mut [&mut publisher, &mut near, &mut far],
        |clients| {
            send_frame(clients[0], frame, 1, frame.is_multiple_of(30));
            send_audio(clients[0], frame);
            if frame % 50 == 10 {
                report(clients[0], AUDIO_SSRC, 77 << 32);
                report(clients[0], VIDEO_SSRC, (77 << 32) + (1 << 30));
            }
            frame += 1;
            clients[1..].iter().all(|client| {
                // What one report may correct, of each of the two.
                apart(client).is_some_and(|apart| (apart - 0.25).abs() < 0.002)
                    && count(client, MediaKind::Video) > 5
            })
        },
    );
}
