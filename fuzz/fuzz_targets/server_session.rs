//! Server session: after the handshake, no input panics, and neither memory nor replies grow beyond the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::rtmp::server::{ServerConfig, ServerEvent, ServerSession};

fuzz_target!(|data: &[u8]| {
    let Some((&choices, data)) = data.split_first() else { return };
    let config = ServerConfig {
        max_message_bytes: 1 << 20,
        idle_memory_bytes: 16 << 10,
        publish_memory_bytes: 64 << 10,
        ..ServerConfig::default()
    };
    let mut session = ServerSession::new(&config, 1);
    session.handle_input(&simple_handshake()).expect("a valid handshake");
    session.output().clear();
    let mut written = 0;
    for piece in data.chunks(usize::from(choices | 1)) {
        let result = session.handle_input(piece);
        while let Some(event) = session.poll_event() {
            answer(&mut session, event, choices);
        }
        written += std::mem::take(session.output()).len();
        assert!(session.buffered_bytes() <= 128 << 10, "{} bytes held", session.buffered_bytes());
        if result.is_err() || session.failure().is_some() {
            break;
        }
    }
    // The longest replies, those to connect and play, have about 1.5 kB and answer at least ten bytes.
    assert!(written <= 4096 + 200 * data.len(), "{written} bytes in reply to {}", data.len());
});

fn answer(session: &mut ServerSession, event: ServerEvent, choices: u8) {
    match event {
        ServerEvent::Connect(_) if choices & 2 == 0 => session.accept_connect(),
        ServerEvent::Connect(_) => session.reject_connect("no"),
        ServerEvent::Publish(_) => session.accept_publish(),
        ServerEvent::Play(_) => session.accept_play(),
        _ => {}
    }
}

/// C0, C1 without digest, C2.
fn simple_handshake() -> Vec<u8> {
    let mut bytes = vec![0; 1 + 1536 + 1536];
    bytes[0] = 3;
    bytes
}
