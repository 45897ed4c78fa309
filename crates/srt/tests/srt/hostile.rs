//! Packets of every type and length, damaged and made up, to each machine: nothing panics, memory stays
//! bounded, and the connection of an honest peer goes on.

use std::net::SocketAddr;
use std::time::Duration;

use srt::{Caller, CookieSecret, Incoming, Limits, Packet};

use crate::world::{Both, Network, PEER, Pair, Random};

/// A packet of `kind` (control types, and 16 for data) and length, for socket `to`, of random content.
fn packet(random: &mut Random, kind: u16, len: usize, to: u32) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    // Small numbers reach further than large ones.
    if random.below(2) == 0 {
        packet.iter_mut().skip(16).for_each(|byte| *byte &= if random.below(4) == 0 { 0xff } else { 1 });
    }
    let kind = if kind == 9 { 0x7fff } else { kind };
    let first = if kind == 16 { random.next() as u32 >> 1 } else { 0x8000_0000 | u32::from(kind) << 16 };
    let subtype = if kind == 0x7fff { random.below(6) as u32 } else { 0 };
    for (at, word) in [(0, first | subtype), (12, to)] {
        if len >= at + 4 {
            packet[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
    }
    packet
}

#[test]
fn packets_of_every_type_and_length_do_no_harm() {
    let mut random = Random::new(11);
    let mut both = Both::default();
    both.accept.limits = Limits { receive_bytes_max: 1 << 20, ..Limits::default() };
    let secret = CookieSecret::new(&[3; 32]);
    let mut pair = Pair::new(Network::GOOD, 1, &both);
    for len in 0..=1500 {
        for kind in [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 16] {
            let now = pair.world.now;
            let to = pair.receiver.local().0;
            let bytes = packet(&mut random, kind, len, to);
            let _ = Packet::read(&bytes);
            let _ = pair.receiver.handle_packet(now, &bytes);
            let bytes = packet(&mut random, kind, len, pair.sender.local().0);
            let _ = pair.sender.handle_packet(now, &bytes);
            let _ = secret.handle(Duration::ZERO, SocketAddr::from(PEER), &packet(&mut random, kind, len, 0));
            let (packets, bytes, _) = pair.receiver.status(now).receive_buffer;
            assert!(packets <= 8192 && bytes <= 1 << 20);
        }
        pair.run_until(pair.world.now + Duration::from_millis(1));
        assert_eq!((pair.sender.end(), pair.receiver.end()), (None, None), "{len}");
    }
    // Whatever was said, what is sent now is heard: made-up numbers were dropped in time.
    pair.run_until(pair.world.now + Duration::from_secs(10));
    assert_eq!(pair.receiver.status(pair.world.now).receive_buffer.0, 0);
}

#[test]
fn damaged_handshakes_do_no_harm() {
    let both = Both::default();
    let secret = CookieSecret::new(&[3; 32]);
    let peer = SocketAddr::from(PEER);
    let mut pair = Pair::new(Network::GOOD, 1, &both);
    let now = pair.world.now;
    let mut caller = Caller::new(now, both.call.clone());
    let mut out = [0; srt::DATAGRAM_BYTES_MAX];
    let mut next = |caller: &mut Caller| {
        let len = caller.poll_transmit(now, &mut out).expect("in time").expect("a packet");
        out[..len].to_vec()
    };
    let induction = next(&mut caller);
    let Ok(Incoming::Induction(answer)) = secret.handle(Duration::ZERO, peer, &induction) else {
        panic!("no induction");
    };
    assert!(caller.handle_packet(now, &answer).expect("ours").is_none());
    let conclusion = next(&mut caller);
    for bit in 0..conclusion.len() * 8 {
        let mut conclusion = conclusion.clone();
        conclusion[bit / 8] ^= 1 << (bit % 8);
        if let Ok(Incoming::Conclusion(request)) = secret.handle(Duration::ZERO, peer, &conclusion)
            && let Ok(asked) = request.read()
        {
            let _ = asked.accept(now, &both.accept);
        }
    }
    for len in 0..conclusion.len() {
        if let Ok(Incoming::Conclusion(request)) = secret.handle(Duration::ZERO, peer, &conclusion[..len]) {
            let _ = request.read().map(|asked| asked.accept(now, &both.accept).is_ok());
        }
    }
    let mut random = Random::new(3);
    for len in 0..=1500 {
        let mut packet = packet(&mut random, 0, len, both.call.socket.0);
        if len >= 40 {
            let kinds = [[0, 0, 0, 1], [255; 4], [0, 0, 3, 240]];
            packet[36..40].copy_from_slice(&kinds[len % 3]);
        }
        let mut caller = Caller::new(now, both.call.clone());
        let _ = caller.handle_packet(now, &packet);
        let _ = caller.handle_packet(now, &answer);
        let _ = caller.handle_packet(now, &packet);
    }
    pair.stream(10, 100);
    assert_eq!(pair.numbers().len(), 10);
}

#[test]
fn a_receiver_that_asks_for_everything_all_the_time_gets_each_packet_once_in_a_round_trip() {
    let mut pair = Pair::new(Network::GOOD, 1, &Both::default());
    pair.stream(100, 200);
    pair.world.loses = Some(Box::new(|_, packet| packet[0] & 0x80 != 0));
    let to = pair.sender.local().0.to_be_bytes();
    let before = pair.sender.counters().retransmitted_out;
    for _ in 0..50 {
        assert!(pair.sender.send(pair.world.now, &[0; 1316]));
    }
    pair.run_until(pair.world.now + Duration::from_millis(1));
    let mut nak = vec![0x80, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, to[0], to[1], to[2], to[3]];
    for number in 1100u32..1150 {
        nak.extend(number.to_be_bytes());
    }
    for _ in 0..1000 {
        let now = pair.world.now;
        let _ = pair.sender.handle_packet(now, &nak);
        pair.run_until(now + Duration::from_micros(100));
    }
    // The same range again and again in one report is none.
    nak.truncate(16);
    for _ in 0..180 {
        nak.extend([0x80, 0, 4, 0x4c, 0, 0, 4, 0x7d]);
    }
    let refused = pair.sender.handle_packet(pair.world.now, &nak);
    assert_eq!(refused, Err(srt::DropReason::Invalid));
    let again = pair.sender.counters().retransmitted_out - before;
    assert!(again <= 50 * 4, "{again}");
}
