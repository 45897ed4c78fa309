//! NATS killed, frozen, started again, and cut off from one node. That each is settled in time is tested in
//! virtual time (`src/machine/tests/rules.rs`); how long it takes here is printed.

use std::io::Result;
use std::time::Duration;

use async_nats::jetstream;
use cluster::{Directory, Event, Gone, LostBecause, Policy, Refusal};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::server::{DEADLINE, Server, described, home, in_time, node, stream, until};

/// How long NATS stands still: longer than nodes live without announcements, and longer than it keeps one.
const STANDSTILL: Duration = Duration::from_secs(7);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_killed_and_started_again_without_its_memory() {
    let Some(mut server) = Server::start().await else { return };
    let (a, b) = (server.directory("a").await, server.directory("b").await);
    let before = a.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap();
    until("it is found", || home(&b, "live/a").is_some()).await;
    let mut events = b.events();

    server.kill();
    until("that is noticed", || !a.health().heard && !b.health().heard).await;
    assert_eq!((home(&b, "live/a").as_deref(), b.nodes().len()), (Some("a"), 2), "what was known stays");
    let alone = b.claim(&stream("live/b"), described(b""), Policy::Refuse).await.unwrap();
    assert!(alone.provisional);
    assert_eq!(home(&b, "live/b").as_deref(), Some("b"));
    let taken = b.claim(&stream("live/a"), described(b""), Policy::Refuse).await;
    assert_eq!(taken, Err(Refusal::TakenBy(node("a"))));
    // Both publish this one, and one of them will have to end.
    let split = [&a, &b].map(|directory| directory.claim(&stream("live/c"), described(b""), Policy::Refuse));
    let mut epochs = Vec::new();
    for claim in split {
        let granted = claim.await.unwrap();
        assert!(granted.provisional);
        epochs.push(granted.epoch);
    }
    let mut lost_a = a.events();

    server.run().await;
    let settled = || {
        let homes = [&a, &b].map(|directory| home(directory, "live/c"));
        a.health().settled
            && b.health().settled
            && home(&a, "live/b").as_deref() == Some("b")
            && homes[0].is_some()
            && homes[0] == homes[1]
    };
    let time = until("all is settled", settled).await;
    println!("RESULT directory settle_ms={}", time.as_millis());
    assert_eq!(a.find(&stream("live/a")).unwrap().epoch, before.epoch);
    let winner = home(&a, "live/c").unwrap();
    let stays = if (epochs[0], a.instance()) > (epochs[1], b.instance()) { "a" } else { "b" };
    assert_eq!(winner, stays, "the later one in epochs, then the larger instance");
    let loser = if winner == "a" { &mut events } else { &mut lost_a };
    loop {
        match loser.next().await.unwrap() {
            Event::Lost { stream: name, because, .. } => {
                assert_eq!((name, because), (stream("live/c"), LostBecause::Split));
                break;
            }
            Event::StreamGone(name) => panic!("{name} was disturbed"),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_frozen_and_thawed() {
    let Some(server) = Server::start().await else { return };
    let (a, b) = (server.directory("a").await, server.directory("b").await);
    a.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap();
    until("it is found", || home(&b, "live/a").is_some()).await;
    server.freeze(true).await;
    let thaws = Instant::now() + STANDSTILL;
    let alone = b.claim(&stream("live/b"), described(b""), Policy::Refuse).await.unwrap();
    assert!(alone.provisional);
    until("that is noticed", || !a.health().heard && !b.health().heard).await;
    // The length of the fault itself: a server that stands still does nothing that could be waited for.
    sleep_until(thaws).await;
    assert_eq!((home(&b, "live/a").as_deref(), b.nodes().len()), (Some("a"), 2), "what was known stays");
    server.freeze(false).await;
    let settled = || home(&a, "live/b").is_some() && a.health().settled && b.health().settled;
    let (thawed, mut is_late) = (Instant::now(), false);
    let time = until("all is settled", || {
        // What it hangs on is gone with the test.
        if !is_late && thawed.elapsed() > DEADLINE / 2 {
            is_late = true;
            eprintln!("a: {:?}, b: {:?}, home of b's: {:?}", a.health(), b.health(), home(&a, "live/b"));
        }
        settled()
    })
    .await;
    println!("RESULT directory thaw_ms={}", time.as_millis());
    assert_eq!(home(&b, "live/a").as_deref(), Some("a"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_cut_off_loses_its_name_to_one_that_is_not() {
    let Some(server) = Server::start().await else { return };
    let link = Link::to(server.port).await;
    let a = Directory::connect(server.settings_by(link.port, "a")).await.unwrap();
    let b = server.directory("b").await;
    let (name, mut events, mut seen) = (stream("live/a"), a.events(), b.events());
    let first = a.claim(&name, described(b""), Policy::Refuse).await.unwrap();
    until("it is found", || b.find(&name).is_some()).await;
    link.open.send_replace(false);
    loop {
        if let Event::NodeGone(gone, why) = seen.next().await.unwrap() {
            assert_eq!((gone, why), (node("a"), Gone::Silent));
            break;
        }
    }
    assert_eq!(b.find(&name), None);
    b.claim(&name, described(b""), Policy::Refuse).await.unwrap();
    assert_eq!(a.find(&name).unwrap().epoch, first.epoch, "it cannot know");
    let provisional = a.claim(&stream("live/b"), described(b""), Policy::Refuse).await.unwrap();
    assert!(provisional.provisional);

    link.open.send_replace(true);
    let time = until("both agree", || home(&a, "live/a").as_deref() == Some("b")).await;
    println!("RESULT directory heal_ms={}", time.as_millis());
    loop {
        if let Event::Lost { to, because, .. } = events.next().await.unwrap() {
            assert_eq!((to, because), (node("b"), LostBecause::NotHeard));
            break;
        }
    }
    until("what was granted alone is known", || home(&b, "live/b").as_deref() == Some("a")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_is_forgotten_and_its_names_can_be_had() {
    let Some(server) = Server::start().await else { return };
    let (a, b) = (server.directory("a").await, server.directory("b").await);
    for name in ["live/a", "live/b"] {
        a.claim(&stream(name), described(b""), Policy::Refuse).await.unwrap();
        until("it is found", || home(&b, name).is_some()).await;
    }
    drop(a);
    let begun = Instant::now();
    let claim = b.claim(&stream("live/a"), described(b""), Policy::Refuse).await;
    println!("RESULT directory claim_of_the_dead_ms={}", begun.elapsed().as_millis());
    assert!(claim.is_ok(), "{claim:?}");
    until("the other one is gone", || home(&b, "live/b").is_none()).await;
}

/// As while three servers elect a leader: some nodes are served, others only connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_connected_and_not_served_keeps_its_streams() {
    let Some(server) = Server::start().await else { return };
    let link = Link::to(server.port).await;
    let a = server.directory("a").await;
    let b = Directory::connect(server.settings_by(link.port, "b")).await.unwrap();
    b.claim(&stream("live/b"), described(b""), Policy::Refuse).await.unwrap();
    until("it is found", || home(&a, "live/b").is_some()).await;
    let mut events = a.events();

    link.serves.send_replace(false);
    until("it is not served", || !b.health().heard).await;
    let jetstream = jetstream::new(server.client().await);
    let heartbeats = jetstream.get_key_value("millstream_heartbeats").await.unwrap();
    let heartbeat = format!("{:016x}", b.instance().0);
    in_time("its heartbeat is gone", async {
        while heartbeats.get(&heartbeat).await.unwrap().is_some() {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    // Longer than nodes live that neither send heartbeats nor are connected: the length of the fault itself.
    sleep(STANDSTILL).await;
    assert!(a.health().heard, "{:?}", a.health());
    let taken = a.claim(&stream("live/b"), described(b""), Policy::Refuse).await;
    assert_eq!(taken, Err(Refusal::TakenBy(node("b"))), "it lives");

    link.serves.send_replace(true);
    until("it is served", || b.health().settled).await;
    assert_eq!(home(&a, "live/b").as_deref(), Some("b"));
    while let Ok(Ok(event)) = timeout(Duration::ZERO, events.next()).await {
        assert!(!matches!(event, Event::StreamGone(_) | Event::NodeGone(..)), "{event:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_nats_a_node_begins_alone_and_joins_later() {
    let Some(mut server) = Server::start().await else { return };
    server.kill();
    let a = server.directory("a").await;
    assert!(!a.health().heard);
    let alone = a.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap();
    assert!(alone.provisional);
    server.run().await;
    let b = server.directory("b").await;
    until("it is found", || home(&b, "live/a").as_deref() == Some("a")).await;
}

/// A way to the server that can be cut (bytes stop, and new connections get none), and that can keep from it
/// what is for JetStream.
struct Link {
    port: u16,
    open: watch::Sender<bool>,
    serves: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Link {
    async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, is_open) = watch::channel(true);
        let (serves, does_serve) = watch::channel(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (is_open, does_serve) = (is_open.clone(), does_serve.clone());
                connections.spawn(async move {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    // One that ends ends the connection both ways.
                    tokio::select! {
                        _ = copy_operations(from_client, to_server, is_open.clone(), does_serve) => {}
                        _ = copy(from_server, to_client, is_open) => {}
                    }
                });
            }
        });
        Self { port, open, serves, _tasks: tasks }
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut open: watch::Receiver<bool>,
) -> Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let len = from.read(&mut bytes).await?;
        if len == 0 || open.wait_for(|open| *open).await.is_err() {
            return Ok(());
        }
        to.write_all(&bytes[..len]).await?;
    }
}

/// What a client sends, operation by operation.
async fn copy_operations(
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut open: watch::Receiver<bool>,
    serves: watch::Receiver<bool>,
) -> Result<()> {
    let mut from = BufReader::new(from);
    loop {
        let mut operation = Vec::new();
        if from.read_until(b'\n', &mut operation).await? == 0 || open.wait_for(|open| *open).await.is_err() {
            return Ok(());
        }
        // PUB subject [reply] length, HPUB subject [reply] length of the headers and of all
        let line = String::from_utf8_lossy(&operation).into_owned();
        let words: Vec<_> = line.split_whitespace().collect();
        if let [kind, subject, .., len] = words[..]
            && kind.ends_with("PUB")
        {
            let mut payload = vec![0; len.parse::<usize>().expect("a length") + 2];
            from.read_exact(&mut payload).await?;
            operation.extend(payload);
            if !*serves.borrow() && (subject.starts_with("$JS.") || subject.starts_with("$KV.")) {
                continue;
            }
        }
        to.write_all(&operation).await?;
    }
}

/// As after a rolling upgrade from a version whose nodes announced themselves more often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_of_another_expiry_gets_that_of_this_version() {
    let Some(server) = Server::start().await else { return };
    let jetstream = jetstream::new(server.client().await);
    let age = Duration::from_secs(5);
    let nodes = jetstream::stream::Config {
        name: "KV_millstream_nodes".to_owned(),
        subjects: vec!["$KV.millstream_nodes.>".to_owned()],
        max_messages_per_subject: 1,
        max_age: age,
        duplicate_window: age,
        allow_rollup: true,
        ..jetstream::stream::Config::default()
    };
    jetstream.create_stream(nodes).await.unwrap();
    let a = server.directory("a").await;
    assert!(a.health().named, "{:?}", a.health().last_problem);
    let config = jetstream.get_stream("KV_millstream_nodes").await.unwrap().cached_info().config.clone();
    assert_eq!((config.max_age, config.duplicate_window), (Duration::from_secs(60), Duration::from_secs(60)));
    assert_eq!(server.directory("b").await.nodes().len(), 2);
}
