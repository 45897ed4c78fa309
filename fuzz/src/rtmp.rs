//! What the fuzz targets of `rtmp` check: one function per parser.
//!
//! `crates/rtmp/tests/rtmp/fuzz_corpus.rs` includes this file and replays the kept corpus.

use media::CodecConfig;
use media::config::audio_frame_format;
use rtmp::amf0::{Decoder, Limits, Value, encode};
use rtmp::chunk::{ChunkReader, ReaderLimits};
use rtmp::client::{ClientConfig, ClientSession};
use rtmp::flv::{FlvError, FlvReader, Tag, TagBody, read_frames, write_file_header, write_tag};
use rtmp::message::Message;
use rtmp::server::{ServerConfig, ServerEvent, ServerSession, SessionState};
use rtmp::{MediaKind, MediaMessage, RtmpError, RtmpUrl};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[
    ("amf0", amf0),
    ("chunk_stream", chunk_stream),
    ("client_session", client_session),
    ("flv_file", flv_file),
    ("flv_tag_body", flv_tag_body),
    ("server_session", server_session),
    ("server_state", server_state),
];

/// AMF0: what was decoded is the same after encoding and decoding it again.
pub fn amf0(data: &[u8]) {
    let wide = Limits { depth: 8, values: 100_000, string_bytes: 64 * 1024 };
    for limits in [Limits::COMMAND, wide] {
        let values = decode_amf0(data, limits);
        let mut bytes = Vec::new();
        values.iter().for_each(|value| encode(&mut bytes, value));
        // Debug form, because a NaN is not equal to itself.
        assert_eq!(format!("{values:?}"), format!("{:?}", decode_amf0(&bytes, wide)));
    }
}

/// All values up to the first error.
fn decode_amf0(data: &[u8], limits: Limits) -> Vec<Value> {
    let mut decoder = Decoder::new(data, limits);
    std::iter::from_fn(|| decoder.next_value().ok().flatten()).collect()
}

/// Chunk stream: memory stays within its limit, and where the input is cut changes nothing.
pub fn chunk_stream(data: &[u8]) {
    let Some((&step, data)) = data.split_first() else { return };
    let whole = read_chunks(data, data.len().max(1));
    let pieces = read_chunks(data, usize::from(step).max(1));
    // What an unfinished message may hold depends on when its bytes come, so only then may results differ.
    if whole.1 != Some(RtmpError::MemoryLimit) && pieces.1 != Some(RtmpError::MemoryLimit) {
        assert_eq!(whole, pieces);
    }
}

const CHUNK_LIMITS: ReaderLimits =
    ReaderLimits { message_bytes: 1 << 20, partial_bytes: 64 << 10, keep_payload_bytes: u32::MAX };

/// States of 64 chunk streams with room to grow, beside the bytes of unfinished messages.
const CHUNK_STATES_BYTES_MAX: usize = 128 * 64;

fn read_chunks(data: &[u8], step: usize) -> (Vec<Message>, Option<RtmpError>) {
    let mut reader = ChunkReader::new(CHUNK_LIMITS);
    let mut messages = Vec::new();
    for mut piece in data.chunks(step) {
        loop {
            match reader.next_message(&mut piece) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
        assert!(piece.is_empty(), "no message came, so all was taken");
        assert!(reader.buffered_bytes() <= CHUNK_LIMITS.partial_bytes as usize + CHUNK_STATES_BYTES_MAX);
    }
    (messages, None)
}

/// FLV framing: where the input is cut changes nothing, and tags survive being written again.
pub fn flv_file(data: &[u8]) {
    let Some((&step, data)) = data.split_first() else { return };
    let (tags, error) = read_tags(data, data.len().max(1));
    assert_eq!((tags.clone(), error), read_tags(data, usize::from(step).max(1)));
    let mut file = Vec::new();
    write_file_header(&mut file, true, true);
    tags.iter().for_each(|tag| write_tag(&mut file, tag.kind, tag.timestamp, &tag.body));
    assert_eq!((tags, None), read_tags(&file, file.len()));
}

fn read_tags(data: &[u8], step: usize) -> (Vec<Tag>, Option<FlvError>) {
    let mut reader = FlvReader::new(1 << 20);
    let mut tags = Vec::new();
    for piece in data.chunks(step) {
        reader.push(piece);
        loop {
            match reader.next_tag() {
                Ok(Some(tag)) => tags.push(tag),
                Ok(None) => break,
                Err(error) => return (tags, Some(error)),
            }
        }
    }
    (tags, None)
}

/// Tag bodies: codec, role and format are read from anything.
///
/// The data of a frame is the end of its body or, of many tracks, a part of it, and it leaves as it came.
pub fn flv_tag_body(data: &[u8]) {
    for kind in [MediaKind::Audio, MediaKind::Video, MediaKind::Data] {
        let message = MediaMessage { kind, timestamp: 0, length: data.len() as u32, payload: data.to_vec() };
        let Ok((first, others)) = read_frames(message) else { continue };
        let config = CodecConfig::new(first.codec, first.data().to_vec());
        let _ = (config.video_format(), config.audio_format(), audio_frame_format(first.codec, first.data()));
        // Only bodies of Enhanced RTMP can have several tracks.
        let is_enhanced = match kind {
            MediaKind::Video => data[0] & 0x80 != 0,
            MediaKind::Audio => data[0] >> 4 == 9,
            MediaKind::Data => false,
        };
        let is_whole = data.ends_with(first.data()) && first.track.index == 0 && others.is_empty();
        assert!(is_enhanced || is_whole);
        assert!(others.iter().all(|frame| frame.track.kind == kind && TagBody::of(frame).is_none()));
        assert_eq!(TagBody::of(&first).expect("its own body").parts().concat(), data);
    }
}

/// Client session: whatever a server sends behind its handshake.
pub fn client_session(data: &[u8]) {
    let Some((&choices, data)) = data.split_first() else { return };
    let url: RtmpUrl = "rtmp://localhost/live/mill".parse().expect("a valid URL");
    let config = ClientConfig {
        max_message_bytes: 1 << 20,
        partial_memory_bytes: 64 << 10,
        ..ClientConfig::default()
    };
    let mut session = match choices & 1 {
        0 => ClientSession::play(&url, &config, 1),
        _ => ClientSession::publish(&url, &config, 1),
    };
    session.handle_input(&simple_handshake()).expect("a valid handshake");
    for piece in data.chunks(usize::from(choices | 1)) {
        let result = session.handle_input(piece);
        while session.poll_event().is_some() {}
        session.output().clear();
        if result.is_err() {
            return;
        }
    }
}

/// Server session: behind the handshake, neither memory nor replies grow beyond the input, and one
/// that goes on in another process wherever it can says the same.
pub fn server_session(data: &[u8]) {
    let Some((&choices, data)) = data.split_first() else { return };
    let config = session_config();
    let mut sessions = [ServerSession::new(&config, 1), ServerSession::new(&config, 1)];
    for session in &mut sessions {
        session.handle_input(&simple_handshake()).expect("a valid handshake");
        session.output().clear();
    }
    let mut written = 0;
    for piece in data.chunks(usize::from(choices | 1)) {
        let [one, other] = &mut sessions;
        let said = feed(one, piece, choices);
        let said_by_other = feed(other, piece, choices);
        let failures = [one.failure(), other.failure()];
        written += said.1.len();
        assert!(one.buffered_bytes() <= HELD_BYTES_MAX, "{} bytes held", one.buffered_bytes());
        if failures.contains(&Some(RtmpError::MemoryLimit)) {
            // Room that is reserved ahead does not go over.
            break;
        }
        assert_eq!(failures[0], failures[1]);
        // Debug form, because a NaN is not equal to itself.
        assert!(said == said_by_other || format!("{said:?}") == format!("{said_by_other:?}"));
        if failures[0].is_some() {
            break;
        }
        if let Some(state) = other.state() {
            *other = ServerSession::resume(&config, state).expect("its own state");
        }
    }
    // The longest replies, those to connect and play, have about 1.5 kB and answer at least ten bytes.
    assert!(written <= 4096 + 200 * data.len(), "{written} bytes in reply to {}", data.len());
}

/// State of a session, as MessagePack, and what its peer sends next: an error, or a session whose
/// memory stays within its limits, and which is where it was when it goes on once more.
pub fn server_state(data: &[u8]) {
    let mut input = data;
    let Ok(state) = rmp_serde::from_read::<_, SessionState>(&mut input) else { return };
    let config = session_config();
    let Ok(mut session) = ServerSession::resume(&config, state) else { return };
    session.output().clear();
    for piece in input.chunks(100) {
        let state = session.state();
        if let Some(state) = state.clone() {
            session = ServerSession::resume(&config, state).expect("its own state");
        }
        assert_eq!(session.state(), state);
        feed(&mut session, piece, 0);
        assert!(session.buffered_bytes() <= HELD_BYTES_MAX, "{} bytes held", session.buffered_bytes());
        if session.failure().is_some() {
            return;
        }
    }
}

fn session_config() -> ServerConfig {
    ServerConfig {
        max_message_bytes: 1 << 20,
        idle_memory_bytes: 16 << 10,
        publish_memory_bytes: 64 << 10,
        ..ServerConfig::default()
    }
}

/// More than a session with these limits holds.
const HELD_BYTES_MAX: usize = 128 << 10;

/// What a session asks and writes for its input; questions are answered.
fn feed(session: &mut ServerSession, input: &[u8], choices: u8) -> (Vec<ServerEvent>, Vec<u8>) {
    // What failed is in the session.
    let _ = session.handle_input(input);
    let mut events = Vec::new();
    while let Some(event) = session.poll_event() {
        answer(session, &event, choices);
        events.push(event);
    }
    (events, std::mem::take(session.output()))
}

fn answer(session: &mut ServerSession, event: &ServerEvent, choices: u8) {
    match event {
        ServerEvent::Connect(_) if choices & 2 == 0 => session.accept_connect(),
        ServerEvent::Connect(_) => session.close("no"),
        ServerEvent::Publish(_) => session.accept_publish(),
        ServerEvent::Play(_) => session.accept_play(),
        _ => {}
    }
}

/// Version, a block without digest, and a block that answers the other side's.
fn simple_handshake() -> Vec<u8> {
    let mut bytes = vec![0; 1 + 1536 + 1536];
    bytes[0] = 3;
    bytes
}
