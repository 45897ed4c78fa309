//! The smallest server that relays: one thread per connection, every message to every player, and a fault
//! on request. It exists to prove that the load generator notices.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rtmp::chunk::write_play_message;
use rtmp::server::{PlayReject, ServerConfig, ServerEvent, ServerSession};
use rtmp::{MediaKind, MediaMessage};

/// What the relay does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// A player does not get its 20th message.
    DropMessage,
    /// A player's 20th message has lost its last byte.
    TruncateByte,
    /// A player's 20th message is sent twice.
    RepeatMessage,
    /// Players are refused.
    RefusePlay,
    /// A player's connection is closed at its 20th message.
    ClosePlayers,
}

/// A running relay; it ends with the test process.
pub(crate) struct Relay {
    /// Where it speaks RTMP.
    pub(crate) rtmp: SocketAddr,
    /// Where it speaks HTTP-FLV.
    pub(crate) http: SocketAddr,
}

#[derive(Default)]
struct Room {
    headers: Vec<MediaMessage>,
    players: Vec<Sender<MediaMessage>>,
}

const FAULTY_MESSAGE: usize = 20;

impl Relay {
    /// Listens on free ports.
    pub(crate) fn start(fault: Fault) -> Relay {
        let room = Arc::new(Mutex::new(Room::default()));
        let serve = |connection: fn(TcpStream, Arc<Mutex<Room>>, Fault)| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("a bound socket has an address");
            let room = Arc::clone(&room);
            thread::spawn(move || {
                for socket in listener.incoming().flatten() {
                    let room = Arc::clone(&room);
                    thread::spawn(move || connection(socket, room, fault));
                }
            });
            address
        };
        Relay { rtmp: serve(handle_rtmp), http: serve(handle_http) }
    }
}

impl Room {
    fn join(&mut self) -> Receiver<MediaMessage> {
        let (sender, receiver) = channel();
        for header in &self.headers {
            sender.send(header.clone()).expect("the receiver is still here");
        }
        self.players.push(sender);
        receiver
    }

    fn publish(&mut self, message: &MediaMessage) {
        if message.kind == MediaKind::Data || message.payload.get(1) == Some(&0) {
            self.headers.push(message.clone());
        }
        self.players.retain(|player| player.send(message.clone()).is_ok());
    }
}

fn handle_rtmp(mut socket: TcpStream, room: Arc<Mutex<Room>>, fault: Fault) {
    let mut session = ServerSession::new(&ServerConfig::default(), 1);
    let mut buffer = [0; 65_536];
    while let Ok(length @ 1..) = socket.read(&mut buffer) {
        if session.handle_input(&buffer[..length]).is_err() {
            return;
        }
        let mut plays = false;
        while let Some(event) = session.poll_event() {
            match event {
                ServerEvent::Connect(_) => session.accept_connect(),
                ServerEvent::Publish(_) => session.accept_publish(),
                ServerEvent::Play(_) if fault == Fault::RefusePlay => {
                    session.reject_play(PlayReject::StreamNotFound, "not today");
                }
                ServerEvent::Play(_) => {
                    session.accept_play();
                    plays = true;
                }
                ServerEvent::Media(message) => room.lock().expect("no panic elsewhere").publish(&message),
                _ => {}
            }
        }
        if socket.write_all(session.output()).is_err() {
            return;
        }
        session.output().clear();
        if plays {
            let media = room.lock().expect("no panic elsewhere").join();
            relay(socket, &media, fault, |out, message| {
                write_play_message(out, message.kind, message.timestamp, &message.payload);
            });
            return;
        }
    }
}

fn handle_http(mut socket: TcpStream, room: Arc<Mutex<Room>>, fault: Fault) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let mut begin = b"HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\n\r\n".to_vec();
    rtmp::flv::write_file_header(&mut begin, true, true);
    let media = room.lock().expect("no panic elsewhere").join();
    if socket.write_all(&begin).is_ok() {
        relay(socket, &media, fault, |out, message| {
            rtmp::flv::write_tag(out, message.kind, message.timestamp, &message.payload);
        });
    }
}

fn relay(
    mut socket: TcpStream,
    media: &Receiver<MediaMessage>,
    fault: Fault,
    write: impl Fn(&mut Vec<u8>, &MediaMessage),
) {
    let mut out = Vec::new();
    for (number, mut message) in media.iter().enumerate() {
        out.clear();
        match fault {
            _ if number != FAULTY_MESSAGE => {}
            Fault::None | Fault::RefusePlay => {}
            Fault::DropMessage => continue,
            Fault::TruncateByte => drop(message.payload.pop()),
            Fault::RepeatMessage => write(&mut out, &message),
            Fault::ClosePlayers => return,
        }
        write(&mut out, &message);
        if socket.write_all(&out).is_err() {
            return;
        }
    }
}
