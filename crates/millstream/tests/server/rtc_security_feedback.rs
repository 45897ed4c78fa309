//! Viewers who ask for too much: for packets again and again, and for key frames. Neither the
//! publisher nor the link pays for it.

#![expect(clippy::disallowed_methods, reason = "attacks are timed by the real clock")]

use std::time::{Duration, Instant};

use crate::common::rtc::{Client, VIDEO_SSRC, VP8, VP8_RTX, counter, start_flow};
use crate::common::server::Server;
use rtp::payload::MediaKind;
use rtp::rtcp::{Nack, Pli, Rtcp};

#[test]
fn a_storm_of_nacks_is_answered_with_a_third_of_the_media_at_most() {
    let mut server = Server::start("");
    let mut publisher = Client::publish(&server, "live/nacked");
    let mut viewer = Client::play(&server, "live/nacked");
    start_flow(&mut publisher, &mut viewer, 0);
    let source = viewer.source(MediaKind::Video);
    let (mut resent, mut asked) = (0_u32, 0_usize);
    let (mut oldest, mut newest) = (None, None);
    let mut next = Instant::now();
    // Five packets of 1000 bytes every 5 ms; after each, the last 200 are asked for again.
    for turn in 0..2_000_u32 {
        for number in turn * 5..turn * 5 + 5 {
            publisher.send_video(number, number % 500 == 0, 1000);
        }
        publisher.turn();
        next += Duration::from_millis(5);
        viewer.until_within(next.saturating_duration_since(Instant::now()), |_| Instant::now() >= next);
        for packet in viewer.media.drain(..) {
            let Ok(parsed) = rtp::Packet::parse(&packet) else { continue };
            match parsed.payload_type() {
                VP8 => {
                    oldest.get_or_insert(parsed.sequence_number());
                    newest = Some(parsed.sequence_number());
                }
                VP8_RTX => resent += 1,
                _ => {}
            }
        }
        if let Some(newest) = newest {
            let lost: Vec<u16> = (0..200).map(|back| newest.wrapping_sub(200 - back)).collect();
            let mut compound = Vec::new();
            Nack::write(&mut compound, 1, source.ssrc, &lost);
            viewer.send_rtcp(&compound);
            asked += lost.len();
        }
    }
    // By the numbers, because a busy machine loses some of it on the way to this process.
    let media = newest.zip(oldest).map_or(0, |(newest, oldest)| u32::from(newest.wrapping_sub(oldest)) + 1);
    println!("RESULT rtc-nack-storm asked={asked} media_packets={media} resent_packets={resent}");
    assert!(media > 5_000, "only {media} packets of media came");
    assert!(resent > 0, "nothing was sent again: then this test tests nothing");
    // All packets are of one size.
    assert!(resent * 100 <= media * 30, "{resent} packets again of {media}");
    crate::common::eventually("they are counted", || {
        (counter(&server, "nacked_packets_received") > 0).then_some(())
    });
    server.assert_healthy();
}

#[test]
fn a_storm_of_key_frame_requests_reaches_the_publisher_twice_a_second() {
    let mut server = Server::start("");
    let mut publisher = Client::publish(&server, "live/begged");
    let mut viewers: Vec<Client> = (0..3).map(|_| Client::play(&server, "live/begged")).collect();
    start_flow(&mut publisher, &mut viewers[0], 0);
    publisher.send_video(0, true, 1000);
    publisher.reports.clear();
    let began = Instant::now();
    let mut number = 0;
    while began.elapsed() < Duration::from_secs(4) {
        for viewer in &mut viewers {
            let media_ssrc = viewer.source(MediaKind::Video).ssrc;
            let mut compound = Vec::new();
            Pli { sender_ssrc: 1, media_ssrc }.write(&mut compound);
            viewer.send_rtcp(&compound);
            viewer.turn();
        }
        number += 1;
        publisher.send_video(number, false, 200);
        publisher.until_within(Duration::from_millis(10), |_| false);
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut requests = 0;
    for compound in &publisher.reports {
        for packet in rtp::rtcp::packets(compound).flatten() {
            requests += match packet {
                Rtcp::Pli(pli) => u32::from(pli.media_ssrc == VIDEO_SSRC),
                Rtcp::Fir(_) => 1,
                _ => 0,
            };
        }
    }
    println!("RESULT rtc-pli-storm seconds={seconds:.1} asked={} passed_on={requests}", number * 3);
    assert!(requests >= 1, "the publisher is asked at all");
    assert!(f64::from(requests) <= 2.0 * seconds + 1.0, "{requests} requests in {seconds:.1} s");
    server.assert_healthy();
}
