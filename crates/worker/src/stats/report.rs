//! Snapshots: a worker's state copied out as plain values, when it is asked for. What leaves unasked is in
//! `columns`.

use crate::event_loop::Worker;
use crate::frames::stream::FrameStream;
use crate::ids::{ConnId, TableId};
use crate::mailbox::MailboxCounters;
use crate::proto::session::{Media, Session};
use crate::publication::Source;
use crate::registry::Origin;
use worker_api::command::Listed;
use worker_api::snapshot::{
    PublisherSnapshot, SessionSnapshot, StreamSnapshot, WorkerCounters, WorkerSnapshot,
};

impl Worker {
    /// Copies the state out.
    pub(crate) fn snapshot(&self, listed: &Listed) -> WorkerSnapshot {
        let last = self.ctx.load.last;
        let rows = self.connections.columns.stats.listed(self.ctx.worker.index(), listed);
        let sessions =
            rows.filter_map(|row| Some((ConnId::at(row), self.connections.sessions.get(ConnId::at(row))?)));
        WorkerSnapshot {
            index: self.ctx.worker.index(),
            core: self.ctx.load.core,
            counters: self.counters_now(),
            loop_time_us_p50: last.loop_time_us_p50,
            loop_time_us_p99: last.loop_time_us_p99,
            load_percent: last.load_percent,
            is_full: self.overloaded.is_some()
                || !self.ctx.mailboxes.fullness().read().has_room_for_player(self.ctx.settings.sessions_max),
            is_full_of_rtc: self.overloaded.is_some()
                || self.packets.sessions.len() >= self.ctx.settings.rtc.sessions_max,
            send_delay: last.send_delay,
            bytes_in_per_second: last.bytes_in,
            bytes_out_per_second: last.bytes_out,
            streams: self
                .frames
                .streams
                .iter()
                .map(|(_, stream)| self.stream_snapshot(stream))
                .chain(self.packets.stream_snapshots(&self.ctx).map(|(bridge, stream)| StreamSnapshot {
                    bridge: self.bridges.snapshot(&self.ctx, bridge),
                    publisher:
                        stream.publisher.or_else(|| self.publisher_of_packets(&stream.app, &stream.name)),
                    ..stream
                }))
                .collect(),
            sessions: sessions
                .map(|(conn, session)| self.session_snapshot(conn, session))
                .chain(self.packets.session_snapshots(&self.ctx, listed))
                .collect(),
        }
    }

    fn counters_now(&self) -> WorkerCounters {
        let mut counters = self.ctx.counters;
        counters.sessions = self.connections.sessions.len() as u64;
        counters.http_idle = self.idle.len() as u64;
        (counters.publishers, counters.players) = self.connections.columns.publishers_and_players();
        counters.queue_drops += self.connections.columns.stats.dropped_frames.iter().sum::<u64>();
        counters.stats = self.control.outbox.counters;
        let MailboxCounters { messages, wake_ups } = self.ctx.mailboxes.counters;
        (counters.ring_messages_out, counters.worker_wake_ups) = (messages, wake_ups);
        self.packets.count(self.ctx.now, &mut counters);
        counters.bridges = self.bridges.counters();
        counters.srt = self.srt_counters();
        counters.rtsp = self.rtsp.counters();
        if let Some(relay) = &self.relay {
            counters.relay = relay.counters();
            counters.bytes_out += counters.relay.bytes_out;
        }
        counters
    }

    /// The connection that publishes a stream as packets.
    fn publisher_of_packets(&self, app: &str, name: &str) -> Option<PublisherSnapshot> {
        let (id, _) = self.ctx.directory.home(&format!("{app}/{name}"))?;
        let stream = self.packets.streams.get(self.packets.streams.find(id)?)?;
        let Source { origin: Origin::Rtsp(conn), .. } = stream.publication.source? else { return None };
        let session = self.connections.sessions.get(conn)?;
        let stats = &self.connections.columns.stats;
        Some(PublisherSnapshot {
            session: session.id,
            address: session.address,
            protocol: stats.protocol[conn.index()],
            connected_ms: self.ctx.now_ms - stats.opened_ms[conn.index()],
        })
    }

    fn stream_snapshot(&self, stream: &FrameStream) -> StreamSnapshot {
        let publisher = stream
            .publication
            .connection()
            .and_then(|conn| Some((conn, self.connections.sessions.get(conn)?)));
        let stats = &self.connections.columns.stats;
        let rates = stream.delivery.rates();
        let gop = stream.delivery.gop();
        StreamSnapshot {
            app: stream.publication.app().to_owned(),
            name: stream.publication.name().to_owned(),
            live: stream.publication.source.is_some(),
            publisher: publisher.map(|(conn, session)| PublisherSnapshot {
                session: session.id,
                address: session.address,
                protocol: stats.protocol[conn.index()],
                connected_ms: self.ctx.now_ms - stats.opened_ms[conn.index()],
            }),
            uptime_ms: stream
                .publication
                .source
                .map_or(0, |_| self.ctx.now_ms - stream.publication.live_since_ms),
            players: stream.publication.players,
            video: stream.video.clone(),
            audio: stream.audio.clone(),
            sections: stream.sections,
            video_bits_per_second: rates.video_bits_per_second,
            audio_bits_per_second: rates.audio_bits_per_second,
            video_frames_per_second: rates.video_frames_per_second,
            key_frame_interval_ms: stream.delivery.key_frame_interval_ms() as u32,
            gop_frames: gop.frames().len() as u32,
            gop_bytes: gop.bytes() as u64,
            gop_duration_ms: gop.duration_ms() as u32,
            bytes_in: stream.delivery.bytes_in(),
            tracks: Vec::new(),
            bridge: self.bridges.snapshot(&self.ctx, stream.publication.bridge),
        }
    }

    fn session_snapshot(&self, conn: ConnId, session: &Session) -> SessionSnapshot {
        let stream = match session.media {
            Media::None | Media::PublishPackets(_) => None,
            Media::Publish(publish) => Some(publish.stream),
            Media::Play(player) => self.frames.players.get(player).map(|player| player.stream),
            Media::Tap(tap) => self.frames.taps.get(tap).map(|tap| tap.stream),
        };
        let stream = stream.and_then(|stream| self.frames.streams.get(stream));
        let of_packets = match session.media {
            Media::PublishPackets(publish) => self.packets.streams.get(publish.stream),
            _ => None,
        };
        let of_packets = of_packets.map(|stream| stream.publication.key.to_string());
        let of_columns =
            self.connections.columns.session_snapshot(conn, session.id, session.address, self.ctx.now_ms);
        SessionSnapshot {
            stream: stream.map(|stream| stream.publication.key.to_string()).or(of_packets),
            user_agent: session.user_agent.as_deref().map(str::to_owned),
            srt: self.srt_snapshot(session),
            ..of_columns
        }
    }
}
