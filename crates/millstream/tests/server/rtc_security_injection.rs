//! Packets of a stranger, and a publisher's own gone mad: forged, replayed, from a third address, of made-up
//! SSRCs. Nothing of it reaches a viewer, nothing is answered, and the call goes on.
//!
//! `TEST_AT_FULL_SIZE=1` sends a million bad packets in place of fifty thousand.

#![expect(clippy::disallowed_methods, reason = "attacks are timed by the real clock")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::common::rtc::{
    AUDIO_SSRC, Client, OPUS, VIDEO_SSRC, counter, exchange, full_size, random, start_flow,
};
use crate::common::server::Server;
use rtp::HeaderFields;

/// A server with one stream, its publisher and a viewer between whom audio flows up to a number.
fn flowing(stream: &str) -> (Server, Client, Client, u32) {
    let server = Server::spawn("");
    let mut publisher = Client::publish(&server, stream);
    let mut viewer = Client::play(&server, stream);
    let next = start_flow(&mut publisher, &mut viewer, 0);
    (server, publisher, viewer, next)
}

#[test]
fn media_from_a_third_address_goes_nowhere() {
    let (mut server, mut publisher, mut viewer, first) = flowing("live/injected");
    // Packets that only the publisher can make, sent from elsewhere. The server reads them before the
    // publisher's next, which says when to look.
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    stranger.set_nonblocking(true).expect("a socket option");
    let server_address = publisher.remote();
    let captured: Vec<_> = (first..first + 100).map(|number| publisher.protect_audio(number)).collect();
    for packet in &captured {
        stranger.send_to(packet, server_address).expect("sent");
    }
    exchange(&mut publisher, &mut viewer, first + 100..first + 101);

    // They were not even remembered: from the publisher's own address they are new, and count once.
    for packet in &captured {
        publisher.send_raw(server_address, packet);
    }
    viewer.until("the publisher's own are forwarded", |viewer| viewer.media.len() >= 100);
    let mut numbers = viewer.take_audio();
    numbers.sort_unstable();
    assert_eq!(numbers, (first..first + 100).collect::<Vec<_>>());
    for packet in &captured {
        stranger.send_to(packet, server_address).expect("sent");
        publisher.send_raw(server_address, packet);
    }
    exchange(&mut publisher, &mut viewer, first + 101..first + 120);

    let mut buffer = [0; 2048];
    assert!(stranger.recv_from(&mut buffer).is_err(), "the stranger was answered");
    assert_eq!(viewer.bad, 0);
    server.assert_healthy();
}

#[test]
fn a_storm_of_bad_packets_costs_less_than_a_hundredth_of_the_good_ones() {
    let (mut server, mut publisher, mut viewer, mut number) = flowing("live/stormed");
    let total: u32 = if full_size() { 1_000_000 } else { 50_000 };
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let server_address = publisher.remote();
    let (mut sent, mut bad, mut arrived) = (0_u32, 0_u32, 0_u32);
    // 25 of each kind and one good packet every 5 ms: 10 000 bad packets a second. The next ones follow when
    // the good one has come, or is lost: a server that got no processor for a while would find more than its
    // socket holds.
    while bad < total {
        for _ in 0..25 {
            // With the publisher's SSRC and a sequence number it will use, from its own address: spoofed.
            publisher.send_raw(server_address, &rubbish(AUDIO_SSRC, number as u16 + 1));
            stranger.send_to(&rubbish(AUDIO_SSRC, number as u16 + 1), server_address).expect("sent");
            bad += 2;
        }
        publisher.turn();
        publisher.send_audio(number);
        (number, sent) = (number + 1, sent + 1);
        let pace = Instant::now() + Duration::from_millis(5);
        let mut has_come = false;
        viewer.until_within(Duration::from_millis(500), |viewer| {
            for audio in viewer.take_audio() {
                arrived += 1;
                has_come |= audio + 1 == number;
            }
            has_come && Instant::now() >= pace
        });
    }
    publisher.turn();
    viewer.until_within(Duration::from_secs(2), |viewer| {
        arrived += viewer.take_audio().len() as u32;
        arrived >= sent
    });
    let lost = sent - arrived;
    println!("RESULT rtc-bad-packets bad={bad} good={sent} lost={lost}");
    assert!(lost * 100 <= sent, "{lost} of {sent} good packets lost beside {bad} bad ones");
    crate::common::eventually("the bad ones are counted", || {
        (counter(&server, "unauthentic_packets") > 0 && counter(&server, "unknown_source_datagrams") > 0)
            .then_some(())
    });
    exchange(&mut publisher, &mut viewer, number..number + 10);
    server.assert_healthy();
}

/// An RTP packet that nobody has encrypted.
fn rubbish(ssrc: u32, sequence_number: u16) -> Vec<u8> {
    let mut packet = vec![0; 120];
    let fields = HeaderFields { marker: false, payload_type: OPUS, sequence_number, timestamp: 0, ssrc };
    fields.write(&[], &mut packet);
    let noise = random().to_be_bytes();
    packet[12..].iter_mut().zip(noise.iter().cycle()).for_each(|(byte, noise)| *byte = *noise);
    packet
}

#[test]
fn made_up_ssrcs_take_no_memory_and_stop_nothing() {
    let (mut server, mut publisher, mut viewer, number) = flowing("live/flooded");
    let before = server.resident_bytes();
    let server_address = publisher.remote();
    // First such that nobody has encrypted, then such that the publisher has.
    for ssrc in 0..20_000_u32 {
        publisher.send_raw(server_address, &rubbish(0x5000_0000 + ssrc, 1));
        if ssrc % 200 == 0 {
            exchange(&mut publisher, &mut viewer, number + ssrc / 200..number + ssrc / 200 + 1);
        }
    }
    let number = number + 100;
    for ssrc in 0..400_u32 {
        let fields = HeaderFields {
            marker: false,
            payload_type: OPUS,
            sequence_number: 1,
            timestamp: 0,
            ssrc: 0x6000_0000 + ssrc,
        };
        publisher.send_rtp(fields, &[0xf8; 40]);
    }
    // The last of those may have taken the place of the audio, as an encoder that restarts would; nothing
    // follows it, so the publisher's own comes back.
    let mut next = number;
    viewer.until("the publisher's own audio", |viewer| {
        publisher.turn();
        publisher.send_audio(next);
        next += 1;
        viewer.take_audio().into_iter().any(|arrived| (number..next).contains(&arrived))
    });
    let fields =
        HeaderFields { marker: true, payload_type: 96, sequence_number: 9, timestamp: 0, ssrc: VIDEO_SSRC };
    publisher.send_rtp(fields, &crate::common::rtc::vp8_frame(1, true, 400));
    viewer.until("and its video", |viewer| {
        let arrived = std::mem::take(&mut viewer.media);
        arrived.iter().any(|packet| packet[1] & 0x7f == 96)
    });
    let grown = server.resident_bytes().saturating_sub(before);
    println!("RESULT rtc-ssrc-flood ssrcs=20400 grown_kb={}", grown / 1024);
    // A stream per SSRC would be 20 000 key schedules of more than 500 bytes.
    assert!(grown < 4 << 20, "{grown} bytes more after a flood of SSRCs");
    server.assert_healthy();
}
