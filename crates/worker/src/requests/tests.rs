use std::io::Read;
use std::sync::Arc;
use std::task::Waker;

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use tokio::sync::oneshot;

use super::*;
use crate::ids::WorkerIndex;
use crate::mailbox::{self, Mailboxes, MessageBody};
use crate::net::Token;
use crate::net::tests::connected;
use crate::packets::panic_tests::worker;
use crate::publication::Remote;
use worker_api::command::Listed;
use worker_api::internal::{Publisher, queue};
use worker_api::snapshot::Protocol;

const PREFLIGHT: &str = "OPTIONS /live/a.flv HTTP/1.1\r\nHost: h\r\n\r\n";

/// A connection with `text` to be read, as control gives one back, and its other end.
fn ask(worker: &mut Worker, text: String) -> impl Read + use<> {
    let (stream, client) = connected();
    let peer = stream.peer_addr().expect("an address");
    let home = worker.control.home.clone();
    let buffered = text.into_bytes();
    let handoff = Handoff { stream, tls: None, buffered, peer, requests: 1, slot: None, place: None, home };
    let next = worker.idle.take_back(&mut worker.ctx, handoff).expect("a request");
    worker.resume_http(next);
    client
}

#[test]
fn requests_far_ahead_are_answered_once() {
    let (mut worker, _noted) = worker();
    let most = http::HEAD_BYTES_MAX / PREFLIGHT.len();
    for (requests, answers) in [(most, most), (10 * most, 1)] {
        let mut client = ask(&mut worker, PREFLIGHT.repeat(requests));
        worker.end(ConnId(0), EndReason::Draining);
        let mut answered = String::new();
        client.read_to_string(&mut answered).expect("answers, and an end");
        assert_eq!(answered.matches("HTTP/1.1 204").count(), answers);
        assert_eq!(answered.matches("Connection: close").count(), usize::from(requests > most));
        worker.remove(ConnId(0), EndReason::Closed);
    }
}

#[test]
fn a_defect_in_what_reads_a_client_ends_that_session_and_no_other() {
    let (mut worker, _noted) = worker();
    let mut clients = [0, 1].map(|_| ask(&mut worker, PREFLIGHT.to_owned()));
    worker.connections.defect = Some(ConnId(0));
    let ready =
        |conn| Readiness { token: Token::Connection(conn), readable: true, writable: true, closed: false };
    worker.turn(&[ready(ConnId(0)), ready(ConnId(1))]);
    assert!(worker.connections.sessions.get(ConnId(0)).is_none());
    assert!(worker.connections.sessions.get(ConnId(1)).is_some());
    assert_eq!(worker.ctx.counters.panics, 1);
    let mut answered = String::new();
    clients[0].read_to_string(&mut answered).expect("an answer, and an end");
    assert!(answered.starts_with("HTTP/1.1 204"), "{answered}");
}

#[test]
fn a_connection_that_waits_for_its_next_request_is_not_counted_again() {
    let (mut worker, _noted) = worker();
    let _client = ask(&mut worker, PREFLIGHT.to_owned());
    worker.end(ConnId(0), EndReason::Draining);
    let ended: u64 = worker.ctx.counters.ended.iter().map(|(_, count)| count).sum();
    assert_eq!(ended, 1);
}

/// Has `worker` publish `live/films`.
fn publish(worker: &mut Worker) -> Result<(Publisher, ConnId), Refusal> {
    let (publisher, frames) = queue(1 << 20);
    let (reply, mut answer) = oneshot::channel();
    let request = PublishRequest {
        app: "live".to_owned(),
        name: "films".to_owned(),
        protocol: Protocol::Channel,
        address: "192.0.2.1:80".parse().expect("an address"),
        detail: "channel live/films".to_owned(),
    };
    worker.publish_internal(InternalPublish { request, frames, reply });
    let id = answer.try_recv().expect("an answer")?;
    let (conn, _) =
        worker.connections.sessions.iter().find(|(_, session)| session.id == id).expect("a session");
    Ok((publisher, conn))
}

/// A stream that is published here and goes to another worker, by a ring of three messages.
struct Ring {
    home: Worker,
    other: Mailboxes,
    stream: FrameStreamId,
    _publisher: Publisher,
}

impl Ring {
    fn new() -> Self {
        let (mut home, _noted) = worker();
        let mut ends = mailbox::connect(&[Waker::noop().clone(), Waker::noop().clone()], 3);
        let other = ends.remove(1);
        home.ctx.mailboxes = ends.remove(0);
        let (_publisher, _) = publish(&mut home).expect("nobody else publishes");
        let (stream, local) = home.frames.streams.iter_mut().next().expect("its stream");
        local.publication.remotes.push(Remote::new(WorkerIndex::at(1)));
        Self { home, other, stream, _publisher }
    }

    fn send(&mut self, track: TrackId, role: FrameRole) {
        let frame = Frame::new(track, role, Codec::Aac, (Timestamp::ZERO, Timestamp::ZERO), vec![0x12, 0x10]);
        self.home.frames.fan_out(&mut self.home.ctx, self.stream, &Arc::new(frame));
    }

    fn receive(&mut self) -> Vec<(TrackId, FrameRole)> {
        let messages = std::iter::from_fn(|| self.other.receive(WorkerIndex::at(0)));
        let roles = messages.map(|message| match message.body {
            MessageBody::Frame { frame, .. } => (frame.track, frame.role),
            other => panic!("{other:?}"),
        });
        roles.collect()
    }
}

#[test]
fn a_header_that_a_ring_had_no_room_for_goes_ahead_of_the_next_frame() {
    let mut ring = Ring::new();
    ring.send(TrackId::VIDEO, FrameRole::Config);
    ring.send(TrackId::VIDEO, FrameRole::Key);
    ring.send(TrackId::VIDEO, FrameRole::Inter);
    ring.send(TrackId::AUDIO, FrameRole::Config);
    assert_eq!(ring.receive().len(), 3);
    ring.send(TrackId::AUDIO, FrameRole::Audio);
    let headers = [TrackId::VIDEO, TrackId::AUDIO].map(|track| (track, FrameRole::Config));
    assert_eq!(ring.receive(), [&headers[..], &[(TrackId::AUDIO, FrameRole::Audio)]].concat());
    ring.send(TrackId::AUDIO, FrameRole::Audio);
    assert_eq!(ring.receive(), [(TrackId::AUDIO, FrameRole::Audio)]);
}

#[test]
fn the_end_of_a_track_that_a_ring_had_no_room_for_goes_ahead_of_the_next_frame() {
    let mut ring = Ring::new();
    ring.send(TrackId::AUDIO, FrameRole::Config);
    ring.send(TrackId::VIDEO, FrameRole::Config);
    ring.send(TrackId::VIDEO, FrameRole::Key);
    ring.send(TrackId::VIDEO, FrameRole::End);
    ring.send(TrackId::VIDEO, FrameRole::End);
    assert_eq!(ring.receive().len(), 3);
    ring.send(TrackId::AUDIO, FrameRole::Audio);
    let (end, audio) = ((TrackId::VIDEO, FrameRole::End), (TrackId::AUDIO, FrameRole::Audio));
    assert_eq!(ring.receive(), [end, audio]);
    ring.send(TrackId::AUDIO, FrameRole::Audio);
    assert_eq!(ring.receive(), [audio]);
    // The header that was lost behind it says that the track goes on.
    for role in [FrameRole::Config, FrameRole::Key, FrameRole::Inter, FrameRole::End, FrameRole::Config] {
        ring.send(TrackId::VIDEO, role);
    }
    assert_eq!(ring.receive().len(), 3);
    ring.send(TrackId::VIDEO, FrameRole::Key);
    let headers = [TrackId::VIDEO, TrackId::AUDIO].map(|track| (track, FrameRole::Config));
    assert_eq!(ring.receive(), [&[end][..], &headers].concat());
    ring.send(TrackId::VIDEO, FrameRole::Key);
    assert_eq!(ring.receive(), [(TrackId::VIDEO, FrameRole::Key)]);
}

async fn send(publisher: &mut Publisher, frames: usize) {
    for _ in 0..frames {
        let (track, role) = (TrackId::AUDIO, FrameRole::Audio);
        let frame = Frame::new(track, role, Codec::Aac, Default::default(), vec![0; 10]);
        publisher.send(Arc::new(frame)).await.expect("room");
    }
    publisher.flush();
}

#[tokio::test]
async fn frames_are_counted_and_others_have_their_turn() {
    let (mut worker, _) = worker();
    let (mut publisher, conn) = publish(&mut worker).expect("a free stream");
    send(&mut publisher, FRAMES_PER_TURN + 3).await;
    worker.receive_internal();
    assert_eq!(worker.ctx.counters.frames_in, 0, "nobody watches: it is read in a while");
    worker.ctx.now_ms += 100;
    worker.read_unwatched();
    assert_eq!(worker.ctx.counters.frames_in, FRAMES_PER_TURN as u64);
    worker.take_frames(conn);
    let counted = (worker.ctx.counters.frames_in, worker.ctx.counters.bytes_in);
    assert_eq!(counted, (67, 670));
    let listed = worker.snapshot(&Listed::All).sessions.remove(0);
    assert_eq!((listed.protocol, listed.bytes_in), (Protocol::Channel, 670));
    // Somebody watches: each batch is taken when it comes.
    worker.connections.set_readable(&worker.ctx, conn, true).expect("no socket is asked");
    worker.take_frames(conn);
    publisher.count_invalid();
    worker.connections.sessions[conn].reads_again = false;
    send(&mut publisher, 2).await;
    worker.receive_internal();
    assert_eq!((worker.ctx.counters.frames_in, worker.ctx.counters.frames_invalid), (70, 1));
}

#[tokio::test]
async fn an_end_is_told_and_leaves_the_stream_free() {
    let (mut worker, _) = worker();
    let (mut publisher, conn) = publish(&mut worker).expect("a free stream");
    assert_eq!(publish(&mut worker).err(), Some(Refusal::Taken));
    worker.end(conn, EndReason::Kicked);
    assert_eq!(publisher.ended().await, EndReason::Kicked);
    let (mut publisher, _) = publish(&mut worker).expect("a free stream again");
    send(&mut publisher, 1).await;
    drop(publisher);
    worker.receive_internal();
    assert_eq!(worker.ctx.counters.frames_in, 1, "what was sent is taken first");
    assert!(worker.connections.sessions.len() == 0);
    worker.ctx.draining_until = Some(u64::MAX);
    assert_eq!(publish(&mut worker).err(), Some(Refusal::Draining));
}
