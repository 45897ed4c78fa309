//! What is lost is sent again in time, and what is not is dropped in time.

use std::time::Duration;

use srt::{Connection, End};

use crate::world::{Both, Network, Pair, Side, World, payload};

/// 190 packets of 1316 bytes: 2 Mbit/s.
const PER_SECOND: u32 = 190;

#[test]
fn ten_percent_loss_with_50_ms_round_trip_and_400_ms_latency_loses_nothing() {
    for seed in 1..=4 {
        let network = Network { loss_percent: 10, ..Network::GOOD };
        let mut pair = Pair::new(network, seed, &Both::default());
        pair.stream(60 * PER_SECOND, PER_SECOND);
        let (sent, received) = (pair.sender.counters(), pair.receiver.counters());
        assert_eq!(pair.numbers().len() as u32, 60 * PER_SECOND, "seed {seed}: {received:?}");
        assert_eq!((received.dropped_in, sent.dropped_out), (0, 0));
        assert!(received.lost_in > 900 && received.retransmitted_in > 900, "{received:?}");
        // Each lost packet is sent again once, and again where that is lost as well.
        let again = sent.retransmitted_out as f64 / received.lost_in as f64;
        assert!(again < 1.25, "{again}");
        let round_trip = pair.receiver.round_trip().expect("it was measured");
        assert!((40..70).contains(&round_trip.as_millis()), "{round_trip:?}");
    }
}

#[test]
fn packets_come_out_as_late_as_agreed_and_evenly() {
    for loss_percent in [0, 5, 10] {
        let network = Network { loss_percent, jitter: Duration::from_millis(20), ..Network::GOOD };
        let mut pair = Pair::new(network, 7, &Both::default());
        let start = pair.world.now;
        pair.stream(10 * PER_SECOND, PER_SECOND);
        assert_eq!(pair.numbers().len() as u32, 10 * PER_SECOND);
        for (number, (at, _)) in pair.received.iter().enumerate() {
            let sent_at = Duration::from_secs(1) * number as u32 / PER_SECOND;
            let delay = (*at - start) - sent_at;
            // The network's 25 ms, which the handshake has made part of the clock, and the latency.
            assert!((424..=427).contains(&delay.as_millis()), "{number}: {delay:?}");
        }
    }
}

#[test]
fn reordered_and_doubled_packets_come_out_in_order_and_once() {
    let network =
        Network { jitter: Duration::from_millis(60), doubled_percent: 20, loss_percent: 2, ..Network::GOOD };
    let mut pair = Pair::new(network, 9, &Both::default());
    pair.stream(20 * PER_SECOND, PER_SECOND);
    assert_eq!(pair.numbers().len() as u32, 20 * PER_SECOND);
    assert!(pair.receiver.counters().late_in > 100);
}

#[test]
fn what_never_comes_is_given_up_and_the_rest_is_on_time() {
    let network = Network { loss_percent: 60, ..Network::GOOD };
    let mut pair = Pair::new(network, 5, &Both::default());
    pair.stream(10 * PER_SECOND, PER_SECOND);
    let counters = pair.receiver.counters();
    let received = pair.numbers().len() as u64;
    assert!(counters.dropped_in > 0 && received + counters.dropped_in <= u64::from(10 * PER_SECOND));
    assert!(received > u64::from(10 * PER_SECOND) / 2, "{counters:?}");
}

#[test]
fn a_player_whose_answer_is_lost_has_all_that_is_sent_behind_it_in_time() {
    for lost in 0..4 {
        let mut world = World::new(Network::GOOD, 3);
        let mut answers = 0;
        world.loses = Some(Box::new(move |to, packet| {
            let is_answer = to == Side::Caller && packet.starts_with(&[0x80, 0]) && packet.len() > 64;
            answers += u32::from(is_answer);
            is_answer && answers <= lost
        }));
        let mut sent_at = Vec::new();
        let mut send = |now, connection: &mut Connection| {
            let number = sent_at.len() as u32;
            let due = sent_at.first().copied().unwrap_or(now) + Duration::from_secs(1) * number / PER_SECOND;
            if due > now {
                return Some(due);
            }
            assert!(connection.send(now, &payload(number)));
            sent_at.push(now);
            Some(now)
        };
        let (receiver, sender) = world.connect_to(&Both::default(), &mut send).expect("a connection");
        let mut pair = Pair { world, sends: Side::Listener, sender, receiver, received: Vec::new() };
        for _ in 0..PER_SECOND {
            while send(pair.world.now, &mut pair.sender).is_some_and(|due| due <= pair.world.now) {}
            pair.run_until(pair.world.now + Duration::from_secs(1) / PER_SECOND);
        }
        pair.run_until(pair.world.now + Duration::from_secs(1));
        assert_eq!(pair.numbers(), (0..sent_at.len() as u32).collect::<Vec<_>>(), "{lost} were lost");
        for ((at, _), sent_at) in pair.received.iter().zip(&sent_at) {
            let delay = (*at - *sent_at).as_millis();
            assert!((424..=427).contains(&delay), "{delay} ms, {lost} were lost");
        }
    }
}

#[test]
fn the_last_packet_is_sent_again_without_being_asked_for() {
    let mut pair = Pair::new(Network::GOOD, 3, &Both::default());
    pair.stream(10, PER_SECOND);
    // It is lost, and nothing comes behind it that would show that.
    pair.world.loses = Some(Box::new(|to, packet| to == Side::Listener && packet[0] & 0x80 == 0));
    assert!(pair.sender.send(pair.world.now, &[10; 1316]));
    pair.run_until(pair.world.now + Duration::from_millis(30));
    pair.world.loses = None;
    pair.run_until(pair.world.now + Duration::from_secs(1));
    assert_eq!(pair.received.len(), 11);
}

#[test]
fn an_outage_is_survived_and_a_longer_one_ends_both() {
    let mut pair = Pair::new(Network::GOOD, 3, &Both::default());
    pair.stream(100, PER_SECOND);
    pair.world.network.loss_percent = 100;
    pair.stream(4 * PER_SECOND / 2, PER_SECOND);
    pair.world.network.loss_percent = 0;
    pair.received.clear();
    pair.stream(100, PER_SECOND);
    assert_eq!(pair.received.len(), 100, "what comes behind an outage of four seconds comes");
    pair.world.network.loss_percent = 100;
    pair.run_until(pair.world.now + Duration::from_secs(6));
    assert_eq!((pair.sender.end(), pair.receiver.end()), (Some(End::Silent), Some(End::Silent)));
}

#[test]
fn a_host_that_was_paused_keeps_its_connections() {
    // Longer than a peer may be silent; neither end is driven meanwhile, as on a host that is moved.
    for pause in [Duration::from_secs(7), Duration::from_secs(3600)] {
        let mut pair = Pair::new(Network::GOOD, 3, &Both::default());
        pair.stream(100, PER_SECOND);
        pair.world.now += pause;
        pair.received.clear();
        pair.stream(100, PER_SECOND);
        assert_eq!((pair.sender.end(), pair.receiver.end()), (None, None), "{pause:?}");
        assert_eq!(pair.received.len(), 100, "{pause:?}");
    }
}

#[test]
fn a_peer_that_stays_silent_behind_a_pause_is_over() {
    let mut pair = Pair::new(Network::GOOD, 3, &Both::default());
    pair.world.network.loss_percent = 100;
    pair.world.now += Duration::from_secs(60);
    pair.run_until(pair.world.now + Duration::from_secs(6));
    assert_eq!((pair.sender.end(), pair.receiver.end()), (Some(End::Silent), Some(End::Silent)));
}

#[test]
fn who_gives_up_says_so_to_a_peer_that_may_still_hear() {
    let mut pair = Pair::new(Network::GOOD, 3, &Both::default());
    // Nothing comes back, all goes out.
    pair.world.loses = Some(Box::new(|to, _| to == Side::Caller));
    pair.run_until(pair.world.now + Duration::from_secs(6));
    assert_eq!((pair.sender.end(), pair.receiver.end()), (Some(End::Silent), Some(End::Shutdown)));
}

#[test]
fn a_quiet_connection_is_kept_and_an_end_is_told() {
    let mut pair = Pair::new(Network::GOOD, 3, &Both::default());
    pair.run_until(pair.world.now + Duration::from_secs(60));
    assert_eq!((pair.sender.end(), pair.receiver.end()), (None, None));
    pair.sender.close(pair.world.now);
    pair.run_until(pair.world.now + Duration::from_secs(1));
    assert_eq!((pair.sender.end(), pair.receiver.end()), (Some(End::Closed), Some(End::Shutdown)));
    assert!(!pair.sender.send(pair.world.now, &[0; 188]));
}

#[test]
fn a_fast_sender_waits_for_the_peers_window() {
    let mut both = Both::default();
    both.accept.limits.window_packets = 64;
    let mut pair = Pair::new(Network::GOOD, 3, &both);
    let mut sent = 0u32;
    while sent < 500 {
        let now = pair.world.now;
        while pair.sender.waiting() < 16 && sent < 500 {
            let mut payload = vec![sent as u8; 1316];
            payload[..4].copy_from_slice(&sent.to_be_bytes());
            assert!(pair.sender.send(now, &payload));
            sent += 1;
        }
        pair.run_until(now + Duration::from_millis(5));
        let (packets, ..) = pair.receiver.status(pair.world.now).receive_buffer;
        assert!(packets <= 64);
    }
    pair.run_until(pair.world.now + Duration::from_secs(20));
    // A window that is too small for the latency at this rate: what waits for too long is dropped.
    let dropped = (pair.sender.counters().dropped_out + pair.receiver.counters().dropped_in) as usize;
    assert!(pair.numbers().len() >= 480 && pair.numbers().len() + dropped >= 500, "{dropped}");
}
