//! A publisher and a viewer by WebRTC, built on the client of `rtc-test`.
//!
//! What control does with an offer is done here: the offer is answered, and a worker is asked to open the
//! session.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use netsim::kernel::{self, EventQueue, Interest, UdpSocket};
use netsim::{FastMap, Random};
use rtc::Timeouts;
use rtc::dtls::{Fingerprint, FingerprintHash};
use rtc::sdp::{Direction, IceCredentials, OfferConfig, RemoteAnswer};
use rtc_test::{Answered, Client, OPUS, OfferOptions, VP8, VP8_RTX, audio_fields, video_fields, vp8_frame};
use rtp::HeaderFields;
use rtp::extension::{BLOCK_LEN_MAX, BlockWriter, Extension, Form};
use rtp::payload::Codec;
use rtp::rtcp::{Rtcp, packets};
use tokio::sync::oneshot;
use worker_api::command::Command;
use worker_api::rtc::{LayerChoice, LayerRequest, RtcOpen, RtcRefusal, RtcRole};
use worker_api::snapshot::SessionId;
use worker_api::streams::{Published, WebrtcAvailability};

use super::cluster::SHARED_FROM;
use super::pictures::Pictures;
use super::{Actor, Leave, Next, ms, storm};
use crate::ledger::{Ledger, StreamKey};

/// Milliseconds between two audio packets; every second one comes with a picture.
const PACKET_MS: u64 = 20;
/// What an audio packet lasts at 48 kHz, and a picture, every second packet, at 90 kHz.
const AUDIO_UNITS: u32 = 960;
const PICTURE_UNITS: u32 = 3_600;
/// Pictures from one key frame to the next.
const GOP: u32 = 50;

/// What a publisher with layers calls them, the ids of MID and RID, and the first of their SSRCs.
const RIDS: [&str; 3] = ["f", "h", "q"];
const MID_ID: u8 = 1;
const RID_ID: u8 = 10;
const LAYER_SSRC: u32 = 0x0b00_0000;
/// Pictures during which one of the layers is off, and none of the next ones is.
const OFF_PICTURES: u32 = 75;
/// Pictures that a viewer may be behind others that change layers: two groups, a layer that dies, and a
/// change.
const LAYERED_PICTURES: u32 = 2 * GOP + 75;

/// Longest time from a new address until media goes there: two checks of consent, and one by the server.
const MOVE_MAX: Duration = Duration::from_secs(15);
/// Longest time for somebody with a wrong certificate to be out.
const IMPOSTOR_MAX: Duration = Duration::from_secs(20);

/// Longest time from the answer until ICE and DTLS are done, on a good path.
const CONNECT_MAX: Duration = Duration::from_secs(4);

/// Seeds of DTLS sessions: few, since a session with another one than those before takes a millisecond more.
const DTLS_SEEDS: u64 = 8;

/// What one does.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which stream.
    pub key: StreamKey,
    /// At which server: that of the stream, or another of its cluster.
    pub at: usize,
    /// From where.
    pub from: IpAddr,
    /// Publish or play.
    pub role: RtcRole,
    /// How long, from the connection on.
    pub lasts: Duration,
    /// And then.
    pub leave: Leave,
    /// Its path loses neither packets nor time.
    pub is_steady: bool,
    /// When its address changes, after it began, and to which: another port of the same host, or
    /// another host.
    pub moves: Option<(Duration, IpAddr)>,
    /// Its path loses nothing but what is under way when its address changes.
    pub goes_on: bool,
    /// Asks for a key frame all the time.
    pub is_greedy: bool,
    /// It plays what is published by RTMP: H.264, through a bridge.
    pub is_bridged: bool,
    /// Somebody sends packets in its name, without its keys.
    pub is_forged: bool,
    /// It sends RTCP that no viewer should, all the time, from this seed on.
    pub storms: Option<u64>,
    /// The stream has simulcast layers; a viewer asks for another one now and then, from this seed on.
    pub layers: Option<u64>,
    /// The certificate of its offer is somebody else's: it never gets any media.
    pub is_impostor: bool,
}

/// A publisher or viewer.
pub struct RtcClient {
    plan: Plan,
    who: String,
    queue: EventQueue,
    socket: UdpSocket,
    offer: Option<(OfferConfig, RemoteAnswer)>,
    opening: Option<oneshot::Receiver<Result<SessionId, RtcRefusal>>>,
    worker: usize,
    dtls_seed: u64,
    session: Option<SessionId>,
    client: Option<Client>,
    began: Instant,
    opened: Option<Instant>,
    connected: Option<Instant>,
    publication: Option<u64>,
    number: u32,
    next_packet: Instant,
    next_report: Instant,
    next_sign_of_life: Instant,
    seen: Seen,
    pictures: Pictures,
    /// When its address changed, until media has to be there again; and when that was.
    moved: Option<Instant>,
    settled: Option<Instant>,
    storm: Option<Random>,
    layers: Option<Random>,
    next_layer: Instant,
    counts: Counts,
    came: Instant,
    /// When it asks again for what was not there.
    asks_again: Instant,
    /// When it is looked at next whether it is in time.
    next_check: Instant,
    /// How often its server had let the stream go when it came.
    let_go: u64,
    leaving: bool,
}

/// What a viewer got. Audio leaves a worker before video, so that one track may be at the next publication
/// already while the other is not.
#[derive(Debug, Default)]
struct Seen {
    audio: Track,
    video: Track,
    last_sequence: Option<u16>,
    lost: Vec<u16>,
}

/// What a server may not do too often.
#[derive(Debug, Default)]
struct Counts {
    /// Bytes of packets that a viewer got, and of those that were sent again.
    media_bytes: u64,
    resent_bytes: u64,
    /// Key frames that a publisher was asked for.
    key_frames: u64,
}

/// Where a packet stands in a track of RTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    sequence: u16,
    timestamp: u32,
}

impl Place {
    fn of(packet: &rtp::Packet<'_>) -> Self {
        Self { sequence: packet.sequence_number(), timestamp: packet.timestamp() }
    }

    /// Whether this is where the packet belongs that follows the one there, which lasts for `units`; of a
    /// group of pictures that a viewer begins with, for less: it is to be shown at once.
    fn follows(self, before: Self, units: u32, is_of_start: bool) -> bool {
        let is_behind = (self.sequence.wrapping_sub(before.sequence) as i16) > 0;
        let apart = self.timestamp.wrapping_sub(before.timestamp);
        is_behind && (apart == units || is_of_start && (1..units).contains(&apart))
    }
}

/// What it got of a track.
#[derive(Debug, Default)]
struct Track {
    /// The publication.
    id: u64,
    /// Publications before it.
    past: Vec<u64>,
    /// Places of the packets, by what the publisher has numbered.
    places: FastMap<u32, Place>,
    /// The first one.
    first: u32,
    /// Behind the first one and all that follow it without a gap.
    whole: Option<u32>,
}

impl Track {
    /// How many of a publication it has, up to the first that is missing.
    fn has(&mut self) -> u32 {
        let Some(whole) = &mut self.whole else { return 0 };
        while self.places.contains_key(whole) {
            *whole += 1;
        }
        *whole
    }

    /// Of pictures: the first group need not be whole. The node may have got parts of it before the first
    /// packet of the key frame, which are not shown then.
    fn skip_first_group(&mut self, old: u32) -> u32 {
        let next = (self.first / GOP + 1) * GOP;
        if old <= next {
            return 0;
        }
        self.whole = self.whole.map(|whole| whole.max(next));
        old
    }
}

impl RtcClient {
    /// One that sends its offer now.
    pub fn new(ledger: &mut Ledger, plan: Plan) -> Self {
        let queue = EventQueue::new();
        let socket = bind(&queue, plan.from);
        let now = kernel::now();
        let who = format!("WebRTC {:?} {} of {:?}", plan.role, plan.from, plan.key);
        let storm = plan.storms.map(Random::new);
        let layers = plan.layers.map(Random::new);
        let mut this = Self {
            plan,
            who,
            queue,
            socket,
            offer: None,
            opening: None,
            worker: 0,
            dtls_seed: 0,
            session: None,
            client: None,
            began: now,
            opened: None,
            connected: None,
            publication: None,
            number: 0,
            next_packet: now,
            next_report: now,
            next_sign_of_life: now,
            seen: Seen::default(),
            pictures: Pictures::default(),
            moved: None,
            settled: None,
            storm,
            layers,
            next_layer: now,
            counts: Counts::default(),
            came: now,
            asks_again: now,
            next_check: now,
            let_go: 0,
            leaving: false,
        };
        this.let_go = this.times_let_go(ledger);
        this.open(ledger);
        this
    }

    /// Makes an offer, answers it as control does, and asks a worker to open the session.
    fn open(&mut self, ledger: &mut Ledger) {
        let local = self.socket.local_addr().expect("its address");
        let direction = match self.plan.role {
            RtcRole::Publish => Direction::Send,
            RtcRole::Play => Direction::Receive,
        };
        let video = self.plan.is_bridged.then_some(Codec::H264);
        let fingerprint = self.plan.is_impostor.then(|| Fingerprint::of(FingerprintHash::Sha256, b"nobody"));
        let options = OfferOptions { video, fingerprint, ..OfferOptions::default() };
        let mut offer = rtc_test::offer(direction, local, &options);
        if self.plan.role == RtcRole::Publish && self.plan.layers.is_some() {
            let video = &mut offer.media[1];
            video.rids = RIDS.map(str::to_owned).to_vec();
            video.sources.clear();
            video.extensions.set(RID_ID, Extension::Rid);
        }
        let worker = ledger.random.below(ledger.servers[self.plan.at].handles.len() as u64) as usize;
        let (ufrag, password) = (ledger.random.next_u64(), ledger.random.next_u64());
        let ice = IceCredentials::new(&format!("{ufrag:016x}"), &format!("{password:032x}")).expect("digits");
        let view = &ledger.servers[self.plan.at];
        let key = format!("live/{}", self.plan.key.name());
        let ports = &view.rtc[worker].udp;
        let udp = ports[ufrag as usize % ports.len()];
        let published = (view.published)(&key);
        let viewed = match (self.plan.role, &published) {
            (RtcRole::Publish, _) => None,
            // So control answers.
            (RtcRole::Play, Published::Frames(_)) if !view.bridges => return,
            (
                RtcRole::Play,
                Published::Packets(tracks) | Published::Frames(WebrtcAvailability::Tracks(tracks, _)),
            ) => Some(&**tracks),
            (RtcRole::Play, _) => return,
        };
        let answered = rtc_test::answer(&offer, ice, &[udp], viewed);
        let Some(Answered { answer, remote, mut peer }) = answered else { return };
        peer.dtls.handshake_timeout = ms(15_000);
        peer.dtls.seed = Some(ufrag % DTLS_SEEDS);
        peer.timeouts = Timeouts { ice: ms(15_000), dtls: ms(15_000), ..Timeouts::default() };
        let (reply, opening) = oneshot::channel();
        let open = RtcOpen {
            role: self.plan.role,
            app: "live".to_owned(),
            stream: self.plan.key.name(),
            address: local,
            user_agent: None,
            peer,
            tracks: answer.tracks,
            published: answer.published,
            bits_per_second_max: None,
            height_max: None,
            until: None,
            admission: None,
            time_over: None,
            uses: None,
            trace: None,
            reply,
        };
        (self.worker, self.dtls_seed) = (worker, password % DTLS_SEEDS);
        let is_sent = view.handles[worker].send(Command::RtcOpen(Box::new(open))).is_ok();
        if self.plan.role == RtcRole::Publish {
            ledger.attempt(self.plan.key);
        }
        if is_sent {
            if ledger.has_strangers {
                let user_name = format!("{}:{}", remote.remote.ice.ufrag, offer.ice.ufrag);
                ledger.user_names.push(user_name);
            }
            self.opening = Some(opening);
            self.offer = Some((offer, remote));
        }
    }

    /// Whether its server may end it or refuse it, though it does all that it should.
    fn may_be_ended(&self, ledger: &Ledger) -> bool {
        match self.plan.role {
            RtcRole::Publish => ledger.may_end_publisher(self.plan.key),
            // Bridges come and go with the tracks that they make, and streams with links.
            RtcRole::Play => {
                self.plan.is_bridged
                    || ledger.has_broken_links
                    || ledger.may_end_player(self.plan.key, self.plan.at)
            }
        }
    }

    /// How often its server has let the stream go that it had from another node.
    fn times_let_go(&self, ledger: &Ledger) -> u64 {
        let stream = (self.plan.at, format!("live/{}", self.plan.key.name()));
        ledger.let_go.get(&stream).copied().unwrap_or(0)
    }

    /// Takes the media that has come.
    fn receive(&mut self, ledger: &mut Ledger) {
        let Some(client) = &mut self.client else { return };
        let media: Vec<Vec<u8>> = client.media.drain(..).collect();
        for report in client.reports.drain(..) {
            let asks = |packet: &Result<Rtcp<'_>, _>| matches!(packet, Ok(Rtcp::Pli(_) | Rtcp::Fir(_)));
            self.counts.key_frames += packets(&report).filter(asks).count() as u64;
        }
        let seconds = self.connected.map_or(0, |since| (kernel::now() - since).as_secs());
        let Counts { media_bytes, resent_bytes, key_frames } = self.counts;
        let who = &self.who;
        // Two a second of each layer, and in some seconds those of one before that were late.
        let layers = if self.plan.layers.is_some() { RIDS.len() as u64 } else { 1 };
        ledger.check(key_frames <= layers * (2 * seconds + 6), || {
            format!("{who}: asked for {key_frames} key frames in {seconds} s")
        });
        // Of what it got 30 %, or two packets. On a bad path it has not got all that was sent.
        let most = media_bytes * 3 / 10 + 2 * 1_300;
        ledger.check(resent_bytes <= most || !self.plan.is_steady, || {
            format!("{who}: {resent_bytes} bytes again in {seconds} s, {media_bytes} of media")
        });
        let is_right = media.is_empty() || !self.plan.is_impostor;
        ledger.check(is_right, || format!("{who}: media for a certificate that is not its own"));
        for packet in media {
            let Ok(packet) = rtp::Packet::parse(&packet) else {
                ledger.violation(format!("{}: not an RTP packet", self.who));
                continue;
            };
            let payload = packet.payload();
            let is_again = packet.payload_type() == VP8_RTX;
            let count = if is_again { &mut self.counts.resent_bytes } else { &mut self.counts.media_bytes };
            *count += payload.len() as u64;
            match packet.payload_type() {
                VP8 if self.plan.is_bridged => {
                    let sequence = packet.sequence_number();
                    self.note_sequence(sequence);
                    self.pictures.packet(sequence, payload);
                }
                VP8_RTX if self.plan.is_bridged && payload.len() > 2 => {
                    let sequence = u16::from_be_bytes([payload[0], payload[1]]);
                    self.pictures.packet(sequence, &payload[2..]);
                }
                OPUS if self.plan.is_bridged => {
                    ledger.violation(format!("{}: audio that nobody transcodes", self.who));
                }
                OPUS => self.media(ledger, payload, false, (Place::of(&packet), false)),
                VP8 => {
                    let place = Place::of(&packet);
                    self.note_sequence(place.sequence);
                    self.media(ledger, payload, true, (place, false));
                }
                // A probe for the bandwidth, or a resent packet behind its own sequence number.
                VP8_RTX if payload.len() > 2 => {
                    let sequence = u16::from_be_bytes([payload[0], payload[1]]);
                    let place = Place { sequence, ..Place::of(&packet) };
                    self.media(ledger, &payload[2..], true, (place, true));
                }
                VP8_RTX => {}
                other => ledger.violation(format!("{}: payload type {other}", self.who)),
            }
            self.pictures.check(ledger, &self.plan, &self.who);
        }
    }

    fn note_sequence(&mut self, sequence: u16) {
        if let Some(last) = self.seen.last_sequence {
            let ahead = sequence.wrapping_sub(last);
            if (2..100).contains(&ahead) {
                self.seen.lost.extend((1..ahead).map(|step| last.wrapping_add(step)));
            }
            if ahead > 0x8000 {
                return;
            }
        }
        self.seen.last_sequence = Some(sequence);
    }

    /// Takes in a packet, and whether it was sent again.
    fn media(
        &mut self,
        ledger: &mut Ledger,
        payload: &[u8],
        is_video: bool,
        (place, is_resent): (Place, bool),
    ) {
        let who = &self.who;
        let at = match (is_video, payload) {
            (false, _) => 4,
            // Whether it is a key frame is the lowest bit of the frame tag, inverted.
            (true, [_, tag, ..]) if tag & 1 == 0 => 11,
            (true, _) => 4,
        };
        let number = payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        let id = payload.get(at + 4..at + 12).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let Some((number, id)) = number.zip(id) else {
            return ledger.violation(format!("{who}: {} bytes of nobody", payload.len()));
        };
        let Some(record) = ledger.rtc.get(&id) else {
            return ledger.violation(format!("{who}: a packet of publication {id}, which never was"));
        };
        let (of, from, is_steady) = (record.key, record.at, record.is_steady);
        let is_layered = record.is_layered;
        let sent = if is_video { record.video } else { record.audio.len() as u32 };
        let right = if is_video { video_payload(id, number) } else { audio_payload(id, number) };
        ledger.check(of == self.plan.key, || format!("{who}: a packet of {of:?}"));
        ledger.check(number < sent, || format!("{who}: packet {number} of {id} before it was sent"));
        ledger.check(right == payload, || format!("{who}: packet {number} of {id} is another"));
        let comes_again = self.times_let_go(ledger) > self.let_go;
        let seen = if is_video { &mut self.seen.video } else { &mut self.seen.audio };
        if id < seen.id && (is_resent || !self.plan.is_steady) {
            // It was late, or this viewer has asked for it, before the next publication began.
            return;
        }
        if seen.id != id {
            // Of two nodes that published it at once, one goes on.
            let is_right = id > seen.id || self.plan.key.stream >= SHARED_FROM && !seen.past.contains(&id);
            let which = if is_video { "video" } else { "audio" };
            ledger.check(is_right, || format!("{who}: {which} of publication {id} comes again"));
            seen.past.push(seen.id);
            *seen = Track { id, past: std::mem::take(&mut seen.past), ..Track::default() };
        }
        // Again under the same number is a repetition, which may overtake what it repeats. Where layers meet
        // there may be a picture of each.
        let may_move = comes_again || is_layered && is_video;
        let before = seen.places.insert(number, place);
        let is_right = before.is_none_or(|before| before == place || may_move);
        ledger.check(is_right, || {
            format!("{who}: packet {number} of {id} is {place:?}, and {before:?} before")
        });
        // Those of the publisher on both sides of it are on the same sides here, as far away.
        let units = if is_video { PICTURE_UNITS } else { AUDIO_UNITS };
        let earlier = number.checked_sub(1).and_then(|number| seen.places.get(&number).copied());
        let later = seen.places.get(&(number + 1)).copied();
        // Who falls behind begins again; and of a group a key frame may be missing, so that it is two.
        let begins_once = self.plan.is_steady && self.plan.moves.is_none() && self.plan.storms.is_none();
        let is_of_start = is_video && (!begins_once || seen.whole.is_none() || number < seen.first + 2 * GOP);
        let is_right = may_move
            || earlier.is_none_or(|earlier| place.follows(earlier, units, is_of_start))
                && later.is_none_or(|later| later.follows(place, units, is_of_start));
        ledger.check(is_right, || {
            format!("{who}: packet {number} of {id} is {place:?}, between {earlier:?} and {later:?}")
        });
        ledger.packets_received += 1;
        if seen.whole.is_none() {
            (seen.first, seen.whole) = (number, Some(number));
            let comes_well = self.plan.at == from || ledger.has_good_links;
            let may_begin = !is_video || at == 11 || !comes_well || !self.plan.is_steady || !is_steady;
            ledger.check(may_begin, || format!("{who}: begins with picture {number} of {id}, no key frame"));
        }
    }

    /// A viewer on a good path has what is older than some seconds: all that followed its first packet.
    fn is_in_time(&mut self, ledger: &mut Ledger) {
        // What comes from another node comes later, to a new viewer and when its publisher has come, and what
        // was lost there comes again.
        let live = ledger.rtc.values().rev().find(|record| record.key == self.plan.key);
        let is_far = live.is_some_and(|record| record.at != self.plan.at);
        if is_far && (ledger.has_broken_links || self.times_let_go(ledger) > self.let_go) {
            return;
        }
        let far = if is_far { ms(2_000) } else { Duration::ZERO };
        let (now, most) = (kernel::now(), ms(2_500) + far + ledger.slack);
        let settled = ms(3_000) + far + ledger.slack;
        let is_new = self.connected.is_none_or(|since| now < since + settled);
        if ledger.is_draining || ledger.loses_between_workers || is_new {
            return;
        }
        if self.plan.is_bridged {
            return self.pictures.are_in_time(ledger, self.plan.key, &self.who, self.connected);
        }
        let mut live = ledger.rtc.iter().filter(|(_, record)| record.key == self.plan.key);
        let Some((&id, record)) = live.next_back().filter(|(_, record)| record.ended.is_none()) else {
            return;
        };
        if !record.is_steady || record.audio.first().is_none_or(|first| now < *first + settled) {
            return;
        }
        let old = record.audio.partition_point(|sent| *sent + most <= now) as u32;
        // Every second packet comes with a picture. One that has just come begins with the next key frame.
        let since = self.connected.max(record.audio.first().copied());
        let has_begun = since.is_some_and(|since| now > since + settled + ms(u64::from(GOP) * 2 * PACKET_MS));
        let mut pictures = if has_begun { old / 2 } else { 0 };
        if is_far && !ledger.has_good_links && self.seen.video.id == id {
            pictures = self.seen.video.skip_first_group(pictures);
        }
        if record.is_layered {
            // Who changes layers misses pictures, but not for long: there is a key frame every two seconds,
            // and a layer that is off is replaced within one.
            let recent = pictures.saturating_sub(LAYERED_PICTURES);
            let has =
                self.seen.video.id == id && self.seen.video.places.keys().any(|number| *number >= recent);
            ledger.check(has || recent == 0, || format!("{}: no picture from {recent} on of {id}", self.who));
            pictures = 0;
        }
        for (track, old, which) in
            [(&mut self.seen.audio, old, "packets"), (&mut self.seen.video, pictures, "pictures")]
        {
            let has = if track.id == id { track.has() } else { 0 };
            ledger.check(has >= old, || format!("{}: has {has} of {old} {which} of {id}", self.who));
        }
    }

    fn send(&mut self, ledger: &mut Ledger) {
        let Some(client) = &mut self.client else { return };
        let now = kernel::now();
        let remote = client.remote();
        match self.plan.role {
            RtcRole::Publish => {
                let key = self.plan.key;
                let id = *self.publication.get_or_insert_with(|| {
                    ledger.publish_rtc(key, self.plan.at, self.plan.is_steady, self.plan.layers.is_some())
                });
                while self.next_packet <= now {
                    let Some(record) = ledger.rtc.get_mut(&id) else { return };
                    let audio = client.protect(audio_fields(self.number), &audio_payload(id, self.number));
                    record.audio.push(now);
                    if self.plan.is_forged {
                        let mut forged = audio.clone();
                        let end = forged.len() - 1;
                        forged[end] ^= 1;
                        self.socket.send_to(forged, remote);
                    }
                    self.socket.send_to(audio, remote);
                    if self.number.is_multiple_of(2) {
                        let picture = self.number / 2;
                        // 25 of them in a second.
                        let timestamp = picture.wrapping_mul(PICTURE_UNITS);
                        let fields = HeaderFields { timestamp, ..video_fields(picture) };
                        record.video = picture + 1;
                        let payload = video_payload(id, picture);
                        if self.plan.layers.is_none() {
                            let video = client.protect(fields, &payload);
                            self.socket.send_to(video, remote);
                        }
                        for (layer, rid) in (0..).zip(RIDS).filter(|_| self.plan.layers.is_some()) {
                            // One after the other is off for a while, but not the first.
                            if layer > 0 && picture / OFF_PICTURES % 4 == layer {
                                continue;
                            }
                            let mut block = [0; BLOCK_LEN_MAX];
                            let mut writer = BlockWriter::new(&mut block, Form::OneByte);
                            writer.push(MID_ID, b"1").expect("room");
                            writer.push(RID_ID, rid.as_bytes()).expect("room");
                            let len = writer.finish();
                            let fields = HeaderFields { ssrc: LAYER_SSRC + layer, ..fields };
                            let video = client.protect_with(fields, &block[..len], &payload);
                            self.socket.send_to(video, remote);
                        }
                    }
                    self.number += 1;
                    self.next_packet += ms(PACKET_MS);
                }
            }
            RtcRole::Play => {
                if let Some(random) = &mut self.storm {
                    let tracks = client.answer.tracks.iter().flatten();
                    let sources: Vec<u32> =
                        tracks.flat_map(|track| &track.sources).map(|source| source.ssrc).collect();
                    let ssrc = match random.below(sources.len() as u64 + 1) as usize {
                        at if at < sources.len() => sources[at],
                        _ => random.next_u64() as u32,
                    };
                    let last = self.seen.last_sequence.unwrap_or(0);
                    let packet = client.protect_rtcp(&storm::compound(random, ssrc, last));
                    self.socket.send_to(packet, remote);
                }
                if let Some(random) = self.layers.as_mut().filter(|_| now >= self.next_layer) {
                    // Some stay with one of their choices.
                    let stays = random.chance(0.3);
                    self.next_layer = now + if stays { ms(3_600_000) } else { random.up_to(ms(3_000)) };
                    let name = RIDS.get(random.below(4) as usize).map(|rid| Some((*rid).to_owned()));
                    let layer = name.map(|name| LayerChoice { name, spatial: None, temporal: None });
                    if let Some(session) = self.session {
                        let (request, reply) = (LayerRequest { track: 1, layer }, oneshot::channel().0);
                        let handle = &ledger.servers[self.plan.at].handles[self.worker];
                        let _ = handle.send(Command::RtcLayer { session, request, reply });
                    }
                }
                if now < self.next_report {
                    return;
                }
                self.next_report = now + ms(100);
                let lost = std::mem::take(&mut self.seen.lost);
                let wants_key = self.plan.is_greedy;
                // Receivers report once a second, whatever there is to say: who says nothing gets nothing.
                if lost.is_empty() && !wants_key && now < self.next_sign_of_life {
                    return;
                }
                self.next_sign_of_life = now + ms(1_000);
                let mut tracks = client.answer.tracks.iter().flatten();
                let video = tracks.find(|track| track.kind == rtp::payload::MediaKind::Video);
                let Some(source) = video.and_then(|track| track.sources.first()) else { return };
                let media_ssrc = source.ssrc;
                let (own, media_ssrc) = (1_u32.to_be_bytes(), media_ssrc.to_be_bytes());
                let mut compound = [&[0x80, 201, 0, 1][..], &own].concat();
                for sequence in lost {
                    let fields = [&[0x81, 205, 0, 3][..], &own, &media_ssrc].concat();
                    compound.extend(fields);
                    compound.extend(sequence.to_be_bytes());
                    compound.extend([0, 0]);
                }
                if wants_key {
                    compound.extend([&[0x81, 206, 0, 2][..], &own, &media_ssrc].concat());
                }
                if compound.len() < 1_200 {
                    let packet = client.protect_rtcp(&compound);
                    self.socket.send_to(packet, remote);
                }
            }
        }
    }

    fn flush(&mut self) {
        if let Some(client) = &mut self.client {
            while let Some(transmit) = client.poll_transmit() {
                self.socket.send_to(transmit.bytes, transmit.path.remote);
            }
        }
    }

    fn end(&mut self, ledger: &mut Ledger) -> Next {
        if let Some(record) = self.publication.take().and_then(|id| ledger.rtc.get_mut(&id)) {
            record.ended.get_or_insert(kernel::now());
        }
        let handle = &ledger.servers[self.plan.at].handles[self.worker];
        match (self.plan.leave, self.session) {
            (Leave::Properly, Some(session)) => {
                let reply = oneshot::channel().0;
                let _ = handle.send(Command::RtcClose { session, reply });
            }
            (Leave::Closing, _) => {
                if let Some(client) = &mut self.client {
                    client.peer.close(kernel::now());
                }
                self.flush();
            }
            _ => {}
        }
        Next::Done
    }
}

fn bind(queue: &EventQueue, from: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::new(from, 0)).expect("a free port");
    queue.add(socket.id(), 0, Interest { read: true, write: false });
    socket
}

pub(crate) fn audio_payload(id: u64, number: u32) -> Vec<u8> {
    let mut payload = rtc_test::audio_payload(number).to_vec();
    payload[8..16].copy_from_slice(&id.to_be_bytes());
    payload
}

pub(crate) fn video_payload(id: u64, number: u32) -> Vec<u8> {
    let key = number.is_multiple_of(GOP);
    let mut payload = vp8_frame(number, key, 700 + (number as usize % 7) * 40);
    let at = if key { 15 } else { 8 };
    payload[at..at + 8].copy_from_slice(&id.to_be_bytes());
    payload
}

impl Actor for RtcClient {
    fn turn(&mut self, ledger: &mut Ledger) -> Next {
        self.queue.wait(&mut Vec::new());
        let now = kernel::now();
        if let Some(opening) = &mut self.opening {
            match opening.try_recv() {
                Ok(Ok(session)) => {
                    self.session = Some(session);
                    let local = self.socket.local_addr().expect("its address");
                    let Some((offer, answer)) = self.offer.take() else { return Next::Done };
                    let kinds: Vec<_> = answer.tracks.iter().flatten().map(|track| track.kind).collect();
                    ledger.say(|| format!("{}: session {session} of {kinds:?}", self.who));
                    let mut client = Client::new(now, local, offer, answer);
                    client.set_dtls_seed(now, self.dtls_seed);
                    self.client = Some(client);
                    self.opened = Some(now);
                    self.opening = None;
                }
                Ok(Err(refusal)) => {
                    ledger.say(|| format!("{}: refused: {refusal:?}", self.who));
                    let is_full = ledger.has_few_rtc_sessions && matches!(refusal, RtcRefusal::Full);
                    let may = is_full || self.may_be_ended(ledger);
                    ledger.check(may, || format!("{}: refused: {refusal:?}", self.who));
                    return Next::Done;
                }
                Err(oneshot::error::TryRecvError::Empty) => {
                    let limit = ms(2_000) + ledger.slack;
                    let late = now > self.asks_again.max(self.began) + limit && !ledger.is_draining;
                    ledger.check(!late, || format!("{}: no answer from the worker", self.who));
                    return if late { Next::Done } else { Next::At(now + ms(10)) };
                }
                Err(oneshot::error::TryRecvError::Closed) => return Next::Done,
            }
        }
        if self.client.is_none() {
            if self.leaving || now > self.came + self.plan.lasts || self.plan.role == RtcRole::Publish {
                return Next::Done;
            }
            if now >= self.asks_again {
                (self.began, self.asks_again) = (now, now + ms(500));
                self.open(ledger);
            }
            return Next::At(if self.opening.is_some() { now + ms(10) } else { self.asks_again });
        }
        let mut datagrams = Vec::new();
        while self.socket.receive(64, &mut datagrams).is_ok_and(|more| more) {}
        if let Some(client) = &mut self.client {
            for (from, mut datagram) in datagrams {
                client.handle_datagram(now, from, &mut datagram);
            }
            client.handle_timeout(now);
        }
        self.flush();
        self.receive(ledger);
        let client = self.client.as_ref().expect("it was there");
        let (connected, over) = (client.is_connected(), client.closed || client.failed.is_some());
        if over {
            let failed = format!("{:?}", client.failed);
            ledger.say(|| format!("{}: over: {failed}", self.who));
            let stays = connected && self.plan.is_steady && !self.plan.is_impostor;
            let stays = stays && self.storm.is_none() && !self.plan.is_forged && self.plan.moves.is_none();
            let may = !stays || self.leaving || self.may_be_ended(ledger);
            ledger.check(may, || format!("{}: ended: {failed}", self.who));
            self.plan.leave = Leave::Resetting;
            return self.end(ledger);
        }
        let limit = CONNECT_MAX + ledger.slack;
        let late = !connected && self.plan.is_steady && now > self.opened.unwrap_or(now) + limit;
        // Whom a server ends before there are keys it cannot tell.
        let session = self.session.map(|session| (self.plan.at, session));
        let is_over = session.is_some_and(|session| ledger.ended_sessions.contains(&session));
        let is_right = !late || is_over || ledger.is_draining;
        ledger.check(is_right, || format!("{}: not connected after {limit:?}", self.who));
        if connected && self.connected.is_none() {
            (self.connected, self.next_packet) = (Some(now), now);
        }
        let lasts =
            self.connected.map_or(now > self.began + ms(30_000), |since| now > since + self.plan.lasts);
        if lasts || self.leaving {
            return self.end(ledger);
        }
        if let Some((_, to)) = self.plan.moves.take_if(|(after, _)| now > self.began + *after) {
            ledger.say(|| format!("{}: is at {to} now", self.who));
            self.socket = bind(&self.queue, to);
            self.moved = (connected && self.plan.goes_on).then_some(now);
        }
        if self.moved.take_if(|moved| now > *moved + MOVE_MAX + ledger.slack).is_some() {
            // From now on all is there that is sent.
            (self.settled, self.seen.audio.whole, self.seen.video.whole) = (Some(now), None, None);
        }
        // A server that ends a client says so where it knew it last, which may be where it was before.
        let settled = self.settled.filter(|_| !is_over);
        let is_back = settled.is_some_and(|since| now > since + ms(6_000) + ledger.slack);
        if connected {
            self.send(ledger);
            // Who reports losses and limits at random gets what these leave.
            let is_due = now >= self.next_check && (self.plan.is_steady || is_back) && self.storm.is_none();
            if self.plan.role == RtcRole::Play && is_due {
                self.next_check = now + ms(100);
                self.is_in_time(ledger);
            }
        }
        let stays = self.plan.is_impostor && self.opened.is_some_and(|opened| now > opened + IMPOSTOR_MAX);
        let is_out = !stays || is_over || ledger.is_draining || ledger.slack > Duration::ZERO;
        ledger.check(is_out, || format!("{}: still there after {IMPOSTOR_MAX:?}", self.who));
        let tick = match self.plan.role {
            RtcRole::Publish if connected => self.next_packet,
            RtcRole::Play if connected && self.storm.is_some() => now + ms(20),
            _ => now + ms(100),
        };
        let timer = self.client.as_mut().and_then(Client::next_timeout);
        Next::At(timer.map_or(tick, |timer| timer.min(tick)).max(now + ms(1)))
    }

    fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn leave(&mut self) {
        self.leaving = true;
    }
}

impl std::fmt::Debug for RtcClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RtcClient").field("plan", &self.plan).finish_non_exhaustive()
    }
}
