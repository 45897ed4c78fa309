//! Readers over real connections, with statistics that the test makes: who is slow, what is large, how it
//! ends.

use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::time::SystemTime;

use socket2::SockRef;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tungstenite::{Message, WebSocket};

use super::collect::Collector;
use super::{STREAM_PATH, collect};
use crate::{serve, tests::context_with};
use ::stats::message::StatsMessage;
use worker_api::columns::StatsSnapshot;
use worker_api::handoff::{Handoff, ReturnQueue};

/// Sessions of a message of some hundred kilobytes.
const SESSIONS: usize = 20_000;
/// Small, so that a message does not fit.
const SOCKET_BUFFER_BYTES: usize = 16 << 10;

/// A control side that serves one reader, whose end of the connection comes with it.
async fn serve_one() -> (Collector, WebSocket<TcpStream>, tokio::task::JoinHandle<()>) {
    let (collector, stats) = collect(vec![sync_channel(1).0]);
    let context = context_with(stats);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let client = TcpStream::connect(address).expect("a connection");
    let (server, peer) = listener.accept().expect("a connection");
    SockRef::from(&client).set_recv_buffer_size(SOCKET_BUFFER_BYTES).expect("a small buffer");
    SockRef::from(&server).set_send_buffer_size(SOCKET_BUFFER_BYTES).expect("a small buffer");
    let (handoffs, received) = mpsc::channel(1);
    let home = ReturnQueue::new(mpsc::channel(1).0, std::task::Waker::noop().clone());
    let handoff = Handoff {
        stream: server,
        tls: None,
        buffered: Vec::new(),
        peer,
        requests: 0,
        slot: None,
        place: None,
        home,
    };
    handoffs.send(handoff).await.expect("room");
    drop(handoffs);
    let served = tokio::spawn(serve(context, received));
    let upgraded = spawn_blocking(move || {
        let host = format!("ws://localhost:{}{STREAM_PATH}", address.port());
        tungstenite::client(host, client).expect("the stream begins").0
    });
    (collector, upgraded.await.expect("a reader"), served)
}

fn send(collector: &mut Collector, sessions: usize) {
    let mut snapshot = StatsSnapshot::default();
    snapshot.sessions.resize(sessions);
    snapshot.sessions.serial.fill(0x1234_5678_9abc);
    collector.take(Box::new(snapshot), SystemTime::UNIX_EPOCH);
}

/// The sequence number of the next message, and its sessions.
fn next(reader: &mut WebSocket<TcpStream>) -> (u64, usize) {
    match reader.read().expect("a message") {
        Message::Binary(bytes) => {
            let message = StatsMessage::from_messagepack(&bytes).expect("a message of statistics");
            (message.sequence, message.sessions.serial.len())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_slow_reader_skips_to_the_newest_message() {
    let (mut collector, reader, _served) = serve_one().await;
    send(&mut collector, SESSIONS);
    // It has begun to be written, and cannot be finished while nobody reads.
    let (first, mut reader) = spawn_blocking(move || {
        let mut byte = [0];
        while reader.get_ref().peek(&mut byte).expect("bytes") == 0 {}
        (1, reader)
    })
    .await
    .expect("read");
    for _ in 0..20 {
        send(&mut collector, SESSIONS);
        tokio::task::yield_now().await;
    }
    let seen = spawn_blocking(move || {
        let mut seen = vec![next(&mut reader)];
        while seen.last().is_some_and(|(sequence, _)| *sequence < 21) {
            seen.push(next(&mut reader));
        }
        seen
    });
    let seen = seen.await.expect("read");
    assert_eq!(seen.first(), Some(&(first, SESSIONS)), "what was begun is finished");
    assert_eq!(seen.last(), Some(&(21, SESSIONS)));
    assert!(seen.len() <= 3, "old messages were kept for it: {seen:?}");
}

#[tokio::test]
async fn a_reader_sees_the_end_of_the_workers_as_going_away() {
    let (mut collector, mut reader, served) = serve_one().await;
    send(&mut collector, 3);
    let (reader, seen) = spawn_blocking(move || {
        let seen = next(&mut reader);
        (reader, seen)
    })
    .await
    .expect("read");
    assert_eq!(seen, (1, 3));
    drop(collector);
    let mut reader = reader;
    let closed = spawn_blocking(move || match reader.read().expect("a close frame") {
        Message::Close(Some(frame)) => {
            let code = u16::from(frame.code);
            while reader.read().is_ok() {}
            code
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(closed.await.expect("read"), 1001);
    served.await.expect("the control side ends once its reader has gone");
}
