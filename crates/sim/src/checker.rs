//! What a player of frames may get: a run of a publication, byte for byte, from a key frame on.

use std::time::{Duration, Instant};

use rtmp::MediaKind;

use crate::content::{Stamp, stamp};
use crate::ledger::{Ledger, StreamKey};

/// Checks what one player gets.
#[derive(Debug)]
pub struct Checker {
    key: StreamKey,
    who: String,
    joined: Instant,
    last: Option<(u64, u32)>,
    last_timestamp: Option<u32>,
    /// Publications that are over for it.
    past: Vec<u64>,
    has_video_config: bool,
    /// Of the present publication, audio alone has come so far.
    only_audio: bool,
    /// Frames it got.
    pub received: u64,
    /// Frames it did not get between others.
    pub missed: u64,
}

impl Checker {
    /// Of a player that joins now.
    pub fn new(key: StreamKey, who: String) -> Self {
        Self {
            key,
            who,
            joined: netsim::kernel::now(),
            last: None,
            last_timestamp: None,
            past: Vec::new(),
            has_video_config: false,
            only_audio: false,
            received: 0,
            missed: 0,
        }
    }

    /// Takes a message in.
    pub fn message(&mut self, ledger: &mut Ledger, kind: MediaKind, timestamp: u32, body: &[u8]) {
        if kind == MediaKind::Data {
            return;
        }
        let who = &self.who;
        let backwards = self.last_timestamp.is_some_and(|last| timestamp < last);
        ledger.check(!backwards, || {
            format!("{who}: time went from {:?} back to {timestamp}", self.last_timestamp)
        });
        self.last_timestamp = Some(timestamp);
        let (id, number) = match stamp(kind, body) {
            Stamp::Config => {
                self.has_video_config |= kind == MediaKind::Video;
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
        ledger.check(of == self.key, || format!("{who}: a frame of {of:?}"));
        ledger
            .check((number as usize) < sent, || format!("{who}: frame {number} of {id} before it was sent"));
        let right = content.frame(number);
        let is_right = right.kind == kind && right.body == body;
        ledger.check(is_right, || format!("{who}: frame {number} of {id} is another"));
        ledger.check(self.has_video_config, || format!("{who}: frame {number} of {id} before its header"));
        let is_key = content.is_key(number);
        let is_first = self.last.is_none_or(|(last, _)| last != id);
        // Without a GOP cache the first player on a worker that is not the home hears a stream that goes on
        // before it sees it.
        let may_hear = !ledger.servers[self.key.server].gop_cache && kind == MediaKind::Audio;
        let was_only_audio = self.only_audio;
        self.only_audio = (is_first || self.only_audio) && may_hear && !is_key;
        match self.last {
            Some((last_id, last)) if self.only_audio && last_id == id => {
                ledger.check(number > last, || format!("{who}: frame {number} of {id} after {last}"));
            }
            Some((last_id, last)) if last_id == id => {
                ledger.check(number > last, || format!("{who}: frame {number} of {id} after {last}"));
                if number > last + 1 && was_only_audio {
                    ledger.check(is_key, || format!("{who}: picture {number} of {id} before a key frame"));
                } else if number > last + 1 {
                    ledger.check(is_key, || {
                        format!("{who}: from frame {last} of {id} to {number}, no key frame")
                    });
                    self.missed += u64::from(number - last - 1);
                    ledger.frames_missed += u64::from(number - last - 1);
                    ledger.missed_by_server[self.key.server] += u64::from(number - last - 1);
                }
            }
            last => {
                if let Some((last, _)) = last {
                    self.past.push(last);
                }
                ledger.check(is_key || self.only_audio, || {
                    format!("{who}: begins publication {id} at {number}, no key frame")
                });
                ledger.check(!self.past.contains(&id), || format!("{who}: publication {id} comes again"));
            }
        }
        self.last = Some((id, number));
        self.received += 1;
        ledger.frames_received += 1;
    }

    /// A player whose stream has had no publisher for long is told so and disconnected.
    pub fn is_not_forgotten(&self, ledger: &mut Ledger) {
        let now = netsim::kernel::now();
        let Some(wait) = ledger.servers[self.key.server].wait_for_publisher else { return };
        let of_stream = ledger.publications.values().filter(|record| record.key == self.key);
        let ended = of_stream.map(|record| record.ended).collect::<Option<Vec<_>>>();
        let Some(ended) = ended.filter(|_| !ledger.is_disturbed) else { return };
        let since = ended.into_iter().max().unwrap_or(self.joined).max(self.joined);
        // A publisher that vanishes is noticed when it has been silent for too long.
        let limit = wait + ledger.servers[self.key.server].publisher_idle_timeout + Duration::from_secs(8);
        let who = &self.who;
        let text = format!("{who}: still there {:?} after the last publisher", now - since);
        ledger.check(now <= since + limit, || text);
    }

    /// A player that reads all it gets is in time: it has every frame that is older than `most`.
    pub fn is_in_time(&self, ledger: &mut Ledger, most: Duration) {
        let now = netsim::kernel::now();
        if ledger.is_disturbed {
            return;
        }
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
                let text = format!("{who}: nothing of publication {id} since {:?}", now - began);
                return ledger.check(!late, || text);
            }
        };
        let text = || format!("{}: has {has} of {old} frames of {id} that are {most:?} old", self.who);
        ledger.check(has >= old, text);
    }
}
