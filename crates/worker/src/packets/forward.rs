//! Packets out: what came in since the last time, to every viewer of its stream.
//!
//! Audio goes first. Video waits for the end of the turn, when the audio has left, and leaves in slices if
//! there is much of it (`video_queue.rs`): a key frame to thousands takes longer than audio may wait. The
//! order is viewer by viewer, so that one viewer's packets of a frame stand next to each other and leave as
//! one run. Per packet and viewer this is a header of some twenty bytes and one pass of the cipher from
//! the packet cache straight into the datagram: no look-up by name, no allocation, and no copy, except
//! where a change of layers has shifted picture ids. In counter mode the tag comes later, computed side
//! by side with those of other packets (`net/udp_port.rs`).
//!
//! A viewer whose path has no room for its video falls behind: the rest comes from the packet cache
//! (`send_backlogs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use congestion::Kind;
use rtp::payload::MediaKind;
use sfu::{HEADER_LEN_MAX, Outlet, Pacer, REPAIR_LEN_MAX, Resend};
use srtp::{OutboundContext, Plaintext, ProtectError};

use super::session::{Route, SendTransport};
use super::streams::Streams;
use super::{Action, Due, Packets, TIMER_MIN};
use crate::context::Context;
use crate::ids::{PacketStreamId, PeerId, PortId, Table, TableId};
use crate::mailbox::{MessageBody, WorkerMessage};
use crate::net::ice_tcp::TcpPeers;
use crate::net::udp_port::{Heading, SendCounters, TagSlot, UdpPort};
use crate::registry::{Lane, Origin};
use crate::stats::columns::Columns;
use worker_api::EndReason;

/// Bytes a packet grows by at most when it is protected: the tag of AES-GCM (RFC 7714 section 5).
const TAG_BYTES_MAX: usize = 16;
/// The same for RTCP, with its index (RFC 3711 section 3.4).
const RTCP_TRAILER_BYTES_MAX: usize = TAG_BYTES_MAX + 4;
/// How long the timer of a stream with viewers with a backlog may wait while it is queued for them.
const BACKLOG_QUEUED_MAX: Duration = Duration::from_millis(5);

/// What becomes of packets while the kernel has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoRoom {
    /// They are made, and wait at the port as long as that has room: audio.
    Try,
    /// They are not made yet. Video waits here, where it is known what replaces it, and not behind what the
    /// kernel does not take. What came before this (`None`: nothing) has waited for too long and is dropped:
    /// viewers go on with what is new.
    WaitUnlessBefore(Option<Instant>),
}

/// The send transports of all sessions that are connected.
#[derive(Default)]
pub(super) struct SendTransports(Vec<Option<SendTransport>>);

impl SendTransports {
    /// That of a session.
    pub(super) fn get(&self, peer: PeerId) -> Option<&SendTransport> {
        self.0.get(peer.index())?.as_ref()
    }

    /// That of a session.
    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut SendTransport> {
        self.0.get_mut(peer.index())?.as_mut()
    }

    /// Sets that of a session.
    pub(super) fn set(&mut self, peer: PeerId, transport: Option<SendTransport>) {
        if self.0.len() <= peer.index() {
            self.0.resize_with(peer.index() + 1, || None);
        }
        self.0[peer.index()] = transport;
    }
}

/// The sockets of sessions: ports, and connections of those without UDP.
pub(super) struct Sockets {
    pub(super) ports: Table<PortId, UdpPort>,
    pub(super) tcp: TcpPeers,
    pub(super) sent: SendCounters,
}

impl Sockets {
    /// Whether the kernel has no room at any port that is in use, and no session has a connection.
    fn are_all_blocked(&self) -> bool {
        let mut in_use = self.ports.iter().filter(|(_, port)| !port.peers.is_empty()).peekable();
        !self.tcp.has_sessions() && in_use.peek().is_some() && in_use.all(|(_, port)| port.is_blocked())
    }

    /// Tells the congestion control of a viewer with a TCP connection how that is.
    #[inline]
    fn tell_socket(&self, transport: &mut SendTransport, now: Instant) {
        if let (Route::Tcp { connection, .. }, Some(pacer)) = (transport.route, &mut transport.pacer)
            && let Some((waiting, taken)) = self.tcp.backlog(connection)
        {
            pacer.socket(now, waiting, taken);
        }
    }

    /// Protects and sends an RTP packet of this kind and of up to `len_max` bytes. `plaintext` says where it
    /// is, or writes it to the place that it is sent from. Its length, if there is one now.
    #[inline]
    pub(super) fn send_rtp<'a>(
        &mut self,
        transport: &mut SendTransport,
        now_ms: u64,
        kind: MediaKind,
        len_max: usize,
        plaintext: impl FnOnce(&mut [u8]) -> Option<Plaintext<'a>>,
    ) -> Option<usize> {
        let made = self.send(transport, now_ms, kind, len_max + TAG_BYTES_MAX, |outbound, out, tag| {
            let plaintext = plaintext(out)?;
            Some(match (tag, plaintext) {
                (Some(tag), plaintext) => outbound.protect_rtp_later(plaintext, out, tag.queue, tag.datagram),
                (None, Plaintext::From { header, payload }) => {
                    outbound.protect_rtp_from(header, payload, out)
                }
                (None, Plaintext::InPlace { len }) => outbound.protect_rtp(out, len),
            })
        });
        self.sent.rtp_packets += u64::from(made.is_some());
        made
    }

    /// The same for a packet of `len` bytes that was sent before, which `write` writes as it was then: it
    /// gets the index that it had.
    fn send_rtp_again(
        &mut self,
        transport: &mut SendTransport,
        now_ms: u64,
        kind: MediaKind,
        len: usize,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        let made = self.send(transport, now_ms, kind, len + TAG_BYTES_MAX, |outbound, out, _| {
            let len = write(out)?;
            Some(outbound.protect_rtp_again(out, len))
        });
        self.sent.rtp_packets += u64::from(made.is_some());
        made
    }

    /// Lets `write` protect a packet of up to `len_max` bytes in the place that it is sent from. Its length,
    /// if there is one now: `write` may have none.
    #[inline]
    fn send(
        &mut self,
        transport: &mut SendTransport,
        now_ms: u64,
        kind: MediaKind,
        len_max: usize,
        write: impl FnOnce(
            &mut OutboundContext,
            &mut [u8],
            Option<TagSlot<'_>>,
        ) -> Option<Result<usize, ProtectError>>,
    ) -> Option<usize> {
        if transport.paused {
            self.sent.paused += 1;
            tracing::trace!("packet not sent: the session has no path");
            return None;
        }
        let (outbound, mut unprotected) = (&mut transport.outbound, None);
        let protect = |out: &mut [u8], tag: Option<TagSlot<'_>>| {
            write(outbound, out, tag)?.map_err(|error| unprotected = Some(error)).ok()
        };
        let len = match transport.route {
            Route::Udp { port, remote } => {
                let is_ect = transport.pacer.as_ref().is_some_and(|pacer| pacer.sends_ect());
                let heading = Heading::new(remote, kind).with_ect(is_ect);
                let sent = &mut self.sent;
                self.ports[port].datagram(heading, len_max, now_ms, sent, |out, tag| protect(out, Some(tag)))
            }
            Route::Tcp { connection, path } => {
                let len = self.tcp.datagram(connection, &path, len_max, |out| protect(out, None));
                self.sent.packets += u64::from(len.is_some());
                len
            }
        };
        let Some(len) = len else {
            if let Some(error) = unprotected {
                self.sent.unprotected += 1;
                tracing::trace!(%error, "packet not sent: it cannot be encrypted");
            }
            return None;
        };
        self.sent.bytes += len as u64;
        Some(len)
    }
}

impl Streams {
    /// The stream has something to forward. Streams wait in a queue until a receive batch has been taken in:
    /// a batch costs little more than a packet, since viewers are walked once and equal datagrams leave as
    /// one.
    pub(crate) fn mark_dirty(&mut self, stream: PacketStreamId) {
        if let Some(entry) = self.table.get_mut(stream)
            && !std::mem::replace(&mut entry.queued, true)
        {
            self.dirty.push(stream);
        }
    }
}

impl Packets {
    /// Hands on what came in since the last time and sends its audio; its video is queued for
    /// [`Packets::send_video`]. A defect that makes a stream panic ends that stream's sessions.
    pub(crate) fn forward(&mut self, ctx: &mut Context) {
        if self.is_frozen {
            return;
        }
        while let Some(stream) = self.streams.dirty.pop() {
            self.guard_stream(ctx, stream, |packets, ctx| packets.forward_stream(ctx, stream));
        }
    }

    fn forward_stream(&mut self, ctx: &mut Context, id: PacketStreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.queued = false;
        // Before the packets: a mirror has to know what they are of.
        stream.exchange_layers(ctx, &mut self.actions);
        let (publication, is_served, relayed) = (&stream.publication, stream.is_served, &stream.relayed);
        let (from, relayed_from) = (self.actions.packets.len(), self.actions.relayed.len());
        stream.sfu.take_arrivals(|packet, outputs| {
            let remotes = publication.remotes.iter().zip(publication.source.iter().cycle());
            for (remote, source) in remotes {
                let Some(outputs) = remote.wants(packet.track()).of(packet, outputs) else { continue };
                let body = MessageBody::Packet { packet: Arc::clone(packet), outputs };
                let message =
                    WorkerMessage { stream: publication.id, epoch: source.epoch, lane: Lane::Packets, body };
                if !ctx.mailboxes.try_send(remote.worker, message, ctx.now_ms) {
                    self.counters.ring_drops += 1;
                    tracing::trace!(
                        worker = remote.worker.0,
                        "packet dropped: the other worker's ring is full"
                    );
                }
            }
            if outputs.is_main && publication.bridge.is_some() {
                self.actions.packets.push(Arc::clone(packet));
            }
            if is_served {
                let of_track = relayed.iter().find(|(track, _)| *track == packet.track());
                let in_encoding = match of_track {
                    Some((_, set)) if set.has(packet.encoding()) => outputs.in_encoding,
                    _ => None,
                };
                if in_encoding.is_some() || of_track.is_none() && outputs.is_main {
                    self.actions.relayed.push((Arc::clone(packet), in_encoding));
                }
            }
        });
        // Other nodes first: packets to them wait for nothing else.
        let packets = relayed_from..self.actions.relayed.len();
        if !packets.is_empty() {
            self.actions.queue.push_back(Action::Serve { stream: publication.id, packets });
        }
        let packets = from..self.actions.packets.len();
        if let Some(bridge) = publication.bridge.filter(|_| !packets.is_empty()) {
            self.actions.queue.push_back(Action::Bridge { bridge, packets });
        }
        let mut all = usize::MAX;
        self.send_batch(ctx, id, MediaKind::Audio, &mut all, NoRoom::Try);
        let Some(stream) = self.streams.get_mut(id) else { return };
        self.video.push(id, stream);
        // Viewers with a backlog are served when it is their turn; until then they are due all the time.
        let soonest = if stream.backlog_queued { ctx.now + BACKLOG_QUEUED_MAX } else { ctx.now };
        let due = stream.sfu.next_timeout().map(|due| due.max(soonest));
        self.set_stream_timer(id, due, ctx.now);
    }

    /// Sends a slice of the video that waits: what is due first, until so many datagrams are made that the
    /// loop has to look at its sockets again. What is left is for the next turn. Audio leaves before: in one
    /// flush with video, which goes recipient by recipient, it would wait for the video of others.
    pub(crate) fn send_video(&mut self, ctx: &mut Context) {
        if self.video.is_empty() || self.is_frozen {
            return;
        }
        self.flush(ctx);
        let (mut left, for_backlog) = self.video.slice(ctx.now);
        // What viewers begin with counts as sent once it is made.
        let is_blocked = self.sockets.are_all_blocked();
        if !is_blocked {
            left -= self.send_backlogs(ctx, for_backlog);
        }
        let mut waiting = Vec::new();
        while left > 0
            && let Some((due, id)) = self.video.pop()
        {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            if stream.video_due.take_if(|set| *set == due).is_none() {
                continue;
            }
            // A batch that was given up meanwhile is not the one that was queued.
            if let Some(before) = self.video.useless_before(stream, ctx.now) {
                stream.sfu.drop_late(MediaKind::Video, before);
                self.video.push(id, stream);
                continue;
            }
            let no_room = NoRoom::WaitUnlessBefore(self.video.late_before(stream, ctx.now));
            let mut waits = false;
            self.guard_stream(ctx, id, |packets, ctx| {
                waits = packets.send_batch(ctx, id, MediaKind::Video, &mut left, no_room);
            });
            match self.streams.get_mut(id) {
                Some(_) if waits => waiting.push(id),
                Some(stream) => self.video.push(id, stream),
                None => {}
            }
        }
        // Viewers with a backlog are left for the next turn because it was their share, or because nobody has
        // room.
        let goes_on = left == 0 || self.video.has_backlog() && !is_blocked;
        self.video.waits_for_room = !goes_on && (!waiting.is_empty() || self.video.has_backlog());
        for id in waiting {
            if let Some(stream) = self.streams.get_mut(id) {
                self.video.push(id, stream);
            }
        }
        self.counters.video_left += u64::from(!self.video.is_empty());
    }

    /// Sends viewers that join or have fallen behind at most `most` packets from the cache. How many
    /// that were.
    fn send_backlogs(&mut self, ctx: &mut Context, most: usize) -> usize {
        let mut left = most;
        while left > 0
            && let Some(id) = self.video.pop_backlog()
        {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            stream.backlog_queued = false;
            self.guard_stream(ctx, id, |packets, ctx| left -= packets.send_backlog(ctx, id, left));
            let Some(stream) = self.streams.get_mut(id) else { continue };
            if left == 0 && stream.sfu.has_backlog() {
                self.video.push_backlog(id, stream);
            } else {
                let due = stream.sfu.next_timeout();
                self.set_stream_timer(id, due, ctx.now);
            }
        }
        most - left
    }

    /// The same for those of one stream.
    fn send_backlog(&mut self, ctx: &Context, id: PacketStreamId, most: usize) -> usize {
        let Some(stream) = self.streams.get_mut(id) else { return 0 };
        stream.note_others();
        let mut outlet = SessionOutlet {
            sockets: &mut self.sockets,
            transports: &mut self.transports,
            columns: &mut self.columns,
            now: ctx.now,
            now_ms: ctx.now_ms,
        };
        let sent = stream.sfu.send_backlog(ctx.now, most, &mut outlet);
        self.counters.packets_resent += stream.sfu.take_repeats_sent();
        sent
    }

    /// Sends audio or video of a stream to one viewer after the other, until all have had their turn or no
    /// datagrams are left of `left`. True if some have to wait for room in the kernel: viewers at other ports
    /// do not wait with them, and go on with what comes next.
    ///
    /// It ends between two viewers only, so that one viewer's packets of a frame stay together.
    fn send_batch(
        &mut self,
        ctx: &Context,
        id: PacketStreamId,
        kind: MediaKind,
        left: &mut usize,
        no_room: NoRoom,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(id) else { return false };
        if stream.sfu.waiting(kind).is_none() {
            return false;
        }
        let (now, now_ms) = (ctx.now, ctx.now_ms);
        let sent_as = if kind == MediaKind::Audio { Kind::Audio } else { Kind::Video };
        let mut header = [0; HEADER_LEN_MAX];
        let mut batch = stream.sfu.prepare_batch(kind);
        while *left > 0 {
            let Some((viewer, packets)) = batch.next_viewer() else { return stream.sfu.finish_batch(kind) };
            let peer = PeerId(viewer.token() as u32);
            let Some(transport) = self.transports.get_mut(peer).filter(|transport| !transport.paused) else {
                let packets = viewer.takes(packets);
                self.sockets.sent.paused += packets as u64;
                tracing::trace!(?peer, packets, "packets dropped: the viewer's path is paused");
                continue;
            };
            if let Route::Udp { port, .. } = transport.route
                && let NoRoom::WaitUnlessBefore(before) = no_room
                && !self.sockets.ports[port].has_room(packets.len(), now_ms, &mut self.sockets.sent)
            {
                if packets.since() >= before {
                    batch.put_off();
                    if self.sockets.are_all_blocked() {
                        return true;
                    }
                    continue;
                }
                let packets = viewer.takes(packets);
                self.sockets.sent.dropped += packets as u64;
                self.sockets.sent.unmade += packets as u64;
                self.sockets.sent.no_room[kind as usize] += packets as u64;
                tracing::trace!(?peer, packets, "packets dropped: no room for too long");
                continue;
            }
            self.sockets.tell_socket(transport, now);
            // How much its path takes now. Audio waits for nothing.
            let room = match &mut transport.pacer {
                Some(pacer) if pacer.is_stopped() && kind == MediaKind::Audio => {
                    let packets = viewer.takes(packets);
                    self.sockets.sent.paused += packets as u64;
                    tracing::trace!(
                        ?peer,
                        packets,
                        "packets dropped: the viewer has not reported for too long"
                    );
                    continue;
                }
                Some(pacer) if kind == MediaKind::Video => pacer.room(now) as u64,
                _ => u64::MAX,
            };
            *left = left.saturating_sub(packets.len());
            let (mut sent, mut bytes, mut behind_from, mut has_repairs) = (0, 0, None, false);
            for at in 0..packets.len() {
                if bytes >= room && behind_from.is_none() {
                    behind_from = Some(at);
                }
                // What cannot come from the cache later goes now.
                if behind_from.is_some() && !packets.is_late(at) {
                    continue;
                }
                // `None` for a track that the viewer does not take or has not begun with.
                let pacer = transport.pacer.as_deref_mut();
                let Some(len) = viewer.header_for(packets, at, pacer, &mut header) else { continue };
                let (header, payload) = (&header[..len], viewer.payload(packets, at));
                let shift = viewer.payload_shift(packets, at);
                let made = self.sockets.send_rtp(transport, now_ms, kind, len + payload.len(), |out| {
                    let Some(shift) = shift else { return Some(Plaintext::From { header, payload }) };
                    // Numbers of pictures in it go on for a viewer that has changed layers.
                    let len = len + payload.len();
                    let (to_header, to_payload) = out.get_mut(..len)?.split_at_mut(header.len());
                    to_header.copy_from_slice(header);
                    to_payload.copy_from_slice(payload);
                    shift.apply(to_payload);
                    Some(Plaintext::InPlace { len })
                });
                let Some(len) = made else { continue };
                // Not where numbers of pictures were changed: the viewer has other bytes than the cache.
                has_repairs |= shift.is_none() && viewer.protect(now, packets, at, header);
                (sent, bytes) = (sent + 1, bytes + len as u64);
                if let Some(pacer) = &mut transport.pacer {
                    pacer.sent(now, len, sent_as);
                }
            }
            let mut repair = [0; REPAIR_LEN_MAX];
            while has_repairs
                && let Some((header, len)) =
                    viewer.poll_repair(packets, transport.pacer.as_deref_mut(), &mut repair)
            {
                let (header, payload) = repair[..len].split_at(header);
                let made = self
                    .sockets
                    .send_rtp(transport, now_ms, kind, len, |_| Some(Plaintext::From { header, payload }));
                let Some(len) = made else { continue };
                bytes += len as u64;
                if let Some(pacer) = &mut transport.pacer {
                    pacer.sent(now, len, Kind::Repeat);
                }
            }
            self.columns.sent(peer, bytes);
            self.columns.passed(peer, sent);
            if let Some(at) = behind_from {
                batch.fall_behind(at);
            }
        }
        false
    }

    /// A stream wants to be asked at `due`.
    pub(crate) fn set_stream_timer(&mut self, id: PacketStreamId, due: Option<Instant>, now: Instant) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if let Some(due) = due {
            self.timers.set(Due::Stream(id), &mut stream.due, due.max(now + TIMER_MIN));
        }
    }

    /// The stream's timer: feedback to its publisher, reports to its viewers, and what new viewers still have
    /// to get.
    pub(super) fn stream_due(&mut self, ctx: &mut Context, id: PacketStreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let publisher = stream.publication.peer();
        loop {
            self.scratch.clear();
            if !stream.sfu.poll_feedback(ctx.now, &mut self.scratch) {
                break;
            }
            if let Some(peer) = publisher
                && let Some(transport) = self.transports.get_mut(peer)
            {
                let len = send_rtcp(&mut self.sockets, transport, &self.scratch, ctx.now_ms);
                self.columns.sent(peer, len);
            }
        }
        stream.sfu.send_reports(ctx.now, |token, report| {
            let peer = PeerId(token as u32);
            if let Some(transport) = self.transports.get_mut(peer) {
                self.columns.sent(peer, send_rtcp(&mut self.sockets, transport, report, ctx.now_ms));
            }
        });
        // Viewers that cannot go on without a key frame, of a mirror or of another node's stream: the home,
        // or the other node, has to ask for it.
        while let Some(request) = stream.sfu.poll_key_frame_request(ctx.now) {
            if stream.publication.source.is_some_and(|source| source.origin == Origin::Node) {
                let (stream, track, encoding) = (stream.publication.id, request.track, request.encoding);
                self.actions.queue.push_back(Action::KeyFrameWanted { stream, track, encoding });
                continue;
            }
            let home = ctx.directory.home(&stream.publication.key);
            if let Some((_, home)) = home.filter(|(_, home)| home.worker != ctx.worker) {
                let about = (stream.publication.id, home.epoch, Lane::Packets);
                ctx.send(home.worker, about, MessageBody::KeyFrameWanted(request));
            }
        }
        self.forward_stream(ctx, id);
    }

    /// Sends packets again that a viewer has missed: those in `resends`.
    pub(super) fn resend(&mut self, ctx: &Context, peer: PeerId) {
        if self.transports.get(peer).is_none() {
            self.counters.resends_refused += self.resends.len() as u64;
            tracing::trace!(
                ?peer,
                packets = self.resends.len(),
                "packets not resent: the viewer has no path"
            );
            return self.resends.clear();
        };
        let mut outlet = SessionOutlet {
            sockets: &mut self.sockets,
            transports: &mut self.transports,
            columns: &mut self.columns,
            now: ctx.now,
            now_ms: ctx.now_ms,
        };
        for mut resend in self.resends.drain(..) {
            let sent = sfu::send_again(&mut outlet, ctx.now, &mut resend, Kind::Repeat);
            self.counters.packets_resent += u64::from(sent > 0);
        }
    }

    /// Does something for a stream. A defect of ours that makes it panic ends that stream's sessions; others
    /// go on.
    pub(crate) fn guard_stream(
        &mut self,
        ctx: &mut Context,
        stream: PacketStreamId,
        work: impl FnOnce(&mut Self, &mut Context),
    ) {
        if catch_unwind(AssertUnwindSafe(|| work(self, ctx))).is_err() {
            self.stream_panicked(ctx, stream);
        }
    }

    /// A defect of ours, met by this stream's packets.
    pub(crate) fn stream_panicked(&mut self, ctx: &mut Context, id: PacketStreamId) {
        ctx.counters.panics += 1;
        let Some(stream) = self.streams.get(id) else { return };
        let key = &*stream.publication.key;
        tracing::error!(stream = key, "a defect in the server ended this stream's sessions");
        self.actions.queue.push_back(Action::StreamFailed(stream.publication.id));
        // What panicked is not asked again.
        self.reset_stream(id);
        let of_stream = |peer: &PeerId| self.sessions[*peer].streams().any(|stream| stream == id);
        let sessions = self.sessions.iter().map(|(peer, _)| peer);
        let sessions: Vec<PeerId> = sessions.filter(of_stream).collect();
        for peer in sessions {
            self.end(ctx, peer, EndReason::Defect);
        }
    }
}

/// The transports of sessions that play, for what is not sent live.
struct SessionOutlet<'a> {
    sockets: &'a mut Sockets,
    transports: &'a mut SendTransports,
    columns: &'a mut Columns,
    now: Instant,
    now_ms: u64,
}

impl Outlet for SessionOutlet<'_> {
    fn pacer(&mut self, viewer: u64) -> Option<&mut Pacer> {
        let transport = self.transports.get_mut(PeerId(viewer as u32))?;
        self.sockets.tell_socket(transport, self.now);
        transport.pacer.as_deref_mut()
    }

    fn send(&mut self, viewer: u64, kind: MediaKind, header: &[u8], payload: &[u8]) -> usize {
        let peer = PeerId(viewer as u32);
        let Some(transport) = self.transports.get_mut(peer) else {
            self.sockets.sent.paused += 1;
            tracing::trace!(?peer, "packet not sent: the viewer has no path");
            return 0;
        };
        let made = self.sockets.send_rtp(transport, self.now_ms, kind, header.len() + payload.len(), |_| {
            Some(Plaintext::From { header, payload })
        });
        self.columns.sent(peer, made.unwrap_or(0) as u64);
        self.columns.passed(peer, u64::from(made.is_some()));
        made.unwrap_or(0)
    }

    fn send_again(&mut self, packet: &Resend) -> usize {
        let peer = PeerId(packet.token() as u32);
        let Some(transport) = self.transports.get_mut(peer) else { return 0 };
        let (kind, len) = (packet.kind(), packet.packet_len());
        let made = if packet.is_same() {
            self.sockets.send_rtp_again(transport, self.now_ms, kind, len, |out| packet.write(out))
        } else {
            self.sockets.send_rtp(transport, self.now_ms, kind, len, |out| {
                Some(Plaintext::InPlace { len: packet.write(out)? })
            })
        };
        self.columns.sent(peer, made.unwrap_or(0) as u64);
        made.unwrap_or(0)
    }
}

/// Sends a compound RTCP packet. The bytes sent.
pub(super) fn send_rtcp(
    sockets: &mut Sockets,
    transport: &mut SendTransport,
    plain: &[u8],
    now_ms: u64,
) -> u64 {
    let len_max = plain.len() + RTCP_TRAILER_BYTES_MAX;
    let made = sockets.send(transport, now_ms, MediaKind::Data, len_max, |outbound, out, _| {
        Some(outbound.protect_rtcp_from(plain, out))
    });
    made.unwrap_or(0) as u64
}
