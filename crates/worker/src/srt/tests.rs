use std::io::IoSlice;
use std::time::Duration;

use srt::{Accept, Call, Caller, DATAGRAM_BYTES_MAX, HEADER_BYTES, Incoming, Limits, SequenceNumber};

use super::*;
use crate::net::Clock;

/// A link to a caller that has been let in.
fn link(now: Instant, limits: Limits) -> SrtLink {
    let (secret, peer) = (CookieSecret::new(&[1; 32]), SocketAddr::from(([192, 0, 2, 1], 1)));
    let latency = Duration::from_millis(120);
    let call = Call {
        socket: SocketId(1),
        initial: SequenceNumber::new(1),
        stream_id: "read:live/a".to_owned(),
        receive_latency: latency,
        send_latency: latency,
        latency_max: latency,
        encryption: None,
        timeout: latency,
        limits,
    };
    let mut caller = Caller::new(now, call);
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let len = caller.poll_transmit(now, &mut out).expect("in time").expect("an induction");
    let Ok(Incoming::Induction(answer)) = secret.handle(latency, peer, &out[..len]) else {
        panic!("no induction");
    };
    caller.handle_packet(now, &answer).expect("a cookie");
    let len = caller.poll_transmit(now, &mut out).expect("in time").expect("a conclusion");
    let Ok(Incoming::Conclusion(request)) = secret.handle(latency, peer, &out[..len]) else {
        panic!("no conclusion");
    };
    let socket = SocketId(2);
    let accept = Accept { socket, latency, latency_max: latency, passphrase: None, limits };
    let (connection, answer) = request.read().and_then(|asked| asked.accept(now, &accept)).expect("let in");
    SrtLink {
        connection,
        demuxer: None,
        port: 0,
        peer,
        answer: answer.into(),
        due: None,
        is_dirty: false,
        is_answered: true,
        pending: None,
        received: (0, 0),
        media_ms: 0,
        _place: None,
    }
}

/// Payloads that leave.
fn leaving(link: &mut SrtLink, now: Instant) -> Vec<Vec<u8>> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let next = || link.connection.poll_transmit(now, &mut out).map(|len| out[HEADER_BYTES..len].to_vec());
    std::iter::from_fn(next).collect()
}

#[test]
fn packets_of_a_stream_are_put_together_by_sevens_wherever_its_bytes_are_cut() {
    let now = Clock::now();
    let stream: Vec<u8> = (0..23 * PACKET_BYTES).map(|at| (at / PACKET_BYTES) as u8).collect();
    for cut in [1, 100, 188, 700, 1316, 2000, stream.len()] {
        let mut link = link(now, Limits::default());
        let slices: Vec<IoSlice<'_>> = stream.chunks(cut).map(IoSlice::new).collect();
        assert_eq!(link.write(now, &slices).expect("there is room"), stream.len());
        let payloads = leaving(&mut link, now);
        let lengths: Vec<usize> = payloads.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1316, 1316, 1316, 2 * PACKET_BYTES], "{cut}");
        assert_eq!(payloads.concat(), stream);
    }
}

#[test]
fn a_link_takes_no_more_than_may_wait_and_goes_on_where_it_stopped() {
    let now = Clock::now();
    let mut link = link(now, Limits { send_bits_per_second_max: 8_000_000, ..Limits::default() });
    let stream = vec![7; 300 * TS_PAYLOAD_BYTES];
    let taken = link.write(now, &[IoSlice::new(&stream)]).expect("there is room");
    assert_eq!(taken, WAITING_MAX * TS_PAYLOAD_BYTES);
    let full = link.write(now, &[IoSlice::new(&stream[taken..])]).expect_err("it is full");
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    let sent = leaving(&mut link, now).len();
    assert!((1..20).contains(&sent), "a burst leaves: {sent}");
    let more = link.write(now, &[IoSlice::new(&stream[taken..])]).expect("as many as have left");
    assert_eq!(more, sent * TS_PAYLOAD_BYTES);
}
