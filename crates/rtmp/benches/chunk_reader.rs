//! What does taking one message out of the chunk stream cost, and does `rtmp-rs` do it for less?
//!
//! The bytes are those of a live stream of 605 kbit/s: 25 video messages of about 2.5 kB and 43 of audio of
//! about 250 bytes a second, headers compressed as encoders do. Sweeps the chunk size of the publisher and
//! how much each read brings; the figure is nanoseconds per message, the best of several rounds, with the
//! payload in memory of its own. `server` is the whole session, from bytes to events; `keep 16` is what the
//! load generator does. `copy` is what filling the read buffer costs, as the kernel would; each figure
//! includes it, since `rtmp-rs` reads from a `BytesMut` that must be filled.
//!
//! Run: `cargo bench -p rtmp`.

use std::hint::black_box;
use std::time::Instant;

use bytes::BytesMut;
use rtmp::amf0::{Value, encode};
use rtmp::chunk::{ChunkReader, ChunkWriter, ReaderLimits};
use rtmp::message::MessageHeader;
use rtmp::server::{ServerConfig, ServerEvent, ServerSession};
use rtmp_rs::protocol::chunk::ChunkDecoder;

const MESSAGES: usize = 6_800;
const ROUNDS: usize = 15;

fn main() {
    let titles = ["chunk size", "read", "copy", "keep 16", "ours", "server", "rtmp-rs"];
    println!("{}", titles.map(|title| format!("{title:>10}")).concat());
    for chunk_size in [128, 4_096, 60_000] {
        let (set_chunk_size, media, bytes) = stream(chunk_size);
        for read in [1_448, 65_536] {
            let ours = best(|| read_ours(u32::MAX, &set_chunk_size, &media, read), bytes);
            let kept = best(|| read_ours(16, &set_chunk_size, &media, read), bytes);
            let server = best(|| read_session(&set_chunk_size, &media, read), bytes);
            let theirs = best(|| read_theirs(chunk_size, &media, read), bytes);
            let copy = best(|| copy_only(&media, read, bytes), bytes);
            println!(
                "{chunk_size:>10}{read:>10}{copy:>10.0}{kept:>10.0}{ours:>10.0}{server:>10.0}{theirs:>10.0}"
            );
        }
    }
}

/// Set Chunk Size, the media behind it, and the payload bytes in it.
fn stream(chunk_size: u32) -> (Vec<u8>, Vec<u8>, usize) {
    let (mut set_chunk_size, mut media, mut writer) = (Vec::new(), Vec::new(), ChunkWriter::new());
    writer.set_chunk_size(&mut set_chunk_size, chunk_size);
    let mut bytes = 0;
    for index in 0..MESSAGES as u32 {
        let is_video = index * 25 / 68 != (index + 1) * 25 / 68;
        let (type_id, length) =
            if is_video { (9, 2_000 + index * 7 % 1_200) } else { (8, 200 + index * 3 % 100) };
        let header = MessageHeader { type_id, stream_id: 1, timestamp: index * 1_000 / 68, length };
        writer.write(&mut media, if is_video { 6 } else { 4 }, header, &vec![index as u8; length as usize]);
        bytes += length as usize;
    }
    (set_chunk_size, media, bytes)
}

/// Nanoseconds per message of the best round. `read` returns messages and payload bytes.
fn best(mut read: impl FnMut() -> (usize, usize), bytes: usize) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let start = now();
        assert_eq!(read(), (MESSAGES, bytes));
        start.elapsed().as_nanos() as f64 / MESSAGES as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn read_ours(keep_payload_bytes: u32, set_chunk_size: &[u8], media: &[u8], read: usize) -> (usize, usize) {
    let limits = ReaderLimits { message_bytes: 8 << 20, partial_bytes: 16 << 20, keep_payload_bytes };
    let mut reader = ChunkReader::new(limits);
    assert!(matches!(reader.next_message(&mut &set_chunk_size[..]), Ok(None)));
    let (mut messages, mut bytes) = (0, 0);
    let mut buffer = vec![0; read];
    for piece in media.chunks(read) {
        let mut piece = fill(&mut buffer, piece);
        while let Some(message) = reader.next_message(&mut piece).expect("the stream is well-formed") {
            messages += 1;
            bytes += message.header.length as usize;
            black_box(message.payload);
        }
    }
    (messages, bytes)
}

fn read_session(set_chunk_size: &[u8], media: &[u8], read: usize) -> (usize, usize) {
    let mut session = publishing_session();
    session.handle_input(set_chunk_size).expect("the stream is well-formed");
    let (mut messages, mut bytes) = (0, 0);
    let mut buffer = vec![0; read];
    for piece in media.chunks(read) {
        session.handle_input(fill(&mut buffer, piece)).expect("the stream is well-formed");
        while let Some(event) = session.poll_event() {
            let ServerEvent::Media(media) = event else { continue };
            messages += 1;
            bytes += media.payload.len();
            black_box(media.payload);
        }
    }
    (messages, bytes)
}

/// What a read from a socket does.
fn fill<'a>(buffer: &'a mut [u8], piece: &[u8]) -> &'a [u8] {
    buffer[..piece.len()].copy_from_slice(piece);
    black_box(&buffer[..piece.len()])
}

fn copy_only(media: &[u8], read: usize, bytes: usize) -> (usize, usize) {
    let mut buffer = vec![0; read];
    let copied: usize = media.chunks(read).map(|piece| fill(&mut buffer, piece).len()).sum();
    assert_eq!(copied, media.len());
    (MESSAGES, bytes)
}

fn read_theirs(chunk_size: u32, media: &[u8], read: usize) -> (usize, usize) {
    let mut decoder = ChunkDecoder::new();
    decoder.set_chunk_size(chunk_size);
    let mut buffer = BytesMut::with_capacity(2 * read);
    let (mut messages, mut bytes) = (0, 0);
    for piece in media.chunks(read) {
        buffer.extend_from_slice(piece);
        loop {
            // `None` stands for an unfinished message as well as for missing bytes.
            let before = buffer.len();
            match decoder.decode(&mut buffer).expect("the stream is well-formed") {
                Some(chunk) => {
                    messages += 1;
                    bytes += chunk.payload.len();
                    black_box(chunk.payload);
                }
                None if buffer.len() == before => break,
                None => {}
            }
        }
    }
    (messages, bytes)
}

fn publishing_session() -> ServerSession {
    let mut session = ServerSession::new(&ServerConfig::default(), 1);
    let mut hello = vec![0; 1 + 2 * 1536];
    hello[0] = 3;
    let app = Value::Object(vec![("app".to_owned(), "live".into())]);
    let (mut writer, header) =
        (ChunkWriter::new(), MessageHeader { type_id: 20, stream_id: 1, timestamp: 0, length: 0 });
    for (name, arguments) in
        [("connect", vec![app]), ("publish", vec![Value::Null, "stream".into(), "live".into()])]
    {
        let mut payload = Vec::new();
        encode(&mut payload, &name.into());
        encode(&mut payload, &1.0.into());
        arguments.iter().for_each(|argument| encode(&mut payload, argument));
        writer.write(&mut hello, 3, header, &payload);
    }
    session.handle_input(&hello).expect("the commands are well-formed");
    session.accept_connect();
    session.accept_publish();
    while session.poll_event().is_some() {}
    session
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}
