//! Messages of other workers: streams that are mirrored here, and workers that mirror streams of this one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use media::Frame;
use sfu::Outputs;

use crate::event_loop::Worker;
use crate::frames::stream::is_header;
use crate::ids::{FrameStreamId, WorkerIndex};
use crate::mailbox::{MessageBody, Start, WorkerMessage};
use crate::publication::{LaneStream, Remote, Source};
use crate::registry::{Epoch, Lane, Origin, StreamId};

/// Messages taken from one other worker per turn; the rest wait for the next turn.
const MESSAGES_MAX: usize = 4096;

impl Worker {
    /// Takes in what other workers have sent.
    pub(crate) fn receive_messages(&mut self) {
        for worker in self.ctx.mailboxes.workers() {
            for _ in 0..MESSAGES_MAX {
                let Some(message) = self.ctx.mailboxes.receive(worker) else { break };
                if message.lane == Lane::Frames {
                    self.handle_message(worker, message);
                    continue;
                }
                // A defect that a packet meets ends its stream's sessions here, and nothing else.
                let id = message.stream;
                let handled = catch_unwind(AssertUnwindSafe(|| self.handle_message(worker, message)));
                if handled.is_err()
                    && let Some(stream) = self.packets.streams.find(id)
                {
                    self.packets.stream_panicked(&mut self.ctx, stream);
                    self.carry_out_actions();
                }
            }
        }
    }

    fn handle_message(&mut self, from: WorkerIndex, message: WorkerMessage) {
        let WorkerMessage { stream: id, epoch, lane, body } = message;
        match body {
            MessageBody::Frame { frame, number, after_loss } => {
                let Some(LaneStream::Frames(stream)) = self.mirrored(lane, id, epoch) else {
                    tracing::trace!(
                        ?id,
                        ?epoch,
                        "frame dropped: its publication is not played here any more"
                    );
                    self.ctx.counters.ring_late += 1;
                    return;
                };
                self.ctx.counters.ring_frames_in += 1;
                if after_loss {
                    self.frames.streams[stream].delivery.frames_lost();
                }
                self.frames.streams[stream].newest = number;
                self.frames.deliver(&mut self.ctx, stream, &frame);
            }
            MessageBody::Packet { packet, outputs } => {
                let Some(LaneStream::Packets(stream)) = self.mirrored(lane, id, epoch) else {
                    tracing::trace!(
                        ?id,
                        ?epoch,
                        "packet dropped: its publication is not played here any more"
                    );
                    self.packets.counters.dropped += 1;
                    return;
                };
                // What is refused was in the start already, or is too old by now.
                let sfu = &mut self.packets.streams[stream].sfu;
                let taken = sfu.receive_mirrored(self.ctx.now, &packet, outputs);
                self.packets.counters.dropped += u64::from(taken.is_err());
                self.packets.streams.mark_dirty(stream);
            }
            MessageBody::Layers(report) => {
                let Some(LaneStream::Packets(stream)) = self.mirrored(lane, id, epoch) else { return };
                self.packets.streams[stream].sfu.layers_reported(self.ctx.now, epoch.0, &report);
                self.packets.streams.mark_dirty(stream);
            }
            MessageBody::Subscribe => self.add_remote(lane, from, id),
            MessageBody::Unsubscribe => {
                let Some(stream) = self.find_stream(lane, id) else { return };
                if let Some(publication) = self.publication_mut(stream) {
                    publication.remotes.retain(|remote| remote.worker != from);
                }
                match stream {
                    LaneStream::Frames(stream) => self.update_read_interest(stream),
                    LaneStream::Packets(stream) => {
                        self.packets.streams[stream].review_mirrored(self.ctx.now);
                        self.packets.update_watched(self.ctx.now, stream);
                    }
                }
            }
            MessageBody::Start(start) => self.start_mirror(id, epoch, *start),
            MessageBody::End => {
                if let Some(stream) = self.mirrored(lane, id, epoch) {
                    self.end_publication(stream, Source { epoch, origin: Origin::Worker });
                }
            }
            // Older than what comes after it.
            MessageBody::Replaced => self.end_older_publisher(id, Epoch(epoch.0 + 1)),
            MessageBody::Contested => {
                self.packets.end_silent(&mut self.ctx, id, epoch);
                self.carry_out_actions();
            }
            MessageBody::KeyFrameWanted(request) => {
                let Some(stream) = self.packets.streams.find(id) else { return };
                self.packets.streams[stream].sfu.request_key_frame_of(self.ctx.now, request);
                self.packets.streams.mark_dirty(stream);
            }
            MessageBody::LayersWanted { track, wanted } => {
                let Some(stream) = self.packets.streams.find(id) else { return };
                self.packets.streams[stream].mirror_wants(self.ctx.now, (from, epoch), track, wanted);
                self.packets.streams.mark_dirty(stream);
            }
        }
    }

    /// The stream, if this publication on another worker is what this lane of it shows here.
    fn mirrored(&self, lane: Lane, id: StreamId, epoch: Epoch) -> Option<LaneStream> {
        let stream = self.find_stream(lane, id)?;
        let source = self.publication(stream)?.source?;
        (source == Source { epoch, origin: Origin::Worker }).then_some(stream)
    }

    /// A publication begins on another worker.
    fn start_mirror(&mut self, id: StreamId, epoch: Epoch, start: Start) {
        self.end_older_publisher(id, epoch);
        let source = Source { epoch, origin: Origin::Worker };
        match start {
            Start::Frames { frames, wait_for_key, newest } => {
                let Some(stream) = self.frames.find(id) else { return };
                let before = self.frames.streams[stream].publication.source;
                if before == Some(source) {
                    self.continue_mirror(stream, &frames, newest);
                } else if before.is_none_or(|before| before.epoch < epoch) {
                    self.start_source(LaneStream::Frames(stream), source, None);
                    if wait_for_key {
                        self.frames.wait_for_key(stream);
                    }
                    for frame in &frames {
                        self.frames.deliver(&mut self.ctx, stream, frame);
                    }
                    self.frames.streams[stream].newest = newest;
                }
            }
            Start::Packets { tracks, layers, packets } => {
                let Some(stream) = self.packets.streams.find(id) else { return };
                let before = self.packets.streams[stream].publication.source;
                // A bridge says again what the same publication is, when it knows better.
                if before.is_some_and(|before| before.epoch > epoch) {
                    return;
                }
                self.start_source(LaneStream::Packets(stream), source, Some(tracks));
                // Players that it has nothing for were ended; with the last of them the stream went.
                if self.packets.streams.find(id) != Some(stream) {
                    return;
                }
                let sfu = &mut self.packets.streams[stream].sfu;
                sfu.mirror_started(self.ctx.now, epoch.0, &layers);
                for packet in &packets {
                    let taken = sfu.receive_mirrored(self.ctx.now, packet, Outputs::MAIN);
                    self.packets.counters.dropped += u64::from(taken.is_err());
                }
                self.packets.streams.mark_dirty(stream);
                self.packets.review_video(&mut self.ctx, stream);
            }
        }
    }

    /// Somebody was here, left and came back while the home had other things to do: frames between its two
    /// starts did not come here, if there were any.
    fn continue_mirror(&mut self, stream: FrameStreamId, frames: &[Arc<Frame>], newest: u32) {
        let local = &mut self.frames.streams[stream];
        if local.newest != newest {
            local.newest = newest;
            local.delivery.frames_lost();
        }
        for header in frames.iter().filter(|frame| is_header(frame)) {
            self.frames.deliver(&mut self.ctx, stream, header);
        }
    }

    /// Another worker gets this lane of a stream from now on, if it is published here; first what a new
    /// player begins with.
    pub(crate) fn add_remote(&mut self, lane: Lane, worker: WorkerIndex, id: StreamId) {
        match lane {
            Lane::Frames => self.bridge_to_frames(id),
            Lane::Packets => {
                self.bridge_to_packets(id);
                // What waits is in the start already. It would come a second time, and the whole GOP of a
                // bridge that has just begun could fill the ring.
                self.packets.forward(&mut self.ctx);
            }
        }
        let Some(stream) = self.find_stream(lane, id) else { return };
        let Some(publication) = self.publication_mut(stream) else { return };
        let Some(Source { epoch, .. }) = publication.source.filter(|source| source.origin.is_local()) else {
            return;
        };
        if publication.remotes.iter().any(|remote| remote.worker == worker) {
            return;
        }
        publication.remotes.push(Remote::new(worker));
        let start = match stream {
            LaneStream::Frames(stream) => {
                self.update_read_interest(stream);
                let local = &self.frames.streams[stream];
                let wait_for_key = local.delivery.begins_later(self.ctx.now_ms);
                Start::Frames { frames: local.beginning(), wait_for_key, newest: local.newest }
            }
            LaneStream::Packets(stream) => {
                self.packets.update_watched(self.ctx.now, stream);
                let entry = &self.packets.streams[stream];
                let tracks = entry.tracks.clone().unwrap_or_default();
                let layers = entry.sfu.layers_report(self.ctx.now);
                let packets = entry.sfu.cached(self.ctx.now).cloned().collect();
                Start::Packets { tracks, layers, packets }
            }
        };
        self.ctx.send(worker, (id, epoch, lane), MessageBody::Start(Box::new(start)));
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::{Duration, Instant};

    use media::{Codec, FrameRole, TrackId};
    use rtp::HeaderFields;
    use rtp::payload::MediaKind;
    use sfu::{
        Layer, LayersWanted, Limits, Packet, PacketStream, PublisherInput, TrackIndex, TrackInput,
        ViewerInput, WallClock,
    };

    use super::*;
    use crate::ids::{PeerId, TableId};
    use crate::mailbox;
    use crate::packets::panic_tests::{open_as, worker};
    use crate::packets::slice_tests::{fields, publisher_track, viewer_track};
    use crate::registry::{Claimant, Home};
    use worker_api::rtc::RtcRole;

    /// An audio packet of a publication, as its home sends it.
    fn audio_packet(worker: &Worker, epoch: Epoch) -> Arc<Packet> {
        let now = worker.ctx.now;
        let mut home =
            PacketStream::new(Limits::default(), WallClock { at: now, ntp: rtp::rtcp::NtpTime(0) });
        let tracks = vec![publisher_track(MediaKind::Audio)];
        home.publisher_started(now, epoch.0, PublisherInput { tracks, ..PublisherInput::default() });
        home.receive_packet(now, &fields(MediaKind::Audio, 1), &[0x5a; 100], false).expect("taken");
        let mut packets = Vec::new();
        home.take_arrivals(|packet, _| packets.push(Arc::clone(packet)));
        packets.remove(0)
    }

    #[test]
    fn packets_of_the_publication_before_go_into_no_bridge_of_the_next() {
        let (mut worker, _noted) = worker();
        // Another worker is the home, and has players of frames as well.
        let (own, home, key) = (worker.ctx.worker, WorkerIndex::at(1), "live/a");
        let directory = Arc::clone(&worker.ctx.directory);
        let publisher = Claimant::Publisher { takes_over: false };
        let claim = directory.claim(key, home, publisher, Some(Arc::from([]))).expect("nobody publishes it");
        directory.subscribe(key, home, Lane::Frames, true).expect("it is published");
        open_as(&mut worker, RtcRole::Play, "a").expect("a viewer");
        let handle = |worker: &mut Worker, body| {
            let message = WorkerMessage { stream: claim.id, epoch: claim.epoch, lane: Lane::Packets, body };
            worker.handle_message(home, message);
        };
        let start = Start::new_packets(&Arc::from([]));
        handle(&mut worker, MessageBody::Start(Box::new(start)));
        let packet = audio_packet(&worker, claim.epoch);
        handle(&mut worker, MessageBody::Packet { packet, outputs: Outputs::MAIN });
        // Before that is forwarded, a publisher comes here; the one before has left.
        directory.release(key, claim.epoch);
        open_as(&mut worker, RtcRole::Publish, "a").expect("a publisher");
        assert_eq!(directory.home(key).map(|(_, home)| home.worker), Some(own));
        let frames = worker.frames.find(claim.id).expect("a bridge has begun");
        worker.packets.forward(&mut worker.ctx);
        assert!(worker.packets.take_actions().queue.is_empty(), "nothing is of this publication");
        assert_eq!(worker.frames.streams[frames].newest, 0);
    }

    /// What a mirror of this home needs whose only viewer wants the first encoding of the video.
    fn wants_of_a_mirror(home: &PacketStream, epoch: Epoch, now: Instant) -> (TrackIndex, LayersWanted) {
        let mut mirror =
            PacketStream::new(Limits::default(), WallClock { at: now, ntp: rtp::rtcp::NtpTime(0) });
        mirror.mirror_started(now, epoch.0, &home.layers_report(now));
        let video = TrackIndex::new(MediaKind::Video, 0).expect("the first");
        let track = viewer_track(MediaKind::Video, PeerId(7));
        let input = ViewerInput { token: 7, cname: String::new(), tracks: vec![track] };
        let viewer = mirror.join(now, &input).expect("room");
        mirror.set_layer(now, viewer, video, Layer::of(0));
        mirror.poll_layers_wanted(now, |_| false).expect("more than the best");
        mirror.poll_layers_wanted(now + Duration::from_secs(2), |_| false).expect("the best no longer")
    }

    #[test]
    fn a_home_sends_another_worker_what_that_needs_and_nothing_else() {
        let (mut worker, _noted) = worker();
        let mut ends = mailbox::connect(&[Waker::noop().clone(), Waker::noop().clone()], 256);
        let mut other = ends.remove(1);
        worker.ctx.mailboxes = ends.remove(0);
        open_as(&mut worker, RtcRole::Publish, "a").expect("a publisher");
        let directory = Arc::clone(&worker.ctx.directory);
        let (id, Home { epoch, .. }) = directory.home("live/a").expect("it is published");
        let stream = worker.packets.streams.find(id).expect("its packets");
        let video = TrackInput { ssrcs: vec![(20, None), (21, None)], ..publisher_track(MediaKind::Video) };
        let tracks = vec![publisher_track(MediaKind::Audio), video];
        let now = worker.ctx.now;
        let input = PublisherInput { tracks, ..PublisherInput::default() };
        worker.packets.streams[stream].sfu.publisher_started(now, epoch.0, input);
        let away = WorkerIndex::at(1);
        let handle = |worker: &mut Worker, body| {
            worker.handle_message(away, WorkerMessage { stream: id, epoch, lane: Lane::Packets, body });
        };
        // Ten packets of each; which of them cross, and how: those of audio, of the main output alone, of an
        // encoding.
        let mut number = 0;
        let mut crossing = |worker: &mut Worker| {
            for _ in 0..10 {
                number += 1;
                for (kind, ssrc) in [(MediaKind::Audio, 1), (MediaKind::Video, 20), (MediaKind::Video, 21)] {
                    let ssrc = if kind == MediaKind::Audio { fields(kind, 0).ssrc } else { ssrc };
                    let fields = HeaderFields { ssrc, ..fields(kind, number) };
                    let sfu = &mut worker.packets.streams[stream].sfu;
                    sfu.receive_packet(now, &fields, &[0x5a; 100], number == 1).expect("taken");
                }
            }
            worker.packets.streams.mark_dirty(stream);
            worker.packets.forward(&mut worker.ctx);
            let mut counts = [0; 3];
            while let Some(message) = other.receive(WorkerIndex::at(0)) {
                let MessageBody::Packet { packet, outputs } = message.body else { continue };
                let at = match outputs {
                    _ if packet.track().kind() == MediaKind::Audio => 0,
                    Outputs { in_encoding: None, .. } => 1,
                    Outputs { is_main, .. } => 2 + usize::from(is_main),
                };
                counts[at] += 1;
            }
            counts
        };
        assert_eq!(crossing(&mut worker), [0, 0, 0], "it has not asked for the stream");
        handle(&mut worker, MessageBody::Subscribe);
        assert_eq!(crossing(&mut worker), [10, 10, 0]);
        let (track, wanted) = wants_of_a_mirror(&worker.packets.streams[stream].sfu, epoch, now);
        let old = Epoch(epoch.0 - 1);
        let body = MessageBody::LayersWanted { track, wanted };
        worker.handle_message(away, WorkerMessage { stream: id, epoch: old, lane: Lane::Packets, body });
        assert_eq!(crossing(&mut worker), [10, 10, 0], "of the publication before");
        handle(&mut worker, MessageBody::LayersWanted { track, wanted });
        assert_eq!(crossing(&mut worker), [10, 0, 10]);
        handle(&mut worker, MessageBody::Unsubscribe);
        assert_eq!(crossing(&mut worker), [0, 0, 0]);
        handle(&mut worker, MessageBody::Subscribe);
        assert_eq!(crossing(&mut worker), [10, 10, 0], "what it needed before is forgotten");
    }

    #[test]
    fn what_came_between_two_starts_of_a_publication_is_a_gap() {
        let (mut worker, _noted) = worker();
        let subscribed = worker.ctx.directory.subscribe("live/a", WorkerIndex::at(0), Lane::Frames, true);
        let (id, _) = subscribed.expect("it waits");
        let stream = worker.frames.find_or_insert(&worker.ctx, id, ("live", "a"));
        let mut handle = |body| {
            let message = WorkerMessage { stream: id, epoch: Epoch(1), lane: Lane::Frames, body };
            worker.handle_message(WorkerIndex::at(1), message);
            worker.frames.streams[stream].delivery.gop().frames().len()
        };
        let frame =
            |role| Arc::new(Frame::new(TrackId::VIDEO, role, Codec::H264, Default::default(), vec![0; 9]));
        let next = |frame: &Arc<Frame>, number| MessageBody::Frame {
            frame: Arc::clone(frame),
            number,
            after_loss: false,
        };
        let start = |frames: &[&Arc<Frame>], newest| {
            let frames = frames.iter().map(|frame| Arc::clone(frame)).collect();
            MessageBody::Start(Box::new(Start::Frames { frames, wait_for_key: false, newest }))
        };
        let [key, inter, missed] = [FrameRole::Key, FrameRole::Inter, FrameRole::Inter].map(frame);
        handle(start(&[], 0));
        handle(next(&key, 1));
        assert_eq!(handle(next(&inter, 2)), 2);
        assert_eq!(handle(start(&[&key, &inter], 2)), 2, "nothing came in between");
        assert_eq!(handle(next(&inter, 3)), 3);
        assert_eq!(handle(start(&[&key, &inter, &missed], 4)), 0);
        assert_eq!(handle(next(&inter, 5)), 0, "it cannot be decoded");
        assert_eq!(handle(next(&key, 6)), 1);
    }
}
