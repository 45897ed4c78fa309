//! Whoever else connects to the port for nodes.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::node::{Node, Options, STREAM, frame, received_up_to};
use crate::server::{DEADLINE, Server};
use crate::wire::connect;

#[tokio::test]
async fn strangers_are_closed_and_nodes_get_through_while_they_are_there() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let address = a.nodes().addresses()[0];
    // Garbage of any length is answered with an end.
    for len in [1, 5, 100, 1_500, 20_000] {
        let mut stranger = connect(address).await;
        let garbage: Vec<u8> = (0..len).map(|at| (at * 31 + len) as u8).collect();
        let _ = stranger.write_all(&garbage).await;
        let _ = stranger.shutdown().await;
        let mut answer = Vec::new();
        let read = timeout(DEADLINE, stranger.read_to_end(&mut answer)).await.expect("it is closed");
        assert!(read.is_err() || answer.len() < 100, "{} bytes for a stranger", answer.len());
    }
    // Silent ones have three seconds. One more of an address than may be is closed while the others still
    // have their time, which can run out on a machine that is busy: then it is tried again.
    let begun = Instant::now();
    loop {
        let mut silent = Vec::new();
        for _ in 0..100 {
            silent.push(connect(address).await);
        }
        for stranger in &mut silent[16..] {
            let read = timeout(DEADLINE, stranger.read(&mut [0])).await.expect("it is closed");
            assert!(!matches!(read, Ok(1..)), "a stranger is told nothing");
        }
        let is_open = |stranger: TcpStream| {
            let read = stranger.into_std().expect("its socket").read(&mut [0]);
            assert!(!matches!(read, Ok(1..)), "a stranger is told nothing");
            read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        if silent.into_iter().take(16).any(is_open) {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "all are closed alike");
    }
    let b = Node::start(&server, "b", Options::default()).await;
    b.linked(1).await;
}

#[tokio::test]
async fn a_node_with_another_secret_gets_no_link_and_the_others_are_not_disturbed() {
    let Some(server) = Server::start().await else { return };
    let other = Options { secret: b"the secret of another cluster", ..Options::default() };
    let a = Node::start(&server, "a", Options::default()).await;
    let c = Node::start(&server, "c", other).await;
    let b = Node::start(&server, "b", Options::default()).await;
    a.linked(1).await;
    b.linked(1).await;
    a.worker.publish(STREAM, false);
    a.worker.send(STREAM, frame(0));
    c.knows(STREAM).await;
    c.worker.want(STREAM, true);
    b.worker.want(STREAM, true);
    received_up_to(&b, STREAM, 0).await;
    assert_eq!(c.links_up().await, 0);
    let links = a.status().await.links;
    let to_c = links.iter().find(|link| link.node == "c").expect("it lives");
    assert!(to_c.last_problem.as_deref().is_some_and(|why| why.contains("secret")), "{to_c:?}");
    assert!(c.worker.received(STREAM).is_empty());
}

#[tokio::test]
async fn a_node_gets_a_link_while_strangers_take_every_place_they_can() {
    let Some(server) = Server::start().await else { return };
    let b = Node::start(&server, "b", Options::default()).await;
    let address = b.nodes().addresses()[0];
    let mut strangers = JoinSet::new();
    for number in 0..144_u8 {
        strangers.spawn(async move {
            loop {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind(([127, 9, 0, number / 12], 0).into()).unwrap();
                let mut answer = Vec::new();
                if let Ok(mut stranger) = socket.connect(address).await {
                    let _ = stranger.read_to_end(&mut answer).await;
                }
                assert!(answer.is_empty(), "a stranger is told nothing");
            }
        });
    }
    let begun = Instant::now();
    while b.status().await.refused_connections.too_many == 0 {
        assert!(begun.elapsed() < DEADLINE, "all places are taken");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A way to it is there for nobody: it has to come itself, from an address that only the directory tells.
    let announced = Some(([127, 0, 0, 1], 1).into());
    let a = Node::start(&server, "a", Options { announced, ..Options::default() }).await;
    a.linked(1).await;
    let refused = b.status().await.refused_connections;
    assert!(refused.too_many > 0 && refused.not_taken == 0, "{refused:?}");
}
