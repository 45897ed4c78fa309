//! A session goes on in another process as if it had never changed places, wherever its input is
//! cut.

use crate::common::*;
use proptest::prelude::*;
use rtmp::RtmpError;
use rtmp::amf0::Value;
use rtmp::chunk::{ChunkReader, ChunkWriter, OutgoingMessage};
use rtmp::message::MessageHeader;
use rtmp::server::{ServerConfig, ServerEvent, ServerSession, SessionState};
use serde_json::json;

/// A session, with its events and output so far. Each question is answered with yes.
struct Run {
    server: ServerSession,
    events: Vec<ServerEvent>,
    output: Vec<u8>,
}

impl Run {
    fn new() -> Self {
        Self::of(ServerSession::new(&ServerConfig::default(), 3))
    }

    fn of(server: ServerSession) -> Self {
        Self { server, events: Vec::new(), output: Vec::new() }
    }

    fn take(&mut self, input: &[u8]) -> Result<(), RtmpError> {
        let result = self.server.handle_input(input);
        while let Some(event) = self.server.poll_event() {
            match event {
                ServerEvent::Connect(_) => self.server.accept_connect(),
                ServerEvent::Publish(_) => self.server.accept_publish(),
                ServerEvent::Play(_) => self.server.accept_play(),
                _ => {}
            }
            self.events.push(event);
        }
        self.output.append(self.server.output());
        self.server.failure().map_or(result, Err)
    }

    /// Whether it could be handed over, and then was.
    fn hand_over(&mut self) -> bool {
        let Some(state) = self.server.state() else { return false };
        self.server = ServerSession::resume(&ServerConfig::default(), sent(&state)).unwrap();
        assert!(self.server.output().is_empty());
        assert_eq!(self.server.state(), Some(state));
        true
    }
}

/// A state that another process has read.
fn sent(state: &SessionState) -> SessionState {
    rmp_serde::from_slice(&rmp_serde::to_vec_named(state).unwrap()).unwrap()
}

/// The same in a form that can be changed.
fn json(server: &ServerSession) -> serde_json::Value {
    serde_json::to_value(server.state().expect("it publishes or plays")).unwrap()
}

fn resume(config: &ServerConfig, state: serde_json::Value) -> Result<ServerSession, RtmpError> {
    ServerSession::resume(config, serde_json::from_value(state).unwrap())
}

/// What a client sends first: its handshake and commands on chunk stream 3.
fn commands(chunk_size: u32, commands: &[(&str, Vec<Value>)]) -> (Vec<u8>, ChunkWriter) {
    let mut input = vec![0; 1 + 2 * 1536];
    input[0] = 3;
    let mut writer = ChunkWriter::new();
    writer.set_chunk_size(&mut input, chunk_size);
    write_commands(&mut input, &mut writer, commands);
    (input, writer)
}

fn write_commands(input: &mut Vec<u8>, writer: &mut ChunkWriter, commands: &[(&str, Vec<Value>)]) {
    for (number, (name, values)) in (1..).zip(commands) {
        let payload = [amf(&[(*name).into(), f64::from(number).into()]), amf(values)].concat();
        writer.write(input, 3, header(20, 0), &payload);
    }
}

fn header(type_id: u8, timestamp: u32) -> MessageHeader {
    MessageHeader { type_id, stream_id: 1, timestamp, length: 0 }
}

fn connect(app: &str) -> (&'static str, Vec<Value>) {
    ("connect", vec![object(&[("app", app.into())])])
}

fn publish(name: &str) -> (&'static str, Vec<Value>) {
    ("publish", vec![Value::Null, name.into(), "live".into()])
}

fn play() -> (&'static str, Vec<Value>) {
    ("play", vec![Value::Null, "stream".into()])
}

/// Bytes that do not repeat within a message.
fn payload(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// A publisher, from C0 to its second stream.
fn publisher() -> Vec<u8> {
    let (mut input, mut writer) = commands(
        200,
        &[connect("live"), ("releaseStream", vec![]), ("createStream", vec![Value::Null]), publish("a")],
    );
    // The smallest window there is, so that acknowledgements are among the output.
    input.extend(message0(2, 0, 5, &4096u32.to_be_bytes()));
    let metadata = amf(&["@setDataFrame".into(), "onMetaData".into(), object(&[("width", 640.0.into())])]);
    writer.write(&mut input, 4, header(18, 0), &metadata);
    writer.write(&mut input, 4, header(15, 0), &[&[0], &metadata[..]].concat());
    // Three messages at a time on chunk streams of one, two and three bytes, with plain and
    // extended times, whose deltas are small, the same again, extended and backwards.
    let times = [0, 20, 40, 0xff_fffe, 0x100_0000, 0x100_0014, 0x100_0028, 0x200_0028, 30, u32::MAX, 12];
    for (number, time) in times.into_iter().enumerate() {
        let video = payload(230, number as u8);
        let audio = payload(60 + number / 3, number as u8);
        let data = amf(&["onTextData".into(), (number as f64).into()]);
        let message = |chunk_stream_id, type_id, payload| OutgoingMessage {
            chunk_stream_id,
            header: header(type_id, time),
            payload,
        };
        writer.write_interleaved(
            &mut input,
            &[message(6, 9, &video[..]), message(64, 8, &audio[..]), message(400, 18, &data[..])],
        );
        if number % 3 == 2 {
            writer.set_chunk_size(&mut input, [33, 4000, 50][number / 3 % 3]);
        }
    }
    // Times of continued messages that are left out, and those that only seem to be there; a chunk
    // size that changes, an aggregate and an abort while a message is unfinished.
    input.extend(set_chunk_size(40));
    input.extend(header0(9, 0x100_0203, 100, 9, 1));
    input.extend(payload(40, 1));
    input.extend([0xc9, 1, 0, 2, 7]);
    input.extend(payload(36, 2));
    input.extend(set_chunk_size(20));
    let part = |type_id: u8, time: u8, payload: &[u8]| {
        [&[type_id, 0, 0, payload.len() as u8, 0, 0, time, 0, 0, 0, 0], payload, &[0; 4]].concat()
    };
    let aggregate =
        [part(9, 5, b"\x17\x01"), part(8, 9, b"\xaf\x01a"), part(18, 9, &metadata[..30])].concat();
    writer.set_chunk_size(&mut input, 20);
    writer.write(&mut input, 7, header(22, 1000), &aggregate);
    input.extend(header0(10, 1, 99, 8, 1));
    input.extend(payload(20, 3));
    input.extend(message0(2, 0, 2, &[0, 0, 0, 10]));
    input.extend([0xc9, 1, 0, 2, 4]);
    input.extend(payload(16, 4));
    input.extend([0xca, 8, 9]);
    input.extend(payload(18, 5));
    write_commands(&mut input, &mut writer, &[("noSuchCall", vec![Value::Null]), ("FCUnpublish", vec![])]);
    writer.write(&mut input, 6, header(9, 40), &payload(70, 6));
    write_commands(&mut input, &mut writer, &[publish("b")]);
    writer.write(&mut input, 6, header(9, 80), &payload(70, 7));
    writer.write(&mut input, 64, header(8, 80), &payload(30, 7));
    // And another one, unfinished.
    input.extend(header0(11, 90, 100, 9, 1));
    input.extend(payload(20, 8));
    input
}

/// A player, from C0 to its second stream.
fn player() -> Vec<u8> {
    let (mut input, mut writer) =
        commands(128, &[connect("live"), ("createStream", vec![Value::Null]), play()]);
    let user_control = |event: u8, data: &[u8]| message0(2, 0, 4, &[&[0, event], data].concat());
    let pause = |paused: bool| ("pause", vec![Value::Null, paused.into(), 1234.0.into()]);
    input.extend(message0(2, 0, 5, &4096u32.to_be_bytes()));
    input.extend(user_control(3, &[0, 0, 0, 1, 0, 0, 3, 0xe8]));
    input.extend(message0(2, 0, 6, &2_500_000u32.to_be_bytes()));
    input.extend(message0(2, 0, 6, &1_000_000u32.to_be_bytes()));
    for round in 0..20u32 {
        input.extend(user_control(6, &round.to_be_bytes()));
        input.extend(user_control(7, &round.to_be_bytes()));
        input.extend(message0(2, 0, 3, &(round * 1000).to_be_bytes()));
        write_commands(&mut input, &mut writer, &[pause(round % 2 == 0)]);
    }
    // Chunks between which a ping is answered.
    input.extend(set_chunk_size(10));
    let call = amf(&["noSuchCall".into(), 77.0.into(), Value::Null, "a longer argument".into()]);
    input.extend(header0(12, 0, call.len() as u32, 20, 0));
    for (number, chunk) in call.chunks(10).enumerate() {
        if number > 0 {
            input.extend(user_control(6, &[0, 0, 0, 9]));
            input.push(0xcc);
        }
        input.extend(chunk);
    }
    writer.set_chunk_size(&mut input, 128);
    let seek = ("seek", vec![Value::Null, 10.0.into()]);
    // A second `play` is refused until the first one has ended.
    let end = ("deleteStream", vec![Value::Null, 1.0.into()]);
    write_commands(&mut input, &mut writer, &[seek, play(), end, play(), pause(true)]);
    // And a ping, unfinished.
    input.extend(header0(2, 0, 6, 4, 0));
    input.extend([0, 6, 1]);
    input
}

/// Which kinds of events there are.
fn kinds(events: &[ServerEvent]) -> String {
    let kind = |event: &ServerEvent| match event {
        ServerEvent::Media(media) => format!("{:?}", media.kind),
        event => format!("{event:?}").split(['(', ' ']).next().unwrap_or_default().to_owned(),
    };
    let mut kinds: Vec<_> = events.iter().map(kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds.join(" ")
}

/// Whether an acknowledgement is in what a server wrote behind its handshake.
fn has_acknowledged(output: &[u8]) -> bool {
    let mut reader = ChunkReader::new(WIDE);
    let messages = read_all(&mut reader, &output[1 + 2 * 1536..]).unwrap();
    messages.iter().any(|message| message.header.type_id == 3)
}

#[test]
fn a_session_that_is_cut_at_any_byte_has_the_events_and_output_of_an_uncut_one() {
    for (input, expected) in [
        (publisher(), "Audio Connect Data Publish StreamEnded Video"),
        (player(), "Connect Pause Play StreamEnded"),
    ] {
        let mut cuts = 0;
        for cut in 0..=input.len() {
            let (before, after) = input.split_at(cut);
            let (mut uncut, mut other) = (Run::new(), Run::new());
            other.take(before).unwrap();
            if !other.hand_over() {
                continue;
            }
            cuts += 1;
            other.take(after).unwrap();
            uncut.take(before).unwrap();
            uncut.take(after).unwrap();
            assert!(other.events == uncut.events, "cut at {cut}");
            assert!(other.output == uncut.output, "cut at {cut}");
            assert_eq!(other.server.bytes_in(), input.len() as u64);
            assert_eq!(kinds(&uncut.events), expected);
        }
        // All but the handshake, the commands before the first stream, and what is between the two.
        assert!(cuts > input.len() - 3073 - 700, "{cuts} cuts of {} bytes", input.len());
    }
}

#[test]
fn a_session_that_is_handed_over_after_each_byte_goes_on_all_the_same() {
    for input in [publisher(), player()] {
        let (mut uncut, mut other) = (Run::new(), Run::new());
        let mut handed_over = 0;
        for byte in input {
            uncut.take(&[byte]).unwrap();
            other.take(&[byte]).unwrap();
            handed_over += usize::from(other.hand_over());
        }
        assert!(other.events == uncut.events);
        assert!(other.output == uncut.output);
        assert!(has_acknowledged(&uncut.output) && handed_over > 1000, "{handed_over} times");
    }
}

/// The longest data messages are skipped, whose bytes are counted only.
#[test]
fn what_is_skipped_of_a_message_is_skipped_on() {
    let length = 128 * 1024 + 1;
    let mut publisher = server_publishing(&ServerConfig::default());
    publisher.handle_input(&header0(4, 0, length, 18, 1)).unwrap();
    publisher.handle_input(&payload(100_000, 0)).unwrap();
    let state = publisher.state().unwrap();
    assert!(rmp_serde::to_vec_named(&state).unwrap().len() < 1000, "it holds none of it");
    let mut other = ServerSession::resume(&ServerConfig::default(), sent(&state)).unwrap();
    other.handle_input(&payload(length as usize - 100_000, 0)).unwrap();
    let Some(ServerEvent::Media(media)) = other.poll_event() else { panic!("the message is whole") };
    assert_eq!((media.length, media.payload.len()), (length, 0));
}

#[test]
fn only_a_session_that_publishes_or_plays_and_owes_nothing_has_a_state() {
    let config = ServerConfig::default();
    assert_eq!(ServerSession::new(&config, 1).state(), None, "handshake");
    assert_eq!(server_after_handshake(&config).state(), None, "before connect");
    assert_eq!(server_connected(&config).state(), None, "neither publishes nor plays");
    let mut server = server_connected(&config);
    server.handle_input(&command("play", 0.0, &[Value::Null, "stream".into()])).unwrap();
    assert!(server.poll_event().is_some());
    assert_eq!(server.state(), None, "a question is open");
    server.accept_play();
    assert_eq!(server.state(), None, "output is left");
    server.output().clear();
    assert!(server.state().is_some());
    let mut server = server_publishing(&config);
    server.handle_input(&message0(4, 0, 8, b"a")).unwrap();
    assert_eq!(server.state(), None, "an event is left");
    assert!(server.poll_event().is_some());
    assert!(server.state().is_some());
    assert!(server.handle_input(&set_chunk_size(0)).is_err());
    assert_eq!(server.state(), None, "it is over");
    let mut server = server_playing(&config);
    server.close("bye");
    server.output().clear();
    assert_eq!(server.state(), None, "closed");
}

#[test]
fn a_resumed_session_says_goodbye_as_what_it_is() {
    for (server, code) in [
        (server_publishing(&ServerConfig::default()), "NetStream.Unpublish.Success"),
        (server_playing(&ServerConfig::default()), "NetStream.Play.Stop"),
    ] {
        let state = server.state().unwrap();
        let mut other = ServerSession::resume(&ServerConfig::default(), sent(&state)).unwrap();
        other.close("kicked");
        assert_eq!(codes(&said(&mut other)), [code]);
    }
}

#[test]
fn what_a_later_release_adds_is_skipped() {
    let mut state = json(&server_playing(&ServerConfig::default()));
    state["added"] = json!({ "by": "a later release" });
    state["connection"]["added"] = json!(1);
    state["connection"]["reader"]["added"] = json!([]);
    state["connection"]["reader"]["streams"][0]["added"] = json!("x");
    assert!(resume(&ServerConfig::default(), state).is_ok());
}

/// Media is written by the caller, in chunks as this release writes them.
#[test]
fn a_peer_that_got_other_chunks_is_informed() {
    let mut state = json(&server_playing(&ServerConfig::default()));
    state["connection"]["chunk_size"] = json!(4096);
    let mut other = resume(&ServerConfig::default(), state).unwrap();
    let set_chunk_size = [header0(2, 0, 4, 1, 0), 60_000u32.to_be_bytes().to_vec()].concat();
    assert_eq!(std::mem::take(other.output()), set_chunk_size);
    assert!(other.state().is_some(), "and can go on once more");
}

/// It is a part of the name of each further stream, which has a limit.
#[test]
fn the_length_of_the_applications_name_goes_over() {
    let app = "a".repeat(250);
    let (mut input, _) = commands(128, &[connect(&app), publish("a")]);
    input.extend(set_chunk_size(1000));
    input.extend(command("deleteStream", 0.0, &[Value::Null, 1.0.into()]));
    let again = |name: &str| command("publish", 0.0, &[Value::Null, name.into()]);
    for (name, result) in [("1234/b", Ok(())), ("123456/b", Err(RtmpError::NameInvalid))] {
        let mut run = Run::new();
        // The last command ends the stream.
        let (before, end) = input.split_at(input.len() - 40);
        run.take(before).unwrap();
        assert!(run.hand_over());
        run.take(end).unwrap();
        assert_eq!(run.take(&again(name)), result, "{name}");
    }
}

#[test]
fn limits_of_the_second_process_may_be_lower() {
    let mut publisher = server_publishing(&ServerConfig::default());
    publisher.handle_input(&header0(6, 0, 100_000, 9, 1)).unwrap();
    publisher.handle_input(&payload(50_000, 0)).unwrap();
    let state = || publisher.state().unwrap();
    let config = |max_message_bytes, publish_memory_bytes| ServerConfig {
        max_message_bytes,
        publish_memory_bytes,
        idle_memory_bytes: 1000,
        ..ServerConfig::default()
    };
    for (config, error) in [
        (config(100_000, 50_000), None),
        (config(99_999, 50_000), Some(RtmpError::MessageTooLarge)),
        (config(100_000, 49_999), Some(RtmpError::MemoryLimit)),
    ] {
        assert_eq!(ServerSession::resume(&config, state()).err(), error);
    }
}

/// Who plays may have published before, when more was allowed.
#[test]
fn a_player_with_more_unfinished_than_players_may_have_goes_on() {
    let mut server = server_publishing(&ServerConfig::default());
    server.handle_input(&set_chunk_size(100_000)).unwrap();
    server.handle_input(&header0(6, 0, 200_000, 9, 1)).unwrap();
    server.handle_input(&payload(100_000, 0)).unwrap();
    let mut run = Run::of(server);
    run.take(&command("deleteStream", 0.0, &[Value::Null, 1.0.into()])).unwrap();
    run.take(&command("play", 0.0, &[Value::Null, "stream".into()])).unwrap();
    assert!(run.hand_over());
    assert_eq!(run.take(&[&[0xc6][..], &payload(50_000, 1)].concat()), Err(RtmpError::MemoryLimit));
}

#[test]
fn a_state_that_no_session_has_is_an_error() {
    let mut publisher = server_publishing(&ServerConfig::default());
    publisher.handle_input(&set_chunk_size(50)).unwrap();
    publisher.handle_input(&header0(6, 0, 100, 9, 1)).unwrap();
    publisher.handle_input(&payload(10, 0)).unwrap();
    let in_chunk = json(&publisher);
    publisher.handle_input(&payload(40, 0)).unwrap();
    publisher.handle_input(&[0x44, 0, 0]).unwrap();
    let in_header = json(&publisher);
    assert!(resume(&ServerConfig::default(), in_chunk.clone()).is_ok());
    assert!(resume(&ServerConfig::default(), in_header.clone()).is_ok());
    // Of chunk streams 2, 3 and 6.
    let message = "/connection/reader/streams/2/message";
    let header = "/connection/reader/header";
    let impossible = RtmpError::StateImpossible;
    for (state, at, value, error, remark) in [
        (&in_chunk, "/app_bytes", json!(256), impossible, "longer than any name"),
        (&in_chunk, "/connection/chunk_size", json!(0), impossible, "no chunk is empty"),
        (&in_chunk, "/connection/chunk_size", json!(u32::MAX), impossible, "as no session writes"),
        (&in_chunk, "/connection/bytes_in", json!(u64::MAX), impossible, "one byte more overflows"),
        (&in_chunk, "/connection/acknowledged_in", json!(1u64 << 40), impossible, "more than came"),
        (&in_chunk, "/connection/reader/chunk_size", json!(0), impossible, "no chunk is empty"),
        (&in_chunk, "/connection/reader/chunk_size", json!(39), impossible, "shorter than the chunk"),
        (&in_chunk, "/connection/reader/chunk/stream", json!(3), impossible, "there are three"),
        (&in_chunk, "/connection/reader/chunk/stream", json!(0), impossible, "not within a message"),
        (&in_chunk, "/connection/reader/chunk/left", json!(0), impossible, "a chunk that is whole"),
        (&in_chunk, "/connection/reader/chunk/left", json!(51), impossible, "longer than chunks"),
        (&in_chunk, header, json!([0x44]), impossible, "a header within a chunk"),
        (&in_header, header, json!(vec![0; 18]), impossible, "longer than any header"),
        (&in_header, header, json!([0xc6]), impossible, "a whole header"),
        (&in_header, header, json!([0x85, 0]), impossible, "an unknown chunk stream"),
        (&in_header, message, json!({ "received": 100, "payload": vec![0; 100] }), impossible, "whole"),
        (&in_header, message, json!({ "received": 50, "payload": vec![0; 49] }), impossible, "less kept"),
        (&in_header, message, json!({ "received": 50, "payload": vec![0; 51] }), impossible, "more kept"),
        (&in_header, "/connection/reader/streams/2/length", json!(50), impossible, "whole"),
        (&in_header, "/connection/reader/streams/2/length", json!(1 << 24), RtmpError::MessageTooLarge, ""),
        (&in_header, "/connection/reader/streams/2/id", json!(3), impossible, "the same twice"),
        (&in_header, "/connection/reader/streams/2/id", json!(1), impossible, "no id"),
        (&in_header, "/connection/reader/streams/2/id", json!(65_600), impossible, "no id"),
        (
            &in_header,
            "/connection/reader/streams",
            json!(vec![in_header["connection"]["reader"]["streams"][0].clone(); 65]),
            RtmpError::TooManyChunkStreams,
            "",
        ),
    ] {
        let mut state = state.clone();
        *state.pointer_mut(at).expect(at) = value.clone();
        assert_eq!(resume(&ServerConfig::default(), state).err(), Some(error), "{at}: {value}: {remark}");
    }
}

/// Numbers at which something may overflow.
fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..70, any::<u16>().prop_map(u64::from), Just(u64::from(u32::MAX)), Just(u64::MAX), {
        (0u32..64).prop_map(|bit| 1 << bit)
    }]
}

/// Changes the number, or the length of the array, that comes as the `at`th.
fn mutate(value: &mut serde_json::Value, at: &mut usize, to: u64) {
    match value {
        serde_json::Value::Number(_) if *at == 0 => *value = json!(to),
        serde_json::Value::Array(elements) => {
            if *at == 0 {
                let last = elements.last().cloned().unwrap_or(json!(0));
                elements.resize(to as usize % 100, last);
            }
            // Each byte of a payload alone says little.
            if elements.iter().any(|element| !element.is_number()) {
                elements.iter_mut().for_each(|element| mutate_next(element, at, to));
            }
        }
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(|field| mutate_next(field, at, to));
        }
        _ => {}
    }
}

fn mutate_next(value: &mut serde_json::Value, at: &mut usize, to: u64) {
    *at = at.wrapping_sub(1);
    mutate(value, at, to);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_hostile_state_is_an_error_or_a_session(
        cut in 0usize..6000,
        changes in proptest::collection::vec((1usize..120, extreme()), 1..4),
        garbage in proptest::collection::vec(any::<u8>(), 0..300),
        plays in any::<bool>(),
    ) {
        let input = if plays { player() } else { publisher() };
        let (before, after) = input.split_at(cut.max(3500).min(input.len()));
        let mut run = Run::new();
        run.take(before).unwrap();
        if run.server.state().is_some() {
            let mut state = json(&run.server);
            for (at, to) in changes {
                mutate(&mut state, &mut { at }, to);
            }
            let state = serde_json::from_value::<SessionState>(state).ok();
            let config = ServerConfig::default();
            if let Some(server) = state.and_then(|state| ServerSession::resume(&config, state).ok()) {
                let mut run = Run::of(server);
                let _ = run.take(after).and_then(|()| run.take(&garbage));
                let most = (config.publish_memory_bytes + config.idle_memory_bytes) as usize;
                prop_assert!(run.server.buffered_bytes() < most + 128 * 64);
            }
        }
    }
}
