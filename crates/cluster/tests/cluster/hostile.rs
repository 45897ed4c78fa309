//! A directory full of nonsense, and a node with very many streams.

use std::time::Duration;

use async_nats::jetstream;
use cluster::{Event, Policy, STREAMS_PER_NODE_MAX, VALUE_BYTES_MAX};
use tokio::time::timeout;

use crate::server::{Server, described, home, stream, until, until_every};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_of_every_length_and_kind_changes_nothing() {
    let Some(server) = Server::start().await else { return };
    let a = server.directory("a").await;
    a.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap();
    let client = server.client().await;
    let mut sent = 0_u64;
    let mut put = async |subject: String, value: Vec<u8>| {
        client.publish(subject, value.into()).await.unwrap();
        sent += 1;
    };
    for len in (0..1500).chain([VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX]) {
        // As if it were of this version and kind, and of another version.
        for (bucket, key, first) in
            [("streams", "s.live_2Fx", *b"\x01S"), ("nodes", "x", *b"\x01N"), ("nodes", "y", *b"\x02N")]
        {
            let mut value = vec![(len % 251) as u8; len];
            for (byte, first) in value.iter_mut().zip(first) {
                *byte = first;
            }
            put(format!("$KV.millstream_{bucket}.{key}{len}"), value).await;
        }
    }
    for key in [
        "s",
        "s.x",
        "s.live_2fx",
        "f.live_2Fx",
        "f.live_2Fx.a.b",
        "s.live_2Fx.y",
        "z.live_2Fx",
        "_",
        "s._00_2F_00",
    ] {
        put(format!("$KV.millstream_streams.{key}"), b"x".to_vec()).await;
    }
    client.flush().await.unwrap();
    until("all of it is ignored", || a.health().nonsense.total >= sent).await;
    assert_eq!((a.nodes().len(), a.streams().len()), (1, 1));

    // A name under nonsense can be had, by a node that came later.
    let b = server.directory("b").await;
    until("it knows what makes sense", || home(&b, "live/a").is_some()).await;
    assert!(b.claim(&stream("live/x7"), described(b""), Policy::Refuse).await.is_ok());
    until("it is found", || home(&a, "live/x7").is_some()).await;

    // And one that is overwritten is written again, or lost, but never in two places.
    client.publish("$KV.millstream_streams.s.live_2Fa", "nonsense".into()).await.unwrap();
    client.publish("$KV.millstream_nodes.a", "nonsense".into()).await.unwrap();
    client.flush().await.unwrap();
    let there = || home(&b, "live/a").as_deref() == Some("a") && a.health().settled && b.nodes().len() == 2;
    until("it is there again", there).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_entries_are_bounded_and_a_bucket_that_is_full_stops_nobody() {
    let Some(server) = Server::start().await else { return };
    let a = server.directory("a").await;
    let context = jetstream::new(server.client().await);
    // Until the bucket takes no more: some four thousand of this size. A million small ones are no other
    // case, because keys that are no names and values that are no records are not kept.
    let value = vec![7_u8; VALUE_BYTES_MAX];
    for len in [value.len(), 1024, 64] {
        let mut round = 0;
        let mut full = false;
        while !full {
            let mut acks = Vec::new();
            for number in 0..100 {
                let subject = format!("$KV.millstream_streams.s.x_2F{len}-{round}-{number}");
                acks.push(context.publish(subject, value[..len].to_vec().into()).await.unwrap());
            }
            for ack in acks {
                full |= ack.await.is_err();
            }
            round += 1;
            assert!(round < 100, "the bucket has a limit");
        }
    }
    let claim = a.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap();
    assert!(claim.provisional, "there is no room to write it");
    assert!(a.health().heard);
    // A node that comes now reads all of it.
    let b = server.directory("b").await;
    until("it has its name", || b.health().named).await;
    let streams = context.get_stream("KV_millstream_streams").await.unwrap();
    streams.purge().await.unwrap();
    until("it is written when there is room", || home(&b, "live/a").is_some()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_of_one_node() {
    let Some(mut server) = Server::start().await else { return };
    let (a, b) = (server.directory("a").await, server.directory("b").await);
    const { assert!(STREAMS_PER_NODE_MAX >= 10_000) };
    let claims: Vec<_> = (0..10_000)
        .map(|number| a.claim(&stream(&format!("live/{number}")), described(&[0; 200]), Policy::Refuse))
        .collect();
    for claim in claims {
        claim.await.unwrap();
    }
    let pause = Duration::from_millis(20);
    until_every(pause, "all are found", || b.streams().len() == 10_000 && a.health().settled).await;
    let mut events = b.events();
    server.kill();
    until_every(pause, "that is noticed", || !a.health().heard && !b.health().heard).await;
    server.run().await;
    let settled = || a.health().settled && b.health().settled;
    let time = until_every(pause, "all is written again", settled).await;
    println!("RESULT directory settle_10000_streams_ms={}", time.as_millis());
    assert_eq!(b.streams().len(), 10_000);
    while let Ok(Ok(event)) = timeout(Duration::ZERO, events.next()).await {
        assert!(
            !matches!(event, Event::StreamGone(_) | Event::NodeGone(..)),
            "all was there all the time: {event:?}"
        );
    }
    a.leave().await;
    until_every(pause, "all are gone", || b.streams().is_empty()).await;
}
