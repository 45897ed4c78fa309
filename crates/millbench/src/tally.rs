//! What one player has received, checked against the stamps it carries.
//!
//! Between two stamps `a` and `b` of one publisher run a complete stream holds exactly
//! `b.messages - a.messages` messages and `b.bytes - a.bytes` payload bytes. The tally counts what
//! really came, so each player proves completeness alone. What follows the last stamp cannot be
//! judged yet, and is not.
//!
//! **Live frames.** A server starts a player with the frames of its GOP cache; these are old when
//! they arrive and say nothing about the server's delay. A frame counts for latency when its
//! publisher sent it after the first media message of this session had arrived:
//! `stamp.sent_ns > first_media_ns`. Everything older was history when the session joined.
//! Publisher and player must share a clock, that is, a machine.

use rtmp::MediaKind;

use crate::playback::Playback;
use crate::stamp::{self, Stamp};
use crate::stats::{Counted, counted};

/// Running account of one player session. Times are wall clock nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Arrival of the first media message.
    pub first_media_ns: Option<u64>,
    /// Arrival of the first video frame (of the first audio frame while no video came): sequence headers
    /// are not frames.
    pub first_frame_ns: Option<u64>,
    /// When the latest stamped frame that arrived was sent.
    pub last_sent_ns: Option<u64>,
    /// How far the session was behind its publisher when the measured window opened, nanoseconds.
    pub behind_at_open_ns: u64,
    /// Arrival of the latest media message.
    pub last_media_ns: u64,
    /// Payload bytes of audio and video received, stamped or not.
    pub media_bytes: u64,
    /// What should have arrived according to the stamps, and what did.
    pub judged: Judged,
    /// Simulated playback.
    pub playback: Playback,
    last: Option<Stamp>,
    since_last: Count,
    /// What was sent and has not come, where audio and video come apart, each at its own time.
    apart: Option<Apart>,
}

/// The account of a player whose audio and video come apart: by UDP, to ports of their own.
///
/// A frame may come before or behind the stamp that it was sent behind. What is missing after each of so
/// many stamps is missing, beyond what may be on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Apart {
    /// Messages and bytes sent less those that came: now, and the least and the most of this group of stamps.
    net: [i64; 2],
    least: [i64; 2],
    most: [i64; 2],
    stamps: u32,
    /// The first group has been.
    is_tied: bool,
}

impl Apart {
    /// What is certain after another stamp: what is missing, and what there is too much of.
    fn judge(&mut self, sent: Count, came: Count) -> Option<[Count; 2]> {
        let (sent, came) = ([sent.messages, sent.bytes], [came.messages, came.bytes]);
        for (at, (sent, came)) in sent.into_iter().zip(came).enumerate() {
            self.net[at] += sent as i64 - came as i64;
            let is_first = self.stamps == 0;
            self.least[at] = if is_first { self.net[at] } else { self.least[at].min(self.net[at]) };
            self.most[at] = if is_first { self.net[at] } else { self.most[at].max(self.net[at]) };
        }
        self.stamps += 1;
        if self.stamps < APART_STAMPS {
            return None;
        }
        self.stamps = 0;
        if !std::mem::replace(&mut self.is_tied, true) {
            // How much later audio comes than video is nobody's loss.
            for at in 0..2 {
                self.net[at] -= self.least[at];
            }
            return None;
        }
        // How far apart they are changes a little, and audio frames differ in length.
        let beyond = |most_certain: [i64; 2]| {
            let counts = most_certain[0] > APART_MESSAGES || most_certain[1] > APART_BYTES;
            if counts { most_certain.map(|count| count.max(0)) } else { [0; 2] }
        };
        let (missing, excess) = (beyond(self.least), beyond(self.most.map(|most| -most)));
        for at in 0..2 {
            self.net[at] += excess[at] - missing[at];
        }
        Some(
            [missing, excess]
                .map(|[messages, bytes]| Count { messages: messages as u64, bytes: bytes as u64 }),
        )
    }
}

/// Messages and payload bytes between stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// What the stamps say was sent.
    pub expected: Count,
    /// What arrived.
    pub received: Count,
    /// Bytes that should have arrived and did not, summed over stamp intervals (an excess elsewhere
    /// does not cancel them).
    pub missing: Count,
    /// Bytes that came and were never sent, or were sent once and came twice.
    pub excess: Count,
}

/// A number of messages and of their payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Count {
    /// Messages.
    pub messages: u64,
    /// Payload bytes.
    pub bytes: u64,
}

/// What a message meant for the run's statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// This was the first frame of the session.
    pub first_frame: bool,
    /// Latency of a live frame, nanoseconds.
    pub latency_ns: Option<u64>,
}

impl Tally {
    /// For a player whose audio and video come apart.
    pub fn apart() -> Tally {
        Tally { apart: Some(Apart::default()), ..Tally::default() }
    }

    /// Takes note of one media message.
    ///
    /// `length` is the whole payload, `prefix` its first bytes ([`stamp::PREFIX_BYTES`] are enough).
    pub fn handle_media(&mut self, now_ns: u64, message: Arrival<'_>, buffer_ms: u32) -> Noted {
        let mut noted = Noted::default();
        if message.kind == MediaKind::Data {
            return noted;
        }
        let first_media_ns = *self.first_media_ns.get_or_insert(now_ns);
        self.last_media_ns = now_ns;
        self.media_bytes += u64::from(message.length);
        if is_sequence_header(message.kind, message.prefix) {
            return noted;
        }
        if self.first_frame_ns.is_none() {
            self.first_frame_ns = Some(now_ns);
            noted.first_frame = true;
        }
        self.playback.handle_media(now_ns, message.timestamp, buffer_ms);
        if message.kind == MediaKind::Video
            && let Some(stamp) = stamp::find(message.prefix)
        {
            self.judge(&stamp);
            self.last_sent_ns = Some(stamp.sent_ns);
            if stamp.sent_ns > first_media_ns {
                noted.latency_ns = Some(now_ns.saturating_sub(stamp.sent_ns));
            }
        }
        self.since_last.messages += 1;
        self.since_last.bytes += u64::from(message.length);
        noted
    }

    /// Compares what came since the last stamp with what `stamp` says was sent.
    fn judge(&mut self, stamp: &Stamp) {
        // A new run is a new publisher: the interval across the change cannot be judged.
        if let Some(last) = self.last.filter(|last| last.run == stamp.run && last.frame < stamp.frame) {
            let sent = Count {
                messages: stamp.messages.saturating_sub(last.messages),
                bytes: stamp.bytes.saturating_sub(last.bytes),
            };
            match &mut self.apart {
                None => self.judged.judge(sent, self.since_last),
                Some(apart) => {
                    self.judged.expected.add(&sent);
                    self.judged.received.add(&self.since_last);
                    if let Some([missing, excess]) = apart.judge(sent, self.since_last) {
                        self.judged.missing.add(&missing);
                        self.judged.excess.add(&excess);
                    }
                }
            }
        } else if self.last.is_some_and(|last| last.run == stamp.run) {
            // The same frame or an older one again: all of it is excess.
            self.judged.judge(Count::default(), self.since_last);
        }
        self.last = Some(*stamp);
        self.since_last = Count::default();
    }

    /// How far behind its publisher the session is: age of the newest frame it has, nanoseconds.
    pub fn behind_ns(&self, now_ns: u64) -> u64 {
        self.last_sent_ns.map_or(0, |sent_ns| now_ns.saturating_sub(sent_ns))
    }

    /// Whether any stamp was seen; without one it is unknown what should have arrived.
    pub fn is_stamped(&self) -> bool {
        self.last.is_some()
    }
}

/// One media message as it reached a player.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Audio, video or data.
    pub kind: MediaKind,
    /// RTMP timestamp, milliseconds, wrapping.
    pub timestamp: u32,
    /// Payload bytes of the whole message.
    pub length: u32,
    /// First bytes of the payload.
    pub prefix: &'a [u8],
}

impl Judged {
    fn judge(&mut self, sent: Count, came: Count) {
        self.expected.add(&sent);
        self.received.add(&came);
        self.missing.add(&sent.since(&came));
        self.excess.add(&came.since(&sent));
    }

    /// Nothing missing and nothing too much.
    pub fn is_exact(&self) -> bool {
        self.missing == Count::default() && self.excess == Count::default()
    }
}

/// More than a player's audio can be ahead of its video, or behind.
const APART_STAMPS: u32 = 25;
/// What may be on its way: lost audio counts beyond this.
const APART_MESSAGES: i64 = 2;
const APART_BYTES: i64 = 1_024;

counted!(Count { messages, bytes });
counted!(Judged { expected, received, missing, excess });

/// Sequence headers of AVC and AAC (FLV v10.1, E.4.2.2 and E.4.3.1) and the enhanced-RTMP `SequenceStart`
/// (enhanced RTMP v2, packet type 0).
pub fn is_sequence_header(kind: MediaKind, prefix: &[u8]) -> bool {
    let (Some(&first), second) = (prefix.first(), prefix.get(1)) else { return false };
    match kind {
        MediaKind::Video if first & 0x80 != 0 => first & 0x0f == 0,
        MediaKind::Video => first & 0x0f == 7 && second == Some(&0),
        MediaKind::Audio if first >> 4 == 9 => first & 0x0f == 0,
        MediaKind::Audio => first >> 4 == 10 && second == Some(&0),
        MediaKind::Data => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A publisher that stamps its video frames and a player that receives what the test lets through.
    #[derive(Default)]
    struct Pair {
        tally: Tally,
        sent: Count,
        frame: u64,
        run: u64,
        now_ns: u64,
    }

    impl Pair {
        fn new() -> Pair {
            Pair { run: 7, now_ns: 1_000 * MS, ..Pair::default() }
        }

        /// Sends an audio or video message of `length` bytes; it arrives `cut` bytes shorter after
        /// `delay_ms`.
        fn send(&mut self, kind: MediaKind, length: u32, arrives: Option<(u32, u64)>) -> Noted {
            let mut body = vec![0x27, 1, 0, 0, 0];
            if kind == MediaKind::Video {
                body = stamp::make_room(&body);
                let stamp = Stamp {
                    run: self.run,
                    sent_ns: self.now_ns,
                    frame: self.frame,
                    messages: self.sent.messages,
                    bytes: self.sent.bytes,
                };
                stamp::write(&mut body, &stamp);
                self.frame += 1;
            } else {
                body[0] = 0xaf;
            }
            self.sent.add(&Count { messages: 1, bytes: u64::from(length) });
            let timestamp = (self.now_ns / MS) as u32;
            self.now_ns += 20 * MS;
            let Some((cut, delay_ms)) = arrives else { return Noted::default() };
            let arrival = Arrival { kind, timestamp, length: length - cut, prefix: &body };
            self.tally.handle_media(self.now_ns - 20 * MS + delay_ms * MS, arrival, 500)
        }
    }

    #[test]
    fn a_complete_stream_is_exact() {
        let mut pair = Pair::new();
        for _ in 0..50 {
            pair.send(MediaKind::Video, 2700, Some((0, 1)));
            pair.send(MediaKind::Audio, 180, Some((0, 1)));
        }
        assert!(pair.tally.judged.is_exact());
        // Fifty stamps delimit 49 intervals.
        assert_eq!(pair.tally.judged.expected, Count { messages: 98, bytes: 49 * 2880 });
        assert_eq!(pair.tally.judged.received, pair.tally.judged.expected);
    }

    #[test]
    fn every_lost_message_and_byte_is_counted() {
        let lose_audio = |pair: &mut Pair| pair.send(MediaKind::Audio, 180, None);
        let lose_video = |pair: &mut Pair| pair.send(MediaKind::Video, 2700, None);
        let cut_video = |pair: &mut Pair| pair.send(MediaKind::Video, 2700, Some((1, 1)));
        type Fault<'a> = (&'a dyn Fn(&mut Pair) -> Noted, Count, &'a str);
        let cases: [Fault<'_>; 3] = [
            (&lose_audio, Count { messages: 1, bytes: 180 }, "an audio message"),
            (&lose_video, Count { messages: 1, bytes: 2700 }, "a stamped video frame"),
            (&cut_video, Count { messages: 0, bytes: 1 }, "the last byte of a frame"),
        ];
        for (fault, missing, remark) in cases {
            let mut pair = Pair::new();
            pair.send(MediaKind::Video, 2700, Some((0, 1)));
            fault(&mut pair);
            pair.send(MediaKind::Video, 2700, Some((0, 1)));
            assert_eq!(pair.tally.judged.missing, missing, "{remark}");
            assert_eq!(pair.tally.judged.excess, Count::default(), "{remark}");
        }
    }

    #[test]
    fn audio_that_comes_early_or_late_is_not_missing_unless_it_never_comes() {
        for lost in [None, Some([70, 71, 72])] {
            let mut pair = Pair { tally: Tally::apart(), ..Pair::new() };
            let mut late = Vec::new();
            for at in 0..300 {
                pair.send(MediaKind::Video, 2700, Some((0, 1)));
                // Counted by the publisher now, and by the player two pictures later.
                pair.sent.add(&Count { messages: 1, bytes: 180 });
                late.push(!lost.is_some_and(|lost| lost.contains(&at)));
                if at >= 2 && late[at - 2] {
                    let arrival =
                        Arrival { kind: MediaKind::Audio, timestamp: 0, length: 180, prefix: &[0xaf, 1] };
                    pair.tally.handle_media(pair.now_ns, arrival, 500);
                }
            }
            // With those that are on their way.
            let Count { messages, bytes } = pair.tally.judged.missing;
            let expected = if lost.is_some() { 3..=5 } else { 0..=0 };
            assert!(expected.contains(&messages), "{:?}", pair.tally.judged);
            assert_eq!(bytes, 180 * messages);
            assert_eq!(pair.tally.judged.excess, Count::default());
        }
    }

    #[test]
    fn a_repeated_frame_is_excess_and_hides_no_loss() {
        let mut pair = Pair::new();
        pair.send(MediaKind::Video, 2700, Some((0, 1)));
        pair.frame = 0;
        pair.sent = Count::default();
        pair.send(MediaKind::Video, 2700, Some((0, 1)));
        assert_eq!(pair.tally.judged.excess, Count { messages: 1, bytes: 2700 });
        pair.send(MediaKind::Audio, 2700, None);
        pair.send(MediaKind::Video, 2700, Some((0, 1)));
        assert_eq!(pair.tally.judged.missing, Count { messages: 1, bytes: 2700 });
    }

    #[test]
    fn a_new_publisher_run_is_not_compared_with_the_old_one() {
        let mut pair = Pair::new();
        pair.send(MediaKind::Video, 2700, Some((0, 1)));
        pair.run = 8;
        pair.sent = Count { messages: 1_000_000, bytes: 1 };
        pair.send(MediaKind::Video, 2700, Some((0, 1)));
        assert!(pair.tally.judged.is_exact());
        assert_eq!(pair.tally.judged.expected, Count::default());
    }

    #[test]
    fn only_frames_sent_after_the_session_joined_count_for_latency() {
        let mut pair = Pair::new();
        // Sent 1500 ms before the session got its first byte: GOP cache.
        assert_eq!(pair.send(MediaKind::Video, 2700, Some((0, 1500))).latency_ns, None);
        assert_eq!(pair.send(MediaKind::Video, 2700, Some((0, 1480))).latency_ns, None);
        pair.now_ns += 1500 * MS;
        assert_eq!(pair.send(MediaKind::Video, 2700, Some((0, 30))).latency_ns, Some(30 * MS));
    }

    #[test]
    fn sequence_headers_are_counted_by_neither_side() {
        let mut pair = Pair::new();
        pair.send(MediaKind::Video, 2700, Some((0, 1)));
        let header = Arrival { kind: MediaKind::Audio, timestamp: 0, length: 7, prefix: &[0xaf, 0, 0x12] };
        assert!(!pair.tally.handle_media(pair.now_ns, header, 500).first_frame);
        pair.send(MediaKind::Video, 2700, Some((0, 1)));
        assert!(pair.tally.judged.is_exact());
        let cases: [(MediaKind, &[u8], bool, &str); 8] = [
            (MediaKind::Video, &[0x17, 0], true, "AVC sequence header"),
            (MediaKind::Video, &[0x17, 1], false, "AVC key frame"),
            (MediaKind::Video, &[0x90, b'h', b'v', b'c', b'1'], true, "enhanced SequenceStart"),
            (MediaKind::Video, &[0x91, b'h', b'v', b'c', b'1'], false, "enhanced CodedFrames"),
            (MediaKind::Audio, &[0xaf, 0], true, "AAC sequence header"),
            (MediaKind::Audio, &[0xaf, 1], false, "AAC frame"),
            (MediaKind::Audio, &[0x2f, 0], false, "MP3 frame whose second byte is zero"),
            (MediaKind::Video, &[], false, "empty body"),
        ];
        for (kind, prefix, expected, remark) in cases {
            assert_eq!(is_sequence_header(kind, prefix), expected, "{remark}");
        }
    }
}
