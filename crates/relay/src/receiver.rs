//! The receiving half of a node: verifies and opens what other nodes send, drops what comes twice,
//! and asks for what does not come.

mod link;
mod stream;

use std::time::{Duration, Instant};

use tracing::debug;

use crate::authenticator::Covered;
use crate::control::{Message, Writer};
use crate::error::{DropReason, SetupError};
use crate::keys::{OpenKey, ReceiverKeys};
use crate::limits::{LEFT_OUT_MAX, Limits};
use crate::rtp_or_rtcp::{is_rtcp, ssrc_of};
use crate::table::{Id, Table};
use crate::wire::{Destination, Media, TO_RECEIVER, destination, extend, first_of};
use link::InLink;
use stream::InStream;

pub use link::InLinkStats;
pub use stream::TrackIndex;

/// A link of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InLinkId(Id<InLink>);

/// A stream of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InStreamId(Id<InStream>);

impl InLinkId {
    /// A small number that only one of the receiver's links has at a time: for a table of addresses.
    pub fn index(self) -> usize {
        self.0.index()
    }
}

impl InStreamId {
    /// A small number that only one of the receiver's streams has at a time.
    pub fn index(self) -> usize {
        self.0.index()
    }
}

/// A packet as its stream's source sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Its stream.
    pub stream: InStreamId,
    /// The track of its SSRC, in the order in which they first appeared.
    pub track: TrackIndex,
    /// The SSRC itself.
    pub ssrc: u32,
    /// The packet.
    pub packet: &'a [u8],
    /// Its place in the stream.
    pub position: Position,
    /// It is RTCP, not RTP.
    pub is_rtcp: bool,
    /// It was missing, and had been asked for.
    pub was_repaired: bool,
}

/// A place in a stream, the same at all nodes that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The lower 8 bits of the key's number.
    pub epoch: u8,
    /// Index in the epoch: of a packet, or the first that has not come.
    pub index: u32,
}

/// Streams that this node gets from others, and links to the nodes that send them.
///
/// **Drive it**: [`Receiver::handle_datagram`] for what arrives, then [`Receiver::poll_control`], and
/// that again at [`Receiver::next_timeout`].
pub struct Receiver {
    limits: Limits,
    links: Table<InLink>,
    streams: Table<InStream>,
    /// No later than the first control datagram that is due.
    control_due: Option<Instant>,
}

impl Receiver {
    /// A receiver without links and streams.
    pub fn new(limits: Limits) -> Self {
        Self {
            links: Table::new(limits.links_max),
            streams: Table::new(limits.streams_max),
            limits,
            control_due: None,
        }
    }

    /// A link from another node.
    ///
    /// # Errors
    /// [`SetupError::Full`].
    pub fn add_link(&mut self, now: Instant, keys: ReceiverKeys) -> Result<InLinkId, SetupError> {
        let id = self.links.insert(InLink::new(now, keys))?;
        self.control_due = Some(now);
        Ok(InLinkId(id))
    }

    /// The link is gone. Streams remain, for a link that takes its place.
    pub fn remove_link(&mut self, link: InLinkId) {
        self.links.remove(link.0);
        self.streams.iter_mut().for_each(|(_, stream)| stream.links.retain(|(id, _)| *id != link.0));
    }

    /// A stream with the first key that its source gave.
    ///
    /// # Errors
    /// [`SetupError::Full`].
    pub fn add_stream(&mut self, key: &OpenKey) -> Result<InStreamId, SetupError> {
        self.streams.insert(InStream::new(key, self.limits.tracks_max)).map(InStreamId)
    }

    /// The stream is not wanted any more. Its handles are free; **tell the nodes before**.
    pub fn remove_stream(&mut self, now: Instant, stream: InStreamId) {
        let Some(gone) = self.streams.remove(stream.0) else { return };
        for (link, handle) in gone.links {
            if let Some(link) = self.links.get_mut(link) {
                link.free(now, handle);
            }
        }
    }

    /// A later key of a stream, which is to be here before packets of its epoch. Those that came before
    /// it are asked for again, if they have been missing for less than
    /// [`GIVE_UP_AFTER`](crate::GIVE_UP_AFTER).
    ///
    /// # Errors
    /// [`SetupError::StaleEpoch`] unless its epoch is later than that of the newest, by less than 128;
    /// [`SetupError::TooManyKeys`] while there are three, of which the oldest is in use, or was
    /// [`OLD_EPOCH_VALID`](crate::OLD_EPOCH_VALID) ago. Add it again later; after a long pause of a
    /// stream, in which its source had several keys, add the stream again.
    pub fn add_key(&mut self, now: Instant, stream: InStreamId, key: &OpenKey) -> Result<(), SetupError> {
        let in_stream = self.streams.get_mut(stream.0).ok_or(SetupError::Unknown)?;
        in_stream.add_key(now, key)?;
        for (link, _) in &in_stream.links {
            if let Some(link) = self.links.get_mut(*link) {
                link.release(now, stream.0);
                self.control_due = Some(self.control_due.map_or(now, |due| due.min(now)));
            }
        }
        Ok(())
    }

    /// A stream is to come by a link; returns the handle that its node has to use. It may come by
    /// several at once: while a node changes the one it gets a stream from.
    ///
    /// # Errors
    /// [`SetupError::Full`] when all handles of the link are in use, or were until just now: one rests for
    /// twice [`Limits::history`] before it is another stream's, for what is under way or repaired late.
    pub fn attach(&mut self, now: Instant, stream: InStreamId, link: InLinkId) -> Result<u16, SetupError> {
        let in_stream = self.streams.get_mut(stream.0).ok_or(SetupError::Unknown)?;
        let in_link = self.links.get_mut(link.0).ok_or(SetupError::Unknown)?;
        if let Some((_, handle)) = in_stream.links.iter().find(|(id, _)| *id == link.0) {
            return Ok(*handle);
        }
        let handle = in_link.handles.take(now, 2 * self.limits.history, stream.0).ok_or(SetupError::Full)?;
        in_stream.links.push((link.0, handle));
        if in_stream.left_out_number > 0 {
            in_link.leave_out(now, handle, in_stream.left_out_number, &in_stream.left_out);
            self.control_due = Some(now);
        }
        Ok(handle)
    }

    /// A stream no longer comes by a link.
    pub fn detach(&mut self, now: Instant, stream: InStreamId, link: InLinkId) {
        let Some(in_stream) = self.streams.get_mut(stream.0) else { return };
        let Some(at) = in_stream.links.iter().position(|(id, _)| *id == link.0) else { return };
        let (_, handle) = in_stream.links.swap_remove(at);
        if let Some(link) = self.links.get_mut(link.0) {
            link.free(now, handle);
        }
    }

    /// Takes a datagram that came from a link's other node: opens it in place, and returns its packet,
    /// or nothing for a control datagram.
    ///
    /// # Errors
    /// [`DropReason`], which says whether anything has changed.
    pub fn handle_datagram<'d>(
        &mut self,
        now: Instant,
        link_id: InLinkId,
        datagram: &'d mut [u8],
    ) -> Result<Option<Received<'d>>, DropReason> {
        let link = self.links.get_mut(link_id.0).ok_or(DropReason::UnknownLink)?;
        if destination(datagram) != Some(Destination::Receiver) {
            return Err(DropReason::Malformed);
        }
        if datagram[0] == TO_RECEIVER {
            Self::handle_control(now, link, datagram, &mut self.control_due)?;
            return Ok(None);
        }
        let bytes = datagram.len();
        // First what costs least: nothing of the datagram is believed until all of it held.
        let Media { private, index, text, tag } = Media::parse(datagram).ok_or(DropReason::Malformed)?;
        let sequence = extend(private.sequence, link.next);
        if !link.expects(sequence) {
            link.stats.replayed += 1;
            return Err(DropReason::Replayed);
        }
        let covered =
            Covered { sequence, epoch: private.epoch, handle: private.handle, index, tag: first_of(&tag) };
        if link.authenticator.sign(&covered) != private.authenticator {
            return Err(DropReason::Forged);
        }
        let stream_id = link.handles.get(private.handle);
        let Some((stream_id, stream)) = stream_id.and_then(|id| Some((id, self.streams.get_mut(id)?))) else {
            link.arrived(now, sequence, bytes);
            self.control_due = Some(self.control_due.map_or(now, |due| due.min(now)));
            return Err(DropReason::UnknownHandle);
        };
        let mut was_repaired = false;
        let opened = stream.open(now, private.epoch, index, text, &tag);
        match opened {
            // Asked for again and again, it would take the budget that other streams' repairs need.
            Err(DropReason::UnknownEpoch) if stream.may_get(private.epoch) => {
                link.park(now, sequence, stream_id);
            }
            // Nobody could open it, however often it came.
            Err(DropReason::UnknownEpoch) => _ = link.arrived(now, sequence, bytes),
            Err(reason) if !reason.is_authentic() => return Err(reason),
            _ => was_repaired = link.arrived(now, sequence, bytes),
        }
        if let Some(due) = link.next_due() {
            self.control_due = Some(self.control_due.map_or(due, |next| next.min(due)));
        }
        let packet = opened.map(|len| &text[..len])?;
        let is_rtcp = is_rtcp(packet).ok_or(DropReason::NotRtp)?;
        let ssrc = ssrc_of(packet).ok_or(DropReason::NotRtp)?;
        let track = stream.track(ssrc).ok_or(DropReason::TooManyTracks)?;
        let position = Position { epoch: private.epoch, index };
        let stream = InStreamId(stream_id);
        Ok(Some(Received { stream, track, ssrc, packet, position, is_rtcp, was_repaired }))
    }

    fn handle_control(
        now: Instant,
        link: &mut InLink,
        datagram: &mut [u8],
        control_due: &mut Option<Instant>,
    ) -> Result<(), DropReason> {
        for message in link.opener.open(datagram)? {
            match message {
                Message::Pong { id } => link.round_trip.pong(now, id),
                // What was sent before it has not come, or comes late.
                Message::Sent { next } => link.skip_to(now, next),
                Message::Kept { oldest } => link.give_up_before(oldest),
                // Not for this half: refused before.
                Message::Nack { .. }
                | Message::KeyFrame { .. }
                | Message::Ping { .. }
                | Message::Report(_)
                | Message::LeaveOut { .. } => {}
            }
        }
        link.stats.heard_at = Some(now);
        if let Some(due) = link.next_due() {
            *control_due = Some(control_due.map_or(due, |next| next.min(due)));
        }
        Ok(())
    }

    /// Asks the source of a stream for a key frame of an SSRC, by the link that was heard
    /// from last: while the stream comes by two, the other may be of a node that is dead. Repeat it
    /// until there is one: the request may be lost. It costs a datagram at most each time.
    pub fn request_key_frame(&mut self, now: Instant, stream: InStreamId, ssrc: u32) {
        let Some(stream) = self.streams.get(stream.0) else { return };
        let heard_at = |id| self.links.get(id).and_then(|link| link.stats.heard_at);
        let Some((id, handle)) = stream.links.iter().max_by_key(|(id, _)| heard_at(*id)) else { return };
        let Some(link) = self.links.get_mut(*id) else { return };
        if link.ask_key_frame(now, *handle, ssrc) {
            self.control_due = Some(now);
        }
    }

    /// Says to the nodes that a stream comes from of which SSRCs nothing is wanted, of all that
    /// were left out before nothing else: of layers that nobody here watches. At most
    /// [`LEFT_OUT_MAX`](crate::LEFT_OUT_MAX). It is said again now and then, since datagrams get
    /// lost.
    pub fn leave_out(&mut self, now: Instant, stream: InStreamId, ssrcs: &[u32]) {
        let Some(stream) = self.streams.get_mut(stream.0) else { return };
        let ssrcs = &ssrcs[..ssrcs.len().min(LEFT_OUT_MAX)];
        stream.left_out = ssrcs.iter().map(|ssrc| ssrc.to_be_bytes()).collect();
        // 0 is nothing said yet.
        stream.left_out_number = stream.left_out_number.checked_add(1).unwrap_or(1);
        for (link, handle) in &stream.links {
            if let Some(link) = self.links.get_mut(*link) {
                link.leave_out(now, *handle, stream.left_out_number, &stream.left_out);
                self.control_due = Some(now);
            }
        }
    }

    /// Calls `send` with each control datagram that is due, and the link it goes to: requests for
    /// what is missing and for key frames, pings, reports.
    pub fn poll_control(&mut self, now: Instant, mut send: impl FnMut(InLinkId, &[u8])) {
        if self.control_due.is_none_or(|due| due > now) {
            return;
        }
        let mut next: Option<Instant> = None;
        for (id, link) in self.links.iter_mut() {
            let given_up = link.poll(now, |sealer, messages| {
                let mut writer = Writer::new(sealer, |datagram: &[u8]| send(InLinkId(id), datagram));
                messages.iter().for_each(|message| writer.push(*message));
                writer.flush();
            });
            if given_up > 0 {
                debug!(link = id.index(), given_up, "gave up packets that did not come");
            }
            let due = link.next_due();
            next = match (next, due) {
                (Some(next), Some(due)) => Some(next.min(due)),
                (next, due) => next.or(due),
            };
        }
        self.control_due = next;
    }

    /// When to poll again at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.control_due
    }

    /// Counts of a link.
    pub fn link_stats(&self, link: InLinkId) -> Option<InLinkStats> {
        self.links.get(link.0).map(InLink::stats)
    }

    /// Smoothed round trip of a link, once known.
    pub fn round_trip(&self, link: InLinkId) -> Option<Duration> {
        self.links.get(link.0)?.round_trip.smoothed()
    }

    /// From where on a stream's packets are wanted of a node that takes another's place, for
    /// [`Sender::subscribe_from`](crate::Sender::subscribe_from).
    pub fn position(&self, now: Instant, stream: InStreamId) -> Option<Position> {
        self.streams.get(stream.0).map(|stream| stream.position(now))
    }

    /// SSRCs of a stream, and the track of each.
    pub fn tracks(&self, stream: InStreamId) -> impl Iterator<Item = (u32, TrackIndex)> {
        self.streams.get(stream.0).into_iter().flat_map(|stream| stream.tracks())
    }
}
