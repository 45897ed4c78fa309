//! Client session: whatever a server sends, no panic, and memory stays bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::rtmp::RtmpUrl;
use live::rtmp::client::{ClientConfig, ClientSession, HandshakeForm};

fuzz_target!(|data: &[u8]| {
    let Some((&choices, data)) = data.split_first() else { return };
    let url: RtmpUrl = "rtmp://localhost/live/mill".parse().expect("a valid URL");
    let config = ClientConfig {
        max_message_bytes: 1 << 20,
        partial_memory_bytes: 64 << 10,
        handshake: HandshakeForm::Simple,
        ..ClientConfig::default()
    };
    let mut session = match choices & 1 {
        0 => ClientSession::play(&url, &config, 1),
        _ => ClientSession::publish(&url, &config, 1),
    };
    let mut server_handshake = vec![0; 1 + 1536 + 1536];
    server_handshake[0] = 3;
    if session.handle_input(&server_handshake).is_err() {
        return;
    }
    for piece in data.chunks(usize::from(choices).max(1)) {
        let result = session.handle_input(piece);
        while session.poll_event().is_some() {}
        session.output().clear();
        if result.is_err() {
            return;
        }
    }
});
