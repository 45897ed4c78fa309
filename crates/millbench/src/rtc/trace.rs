//! What a viewer received, packet by packet, so that the floor can send the same.
//!
//! Kept is when a packet came, of which track, how long, and whether it is of a key frame. A
//! trace has whole seconds and is repeated. What arrived together leaves together, as one
//! [`Burst`].
//!
//! Packets of a frame that are one byte short of its longest count as long as that: a server may
//! pad them so that the frame leaves in one run, and does or does not depending on which of them
//! came in one batch. With one viewer, the one of a trace, they often do not.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::media::Track;

/// A repeated stretch of a stream, as one viewer got it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Length, nanoseconds.
    pub period_ns: u64,
    /// What arrived, in order of time.
    pub bursts: Vec<Burst>,
}

/// Packets that arrived together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// When, nanoseconds since the begin.
    pub at_ns: u64,
    /// In order of arrival.
    pub packets: Vec<TracedPacket>,
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedPacket {
    /// Video, not audio.
    pub video: bool,
    /// Marker bit.
    pub marker: bool,
    /// It is of a key frame. Traces from before do not say.
    #[serde(default)]
    pub key: bool,
    /// RTP timestamp since the track's first packet.
    pub timestamp: u32,
    /// RTP header with its extensions.
    pub header_bytes: u16,
    /// Payload with its padding, without the tag of SRTP.
    pub payload_bytes: u16,
}

impl TracedPacket {
    /// Its track.
    pub fn track(&self) -> Track {
        if self.video { Track::Video } else { Track::Audio }
    }
}

impl Trace {
    /// Number of packets.
    pub fn packets(&self) -> usize {
        self.bursts.iter().map(|burst| burst.packets.len()).sum()
    }

    /// Reads a file that [`Trace::write`] has written.
    ///
    /// # Errors
    /// A text for the user.
    pub fn read(path: &Path) -> Result<Trace, String> {
        let named = |error: String| format!("{}: {error}", path.display());
        let text = fs::read(path).map_err(|error| named(error.to_string()))?;
        let trace: Trace =
            serde_json::from_slice(&text).map_err(|error| named(format!("not a trace: {error}")))?;
        let in_order = trace.bursts.is_sorted_by_key(|burst| burst.at_ns)
            && trace.bursts.last().is_some_and(|burst| burst.at_ns < trace.period_ns);
        let mut packets = trace.bursts.iter().flat_map(|burst| &burst.packets);
        let headers_fit = packets.all(|packet| {
            let bytes = usize::from(packet.header_bytes);
            (12..=HEADER_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(4)
        });
        if in_order && headers_fit { Ok(trace) } else { Err(named("not a possible trace".to_owned())) }
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// A text for the user.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_vec(self).map_err(|error| format!("JSON: {error}"))?;
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Makes the packets of each frame equally long where they differ by a byte.
    fn even_out(&mut self) {
        let mut packets: Vec<&mut TracedPacket> = self
            .bursts
            .iter_mut()
            .flat_map(|burst| &mut burst.packets)
            .filter(|packet| packet.video)
            .collect();
        for frame in packets.chunk_by_mut(|one, other| one.timestamp == other.timestamp) {
            let longest = frame.iter().map(|packet| packet.payload_bytes).max().unwrap_or(0);
            for packet in frame.iter_mut().filter(|packet| packet.payload_bytes + 1 == longest) {
                packet.payload_bytes = longest;
            }
        }
    }
}

/// Makes a [`Trace`] of the packets that a viewer gets.
#[derive(Debug, Default)]
pub struct Tracer {
    /// When the first packet came, and the last one.
    first_ns: Option<u64>,
    last_ns: u64,
    begin_ns: Option<u64>,
    timestamps: [Option<u32>; 2],
    bursts: Vec<Burst>,
    is_done: bool,
}

impl Tracer {
    /// Takes a packet of media, still encrypted with a tag of `tag_bytes`, that was not sent again.
    pub fn note(&mut self, packet: &[u8], tag_bytes: usize, track: Track, at_ns: u64) {
        let (Some(header_bytes), false) = (header_bytes(packet), self.is_done) else { return };
        let Some(payload_bytes) = packet.len().checked_sub(header_bytes + tag_bytes) else { return };
        let first_ns = *self.first_ns.get_or_insert(at_ns);
        let is_new = at_ns.saturating_sub(self.last_ns) > TOGETHER_NS;
        self.last_ns = at_ns;
        if self.begin_ns.is_none() && is_new && at_ns >= first_ns + SKIPPED_NS {
            self.begin_ns = Some(at_ns);
        }
        let Some(begin_ns) = self.begin_ns else { return };
        let at_ns = at_ns.saturating_sub(begin_ns);
        if self.bursts.last().is_none_or(|burst| at_ns > burst.at_ns + TOGETHER_NS) {
            if at_ns >= PERIOD_NS {
                self.is_done = true;
                return;
            }
            self.bursts.push(Burst { at_ns, packets: Vec::new() });
        }
        let timestamp = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
        let first = *self.timestamps[track.index()].get_or_insert(timestamp);
        let packet = TracedPacket {
            video: track == Track::Video,
            marker: packet[1] & 0x80 != 0,
            key: false,
            timestamp: timestamp.wrapping_sub(first),
            header_bytes: header_bytes as u16,
            payload_bytes: payload_bytes as u16,
        };
        self.bursts.last_mut().expect("one was pushed if there was none").packets.push(packet);
    }

    /// The last packet, which was decrypted, is of a key frame.
    pub fn note_key(&mut self) {
        let last = self.bursts.last_mut().and_then(|burst| burst.packets.last_mut());
        if let Some(last) = last.filter(|_| !self.is_done) {
            last.key = true;
        }
    }

    /// The trace, once it is complete.
    pub fn finish(&self) -> Option<Trace> {
        self.is_done.then(|| {
            let mut trace = Trace { period_ns: PERIOD_NS, bursts: self.bursts.clone() };
            trace.even_out();
            trace
        })
    }
}

/// Length of an RTP header with CSRCs and extensions (RFC 3550 section 5.1); `None` if it is cut off.
fn header_bytes(packet: &[u8]) -> Option<usize> {
    let fixed = 12 + 4 * usize::from(packet.first()? & 0x0f);
    if packet[0] & 0x10 == 0 {
        return (packet.len() >= fixed).then_some(fixed);
    }
    let words = u16::from_be_bytes([*packet.get(fixed + 2)?, *packet.get(fixed + 3)?]);
    Some(fixed + 4 + 4 * usize::from(words)).filter(|&length| length <= packet.len())
}

/// Longest header of a trace.
pub const HEADER_BYTES_MAX: usize = 252;

/// Two groups of pictures of the generated media.
const PERIOD_NS: u64 = 4_000_000_000;

/// What a new viewer gets at first came earlier.
const SKIPPED_NS: u64 = 500_000_000;

/// Half the time between two looks of a publisher at its media: what it sent in one go.
const TOGETHER_NS: u64 = 500_000;

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: usize = 16;

    /// A packet with an extension of one word.
    fn packet(timestamp: u32, marker: bool, payload_bytes: usize) -> Vec<u8> {
        let mut packet = vec![0x90, 102 | u8::from(marker) << 7, 0, 1];
        packet.extend_from_slice(&timestamp.to_be_bytes());
        packet.extend_from_slice(&[0, 0, 0, 9, 0xbe, 0xde, 0, 1, 0, 0, 0, 0]);
        packet.resize(packet.len() + payload_bytes + TAG, 7);
        packet
    }

    /// Frames of three packets, a second of `per_second` of them each second, and audio beside each.
    fn traced(seconds: u64, per_second: u64) -> Tracer {
        let mut tracer = Tracer::default();
        for number in 0..seconds * per_second {
            let at_ns = 77 + number * 1_000_000_000 / per_second;
            let timestamp = (number * 90_000 / per_second) as u32;
            tracer.note(&packet(number as u32 * 960, false, 160), TAG, Track::Audio, at_ns);
            for (index, bytes) in [1000, 1000, 1001].into_iter().enumerate() {
                let video = packet(timestamp, index == 2, bytes);
                tracer.note(&video, TAG, Track::Video, at_ns + 20_000 * (index as u64 + 1));
                if number % 20 == 0 {
                    tracer.note_key();
                }
            }
        }
        tracer
    }

    #[test]
    fn four_seconds_are_kept_from_a_burst_on_with_frames_of_equal_packets() {
        assert_eq!(traced(4, 10).finish(), None, "not complete");
        let trace = traced(6, 10).finish().expect("it is complete");
        assert_eq!((trace.period_ns, trace.bursts.len(), trace.packets()), (PERIOD_NS, 40, 160));
        for (number, burst) in trace.bursts.iter().enumerate() {
            assert_eq!(burst.at_ns, number as u64 * 100_000_000);
            let sizes: Vec<_> = burst.packets.iter().map(|packet| packet.payload_bytes).collect();
            assert_eq!(sizes, [160, 1001, 1001, 1001], "{number}");
            assert!(burst.packets.iter().all(|packet| packet.header_bytes == 20));
            assert_eq!(burst.packets[3].timestamp, number as u32 * 9000);
            assert!(burst.packets[3].marker && !burst.packets[2].marker);
            let keys: Vec<_> = burst.packets.iter().map(|packet| packet.key).collect();
            // The first half second is left out.
            assert_eq!(keys, [false, number % 20 == 15, number % 20 == 15, number % 20 == 15], "{number}");
        }
    }

    #[test]
    fn packets_that_differ_by_more_than_a_byte_keep_their_lengths() {
        let sizes = |sizes: &[u16]| {
            let packets = sizes.iter().map(|&payload_bytes| TracedPacket {
                video: true,
                marker: false,
                key: false,
                timestamp: 0,
                header_bytes: 12,
                payload_bytes,
            });
            let burst = Burst { at_ns: 0, packets: packets.collect() };
            let mut trace = Trace { period_ns: 1, bursts: vec![burst] };
            trace.even_out();
            trace.bursts[0].packets.iter().map(|packet| packet.payload_bytes).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[30, 900, 901]), [30, 901, 901], "parameter sets and a key frame");
        assert_eq!(sizes(&[899, 900, 901]), [899, 901, 901]);
        assert_eq!(sizes(&[5]), [5]);
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_nonsense_is_refused() {
        let path = std::env::temp_dir().join(format!("millbench-trace-{}", std::process::id()));
        let trace = traced(6, 10).finish().expect("it is complete");
        trace.write(&path).expect("a file can be written");
        assert_eq!(Trace::read(&path), Ok(trace.clone()));
        let mut late = trace.clone();
        late.bursts[39].at_ns = PERIOD_NS;
        let mut short = trace;
        short.bursts[3].packets[0].header_bytes = 11;
        for wrong in [late, short, Trace::default()] {
            wrong.write(&path).expect("a file can be written");
            assert!(Trace::read(&path).is_err());
        }
        fs::remove_file(&path).expect("it is there");
        assert!(Trace::read(&path).is_err());
    }

    #[test]
    fn headers_are_measured_or_cut_off() {
        let whole = packet(0, false, 0);
        assert_eq!(header_bytes(&whole), Some(20));
        assert!((0..20).all(|length| header_bytes(&whole[..length]).is_none()));
        let mut plain = vec![0x81; 16];
        assert_eq!(header_bytes(&plain), Some(16), "one CSRC");
        plain.truncate(15);
        assert_eq!(header_bytes(&plain), None);
    }
}
