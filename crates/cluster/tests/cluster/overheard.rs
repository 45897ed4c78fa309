//! Listening in at a nats-server, for tests of what does not go through it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// All that passes through a server, as the bytes of its protocol.
pub(crate) struct Overheard(Arc<Mutex<Vec<u8>>>);

impl Overheard {
    /// Listens in from now on. It is a client of a few lines, because not all tests that need it have one.
    pub(crate) fn at(port: u16) -> Self {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.write_all(b"CONNECT {\"verbose\":false}\r\nSUB > 1\r\nPING\r\n").unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&heard);
        // Until the server ends.
        std::thread::spawn(move || {
            let mut piece = [0; 64 << 10];
            while let Ok(len @ 1..) = socket.read(&mut piece) {
                keep.lock().unwrap().extend_from_slice(&piece[..len]);
            }
        });
        let overheard = Self(heard);
        while !overheard.contains(b"PONG\r\n") {
            std::thread::sleep(Duration::from_millis(2));
        }
        overheard
    }

    pub(crate) fn contains(&self, what: &[u8]) -> bool {
        self.0.lock().unwrap().windows(what.len()).any(|window| window == what)
    }
}
