//! Streams of other nodes: published here as they come, and sent on to further nodes without being sealed
//! again.

use std::ops::Range;
use std::sync::Arc;

use relay::{
    DropReason, EPOCHS_MAX, Forwarded, InLinkId, InStreamId, OpenKey, OutStreamId, PACKETS_PER_CALL_MAX,
    Position, SetupError,
};
use sfu::{Received, TrackIndex};

use super::encodings::Encodings;
use super::starts::Starts;
use super::{Counts, Link, PacketRelay, RelayedPacket};
use crate::context::Context;
use crate::ids::PacketStreamId;
use crate::registry::{Epoch, StreamId};
use worker_api::relay::{Attached, LinkId, RelayRefusal};

/// A stream of another node.
pub(super) struct Fetched {
    /// `app/name`.
    pub(super) key: Arc<str>,
    pub(super) stream: PacketStreamId,
    pub(super) epoch: Epoch,
    pub(super) into: InStreamId,
    /// The newest last.
    pub(super) keys: Vec<OpenKey>,
    /// Links that it comes over.
    pub(super) parents: Vec<LinkId>,
    /// What is kept of it for further nodes, if anything is.
    pub(super) out: Option<OutStreamId>,
    pub(super) starts: Starts,
    /// Tracks that come by encodings.
    pub(super) encodings: Encodings,
    /// Its parents have been told which of these are left out.
    pub(super) has_said: bool,
    /// Behind the newest packet.
    pub(super) newest: Option<Position>,
    pub(super) counts: Counts,
}

/// A datagram that goes on to further nodes.
#[derive(Debug)]
pub(super) struct Onward {
    stream: StreamId,
    ssrc: u32,
    /// Where in the copies it is.
    copy: Range<usize>,
    /// It begins a key frame, and nothing before it is needed any more.
    start: Option<Position>,
}

impl PacketRelay {
    /// Takes a datagram for the receiving half.
    pub(super) fn media(
        &mut self,
        ctx: &mut Context,
        link: InLinkId,
        datagram: &mut [u8],
        take: &mut impl FnMut(&mut Context, RelayedPacket<'_>) -> Option<Received>,
    ) -> Result<(), DropReason> {
        // It is opened in place, and what goes on does so as it came.
        let copy = self.copies.len();
        if !self.fetched.is_empty() {
            self.copies.extend_from_slice(datagram);
        }
        let kept =
            self.open_datagram(ctx, link, datagram, take).inspect_err(|_| self.copies.truncate(copy))?;
        match kept {
            Some(onward) => self.onward.push(Onward { copy: copy..self.copies.len(), ..onward }),
            None => self.copies.truncate(copy),
        }
        Ok(())
    }

    /// Opens a datagram and hands its packet on; how it goes on, if it does.
    fn open_datagram(
        &mut self,
        ctx: &mut Context,
        link: InLinkId,
        datagram: &mut [u8],
        take: &mut impl FnMut(&mut Context, RelayedPacket<'_>) -> Option<Received>,
    ) -> Result<Option<Onward>, DropReason> {
        let Some(received) = self.receiver.handle_datagram(ctx.now, link, datagram)? else { return Ok(None) };
        let id = self.of_in.get(received.stream.index()).copied().flatten();
        let fetched = id.and_then(|id| Some((id, self.fetched.get_mut(&id)?)));
        let (id, fetched) = fetched.ok_or(DropReason::UnknownHandle)?;
        fetched.counts.add(received.packet.len());
        let position = received.position;
        fetched.newest = Some(Position { index: position.index.wrapping_add(1), ..position });
        let &mut Fetched { stream, epoch, .. } = fetched;
        let taken =
            take(ctx, RelayedPacket { stream, epoch, packet: received.packet, is_rtcp: received.is_rtcp });
        let mut start = None;
        if taken.is_some_and(|taken| taken.starts_key_frame)
            && let Ok(packet) = rtp::Packet::parse(received.packet)
            && fetched.starts.note(ctx.now, received.ssrc, packet.timestamp(), position)
        {
            start = fetched.starts.oldest();
        }
        let onward = Onward { stream: id, ssrc: received.ssrc, copy: 0..0, start };
        Ok(fetched.out.map(|_| onward))
    }

    /// Sends on what the batch brought for further nodes, those of a stream together.
    pub(super) fn send_onward(&mut self, ctx: &Context) {
        let Self { onward, copies, fetched, sender, port, group, counters, .. } = self;
        if onward.is_empty() {
            return copies.clear();
        }
        onward.sort_by_key(|onward| onward.stream);
        // What some nodes leave out and others do not goes by itself.
        let is_split = |onward: &Onward| {
            let track = TrackIndex::of_relayed_ssrc(onward.ssrc).map(|(track, _)| track);
            let encodings = fetched.get(&onward.stream).map(|fetched| &fetched.encodings);
            track.zip(encodings).is_some_and(|(track, encodings)| encodings.has(track))
        };
        let is_alike = |one: &Onward, other: &Onward| {
            one.stream == other.stream && (one.ssrc == other.ssrc || !is_split(one) && !is_split(other))
        };
        for run in onward.chunk_by(is_alike) {
            let out = run.first().and_then(|first| fetched.get(&first.stream)?.out);
            let Some(out) = out else { continue };
            for part in run.chunks(PACKETS_PER_CALL_MAX) {
                let packets: Vec<Forwarded<'_>> = part
                    .iter()
                    .map(|onward| Forwarded { ssrc: onward.ssrc, datagram: &copies[onward.copy.clone()] })
                    .collect();
                match sender.forward(ctx.now, out, &packets, group) {
                    Ok(()) => port.send_group(group, ctx.now_ms),
                    Err(error) => {
                        counters.not_forwarded += packets.len() as u64;
                        tracing::debug!(%error, packets = packets.len(), "packets not sent on");
                    }
                }
            }
            if let Some(start) = run.iter().rev().find_map(|onward| onward.start) {
                sender.keep_from(out, start);
            }
        }
        onward.clear();
        copies.clear();
    }

    /// The outgoing stream by which further nodes get a fetched one; made if there is none yet.
    pub(super) fn forwarded(&mut self, id: StreamId) -> Result<OutStreamId, RelayRefusal> {
        let Self { fetched, sender, of_out, .. } = self;
        let fetched = fetched.get_mut(&id).ok_or(RelayRefusal::NoStream)?;
        if let Some(out) = fetched.out {
            return Ok(out);
        }
        let out = sender.add_forwarded_stream()?;
        fetched.out = Some(out);
        of_out.insert(out, id);
        Ok(out)
    }

    /// A fetched stream comes over another link as well.
    pub(super) fn add_parent(
        &mut self,
        ctx: &Context,
        id: StreamId,
        link: LinkId,
    ) -> Result<Attached, RelayRefusal> {
        let fetched = self.fetched.get_mut(&id).ok_or(RelayRefusal::NoStream)?;
        let Link { ends, .. } = self.links.get(&link).ok_or(RelayRefusal::NoLink)?;
        let handle = self.receiver.attach(ctx.now, fetched.into, ends.into)?;
        let position = self.receiver.position(ctx.now, fetched.into).ok_or(RelayRefusal::NoStream)?;
        if !fetched.parents.contains(&link) {
            fetched.parents.push(link);
        }
        Ok(Attached { handle, position })
    }

    /// A fetched stream no longer comes over a link; all of them if none is named.
    pub(super) fn remove_parent(&mut self, ctx: &Context, link: LinkId, only: Option<StreamId>) {
        let Some(&Link { ends, .. }) = self.links.get(&link) else { return };
        for (_, fetched) in self.fetched.iter_mut().filter(|(id, _)| only.is_none_or(|only| only == **id)) {
            if let Some(at) = fetched.parents.iter().position(|parent| *parent == link) {
                fetched.parents.remove(at);
                self.receiver.detach(ctx.now, fetched.into, ends.into);
            }
        }
    }

    /// The next key of a fetched stream.
    pub(super) fn add_key(&mut self, ctx: &Context, id: StreamId, key: OpenKey) -> Result<(), RelayRefusal> {
        let fetched = self.fetched.get_mut(&id).ok_or(RelayRefusal::NoStream)?;
        self.receiver.add_key(ctx.now, fetched.into, &key)?;
        fetched.keys.push(key);
        if fetched.keys.len() > EPOCHS_MAX {
            fetched.keys.remove(0);
        }
        Ok(())
    }

    /// A stream with these keys that comes over a link, and the handle it has there.
    pub(super) fn attach_stream(
        &mut self,
        ctx: &Context,
        link: LinkId,
        keys: &[OpenKey],
    ) -> Result<(InStreamId, u16), RelayRefusal> {
        let Link { ends, .. } = self.links.get(&link).ok_or(RelayRefusal::NoLink)?;
        let (first, others) = keys.split_first().ok_or(RelayRefusal::NoKey)?;
        let stream = self.receiver.add_stream(first)?;
        let add = |key| self.receiver.add_key(ctx.now, stream, key);
        let attached = others.iter().try_for_each(add);
        let attached: Result<u16, SetupError> =
            attached.and_then(|()| self.receiver.attach(ctx.now, stream, ends.into));
        let handle = attached.inspect_err(|_| self.receiver.remove_stream(ctx.now, stream))?;
        Ok((stream, handle))
    }
}
