//! The sending half of a node: seals the packets of its streams once, and gives each link its
//! private bytes; repairs what links lose, and passes on what their nodes ask of publishers.

mod link;
mod outgoing;
mod stream;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, trace};

use crate::authenticator::Covered;
use crate::control::{Message, Report, Writer};
use crate::due::DueList;
use crate::error::{DropReason, SendError, SetupError};
use crate::history::SealedPacket;
use crate::keys::{SealKey, Sealer, SenderKeys};
use crate::limits::{
    KEY_FRAMES_WAITING_MAX, LEFT_OUT_MAX, Limits, PACKET_BYTES_MAX, PACKETS_PER_CALL_MAX,
    REPAIRS_PER_DATAGRAM_MAX,
};
use crate::receiver::Position;
use crate::table::{Id, Table};
use crate::wire::{PACKET_BYTES_MIN, PRIVATE_BYTES, Private, Shared, extend};
use link::{OutLink, Run};
use stream::{Member, OutStream, Spares};

pub use outgoing::{Outgoing, Repair};
pub use stream::Forwarded;

/// A link of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutLinkId(Id<OutLink>);

/// A stream of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutStreamId(Id<OutStream>);

impl OutLinkId {
    /// A small number that only one of the sender's links has at a time: for a table of addresses.
    pub fn index(self) -> usize {
        self.0.index()
    }
}

/// Counts of one link, since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutLinkStats {
    /// Media datagrams handed out for it, and bytes of these.
    pub packets: u64,
    /// See `packets`.
    pub bytes: u64,
    /// Datagrams handed out again.
    pub repairs: u64,
    /// Numbers asked for that were not repaired: no longer kept, never sent, or beyond the budget.
    pub not_repaired: u64,
    /// When the last authentic control datagram came.
    pub heard_at: Option<Instant>,
    /// What the other node said last.
    pub report: Report,
}

/// A request that the publisher gets at its time.
struct KeyFrameWanted {
    due: Instant,
    /// Who asked first.
    link: Id<OutLink>,
    stream: Id<OutStream>,
    ssrc: u32,
}

/// Streams of which this node is the source, and links to the nodes that get them.
///
/// **Drive it**: [`Sender::handle_control`] for what arrives; [`Sender::poll_control`] and
/// [`Sender::poll_key_frame_requests`] after that, and at [`Sender::next_timeout`].
pub struct Sender {
    limits: Limits,
    links: Table<OutLink>,
    streams: Table<OutStream>,
    spares: Spares,
    /// Requests that the publisher may get at their time.
    key_frames: Vec<KeyFrameWanted>,
    /// Streams of which nodes leave out other SSRCs than before.
    changed: Vec<Id<OutStream>>,
    /// Links that have an answer or a heartbeat to send, no later than that is due.
    control_due: DueList<Id<OutLink>>,
    /// When to look for packets that are too old, while any are kept.
    trim_at: Option<Instant>,
}

impl Sender {
    /// A sender without links and streams.
    pub fn new(limits: Limits) -> Self {
        Self {
            links: Table::new(limits.links_max),
            streams: Table::new(limits.streams_max),
            limits,
            spares: Spares::default(),
            key_frames: Vec::new(),
            changed: Vec::new(),
            control_due: DueList::default(),
            trim_at: None,
        }
    }

    /// A link to another node.
    ///
    /// # Errors
    /// [`SetupError::Full`].
    pub fn add_link(&mut self, now: Instant, keys: SenderKeys) -> Result<OutLinkId, SetupError> {
        let link = OutLink::new(now, keys);
        let id = self.links.insert(link)?;
        if let Some(link) = self.links.get_mut(id) {
            self.control_due.add(link.heartbeat_at, &mut link.polled_at, id);
        }
        Ok(OutLinkId(id))
    }

    /// The link is gone, and gets no more of any stream.
    pub fn remove_link(&mut self, link: OutLinkId) {
        let Some(gone) = self.links.remove(link.0) else { return };
        for stream in gone.streams.into_values() {
            if let Some(stream) = self.streams.get_mut(stream) {
                stream.members.retain(|member| member.link != link.0);
            }
        }
    }

    /// A stream that begins, with its first key.
    ///
    /// # Errors
    /// [`SetupError::Full`].
    pub fn add_stream(&mut self, key: SealKey) -> Result<OutStreamId, SetupError> {
        self.insert_stream(Some(Sealer::new(key)))
    }

    /// A stream that this node gets from another, and sends on as it is: [`Sender::forward`].
    ///
    /// # Errors
    /// [`SetupError::Full`].
    pub fn add_forwarded_stream(&mut self) -> Result<OutStreamId, SetupError> {
        self.insert_stream(None)
    }

    fn insert_stream(&mut self, sealer: Option<Sealer>) -> Result<OutStreamId, SetupError> {
        let stream = OutStream::new(sealer, self.limits.tracks_max);
        self.streams.insert(stream).map(OutStreamId)
    }

    /// The stream has ended. What is under way is not repaired any more.
    pub fn remove_stream(&mut self, stream: OutStreamId) {
        let Some(gone) = self.streams.remove(stream.0) else { return };
        for Member { link, handle, .. } in gone.members {
            if let Some(link) = self.links.get_mut(link) {
                link.streams.remove(&handle);
            }
        }
        gone.history.into_packets().for_each(|packet| self.spares.put(packet));
    }

    /// Seals with another key from now on. **Nodes must have it before**: they drop packets of epochs
    /// they do not know, and ask for them without success until they do.
    ///
    /// # Errors
    /// [`SetupError::StaleEpoch`] unless the key's epoch is later, by less than 128.
    pub fn rotate(&mut self, stream: OutStreamId, key: SealKey) -> Result<(), SetupError> {
        let stream = self.streams.get_mut(stream.0).ok_or(SetupError::Unknown)?;
        let sealer = stream.sealer.as_mut().ok_or(SetupError::NotTheSource)?;
        // Datagrams have eight bits of it.
        if !(1..128).contains(&key.epoch().wrapping_sub(sealer.epoch())) {
            return Err(SetupError::StaleEpoch);
        }
        debug!(epoch = key.epoch(), "another key");
        *sealer = Sealer::new(key);
        Ok(())
    }

    /// A link gets a stream from the next packet on, under the handle that its node chose.
    ///
    /// # Errors
    /// [`SetupError::HandleInUse`] if that is another stream's on this link.
    pub fn subscribe(&mut self, stream: OutStreamId, link: OutLinkId, handle: u16) -> Result<(), SetupError> {
        let out_link = self.links.get_mut(link.0).ok_or(SetupError::Unknown)?;
        let out_stream = self.streams.get_mut(stream.0).ok_or(SetupError::Unknown)?;
        match out_link.streams.get(&handle) {
            Some(known) if *known == stream.0 => return Ok(()),
            Some(_) => return Err(SetupError::HandleInUse),
            None => {}
        }
        // A node that subscribes twice is told apart by nothing else: the later handle holds.
        if let Some(member) = out_stream.members.iter_mut().find(|member| member.link == link.0) {
            out_link.streams.remove(&member.handle);
            (member.handle, member.said) = (handle, None);
        } else {
            out_stream.members.push(Member::new(link.0, handle));
        }
        out_link.streams.insert(handle, stream.0);
        Ok(())
    }

    /// A link gets a stream from a position on, as far as that is kept: a node that had it from another
    /// one until now, or that joins and begins with a key frame ([`Sender::keep_from`]). **Call
    /// [`Sender::catch_up`] until that says it is done**: until then the link gets the stream by it alone,
    /// so that everything comes in order. What the node has already, it drops.
    ///
    /// # Errors
    /// As [`Sender::subscribe`].
    pub fn subscribe_from(
        &mut self,
        now: Instant,
        stream: OutStreamId,
        link: OutLinkId,
        handle: u16,
        from: Position,
    ) -> Result<(), SetupError> {
        self.subscribe(stream, link, handle)?;
        let Self { streams, spares, limits, .. } = self;
        let out_stream = streams.get_mut(stream.0).ok_or(SetupError::Unknown)?;
        let OutStream { history, members, .. } = out_stream;
        history.trim(now, limits, |packet| spares.put(packet));
        if let Some(member) = members.iter_mut().find(|member| member.link == link.0) {
            member.behind = Some(history.number_at(from));
        }
        Ok(())
    }

    /// A link gets no more of a stream, and no repairs of it.
    pub fn unsubscribe(&mut self, stream: OutStreamId, link: OutLinkId) {
        let Some(out_stream) = self.streams.get_mut(stream.0) else { return };
        let Some(at) = out_stream.members.iter().position(|member| member.link == link.0) else { return };
        let member = out_stream.members.swap_remove(at);
        if let Some(link) = self.links.get_mut(link.0) {
            link.streams.remove(&member.handle);
        }
    }

    /// Seals packets of a stream and fills `out` with what its links get. Packets that are there
    /// together go together; nothing is held back here, and nothing should be before.
    ///
    /// Each packet is RTP, or RTCP that the nodes are to have as well, like sender reports. Without
    /// links they are sealed all the same, for one that comes: what the caller has had since a key frame
    /// goes first. All links get the same packets, be it by [`Sender::catch_up`], so that an index is one
    /// packet for all nodes and no node sees a gap where another one began.
    ///
    /// Of SSRCs that nodes leave out, the packets of a call go to a node all together if it has not left out
    /// all of them: **what may be left out goes in calls of its own.**
    ///
    /// # Errors
    /// [`SendError`]; `out` is empty then.
    pub fn send(
        &mut self,
        now: Instant,
        stream_id: OutStreamId,
        packets: &[&[u8]],
        out: &mut Outgoing,
    ) -> Result<(), SendError> {
        out.clear();
        let stream = self.streams.get_mut(stream_id.0).ok_or(SendError::Unknown)?;
        let members = stream.members(None)?;
        let sealer = stream.sealer.as_ref().ok_or(SendError::NotTheSource)?;
        if packets.len() > PACKETS_PER_CALL_MAX {
            return Err(SendError::TooMany);
        }
        if packets.iter().any(|packet| !(PACKET_BYTES_MIN..=PACKET_BYTES_MAX).contains(&packet.len())) {
            return Err(SendError::BadLength);
        }
        if packets.is_empty() {
            return Ok(());
        }
        if !sealer.has_room(packets.len()) {
            return Err(SendError::KeyExhausted);
        }

        let first = stream.seal(now, packets, &self.limits, &mut self.spares, out);
        self.trim_at.get_or_insert(now + trim_interval(&self.limits));
        self.deal_out(now, stream_id, members, first, out);
        Ok(())
    }

    /// Sends packets of another node's stream on as they came, sealed by its source: no key is needed,
    /// and a node that gets the stream from several gets the same of each.
    ///
    /// **Each is to be authentic**: a copy of a datagram that [`Receiver::handle_datagram`] then took.
    /// Key frames that nodes ask for are to be asked of the node the stream comes from
    /// ([`Receiver::request_key_frame`]), so that requests are merged at each node of a tree.
    ///
    /// # Errors
    /// [`SendError`]; `out` is empty then.
    ///
    /// [`Receiver::handle_datagram`]: crate::Receiver::handle_datagram
    /// [`Receiver::request_key_frame`]: crate::Receiver::request_key_frame
    pub fn forward(
        &mut self,
        now: Instant,
        stream_id: OutStreamId,
        packets: &[Forwarded<'_>],
        out: &mut Outgoing,
    ) -> Result<(), SendError> {
        out.clear();
        let stream = self.streams.get_mut(stream_id.0).ok_or(SendError::Unknown)?;
        if stream.sealer.is_some() {
            return Err(SendError::NotTheSource);
        }
        if packets.len() > PACKETS_PER_CALL_MAX {
            return Err(SendError::TooMany);
        }
        if packets.iter().any(|packet| Shared::parse(packet.datagram).is_none()) {
            return Err(SendError::BadLength);
        }
        let members = stream.members(None)?;
        let first = stream.copy(now, packets, &self.limits, &mut self.spares, out);
        self.trim_at.get_or_insert(now + trim_interval(&self.limits));
        if !out.packets.is_empty() {
            self.deal_out(now, stream_id, members, first, out);
        }
        Ok(())
    }

    /// Where the next packet of [`Sender::send`] will be; `None` of a stream that is forwarded, whose
    /// packets have their place already ([`Received::position`](crate::Received::position)).
    pub fn next_position(&self, stream: OutStreamId) -> Option<Position> {
        let sealer = self.streams.get(stream.0)?.sealer.as_ref()?;
        Some(Position { epoch: sealer.epoch() as u8, index: sealer.next_index() })
    }

    /// A link does not get packets of these SSRCs, of the first
    /// [`LEFT_OUT_MAX`](crate::LEFT_OUT_MAX) of them, until its node says itself what it leaves out
    /// ([`Receiver::leave_out`](crate::Receiver::leave_out)).
    pub fn leave_out(&mut self, stream: OutStreamId, link: OutLinkId, ssrcs: &[u32]) {
        let Some(stream) = self.streams.get_mut(stream.0) else { return };
        let Some(member) = stream.members.iter_mut().find(|member| member.link == link.0) else { return };
        if member.said.is_none() {
            member.left_out = ssrcs[..ssrcs.len().min(LEFT_OUT_MAX)].to_vec();
        }
    }

    /// Whether any link gets packets of this SSRC.
    pub fn is_wanted(&self, stream: OutStreamId, ssrc: u32) -> bool {
        self.streams
            .get(stream.0)
            .is_some_and(|stream| stream.members.iter().any(|member| member.wants(ssrc)))
    }

    /// Calls `changed` with each stream of which nodes have said that they leave out other SSRCs than before.
    pub fn poll_left_out(&mut self, mut changed: impl FnMut(&Self, OutStreamId)) {
        while let Some(id) = self.changed.pop() {
            changed(self, OutStreamId(id));
        }
    }

    /// Packets of a stream from `start` on stay until there is a later start, longer than
    /// [`Limits::history`]: those since a key frame, for nodes that join. Packets and bytes are bounded
    /// as before.
    pub fn keep_from(&mut self, stream: OutStreamId, start: Position) {
        if let Some(stream) = self.streams.get_mut(stream.0) {
            stream.history.keep_from(start);
        }
    }

    /// Whether all of a stream from a position on is kept.
    pub fn keeps(&self, stream: OutStreamId, from: Position) -> bool {
        self.streams.get(stream.0).is_some_and(|stream| stream.history.reaches(from))
    }

    /// Sends a link that [subscribed from a position on](Sender::subscribe_from) what it still lacks, sealed
    /// as it was, the oldest first: at most so many packets, and at most
    /// [`PACKETS_PER_CALL_MAX`](crate::PACKETS_PER_CALL_MAX). Says whether it has caught up: then it gets
    /// packets as they are sent.
    ///
    /// # Errors
    /// [`SendError`]; `out` is empty then.
    pub fn catch_up(
        &mut self,
        now: Instant,
        stream_id: OutStreamId,
        link: OutLinkId,
        most: usize,
        out: &mut Outgoing,
    ) -> Result<bool, SendError> {
        out.clear();
        let stream = self.streams.get_mut(stream_id.0).ok_or(SendError::Unknown)?;
        let members = stream.members(Some(link.0))?;
        let OutStream { history, members: all, .. } = stream;
        let at = members.start;
        let Some(next) = all[at].behind.take() else { return Ok(true) };
        // What was removed meanwhile is left out.
        let first = next.max(history.first());
        let end = history.end().min(first + most.min(PACKETS_PER_CALL_MAX) as u64);
        // What the node leaves out, and then what it does not, up to what it leaves out again.
        let is_wanted = |packet: &&Arc<SealedPacket>| all[at].wants(packet.ssrc);
        let left_out = history.range(first..end).take_while(|packet| !is_wanted(packet)).count() as u64;
        let first = first.min(end) + left_out;
        out.packets.extend(history.range(first..end).take_while(is_wanted).cloned());
        let reached = first + out.packets.len() as u64;
        let behind = Some(reached).filter(|reached| *reached < history.end());
        if !out.packets.is_empty() {
            self.deal_out(now, stream_id, members, first, out);
        }
        if let Some(stream) = self.streams.get_mut(stream_id.0) {
            stream.members[at].behind = behind;
        }
        Ok(behind.is_none())
    }

    /// Gives the members of a stream, but for those that lag behind, numbers and private bytes for
    /// `out.packets`, of which the first has this number in the history.
    fn deal_out(
        &mut self,
        now: Instant,
        stream_id: OutStreamId,
        members: Range<usize>,
        number: u64,
        out: &mut Outgoing,
    ) {
        let Some(stream) = self.streams.get(stream_id.0) else { return };
        let bytes = out.packets.iter().map(|packet| PRIVATE_BYTES + packet.bytes().len()).sum();
        let live = stream.members[members].iter().filter(|member| member.behind.is_none());
        let gets_any = |member: &&Member| {
            member.left_out.is_empty() || out.packets.iter().any(|packet| member.wants(packet.ssrc))
        };
        for Member { link: id, handle, .. } in live.filter(gets_any) {
            let Some(link) = self.links.get_mut(*id) else { continue };
            let (first, packets) = (link.next, out.packets.len() as u32);
            let run = Run { first, packets, handle: *handle, stream: stream_id.0, number };
            link.sent(now, run, bytes, self.limits.history);
            self.control_due.add(link.heartbeat_at, &mut link.polled_at, *id);
            out.links.push(OutLinkId(*id));
            for (sequence, packet) in (first..).zip(&out.packets) {
                out.private.push(private(link, sequence, *handle, packet));
            }
        }
    }

    /// Takes a control datagram of a link's other node; what it has to be sent again is appended to
    /// `repairs`.
    ///
    /// # Errors
    /// [`DropReason`]; nothing has changed then.
    pub fn handle_control(
        &mut self,
        now: Instant,
        link_id: OutLinkId,
        datagram: &mut [u8],
        repairs: &mut Vec<Repair>,
    ) -> Result<(), DropReason> {
        let link = self.links.get_mut(link_id.0).ok_or(DropReason::UnknownLink)?;
        let messages = link.opener.open(datagram)?;
        link.stats.heard_at = Some(now);
        let mut numbers_left = REPAIRS_PER_DATAGRAM_MAX;
        for message in messages {
            match message {
                Message::Nack { first, more } => {
                    let first = extend(first, link.next);
                    let end = first.saturating_add(u64::from(more) + 1);
                    // Numbers that are not kept cost nothing: after a long gap they are most of them,
                    // and those that can be repaired come last.
                    let oldest = link.oldest_kept(now, self.limits.history, &self.streams);
                    if first < oldest {
                        link.asked_too_late = true;
                        self.control_due.add(now, &mut link.polled_at, link_id.0);
                    }
                    let kept = first.max(oldest)..end.min(link.next);
                    let charged = kept.clone().take(numbers_left);
                    let left_out = (end - first).saturating_sub(charged.clone().count() as u64);
                    link.stats.not_repaired += left_out;
                    numbers_left -= charged.clone().count();
                    for sequence in charged {
                        match repair(now, link, link_id, &self.streams, sequence) {
                            Some(repair) => {
                                link.stats.repairs += 1;
                                repairs.push(repair);
                            }
                            None => link.stats.not_repaired += 1,
                        }
                    }
                }
                Message::KeyFrame { handle, ssrc } => {
                    let Some(id) = link.streams.get(&handle) else { continue };
                    let Some(stream) = self.streams.get_mut(*id) else { continue };
                    // Of each link so many: a node that asks for all it can does not keep others waiting.
                    if link.key_frames_waiting < KEY_FRAMES_WAITING_MAX
                        && let Some(due) = stream.key_frames.request(now, ssrc)
                    {
                        link.key_frames_waiting += 1;
                        self.key_frames.push(KeyFrameWanted { due, link: link_id.0, stream: *id, ssrc });
                    }
                }
                Message::Ping { id } => {
                    link.pong(id);
                    self.control_due.add(now, &mut link.polled_at, link_id.0);
                }
                Message::Report(report) => link.stats.report = report,
                Message::LeaveOut { handle, number, ssrcs } => {
                    let Some(id) = link.streams.get(&handle) else { continue };
                    let Some(stream) = self.streams.get_mut(*id) else { continue };
                    let member = stream.members.iter_mut().find(|member| member.link == link_id.0);
                    if member.is_some_and(|member| member.leave_out(number, ssrcs))
                        && !self.changed.contains(id)
                    {
                        self.changed.push(*id);
                    }
                }
                // Not for this half: refused before.
                Message::Pong { .. } | Message::Sent { .. } | Message::Kept { .. } => {}
            }
        }
        Ok(())
    }

    /// Calls `send` with each control datagram that is due, and the link it goes to.
    pub fn poll_control(&mut self, now: Instant, mut send: impl FnMut(OutLinkId, &[u8])) {
        if self.trim_at.is_some_and(|at| at <= now) {
            self.trim(now);
        }
        // Only links that are due: with thousands of them, each of which asks something now and then,
        // looking at all each time would be what a node does most.
        while let Some((at, id)) = self.control_due.pop(now) {
            let Some(link) = self.links.get_mut(id).filter(|link| link.polled_at == Some(at)) else {
                continue;
            };
            link.polled_at = None;
            let is_heartbeat = link.heartbeat_at <= now;
            let oldest = (is_heartbeat || std::mem::take(&mut link.asked_too_late))
                .then(|| link.oldest_kept(now, self.limits.history, &self.streams));
            if oldest.is_some() || !link.pongs.is_empty() {
                let OutLink { sealer, pongs, .. } = link;
                let mut writer = Writer::new(sealer, |datagram: &[u8]| send(OutLinkId(id), datagram));
                pongs.drain(..).for_each(|id| writer.push(Message::Pong { id }));
                if is_heartbeat {
                    writer.push(Message::Sent { next: link.next });
                }
                if let Some(oldest) = oldest {
                    writer.push(Message::Kept { oldest });
                }
                writer.flush();
            }
            if is_heartbeat {
                link.heartbeat_interval = (link.heartbeat_interval * 2).min(crate::limits::HEARTBEAT_LAST);
                link.heartbeat_at = now + link.heartbeat_interval;
            }
            self.control_due.add(link.heartbeat_at, &mut link.polled_at, id);
        }
    }

    /// Removes what is too old of all streams: of those that pause, nothing else would.
    fn trim(&mut self, now: Instant) {
        let Self { streams, links, spares, limits, .. } = self;
        let mut is_any_kept = false;
        for (_, stream) in streams.iter_mut() {
            stream.history.trim(now, limits, |packet| spares.put(packet));
            is_any_kept |= !stream.history.is_empty();
        }
        for (_, link) in links.iter_mut() {
            link.oldest_kept(now, limits.history, streams);
        }
        self.trim_at = is_any_kept.then(|| now + trim_interval(limits));
    }

    /// Calls `ask` for each stream and SSRC whose publisher is to send a key frame: once, whatever
    /// the number of nodes that want it, and at most once in
    /// [`KEY_FRAME_INTERVAL`](crate::KEY_FRAME_INTERVAL).
    pub fn poll_key_frame_requests(&mut self, now: Instant, mut ask: impl FnMut(OutStreamId, u32)) {
        let Self { key_frames, streams, links, .. } = self;
        key_frames.retain(|&KeyFrameWanted { due, link, stream: id, ssrc }| {
            let stream = streams.get_mut(id);
            if due > now && stream.is_some() {
                return true;
            }
            if let Some(link) = links.get_mut(link) {
                link.key_frames_waiting -= 1;
            }
            if let Some(stream) = stream {
                stream.key_frames.requested(ssrc, Some(now));
                trace!(ssrc, "nodes want a key frame");
                ask(OutStreamId(id), ssrc);
            }
            false
        });
    }

    /// When to poll again at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.key_frames
            .iter()
            .map(|wanted| wanted.due)
            .chain(self.control_due.next())
            .chain(self.trim_at)
            .min()
    }

    /// Counts of a link.
    pub fn link_stats(&self, link: OutLinkId) -> Option<OutLinkStats> {
        self.links.get(link.0).map(|link| link.stats)
    }

    /// Links that get a stream.
    pub fn subscribers(&self, stream: OutStreamId) -> usize {
        self.streams.get(stream.0).map_or(0, |stream| stream.members.len())
    }

    /// How long a stream's packets can be asked for.
    pub fn history(&self) -> Duration {
        self.limits.history
    }
}

/// Seldom enough that looking at all streams costs nothing.
fn trim_interval(limits: &Limits) -> Duration {
    limits.history.max(Duration::from_secs(1))
}

/// The private bytes of one packet for one link.
#[inline]
fn private(link: &OutLink, sequence: u64, handle: u16, packet: &SealedPacket) -> [u8; PRIVATE_BYTES] {
    let SealedPacket { epoch, index, tag, .. } = *packet;
    let authenticator = link.authenticator.sign(&Covered { sequence, epoch, handle, index, tag });
    Private { epoch, handle, sequence: sequence as u32, authenticator }.to_bytes()
}

/// The datagram with this link number, if it is still kept and there is budget for it.
fn repair(
    now: Instant,
    link: &mut OutLink,
    link_id: OutLinkId,
    streams: &Table<OutStream>,
    sequence: u64,
) -> Option<Repair> {
    let run = *link.run_of(sequence)?;
    // The node may use the handle for another stream by now.
    if link.streams.get(&run.handle) != Some(&run.stream) {
        return None;
    }
    let stream = streams.get(run.stream)?;
    let packet = stream.history.get(run.number + (sequence - run.first))?;
    if !link.budget.spend(now, PRIVATE_BYTES + packet.bytes().len()) {
        return None;
    }
    let private = private(link, sequence, run.handle, packet);
    Some(Repair { link: link_id, private, packet: Arc::clone(packet) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{LinkSecret, Role};

    #[test]
    fn links_that_have_nothing_to_say_are_not_looked_at() {
        let mut now = netsim::Clock::new().now();
        let mut sender = Sender::new(Limits::default());
        let stream = sender.add_stream(SealKey::random(0)).unwrap();
        let links: Vec<OutLinkId> = (0..100)
            .map(|secret| {
                let (keys, _) = LinkSecret::new([secret; 32]).split(Role::Dialer);
                let link = sender.add_link(now, keys).unwrap();
                sender.subscribe(stream, link, 0).unwrap();
                link
            })
            .collect();
        let (mut out, packet) = (Outgoing::new(), [0x80; 20]);
        let polled = |sender: &mut Sender, now| {
            let mut polled = Vec::new();
            sender.poll_control(now, |link, _| polled.push(link));
            polled
        };
        // Heartbeats are put off by each packet, and the list does not grow for it.
        for _ in 0..100 {
            sender.send(now, stream, &[&packet], &mut out).unwrap();
            now += Duration::from_millis(40);
            assert!(polled(&mut sender, now).is_empty());
            assert_eq!(sender.control_due.len(), 100);
        }
        now += Duration::from_secs(1);
        assert_eq!(polled(&mut sender, now).len(), 100);
        for link in &links[3..5] {
            let link_in = sender.links.get_mut(link.0).unwrap();
            link_in.pong(7);
            sender.control_due.add(now, &mut link_in.polled_at, link.0);
        }
        let before = sender.control_due.len();
        assert_eq!(polled(&mut sender, now), links[3..5], "the others are left where they are");
        assert_eq!(sender.control_due.len(), before);
        sender.remove_link(links[9]);
        now += Duration::from_secs(10);
        assert_eq!(polled(&mut sender, now).len(), 99);
        assert_eq!(sender.control_due.len(), 99, "and what was asked already is gone");
    }

    #[test]
    fn nothing_is_kept_of_a_stream_that_pauses() {
        let mut now = netsim::Clock::new().now();
        let mut sender = Sender::new(Limits::default());
        let stream = sender.add_stream(SealKey::random(0)).unwrap();
        let (keys, _) = LinkSecret::new([1; 32]).split(Role::Dialer);
        let link = sender.add_link(now, keys).unwrap();
        sender.subscribe(stream, link, 0).unwrap();
        let start = sender.next_position(stream).unwrap();
        let mut out = Outgoing::new();
        sender.send(now, stream, &[&[0x80; 20][..]; 50], &mut out).unwrap();
        assert!(sender.keeps(stream, start));
        let end = now + 2 * sender.history();
        while let Some(at) = sender.next_timeout().filter(|at| *at <= end) {
            now = at;
            sender.poll_control(now, |_, _| {});
        }
        assert_eq!(sender.trim_at, None);
        assert!(sender.streams.get(stream.0).unwrap().history.is_empty());
        assert!(sender.links.get(link.0).unwrap().keeps_nothing());

        sender.send(now, stream, &[&[0x80; 20][..]; 50], &mut out).unwrap();
        now += sender.history() + Duration::from_millis(1);
        sender.subscribe_from(now, stream, link, 0, start).unwrap();
        assert_eq!(
            sender.catch_up(now, stream, link, 100, &mut out),
            Ok(true),
            "too old, and not polled yet"
        );
        assert!(out.is_empty());
    }
}
