//! Streams on a link that is fast enough.

use media::{Codec, FourCc, FrameRole, MediaKind, Metadata, Timestamp, TrackId};
use netsim::Random;
use node_link::{
    CHUNK_BYTES_MAX, Event, Lane, OTHERS_MAX, Position, Publication, StreamEnd, StreamKey, StreamRefusal,
    WINDOW_BYTES,
};

use crate::pair::{Pair, frame, ms, publication};

#[test]
fn frames_of_any_kind_and_length_arrive_as_they_were_sent_and_in_order() {
    let mut random = Random::new(1);
    let mut pair = Pair::up();
    let (fetched, served) = pair.fetch("live/жук");
    let (mut sent, mut arrived) = (Vec::new(), Vec::new());
    for number in 0..2_000_i64 {
        let track = TrackId {
            kind: [MediaKind::Video, MediaKind::Audio, MediaKind::Data][random.below(3) as usize],
            index: (random.below(8) == 0).into(),
        };
        let role = [FrameRole::Key, FrameRole::Inter, FrameRole::Audio, FrameRole::Config, FrameRole::Other]
            [random.below(5) as usize];
        let time = |random: &mut Random| Timestamp::from_units(random.next_u64().cast_signed() >> 3);
        let bytes = vec![number as u8; random.below(if number % 50 == 0 { 200_000 } else { 3_000 }) as usize];
        let codec = match random.below(4) {
            0 => Codec::Unknown(FourCc(*b"abcd")),
            _ => Codec::Aac,
        };
        let times = (time(&mut random), Timestamp::from_millis(number));
        let made = match random.below(4) {
            0 => media::Frame::metadata(Metadata::default(), times.1),
            1 => {
                let data = bytes.len() / 3..bytes.len();
                media::Frame::in_flv_body(track, role, codec, times, bytes, data)
            }
            _ => media::Frame::new(track, role, codec, times, bytes),
        };
        sent.push(made.clone());
        pair.listener.link.send(pair.now, served, made.into());
        if random.below(10) == 0 {
            pair.run(ms(30));
            arrived.extend(pair.dialer.take_frames(fetched));
        }
    }
    pair.run(ms(100));
    arrived.extend(pair.dialer.take_frames(fetched));
    assert_eq!(arrived.len(), sent.len());
    assert!(arrived == sent, "something is not as it was sent");
    let (stats, serving) = (pair.dialer.link.stats(), pair.listener.link.stats());
    assert_eq!((stats.frames_in, stats.missed, serving.left_out), (2_000, 0, 0));
}

#[test]
fn a_large_frame_lets_others_pass() {
    let mut pair = Pair::up();
    pair.rate = 1_000_000;
    let (large, large_served) = pair.fetch("live/large");
    let (small, small_served) = pair.fetch("live/small");
    pair.listener.link.send(pair.now, large_served, frame(TrackId::VIDEO, FrameRole::Key, 0, 500_000));
    for number in 0..10 {
        pair.listener.link.send(pair.now, small_served, frame(TrackId::AUDIO, FrameRole::Audio, number, 100));
    }
    // Ten turns: ten parts of the large one.
    pair.run(ms(180 + 30));
    assert_eq!(pair.dialer.take_frames(small).len(), 10);
    assert_eq!(pair.dialer.take_frames(large).len(), 0);
    pair.run(ms(400));
    assert_eq!(pair.dialer.take_frames(large).len(), 1);
}

#[test]
fn a_stream_that_is_not_used_waits_alone() {
    let mut pair = Pair::up();
    let (stalled, stalled_served) = pair.fetch("live/stalled");
    let (other, other_served) = pair.fetch("live/other");
    let size = 100_000;
    let (mut of_other, mut last) = (0, 0);
    for number in 0..200 {
        let key = frame(TrackId::VIDEO, FrameRole::Key, number * 40, size);
        pair.listener.link.send(pair.now, stalled_served, key.clone());
        pair.listener.link.send(pair.now, other_served, key);
        pair.run(ms(40));
        of_other += pair.dialer.take_frames(other).len();
        last = number * 40;
    }
    assert_eq!(of_other, 200);
    // What was not used is what the window takes, and one frame that had been begun.
    let waiting = pair.dialer.take_frames(stalled);
    let bytes: usize = waiting.iter().map(node_link::cost).sum();
    assert!(bytes >= WINDOW_BYTES as usize && bytes <= WINDOW_BYTES as usize + size + 64, "{bytes}");
    // Used now, it goes on with what is not late, and says what is missing.
    pair.run(ms(100));
    let (resumed, gaps) = (pair.dialer.take_frames(stalled), &pair.dialer.events);
    assert!(resumed.iter().all(|frame| last - frame.dts.millis() <= 800) && !resumed.is_empty());
    let missed: u32 =
        gaps.iter().map(|event| if let Event::Gap(_, frames) = event { *frames } else { 0 }).sum();
    assert_eq!(waiting.len() + missed as usize + resumed.len(), 200);
}

#[test]
fn streams_are_refused_and_end_for_reasons() {
    let mut pair = Pair::up();
    let refused = pair.dialer.link.subscribe("live/a").unwrap();
    pair.run(ms(20));
    let Some(Event::Subscribe(served, _)) = pair.listener.events.pop() else { panic!() };
    let others: Vec<String> = (0..20).map(|number| format!("edge-{number}")).collect();
    pair.listener.link.refuse_stream(served, StreamRefusal::Full, others.clone());
    pair.run(ms(20));
    let named = others[..OTHERS_MAX].to_vec();
    assert_eq!(pair.dialer.events.pop(), Some(Event::Refused(refused, StreamRefusal::Full, named)));

    let (fetched, served) = pair.fetch("live/a");
    pair.listener.link.skip(served, 7);
    for number in 0..3 {
        let audio = frame(TrackId::AUDIO, FrameRole::Audio, number, CHUNK_BYTES_MAX * 2);
        pair.listener.link.send(pair.now, served, audio);
    }
    pair.listener.link.end_stream(served, StreamEnd::PublisherEnded);
    pair.listener.link.send(pair.now, served, frame(TrackId::AUDIO, FrameRole::Audio, 3, 1));
    pair.run(ms(20));
    assert_eq!(pair.dialer.take_frames(fetched).len(), 3, "what was sent before the end arrives before it");
    assert_eq!(pair.dialer.events, [Event::Gap(fetched, 7), Event::End(fetched, StreamEnd::PublisherEnded)]);
}

#[test]
fn a_stream_that_is_let_go_brings_nothing_more() {
    let mut pair = Pair::up();
    let (fetched, served) = pair.fetch("live/a");
    for number in 0..100 {
        pair.listener.link.send(pair.now, served, frame(TrackId::AUDIO, FrameRole::Audio, number, 100));
    }
    pair.run(ms(2));
    pair.dialer.link.unsubscribe(fetched);
    pair.run(ms(3));
    // Sent before the other node knew.
    pair.listener.link.send(pair.now, served, frame(TrackId::AUDIO, FrameRole::Audio, 100, 100));
    pair.run(ms(50));
    assert_eq!(pair.listener.events, [Event::Unsubscribe(served)]);
    assert_eq!(pair.dialer.events, []);
    let (came, sent) = (pair.dialer.link.stats(), pair.listener.link.stats());
    assert_eq!(came.frames_in + came.unwanted, sent.frames_out, "what is dropped is counted");
    assert!(came.unwanted > 0);
    let bytes = pair.listener.link.stats().bytes_out;
    pair.listener.link.send(pair.now, served, frame(TrackId::AUDIO, FrameRole::Audio, 101, 100_000));
    pair.run(ms(50));
    assert!(pair.listener.link.stats().bytes_out < bytes + 100, "nothing but pings");

    // Both ends at once: each is content.
    let (fetched, served) = pair.fetch("live/a");
    pair.dialer.link.unsubscribe(fetched);
    pair.listener.link.end_stream(served, StreamEnd::Lost);
    pair.run(ms(50));
    assert_eq!((&pair.dialer.error, &pair.listener.error), (&None, &None));
    pair.fetch("live/a");
}

#[test]
fn what_streams_of_packets_need_crosses_in_order() {
    let mut pair = Pair::up();
    let fetched = pair.dialer.link.subscribe("live/rtc").unwrap();
    pair.run(ms(20));
    let Some(Event::Subscribe(served, _)) = pair.listener.events.pop() else { panic!() };
    let packets = Publication { lane: Lane::Packets, tracks: b"tracks".to_vec(), ..publication() };
    pair.listener.link.accept_stream(served, packets.clone());
    pair.listener.link.send_key(served, &StreamKey([1; 32]));
    pair.run(ms(20));
    pair.dialer.link.attach(fetched, 0x1234, Some(Position { epoch: 2, index: 77 }));
    pair.listener.link.announce_relay("192.0.2.1:8290");
    pair.listener.link.send_key(served, &StreamKey([2; 32]));
    // A stream of packets has no frames here.
    pair.listener.link.send(pair.now, served, frame(TrackId::AUDIO, FrameRole::Audio, 0, 1));
    pair.run(ms(20));
    let position = Position { epoch: 2, index: 77 };
    assert_eq!(pair.listener.events, [Event::Attach(served, 0x1234, Some(position))]);
    pair.listener.events.clear();
    pair.dialer.link.left(fetched, "edge-1");
    pair.run(ms(20));
    assert_eq!(pair.listener.events, [Event::Left(served, "edge-1".to_owned())]);
    assert_eq!(
        pair.dialer.events,
        [
            Event::Accepted(fetched, packets),
            Event::Key(fetched, StreamKey([1; 32])),
            Event::Relay("192.0.2.1:8290".to_owned()),
            Event::Key(fetched, StreamKey([2; 32])),
        ]
    );
}
