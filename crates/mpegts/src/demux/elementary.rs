//! One track: its PES packets, put together from the packets of its PID, and read as its codec.

use std::collections::VecDeque;

use media::{Frame, Timestamp, TrackId};

use super::audio::AudioReader;
use super::video::VideoReader;
use super::{Clock, Counters, KEPT_BYTES_MAX, Times, shorter};
use crate::codecs::Carried;
use crate::packet::Packet;
use crate::pes::{PesHeader, PesRead};
use crate::{PACKET_BYTES, TICKS_PER_SECOND};

/// Longest time by which a picture is shown later than it is decoded; more makes no sense.
const REORDER_TICKS_MAX: i64 = 10 * TICKS_PER_SECOND as i64;

/// A track.
#[derive(Debug)]
pub(super) struct Elementary {
    pub(super) pid: u16,
    pub(super) id: TrackId,
    pub(super) carried: Carried,
    /// A frame of it has been handed on.
    pub(super) has_begun: bool,
    counter: Option<u8>,
    /// Payload of the last packet: one that comes twice is the same.
    last_payload: Vec<u8>,
    pes: Vec<u8>,
    /// Bytes of the PES packet once its header says so.
    pes_bytes: Option<usize>,
    state: PesState,
    random_access: bool,
    /// DTS of the last PES packet, and how much later it was than the one before.
    last: Option<(i64, i64)>,
    reader: Reader,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PesState {
    /// Nothing of use comes until one begins.
    Waiting,
    Open,
}

#[derive(Debug)]
enum Reader {
    Video(Box<VideoReader>),
    Audio(Box<AudioReader>),
}

impl Elementary {
    pub(super) fn new(pid: u16, id: TrackId, carried: Carried) -> Self {
        let reader = match carried {
            Carried::H264 | Carried::H265 => Reader::Video(Box::new(VideoReader::new(id, carried.codec()))),
            _ => Reader::Audio(Box::new(AudioReader::new(id, carried))),
        };
        Self {
            pid,
            id,
            carried,
            has_begun: false,
            counter: None,
            last_payload: Vec::with_capacity(PACKET_BYTES),
            pes: Vec::new(),
            pes_bytes: None,
            state: PesState::Waiting,
            random_access: false,
            last: None,
            reader,
        }
    }

    /// The same track on another PID, or the same.
    pub(super) fn on(self, pid: u16) -> Self {
        let counter = self.counter.filter(|_| pid == self.pid);
        Self { pid, counter, ..self }
    }

    /// Bytes of the PES packet on its way.
    pub(super) fn pes_bytes(&self) -> usize {
        self.pes.len()
    }

    pub(super) fn bytes_held(&self) -> usize {
        let reader = match &self.reader {
            Reader::Video(_) => 0,
            Reader::Audio(reader) => reader.bytes_held(),
        };
        self.pes.capacity() + reader
    }

    /// Takes in a packet; `room` bytes may be added to what waits.
    pub(super) fn packet(
        &mut self,
        packet: &Packet<'_>,
        room: usize,
        clock: &mut Clock,
        counters: &mut Counters,
        frames: &mut VecDeque<Frame>,
    ) {
        if !packet.has_payload {
            if packet.discontinuity {
                // What follows has the next counter, and nothing to do with what came before.
                self.counter = Some(packet.counter);
                counters.pes_invalid += u64::from(self.state == PesState::Open);
                self.drop_pes();
                self.forget_rest();
            }
            return;
        }
        if let Some(last) = self.counter.filter(|_| !packet.discontinuity) {
            if packet.counter == last && packet.payload == self.last_payload {
                counters.duplicates += 1;
                return;
            }
            if packet.counter != (last + 1) & 0x0f {
                counters.discontinuities += 1;
                // What lacks bytes in its middle or at its end is broken.
                counters.pes_invalid += u64::from(self.state == PesState::Open);
                self.drop_pes();
                self.forget_rest();
            }
        }
        self.counter = Some(packet.counter);
        self.last_payload.clear();
        self.last_payload.extend_from_slice(packet.payload);
        if packet.starts {
            self.finish(clock, counters, frames);
            self.state = PesState::Open;
            self.random_access = packet.random_access;
        }
        if self.state == PesState::Waiting {
            return;
        }
        if packet.payload.len() > room {
            counters.pes_too_long += 1;
            return self.drop_pes();
        }
        self.pes.extend_from_slice(packet.payload);
        if self.pes_bytes.is_none() {
            match PesHeader::read(&self.pes) {
                PesRead::Header(header) => {
                    self.pes_bytes =
                        Some(header.payload_bytes.map_or(usize::MAX, |bytes| header.bytes + bytes));
                }
                PesRead::Incomplete => {}
                PesRead::NotMedia => {
                    counters.pes_invalid += 1;
                    return self.drop_pes();
                }
            }
        }
        if self.pes_bytes.is_some_and(|bytes| self.pes.len() >= bytes) {
            self.finish(clock, counters, frames);
        }
    }

    /// The PES packet on its way has ended.
    pub(super) fn finish(
        &mut self,
        clock: &mut Clock,
        counters: &mut Counters,
        frames: &mut VecDeque<Frame>,
    ) {
        if self.state == PesState::Waiting {
            return;
        }
        let mut pes = std::mem::take(&mut self.pes);
        if let PesRead::Header(header) = PesHeader::read(&pes) {
            let end = header.payload_bytes.map_or(pes.len(), |bytes| header.bytes + bytes);
            match pes.get(header.bytes..end) {
                Some(payload) => {
                    let before = frames.len();
                    let times = self.times(&header, clock);
                    let is_read = match &mut self.reader {
                        Reader::Video(reader) => {
                            times.map(|times| reader.read(payload, self.random_access, times, frames))
                        }
                        Reader::Audio(reader) => reader.read(payload, times, frames),
                    };
                    match is_read {
                        Some(invalid) => counters.frames_invalid += u64::from(invalid),
                        None => counters.pes_invalid += 1,
                    }
                    self.has_begun |= frames.len() > before;
                }
                None => counters.pes_invalid += 1,
            }
        } else {
            counters.pes_invalid += 1;
        }
        if pes.capacity() <= KEPT_BYTES_MAX {
            pes.clear();
            self.pes = pes;
        }
        self.drop_pes();
    }

    /// Times of a PES packet; those of a picture without any go on from the last ones. `None` if nothing
    /// is known, or for audio without any, which has times of its own.
    fn times(&mut self, header: &PesHeader, clock: &mut Clock) -> Option<Times> {
        let (dts, pts) = match (header.dts, header.pts, self.last, &self.reader) {
            (Some(dts), Some(pts), ..) => {
                let later = shorter(pts.cast_signed() - dts.cast_signed());
                let dts = clock.unwrap(dts);
                (dts, dts + later.clamp(0, REORDER_TICKS_MAX))
            }
            (_, _, Some((last, step)), Reader::Video(_)) => (last + step, last + step),
            _ => return None,
        };
        let step = self.last.map_or(0, |(last, _)| dts - last);
        self.last = Some((dts, step.clamp(0, i64::from(TICKS_PER_SECOND))));
        let [dts, pts] = [dts, pts].map(|ticks| Timestamp::from_ticks(ticks, TICKS_PER_SECOND));
        Some(Times { dts, pts })
    }

    /// Audio frames may begin in one PES packet and end in another.
    fn forget_rest(&mut self) {
        if let Reader::Audio(reader) = &mut self.reader {
            reader.forget_rest();
        }
    }

    fn drop_pes(&mut self) {
        if self.pes.capacity() > KEPT_BYTES_MAX {
            self.pes = Vec::new();
        }
        self.pes.clear();
        (self.pes_bytes, self.state) = (None, PesState::Waiting);
    }
}
