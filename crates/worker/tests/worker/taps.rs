//! A player inside the process gets what any player gets, as frames, and is a session like any other.

use std::time::Duration;

use media::{Codec, FrameRole};
use worker_api::EndReason;
use worker_api::settings::ApplicationSettings;
use worker_api::snapshot::{Protocol, Role};
use worker_api::streams::Epoch;
use worker_api::tap::{TapItem, TapRefusal};

use crate::common::{Node, next, rtc, sample, send, take, until};

/// Waits until workers have taken so many frames of publishers.
async fn taken(node: &Node, count: usize) {
    until("the frames are taken", async || {
        let workers = node.handles.snapshots().await.expect("answers");
        let frames: u64 = workers.iter().map(|worker| worker.counters.frames_in).sum();
        (frames >= count as u64).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_tap_on_any_worker_begins_with_headers_and_the_last_key_frame_and_goes_on() {
    let node = Node::start_usual();
    let frames = sample();
    let (before, after) = frames.split_at(frames.len() / 2);
    let mut publisher = node.publish(0, "mill", Protocol::Channel).await.expect("nobody else publishes");
    send(&mut publisher, before).await;
    taken(&node, before.len()).await;
    let mut taps = [node.tap(0, "mill").await.expect("a tap"), node.tap(1, "mill").await.expect("a tap")];
    let is_header = |role| matches!(role, FrameRole::Config | FrameRole::Metadata);
    let headers: Vec<_> = before.iter().filter(|frame| is_header(frame.role)).cloned().collect();
    let key = before.iter().rposition(|frame| frame.role == FrameRole::Key).expect("a key frame");
    // A tap on another worker than the publisher's has joined when it has what is there.
    let beginning = headers.len() + before.len() - key;
    let mut begun = Vec::new();
    for tap in &mut taps {
        begun.push(take(tap, beginning).await);
    }
    send(&mut publisher, after).await;
    for (tap, mut got) in taps.iter_mut().zip(begun) {
        got.extend(take(tap, after.len()).await);
        let frames = got.split_off(headers.len());
        assert!(headers.iter().all(|header| got.contains(header)), "{} headers", got.len());
        assert!(frames.iter().eq(before[key..].iter().chain(after)), "from the key frame on, each once");
    }
    publisher.finish().await;
    for tap in &mut taps {
        assert_eq!(next(tap).await, TapItem::Stop);
    }
}

#[tokio::test]
async fn it_is_a_session_and_ends_for_the_reasons_of_sessions() {
    let node = Node::start_usual();
    let frames = sample();
    let mut publisher = node.publish(1, "mill", Protocol::Channel).await.expect("nobody else publishes");
    let mut tap = node.tap(1, "mill").await.expect("a tap");
    send(&mut publisher, &frames[..50]).await;
    take(&mut tap, 50).await;
    let bytes: usize = frames[..50].iter().map(|frame| frame.bytes()).sum();
    let mut players = node.sessions(|session| session.role == Role::Player).await;
    let session = players.pop().expect("the tap");
    assert_eq!((players.len(), session.id, session.protocol), (0, tap.session(), Protocol::Node));
    assert_eq!((session.stream.as_deref(), session.bytes_out), (Some("live/mill"), bytes as u64));
    assert_eq!(session.user_agent.as_deref(), Some("to node b"));
    let streams = node.handles.snapshots().await.expect("answers").remove(1).streams;
    assert_eq!(streams[0].players, 1);

    assert_eq!(node.handles.kick(tap.session()).await, Ok(true));
    assert_eq!(tap.next().await, Err(EndReason::Kicked));
    drop(node.tap(1, "mill").await.expect("another"));
    until("the one that was dropped is gone", async || {
        (node.ended("closed_by_peer").await == 1).then_some(())
    })
    .await;
    assert_eq!(node.sessions(|session| session.role == Role::Player).await.len(), 0);
    let mut tap = node.tap(1, "mill").await.expect("a third");
    node.handles.drain(Duration::from_secs(1));
    while let Ok(item) = tap.next().await {
        assert!(matches!(item, TapItem::Start { .. } | TapItem::Stop), "{item:?}");
    }
    assert_eq!(tap.next().await, Err(EndReason::Draining));
}

#[tokio::test]
async fn it_stays_while_publishers_come_and_go() {
    let node = Node::start_usual();
    let frames = sample();
    let mut tap = node.tap(0, "mill").await.expect("it may wait");
    let mut last = Epoch(0);
    for worker in [0, 1, 0] {
        let mut publisher = node.publish(worker, "mill", Protocol::Channel).await.expect("it is free");
        send(&mut publisher, &frames[..20]).await;
        let TapItem::Start { epoch, frames: first } = next(&mut tap).await else { panic!("no start") };
        assert!(epoch > last && first.is_empty(), "{epoch:?} after {last:?}, {first:?}");
        assert_eq!(take(&mut tap, 20).await, frames[..20]);
        publisher.finish().await;
        assert_eq!(next(&mut tap).await, TapItem::Stop);
        last = epoch;
    }
}

#[tokio::test]
async fn where_players_do_not_wait_it_does_not_either() {
    let settings =
        ApplicationSettings { wait_for_publisher: Some(Duration::ZERO), ..ApplicationSettings::default() };
    let node = Node::start(settings);
    assert_eq!(node.tap(0, "mill").await.err(), Some(TapRefusal::NotFound));
    let publisher = node.publish(1, "mill", Protocol::Channel).await.expect("nobody else publishes");
    let mut tap = node.tap(0, "mill").await.expect("it is there");
    assert!(matches!(next(&mut tap).await, TapItem::Start { .. }));
    publisher.finish().await;
    assert_eq!(next(&mut tap).await, TapItem::Stop);
    assert_eq!(tap.next().await, Err(EndReason::NoPublisher));
}

#[tokio::test]
async fn a_reader_that_does_not_read_loses_frames_up_to_a_key_frame_and_nobody_else_does() {
    let node = Node::start_usual();
    let frames = sample();
    let rest: Vec<_> = frames
        .iter()
        .filter(|frame| !matches!(frame.role, FrameRole::Config | FrameRole::Metadata))
        .cloned()
        .collect();
    let mut publisher = node.publish(0, "mill", Protocol::Channel).await.expect("nobody else publishes");
    let mut reads = node.tap(0, "mill").await.expect("a tap");
    let mut sleeps = node.tap(0, "mill").await.expect("a tap");
    send(&mut publisher, &frames).await;
    let mut sent = frames.clone();
    assert_eq!(take(&mut reads, frames.len()).await, frames);
    let mut dropped = 0;
    while dropped == 0 {
        send(&mut publisher, &rest).await;
        sent.extend(rest.iter().cloned());
        assert_eq!(take(&mut reads, rest.len()).await, rest, "it has all of it");
        let sessions = node.sessions(|session| session.id == sleeps.session()).await;
        dropped = sessions[0].dropped_frames;
    }
    let queued = sent.len() - dropped as usize;
    assert_eq!(take(&mut sleeps, queued).await, sent[..queued]);
    send(&mut publisher, &rest).await;
    let first = rest.iter().position(|frame| frame.role == FrameRole::Key).expect("a key frame");
    let TapItem::Gap { dropped: told, frames: goes_on } = next(&mut sleeps).await else { panic!("no gap") };
    assert_eq!(told, dropped + first as u64);
    assert_eq!(goes_on.last(), Some(&rest[first]));
    let headers = &goes_on[..goes_on.len() - 1];
    assert!(headers.iter().all(|frame| frame.role != FrameRole::Key) && !headers.is_empty());
    assert_eq!(take(&mut sleeps, rest.len() - first - 1).await, rest[first + 1..]);
}

#[tokio::test]
async fn a_stream_of_packets_is_bridged_for_it() {
    for worker in [0, 1] {
        let node = Node::start_usual();
        let mut publisher = rtc::publish(&node, 0, "cam").await.expect("nobody else publishes");
        let mut tap = node.tap(worker, "cam").await.expect("a tap");
        let mut number = 0;
        let mut frames = Vec::new();
        until("audio and a picture arrive", async || {
            publisher.turn();
            publisher.send_audio(number);
            publisher.send_video(number, true, 500);
            number += 1;
            while let Some(item) = tap.try_next() {
                match item {
                    TapItem::Start { frames: first, .. } => frames = first,
                    TapItem::Frame(frame) => frames.push(frame),
                    item => panic!("{item:?}"),
                }
            }
            let has = |codec, role| frames.iter().any(|frame| (frame.codec, frame.role) == (codec, role));
            (has(Codec::Vp8, FrameRole::Key) && has(Codec::Opus, FrameRole::Audio)).then_some(())
        })
        .await;
        drop(tap);
        until("its session ends", async || {
            let players = node.sessions(|session| session.role == Role::Player).await;
            players.is_empty().then_some(())
        })
        .await;
    }
}
