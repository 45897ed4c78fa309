//! What a player of frames may get: a run of a publication, byte for byte, from a key frame on.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rtmp::MediaKind;

use crate::actors::rtc::{audio_payload, video_payload};
use crate::content::{FRAME_MS, Stamp, stamp};
use crate::ledger::{Ledger, ServerView, StreamKey};

/// Pictures, one in 40 ms, that may overtake another by the jitter of a bad path, 100 ms.
const OVERTAKEN_MAX: u32 = 3;

/// Checks what one player gets.
#[derive(Debug)]
pub struct Checker {
    key: StreamKey,
    /// The server that it plays at.
    at: usize,
    who: String,
    joined: Instant,
    last: Option<(u64, u32)>,
    /// That of the last frame, and that of the last message.
    last_frame_timestamp: u32,
    last_timestamp: Option<u32>,
    /// Publications that are over for it.
    past: Vec<u64>,
    has_video_config: bool,
    has_audio_config: bool,
    /// Of tracks that a bridge has made: audio, and video.
    has_bridged_config: [bool; 2],
    /// Audio goes on, and pictures do not before the next key frame: frames were lost between workers, or a
    /// publication began behind its key frame.
    awaits_key: bool,
    /// It has got audio of a publication, and no picture yet.
    has_no_picture: bool,
    /// It has paused: what it does not get is not all counted.
    has_paused: bool,
    /// Of what a bridge has made: the last of audio, and of video.
    bridged: [Option<(u64, u32)>; 2],
    bridged_timestamps: [Option<u32>; 2],
    /// Frames it got.
    pub received: u64,
    /// Frames it did not get between others.
    pub missed: u64,
    /// Its address, as long as what it misses is what its server counts as dropped, one by one: in its first
    /// publication, without a pause. Between two of them it cannot know what there was.
    counted_at: Option<SocketAddr>,
}

impl Checker {
    /// Of a player that joins now from this address.
    pub fn new(key: StreamKey, at: usize, who: String, address: Option<SocketAddr>) -> Self {
        Self {
            key,
            at,
            who,
            joined: netsim::kernel::now(),
            last: None,
            last_frame_timestamp: 0,
            last_timestamp: None,
            past: Vec::new(),
            has_video_config: false,
            has_audio_config: false,
            has_bridged_config: [false; 2],
            awaits_key: false,
            has_no_picture: false,
            has_paused: false,
            bridged: [None; 2],
            bridged_timestamps: [None; 2],
            received: 0,
            missed: 0,
            counted_at: address,
        }
    }

    /// Takes a message in.
    pub fn message(&mut self, ledger: &mut Ledger, kind: MediaKind, timestamp: u32, body: &[u8]) {
        if kind == MediaKind::Data {
            return;
        }
        let who = &self.who;
        if is_enhanced(kind, body) {
            return self.packet(ledger, kind, timestamp, body);
        }
        let backwards = self.last_timestamp.is_some_and(|last| timestamp < last);
        ledger.check(!backwards, || {
            format!("{who}: time went from {:?} back to {timestamp}", self.last_timestamp)
        });
        self.last_timestamp = Some(timestamp);
        let (id, number) = match stamp(kind, body) {
            Stamp::Config => {
                self.has_video_config |= kind == MediaKind::Video;
                self.has_audio_config |= kind == MediaKind::Audio;
                return;
            }
            // The end of a sequence of video.
            Stamp::Foreign if kind == MediaKind::Video && body.get(1) == Some(&2) => return,
            Stamp::Foreign => return ledger.violation(format!("{who}: {} bytes of nobody", body.len())),
            Stamp::Frame { id, number } => (id, number),
        };
        let Some(record) = ledger.publications.get(&id) else {
            return ledger.violation(format!("{who}: a frame of publication {id}, which never was"));
        };
        let (content, sent, of) = (record.content, record.sent.len(), record.key);
        let first = record.sent.first().copied();
        ledger.check(of == self.key, || format!("{who}: a frame of {of:?}"));
        ledger
            .check((number as usize) < sent, || format!("{who}: frame {number} of {id} before it was sent"));
        let right = content.frame(number);
        let is_right = right.kind == kind && right.body == body;
        ledger.check(is_right, || format!("{who}: frame {number} of {id} is another"));
        let has_headers = self.has_video_config && self.has_audio_config;
        ledger.check(has_headers, || format!("{who}: frame {number} of {id} before its header"));
        let is_key = content.is_key(number);
        match self.last {
            Some((last_id, last)) if last_id == id => {
                ledger.check(number > last, || format!("{who}: frame {number} of {id} after {last}"));
                let apart = timestamp.wrapping_sub(self.last_frame_timestamp);
                ledger.check(apart == number.wrapping_sub(last).wrapping_mul(FRAME_MS), || {
                    format!("{who}: frame {number} of {id} is {apart} ms behind {last}")
                });
                // What is lost between two workers is missed by players who were fast enough: their audio
                // goes on at once, and the picture with its next key frame. Who is too slow gets nothing
                // until then.
                let goes_on = (ledger.loses_between_workers || self.awaits_key) && kind == MediaKind::Audio;
                self.awaits_key |= number > last + 1 && goes_on;
                let is_picture = kind == MediaKind::Video;
                if number > last + 1 && !goes_on || is_picture && self.awaits_key {
                    ledger.check(is_key, || {
                        format!("{who}: from frame {last} of {id} to {number}, no key frame")
                    });
                }
                self.awaits_key &= !is_picture;
                // Pictures before the first key frame are nobody's loss.
                let gap = u64::from(number.saturating_sub(last + 1));
                let missed = if self.has_no_picture { gap / 2 } else { gap };
                let missed = if self.has_paused { 0 } else { missed };
                self.has_no_picture &= !is_picture;
                self.missed += missed;
                ledger.frames_missed += missed;
                ledger.missed_by_server[self.at] += missed;
                if missed > 0
                    && let Some(address) = self.counted_at.filter(|_| !ledger.loses_between_workers)
                {
                    let counted = ledger.dropped.get(&address).map_or(&[][..], Vec::as_slice);
                    let is_counted = counted.contains(&self.missed);
                    let missed = self.missed;
                    let text = format!("{who}: has missed {missed} frames, and counted were {counted:?}");
                    ledger.check(is_counted, || text);
                }
            }
            last => {
                if let Some((last, _)) = last {
                    self.past.push(last);
                }
                // Whoever was there before it gets its audio at once.
                let was_there = first.is_some_and(|sent| self.joined < sent + Duration::from_secs(1));
                self.has_no_picture = !is_key && kind == MediaKind::Audio && was_there;
                let begins = is_key || self.has_no_picture;
                ledger.check(begins, || format!("{who}: begins publication {id} at {number}, no key frame"));
                ledger.check(!self.past.contains(&id), || format!("{who}: publication {id} comes again"));
                let newer = ledger.replaced(id, self.joined);
                ledger.check(newer.is_none(), || {
                    format!("{who}: begins with {id}, after which came {newer:?}")
                });
                self.awaits_key = self.has_no_picture;
                // Before its first frame it may have been too slow already.
                let is_first = last.is_none() && !self.has_no_picture;
                self.counted_at.take_if(|address| !is_first || ledger.dropped.contains_key(address));
            }
        }
        (self.last, self.last_frame_timestamp) = (Some((id, number)), timestamp);
        self.received += 1;
        ledger.frames_received += 1;
    }

    /// Takes in what a bridge has made of a packet: Opus or VP8 in the bodies of Enhanced RTMP.
    fn packet(&mut self, ledger: &mut Ledger, kind: MediaKind, timestamp: u32, body: &[u8]) {
        let (who, is_video) = (&self.who, kind == MediaKind::Video);
        let bridges = ledger.servers[self.at].bridges;
        ledger.check(bridges, || format!("{who}: gets packets, and bridges are off"));
        // Each track has its own way through the network: between the two the order is not promised.
        let last = self.bridged_timestamps[usize::from(is_video)];
        ledger.check(last <= Some(timestamp), || format!("{who}: time went from {last:?} to {timestamp}"));
        let named: &[u8] = if is_video { b"vp08" } else { b"Opus" };
        ledger.check(body.get(1..5) == Some(named), || format!("{who}: neither Opus nor VP8"));
        match body[0] & 0x0f {
            0 => {
                self.has_bridged_config[usize::from(is_video)] = true;
                return;
            }
            // The end of a sequence, and what else there is to say about the codec.
            2 | 4 => return,
            1 | 3 => {}
            other => return ledger.violation(format!("{who}: a body of type {other}")),
        }
        // Headers that a player begins with have the time of its key frame. Where a track goes on that is
        // behind, because it waits for packets, nobody knows then: only frames set the time of their track.
        self.bridged_timestamps[usize::from(is_video)] = Some(timestamp);
        let data = &body[5..];
        if !is_video && data.len() == 3 && data.ends_with(&[0xff, 0xfe]) {
            // Silence, which a bridge puts in place of a packet that was lost.
            self.missed += 1;
            return;
        }
        let at = match (is_video, data) {
            (false, _) => 4,
            (true, [tag, ..]) if tag & 1 == 0 => 10,
            (true, _) => 3,
        };
        let number = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        let id = data.get(at + 4..at + 12).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let record = id.and_then(|id| ledger.rtc.get(&id));
        let Some(((record, number), id)) = record.zip(number).zip(id) else {
            return ledger.violation(format!("{who}: {} bytes of nobody", body.len()));
        };
        let (of, is_key, is_layered) = (record.key, is_video && at == 10, record.is_layered);
        let record_at = record.at;
        let sent = if is_video { record.video } else { record.audio.len() as u32 };
        let is_right = if is_video {
            video_payload(id, number).get(1..) == Some(data)
        } else {
            audio_payload(id, number) == data
        };
        let has_header = self.has_bridged_config[usize::from(is_video)];
        ledger.check(has_header, || format!("{who}: frame {number} of {id} before its header"));
        ledger.check(of == self.key, || format!("{who}: a frame of {of:?}"));
        ledger.check(number < sent, || format!("{who}: frame {number} of {id} before it was sent"));
        ledger.check(is_right, || format!("{who}: frame {number} of {id} is another"));
        let last = self.bridged[usize::from(is_video)].replace((id, number));
        let follows = match last {
            Some((last_id, last)) if last_id == id => {
                // Where the best layer changes there may be a picture of each, and on its way the key frame of
                // one may have been overtaken by pictures of the other. What a node lacks when a link is back
                // has packets of encodings that it left out before.
                let is_sent_again = ledger.has_broken_links && record_at != self.at;
                let earliest = if is_sent_again { 0 } else { last.saturating_sub(OVERTAKEN_MAX) };
                let is_again = is_layered && is_key && (earliest..=last).contains(&number);
                is_again || number > last && (!is_video || is_key || number == last + 1)
            }
            Some((last_id, _)) => id > last_id && (!is_video || is_key),
            None => !is_video || is_key,
        };
        let which = if is_video { "picture" } else { "audio" };
        ledger.check(follows, || format!("{who}: {which} {number} of {id} after {last:?}"));
        self.received += 1;
        ledger.frames_received += 1;
    }

    /// The same for what bridges make: audio and video of a publisher on a good path are there.
    fn bridged_is_in_time(&self, ledger: &mut Ledger) {
        if !ledger.servers[self.at].bridges {
            return;
        }
        let (now, most) = (netsim::kernel::now(), Duration::from_secs(4) + ledger.slack);
        let mut of_stream = ledger.rtc.iter().filter(|(_, record)| record.key == self.key);
        let live = of_stream.next_back().filter(|(_, record)| record.ended.is_none() && record.is_steady);
        let Some((&id, record)) = live else { return };
        if record.at != self.at && !ledger.has_good_links {
            return;
        }
        let began = record.audio.first().copied().unwrap_or(now).max(self.joined);
        if now < began + most + Duration::from_secs(4) {
            return;
        }
        let old = record.audio.partition_point(|sent| *sent + most <= now);
        let has = |of: Option<(u64, u32)>| {
            of.filter(|(last, _)| *last == id).map_or(0, |(_, number)| number as usize + 1)
        };
        let [audio, video] = self.bridged.map(has);
        ledger.check(audio >= old, || format!("{}: has {audio} of {old} packets of {id}", self.who));
        // Every second packet comes with a picture.
        let old = old.div_ceil(2);
        ledger.check(video >= old, || format!("{}: has {video} of {old} pictures of {id}", self.who));
    }

    /// It pauses, or goes on.
    pub fn skips(&mut self) {
        (self.has_paused, self.counted_at) = (true, None);
    }

    /// A player that reads what it gets is ended: only where nobody has published its stream for as long as
    /// players wait, or somebody had it ended.
    pub fn is_ended_for_a_reason(&self, ledger: &mut Ledger) {
        let (now, known) = (netsim::kernel::now(), Duration::from_secs(2) + ledger.slack);
        let ServerView { wait_for_publisher, bridges, .. } = ledger.servers[self.at];
        let of_stream = ledger.publications.values().filter(|record| record.key == self.key);
        let of_stream = of_stream.filter(|record| record.is_steady);
        let of_stream = of_stream.map(|record| (record.sent.first(), record.ended));
        let of_rtc = ledger.rtc.values().filter(|record| bridges && record.key == self.key);
        let of_rtc = of_rtc.filter(|record| record.is_steady);
        let of_rtc = of_rtc.map(|record| (record.audio.first(), record.ended));
        // It may have been ended just before one began.
        let has_come = |first: Option<&Instant>| first.is_some_and(|first| *first + known < now);
        let ends = of_stream.chain(of_rtc).filter(|(first, _)| has_come(*first)).map(|(_, ended)| ended);
        let ends: Vec<Option<Instant>> = ends.collect();
        let goes_on = ends.contains(&None);
        let since = ends.into_iter().flatten().max().unwrap_or(self.joined).max(self.joined);
        let has_waited = wait_for_publisher.is_some_and(|wait| now + known >= since + wait);
        let may_end = !goes_on && has_waited || ledger.is_draining || ledger.ends_sessions;
        let who = &self.who;
        ledger.check(may_end, || match goes_on {
            true => format!("{who}: ended, and its publication goes on"),
            false => format!("{who}: ended {:?} after the last publisher", now - since),
        });
    }

    /// A player whose stream has had no publisher for long is told so and disconnected.
    pub fn is_not_forgotten(&self, ledger: &mut Ledger) {
        let now = netsim::kernel::now();
        let Some(wait) = ledger.servers[self.at].wait_for_publisher else { return };
        let of_stream = ledger.publications.values().filter(|record| record.key == self.key);
        // Without bridges a publisher by WebRTC is none for it.
        let bridges = ledger.servers[self.at].bridges;
        let of_rtc = ledger.rtc.values().filter(|record| bridges && record.key == self.key);
        let of_rtc = of_rtc.map(|record| record.ended);
        let ended = of_stream.map(|record| record.ended).chain(of_rtc).collect::<Option<Vec<_>>>();
        let Some(ended) = ended.filter(|_| !ledger.is_draining) else { return };
        let since = ended.into_iter().max().unwrap_or(self.joined).max(self.joined);
        // A publisher that vanishes is noticed when it has been silent for too long, one by WebRTC when its
        // consent is over and ICE was not restarted.
        let by_webrtc = ledger.rtc.values().any(|record| record.key == self.key);
        let consent = Duration::from_secs(if by_webrtc { 30 } else { 0 });
        let silence = ledger.servers[self.at].publisher_idle_timeout.max(consent);
        let limit = wait + silence + Duration::from_secs(8);
        let limit = limit + ledger.slack;
        let who = &self.who;
        let text = format!("{who}: still there {:?} after the last publisher", now - since);
        ledger.check(now <= since + limit, || text);
    }

    /// A player that reads all it gets is in time: it has every frame that is older than `most`.
    pub fn is_in_time(&self, ledger: &mut Ledger, most: Duration) {
        let (now, most) = (netsim::kernel::now(), most + ledger.slack);
        // Whoever has just come may have a long group of pictures to take first.
        let is_new = now < self.joined + most;
        // Where there are not enough descriptors it may have to wait until somebody leaves.
        let waits = ledger.is_crowded && self.received == 0;
        if is_new || waits || ledger.is_draining || ledger.loses_between_workers {
            return;
        }
        self.bridged_is_in_time(ledger);
        let Some(record) = ledger.live(self.key).filter(|record| record.is_steady) else { return };
        let id = record.content.id;
        let old = record.sent.partition_point(|sent| *sent + most <= now);
        let has = match self.last {
            Some((last_id, last)) if last_id == id => last as usize + 1,
            // It may have to wait for a key frame, and the publication may have been there before it.
            _ => {
                let gop = Duration::from_millis(u64::from(record.content.gop) * 40);
                let began = record.sent.first().copied().unwrap_or(now).max(self.joined);
                let late = now > began + most + gop;
                let who = &self.who;
                let (gop, sent) = (record.content.gop, record.sent.len());
                let text = format!(
                    "{who}: nothing of publication {id} since {:?}: {sent} frames, a key frame in {gop} pictures, {:?} before",
                    now - began,
                    self.last
                );
                return ledger.check(!late, || text);
            }
        };
        let text = || format!("{}: has {has} of {old} frames of {id} that are {most:?} old", self.who);
        ledger.check(has >= old, text);
    }
}

/// Whether a body is one of Enhanced RTMP.
fn is_enhanced(kind: MediaKind, body: &[u8]) -> bool {
    body.len() >= 5
        && match kind {
            MediaKind::Video => body[0] & 0x80 != 0,
            MediaKind::Audio => body[0] >> 4 == 9,
            MediaKind::Data => false,
        }
}
