//! Snapshots: a worker's state copied out as plain values, when it is asked for. What leaves unasked is in `columns`.

use crate::event_loop::Worker;
use crate::frames::streams::LocalStream;
use crate::proto::session::{Media, Session};
use worker_api::link::Listed;
use worker_api::snapshot::{
    PublisherSnapshot, SessionSnapshot, StreamSnapshot, WorkerCounters, WorkerSnapshot,
};

impl Worker {
    /// Copies the state out.
    pub(crate) fn snapshot(&self, listed: &Listed) -> WorkerSnapshot {
        let last = self.load.last;
        let rows = self.columns.told.listed(self.parts.index, listed);
        let sessions = rows.filter_map(|row| Some((row, self.sessions.get(row)?)));
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
                .map(|(index, session)| self.session_snapshot(index, session))
                .chain(self.rtc_session_snapshots(listed))
                .collect(),
        }
    }

    fn counters_now(&self) -> WorkerCounters {
        let mut counters = self.counters;
        counters.sessions = self.sessions.len() as u64;
        (counters.publishers, counters.players) = self.columns.publishers_and_players();
        counters.queue_drops += self.columns.told.dropped_frames.iter().sum::<u64>();
        counters.stats = self.parts.outbox.counters;
        self.rtc_count(&mut counters);
        counters.bridges = self.bridge_counters();
        counters
    }

    fn stream_snapshot(&self, stream: &LocalStream) -> StreamSnapshot {
        let publisher = stream.publisher().and_then(|index| Some((index, self.sessions.get(index)?)));
        let told = &self.columns.told;
        let rates = stream.relay.rates();
        let gop = stream.relay.gop();
        StreamSnapshot {
            app: stream.app().to_owned(),
            name: stream.name().to_owned(),
            live: stream.source.is_some(),
            publisher: publisher.map(|(index, session)| PublisherSnapshot {
                session: session.id,
                address: session.address,
                protocol: told.protocol[index],
                connected_ms: self.now_ms - told.opened_ms[index],
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

    fn session_snapshot(&self, index: usize, session: &Session) -> SessionSnapshot {
        let stream = match &session.media {
            Media::None => None,
            Media::Publish(publish) => self.streams.slab.get(publish.stream),
            Media::Play(play) => self.streams.slab.get(play.stream),
        };
        let of_columns = self.columns.session_snapshot(index, session.id, session.address, self.now_ms);
        SessionSnapshot {
            stream: stream.map(|stream| stream.key.to_string()),
            user_agent: session.user_agent.as_deref().map(str::to_owned),
            ..of_columns
        }
    }
}
