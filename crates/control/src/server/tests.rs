//! Connections as they come from workers, and go back to them.

use std::net::TcpStream as StdStream;
use std::sync::atomic::AtomicU64;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;
use crate::HttpCounters;
use crate::tests::local;
use worker_api::handoff::ReturnQueue;

const TIMEOUT: Duration = Duration::from_secs(10);
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

/// A control side, the worker's side of the queues, and a client.
struct World {
    context: Arc<Context>,
    handoffs: mpsc::Sender<Handoff>,
    returns: mpsc::Sender<Handoff>,
    returned: mpsc::Receiver<Handoff>,
    client: TcpStream,
}

/// A connection that a worker hands over with `head` read, at a control side that has `context`.
async fn world_of(context: Arc<Context>, head: &str) -> World {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a connection");
    let (server, _) = listener.accept().await.expect("a connection");
    let (handoffs, received) = mpsc::channel(4);
    let (returns, returned) = mpsc::channel(4);
    tokio::spawn(crate::serve(Arc::clone(&context), received));
    let world = World { context, handoffs, returns, returned, client };
    world.hand_over(server.into_std().expect("a socket"), head.into(), 0, None).await;
    world
}

async fn world(head: &str) -> World {
    world_of(local(), head).await
}

impl World {
    async fn hand_over(
        &self,
        stream: StdStream,
        buffered: Vec<u8>,
        requests: u32,
        slot: Option<AddressSlot>,
    ) {
        let peer = "127.0.0.1:1".parse().expect("an address");
        let home = ReturnQueue::new(self.returns.clone(), std::task::Waker::noop().clone());
        let handoff = Handoff { stream, tls: None, buffered, peer, requests, slot, place: None, home };
        self.handoffs.send(handoff).await.expect("control takes it");
    }

    async fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).await.expect("sent");
    }

    /// The head of the next answer, and its body of a given length.
    async fn answer(&mut self) -> (String, String) {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let byte = timeout(TIMEOUT, self.client.read_u8()).await.expect("in time");
            bytes.push(byte.expect("an answer"));
        }
        let head = String::from_utf8(bytes).expect("text").to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
        self.client.read_exact(&mut body).await.expect("a body");
        (head, String::from_utf8(body).expect("text"))
    }

    /// What comes until the server closes.
    async fn rest(&mut self) -> String {
        let mut rest = String::new();
        timeout(TIMEOUT, self.client.read_to_string(&mut rest)).await.expect("it closes").expect("in order");
        rest
    }

    async fn returned(&mut self) -> Handoff {
        timeout(TIMEOUT, self.returned.recv()).await.expect("it comes back").expect("a connection")
    }

    fn count(&self, counter: fn(&HttpCounters) -> &AtomicU64) -> u64 {
        counter(&self.context.http).load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn an_idle_connection_goes_back_with_its_place_and_comes_again() {
    let mut world = world(HEALTH).await;
    let (head, body) = world.answer().await;
    assert!(head.starts_with("http/1.1 200 ok\r\n") && !head.contains("connection: close"), "{head}");
    assert_eq!(body, "ok\n");
    let Handoff { stream, buffered, requests, slot, .. } = world.returned().await;
    assert_eq!((buffered.as_slice(), requests, slot.is_some()), (&b""[..], 1, true));
    assert_eq!(world.context.keep_alive.taken(), 1);
    world.hand_over(stream, HEALTH.into(), requests, slot).await;
    assert!(world.answer().await.0.contains("200 ok"), "served a second time");
    let again = world.returned().await;
    assert_eq!((again.requests, world.context.keep_alive.taken()), (2, 1), "one connection, one place");
    assert_eq!((world.count(|http| &http.http1_requests), world.count(|http| &http.reused_requests)), (2, 1));
    drop(again);
    assert_eq!(world.context.keep_alive.taken(), 0, "the place goes with the connection");
}

#[tokio::test]
async fn requests_that_follow_at_once_are_served_without_going_back() {
    let mut world = world(&HEALTH.repeat(20)).await;
    for _ in 0..20 {
        assert!(world.answer().await.0.contains("200 ok"));
    }
    assert_eq!(world.returned().await.requests, 20, "all in one stay");
}

#[tokio::test]
async fn half_a_request_goes_back_with_the_connection() {
    let mut world = world(&format!("{HEALTH}GET /heal")).await;
    assert!(world.answer().await.0.contains("200 ok"));
    assert_eq!(world.returned().await.buffered, b"GET /heal");
}

#[tokio::test]
async fn a_request_for_media_goes_back_whole_with_all_that_follows() {
    let media = "GET /live/a%20b.flv?token=t HTTP/1.1\r\nHost: x\r\nX-Odd: a\tb\r\n\r\n";
    let mut world = world(&format!("{HEALTH}{media}{HEALTH}")).await;
    assert!(world.answer().await.0.contains("200 ok"));
    let Handoff { buffered, requests, .. } = world.returned().await;
    let text = String::from_utf8(buffered).expect("text");
    let rest = text.strip_prefix("GET /live/a%20b.flv?token=t HTTP/1.1\r\n").expect(&text);
    let (fields, rest) = rest.split_once("\r\n\r\n").expect("a head");
    assert_eq!((fields, rest), ("host: x\r\nx-odd: a\tb", HEALTH));
    assert_eq!(requests, 1, "it is still to be served");
}

#[tokio::test]
async fn who_asks_for_the_end_gets_it() {
    for (request, remark) in [
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "Connection: close"),
        ("GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.0"),
    ] {
        let mut world = world(request).await;
        let (head, body) = world.answer().await;
        assert!(head.contains("connection: close") || head.starts_with("http/1.0"), "{remark}: {head}");
        assert_eq!((body.as_str(), world.rest().await.as_str()), ("ok\n", ""), "{remark}");
    }
}

#[tokio::test]
async fn http_1_0_may_ask_to_be_kept_open() {
    let mut world = world("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
    assert!(world.answer().await.0.contains("connection: keep-alive"));
    assert_eq!(world.returned().await.requests, 1);
}

#[tokio::test]
async fn without_a_place_the_answer_says_close() {
    let context = local();
    let taken: Vec<_> =
        (0..).map_while(|_| context.keep_alive.take("127.0.0.1".parse().expect("an address"))).collect();
    assert!(!taken.is_empty());
    let mut world = world_of(context, HEALTH).await;
    assert!(world.answer().await.0.contains("connection: close"));
    assert_eq!(world.rest().await, "");
}

#[tokio::test]
async fn a_draining_server_keeps_nothing_open() {
    let context = local();
    context.draining.send_replace(true);
    let mut world = world_of(context, HEALTH).await;
    assert!(world.answer().await.0.contains("connection: close"));
    assert_eq!(world.rest().await, "");
}

#[tokio::test]
async fn bodies_end_where_they_say_and_the_next_request_begins_there() {
    let length = "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nGET /";
    let chunked = "POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nGET /\r\n0\r\nTrailer: x\r\n\r\n";
    for request in [length, chunked] {
        let mut world = world(&format!("{request}{HEALTH}")).await;
        assert!(world.answer().await.0.contains("405 method not allowed"), "{request}");
        assert!(world.answer().await.0.contains("200 ok"), "{request}");
        assert_eq!(world.returned().await.requests, 2, "{request}");
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_and_the_connection_stays_open() {
    let mut world = world("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(world.client.read_u8().await.expect("an answer"));
    }
    world.send(HEALTH).await;
    assert_eq!(world.answer().await.1, "ok\n", "the next byte is of the next answer");
}

#[tokio::test]
async fn who_waits_to_be_told_to_send_a_body_is_told() {
    let head = "POST /api/v1/pulls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let mut world = world(&format!("{head}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")).await;
    assert!(world.answer().await.0.starts_with("http/1.1 100 continue\r\n"));
    world.send("{}").await;
    assert!(world.answer().await.0.starts_with("http/1.1 4"), "no pull is like that");
    assert_eq!(world.returned().await.requests, 1);
}

#[tokio::test]
async fn an_answer_before_the_end_of_a_body_arrives_and_the_connection_ends() {
    let mut world = world("POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n").await;
    // The connection may be closed before all of it is taken.
    let _ = world.client.write_all(&vec![b'x'; 900_000]).await;
    assert!(world.answer().await.0.contains("413 payload too large"));
    assert_eq!(world.rest().await, "");
}

#[tokio::test]
async fn a_later_head_has_the_limit_of_the_first() {
    let long = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(17 << 10));
    let mut world = world(&format!("{HEALTH}{long}")).await;
    assert!(world.answer().await.0.contains("200 ok"));
    assert!(world.answer().await.0.contains("431 request header fields too large"));
    assert_eq!(world.rest().await, "");
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_closed() {
    let mut world = world(&format!("{HEALTH}this is no request\r\n\r\n")).await;
    assert!(world.answer().await.0.contains("200 ok"));
    assert!(world.answer().await.0.contains("400 bad request"));
    assert_eq!(world.rest().await, "");
}

#[tokio::test]
async fn a_body_that_never_comes_ends_with_the_time_limit() {
    tokio::time::pause();
    let head = "POST /api/v1/pulls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let mut world = world(&format!("{head}Content-Length: 100\r\n\r\n{{")).await;
    let begun = tokio::time::Instant::now();
    let mut rest = Vec::new();
    let _ = timeout(2 * REQUEST_TIMEOUT, world.client.read_to_end(&mut rest)).await.expect("closed");
    assert_eq!(String::from_utf8_lossy(&rest), "");
    let took = begun.elapsed();
    assert!(took >= REQUEST_TIMEOUT && took <= REQUEST_TIMEOUT + Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn a_request_with_a_body_that_asks_for_websocket_keeps_its_body() {
    let head = "POST /api/v1/pulls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let mut world =
        world(&format!("{head}Upgrade: websocket\r\nContent-Length: 2\r\n\r\n{{}}{HEALTH}")).await;
    let answer = timeout(TIMEOUT, world.answer()).await.expect("the body has come");
    assert!(answer.0.starts_with("http/1.1 4"), "no pull is like that: {}", answer.0);
    assert!(world.answer().await.0.contains("200 ok"), "the next request begins after the body");
}

#[tokio::test]
async fn a_body_that_nobody_reads_is_never_the_next_request() {
    let mut world = world(HEALTH).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut held = Vec::new();
    // So many that none stays here for its next request.
    for _ in 0..=STAYS_BELOW.1 {
        held.push(TcpStream::connect(address).await.expect("a connection"));
        let (server, _) = listener.accept().await.expect("a connection");
        let head = "POST /api/v1/pulls HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n";
        world.hand_over(server.into_std().expect("a socket"), head.into(), 0, None).await;
    }
    assert!(world.answer().await.0.contains("200 ok"));
    drop(world.returned().await);
    for (path, status) in [("/healthz", "405"), ("/nothing/here", "405"), ("/api/v1/nothing", "404")] {
        world.client = TcpStream::connect(address).await.expect("a connection");
        let (server, _) = listener.accept().await.expect("a connection");
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", HEALTH.len());
        world.hand_over(server.into_std().expect("a socket"), head.into(), 0, None).await;
        let answer = world.answer().await.0;
        assert!(answer.starts_with(&format!("http/1.1 {status} ")), "{path}: {answer}");
        // The connection may have been closed meanwhile.
        let _ = world.client.write_all(HEALTH.as_bytes()).await;
        let mut rest = Vec::new();
        let _ = timeout(TIMEOUT, world.client.read_to_end(&mut rest)).await.expect("it closes");
        assert_eq!(String::from_utf8_lossy(&rest), "", "{path}: no second answer");
        assert!(world.returned.try_recv().is_err(), "{path}: nothing goes on after it");
    }
}

#[tokio::test]
async fn a_refusal_arrives_whatever_follows_the_request() {
    let long = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(17 << 10));
    for (request, status) in [("this is no request\r\n\r\n", "400"), (long.as_str(), "431")] {
        let mut world = world(&format!("{HEALTH}{request}")).await;
        world.send(&"x".repeat(200_000)).await;
        assert!(world.answer().await.0.contains("200 ok"), "{status}");
        assert!(world.answer().await.0.starts_with(&format!("http/1.1 {status} ")), "{status}");
        // A socket closed with unread input would be reset, and the answer perhaps lost.
        assert_eq!(world.rest().await, "", "{status}");
    }
}

#[tokio::test]
async fn an_address_has_its_share_of_connections() {
    let world = world(HEALTH).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut clients = Vec::new();
    for _ in 0..=CONNECTIONS_PER_ADDRESS_MAX {
        clients.push(TcpStream::connect(address).await.expect("a connection"));
        let (server, _) = listener.accept().await.expect("a connection");
        // Half a body: the request lasts.
        let head = "POST /api/v1/pulls HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n";
        world.hand_over(server.into_std().expect("a socket"), head.into(), 0, None).await;
    }
    let mut last = String::new();
    let mut client = clients.pop().expect("a client");
    timeout(TIMEOUT, client.read_to_string(&mut last)).await.expect("at once").expect("an answer");
    assert!(last.starts_with("HTTP/1.1 429 ") && last.contains("retry-after: 2\r\n"), "{last}");
    assert!(last.contains("connection: close\r\n") && last.ends_with("}"), "{last}");
    assert!(world.count(|http| &http.refused) >= 1);
}

#[tokio::test]
async fn a_crowd_that_plays_files_leaves_room_for_others_of_its_address() {
    let world = world(HEALTH).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut clients = Vec::new();
    let ask = async |head: &str, clients: &mut Vec<TcpStream>| {
        clients.push(TcpStream::connect(address).await.expect("a connection"));
        let (server, _) = listener.accept().await.expect("a connection");
        world.hand_over(server.into_std().expect("a socket"), head.into(), 0, None).await;
    };
    let (_, viewers) = ON_DEMAND_CONNECTIONS_MAX;
    for _ in 0..=viewers {
        // Half a body: the request lasts.
        let head = "POST /vod/files/a.mp4 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n";
        ask(head, &mut clients).await;
    }
    let mut refused = clients.pop().expect("a client");
    refused.write_all(b"\r\n").await.expect("sent");
    let mut status = [0; 12];
    timeout(TIMEOUT, refused.read_exact(&mut status)).await.expect("at once").expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 429");
    ask(HEALTH, &mut clients).await;
    let mut other = clients.pop().expect("a client");
    timeout(TIMEOUT, other.read_exact(&mut status)).await.expect("at once").expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 200");
}

/// An HTTP/2 client on `world`'s connection, whose driver runs by itself.
async fn http2(client: TcpStream) -> h2::client::SendRequest<hyper::body::Bytes> {
    let (requests, connection) = h2::client::handshake(client).await.expect("HTTP/2");
    tokio::spawn(connection);
    requests
}

fn get(path: &str) -> Request<()> {
    Request::get(format!("http://localhost{path}")).body(()).expect("a request")
}

/// A control side and a client of HTTP/2 whose preface a worker has read.
async fn http2_world(context: Arc<Context>) -> (World, h2::client::SendRequest<hyper::body::Bytes>) {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut world = world_of(context, HEALTH).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a connection");
    let (mut server, _) = listener.accept().await.expect("a connection");
    let requests = tokio::spawn(http2(client));
    let mut preface = vec![0; PREFACE.len()];
    server.read_exact(&mut preface).await.expect("a preface");
    assert_eq!(preface, PREFACE);
    world.hand_over(server.into_std().expect("a socket"), preface, 0, None).await;
    assert!(world.answer().await.0.contains("200 ok"));
    (world, requests.await.expect("a client"))
}

#[tokio::test]
async fn requests_of_http2_are_answered_side_by_side() {
    let (world, mut client) = http2_world(local()).await;
    let answers: Vec<_> =
        (0..20).map(|_| client.send_request(get("/healthz"), true).expect("room for a request").0).collect();
    for answer in answers {
        let answer = answer.await.expect("an answer");
        assert_eq!((answer.status().as_u16(), answer.headers().get("connection")), (200, None));
        let mut body = answer.into_body();
        assert_eq!(body.data().await.expect("a body").expect("data"), "ok\n");
    }
    let counted = (world.count(|http| &http.http2_requests), world.count(|http| &http.http2_connections));
    assert_eq!(counted, (20, 1));
}

#[tokio::test]
async fn media_over_http2_is_referred_to_http1() {
    let (_world, mut client) = http2_world(local()).await;
    let (answer, _) = client.send_request(get("/live/a.flv"), true).expect("room for a request");
    let error = answer.await.expect_err("no answer");
    assert_eq!(error.reason(), Some(h2::Reason::HTTP_1_1_REQUIRED));
    let (answer, _) = client.send_request(get("/healthz"), true).expect("room for a request");
    assert_eq!(answer.await.expect("an answer").status().as_u16(), 200, "the connection goes on");
}

#[tokio::test]
async fn a_draining_server_sends_goaway() {
    let (world, mut client) = http2_world(local()).await;
    let (answer, _) = client.send_request(get("/healthz"), true).expect("room for a request");
    assert_eq!(answer.await.expect("an answer").status().as_u16(), 200);
    world.context.draining.send_replace(true);
    let end = async {
        // Until GOAWAY has come, requests are still answered.
        while let Ok((answer, _)) = client.send_request(get("/healthz"), true) {
            let _ = answer.await;
            client = match client.ready().await {
                Ok(client) => client,
                Err(_) => break,
            };
        }
    };
    timeout(TIMEOUT, end).await.expect("the connection ends");
    timeout(TIMEOUT, async {
        while world.count(|http| &http.http2_connections) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it is closed");
}

#[tokio::test]
async fn an_idle_connection_of_http2_ends_after_its_time() {
    let (world, client) = http2_world(local()).await;
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    while world.count(|http| &http.http2_connections) > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(begun.elapsed() < 2 * world.context.current.settings().keep_alive.timeout, "it ends");
    }
    assert!(begun.elapsed() + Duration::from_secs(2) > world.context.current.settings().keep_alive.timeout);
    assert!(client.ready().await.is_err());
}

#[tokio::test]
async fn a_request_of_http2_that_never_ends_closes_its_connection() {
    let (world, mut client) = http2_world(local()).await;
    let request = Request::post("http://localhost/api/v1/pulls").header("content-type", "application/json");
    let (answer, _body) =
        client.send_request(request.body(()).expect("a request"), false).expect("room for a request");
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    while world.count(|http| &http.http2_connections) > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(begun.elapsed() < 2 * REQUEST_TIMEOUT, "it ends");
    }
    assert!(begun.elapsed() >= REQUEST_TIMEOUT);
    assert!(answer.await.is_err());
}

/// A body without an end: the same bytes again and again.
struct Endlessly {
    bytes: &'static [u8],
    interval: Duration,
    due: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl hyper::body::Body for Endlessly {
    type Data = hyper::body::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        std::task::ready!(self.due.as_mut().poll(cx));
        let due = tokio::time::Instant::now() + self.interval;
        self.due.as_mut().reset(due);
        std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(Self::Data::from_static(self.bytes)))))
    }
}

/// A connection with a request that is answered by `bytes`, once each `interval`, for ever; and the queue
/// of its control side, which serves as long as that is there.
async fn endless(bytes: &'static [u8], interval: Duration) -> (TcpStream, mpsc::Sender<Handoff>) {
    let answer = move || async move {
        let due = Box::pin(tokio::time::sleep(Duration::ZERO));
        let mut response = Response::new(axum::body::Body::new(Endlessly { bytes, interval, due }));
        response.extensions_mut().insert(Endless);
        response
    };
    let router = Router::new().route("/endless", axum::routing::get(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a connection");
    let (server, _) = listener.accept().await.expect("a connection");
    let (handoffs, received) = mpsc::channel(4);
    tokio::spawn(serve(local(), router, received));
    let (returns, _) = mpsc::channel(4);
    let handoff = Handoff {
        stream: server.into_std().expect("a socket"),
        tls: None,
        buffered: b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        peer: "127.0.0.1:1".parse().expect("an address"),
        requests: 0,
        slot: None,
        place: None,
        home: ReturnQueue::new(returns, std::task::Waker::noop().clone()),
    };
    handoffs.send(handoff).await.expect("control takes it");
    (client, handoffs)
}

#[tokio::test]
async fn an_endless_answer_goes_on_as_long_as_its_frames_are_taken() {
    tokio::time::pause();
    let (mut client, _handoffs) = endless(b"tick", REQUEST_TIMEOUT / 2).await;
    let begun = tokio::time::Instant::now();
    let (mut text, mut bytes) = (Vec::new(), [0; 1024]);
    while begun.elapsed() < 5 * REQUEST_TIMEOUT {
        let read = client.read(&mut bytes).await.expect("no error");
        assert!(read > 0, "closed after {:?}", begun.elapsed());
        text.extend_from_slice(&bytes[..read]);
    }
    assert!(text.windows(4).filter(|part| part == b"tick").count() >= 10);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_of_an_endless_answer_is_disconnected() {
    static MUCH: [u8; 1 << 20] = [b'x'; 1 << 20];
    tokio::time::pause();
    let (mut client, _handoffs) = endless(&MUCH, Duration::from_millis(1)).await;
    tokio::time::sleep(2 * REQUEST_TIMEOUT).await;
    // What the sockets hold, and the end.
    let mut rest = Vec::new();
    let _ = timeout(TIMEOUT, client.read_to_end(&mut rest)).await.expect("closed");
    assert!(!rest.is_empty());
}
