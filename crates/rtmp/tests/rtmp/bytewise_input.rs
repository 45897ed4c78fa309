//! A session fed in any pieces does what it does when fed at once.

use crate::common::*;
use proptest::prelude::*;
use rtmp::amf0::Value;
use rtmp::chunk::{ChunkReader, ChunkWriter, OutgoingMessage};
use rtmp::message::{MessageHeader, media_kind, type_id};
use rtmp::server::{ServerConfig, ServerEvent, ServerSession};
use rtmp::{MediaKind, RtmpError};

/// What a server told and wrote, with each question answered yes when it is seen.
fn drive(pieces: impl Iterator<Item = Vec<u8>>) -> (Result<(), RtmpError>, Vec<ServerEvent>, Vec<u8>) {
    let mut server = ServerSession::new(&ServerConfig::default(), 3);
    let (mut events, mut output) = (Vec::new(), Vec::new());
    for piece in pieces {
        let result = server.handle_input(&piece);
        while let Some(event) = server.poll_event() {
            match event {
                ServerEvent::Connect(_) => server.accept_connect(),
                ServerEvent::Publish(_) => server.accept_publish(),
                ServerEvent::Play(_) => server.accept_play(),
                _ => {}
            }
            events.push(event);
        }
        output.append(server.output());
        if let Some(failure) = result.err().or(server.failure()) {
            return (Err(failure), events, output);
        }
    }
    (Ok(()), events, output)
}

/// Everything a publisher sends, from C0 on.
fn publisher(messages: &[(u8, u32, Vec<u8>)], chunk_size: u32) -> Vec<u8> {
    let mut input = vec![0; 1 + 2 * 1536];
    input[0] = 3;
    let mut writer = ChunkWriter::new();
    writer.set_chunk_size(&mut input, chunk_size);
    let header = |type_id, timestamp| MessageHeader { type_id, stream_id: 1, timestamp, length: 0 };
    for (name, values) in [
        ("connect", vec![object(&[("app", "live".into())])]),
        ("createStream", vec![Value::Null]),
        ("publish", vec![Value::Null, "stream".into(), "live".into()]),
    ] {
        let payload = [amf(&[name.into(), 1.0.into()]), amf(&values)].concat();
        writer.write(&mut input, 3, header(20, 0), &payload);
    }
    for pair in messages.chunks(2) {
        let messages: Vec<_> = pair
            .iter()
            .enumerate()
            .map(|(index, (type_id, timestamp, payload))| OutgoingMessage {
                chunk_stream_id: 4 + 70 * index as u32,
                header: header(*type_id, *timestamp),
                payload,
            })
            .collect();
        writer.write_interleaved(&mut input, &messages);
    }
    input
}

fn split(input: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> =
        cuts.iter().map(|cut| cut % (input.len() + 1)).chain([0, input.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|range| input[range[0]..range[1]].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_make_no_difference(
        messages in proptest::collection::vec(
            (
                prop_oneof![Just(8u8), Just(9), Just(18)],
                prop_oneof![0u32..100, 0xff_fff0u32..0x100_0010, Just(u32::MAX)],
                proptest::collection::vec(any::<u8>(), 0..600),
            ),
            0..12,
        ),
        chunk_size in prop_oneof![1u32..200, Just(60_000u32)],
        cuts in proptest::collection::vec(any::<usize>(), 0..20),
    ) {
        let input = publisher(&messages, chunk_size);
        let (result, events, output) = drive(std::iter::once(input.clone()));
        prop_assert_eq!(result, Ok(()));
        let media: Vec<_> = events.iter().filter_map(|event| match event {
            ServerEvent::Media(media) => Some((type_id(media.kind), media.timestamp, media.payload.clone())),
            _ => None,
        }).collect();
        let mut expected = messages;
        let mut sorted = media;
        // Of two messages written together the shorter one is whole first.
        expected.sort();
        sorted.sort();
        prop_assert!(sorted == expected);
        let cut = drive(split(&input, &cuts).into_iter());
        let bytewise = drive(input.iter().map(|byte| vec![*byte]));
        prop_assert!(cut == (Ok(()), events.clone(), output.clone()));
        prop_assert!(bytewise == (Ok(()), events, output));
    }

    #[test]
    fn garbage_in_pieces_fails_where_garbage_at_once_does(
        input in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..8, Just(0xc4u8), Just(0xffu8)], 0..400),
        cuts in proptest::collection::vec(any::<usize>(), 0..20),
    ) {
        let read = |pieces: Vec<Vec<u8>>| {
            let mut reader = ChunkReader::new(WIDE);
            let mut messages = Vec::new();
            for piece in pieces {
                let mut piece = &piece[..];
                loop {
                    match reader.next_message(&mut piece) {
                        Ok(Some(message)) => messages.push(message),
                        Ok(None) => break,
                        Err(error) => return (messages, Err(error)),
                    }
                }
            }
            (messages, Ok(()))
        };
        let at_once = read(vec![input.clone()]);
        prop_assert_eq!(&read(split(&input, &cuts)), &at_once);
        prop_assert_eq!(&read(input.iter().map(|byte| vec![*byte]).collect()), &at_once);
    }
}

#[test]
fn kinds_and_type_ids_agree() {
    for kind in [MediaKind::Audio, MediaKind::Video, MediaKind::Data] {
        assert_eq!(media_kind(type_id(kind)), Some(kind));
    }
    assert_eq!(media_kind(15), None);
}
