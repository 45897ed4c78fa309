//! Streams that other nodes get from here: offered with their tracks and keys, sealed once for all links, or
//! sent on as they came.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relay::{OpenKey, OutStreamId, PACKET_BYTES_MAX, PACKETS_PER_CALL_MAX, Position, SealKey, SetupError};
use rtp::payload::Codec;
use rtp::rtcp::{SenderInfo, SenderReport};
use sfu::{ENCODINGS_REPORT_INTERVAL, NtpRtpMapping, Packet, PacketStream, TrackIndex, WallClock};

use super::encodings::Encodings;
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
    /// By position of the track: payload type of each codec it may have.
    payload_types: Vec<Vec<(Codec, u8)>>,
    /// What has been sent of each SSRC. Few.
    sources: Vec<SentSource>,
    /// Tracks that cross by encodings.
    pub(super) encodings: Encodings,
    /// What a player would begin with has been sealed.
    pub(super) is_begun: bool,
    /// Number of the next report of encodings, and when it is due.
    report_number: u16,
    report_at: Instant,
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

/// What packets of an SSRC are reported with.
struct SentSource {
    ssrc: u32,
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
    ssrc: u32,
    /// Its timestamp, if it is of a key frame.
    key_frame: Option<u32>,
    /// Nodes may leave it out.
    is_of_encoding: bool,
}

impl Served {
    pub(super) fn new(
        (key, stream, epoch): (Arc<str>, PacketStreamId, Epoch),
        (out, source): (OutStreamId, ServedSource),
        tracks: &PublishedTracks,
        now: Instant,
    ) -> Self {
        let mut payload_types: Vec<Vec<(Codec, u8)>> = TrackIndex::all().map(|_| Vec::new()).collect();
        let mut counts = [0; 2];
        for described in tracks.iter() {
            let count = &mut counts[usize::from(described.kind == rtp::payload::MediaKind::Video)];
            if let Some(track) = TrackIndex::new(described.kind, *count) {
                let formats = described.formats.iter();
                payload_types[track.position()] =
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
            payload_types,
            sources: Vec::new(),
            encodings: Encodings::of(tracks),
            is_begun: false,
            report_number: 0,
            report_at: now,
            starts: Starts::default(),
            children: Vec::new(),
            idle_since: now,
            counts: Counts::default(),
        }
    }

    /// A sender report of this SSRC is due with its next packet.
    pub(super) fn report_soon(&mut self, ssrc: u32) {
        if let Some(source) = self.sources.iter_mut().find(|source| source.ssrc == ssrc) {
            source.reported_at = None;
        }
    }

    /// What has been sent of an SSRC.
    fn source(&mut self, ssrc: u32) -> &mut SentSource {
        let at = self.sources.iter().position(|source| source.ssrc == ssrc).unwrap_or_else(|| {
            let source = SentSource { ssrc, packets: 0, payload_bytes: 0, clock: None, reported_at: None };
            self.sources.push(source);
            self.sources.len() - 1
        });
        &mut self.sources[at]
    }

    /// Writes packets as other nodes get them, each with its number in its encoding if it crosses
    /// by that, and reports that are due behind them. `left_out` counts packets that cannot be
    /// sealed.
    fn write(
        &mut self,
        now: Instant,
        clock: WallClock,
        packets: &[(Arc<Packet>, Option<u64>)],
        out: &mut Vec<u8>,
        left_out: &mut u64,
    ) -> Vec<Written> {
        let (mut entries, epoch) = (Vec::with_capacity(packets.len() + 2), self.epoch.0);
        for (packet, in_encoding) in packets.iter().filter(|(packet, _)| packet.epoch() == epoch) {
            let track = packet.track();
            let payload_type =
                self.payload_types[track.position()].iter().find(|(codec, _)| *codec == packet.codec());
            let Some(&(_, payload_type)) = payload_type else {
                *left_out += 1;
                tracing::trace!(stream = &*self.key, codec = ?packet.codec(), "packet not sealed: not offered");
                continue;
            };
            let from = out.len();
            packet.write_relayed(payload_type, *in_encoding, out);
            if out.len() - from > PACKET_BYTES_MAX {
                // It would keep the others from being sealed.
                *left_out += 1;
                tracing::trace!(stream = &*self.key, bytes = out.len() - from, "packet not sealed: too long");
                out.truncate(from);
                continue;
            }
            self.counts.add(out.len() - from);
            let ssrc = track.relayed_ssrc(in_encoding.map_or(0, |_| packet.encoding()));
            let source = self.source(ssrc);
            source.packets = source.packets.wrapping_add(1);
            source.payload_bytes = source.payload_bytes.wrapping_add(packet.media().len() as u32);
            let mapping = match in_encoding {
                Some(_) => packet.clock_mapping_of_encoding(),
                None => packet.clock_mapping(),
            };
            if let Some(mapping) = mapping {
                source.clock = Some((mapping, packet.clock_rate()));
            }
            let key_frame = packet.is_key_frame().then_some(packet.timestamp());
            entries.push(Written { end: out.len(), ssrc, key_frame, is_of_encoding: in_encoding.is_some() });
        }
        for source in &mut self.sources {
            let is_due =
                source.reported_at.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
            if let Some((mapping, clock_rate)) = source.clock.filter(|_| is_due) {
                source.reported_at = Some(now);
                let info = SenderInfo {
                    ntp: clock.ntp(now),
                    rtp_timestamp: mapping.timestamp_at(now, clock_rate),
                    packets: source.packets,
                    payload_bytes: source.payload_bytes,
                };
                SenderReport::write(out, source.ssrc, &info, &[]);
                let track = TrackIndex::of_relayed_ssrc(source.ssrc).map(|(track, _)| track);
                let is_of_encoding = track.is_some_and(|track| self.encodings.has(track));
                entries.push(Written { end: out.len(), ssrc: source.ssrc, key_frame: None, is_of_encoding });
            }
        }
        entries
    }
}

impl PacketRelay {
    /// Seals packets of a stream, what is due of reports of its encodings before, and sends them to all links
    /// that get it.
    pub(super) fn seal(
        &mut self,
        ctx: &Context,
        (clock, sfu): (WallClock, &PacketStream),
        id: StreamId,
        packets: &[(Arc<Packet>, Option<u64>)],
    ) {
        let Self { served, sender, port, group, written, counters, review, .. } = self;
        let Some(served) = served.get_mut(&id) else { return };
        written.clear();
        let mut entries = Vec::new();
        if served.report_at <= ctx.now && !served.encodings.is_empty() {
            served.report_at = ctx.now + ENCODINGS_REPORT_INTERVAL;
            served.report_number = served.report_number.wrapping_add(1);
            for track in served.encodings.tracks() {
                sfu.write_encodings_report(ctx.now, track, served.report_number, written);
                entries.push(Written { end: written.len(), ssrc: 0, key_frame: None, is_of_encoding: false });
            }
            // What is best may have changed.
            review.push(id);
        }
        entries.extend(served.write(ctx.now, clock, packets, written, &mut counters.not_sealed));
        let starts = std::iter::once(0).chain(entries.iter().map(|entry| entry.end));
        let bytes: Vec<&[u8]> = starts.zip(&entries).map(|(from, entry)| &written[from..entry.end]).collect();
        // What some nodes leave out and others do not goes by itself.
        let is_alike = |one: &Written, other: &Written| {
            one.ssrc == other.ssrc || !one.is_of_encoding && !other.is_of_encoding
        };
        let runs = entries.chunk_by(is_alike).flat_map(|run| run.chunks(PACKETS_PER_CALL_MAX));
        let mut rest = &bytes[..];
        for entries in runs {
            let (bytes, behind) = rest.split_at(entries.len());
            rest = behind;
            let Some(first) = sender.next_position(served.out) else { return };
            if let Err(error) = sender.send(ctx.now, served.out, bytes, group) {
                counters.not_sealed += bytes.len() as u64;
                tracing::debug!(stream = &*served.key, %error, "packets not sealed");
                continue;
            }
            port.send_group(group, ctx.now_ms);
            for (at, entry) in (0u32..).zip(entries) {
                let position = Position { index: first.index.wrapping_add(at), ..first };
                if let Some(timestamp) = entry.key_frame
                    && served.starts.note(ctx.now, entry.ssrc, timestamp, position)
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
        served.sources.iter_mut().for_each(|source| source.reported_at = None);
        served.report_at = ctx.now;
        self.review.push(id);
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
            self.review.push(*id);
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
