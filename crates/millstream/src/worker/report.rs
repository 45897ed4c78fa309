//! Snapshots: a worker's state copied out as plain values.

use super::engine::Worker;
use super::session::{Media, Session};
use super::snapshot::{
    PublisherSnapshot, Role, SessionSnapshot, StreamSnapshot, WorkerCounters, WorkerSnapshot,
};
use super::streams::LocalStream;

impl Worker {
    /// Copies the state out.
    pub(super) fn snapshot(&self, with_sessions: bool) -> WorkerSnapshot {
        let last = self.load.last;
        // A session that is only being told why it ended is over for everybody else.
        let sessions =
            self.sessions.iter().filter(|(_, session)| with_sessions && session.closing_at_ms.is_none());
        WorkerSnapshot {
            index: self.parts.index,
            core: self.load.core,
            counters: self.counters_now(),
            loop_time_us_p50: last.loop_time_us_p50,
            loop_time_us_p99: last.loop_time_us_p99,
            load_percent: last.load_percent,
            bytes_in_per_second: last.bytes_in,
            bytes_out_per_second: last.bytes_out,
            streams: self
                .streams
                .slab
                .iter()
                .map(|(_, stream)| self.stream_snapshot(stream))
                .chain(self.rtc_stream_snapshots())
                .collect(),
            sessions: sessions
                .map(|(_, session)| self.session_snapshot(session))
                .chain(self.rtc_session_snapshots().filter(|_| with_sessions))
                .collect(),
        }
    }

    fn counters_now(&self) -> WorkerCounters {
        let mut counters = self.counters;
        counters.sessions = self.sessions.len() as u64;
        for (_, session) in &self.sessions {
            match &session.media {
                Media::None => {}
                Media::Publish(_) => counters.publishers += 1,
                Media::Play(play) => {
                    counters.players += 1;
                    counters.queue_drops += play.cursor.dropped();
                }
            }
        }
        self.rtc_count(&mut counters);
        counters.bridges = self.bridge_counters();
        counters
    }

    fn stream_snapshot(&self, stream: &LocalStream) -> StreamSnapshot {
        let publisher = stream.publisher().and_then(|index| self.sessions.get(index));
        let rates = stream.relay.rates();
        let gop = stream.relay.gop();
        StreamSnapshot {
            app: stream.app().to_owned(),
            name: stream.name().to_owned(),
            live: stream.source.is_some(),
            publisher: publisher.map(|session| PublisherSnapshot {
                session: session.id,
                address: session.address,
                protocol: session.protocol,
                connected_ms: self.now_ms - session.accepted_ms,
            }),
            uptime_ms: stream.source.map_or(0, |_| self.now_ms - stream.live_since_ms),
            players: stream.players,
            video: stream.video.clone(),
            audio: stream.audio.clone(),
            video_bits_per_second: rates.video_bits_per_second,
            audio_bits_per_second: rates.audio_bits_per_second,
            video_frames_per_second: rates.video_frames_per_second,
            key_frame_interval_ms: stream.relay.key_frame_interval_ms() as u32,
            gop_frames: gop.frames().len() as u32,
            gop_bytes: gop.bytes() as u64,
            gop_duration_ms: gop.duration_ms() as u32,
            bytes_in: stream.relay.bytes_in(),
            tracks: Vec::new(),
            bridge: self.bridge_snapshot(stream.bridge),
        }
    }

    fn session_snapshot(&self, session: &Session) -> SessionSnapshot {
        let (stream, play) = match &session.media {
            Media::None => (None, None),
            Media::Publish(publish) => (self.streams.slab.get(publish.stream), None),
            Media::Play(play) => (self.streams.slab.get(play.stream), Some(play)),
        };
        let queue = play.zip(stream).and_then(|(play, stream)| {
            let log = &stream.channels[play.format as usize].as_ref()?.log;
            Some((play.cursor.lag_bytes(log), play.cursor.lag_ms(log)))
        });
        let (queue_bytes, queue_ms) = queue.unwrap_or_default();
        SessionSnapshot {
            id: session.id,
            role: session.role(),
            protocol: session.protocol,
            stream: stream.map(|stream| stream.key.clone()),
            address: session.address,
            connected_ms: self.now_ms - session.accepted_ms,
            bytes_in: session.bytes_in,
            bytes_out: session.bytes_out,
            bits_per_second: if session.role() == Role::Pending { 0 } else { session.bits_per_second },
            queue_bytes,
            queue_ms: queue_ms as u32,
            dropped_frames: play.map_or(0, |play| play.cursor.dropped()),
            user_agent: session.user_agent.as_deref().map(str::to_owned),
            rtc: None,
        }
    }
}
