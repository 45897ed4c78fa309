//! Players inside this process ("taps"): they get the frames themselves, by reference, through a queue.
//!
//! What a tap gets is what this worker would send a worker that mirrors the stream: frames that no player of
//! this worker can use are left out, and who serves players from the rest comes to the same.

use std::sync::Arc;

use delivery::Received;
use media::{Frame, FrameRole};

use super::Frames;
use super::stream::FrameStream;
use crate::context::Context;
use crate::ids::{ConnId, FrameStreamId, TapId};
use crate::registry::{Origin, StreamId};
use worker_api::tap::FrameSender;

/// A player inside this process.
#[derive(Debug)]
pub(crate) struct Tap {
    /// The session that it is.
    pub(crate) conn: ConnId,
    pub(crate) stream: FrameStreamId,
    pub(crate) frames: FrameSender,
    pub(crate) joined_ms: u64,
    /// It keeps an on-demand pull.
    keeps: bool,
    /// What was put into its queue since it was counted last.
    passed: Passed,
    is_listed: bool,
    /// Items that it had read at the last look at it.
    read_items: u64,
    /// When it last read one, or had read all.
    pub(crate) read_ms: u64,
}

/// What went to a tap.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Passed {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

/// A tap that has something new in its queue.
#[derive(Debug)]
pub(crate) struct ServedTap {
    pub(crate) conn: ConnId,
    pub(crate) passed: Passed,
    /// Frames left out in all.
    pub(crate) dropped: u64,
    /// It wants a key frame of this stream, whose publisher sends packets.
    pub(crate) wants_key_frame: Option<StreamId>,
}

impl Frames {
    /// A tap joins a stream, which counts it as a player already, with what a player begins with.
    pub(crate) fn join_tap(
        &mut self,
        ctx: &Context,
        stream: FrameStreamId,
        conn: ConnId,
        frames: FrameSender,
        keeps: bool,
    ) -> TapId {
        let publication = &mut self.streams[stream].publication;
        publication.unwatching += u32::from(!keeps);
        publication.report_watched(ctx);
        let id = self.taps.insert(Tap {
            conn,
            stream,
            frames,
            joined_ms: ctx.now_ms,
            keeps,
            passed: Passed::default(),
            is_listed: false,
            read_items: 0,
            read_ms: ctx.now_ms,
        });
        self.streams[stream].taps.push(id);
        self.start_tap(id);
        id
    }

    /// A source has begun on a stream: its taps learn of it.
    pub(super) fn start_taps(&mut self, stream: FrameStreamId) {
        for at in 0..self.streams[stream].taps.len() {
            self.start_tap(self.streams[stream].taps[at]);
        }
    }

    fn start_tap(&mut self, id: TapId) {
        let tap = &mut self.taps[id];
        let stream = &self.streams[tap.stream];
        let Some(source) = stream.publication.source else { return };
        let sent = tap.frames.start(source.epoch, stream.beginning());
        tap.note(id, sent, &mut self.served_taps);
    }

    /// The source of a stream has ended: its taps learn of it.
    pub(super) fn stop_taps(&mut self, stream: FrameStreamId) {
        let Some(stream) = self.streams.get(stream) else { return };
        for &id in &stream.taps {
            let tap = &mut self.taps[id];
            tap.frames.stop();
            tap.note(id, (0, 0), &mut self.served_taps);
        }
    }

    /// The next tap that has something new in its queue, of which its reader learns by this, and what.
    pub(crate) fn next_served_tap(&mut self) -> Option<ServedTap> {
        while let Some(id) = self.served_taps.pop() {
            if let Some(tap) = self.taps.get_mut(id) {
                tap.is_listed = false;
                tap.frames.flush();
                let publication = &self.streams[tap.stream].publication;
                let is_bridged = publication.source.is_some_and(|source| source.origin == Origin::Bridge);
                // With each frame: a reader that asks between two is heard with the next.
                let wants_key_frame = tap.frames.take_key_frame_request() && is_bridged;
                return Some(ServedTap {
                    conn: tap.conn,
                    passed: std::mem::take(&mut tap.passed),
                    dropped: tap.frames.dropped(),
                    wants_key_frame: wants_key_frame.then_some(publication.id),
                });
            }
        }
        None
    }

    /// Looks at the queues of all taps, a few times a second.
    pub(crate) fn review_taps(&mut self, now_ms: u64) {
        for (_, tap) in self.taps.iter_mut() {
            tap.frames.settle();
            tap.frames.flush();
            let read_items = tap.frames.read_items();
            if read_items != tap.read_items || tap.frames.queued_items() == 0 {
                (tap.read_items, tap.read_ms) = (read_items, now_ms);
            }
        }
    }

    /// A tap leaves its stream, which may have no player left then.
    pub(crate) fn leave_tap(&mut self, ctx: &mut Context, id: TapId) -> Option<Tap> {
        let tap = self.taps.remove(id)?;
        ctx.counters.queue_drops += tap.frames.dropped();
        let stream = &mut self.streams[tap.stream];
        stream.publication.players -= 1;
        stream.publication.unwatching -= u32::from(!tap.keeps);
        stream.publication.report_watched(ctx);
        stream.taps.retain(|&other| other != id);
        Some(tap)
    }
}

impl Tap {
    /// Puts a frame into the queue, of which its stream made this.
    pub(super) fn send(
        &mut self,
        id: TapId,
        frame: &Arc<Frame>,
        received: Option<Received>,
        headers: impl FnOnce() -> Vec<Arc<Frame>>,
        served: &mut Vec<TapId>,
    ) {
        // The end of all video or audio is nothing for players, but decides what other nodes say of the
        // stream.
        if received.is_none() && frame.role != FrameRole::End {
            return;
        }
        let is_entry = received.is_some_and(|received| received.entry);
        let sent = self.frames.send(frame, is_entry, headers);
        self.note(id, sent, served);
    }

    fn note(&mut self, id: TapId, (frames, bytes): (u64, u64), served: &mut Vec<TapId>) {
        self.passed.frames += frames;
        self.passed.bytes += bytes;
        if !std::mem::replace(&mut self.is_listed, true) {
            served.push(id);
        }
    }
}

impl FrameStream {
    /// What a new player begins with: headers, then the frames since the last key frame if they are kept.
    pub(crate) fn beginning(&self) -> Vec<Arc<Frame>> {
        let gop = self.delivery.gop().frames().map(|(_, frame)| frame);
        let headers = if gop.len() > 0 { self.delivery.entry_headers() } else { self.delivery.headers() };
        headers.iter().chain(gop).map(Arc::clone).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use media::{Codec, TrackId};
    use tokio::sync::oneshot;

    use super::*;
    use crate::event_loop::Worker;
    use crate::packets::panic_tests::workers;
    use crate::publication::{FETCH_WAIT, LaneStream, Source};
    use crate::registry::{Directory, Epoch, Origin, Published, WebrtcAvailability};
    use worker_api::EndReason;
    use worker_api::cluster::{Elsewhere, Publication};
    use worker_api::settings::{Application, ApplicationSettings, WorkerSettings};
    use worker_api::tap::{InternalTap, Tap, TapItem, TapRefusal, TapRequest, queue};

    /// A cluster that has every stream.
    #[derive(Debug)]
    struct HasAll;

    impl Elsewhere for HasAll {
        fn published(&self, _key: &str) -> Option<Published> {
            Some(Published::Frames(WebrtcAvailability::Unknown))
        }

        fn redirect(&self, _key: &str, _is_full: bool) -> Option<String> {
            None
        }

        fn wanted(&self, _key: &str) {}
        fn unwanted(&self, _key: &str) {}
        fn started(&self, _publication: &Publication<'_>) {}
        fn changed(&self, _key: &str, _epoch: Epoch, _published: &Published) {}
        fn ended(&self, _key: &str, _epoch: Epoch) {}
    }

    fn worker(wait_for_publisher: Option<Duration>) -> Worker {
        let settings = Arc::new(ApplicationSettings { wait_for_publisher, ..ApplicationSettings::default() });
        let pattern = worker_api::pattern::Pattern::new("*");
        let applications = vec![Application { pattern, settings }];
        workers(WorkerSettings { applications, ..WorkerSettings::default() }, vec![Vec::new()]).remove(0).0
    }

    fn tap(worker: &mut Worker) -> Result<Tap, TapRefusal> {
        let (tap, frames) = queue();
        let (reply, mut answer) = oneshot::channel();
        let address = "192.0.2.1:80".parse().expect("an address");
        let request = TapRequest {
            app: "live".to_owned(),
            name: "a".to_owned(),
            protocol: worker_api::snapshot::Protocol::Node,
            address,
            detail: String::new(),
        };
        worker.play_internal(InternalTap { request, frames, reply });
        answer.try_recv().expect("an answer").map(|_| tap)
    }

    fn wait(worker: &mut Worker, milliseconds: u64) {
        worker.ctx.now_ms += milliseconds;
        worker.sweep();
    }

    /// The only stream has a source, as if another worker were its home.
    fn start(worker: &mut Worker) -> (LaneStream, Source) {
        let (id, _) = worker.frames.streams.iter().next().expect("a stream");
        let source = Source { epoch: Epoch(7), origin: Origin::Worker };
        worker.start_source(LaneStream::Frames(id), source, None);
        (LaneStream::Frames(id), source)
    }

    #[tokio::test]
    async fn a_player_waits_some_seconds_for_what_another_node_has_where_players_do_not_wait() {
        let mut worker = worker(Some(Duration::ZERO));
        assert_eq!(tap(&mut worker).err(), Some(TapRefusal::NotFound));
        worker.ctx.directory = Arc::new(Directory::new(Some(Arc::new(HasAll))));
        let fetch_wait_ms = FETCH_WAIT.as_millis() as u64;
        let mut player = tap(&mut worker).expect("another node has it");
        wait(&mut worker, fetch_wait_ms);
        assert_eq!(player.try_next(), None);
        let (stream, source) = start(&mut worker);
        assert!(matches!(player.try_next(), Some(TapItem::Start { .. })));
        wait(&mut worker, 60_000);
        // The link to the other node is lost, and it still has the stream.
        worker.end_publication(stream, source);
        wait(&mut worker, fetch_wait_ms);
        let mut late = tap(&mut worker).expect("another node has it");
        wait(&mut worker, 1);
        assert_eq!(player.next().await, Ok(TapItem::Stop));
        assert_eq!(player.next().await, Err(EndReason::NoPublisher));
        wait(&mut worker, fetch_wait_ms - 1);
        assert_eq!(late.try_next(), None);
        wait(&mut worker, 1);
        assert_eq!(late.next().await, Err(EndReason::NoPublisher), "everybody waits as long");
    }

    #[tokio::test]
    async fn players_that_wait_longer_for_publishers_wait_as_long_for_other_nodes() {
        let mut worker = worker(Some(Duration::from_secs(60)));
        worker.ctx.directory = Arc::new(Directory::new(Some(Arc::new(HasAll))));
        let mut player = tap(&mut worker).expect("it may wait");
        wait(&mut worker, 60_000);
        assert_eq!(player.try_next(), None);
        wait(&mut worker, 1);
        assert_eq!(player.next().await, Err(EndReason::NoPublisher));
    }

    #[tokio::test]
    async fn a_reader_that_never_reads_is_given_up_and_one_that_reads_slowly_is_not() {
        let mut worker = worker(None);
        let mut slow = tap(&mut worker).expect("it may wait");
        let mut stuck = tap(&mut worker).expect("it may wait");
        let (LaneStream::Frames(stream), _) = start(&mut worker) else { panic!("of frames") };
        let stall_ms = ApplicationSettings::default().player_stall_timeout.as_millis() as u64;
        let frame =
            Arc::new(Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, Default::default(), vec![7]));
        for _ in 0..10 {
            worker.frames.deliver(&mut worker.ctx, stream, &frame);
        }
        for _ in 0..3 {
            wait(&mut worker, stall_ms / 2);
            assert!(slow.try_next().is_some());
        }
        while stuck.try_next().is_some() {}
        assert_eq!(stuck.next().await, Err(EndReason::Stalled));
        wait(&mut worker, stall_ms);
        while slow.try_next().is_some() {}
        wait(&mut worker, stall_ms * 2);
        wait(&mut worker, stall_ms * 2);
        assert_eq!(worker.frames.taps.len(), 1, "who has read all waits");
    }
}
