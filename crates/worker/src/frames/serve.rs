//! Frames out: players join, are served when due, and leave.

use std::io::{self, IoSlice};
use std::time::Instant;

use delivery::{Cursor, PlayerAction, PlayerId, SlotId};

use super::Frames;
use super::stream::{Format, Time, write_file_header};
use crate::context::Context;
use crate::ids::{ConnId, FrameStreamId};
use crate::net::connection::Connection;
use crate::proto::http;
use crate::proto::session::{ANSWER_BYTES_MAX, Pending, Session, State, Written};
use crate::srt::SrtLink;
use worker_api::EndReason;

/// Slices of one write: private bytes and log segments.
const SLICES_MAX: usize = 16;

/// A player of a stream.
#[derive(Debug)]
pub(crate) struct Player {
    /// The connection that plays.
    pub(crate) conn: ConnId,
    pub(crate) stream: FrameStreamId,
    pub(crate) format: Format,
    pub(crate) cursor: Cursor,
    slot: SlotId,
    /// The response head or file header has been sent.
    pub(crate) begun: bool,
    /// RTMP `pause`: nothing is sent until it is undone.
    pub(super) paused: bool,
    pub(crate) joined_ms: u64,
}

/// What takes a player's bytes.
enum Output<'a> {
    Connection(&'a mut Connection),
    Srt(&'a mut SrtLink),
}

impl Output<'_> {
    fn write(&mut self, now: Instant, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Connection(connection) => connection.write(slices),
            Self::Srt(link) => link.write(now, slices),
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Connection(connection) => connection.flush(),
            Self::Srt(_) => Ok(true),
        }
    }

    fn is_tls(&self) -> bool {
        matches!(self, Self::Connection(connection) if connection.is_tls())
    }

    fn holds_ciphertext(&self) -> bool {
        matches!(self, Self::Connection(connection) if connection.holds_ciphertext())
    }
}

impl Frames {
    /// A connection begins to play a stream, which counts it as a player already.
    pub(crate) fn join(
        &mut self,
        ctx: &Context,
        stream: FrameStreamId,
        conn: ConnId,
        format: Format,
    ) -> PlayerId {
        let now_ms = ctx.now_ms;
        let local = &mut self.streams[stream];
        // A new player may begin with what is there already.
        let cached = local.settings.gop_cache || !local.delivery.has_video();
        let is_live = local.publication.source.is_some();
        let channel = local.channel_mut(format, Time::of(ctx));
        let cursor = match is_live {
            true => Cursor::join(&channel.log, cached, now_ms),
            false => Cursor::join_at_head(&channel.log, now_ms),
        };
        let player = self.players.vacant_id();
        let slot = channel.schedule.add(player, now_ms, channel.log_end());
        self.players.insert(Player {
            conn,
            stream,
            format,
            cursor,
            slot,
            begun: false,
            paused: false,
            joined_ms: now_ms,
        })
    }

    /// A publication that begins here has been going on elsewhere, and there is nothing to begin with:
    /// players that came before it begin at its next key frame, as those do who come to its home.
    pub(crate) fn wait_for_key(&mut self, stream: FrameStreamId) {
        for channel in self.streams[stream].channels.iter().flatten() {
            for player in channel.schedule.all_players() {
                self.players[player].cursor.wait_for_entry(&channel.log);
            }
        }
    }

    /// A player leaves its stream, which may have none left then.
    pub(crate) fn leave(&mut self, ctx: &mut Context, id: PlayerId) -> Option<Player> {
        let player = self.players.remove(id)?;
        ctx.counters.queue_drops += player.cursor.dropped();
        let local = &mut self.streams[player.stream];
        local.publication.players -= 1;
        local.publication.report_watched(ctx);
        let channel = local.channel_mut(player.format, Time::of(ctx));
        channel.schedule.remove(player.slot, id);
        if channel.schedule.is_empty() {
            local.channels[player.format as usize] = None;
        }
        Some(player)
    }

    /// RTMP `pause`.
    pub(crate) fn pause(&mut self, id: PlayerId, paused: bool) {
        let Some(player) = self.players.get_mut(id).filter(|player| player.paused != paused) else { return };
        let local = &self.streams[player.stream];
        let Some(channel) = &local.channels[player.format as usize] else { return };
        player.paused = paused;
        if paused {
            player.cursor.pause(&channel.log);
        } else {
            player.cursor.resume();
        }
    }

    /// Copies the rest of the message a player is in to its private bytes, before its stream is left. `false`
    /// when that is too much to keep for one player: then nothing more can be said to it.
    pub(crate) fn finish_message(&self, id: PlayerId, pending: &mut Pending) -> bool {
        let Some(player) = self.players.get(id) else { return true };
        let Some(channel) = &self.streams[player.stream].channels[player.format as usize] else {
            return true;
        };
        let Some(position) = player.cursor.position() else { return true };
        let (end, mut rest) = (channel.log.message_end(position), Vec::new());
        if end - position > ANSWER_BYTES_MAX as u64 {
            return false;
        }
        channel.log.copy(position, end, &mut rest);
        pending.owed += rest.len();
        pending.bytes.splice(0..0, rest);
        true
    }

    /// How many bytes there are that a player has yet to get.
    pub(crate) fn lag_bytes(&self, player: &Player) -> u64 {
        let channel = self.streams[player.stream].channels[player.format as usize].as_ref();
        channel.map_or(0, |channel| player.cursor.lag_bytes(&channel.log))
    }

    /// When a player is due next, at the earliest.
    pub(crate) fn next_due_ms(&self) -> u64 {
        self.timers.next().unwrap_or(u64::MAX)
    }

    /// The connection of the next player whose time has come.
    pub(crate) fn next_due(&mut self, now_ms: u64) -> Option<ConnId> {
        loop {
            while let Some(player) = self.due.pop() {
                if let Some(player) = self.players.get(player) {
                    return Some(player.conn);
                }
            }
            let (due_ms, (stream, format)) = self.timers.pop(now_ms)?;
            let Some(local) = self.streams.get_mut(stream) else { continue };
            let messages_max = u64::from(local.settings.merge_messages);
            let Some(channel) = local.channels[format].as_mut() else { continue };
            if channel.armed_ms.take_if(|armed_ms| *armed_ms == due_ms).is_none() {
                continue;
            }
            let log_end = channel.log_end();
            let next_ms = match channel.schedule.take_due(now_ms, log_end, messages_max) {
                // Once these are served, the next slot may be due as well.
                Some(slot) => {
                    self.due.extend(channel.schedule.players(slot).iter().rev());
                    Some(due_ms)
                }
                None => channel.schedule.next_due(log_end),
            };
            if let Some(next_ms) = next_ms {
                self.timers.set((stream, format), &mut channel.armed_ms, next_ms);
            }
        }
    }

    /// The same for a player by RTSP that gets packets which are taken out of what others get as it is: in
    /// datagrams, or fewer of them.
    pub(crate) fn serve_apart(
        &mut self,
        ctx: &mut Context,
        id: PlayerId,
        session: &mut Session,
        written: &mut Written,
    ) -> Result<(), EndReason> {
        session.write_pending(ctx.now_ms, written)?;
        let Some(player) = self.players.get_mut(id) else { return Ok(()) };
        let stream = &self.streams[player.stream];
        let Some(channel) = &stream.channels[player.format as usize] else { return Ok(()) };
        if let Some(refusal) = channel.refusal() {
            return Err(EndReason::NotCarried(refusal));
        }
        let log = &channel.log;
        loop {
            let action = player.cursor.review(log, &stream.queue_limits, ctx.now_ms);
            written.dropped = player.cursor.dropped();
            let (PlayerAction::Send(end) | PlayerAction::Begin(end)) = action else {
                let reason = match action {
                    PlayerAction::Stalled => EndReason::Stalled,
                    PlayerAction::TooFarBehind => EndReason::TooFarBehind,
                    _ => break,
                };
                ctx.counters.slow_disconnects += 1;
                return Err(reason);
            };
            player.begun = true;
            let State::Rtsp(link) = &mut session.state else { return Ok(()) };
            let position = player.cursor.position().unwrap_or(log.head());
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            if let (PlayerAction::Begin(_), Some(rtp)) = (action, &channel.rtp) {
                let mut start = Vec::new();
                let time_ms = log.entry().map_or(0, |(_, mark)| mark.time_ms);
                rtp.write_start(ctx.now, time_ms, &mut start);
                link.take(&[IoSlice::new(&start)], &mut session.pending.bytes);
            }
            let before = session.pending.bytes.len();
            let (count, offered) = log.slices(position, end, &mut slices);
            if offered == 0 || !link.has_room(session.pending.len()) {
                break;
            }
            link.take(&slices[..count], &mut session.pending.bytes);
            // That media wait is not the peer's doing.
            session.pending.owed += session.pending.bytes.len() - before;
            written.writes += 1;
            session.written_ms = ctx.now_ms;
            written.messages += player.cursor.advance(log, offered as u64, ctx.now_ms);
        }
        session.write_pending(ctx.now_ms, written)
    }

    /// Writes to a player what its queue holds. An error is why it is to be disconnected.
    pub(crate) fn serve(
        &mut self,
        ctx: &mut Context,
        id: PlayerId,
        session: &mut Session,
        written: &mut Written,
    ) -> Result<(), EndReason> {
        let Some(player) = self.players.get_mut(id) else { return Ok(()) };
        let stream = &self.streams[player.stream];
        let now_ms = ctx.now_ms;
        let mut output = match (&mut session.connection, &mut session.state) {
            (Some(connection), _) => Output::Connection(connection),
            (None, State::Srt(link)) => Output::Srt(link),
            (None, _) => return Ok(()),
        };
        let Some(channel) = &stream.channels[player.format as usize] else { return Ok(()) };
        let log = &channel.log;
        if let Some(refusal) = channel.refusal() {
            return Err(EndReason::NotCarried(refusal));
        }
        loop {
            let action = player.cursor.review(log, &stream.queue_limits, now_ms);
            written.dropped = player.cursor.dropped();
            let mut end = match action {
                // It takes no bytes, so it cannot be sent the reason either.
                PlayerAction::Stalled => {
                    ctx.counters.slow_disconnects += 1;
                    return Err(EndReason::Stalled);
                }
                PlayerAction::TooFarBehind => {
                    ctx.counters.slow_disconnects += 1;
                    return Err(EndReason::TooFarBehind);
                }
                PlayerAction::Idle => None,
                PlayerAction::Send(end) | PlayerAction::Begin(end) => {
                    let begins_again = std::mem::replace(&mut player.begun, true);
                    if !begins_again {
                        let (format, out) = (player.format, &mut session.pending.bytes);
                        if let Some(body) = format.http_body() {
                            let origin = ctx.settings.cors_allow_origin.as_deref();
                            let fields = http::common_fields(origin, false);
                            http::write_stream_head(out, body, &fields);
                        }
                        if format != Format::Rtmp && format.is_flv() {
                            write_file_header(format, out, &stream.delivery);
                        }
                    }
                    if matches!(action, PlayerAction::Begin(_)) {
                        let time_ms = log.entry().map_or(0, |(_, mark)| mark.time_ms);
                        if let Some(rtp) = &channel.rtp {
                            rtp.write_start(ctx.now, time_ms, &mut session.pending.bytes);
                        }
                        channel.write_headers(
                            &mut session.pending.bytes,
                            &stream.delivery,
                            time_ms,
                            begins_again,
                        );
                    }
                    Some(end)
                }
            };
            if session.blocked {
                return Ok(());
            }
            let position = player.cursor.position().unwrap_or(log.head());
            let private = session.pending.len() > 0;
            // Private bytes go between two messages: the one that has been begun is finished first.
            let private_first =
                session.pending.is_partly_sent() || !private || !player.cursor.is_inside_message(log);
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
                session.blocked = !output.flush().map_err(|_| EndReason::ConnectionFailed)?;
                return Ok(());
            }
            written.writes += 1;
            let bytes = match output.write(ctx.now, slices) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    (session.blocked, session.written_ms) = (true, now_ms);
                    return Ok(());
                }
                Err(_) => return Err(EndReason::ConnectionFailed),
            };
            written.bytes += bytes as u64;
            session.written_ms = now_ms;
            let shared = if first == 1 { session.pending.advance(bytes) } else { bytes };
            written.messages += player.cursor.advance(log, shared as u64, now_ms);
            // TLS takes only so much at a time; a plain socket that takes less than offered is full.
            session.blocked = bytes < offered && !output.is_tls();
            let more = session.pending.len() > 0 || player.cursor.lag_bytes(log) > 0;
            if session.blocked || !more {
                session.blocked |= output.holds_ciphertext();
                return Ok(());
            }
        }
    }
}
