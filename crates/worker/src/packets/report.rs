//! Snapshots of WebRTC: sessions and streams of packets as plain values.

use std::time::{Duration, Instant};

use rtc::sdp::TrackDescription;
use rtp::payload::MediaKind;
use sfu::TrackIndex;

use super::Packets;
use super::session::{Route, Session};
use super::streams::Stream;
use crate::context::Context;
use crate::ids::{BridgeId, PacketStreamId, PeerId, TableId};
use crate::stats::columns::Arrival;
use worker_api::command::Listed;
use worker_api::rtc::RtcRole;
use worker_api::snapshot::{
    PublisherSnapshot, RtcCounters, RtcSessionSnapshot, RtcState, RtcTrackSnapshot, SectionsSnapshot,
    SessionSnapshot, StreamSnapshot, TrackKind, WorkerCounters,
};

impl Packets {
    /// Adds what WebRTC has counted.
    pub(crate) fn count(&self, now: Instant, counters: &mut WorkerCounters) {
        let sent = &self.sockets.sent;
        counters.sessions += self.sessions.len() as u64;
        let publishers = self.sessions.iter().filter(|(_, session)| session.role == RtcRole::Publish).count();
        counters.publishers += publishers as u64;
        counters.players += (self.sessions.len() - publishers) as u64;
        counters.bytes_out += sent.bytes;
        counters.rtc = RtcCounters {
            pending: self.sessions.iter().filter(|(_, session)| !session.is_connected()).count() as u64,
            packets_out: sent.rtp_packets - self.counters.packets_resent,
            send_failures: sent.failed + sent.dropped + sent.unprotected + self.sockets.tcp.dropped,
            no_room_audio: sent.no_room[MediaKind::Audio as usize],
            no_room_video: sent.no_room[MediaKind::Video as usize],
            refused_audio: sent.refused[MediaKind::Audio as usize],
            refused_video: sent.refused[MediaKind::Video as usize],
            paused: sent.paused,
            ..self.counters
        };
        for (_, stream) in self.streams.iter() {
            add_stream(&mut counters.rtc, stream);
        }
        self.count_paths(now, &mut counters.rtc);
    }

    /// Looks at how packets of publishers arrive; what viewers report is noted when it comes.
    pub(crate) fn note_reception(&mut self, now: Instant) {
        for (_, stream) in self.streams.iter() {
            let connected = |peer: &PeerId| self.sessions.get(*peer).is_some_and(Session::is_connected);
            if let Some(peer) = stream.publication.peer().filter(connected) {
                self.columns.arrived(peer, arrival(stream, now));
            }
        }
    }

    /// Ends the sample of all sessions' rates.
    pub(crate) fn sample(&mut self, elapsed_ms: u64) {
        let rows = self.sessions.rows();
        self.columns.sample(elapsed_ms, rows);
        // Datagrams wait for nobody; what waits is in connections of those without UDP.
        self.columns.stats.queue_bytes.fill(0);
        for (session, bytes) in self.sockets.tcp.waiting() {
            if let Some(queued) = self.columns.stats.queue_bytes.get_mut(session.index()) {
                *queued += bytes as u64;
            }
        }
    }

    /// Gives a stream that has met a defect an empty state, and keeps what it has counted.
    pub(super) fn reset_stream(&mut self, id: PacketStreamId) {
        if let Some(stream) = self.streams.get(id) {
            add_stream(&mut self.counters, stream);
        }
        self.streams.reset(id);
    }

    /// Keeps what a stream that is forgotten has counted.
    pub(crate) fn keep_counts(&mut self, stream: &Stream) {
        add_stream(&mut self.counters, stream);
    }

    /// Streams of packets, each with its bridge, which the caller describes.
    pub(crate) fn stream_snapshots<'a>(
        &'a self,
        ctx: &'a Context,
    ) -> impl Iterator<Item = (Option<BridgeId>, StreamSnapshot)> + 'a {
        let streams = self.streams.iter();
        streams.map(|(_, stream)| (stream.publication.bridge, self.stream_snapshot(ctx, stream)))
    }

    fn stream_snapshot(&self, ctx: &Context, stream: &Stream) -> StreamSnapshot {
        let publisher = stream.publication.peer().and_then(|peer| Some((peer, self.sessions.get(peer)?)));
        let stats = stream.sfu.stats();
        let tracks = track_snapshots(stream, ctx.now);
        let bits_per_second = |kind| {
            let of_kind = tracks.iter().filter(|track| track.kind == kind);
            of_kind.map(|track| track.bits_per_second).sum()
        };
        let video = tracks.iter().find(|track| track.kind == TrackKind::Video);
        StreamSnapshot {
            app: stream.publication.app().to_owned(),
            name: stream.publication.name().to_owned(),
            live: stream.publication.source.is_some(),
            publisher: publisher.map(|(peer, session)| PublisherSnapshot {
                session: session.id,
                address: session.address,
                protocol: session.protocol(),
                connected_ms: ctx.now_ms - self.columns.opened_ms(peer),
            }),
            uptime_ms: stream.publication.source.map_or(0, |_| ctx.now_ms - stream.publication.live_since_ms),
            // Its way to other nodes is none that anybody watches.
            players: stream.publication.players - u32::from(stream.is_served),
            video: None,
            audio: None,
            video_bits_per_second: bits_per_second(TrackKind::Video),
            audio_bits_per_second: bits_per_second(TrackKind::Audio),
            video_frames_per_second: video.map_or(0.0, |video| video.frames_per_second),
            key_frame_interval_ms: video.map_or(0, |video| video.key_frame_interval_ms),
            gop_frames: 0,
            gop_bytes: stats.cached_bytes as u64,
            gop_duration_ms: 0,
            sections: SectionsSnapshot::default(),
            bytes_in: stats.received_bytes,
            tracks,
            bridge: None,
        }
    }

    /// Sessions of WebRTC.
    pub(crate) fn session_snapshots<'a>(
        &'a self,
        ctx: &'a Context,
        listed: &'a Listed,
    ) -> impl Iterator<Item = SessionSnapshot> + 'a {
        let rows = self.columns.stats.listed(ctx.worker.index(), listed);
        rows.filter_map(|row| {
            let peer = PeerId::at(row);
            let session = self.sessions.get(peer)?;
            let stream = session.streams().next().and_then(|stream| self.streams.get(stream));
            Some(SessionSnapshot {
                stream: stream.map(|stream| stream.publication.key.to_string()),
                user_agent: session.user_agent.as_deref().map(str::to_owned),
                rtc: Some(self.connection_snapshot(ctx.now, peer, session)),
                ..self.columns.session_snapshot(peer, session.id, session.address, ctx.now_ms)
            })
        })
    }

    fn connection_snapshot(&self, now: Instant, peer: PeerId, session: &Session) -> RtcSessionSnapshot {
        let (mut nacks, mut resent_packets, mut key_frame_requests) = (0, 0, 0);
        for publication in &session.publications {
            let stream = self.streams.get(publication.stream);
            let stream = stream.filter(|stream| stream.publication.peer() == Some(peer));
            let stats = stream.map(|stream| stream.sfu.publisher_stats()).unwrap_or_default();
            nacks += stats.nacked_packets;
            resent_packets += stats.repaired_packets;
            key_frame_requests += stats.key_frame_requests;
        }
        for subscription in &session.subscriptions {
            let stream = self.streams.get(subscription.stream);
            let stats = subscription.viewer.zip(stream);
            let stats =
                stats.and_then(|(viewer, stream)| stream.sfu.viewer_stats(viewer)).unwrap_or_default();
            nacks += stats.nacked_packets;
            resent_packets += stats.resent_packets;
            key_frame_requests += stats.key_frame_requests;
        }
        let columns = &self.columns.stats;
        let known = |value: f32| Some(value).filter(|value| !value.is_nan());
        let state = match (session.is_connected(), session.transport.peer.path().is_some()) {
            (true, _) => RtcState::Connected,
            (false, true) => RtcState::Handshake,
            (false, false) => RtcState::Checking,
        };
        RtcSessionSnapshot {
            state,
            transport: self.transports.get(peer).map(|transport| match transport.route {
                Route::Udp { .. } => "udp",
                Route::Tcp { .. } => "tcp",
            }),
            codecs: session.tracks().map(|track| rtp::payload::encoding_name(track.codec())).collect(),
            packets: columns.packets[peer.index()],
            lost_packets: columns.lost_packets[peer.index()],
            loss_percent: known(columns.loss_percent[peer.index()]).unwrap_or(0.0),
            rtt_ms: known(columns.rtt_ms[peer.index()]),
            jitter_ms: known(columns.jitter_ms[peer.index()]),
            nacks,
            resent_packets,
            key_frame_requests,
            path: self.path_snapshot(now, peer, session),
        }
    }
}

/// How a publisher's packets arrive, over all tracks.
fn arrival(stream: &Stream, now: Instant) -> Arrival {
    let tracks = TrackIndex::all().filter_map(|track| stream.sfu.reception(now, track));
    let (expected_packets, arrived_packets, jitter) =
        tracks.fold((0, 0, Duration::ZERO), |(expected, arrived, jitter), track| {
            (expected + track.expected_packets, arrived + track.received_packets, jitter.max(track.jitter))
        });
    let milliseconds = |time: Duration| time.as_secs_f32() * 1000.0;
    Arrival {
        expected_packets,
        arrived_packets,
        rtt_ms: stream.sfu.publisher_round_trip().map_or(f32::NAN, milliseconds),
        jitter_ms: milliseconds(jitter),
    }
}

fn add_stream(counters: &mut RtcCounters, stream: &Stream) {
    let stats = stream.sfu.stats();
    counters.nacks_out += stats.nacked_packets;
    counters.key_frame_requests_out += stats.key_frame_requests;
    counters.not_forwarded += stats.not_forwarded_packets;
    counters.unsupported += stats.unsupported_packets;
    counters.unsent += stats.unsent_packets;
    counters.unacknowledged += stats.unacknowledged_packets;
}

/// Tracks as the publisher described them, the first audio track with what the first is received of, and so
/// on.
fn track_snapshots(stream: &Stream, now: Instant) -> Vec<RtcTrackSnapshot> {
    let described = stream.tracks.as_deref().unwrap_or_default().iter();
    let mut counts = [0; 2];
    let snapshot = |track: &TrackDescription| {
        let is_audio = track.kind == MediaKind::Audio;
        let count = &mut counts[usize::from(is_audio)];
        let index = TrackIndex::new(track.kind, *count);
        let reception = index.and_then(|index| stream.sfu.reception(now, index));
        let video = index.filter(|_| !is_audio);
        let pictures = video.and_then(|index| stream.sfu.pictures(now, index)).unwrap_or_default();
        *count += 1;
        RtcTrackSnapshot {
            kind: if is_audio { TrackKind::Audio } else { TrackKind::Video },
            codec: rtp::payload::encoding_name(track.codec()),
            clock_rate: track.format().clock_rate,
            channels: is_audio.then_some(track.format().channels),
            encodings: reception.map_or(0, |reception| reception.live_layers).max(1),
            format: video.and_then(|index| stream.format(index)).cloned(),
            bits_per_second: reception.map_or(0, |reception| reception.bits_per_second),
            frames_per_second: pictures.frames_per_second.unwrap_or(0.0),
            key_frame_interval_ms: pictures
                .key_frame_interval
                .map_or(0, |interval| interval.as_millis() as u32),
            layers: video.map(|index| stream.layer_snapshots(now, index)).unwrap_or_default(),
        }
    };
    described.map(snapshot).collect()
}
