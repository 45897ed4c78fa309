//! Frames in: publishers on this worker, and streams whose home is another one.

use std::sync::Arc;

use delivery::Received;
use media::config::{audio_format, audio_frame_format, video_format};
use media::{Codec, CodecConfig, Frame, FrameRole, MediaKind};
use rtmp::MediaMessage;
use rtmp::flv::{TagBody, read_frames};

use crate::event_loop::Worker;
use crate::frames::stream::{Channel, Format, LocalStream};
use crate::ids::{ConnId, FrameStreamId};
use crate::mailbox::{MessageBody, WorkerMessage};
use crate::proto::session::{Media, Publish};
use crate::publication::Source;
use crate::registry::{Claim, Lane};
use crate::stats::columns::frames_reference;
use worker_api::EndReason;
use worker_api::auth::Denied;
use worker_api::settings::SecondPublisher;
use worker_api::snapshot::Role;

/// What a publisher shows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Credential<'a> {
    /// A client's token, if it has one.
    Token(Option<&'a str>),
    /// It is a part of this server: the rules are for clients. It never takes a stream over, so that it
    /// cannot fight with a client about one.
    Own,
}

/// Why a publisher is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishRefusal {
    /// By the rules of authorisation.
    Denied(Denied),
    /// The stream has a publisher, and newcomers are refused.
    Taken,
    /// The server is shutting down.
    Draining,
}

impl PublishRefusal {
    /// For the publisher and the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Denied(denied) => denied.reason(),
            Self::Taken => "the stream is already being published",
            Self::Draining => EndReason::Draining.text(),
        }
    }
}

impl Worker {
    /// Makes the session the publisher of a stream.
    pub(crate) fn publish(
        &mut self,
        conn: ConnId,
        (app, name): (&str, &str),
        credential: Credential<'_>,
    ) -> Result<(), PublishRefusal> {
        let session = &self.sessions[conn];
        let (id, address) = (session.id, session.address);
        let key = format!("{app}/{name}");
        let claim = self.claim(&key, (app, name), credential, address).inspect_err(|refusal| {
            let reason = refusal.reason();
            match credential {
                // It is told, and says so itself, with its name.
                Credential::Own => {
                    tracing::debug!(session = %id, stream = key, reason, "source of this server refused");
                }
                Credential::Token(_) => {
                    tracing::info!(session = %id, %address, stream = key, reason, "publisher refused");
                }
            }
        })?;
        let stream = self.start_publication(&claim, (app, name), conn);
        self.sessions[conn].media = Media::Publish(Publish { stream, epoch: claim.epoch, read_at_ms: None });
        self.columns.takes_role(conn, Role::Publisher, frames_reference(stream));
        self.update_read_interest(stream);
        tracing::info!(session = %id, %address, stream = key, "publisher started");
        // Where bridges are off this is known before anything has come.
        self.describe_as_packets(stream);
        if claim.bridged.is_empty() {
            self.bridge_to_packets_if_wanted(claim.id);
        } else {
            self.bridge_to_packets(claim.id);
        }
        Ok(())
    }

    fn claim(
        &mut self,
        key: &str,
        (app, name): (&str, &str),
        credential: Credential<'_>,
        address: std::net::SocketAddr,
    ) -> Result<Claim, PublishRefusal> {
        if self.ctx.draining_until.is_some() {
            return Err(PublishRefusal::Draining);
        }
        let take_over = match credential {
            Credential::Own => false,
            Credential::Token(token) => {
                if let Err(denied) = self.ctx.policy.may_publish(app, name, token, address.ip()) {
                    self.ctx.counters.unauthorized += 1;
                    return Err(PublishRefusal::Denied(denied));
                }
                let settings = self.ctx.settings_for(app);
                settings.second_publisher == SecondPublisher::TakeOver
            }
        };
        self.ctx.directory.claim(key, self.ctx.worker, take_over, None).map_err(|_| PublishRefusal::Taken)
    }

    /// A media message of the publishing session.
    pub(crate) fn receive_message(&mut self, conn: ConnId, message: MediaMessage) {
        if !matches!(self.sessions[conn].media, Media::Publish(_)) {
            return;
        }
        self.ctx.counters.frames_in += 1;
        self.columns.passed(conn, 1);
        // A message nobody can make sense of is not worth a publisher's session: leave it out.
        let Ok((first, others)) = read_frames(message) else {
            self.ctx.counters.frames_invalid += 1;
            return;
        };
        for frame in std::iter::once(first).chain(others) {
            self.receive_frame(conn, Arc::new(frame));
        }
    }

    /// A frame of the publishing session.
    pub(crate) fn receive_frame(&mut self, conn: ConnId, frame: Arc<Frame>) {
        let Media::Publish(Publish { stream, .. }) = self.sessions[conn].media else { return };
        let is_header = matches!(frame.role, FrameRole::Config | FrameRole::Metadata);
        if is_header && frame.bytes() > HEADER_BYTES_MAX {
            self.ctx.counters.frames_invalid += 1;
            return;
        }
        let received = self.fan_out(stream, &frame);
        let local = &mut self.streams.slab[stream];
        // What players have already, or need not know, a bridge may need.
        let is_for_bridges = matches!(frame.role, FrameRole::Config | FrameRole::End);
        let repeated = is_for_bridges.then_some(local.relay.timeline_head());
        let Some(time) = received.map(|received| received.time).or(repeated) else { return };
        let bridge = local.publication.bridge;
        // Headers say what there is; without one, the first frame, or the first key frame where the header
        // says nothing; and B-frames, what can be done about them.
        let news = frame.role == FrameRole::Config && received.is_some()
            || frame.role == FrameRole::End
            || local.is_undescribed(&frame)
            || frame.role == FrameRole::Key && local.describe_at_ms.is_some()
            || local.has_shown_order(&frame);
        if let Some(bridge) = bridge {
            self.bridge_frame(bridge, time, &frame);
        } else if news {
            self.describe_as_packets(stream);
        }
    }

    /// Hands a frame that has come in here, from a publisher or a bridge, to other workers and the players of
    /// this one.
    pub(crate) fn fan_out(&mut self, stream: FrameStreamId, frame: &Arc<Frame>) -> Option<Received> {
        let local = &mut self.streams.slab[stream];
        note_format(local, frame);
        let Source { epoch, .. } = local.publication.source?;
        let id = local.publication.id;
        for remote in &mut local.publication.remotes {
            let body = MessageBody::Frame { frame: Arc::clone(frame), after_loss: remote.lost };
            let message = WorkerMessage { stream: id, epoch, lane: Lane::Frames, body };
            remote.lost = !self.ctx.mailboxes.try_send(remote.worker, message);
            self.ctx.counters.ring_drops += u64::from(remote.lost);
        }
        self.deliver(stream, frame)
    }

    /// Hands a frame to the players of this worker.
    pub(crate) fn deliver(&mut self, stream: FrameStreamId, frame: &Arc<Frame>) -> Option<Received> {
        let received = self.streams.slab[stream].relay.receive(self.ctx.now_ms, frame)?;
        // Every wire format is FLV, or carries the same bodies.
        let Some(body) = TagBody::of(frame) else { return Some(received) };
        let now_ms = self.ctx.now_ms;
        for format in 0..Format::COUNT {
            let local = &self.streams.slab[stream];
            let Some(channel) = &local.channels[format] else { continue };
            let messages_max = u64::from(local.settings.merge_messages);
            let rolls = channel.log.rolls(Channel::bytes_hint(&body));
            let keep_from = rolls.then(|| self.oldest_needed(stream, channel));
            let Some(channel) = self.channel_mut(stream, format) else { continue };
            if let Some(keep_from) = keep_from {
                channel.log.evict(keep_from);
            }
            channel.append(frame, &body, received, now_ms);
            self.arm(stream, format, messages_max);
        }
        Some(received)
    }

    /// Position in the log from which on bytes are still needed, by players or for new ones.
    fn oldest_needed(&self, stream: FrameStreamId, channel: &Channel) -> u64 {
        let relay = &self.streams.slab[stream].relay;
        let for_new_players = relay.gop().frames().len() > 0;
        let entry = channel.log.entry().filter(|_| for_new_players).map(|(_, mark)| mark.position);
        let players = channel.schedule.all_players();
        let positions =
            players.filter_map(|player| self.sessions.get(ConnId(player.0))?.play()?.cursor.position());
        positions.chain(entry).min().unwrap_or(channel.log.head())
    }
}

/// Remembers what the publisher sends, for those who ask: of several tracks of a kind, the first.
fn note_format(local: &mut LocalStream, frame: &Frame) {
    let (kind, codec, data) = (frame.track.kind, frame.codec, frame.data());
    let is_known = match kind {
        MediaKind::Video => local.video.is_some(),
        MediaKind::Audio => local.audio.is_some(),
        MediaKind::Data => true,
    };
    if is_known && !matches!(frame.role, FrameRole::Config | FrameRole::End) {
        return;
    }
    let is_other = |config: &Arc<Frame>| config.track != frame.track;
    if local.relay.headers().first_config(kind).is_some_and(is_other) {
        return;
    }
    let is_config = frame.role == FrameRole::Config;
    if frame.role == FrameRole::End {
        return local.track_ended(kind);
    }
    match kind {
        MediaKind::Video if is_config => local.video = Some((codec, video_format(codec, data))),
        MediaKind::Video if codec != Codec::None => local.video = Some((codec, None)),
        MediaKind::Audio if is_config => local.audio = Some((codec, audio_format(codec, data))),
        MediaKind::Audio if codec != Codec::None => {
            let told = CodecConfig { channels: frame.channels, ..CodecConfig::new(codec, Vec::new()) };
            let format = told.audio_format().or_else(|| audio_frame_format(codec, data));
            local.audio = Some((codec, format));
        }
        _ => {}
    }
}

/// Largest header frame, bytes. Each new player gets a copy of its own; real ones have a few hundred bytes.
const HEADER_BYTES_MAX: usize = 64 << 10;
