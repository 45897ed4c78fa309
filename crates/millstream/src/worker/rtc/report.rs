//! Snapshots of WebRTC: sessions and streams of packets as plain values.

use std::time::{Duration, Instant};

use relay::packets::{TrackIndex, TrackReception};
use rtc::sdp::TrackDescription;
use rtp::payload::MediaKind;

use super::control::RtcRole;
use super::session::{RtcSession, Way};
use super::streams::RtcStream;
use crate::worker::engine::Worker;
use crate::worker::snapshot::{
    Protocol, PublisherSnapshot, Role, RtcCounters, RtcSessionSnapshot, RtcState, RtcTrackSnapshot,
    SessionSnapshot, StreamSnapshot, TrackKind, WorkerCounters,
};

impl Worker {
    /// Adds what WebRTC has counted.
    pub(in crate::worker) fn rtc_count(&self, counters: &mut WorkerCounters) {
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
        for (_, stream) in &rtc.streams.slab {
            add_stream(&mut counters.rtc, stream);
        }
    }

    /// Keeps what a stream that is forgotten has counted.
    pub(super) fn rtc_keep_counts(&mut self, stream: &RtcStream) {
        add_stream(&mut self.rtc.counters, stream);
    }

    /// Streams of packets.
    pub(in crate::worker) fn rtc_stream_snapshots(&self) -> impl Iterator<Item = StreamSnapshot> + '_ {
        self.rtc.streams.slab.iter().map(|(_, stream)| self.rtc_stream_snapshot(stream))
    }

    fn rtc_stream_snapshot(&self, stream: &RtcStream) -> StreamSnapshot {
        let publisher = stream.publisher().and_then(|index| self.rtc.sessions.get(index));
        let stats = stream.packets.stats();
        StreamSnapshot {
            app: stream.app().to_owned(),
            name: stream.name().to_owned(),
            live: stream.source.is_some(),
            publisher: publisher.map(|session| PublisherSnapshot {
                session: session.id,
                address: session.address,
                protocol: Protocol::Whip,
                connected_ms: self.now_ms - session.opened_ms,
            }),
            uptime_ms: stream.source.map_or(0, |_| self.now_ms - stream.live_since_ms),
            players: stream.players,
            video: None,
            audio: None,
            video_bits_per_second: 0,
            audio_bits_per_second: 0,
            video_frames_per_second: 0.0,
            key_frame_interval_ms: 0,
            gop_frames: 0,
            gop_bytes: stats.kept_bytes as u64,
            gop_duration_ms: 0,
            bytes_in: stats.received_bytes,
            tracks: rtc_tracks(stream, self.now),
            bridge: self.bridge_snapshot(stream.bridge),
        }
    }

    /// Sessions of WebRTC.
    pub(in crate::worker) fn rtc_session_snapshots(&self) -> impl Iterator<Item = SessionSnapshot> + '_ {
        self.rtc.sessions.iter().map(|(index, session)| self.rtc_session_snapshot(index, session))
    }

    fn rtc_session_snapshot(&self, index: usize, session: &RtcSession) -> SessionSnapshot {
        let outlet = self.rtc.outlets.get(index).and_then(Option::as_ref);
        let stream = self.rtc.streams.slab.get(session.stream);
        let connected = session.is_connected();
        let (role, protocol) = match session.role {
            RtcRole::Publish => (Role::Publisher, Protocol::Whip),
            RtcRole::Play => (Role::Player, Protocol::Whep),
        };
        SessionSnapshot {
            id: session.id,
            role: if connected { role } else { Role::Pending },
            protocol,
            stream: stream.map(|stream| stream.key.clone()),
            address: session.address,
            connected_ms: self.now_ms - session.opened_ms,
            bytes_in: session.bytes_in,
            bytes_out: outlet.map_or(0, |outlet| outlet.bytes_out),
            bits_per_second: session.bits_per_second,
            queue_bytes: 0,
            queue_ms: 0,
            dropped_frames: 0,
            user_agent: session.user_agent.as_deref().map(str::to_owned),
            rtc: Some(self.rtc_connection(index, session)),
        }
    }

    fn rtc_connection(&self, index: usize, session: &RtcSession) -> RtcSessionSnapshot {
        let outlet = self.rtc.outlets.get(index).and_then(Option::as_ref);
        let stream = self.rtc.streams.slab.get(session.stream);
        let viewer =
            session.viewer.zip(stream).and_then(|(viewer, stream)| stream.packets.viewer_stats(viewer));
        let published = stream.filter(|_| session.role == RtcRole::Publish);
        // Since the stream was made, which its players can keep over several publishers.
        let told = published.map(|stream| stream.packets.stats());
        let received = published.map(|stream| received(stream, self.now));
        let milliseconds = |time: Duration| time.as_secs_f32() * 1000.0;
        let state = match (session.is_connected(), session.peer.path().is_some()) {
            (true, _) => RtcState::Connected,
            (false, true) => RtcState::Handshake,
            (false, false) => RtcState::Checking,
        };
        RtcSessionSnapshot {
            state,
            transport: outlet.map(|outlet| match outlet.way {
                Way::Udp { .. } => "udp",
                Way::Tcp { .. } => "tcp",
            }),
            codecs: session.tracks.iter().map(|track| track.codec().encoding_name()).collect(),
            packets: match session.role {
                RtcRole::Publish => session.packets_in,
                RtcRole::Play => viewer.map_or(0, |viewer| viewer.packets),
            },
            lost_packets: match received {
                Some((expected, arrived, _)) => expected.saturating_sub(arrived),
                None => viewer.map_or(0, |viewer| viewer.lost.max(0) as u64),
            },
            loss_percent: match received {
                Some((expected, arrived, _)) => {
                    expected.saturating_sub(arrived) as f32 * 100.0 / expected.max(1) as f32
                }
                None => viewer.map_or(0.0, |viewer| viewer.fraction_lost * 100.0),
            },
            rtt_ms: match session.role {
                RtcRole::Publish => stream.and_then(|stream| stream.packets.publisher_round_trip()),
                RtcRole::Play => viewer.and_then(|viewer| viewer.round_trip),
            }
            .map(milliseconds),
            jitter_ms: match session.role {
                RtcRole::Publish => received.map(|(_, _, jitter)| milliseconds(jitter)),
                RtcRole::Play => viewer.map(|viewer| milliseconds(viewer.jitter)),
            },
            nacks: told.map_or(viewer.map_or(0, |viewer| viewer.nacks), |stats| stats.nacked_packets),
            resent_packets: told
                .map_or(viewer.map_or(0, |viewer| viewer.resent_packets), |stats| stats.repaired_packets),
            key_frame_requests: told.map_or(viewer.map_or(0, |viewer| viewer.key_frame_requests), |stats| {
                stats.key_frame_requests
            }),
        }
    }
}

/// Packets expected and arrived over all tracks of a publisher, and the largest jitter.
fn received(stream: &RtcStream, now: Instant) -> (u64, u64, Duration) {
    let tracks = TrackIndex::all().filter_map(|track| stream.packets.reception(now, track));
    tracks.fold((0, 0, Duration::ZERO), |(expected, arrived, jitter), track| {
        (expected + track.expected_packets, arrived + track.received_packets, jitter.max(track.jitter))
    })
}

/// How the next track is received that a description lists; `counts` are those before it, by kind.
fn reception(
    stream: &RtcStream,
    now: Instant,
    track: &TrackDescription,
    counts: &mut [usize; 2],
) -> Option<TrackReception> {
    let count = &mut counts[usize::from(track.kind == MediaKind::Video)];
    let index = TrackIndex::new(track.kind, *count)?;
    *count += 1;
    stream.packets.reception(now, index)
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
            codec: track.codec().encoding_name(),
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
