//! Snapshots of WebRTC: sessions and streams of packets as plain values.

use std::time::{Duration, Instant};

use rtc::sdp::TrackDescription;
use rtp::payload::MediaKind;
use sfu::{TrackIndex, TrackReception};

use crate::event_loop::Worker;
use crate::ids::{PeerId, TableId};
use crate::packets::session::{Route, RtcSession};
use crate::packets::streams::RtcStream;
use crate::stats::columns::Arrival;
use worker_api::link::Listed;
use worker_api::rtc::RtcRole;
use worker_api::snapshot::{
    PublisherSnapshot, RtcCounters, RtcSessionSnapshot, RtcState, RtcTrackSnapshot, SessionSnapshot,
    StreamSnapshot, TrackKind, WorkerCounters,
};

impl Worker {
    /// Adds what WebRTC has counted.
    pub(crate) fn rtc_count(&self, counters: &mut WorkerCounters) {
        let rtc = &self.rtc;
        counters.sessions += rtc.sessions.len() as u64;
        let publishers = rtc.sessions.iter().filter(|(_, session)| session.role == RtcRole::Publish).count();
        counters.publishers += publishers as u64;
        counters.players += (rtc.sessions.len() - publishers) as u64;
        counters.bytes_out += rtc.sent.bytes;
        counters.rtc = RtcCounters {
            pending: rtc.sessions.iter().filter(|(_, session)| !session.is_connected()).count() as u64,
            packets_out: rtc.sent.packets,
            send_failures: rtc.sent.failed + rtc.sent.dropped + rtc.tcp.dropped,
            ..rtc.counters
        };
        for (_, stream) in rtc.streams.slab.iter() {
            add_stream(&mut counters.rtc, stream);
        }
    }

    /// Looks at how packets of publishers arrive; what viewers report is noted when it comes.
    pub(crate) fn rtc_note_reception(&mut self) {
        for (_, stream) in self.rtc.streams.slab.iter() {
            let connected =
                |peer: &PeerId| self.rtc.sessions.get(*peer).is_some_and(RtcSession::is_connected);
            if let Some(peer) = stream.publication.peer().filter(connected) {
                self.rtc.columns.arrived(peer, arrival(stream, self.ctx.now));
            }
        }
    }

    /// Ends the sample of all sessions' rates.
    pub(crate) fn rtc_sample(&mut self, elapsed_ms: u64) {
        let rows = self.rtc.sessions.rows();
        self.rtc.columns.sample(elapsed_ms, rows);
        // Datagrams wait for nobody; what waits is in connections of those without UDP.
        self.rtc.columns.told.queue_bytes.fill(0);
        for (session, bytes) in self.rtc.tcp.waiting() {
            if let Some(queued) = self.rtc.columns.told.queue_bytes.get_mut(session.index()) {
                *queued += bytes as u64;
            }
        }
    }

    /// Keeps what a stream that is forgotten has counted.
    pub(crate) fn rtc_keep_counts(&mut self, stream: &RtcStream) {
        add_stream(&mut self.rtc.counters, stream);
    }

    /// Streams of packets.
    pub(crate) fn rtc_stream_snapshots(&self) -> impl Iterator<Item = StreamSnapshot> + '_ {
        self.rtc.streams.slab.iter().map(|(_, stream)| self.rtc_stream_snapshot(stream))
    }

    fn rtc_stream_snapshot(&self, stream: &RtcStream) -> StreamSnapshot {
        let publisher = stream.publication.peer().and_then(|peer| Some((peer, self.rtc.sessions.get(peer)?)));
        let stats = stream.packets.stats();
        StreamSnapshot {
            app: stream.publication.app().to_owned(),
            name: stream.publication.name().to_owned(),
            live: stream.publication.source.is_some(),
            publisher: publisher.map(|(peer, session)| PublisherSnapshot {
                session: session.id,
                address: session.address,
                protocol: session.protocol(),
                connected_ms: self.ctx.now_ms - self.rtc.columns.opened_ms(peer),
            }),
            uptime_ms: stream
                .publication
                .source
                .map_or(0, |_| self.ctx.now_ms - stream.publication.live_since_ms),
            players: stream.publication.players,
            video: None,
            audio: None,
            video_bits_per_second: 0,
            audio_bits_per_second: 0,
            video_frames_per_second: 0.0,
            key_frame_interval_ms: 0,
            gop_frames: 0,
            gop_bytes: stats.cached_bytes as u64,
            gop_duration_ms: 0,
            bytes_in: stats.received_bytes,
            tracks: rtc_tracks(stream, self.ctx.now),
            bridge: self.bridge_snapshot(stream.publication.bridge),
        }
    }

    /// Sessions of WebRTC.
    pub(crate) fn rtc_session_snapshots(&self, listed: &Listed) -> impl Iterator<Item = SessionSnapshot> {
        let rows = self.rtc.columns.told.listed(self.ctx.worker.index(), listed);
        rows.filter_map(|row| {
            Some(self.rtc_session_snapshot(PeerId::at(row), self.rtc.sessions.get(PeerId::at(row))?))
        })
    }

    fn rtc_session_snapshot(&self, peer: PeerId, session: &RtcSession) -> SessionSnapshot {
        let stream = self.rtc.streams.slab.get(session.stream);
        let of_columns =
            self.rtc.columns.session_snapshot(peer, session.id, session.address, self.ctx.now_ms);
        SessionSnapshot {
            stream: stream.map(|stream| stream.publication.key.to_string()),
            user_agent: session.user_agent.as_deref().map(str::to_owned),
            rtc: Some(self.rtc_connection(peer, session)),
            ..of_columns
        }
    }

    fn rtc_connection(&self, peer: PeerId, session: &RtcSession) -> RtcSessionSnapshot {
        let transport = self.rtc.send_transports.get(peer.index()).and_then(Option::as_ref);
        let stream = self.rtc.streams.slab.get(session.stream);
        let viewer =
            session.viewer.zip(stream).and_then(|(viewer, stream)| stream.packets.viewer_stats(viewer));
        let published = stream.filter(|_| session.role == RtcRole::Publish);
        // Since the stream was made, which its players can keep over several publishers.
        let told = published.map(|stream| stream.packets.stats());
        let columns = &self.rtc.columns.told;
        let known = |value: f32| Some(value).filter(|value| !value.is_nan());
        let state = match (session.is_connected(), session.peer.path().is_some()) {
            (true, _) => RtcState::Connected,
            (false, true) => RtcState::Handshake,
            (false, false) => RtcState::Checking,
        };
        RtcSessionSnapshot {
            state,
            transport: transport.map(|transport| match transport.route {
                Route::Udp { .. } => "udp",
                Route::Tcp { .. } => "tcp",
            }),
            codecs: session.tracks.iter().map(|track| rtp::payload::encoding_name(track.codec())).collect(),
            packets: columns.packets[peer.index()],
            lost_packets: columns.lost_packets[peer.index()],
            loss_percent: known(columns.loss_percent[peer.index()]).unwrap_or(0.0),
            rtt_ms: known(columns.rtt_ms[peer.index()]),
            jitter_ms: known(columns.jitter_ms[peer.index()]),
            nacks: told.map_or(viewer.map_or(0, |viewer| viewer.nacks), |stats| stats.nacked_packets),
            resent_packets: told
                .map_or(viewer.map_or(0, |viewer| viewer.resent_packets), |stats| stats.repaired_packets),
            key_frame_requests: told.map_or(viewer.map_or(0, |viewer| viewer.key_frame_requests), |stats| {
                stats.key_frame_requests
            }),
        }
    }
}

/// How a publisher's packets arrive, over all tracks.
fn arrival(stream: &RtcStream, now: Instant) -> Arrival {
    let tracks = TrackIndex::all().filter_map(|track| stream.packets.reception(now, track));
    let (expected_packets, arrived_packets, jitter) =
        tracks.fold((0, 0, Duration::ZERO), |(expected, arrived, jitter), track| {
            (expected + track.expected_packets, arrived + track.received_packets, jitter.max(track.jitter))
        });
    let milliseconds = |time: Duration| time.as_secs_f32() * 1000.0;
    Arrival {
        expected_packets,
        arrived_packets,
        rtt_ms: stream.packets.publisher_round_trip().map_or(f32::NAN, milliseconds),
        jitter_ms: milliseconds(jitter),
    }
}

/// How the next track is received that a description lists; `counts` are those before it, by kind.
fn reception(
    stream: &RtcStream,
    now: Instant,
    track: &TrackDescription,
    counts: &mut [usize; 2],
) -> Option<TrackReception> {
    let count = &mut counts[usize::from(track.kind == MediaKind::Video)];
    let peer = TrackIndex::new(track.kind, *count)?;
    *count += 1;
    stream.packets.reception(now, peer)
}

fn add_stream(counters: &mut RtcCounters, stream: &RtcStream) {
    let stats = stream.packets.stats();
    counters.nacks_out += stats.nacked_packets;
    counters.key_frame_requests_out += stats.key_frame_requests;
}

fn rtc_tracks(stream: &RtcStream, now: Instant) -> Vec<RtcTrackSnapshot> {
    let described = stream.tracks.as_deref().unwrap_or_default().iter();
    let mut counts = [0; 2];
    described
        .map(|track| (track, reception(stream, now, track, &mut counts)))
        .map(|(track, reception)| RtcTrackSnapshot {
            kind: if track.kind == MediaKind::Audio { TrackKind::Audio } else { TrackKind::Video },
            codec: rtp::payload::encoding_name(track.codec()),
            clock_rate: track.format().clock_rate,
            channels: (track.kind == MediaKind::Audio).then_some(track.format().channels),
            encodings: reception.map_or(0, |reception| reception.live_layers).max(1),
            size: None,
            bits_per_second: reception.map_or(0, |reception| reception.bits_per_second),
            frames_per_second: 0.0,
            key_frame_interval_ms: 0,
        })
        .collect()
}
