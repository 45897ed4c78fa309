//! AMF0 that nests, counts or stretches beyond the limits ends the session, whatever it promised.

use crate::common::*;
use rtmp::RtmpError;
use rtmp::amf0::{Decoder, Limits, Value};
use rtmp::message::{COMMAND_BYTES_MAX, DATA_BYTES_MAX};
use rtmp::server::{ServerConfig, ServerEvent};

fn decode(input: &[u8]) -> Result<Value, RtmpError> {
    Decoder::new(input, Limits::COMMAND).next_value().map(Option::unwrap)
}

/// `depth` objects or arrays inside one another.
fn nested(depth: usize, open: &[u8], close: &[u8]) -> Vec<u8> {
    [open.repeat(depth), vec![5], close.repeat(depth)].concat()
}

#[test]
fn nesting_is_limited_in_every_container() {
    for (open, close) in [
        (&[3, 0, 1, b'a'][..], &[0, 0, 9][..]),      // object
        (&[8, 0, 0, 0, 1, 0, 1, b'a'], &[0, 0, 9]),  // ECMA array
        (&[10, 0, 0, 0, 1], &[]),                    // strict array
        (&[16, 0, 1, b'c', 0, 1, b'a'], &[0, 0, 9]), // typed object
    ] {
        assert!(decode(&nested(8, open, close)).is_ok());
        assert_eq!(decode(&nested(9, open, close)), Err(RtmpError::AmfTooDeep));
        assert_eq!(decode(&nested(100_000, open, close)), Err(RtmpError::AmfTooDeep));
    }
}

#[test]
fn values_are_limited_over_the_whole_message() {
    let array = |count: u32| [&[10][..], &count.to_be_bytes(), &vec![5; count as usize]].concat();
    assert!(decode(&array(255)).is_ok());
    assert_eq!(decode(&array(256)), Err(RtmpError::AmfTooManyValues));
    let object = |count: usize| [&[3][..], &[0, 1, b'a', 5].repeat(count), &[0, 0, 9]].concat();
    assert!(decode(&object(255)).is_ok());
    assert_eq!(decode(&object(256)), Err(RtmpError::AmfTooManyValues));
    let mut decoder = Decoder::new(&[5; 257], Limits::COMMAND);
    let count = std::iter::from_fn(|| decoder.next_value().ok().flatten()).count();
    assert_eq!(count, 256);
}

#[test]
fn strings_and_names_are_limited() {
    let text = |length: usize| [&[12][..], &(length as u32).to_be_bytes(), &vec![b'x'; length]].concat();
    assert!(decode(&text(16 * 1024)).is_ok());
    assert_eq!(decode(&text(16 * 1024 + 1)), Err(RtmpError::AmfStringTooLong));
    let name = [&[3, 0xff, 0xff][..], &[b'x'; 0xffff], &[5, 0, 0, 9]].concat();
    assert_eq!(decode(&name), Err(RtmpError::AmfStringTooLong));
}

#[test]
fn a_session_ends_with_the_reason() {
    for (argument, error) in [
        (nested(9, &[3, 0, 1, b'a'], &[0, 0, 9]), RtmpError::AmfTooDeep),
        (vec![5; 300], RtmpError::AmfTooManyValues),
        (vec![7, 0, 0], RtmpError::AmfUnsupported),
        (vec![2, 0, 9, b'x'], RtmpError::AmfMalformed),
    ] {
        let mut server = server_after_handshake(&ServerConfig::default());
        let payload = [amf(&["connect".into(), 1.0.into()]), argument].concat();
        assert_eq!(server.handle_input(&message0(3, 0, 20, &payload)), Err(error));
        assert!(server.poll_event().is_none());
    }
    let mut server = server_after_handshake(&ServerConfig::default());
    assert_eq!(
        server.handle_input(&message0(3, 0, 20, &[0, 1])),
        Err(RtmpError::AmfMalformed),
        "name is no string"
    );
    let mut server = server_after_handshake(&ServerConfig::default());
    assert_eq!(server.handle_input(&message0(3, 0, 20, &[])), Err(RtmpError::AmfMalformed), "empty command");
}

#[test]
fn a_command_too_long_is_refused_at_its_header_from_publishers_as_well() {
    for kind in [20, 17] {
        for server in [server_connected, server_publishing] {
            let announce =
                |bytes| server(&ServerConfig::default()).handle_input(&header0(10, 0, bytes, kind, 1));
            assert_eq!(announce(COMMAND_BYTES_MAX), Ok(()));
            assert_eq!(announce(COMMAND_BYTES_MAX + 1), Err(RtmpError::MessageTooLarge));
        }
    }
}

#[test]
fn a_data_message_too_long_is_skipped_and_the_next_is_read() {
    let mut publisher = server_publishing(&ServerConfig::default());
    let nested = [3, 0, 1, b'a'].repeat(DATA_BYTES_MAX as usize / 4 + 1);
    for piece in message0(10, 0, 18, &nested).chunks(1000) {
        publisher.handle_input(piece).unwrap();
        assert!(publisher.buffered_bytes() < 10_000, "{}", publisher.buffered_bytes());
    }
    publisher.handle_input(&message0(10, 0, 18, &nested[..DATA_BYTES_MAX as usize])).unwrap();
    // The same in an aggregate.
    let part = [&[18][..], &(nested.len() as u32).to_be_bytes()[1..], &[0; 7], &nested[..], &[0; 4]].concat();
    publisher.handle_input(&message0(10, 0, 22, &part)).unwrap();
    let kept = std::iter::from_fn(|| publisher.poll_event()).map(|event| match event {
        ServerEvent::Media(media) => media.payload.len() as u32,
        other => panic!("{other:?}"),
    });
    assert_eq!(kept.collect::<Vec<_>>(), [0, DATA_BYTES_MAX, 0]);
}
