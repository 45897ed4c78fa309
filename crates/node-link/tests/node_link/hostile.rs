//! Nodes that have the secret and break the protocol: the link ends with a reason, and memory is bounded.

use node_link::{CHUNK_BYTES_MAX, LinkError, STREAMS_MAX, WINDOW_BYTES};

use crate::pair::{Pair, ms};

/// A message as it is on the wire.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = (body.len() as u16).to_be_bytes();
    [&[kind, high, low], body].concat()
}

#[test]
fn what_breaks_the_protocol_ends_the_link_and_says_what_it_was() {
    // A frame of one byte of audio, of stream 1.
    let frame = message(7, &[1, 0b0_1100, 6, 0, 1, 0xaa]);
    // (what the listener sends to a node that fetches stream 1, what it is, remark)
    let cases: [(Vec<u8>, LinkError, &str); 12] = [
        (message(99, &[1]), LinkError::Malformed("a message of no kind"), "unknown kind"),
        (message(7, &[9, 0, 0, 0, 0]), LinkError::Malformed("a message about no stream"), "unknown stream"),
        (message(8, &[1, 0]), LinkError::Malformed("a part of no frame"), "a part without a beginning"),
        (message(7, &[1, 3]), LinkError::Malformed("a frame"), "half a head"),
        (message(7, &[1, 0b0_1100, 6, 0, 1, 1, 2]), LinkError::Malformed("a frame longer than it said"), ""),
        (
            [message(7, &[1, 0b0_1100, 6, 0, 9, 1]), frame.clone()].concat(),
            LinkError::Malformed("a frame within another"),
            "",
        ),
        (
            message(2, &[[1, 0].as_slice(), &[0; 17]].concat()),
            LinkError::Malformed("a second acceptance"),
            "",
        ),
        (message(9, &[1, 1]).repeat(2), LinkError::Malformed("a gap behind another"), ""),
        (
            message(14, &[[1].as_slice(), &[0; 32]].concat()).repeat(17),
            LinkError::Malformed("a key behind too many others"),
            "",
        ),
        (vec![7, 0x7f, 0xff], LinkError::Malformed("a message that is too long"), ""),
        (message(12, &[77]), LinkError::Malformed("a goodbye"), "an unknown reason"),
        (
            message(1, &[1, 0, 3, b'a', 7, b'b']),
            LinkError::Malformed("a subscription"),
            "a control character",
        ),
    ];
    for (bytes, error, remark) in cases {
        let mut pair = Pair::up();
        let (fetched, _) = pair.fetch("live/a");
        pair.listener.inject(pair.now, &frame);
        pair.run(ms(20));
        assert_eq!(pair.dialer.take_frames(fetched).len(), 1, "the frame that all are made of is one");
        pair.listener.inject(pair.now, &bytes);
        pair.run(ms(20));
        assert_eq!(pair.dialer.error, Some(error.clone()), "{error} {remark}");
        // It is over: nothing changes that.
        pair.dialer.link.handle_input(pair.now, &frame).unwrap();
        assert!(pair.dialer.link.poll_event().is_none());
    }
}

#[test]
fn frames_beyond_the_credit_end_the_link_however_small_they_are() {
    for bytes in [0, 1, CHUNK_BYTES_MAX] {
        let mut pair = Pair::up();
        pair.fetch("live/a");
        let mut body = vec![1, 0b0_1100, 6, 0];
        let mut len = bytes;
        while len >= 0x80 {
            body.push(len as u8 | 0x80);
            len >>= 7;
        }
        body.push(len as u8);
        body.extend(vec![0; bytes]);
        let frame = message(7, &body);
        let taken = WINDOW_BYTES as usize / (bytes + 64);
        for _ in 0..=taken + 1 {
            pair.listener.inject(pair.now, &frame);
        }
        pair.run(ms(20));
        assert_eq!(pair.dialer.error, Some(LinkError::BeyondCredit), "{bytes} bytes");
        assert!(pair.dialer.events.len() <= taken + 1);
    }
}

#[test]
fn a_node_that_does_not_read_is_given_up() {
    let mut pair = Pair::up();
    pair.rate = 1;
    for number in 0..200_000_u32 {
        let mut ping = number.to_be_bytes().to_vec();
        ping[0] = 0;
        pair.dialer.inject(pair.now, &message(10, &[0x81 | ping[3], 0x80 | ping[2], 1]));
    }
    pair.run(ms(100));
    assert_eq!(pair.listener.error, Some(LinkError::NotReading));
}

#[test]
fn streams_have_a_number_and_no_more_of_them_than_the_limit() {
    let mut pair = Pair::up();
    for _ in 0..STREAMS_MAX {
        pair.dialer.link.subscribe("live/a").unwrap();
    }
    assert!(pair.dialer.link.subscribe("live/a").is_err());
    pair.run(ms(2_000));
    let asked = pair.listener.events.len();
    assert_eq!(asked, STREAMS_MAX);
    // One that does not count for itself is refused, and the link stays.
    pair.dialer.inject(pair.now, &message(1, &[0xff, 0xff, 0xff, 1, 0, 1, b'a']));
    pair.run(ms(50));
    assert_eq!(pair.listener.events.len(), asked);
    assert_eq!(pair.listener.error, None);
    assert_eq!(pair.dialer.error, Some(LinkError::Malformed("a message about no stream")));
}
