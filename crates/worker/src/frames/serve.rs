//! Frames out: players join, are served when due, and leave.

use std::cmp::Reverse;
use std::io::{self, IoSlice};

use delivery::{Cursor, PlayerAction, PlayerId};

use crate::event_loop::Worker;
use crate::frames::stream::{Channel, Format, LocalStream, write_file_header};
use crate::ids::{ConnId, FrameStreamId, TableId};
use crate::proto::http;
use crate::proto::requests::ANSWER_BYTES_MAX;
use crate::proto::session::{Media, Play, Session};
use crate::publication::LaneStream;
use crate::registry::{Lane, Published};
use crate::stats::columns::frames_reference;
use worker_api::EndReason;
use worker_api::auth::Denied;
use worker_api::snapshot::Role;

/// Slices of one write: private bytes and log segments.
const SLICES_MAX: usize = 16;

/// Why a player is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlayRefusal {
    /// By the rules of authorisation.
    Denied(Denied),
    /// The stream has no publisher, and the application does not let players wait for one.
    NotFound,
    /// The stream is published as packets, and bridges are off.
    NotFrames,
    /// The server is shutting down.
    Draining,
}

impl PlayRefusal {
    /// For the player and the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Denied(denied) => denied.reason(),
            Self::NotFound => "there is no such stream",
            Self::NotFrames => "the stream is published by WebRTC: play it by WHEP",
            Self::Draining => EndReason::Draining.text(),
        }
    }

    /// HTTP status.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Denied(_) => 403,
            Self::NotFound => 404,
            Self::NotFrames => 406,
            Self::Draining => 503,
        }
    }
}

/// What became of an attempt to write to a session.
enum Served {
    /// Everything there is has been written, or waits for the socket.
    Done,
    /// The player is to be disconnected.
    TooSlow(EndReason),
}

impl Worker {
    /// Makes the session a player of a stream.
    pub(crate) fn play(
        &mut self,
        conn: ConnId,
        (app, name): (&str, &str),
        token: Option<&str>,
        format: Format,
    ) -> Result<(), PlayRefusal> {
        let session = &self.sessions[conn];
        let (id, address) = (session.id, session.address);
        let key = format!("{app}/{name}");
        let stream = self.authorize_and_subscribe(conn, &key, (app, name), token).inspect_err(|refusal| {
            tracing::info!(session = %id, %address, stream = key, reason = refusal.reason(), "player refused");
        })?;
        let now_ms = self.ctx.now_ms;
        let local = &mut self.streams.slab[stream];
        local.publication.players += 1;
        let id_of_stream = local.publication.id;
        self.bridge_to_frames(id_of_stream);
        self.update_read_interest(stream);
        let local = &mut self.streams.slab[stream];
        let waiting_since_ms = local.publication.source.is_none().then_some(now_ms);
        let cached = offers_cache(local);
        let channel = local.channel_mut(format, now_ms);
        let cursor = match waiting_since_ms {
            Some(_) => Cursor::join_at_head(&channel.log, now_ms),
            None => Cursor::join(&channel.log, cached, now_ms),
        };
        let log_end = channel.log_end();
        let slot = channel.schedule.add(PlayerId(conn.0), now_ms, log_end);
        self.sessions[conn].media =
            Media::Play(Play { stream, format, cursor, slot, begun: false, paused: false, waiting_since_ms });
        self.columns.takes_role(conn, Role::Player, frames_reference(stream));
        tracing::info!(session = %id, %address, stream = key, ?format, "player joined");
        Ok(())
    }

    /// Whether the session could play the stream right now.
    pub(crate) fn would_play(
        &mut self,
        conn: ConnId,
        (app, name): (&str, &str),
        token: Option<&str>,
    ) -> Result<(), PlayRefusal> {
        let key = format!("{app}/{name}");
        let stream = self.authorize_and_subscribe(conn, &key, (app, name), token)?;
        // The first player of a stream whose home is another worker: that it has a home is enough.
        let live = self.streams.slab[stream].publication.source.is_some()
            || self.ctx.directory.subscribe(&key, self.ctx.worker, Lane::Frames).1.is_some();
        if self.streams.slab[stream].publication.players == 0 {
            self.unsubscribe(LaneStream::Frames(stream));
        }
        if live { Ok(()) } else { Err(PlayRefusal::NotFound) }
    }

    /// Checks the rules and makes sure the stream comes to this worker.
    fn authorize_and_subscribe(
        &mut self,
        conn: ConnId,
        key: &str,
        (app, name): (&str, &str),
        token: Option<&str>,
    ) -> Result<FrameStreamId, PlayRefusal> {
        if self.ctx.draining_until.is_some() {
            return Err(PlayRefusal::Draining);
        }
        let address = self.sessions[conn].address.ip();
        if let Err(denied) = self.ctx.policy.may_play(app, name, token, address) {
            self.ctx.counters.unauthorized += 1;
            return Err(PlayRefusal::Denied(denied));
        }
        let bridged = self.ctx.settings_for(app).bridge.enabled;
        if !bridged && matches!(self.ctx.directory.published(key), Published::Packets(_)) {
            return Err(PlayRefusal::NotFrames);
        }
        let id = self.subscribe(Lane::Frames, key, (app, name));
        id.and_then(|id| self.streams.find(id)).ok_or(PlayRefusal::NotFound)
    }

    /// The playing session leaves its stream.
    pub(crate) fn leave(&mut self, conn: ConnId, play: &Play) {
        let local = &mut self.streams.slab[play.stream];
        self.ctx.counters.queue_drops += play.cursor.dropped();
        local.publication.players -= 1;
        let channel = local.channel_mut(play.format, self.ctx.now_ms);
        channel.schedule.remove(play.slot, PlayerId(conn.0));
        if channel.schedule.is_empty() {
            local.channels[play.format as usize] = None;
        }
        if local.publication.players == 0 {
            self.update_read_interest(play.stream);
            self.unsubscribe(LaneStream::Frames(play.stream));
        }
    }

    /// RTMP `pause`.
    pub(crate) fn pause(&mut self, conn: ConnId, paused: bool) {
        let Some(play) = self.sessions[conn].play_mut() else { return };
        let local = &self.streams.slab[play.stream];
        let Some(channel) = &local.channels[play.format as usize] else { return };
        if std::mem::replace(&mut play.paused, paused) == paused {
            return;
        }
        if paused {
            play.cursor.pause(&channel.log);
        } else {
            play.cursor.resume();
        }
        self.write(conn);
    }

    /// Copies the rest of the message a player is in to its private bytes, before its stream is left. `false`
    /// when that is too much to keep for one player: then nothing more can be said to it.
    pub(crate) fn finish_message(&mut self, conn: ConnId) -> bool {
        let session = &mut self.sessions[conn];
        let Media::Play(play) = &session.media else { return true };
        let Some(channel) = &self.streams.slab[play.stream].channels[play.format as usize] else {
            return true;
        };
        let Some(position) = play.cursor.position() else { return true };
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let (count, bytes) = channel.log.slices(position, channel.log.message_end(position), &mut slices);
        if bytes > ANSWER_BYTES_MAX {
            return false;
        }
        let rest: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
        session.pending.owed += rest.len();
        session.pending.bytes.splice(0..0, rest);
        true
    }

    /// Looks at a channel again when its next slot is due.
    pub(crate) fn arm(&mut self, stream: FrameStreamId, format: usize, messages_max: u64) {
        let Some(channel) = &mut self.streams.slab[stream].channels[format] else { return };
        if channel.armed_ms.is_none() {
            channel.schedule.resume(self.ctx.now_ms);
        }
        let log_end = channel.log_end();
        let due = if channel.schedule.is_full(log_end, messages_max) {
            Some(self.ctx.now_ms)
        } else {
            channel.schedule.next_due(log_end)
        };
        let Some(due) = due else { return };
        if channel.armed_ms.is_none_or(|armed| due < armed) {
            channel.armed_ms = Some(due);
            self.timers.push(Reverse((due, stream, format)));
        }
    }

    /// Serves the players whose time has come.
    pub(crate) fn serve_due_players(&mut self) {
        while let Some(&Reverse((due, stream, format))) = self.timers.peek() {
            if due > self.ctx.now_ms {
                return;
            }
            self.timers.pop();
            let Some(local) = self.streams.slab.get_mut(stream) else { continue };
            let messages_max = u64::from(local.settings.merge_messages);
            let Some(channel) = &mut local.channels[format] else { continue };
            if channel.armed_ms == Some(due) {
                self.serve_due_slots(stream, format, messages_max);
            }
        }
    }

    fn serve_due_slots(&mut self, stream: FrameStreamId, format: usize, messages_max: u64) {
        let now_ms = self.ctx.now_ms;
        let mut players = std::mem::take(&mut self.scratch_players);
        while let Some(channel) = self.channel_mut(stream, format) {
            let log_end = channel.log_end();
            let Some(slot) = channel.schedule.take_due(now_ms, log_end, messages_max) else { break };
            players.clear();
            players.extend_from_slice(channel.schedule.players(slot));
            players.iter().for_each(|&player| self.serve(ConnId(player.0)));
        }
        self.scratch_players = players;
        let Some(channel) = self.channel_mut(stream, format) else { return };
        let next = channel.schedule.next_due(channel.log_end());
        channel.armed_ms = next;
        if let Some(due) = next {
            self.timers.push(Reverse((due, stream, format)));
        }
    }

    /// A channel, if it is there.
    pub(crate) fn channel_mut(&mut self, stream: FrameStreamId, format: usize) -> Option<&mut Channel> {
        self.streams.slab.get_mut(stream)?.channels[format].as_mut()
    }

    /// Writes what there is for a session now.
    pub(crate) fn write(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if matches!(session.media, Media::Play(_)) {
            return self.serve(conn);
        }
        let result = write_pending(session, self.ctx.now_ms);
        match result {
            Err(_) => self.remove(conn, EndReason::ConnectionFailed),
            Ok(bytes) => {
                self.columns.sent(conn, bytes as u64);
                self.count_written(bytes as u64, 0);
                self.close_if_finished(conn);
            }
        }
    }

    fn close_if_finished(&mut self, conn: ConnId) {
        let session = &mut self.sessions[conn];
        if session.closing_at_ms.is_some()
            && session.pending.len() == 0
            && !session.holds_ciphertext()
            && let Some(connection) = &mut session.connection
        {
            // The peer closes when it has read to the end; until then its input is read and forgotten, or the
            // kernel would answer it with a reset that can overtake our last bytes.
            connection.finish();
        }
    }

    /// Writes to a player what its queue holds.
    pub(crate) fn serve(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Media::Play(play) = &mut session.media else { return };
        let stream = &self.streams.slab[play.stream];
        let cors = self.ctx.settings.cors_allow_origin.as_deref();
        let mut tally = Tally::default();
        let result = serve_player(session, stream, self.ctx.now_ms, cors, &mut tally);
        tally.dropped = session.play().map_or(0, |play| play.cursor.dropped());
        self.columns.sent(conn, tally.bytes);
        self.columns.passed(conn, tally.messages);
        self.columns.told.dropped_frames[conn.index()] = tally.dropped;
        self.ctx.counters.writes += tally.writes;
        self.count_written(tally.bytes, tally.messages);
        match result {
            Ok(Served::Done) => {}
            Ok(Served::TooSlow(reason)) => {
                self.ctx.counters.slow_disconnects += 1;
                // What it does not take it cannot be told either.
                self.remove(conn, reason);
            }
            Err(_) => self.remove(conn, EndReason::ConnectionFailed),
        }
    }

    fn count_written(&mut self, bytes: u64, messages: u64) {
        self.ctx.counters.bytes_out += bytes;
        self.ctx.counters.frames_out += messages;
        self.ctx.load.bytes_out += bytes;
    }
}

/// Whether a new player may begin with what is there already.
fn offers_cache(stream: &LocalStream) -> bool {
    stream.settings.gop_cache || !stream.relay.has_video()
}

/// What was written to one session.
#[derive(Debug, Default)]
struct Tally {
    writes: u64,
    bytes: u64,
    messages: u64,
    /// Left out so far, since the player joined.
    dropped: u64,
}

fn serve_player(
    session: &mut Session,
    stream: &LocalStream,
    now_ms: u64,
    cors: Option<&str>,
    tally: &mut Tally,
) -> io::Result<Served> {
    let Media::Play(play) = &mut session.media else { return Ok(Served::Done) };
    let Some(connection) = &mut session.connection else { return Ok(Served::Done) };
    let Some(channel) = &stream.channels[play.format as usize] else { return Ok(Served::Done) };
    let log = &channel.log;
    loop {
        let action = play.cursor.review(log, &stream.queue_limits, now_ms);
        let mut end = match action {
            PlayerAction::Stalled => return Ok(Served::TooSlow(EndReason::Stalled)),
            PlayerAction::TooFarBehind => return Ok(Served::TooSlow(EndReason::TooFarBehind)),
            PlayerAction::Idle => None,
            PlayerAction::Send(end) | PlayerAction::Begin(end) => {
                if !std::mem::replace(&mut play.begun, true) {
                    write_preamble(play.format, stream, cors, &mut session.pending.bytes);
                }
                if matches!(action, PlayerAction::Begin(_)) {
                    let time_ms = log.entry().map_or(0, |(_, mark)| mark.time_ms);
                    channel.write_headers(&mut session.pending.bytes, stream.relay.entry_headers(), time_ms);
                }
                Some(end)
            }
        };
        if session.blocked {
            return Ok(Served::Done);
        }
        let position = play.cursor.position().unwrap_or(log.head());
        let private = session.pending.len() > 0;
        // Private bytes go between two messages: the one that has been begun is finished first.
        let private_first =
            session.pending.is_partly_sent() || !private || !play.cursor.is_inside_message(log);
        if !private_first {
            end = Some(log.message_end(position));
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let first = usize::from(private && private_first);
        if first == 1 {
            slices[0] = session.pending.rest();
        }
        let (count, _) = match end {
            Some(end) => log.slices(position, end, &mut slices[first..]),
            None => (0, 0),
        };
        let slices = &slices[..first + count];
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        if offered == 0 {
            session.blocked = !connection.flush()?;
            return Ok(Served::Done);
        }
        tally.writes += 1;
        let written = match connection.write(slices) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                (session.blocked, session.written_ms) = (true, now_ms);
                return Ok(Served::Done);
            }
            Err(error) => return Err(error),
        };
        tally.bytes += written as u64;
        session.written_ms = now_ms;
        let shared = if first == 1 { session.pending.advance(written) } else { written };
        tally.messages += play.cursor.advance(log, shared as u64, now_ms);
        // TLS takes only so much at a time; a plain socket that takes less than offered is full.
        session.blocked = written < offered && !connection.is_tls();
        let more = session.pending.len() > 0 || play.cursor.lag_bytes(log) > 0;
        if session.blocked || !more {
            session.blocked |= connection.holds_ciphertext();
            return Ok(Served::Done);
        }
    }
}

/// What an FLV player gets once, before everything else.
fn write_preamble(format: Format, stream: &LocalStream, cors: Option<&str>, out: &mut Vec<u8>) {
    if let Format::Flv | Format::FlvChunked = format {
        http::write_stream_head(out, cors, format == Format::FlvChunked);
    }
    if format != Format::Rtmp {
        write_file_header(format, out, &stream.relay);
    }
}

fn write_pending(session: &mut Session, now_ms: u64) -> io::Result<usize> {
    let Some(connection) = &mut session.connection else { return Ok(0) };
    let mut total = 0;
    while session.pending.len() > 0 && !session.blocked {
        match connection.write(&[session.pending.rest()]) {
            Ok(written) => {
                session.pending.advance(written);
                session.written_ms = now_ms;
                total += written;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                (session.blocked, session.written_ms) = (true, now_ms);
            }
            Err(error) => return Err(error),
        }
    }
    session.blocked |= !connection.flush()?;
    Ok(total)
}
