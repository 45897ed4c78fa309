//! A stream of packets on one worker: publisher in, viewers out.
//!
//! On the home worker it is fed by the publisher ([`PacketStream::receive`]), on others by the packets of the home
//! ([`PacketStream::receive_mirrored`]). It outlives its publishers, so that viewers stay when one comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::extension::Extension;
use rtp::payload::{MediaKind, PayloadInfo};
use rtp::rtcp::{Rtcp, packets};

use super::clock::{RemoteClock, WallClock};
use super::directory::{Directory, NoRole, Role};
use super::history::Kept;
use super::inputs::{PublisherInput, TrackIndex, TrackPayload};
use super::limits::{Limits, TRACKS_MAX};
use super::packet::{Packet, Pool};
use super::reception::Sequence;
use super::shape::{Addressing, Shapes, Template};
use super::source::Rate;
use super::track::{Identified, Taken, Track};
use super::transport_feedback::Arrivals;
use super::turn::{Forward, Turn, TurnPackets};
use super::viewers::{ViewerId, Viewers};

/// One stream on one worker.
#[derive(Debug)]
pub struct PacketStream {
    pub(crate) limits: Limits,
    pub(crate) clock: WallClock,
    pub(crate) tracks: [Option<Box<Track>>; TRACKS_MAX],
    pub(crate) publisher: Option<Box<Publisher>>,
    /// Counts publishers, over all workers the same if the caller says so.
    pub(crate) epoch: u64,
    pub(crate) pool: Pool,
    pub(crate) viewers: Viewers,
    pub(crate) shapes: Shapes,
    forwards: Vec<Forward>,
    /// Forwarded in this turn; becomes `forwards` when the turn is taken.
    arrived: Vec<(TrackIndex, u64)>,
    templates: Vec<Template>,
    /// Viewers that do not get all of their tracks live yet.
    pub(crate) joining: Vec<ViewerId>,
    /// Viewers that wait for something to begin with.
    pub(crate) parked: Vec<ViewerId>,
    /// There may be something to begin with.
    pub(crate) has_new_entry: bool,
    /// When what an ended publisher has left is dropped.
    pub(crate) expires_at: Option<Instant>,
    pub(crate) first_reports: Vec<ViewerId>,
    pub(crate) first_reports_at: Option<Instant>,
    pub(crate) reported_at: Option<Instant>,
    pub(crate) reports_slot: usize,
    pub(crate) scratch: Vec<u8>,
    pub(crate) stats: StreamStats,
    rate: Rate,
}

/// What exists only while there is a publisher.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) input: PublisherInput,
    pub(crate) directory: Directory,
    pub(crate) clock: RemoteClock,
    pub(crate) arrivals: Option<Arrivals>,
    transport_cc_id: Option<u8>,
    started_at: Instant,
    pub(crate) round_trip: Duration,
    pub(crate) report_at: Instant,
    pub(crate) remb_at: Instant,
    pub(crate) estimate: super::feedback::Estimate,
}

/// What became of a received packet that was not dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its track.
    pub track: TrackIndex,
    /// Whether it goes to the viewers in this turn. Padding and layers that are not forwarded do not.
    pub forwarded: bool,
}

/// Why a received packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Not RTP.
    Malformed,
    /// There is no publisher.
    NoPublisher,
    /// Nothing tells to which track it belongs.
    UnknownSsrc,
    /// The publisher has used too many SSRCs.
    SsrcFlood,
    /// Its SSRC was replaced by another one.
    RetiredSsrc,
    /// Its payload type was not negotiated for its track.
    UnknownPayloadType,
    /// Received before.
    Duplicate,
    /// Too late to be of use.
    TooOld,
    /// Its number is far from all others, and may be the first of a new beginning: the next one tells.
    Unconfirmed,
}

impl DropReason {
    /// All of them, for counters.
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::NoPublisher,
        Self::UnknownSsrc,
        Self::SsrcFlood,
        Self::RetiredSsrc,
        Self::UnknownPayloadType,
        Self::Duplicate,
        Self::TooOld,
        Self::Unconfirmed,
    ];

    /// A name for counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NoPublisher => "no_publisher",
            Self::UnknownSsrc => "unknown_ssrc",
            Self::SsrcFlood => "ssrc_flood",
            Self::RetiredSsrc => "retired_ssrc",
            Self::UnknownPayloadType => "unknown_payload_type",
            Self::Duplicate => "duplicate",
            Self::TooOld => "too_old",
            Self::Unconfirmed => "unconfirmed",
        }
    }
}

/// What RTCP of the publisher said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublisherNews {
    /// It said goodbye for all of its sources that have sent something.
    pub bye: bool,
}

/// How the publisher's packets of one track arrive; the worst of its layers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TrackReception {
    /// Packets that should have arrived, over all layers, since the publisher began.
    pub expected_packets: u64,
    /// Packets that arrived, retransmissions left out.
    pub received_packets: u64,
    /// Jitter of arrivals (RFC 3550 appendix A.8).
    pub jitter: Duration,
    /// Bits per second of the layer that is forwarded, over the last second.
    pub bits_per_second: u64,
    /// Layers of which something has arrived lately.
    pub live_layers: u8,
}

/// Totals of a stream on one worker, since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Packets taken in, whether forwarded or not.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that went to viewers.
    pub forwarded_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Packets that came by retransmission.
    pub repaired_packets: u64,
    /// Packets sent again to viewers.
    pub resent_packets: u64,
    /// Packets viewers asked for and did not get: too old, or asked for again too soon, or beyond the limit.
    pub refused_resends: u64,
    /// Packets the publisher was asked for again; each request counts.
    pub nacked_packets: u64,
    /// Key-frame requests sent to the publisher.
    pub key_frame_requests: u64,
    /// Key frames that began.
    pub key_frames: u64,
    /// Bits per second received over the last second.
    pub bits_per_second: u64,
    /// Packets in the histories.
    pub kept_packets: usize,
    /// Their payload bytes.
    pub kept_bytes: usize,
}

impl PacketStream {
    /// A stream nobody has published yet.
    pub fn new(limits: Limits, clock: WallClock) -> Self {
        Self {
            limits,
            clock,
            tracks: Default::default(),
            publisher: None,
            epoch: 0,
            pool: Pool::default(),
            viewers: Viewers::default(),
            shapes: Shapes::default(),
            forwards: Vec::new(),
            arrived: Vec::new(),
            templates: Vec::new(),
            joining: Vec::new(),
            parked: Vec::new(),
            has_new_entry: false,
            expires_at: None,
            first_reports: Vec::new(),
            first_reports_at: None,
            reported_at: None,
            reports_slot: 0,
            scratch: Vec::new(),
            stats: StreamStats::default(),
            rate: Rate::default(),
        }
    }

    /// A publisher begins. `epoch` tells its packets from those of others before, also on other workers: it must be
    /// higher for each publisher of the stream.
    pub fn publisher_started(&mut self, now: Instant, epoch: u64, mut input: PublisherInput) {
        self.publisher_ended(now);
        self.epoch = epoch;
        (self.has_new_entry, self.expires_at) = (true, None);
        let mut directory = Directory::new();
        let mut counts = [0; 2];
        for input in std::mem::take(&mut input.tracks) {
            let count = &mut counts[usize::from(input.kind == MediaKind::Video)];
            let Some(index) = TrackIndex::new(input.kind, *count) else { continue };
            *count += 1;
            let track = self.tracks[index.position()].get_or_insert_with(|| Box::new(Track::new(index)));
            track.start(input);
            directory.signalled(track);
        }
        let inputs = || self.tracks.iter().flatten().filter_map(|track| track.input.as_ref());
        let with_feedback = inputs().find(|input| input.transport_cc);
        let transport_cc_id = with_feedback.and_then(|input| input.extensions.id_of(Extension::TransportCc));
        self.publisher = Some(Box::new(Publisher {
            input,
            directory,
            clock: RemoteClock::default(),
            arrivals: transport_cc_id.map(|_| Arrivals::new(now)),
            transport_cc_id,
            started_at: now,
            round_trip: ROUND_TRIP_UNKNOWN,
            report_at: now + super::feedback::REPORT_INTERVAL,
            remb_at: now,
            estimate: super::feedback::Estimate::default(),
        }));
    }

    /// The publisher has gone. Its viewers stay; what it sent can still be sent again, but nobody begins with it.
    pub fn publisher_ended(&mut self, now: Instant) {
        self.publisher = None;
        for track in self.tracks.iter_mut().flatten() {
            track.end();
        }
        self.expires_at = Some(now + self.limits.history_duration);
    }

    /// Drops what nobody can ask for any more once a publisher has gone.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.expires_at.is_some_and(|at| at <= now) {
            for track in self.tracks.iter_mut().flatten() {
                track.history.clear(&mut self.pool);
            }
            self.pool.clear();
            self.expires_at = None;
        }
    }

    /// What else is known of the round trip to the publisher (from connectivity checks, say).
    pub fn set_publisher_round_trip(&mut self, round_trip: Duration) {
        if let Some(publisher) = &mut self.publisher {
            publisher.round_trip = round_trip;
        }
    }

    /// Takes in a packet of the publisher that has been authenticated: the plaintext of one RTP packet.
    ///
    /// # Errors
    /// [`DropReason`]; the packet changes nothing then, but for numbers that say that something was lost.
    pub fn receive(&mut self, now: Instant, rtp: &[u8]) -> Result<Received, DropReason> {
        let received = self.take_in(now, rtp);
        match received {
            Ok(_) => {
                self.stats.received_packets += 1;
                self.stats.received_bytes += rtp.len() as u64;
                self.rate.add(now, rtp.len());
            }
            Err(_) => self.stats.dropped_packets += 1,
        }
        received
    }

    fn take_in(&mut self, now: Instant, rtp: &[u8]) -> Result<Received, DropReason> {
        let packet = rtp::Packet::parse(rtp).map_err(|_| DropReason::Malformed)?;
        let publisher = self.publisher.as_mut().ok_or(DropReason::NoPublisher)?;
        publisher.note_arrival(now, &packet);
        let role = match publisher.directory.get(packet.ssrc()) {
            Some(role) => role,
            None => {
                publisher.directory.identify(&packet, &mut self.tracks).map_err(|no_role| match no_role {
                    NoRole::Unknown => DropReason::UnknownSsrc,
                    NoRole::TooMany => DropReason::SsrcFlood,
                })?
            }
        };
        let track = self.tracks[usize::from(role.track)].as_mut().ok_or(DropReason::UnknownSsrc)?;
        if role.is_retired && !publisher.directory.return_to(now, packet.ssrc(), role, track) {
            return Err(DropReason::RetiredSsrc);
        }
        let index = track.index;
        let Some((media, payload)) = Media::of(&packet, role, track)? else {
            return Ok(Received { track: index, forwarded: false });
        };
        let keep = self.limits.history_duration;
        let Some(identified) =
            identify(now, keep, &media, payload, self.epoch, track, publisher, &mut self.stats)?
        else {
            return Ok(Received { track: index, forwarded: false });
        };
        let extensions = track.input.as_ref().map(|input| input.extensions).unwrap_or_default();
        let elements = packet
            .extensions()
            .filter_map(|(id, data)| extensions.extension_of(id).map(|extension| (extension, data)));
        let taken = track.receive(now, &identified, (elements, payload), &self.limits, &mut self.pool);
        let forwarded = self.note_taken(index, taken)?;
        Ok(Received { track: index, forwarded })
    }

    /// Takes in a packet the home worker forwarded.
    ///
    /// # Errors
    /// [`DropReason::Duplicate`] and [`DropReason::TooOld`].
    pub fn receive_mirrored(&mut self, now: Instant, packet: &Arc<Packet>) -> Result<Received, DropReason> {
        let index = packet.track();
        let track = self.tracks[index.position()].get_or_insert_with(|| Box::new(Track::new(index)));
        let taken = track.receive_mirrored(packet, &self.limits, &mut self.pool);
        let forwarded = self.note_taken(index, taken)?;
        self.stats.received_packets += 1;
        self.stats.received_bytes += packet.payload().len() as u64;
        self.rate.add(now, packet.payload().len());
        Ok(Received { track: index, forwarded })
    }

    fn note_taken(&mut self, track: TrackIndex, taken: Taken) -> Result<bool, DropReason> {
        match taken {
            Taken::Forward(number) => {
                if self.arrived.len() >= TURN_PACKETS_MAX {
                    self.arrived.clear();
                }
                self.arrived.push((track, number));
                self.has_new_entry |= self.is_entry(track, number);
                self.stats.forwarded_packets += 1;
                Ok(true)
            }
            Taken::NotForwarded => Ok(false),
            Taken::Duplicate => Err(DropReason::Duplicate),
            Taken::TooOld => Err(DropReason::TooOld),
        }
    }

    /// Whether a viewer that waits may have something to begin with now.
    fn is_entry(&self, track: TrackIndex, number: u64) -> bool {
        let Some(track) = &self.tracks[track.position()] else { return false };
        match track.index.kind() {
            MediaKind::Audio => !self.parked.is_empty() && track.history.first() == number,
            MediaKind::Video => track.history.get(number).is_some_and(|kept| kept.packet.is_key_frame()),
        }
    }

    /// Takes in RTCP of the publisher that has been authenticated: a compound packet.
    pub fn receive_rtcp(&mut self, now: Instant, rtcp: &[u8]) -> PublisherNews {
        let mut news = PublisherNews::default();
        for packet in packets(rtcp).flatten() {
            match packet {
                Rtcp::SenderReport(report) => self.note_sender_report(now, report.ssrc, &report.info),
                Rtcp::Bye(bye) => news.bye |= self.is_last_bye(&bye),
                _ => {}
            }
        }
        news
    }

    fn note_sender_report(&mut self, now: Instant, ssrc: u32, info: &rtp::rtcp::SenderInfo) {
        let Some(publisher) = &mut self.publisher else { return };
        let Some(role) = publisher.directory.get(ssrc).filter(|role| !role.is_repair && !role.is_retired)
        else {
            return;
        };
        let track = self.tracks[usize::from(role.track)].as_mut();
        let Some(source) = track.and_then(|track| track.sources.get_mut(usize::from(role.layer))) else {
            return;
        };
        source.reception.note_sender_report(info.ntp.middle(), now);
        // A sender that does not know the time says 0 (RFC 3550 section 6.4.1).
        if info.ntp.0 != 0 {
            source.sender_report = Some((publisher.clock.instant_of(info.ntp, now), info.rtp_timestamp));
        }
    }

    fn is_last_bye(&mut self, bye: &rtp::rtcp::Bye<'_>) -> bool {
        let mut is_known = false;
        for ssrc in bye.ssrcs() {
            for source in self.tracks.iter_mut().flatten().flat_map(|track| &mut track.sources) {
                if source.ssrc == Some(ssrc) {
                    is_known = true;
                    source.last_arrival = None;
                    source.nacks.clear();
                }
            }
        }
        let mut sources = self.tracks.iter().flatten().flat_map(|track| &track.sources);
        is_known && sources.all(|source| source.last_arrival.is_none())
    }

    /// A key frame is wanted of a track: asked of the publisher at most twice a second. On a mirror it becomes a wish
    /// ([`PacketStream::poll_key_frame_wish`]).
    pub fn request_key_frame(&mut self, now: Instant, track: TrackIndex) {
        if let Some(track) = self.tracks[track.position()].as_mut() {
            track.want_key_frame(now);
        }
    }

    /// A track of which a mirror wants a key frame, each wish once. The caller tells the home.
    pub fn poll_key_frame_wish(&mut self) -> Option<TrackIndex> {
        let track = self.tracks.iter_mut().flatten().find(|track| track.wishes_key_frame)?;
        track.wishes_key_frame = false;
        Some(track.index)
    }

    /// What a new mirror begins with: the cached packets, each track in order.
    pub fn cached(&self, now: Instant) -> impl Iterator<Item = &Arc<Packet>> {
        self.tracks.iter().flatten().flat_map(move |track| {
            let from = track.history.entry(now, now, &self.limits).unwrap_or(u64::MAX);
            track.history.from(from).map(|kept| &kept.packet)
        })
    }

    /// Packets that arrived since the last turn, with headers made, and the viewers. End it with
    /// [`PacketStream::end_turn`].
    pub fn turn(&mut self) -> Turn<'_> {
        self.prepare();
        let packets =
            TurnPackets { forwards: &self.forwards, templates: &self.templates, shapes: &self.shapes };
        Turn { packets, viewers: &mut self.viewers }
    }

    fn prepare(&mut self) {
        if self.limits.equalise_runs {
            self.equalise();
        }
        for (track, number) in self.arrived.drain(..) {
            let kept = self.tracks[track.position()].as_ref().and_then(|track| track.history.get(number));
            // A burst larger than the history has already lost its beginning.
            let Some(Kept { packet, timestamp }) = kept else { continue };
            let forward = Forward { track, number, timestamp: *timestamp, packet: Arc::clone(packet) };
            let sequence_number = number as u16;
            let to = Addressing { ssrc: 0, sequence_number, timestamp: *timestamp, is_squeezed: false };
            let start = self.templates.len();
            self.templates.resize(start + self.shapes.len(), Template::EMPTY);
            for (shape, template) in self.shapes.iter().zip(&mut self.templates[start..]) {
                let len = shape.and_then(|shape| shape.header(packet, to, &mut template.bytes));
                template.len = len.unwrap_or(0) as u16;
            }
            self.forwards.push(forward);
        }
    }

    /// Pads packets that are one byte shorter than the longest of their frame. Packetisers cut frames into parts that
    /// differ by a byte, and only equal datagrams leave in one run.
    fn equalise(&mut self) {
        let mut rest = &self.arrived[..];
        while let Some((index, first)) = rest.first() {
            let Some(track) = self.tracks[index.position()].as_mut() else { return };
            let timestamp = track.history.get(*first).map(|kept| kept.timestamp);
            let shown = |(of, number): &&(TrackIndex, u64)| {
                of == index && track.history.get(*number).map(|kept| kept.timestamp) == timestamp
            };
            let (frame, others) = rest.split_at(rest.iter().take_while(shown).count().max(1));
            rest = others;
            if index.kind() == MediaKind::Video {
                let len_of = |number| track.history.get(number).map_or(0, |kept| kept.packet.sent_len());
                let longest = frame.iter().map(|(_, number)| len_of(*number)).max().unwrap_or(0);
                for (_, number) in frame {
                    if track.history.get(*number).is_some_and(|kept| kept.packet.sent_len() + 1 == longest) {
                        track.history.pad(*number);
                    }
                }
            }
        }
    }

    /// Ends the turn: what it held has been sent.
    pub fn end_turn(&mut self) {
        self.arrived.clear();
        self.forwards.clear();
        self.templates.clear();
    }

    /// Whether packets have arrived that no turn has handed out.
    pub fn has_arrivals(&self) -> bool {
        !self.arrived.is_empty() || !self.forwards.is_empty()
    }

    /// How packets of a track arrive from the publisher; `None` on a mirror, and without a publisher.
    pub fn reception(&self, now: Instant, track: TrackIndex) -> Option<TrackReception> {
        let track = self.tracks[track.position()].as_ref()?;
        let clock_rate = track.clock_rate.max(8_000);
        let held = track.numbering.source().map_or(0, |source| usize::from(source.layer));
        let mut reception = TrackReception {
            bits_per_second: track.sources.get(held)?.bits_per_second(),
            ..Default::default()
        };
        for source in &track.sources {
            let (expected, received) = source.reception.totals();
            reception.expected_packets += expected;
            reception.received_packets += received;
            reception.jitter = reception.jitter.max(source.reception.jitter(clock_rate));
            reception.live_layers += u8::from(source.is_live(now));
        }
        Some(reception)
    }

    /// Round trip to the publisher, as far as known.
    pub fn publisher_round_trip(&self) -> Option<Duration> {
        self.publisher.as_ref().map(|publisher| publisher.round_trip)
    }

    /// Totals.
    pub fn stats(&self) -> StreamStats {
        let tracks = || self.tracks.iter().flatten();
        StreamStats {
            kept_packets: tracks().map(|track| track.history.packets()).sum(),
            kept_bytes: tracks().map(|track| track.history.bytes()).sum(),
            bits_per_second: self.rate.bits_per_second,
            ..self.stats
        }
    }
}

impl Publisher {
    fn note_arrival(&mut self, now: Instant, packet: &rtp::Packet<'_>) {
        if let (Some(arrivals), Some(id)) = (&mut self.arrivals, self.transport_cc_id)
            && let Some((_, data)) = packet.extensions().find(|(known, _)| *known == id)
            && let Some(number) = data.first_chunk()
        {
            arrivals.note(now, u16::from_be_bytes(*number));
        }
    }
}

/// A packet of the media, taken out of its retransmission if it came in one.
#[derive(Debug, Clone, Copy)]
struct Media {
    role: Role,
    format: TrackPayload,
    sequence_number: u16,
    timestamp: u32,
    marker: bool,
    is_padding: bool,
    bytes: usize,
}

impl Media {
    /// `None` for retransmissions that hold nothing: publishers probe with them.
    fn of<'a>(
        packet: &rtp::Packet<'a>,
        role: Role,
        track: &Track,
    ) -> Result<Option<(Self, &'a [u8])>, DropReason> {
        let payloads = track.input.as_ref().map_or(&[][..], |input| &input.payloads);
        let payload_type = Some(packet.payload_type());
        let (sequence_number, payload, format) = if role.is_repair {
            let format = payloads.iter().find(|payload| payload.rtx == payload_type);
            let format = format.ok_or(DropReason::UnknownPayloadType)?;
            let Some((original, payload)) = rtp::rtx::unwrap(packet.payload()) else { return Ok(None) };
            (original, payload, format)
        } else {
            let format = payloads.iter().find(|payload| Some(payload.payload_type) == payload_type);
            (packet.sequence_number(), packet.payload(), format.ok_or(DropReason::UnknownPayloadType)?)
        };
        let media = Self {
            role,
            format: *format,
            sequence_number,
            timestamp: packet.timestamp(),
            marker: packet.marker(),
            is_padding: payload.is_empty(),
            bytes: packet.bytes().len(),
        };
        Ok(Some((media, payload)))
    }
}

/// Counts the packet for its source and gives it its extended number. `None` for one that is not wanted.
fn identify(
    now: Instant,
    keep: Duration,
    media: &Media,
    payload: &[u8],
    epoch: u64,
    track: &mut Track,
    publisher: &mut Publisher,
    stats: &mut StreamStats,
) -> Result<Option<Identified>, DropReason> {
    let Some(source) = track.sources.get_mut(usize::from(media.role.layer)) else {
        return Err(DropReason::UnknownSsrc);
    };
    let nack = track.input.as_ref().is_some_and(|input| input.nack);
    let highest = source.reception.highest();
    let taken = if media.role.is_repair {
        source.reception.take_repair(media.sequence_number)
    } else {
        source.reception.take(media.sequence_number)
    };
    let sequence = match taken {
        Sequence::Fresh(sequence) => sequence,
        Sequence::Anew(sequence) => {
            source.begin_anew(now);
            sequence
        }
        Sequence::Duplicate => return Err(DropReason::Duplicate),
        Sequence::Unconfirmed => return Err(DropReason::Unconfirmed),
    };
    let is_late = highest.is_some_and(|highest| sequence < highest);
    let skips =
        highest.filter(|highest| nack && matches!(taken, Sequence::Fresh(_)) && sequence > highest + 1);
    if let Some(highest) = skips {
        // What was lost in a long silence, or is too much to ask for, is not repaired: the output goes on without a gap
        // at the next key frame, and no viewer asks for what cannot come.
        let silent = source.last_arrival.is_some_and(|last| now.saturating_duration_since(last) > keep);
        if silent || !source.nacks.skipped(now, highest + 1, sequence) {
            source.begin_anew(now);
        }
    }
    if let Some(found) = source.nacks.arrived(now, sequence).filter(|_| is_late) {
        stats.repaired_packets += u64::from(found.was_asked);
        publisher.note_round_trip(found.round_trip);
    }
    if !media.role.is_repair {
        source.arrived(now, media.bytes);
        if !media.is_padding {
            source.reception.measure_jitter(media.timestamp, now, media.format.clock_rate);
        }
    }
    // What cannot be read (end-to-end encrypted, say) is passed through; only its key frames are not known.
    let info = rtp::payload::inspect(media.format.codec, payload, media.marker);
    let info = info.unwrap_or(PayloadInfo { key_frame: false, ..PayloadInfo::default() });
    if info.key_frame && info.starts_frame && media.format.codec.kind() == MediaKind::Video {
        source.key_frames.satisfied();
        stats.key_frames += 1;
    }
    Ok(Some(Identified {
        generation: source.generation,
        layer: media.role.layer,
        epoch,
        sequence,
        timestamp: media.timestamp,
        marker: media.marker,
        is_padding: media.is_padding,
        format: media.format,
        info,
        may_guess: publisher.may_guess(now),
    }))
}

impl Publisher {
    fn may_guess(&self, now: Instant) -> bool {
        !self.clock.is_known() && now.saturating_duration_since(self.started_at) >= GUESS_AFTER
    }

    fn note_round_trip(&mut self, measured: Option<Duration>) {
        if let Some(measured) = measured {
            // As RFC 6298 smooths it.
            self.round_trip = (self.round_trip * 7 + measured.min(ROUND_TRIP_MAX)) / 8;
        }
    }
}

/// Packets of one turn. More than a receive batch holds; a caller that takes no turns loses them, and nothing grows.
const TURN_PACKETS_MAX: usize = 8_192;
/// A publisher that has not reported by then is not expected to. Browsers report within the first second.
const GUESS_AFTER: Duration = Duration::from_secs(5);
/// Round trip to a publisher before anything tells.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(100);
/// Longest that is believed.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);
