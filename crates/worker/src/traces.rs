//! Traces of connections: begun where it is known what one wants, ended where it leaves.
//!
//! Sessions of WebRTC have theirs from the control side (`packets/`). What is handed over is a span, once for
//! each stage of a session and never per frame; nobody waits for its export.

use std::time::Duration;

use crate::event_loop::Worker;
use crate::frames::stream::Format;
use crate::ids::{ConnId, FrameStreamId, TableId};
use crate::proto::session::Media;
use crate::registry::Origin;
use worker_api::EndReason;
use worker_api::snapshot::{Protocol, Role};
use worker_api::traces::{Stage, Traced};

impl Worker {
    /// A publisher was let in to a stream, or refused.
    pub(crate) fn trace_publish(&mut self, conn: ConnId, key: &str, refused: Option<&'static str>) {
        let protocol = self.connections.columns.stats.protocol[conn.index()];
        self.trace_request(conn, key, (Role::Publisher, protocol), refused);
    }

    /// The same of a player.
    pub(crate) fn trace_play(
        &mut self,
        conn: ConnId,
        key: &str,
        format: Format,
        refused: Option<&'static str>,
    ) {
        let is_tls = self.connections.sessions[conn].is_tls();
        // Those by HTTP are known to be more than that only once they play.
        let protocol = match format {
            Format::Rtmp | Format::Srt | Format::Rtsp => {
                self.connections.columns.stats.protocol[conn.index()]
            }
            Format::WsFlv if is_tls => Protocol::WssFlv,
            Format::WsFlv => Protocol::WsFlv,
            _ => format.protocol(is_tls),
        };
        self.trace_request(conn, key, (Role::Player, protocol), refused);
    }

    fn trace_request(
        &mut self,
        conn: ConnId,
        key: &str,
        (role, protocol): (Role, Protocol),
        refused: Option<&'static str>,
    ) {
        let Some(traces) = &self.ctx.settings.traces else { return };
        let session = &mut self.connections.sessions[conn];
        let of = Traced { protocol, role, stream: key.into(), address: session.address };
        // From when the connection was there, or had done with what it asked for before.
        let asked_ms = self.ctx.now_ms.saturating_sub(session.asked_since_ms);
        let now = self.ctx.now;
        let began = now.checked_sub(Duration::from_millis(asked_ms)).unwrap_or(now);
        let Some(mut trace) = traces.begin(began, None, of) else { return };
        trace.set_session(session.id);
        match refused {
            Some(reason) => trace.end(now, EndReason::Refused(reason)),
            None => {
                trace.reach(now, Stage::FirstKeyFrame);
                session.trace = Some(trace);
            }
        }
    }

    /// The same of a publisher of packets. Looked at a few times a second and not per packet; the time is
    /// that of the packet.
    pub(crate) fn trace_packets(&mut self, conn: ConnId) {
        let session = &mut self.connections.sessions[conn];
        let (Some(trace), Media::PublishPackets(publish)) = (&mut session.trace, session.media) else {
            return;
        };
        if trace.stage() == Stage::FirstKeyFrame
            && let Some(stream) = self.packets.streams.get(publish.stream)
            && let Some(came) = stream.sfu.first_key_frame()
        {
            trace.reach(came, Stage::Media);
        }
    }

    /// A key frame of a stream's publisher has come.
    pub(crate) fn trace_key_frame(&mut self, stream: FrameStreamId) {
        let source = self.frames.streams.get(stream).and_then(|stream| stream.publication.source);
        let Some(Origin::Connection(conn)) = source.map(|source| source.origin) else { return };
        let session = self.connections.sessions.get_mut(conn);
        if let Some(trace) = session.and_then(|session| session.trace.as_mut()) {
            trace.reach(self.ctx.now, Stage::Media);
        }
    }
}
