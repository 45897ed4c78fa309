//! Streams that other nodes get from here: offered with their tracks and keys, sealed once for all links, or
//! sent on as they came.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relay::{OpenKey, OutStreamId, PACKET_BYTES_MAX, PACKETS_PER_CALL_MAX, Position, SealKey, SetupError};
use rtp::payload::Codec;
use rtp::rtcp::{SenderInfo, SenderReport};
use sfu::{NtpRtpMapping, Packet, TrackIndex, WallClock};

use super::starts::Starts;
use super::{Counts, Link, PacketRelay};
use crate::context::Context;
use crate::ids::PacketStreamId;
use crate::registry::{Epoch, PublishedTracks, StreamId};
use worker_api::relay::{LinkId, RelayNotice, RelayRefusal};

/// Time between two sender reports of a track.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Packets after which a key is worn: half of those it can seal.
const WORN_AT: u32 = 1 << 31;

/// A stream that other nodes get.
pub(super) struct Served {
    /// `app/name`.
    pub(super) key: Arc<str>,
    pub(super) stream: PacketStreamId,
    pub(super) epoch: Epoch,
    pub(super) out: OutStreamId,
    pub(super) source: ServedSource,
    /// By position of the track.
    tracks: Vec<Track>,
    pub(super) starts: Starts,
    /// Links that get it.
    pub(super) children: Vec<LinkId>,
    /// Since when there are none.
    pub(super) idle_since: Instant,
    pub(super) counts: Counts,
}

/// Where its packets come from.
pub(super) enum ServedSource {
    /// This node is the source: they are sealed here.
    Sealed {
        /// The key before, if there was one, the one in use, and the next one if nodes are getting it.
        keys: Vec<OpenKey>,
        next: Option<SealKey>,
        /// The notice that the key is worn was sent.
        is_worn: bool,
    },
    /// Another node is: they go on as they came.
    Forwarded,
}

/// What packets of a track are sent with.
#[derive(Default)]
struct Track {
    /// Payload type of each codec it may have.
    payload_types: Vec<(Codec, u8)>,
    packets: u32,
    payload_bytes: u32,
    /// Its clock, as of the newest packet.
    clock: Option<(NtpRtpMapping, u32)>,
    reported_at: Option<Instant>,
}

/// A packet or report as other nodes get it, in one buffer with others.
struct Written {
    /// End of its bytes.
    end: usize,
    /// Track and timestamp, if it is of a key frame.
    key_frame: Option<(TrackIndex, u32)>,
}

impl Served {
    pub(super) fn new(
        (key, stream, epoch): (Arc<str>, PacketStreamId, Epoch),
        (out, source): (OutStreamId, ServedSource),
        tracks: &PublishedTracks,
        now: Instant,
    ) -> Self {
        let mut by_position: Vec<Track> = TrackIndex::all().map(|_| Track::default()).collect();
        let mut counts = [0; 2];
        for described in tracks.iter() {
            let count = &mut counts[usize::from(described.kind == rtp::payload::MediaKind::Video)];
            if let Some(track) = TrackIndex::new(described.kind, *count) {
                let formats = described.formats.iter();
                by_position[track.position()].payload_types =
                    formats.map(|format| (format.codec, format.payload_type)).collect();
            }
            *count += 1;
        }
        Self {
            key,
            stream,
            epoch,
            out,
            source,
            tracks: by_position,
            starts: Starts::default(),
            children: Vec::new(),
            idle_since: now,
            counts: Counts::default(),
        }
    }

    /// Writes packets as other nodes get them, and reports that are due behind them. `left_out` counts
    /// packets that cannot be sealed.
    fn write(
        &mut self,
        now: Instant,
        clock: WallClock,
        packets: &[Arc<Packet>],
        out: &mut Vec<u8>,
        left_out: &mut u64,
    ) -> Vec<Written> {
        let mut entries = Vec::with_capacity(packets.len() + 2);
        for packet in packets.iter().filter(|packet| packet.epoch() == self.epoch.0) {
            let track = &mut self.tracks[packet.track().position()];
            let payload_type = track.payload_types.iter().find(|(codec, _)| *codec == packet.codec());
            let Some(&(_, payload_type)) = payload_type else {
                *left_out += 1;
                tracing::trace!(stream = &*self.key, codec = ?packet.codec(), "packet not sealed: not offered");
                continue;
            };
            let from = out.len();
            packet.write_relayed(payload_type, out);
            if out.len() - from > PACKET_BYTES_MAX {
                // It would keep the others from being sealed.
                *left_out += 1;
                tracing::trace!(stream = &*self.key, bytes = out.len() - from, "packet not sealed: too long");
                out.truncate(from);
                continue;
            }
            self.counts.add(out.len() - from);
            track.packets = track.packets.wrapping_add(1);
            track.payload_bytes = track.payload_bytes.wrapping_add(packet.media().len() as u32);
            if let Some(mapping) = packet.clock_mapping() {
                track.clock = Some((mapping, packet.clock_rate()));
            }
            let key_frame = packet.is_key_frame().then_some((packet.track(), packet.timestamp()));
            entries.push(Written { end: out.len(), key_frame });
        }
        for (index, track) in TrackIndex::all().zip(&mut self.tracks) {
            let is_due =
                track.reported_at.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
            if let Some((mapping, clock_rate)) = track.clock.filter(|_| is_due) {
                track.reported_at = Some(now);
                let info = SenderInfo {
                    ntp: clock.ntp(now),
                    rtp_timestamp: mapping.timestamp_at(now, clock_rate),
                    packets: track.packets,
                    payload_bytes: track.payload_bytes,
                };
                SenderReport::write(out, index.relayed_ssrc(), &info, &[]);
                entries.push(Written { end: out.len(), key_frame: None });
            }
        }
        entries
    }
}

impl PacketRelay {
    /// Seals packets of a stream and sends them to all links that get it.
    pub(super) fn seal(&mut self, ctx: &Context, clock: WallClock, id: StreamId, packets: &[Arc<Packet>]) {
        let Self { served, sender, port, group, written, counters, .. } = self;
        let Some(served) = served.get_mut(&id) else { return };
        written.clear();
        let entries = served.write(ctx.now, clock, packets, written, &mut counters.not_sealed);
        let starts = std::iter::once(0).chain(entries.iter().map(|entry| entry.end));
        let bytes: Vec<&[u8]> = starts.zip(&entries).map(|(from, entry)| &written[from..entry.end]).collect();
        for (bytes, entries) in bytes.chunks(PACKETS_PER_CALL_MAX).zip(entries.chunks(PACKETS_PER_CALL_MAX)) {
            let Some(first) = sender.next_position(served.out) else { return };
            if let Err(error) = sender.send(ctx.now, served.out, bytes, group) {
                counters.not_sealed += bytes.len() as u64;
                tracing::debug!(stream = &*served.key, %error, "packets not sealed");
                continue;
            }
            port.send_group(group, ctx.now_ms);
            for (at, entry) in (0u32..).zip(entries) {
                let position = Position { index: first.index.wrapping_add(at), ..first };
                if let Some((track, timestamp)) = entry.key_frame
                    && served.starts.note(ctx.now, track, timestamp, position)
                    && let Some(start) = served.starts.oldest()
                {
                    sender.keep_from(served.out, start);
                }
            }
            if let ServedSource::Sealed { is_worn, .. } = &mut served.source
                && first.index >= WORN_AT
                && !std::mem::replace(is_worn, true)
                && let Some(notices) = &self.notices
            {
                let _ = notices.send(RelayNotice::KeyWorn { stream: served.key.to_string() });
            }
        }
    }

    /// Serves an offered stream over a link.
    pub(super) fn serve(
        &mut self,
        ctx: &Context,
        (id, epoch): (StreamId, Epoch),
        link: LinkId,
        handle: u16,
        from: Option<Position>,
    ) -> Result<(), RelayRefusal> {
        let keys = self.keys(id);
        let has_key = |at: Position| keys.iter().any(|key| key.epoch() as u8 == at.epoch);
        let Self { served, fetched, sender, links, .. } = self;
        let &Link { ends, .. } = links.get(&link).ok_or(RelayRefusal::NoLink)?;
        let served = served.get_mut(&id).ok_or(RelayRefusal::NoStream)?;
        if served.epoch != epoch {
            return Err(RelayRefusal::Replaced);
        }
        // A node that has had the stream gets what is left of what it lacks; a new one begins with a key
        // frame that it has the key of, or with what comes next.
        let starts = fetched.get(&id).map_or(&served.starts, |fetched| &fetched.starts);
        let is_kept = |start: &Position| has_key(*start) && sender.keeps(served.out, *start);
        let from = from.or(starts.oldest().filter(is_kept));
        match from {
            Some(from) => {
                sender.subscribe_from(ctx.now, served.out, ends.out, handle, from)?;
                self.catching_up.retain(|known| *known != (id, link));
                self.catching_up.push_back((id, link));
                self.catch_up_at = ctx.now;
            }
            None => sender.subscribe(served.out, ends.out, handle)?,
        }
        // So that its players need not wait for the next ones.
        served.tracks.iter_mut().for_each(|track| track.reported_at = None);
        if !served.children.contains(&link) {
            served.children.push(link);
        }
        tracing::info!(stream = &*served.key, ?link, ?from, "stream goes to another node");
        Ok(())
    }

    /// A link gets no more of a stream, of all if none is named.
    pub(super) fn stop_serving(&mut self, now: Instant, link: LinkId, only: Option<StreamId>) {
        let Some(&Link { ends, .. }) = self.links.get(&link) else { return };
        for (id, served) in &mut self.served {
            if only.is_some_and(|only| only != *id) || !served.children.contains(&link) {
                continue;
            }
            served.children.retain(|child| *child != link);
            self.sender.unsubscribe(served.out, ends.out);
            if served.children.is_empty() {
                served.idle_since = now;
            }
        }
        self.catching_up.retain(|(id, of)| *of != link || only.is_some_and(|only| only != *id));
    }

    /// The next key of a stream.
    pub(super) fn new_key(&mut self, id: StreamId) -> Result<OpenKey, RelayRefusal> {
        let served = self.served.get_mut(&id).ok_or(RelayRefusal::NoStream)?;
        let ServedSource::Sealed { keys, next, .. } = &mut served.source else {
            return Err(SetupError::NotTheSource.into());
        };
        // A number of its own also when the one before was never used: a node may have that.
        let newest = keys.last().map_or(0, OpenKey::epoch);
        let key = SealKey::random(newest.wrapping_add(1));
        let open = key.open_key();
        if next.replace(key).is_some() {
            keys.pop();
        }
        keys.push(open.clone());
        Ok(open)
    }

    /// The nodes of a stream have its next key.
    pub(super) fn use_new_key(&mut self, id: StreamId, epoch: u32) -> Result<(), RelayRefusal> {
        let Self { served, sender, .. } = self;
        let served = served.get_mut(&id).ok_or(RelayRefusal::NoStream)?;
        let ServedSource::Sealed { keys, next, is_worn } = &mut served.source else {
            return Err(SetupError::NotTheSource.into());
        };
        let Some(key) = next.take_if(|key| key.epoch() == epoch) else {
            // It may have been asked for before.
            let is_used = next.is_none() && keys.last().is_some_and(|key| key.epoch() == epoch);
            return if is_used { Ok(()) } else { Err(SetupError::StaleEpoch.into()) };
        };
        sender.rotate(served.out, key).inspect_err(|_| _ = keys.pop())?;
        // What is kept may still be under the one before.
        keys.drain(..keys.len() - 2);
        *is_worn = false;
        Ok(())
    }

    /// Keys of a stream that nodes have to have: the one before as long as something under it is kept, which
    /// they may begin with.
    pub(super) fn keys(&self, id: StreamId) -> Vec<OpenKey> {
        match self.served.get(&id) {
            Some(Served { source: ServedSource::Sealed { keys, next, .. }, out, .. }) => {
                let old = keys.len() - 1 - usize::from(next.is_some());
                let is_kept = |key: &&OpenKey| {
                    self.sender.keeps(*out, Position { epoch: key.epoch() as u8, index: u32::MAX })
                };
                keys[..old].iter().filter(is_kept).chain(&keys[old..]).cloned().collect()
            }
            _ => self.fetched.get(&id).map_or(Vec::new(), |fetched| fetched.keys.clone()),
        }
    }
}
