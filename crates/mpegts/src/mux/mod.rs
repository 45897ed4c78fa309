//! Frames of a stream as packets of one program.
//!
//! Times: a frame's DTS is its stream time and [`MUX_DELAY`], its PTS as much later as the frame
//! says. The PCR is the stream time itself, so that each picture arrives the same time before it is
//! to be decoded. It goes ahead of each frame of its PID, and alone where those are further apart
//! than [`PCR_TICKS_MAX`]; both tables come every [`TABLES_TICKS`]. A pause longer than
//! [`PAUSE_TICKS_MAX`] is not filled: the PCR behind it is marked as one of a new time base.
//!
//! A section that is passed on follows the frame it came behind, in the row of the table that it had;
//! the table has that row from its first section on. Times in cues are moved as those of the last
//! frame were.
//!
//! Those who begin in the middle, or go on after packets were left out for them, get
//! [`Muxer::write_start`] first: the tables of the newest entry point, and, so that no counter is
//! missed, where the counter of each PID begins.

mod track;

use std::array;
use std::fmt;

use media::{Codec, Frame, FrameRole, MediaKind, Timestamp, TrackId};

use self::track::Track;
use crate::TICKS_PER_SECOND;
use crate::codecs::SCTE_35;
use crate::packet::{Adaptation, NULL_PID, PacketWriter};
use crate::psi::{self, PAT_PID, PAT_TABLE, PMT_TABLE, Row};
use crate::sections::{CUE_REGISTRATION, Passed, SECTION_TRACKS_MAX};

/// How long before it is to be decoded a frame arrives.
///
/// Receivers that follow the PCR play so much later. Audio that a publisher sends later than the
/// video of the same time is late for them only if it is later by more than this.
pub const MUX_DELAY: Timestamp = Timestamp::from_millis(200);

/// Tracks of each kind; further ones are left out.
pub const TRACKS_MAX: usize = 4;

const PROGRAM: u16 = 1;
const PMT_PID: u16 = 0x1000;
/// Of the first track; the others follow, and then those of sections.
const FIRST_PID: u16 = 0x100;
/// PIDs that the table can have.
const PIDS: usize = 2 * TRACKS_MAX + SECTION_TRACKS_MAX;

const MUX_DELAY_TICKS: i64 = MUX_DELAY.units() * 90_000 / Timestamp::UNITS_PER_SECOND;
/// PCRs are at most 40 ms apart (ETSI TR 101 290), less what a picture at 25 a second
/// may be late by rounding.
const PCR_TICKS_MAX: i64 = 39 * 90;
/// Tables are sent again after this, which with the distance of PCRs is less than 100 ms.
const TABLES_TICKS: i64 = 60 * 90;
/// Longest time without a frame that is filled with PCRs and tables.
const PAUSE_TICKS_MAX: i64 = 2 * TICKS_PER_SECOND as i64;

/// Why a frame is not carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCarried {
    /// Transport streams have no place for this codec.
    Codec(Codec),
    /// Its configuration is missing, cannot be read, or cannot be said in a transport stream.
    Config(Codec),
    /// Its bytes are not what its codec says, or too many.
    Frame,
    /// There are [`TRACKS_MAX`] tracks of its kind before it.
    TooManyTracks,
}

impl NotCarried {
    /// For people.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Codec(Codec::Av1) => "MPEG-TS cannot carry AV1",
            Self::Codec(Codec::Vp8) => "MPEG-TS cannot carry VP8",
            Self::Codec(Codec::Vp9) => "MPEG-TS cannot carry VP9",
            Self::Codec(Codec::Flac) => "MPEG-TS cannot carry FLAC",
            Self::Codec(Codec::Pcma | Codec::Pcmu) => "MPEG-TS cannot carry G.711",
            Self::Codec(_) => "MPEG-TS cannot carry the codec",
            Self::Config(_) => "MPEG-TS cannot carry the codec in this configuration, or it has none",
            Self::Frame => "the frame is not one of its codec, or too long",
            Self::TooManyTracks => "there are too many tracks",
        }
    }
}

impl fmt::Display for NotCarried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

/// Writes one program. **Give it every frame of the stream in order, configurations too, with
/// [`Muxer::write`], and [`Muxer::restart`] when a publisher begins.**
#[derive(Debug, Default)]
pub struct Muxer {
    /// By kind and index: video first.
    tracks: [Option<Track>; 2 * TRACKS_MAX],
    sections: [SectionTrack; SECTION_TRACKS_MAX],
    /// How much later than its publisher said the last frame was written, in ticks.
    shift: Option<i64>,
    tables: Tables,
    /// Tracks have changed since the tables were made.
    tables_are_old: bool,
    /// Newest stream time, in ticks.
    clock: Option<i64>,
    pcr_at: Option<i64>,
    tables_at: Option<i64>,
    start: Start,
    /// Memory for one PES packet.
    pes: Vec<u8>,
}

/// A PID with sections.
#[derive(Debug, Default)]
struct SectionTrack {
    stream_type: u8,
    /// Descriptors in the table.
    info: Vec<u8>,
    /// Of the next packet.
    counter: u8,
    /// The publisher has sent something for it.
    is_active: bool,
}

/// The tables as they were sent last.
#[derive(Debug, Default, Clone)]
struct Tables {
    pat: Vec<u8>,
    pmt: Vec<u8>,
    pmt_content: Vec<u8>,
    version: u8,
    pat_counter: u8,
    pmt_counter: u8,
    pcr_pid: u16,
}

/// What was there right before the newest entry point.
#[derive(Debug, Default)]
struct Start {
    tables: Tables,
    /// Counters of the tracks' PIDs, and of those with sections.
    counters: [Option<u8>; PIDS],
}

impl Muxer {
    /// Whether there is a place for a codec at all.
    pub fn carries(codec: Codec) -> bool {
        crate::codecs::announce(codec, 0).is_some()
    }

    /// A publisher begins: its tracks may be others.
    pub fn restart(&mut self) {
        self.tracks.iter_mut().flatten().for_each(|track| track.is_active = false);
        self.sections.iter_mut().for_each(|track| track.is_active = false);
        self.shift = None;
        (self.tables_at, self.tables_are_old) = (None, true);
    }

    /// Appends a frame at its stream time; `is_entry` if receivers may begin with it. Writes nothing
    /// for a configuration, which goes ahead of the key frames that follow.
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        frame: &Frame,
        time: Timestamp,
        is_entry: bool,
    ) -> Result<(), NotCarried> {
        let Some(slot) = slot(frame.track)? else { return self.write_section(out, frame) };
        match frame.role {
            FrameRole::Config => return self.configure(slot, frame),
            FrameRole::End => {
                self.end(slot);
                return Ok(());
            }
            FrameRole::Metadata | FrameRole::Other => return Ok(()),
            FrameRole::Key | FrameRole::Inter | FrameRole::Audio => {}
        }
        let known = self.tracks[slot].as_ref();
        if known.is_none_or(|track| !track.is_active || track.codec != frame.codec) {
            // Only codecs that need no configuration begin with a frame.
            self.activate(slot, Track::without_config(frame.codec)?);
        }
        let ticks = time.ticks(TICKS_PER_SECOND);
        let dts = ticks + MUX_DELAY_TICKS;
        let pts = dts + (frame.pts - frame.dts).ticks(TICKS_PER_SECOND);
        self.pes.clear();
        let track = self.tracks[slot].as_ref().expect("it is known, or was just made");
        track.write_pes(&mut self.pes, frame, (pts, dts))?;
        self.shift = Some(dts.wrapping_sub(frame.dts.ticks(TICKS_PER_SECOND)));
        let are_new = self.update_tables();
        if is_entry {
            self.start.tables.clone_from(&self.tables);
            self.start.counters = array::from_fn(|slot| match slot.checked_sub(self.tracks.len()) {
                None => self.tracks[slot].as_ref().map(|track| track.counter),
                Some(at) => self.sections[at].is_active.then_some(self.sections[at].counter),
            });
        }
        let is_of_pcr = pid(slot) == self.tables.pcr_pid;
        let pcr = self.advance(out, ticks, are_new, is_of_pcr);
        let random_access = matches!(frame.role, FrameRole::Key) || (is_entry && is_of_pcr);
        let track = self.tracks[slot].as_mut().expect("as above");
        let writer = PacketWriter { pid: pid(slot), counter: &mut track.counter };
        writer.write(out, Adaptation { random_access, ..pcr }, &self.pes);
        Ok(())
    }

    /// Appends a section, if the frame has one. Before the first frame of its publisher nothing is known
    /// of what its times mean: it is left out.
    fn write_section(&mut self, out: &mut Vec<u8>, frame: &Frame) -> Result<(), NotCarried> {
        let (Some(passed), Some(shift), Some(clock)) = (Passed::of_frame(frame), self.shift, self.clock)
        else {
            return Ok(());
        };
        let at = usize::from(frame.track.index);
        let track = self.sections.get_mut(at).ok_or(NotCarried::TooManyTracks)?;
        if !track.is_active || (track.stream_type, &track.info[..]) != (passed.stream_type, passed.info) {
            (track.stream_type, track.is_active) = (passed.stream_type, true);
            track.info = passed.info.to_vec();
            self.tables_are_old = true;
        }
        if self.update_tables() {
            self.write_tables(out, clock, true);
        }
        self.pes.clear();
        passed.write(&mut self.pes, frame.dts.ticks(TICKS_PER_SECOND).wrapping_add(shift));
        let writer =
            PacketWriter { pid: pid(self.tracks.len() + at), counter: &mut self.sections[at].counter };
        writer.write(out, Adaptation::default(), &self.pes);
        Ok(())
    }

    /// Appends what a receiver gets before the newest entry point. `begins_again` if it has had packets
    /// of this stream before: the counters it knows are not continued.
    pub fn write_start(&self, out: &mut Vec<u8>, begins_again: bool) {
        let Start { tables, counters } = &self.start;
        if tables.pmt.is_empty() {
            return;
        }
        let adaptation = Adaptation { discontinuity: begins_again, ..Adaptation::default() };
        for (pid, counter, payload) in
            [(PAT_PID, tables.pat_counter, &tables.pat), (PMT_PID, tables.pmt_counter, &tables.pmt)]
        {
            let writer = PacketWriter { pid, counter: &mut (counter.wrapping_sub(1) & 0x0f) };
            writer.write(out, adaptation, payload);
        }
        for (slot, counter) in counters.iter().enumerate() {
            if let Some(mut counter) = counter.filter(|_| begins_again) {
                let writer = PacketWriter { pid: pid(slot), counter: &mut counter };
                writer.write_adaptation_only(out, adaptation);
            }
        }
    }

    /// Appends a packet without content.
    pub fn write_nothing(out: &mut Vec<u8>) {
        PacketWriter { pid: NULL_PID, counter: &mut 0 }.write(out, Adaptation::default(), &[0xff; 184]);
    }

    fn configure(&mut self, slot: usize, frame: &Frame) -> Result<(), NotCarried> {
        let track = Track::with_config(frame.codec, frame.data());
        if track.is_err() {
            // What was known of the track does not hold any more.
            self.end(slot);
        }
        self.activate(slot, track?);
        Ok(())
    }

    /// The counter of a PID goes on whatever it carries.
    fn activate(&mut self, slot: usize, mut track: Track) {
        track.counter = self.tracks[slot].as_ref().map_or(0, |track| track.counter);
        self.tracks[slot] = Some(track);
        self.tables_are_old = true;
    }

    fn end(&mut self, slot: usize) {
        self.tracks[slot].iter_mut().for_each(|track| track.is_active = false);
        self.tables_are_old = true;
    }

    /// Makes the tables of the active tracks, and says whether they differ from those sent last.
    fn update_tables(&mut self) -> bool {
        if !std::mem::take(&mut self.tables_are_old) {
            return false;
        }
        let active = || {
            let tracks = self.tracks.iter().enumerate();
            tracks.filter_map(|(slot, track)| {
                Some((pid(slot), track.as_ref().filter(|track| track.is_active)?))
            })
        };
        let pcr_pid = active().next().map_or(NULL_PID, |(pid, _)| pid);
        let rows =
            active().map(|(pid, track)| Row { stream_type: track.stream_type, pid, info: &track.info });
        let sections = self.sections.iter().enumerate().filter(|(_, track)| track.is_active);
        let has_cues = sections.clone().any(|(_, track)| track.stream_type == SCTE_35);
        let info: &[u8] = if has_cues { &CUE_REGISTRATION } else { &[] };
        let sections = sections.map(|(at, track)| Row {
            stream_type: track.stream_type,
            pid: pid(self.tracks.len() + at),
            info: &track.info,
        });
        let content = psi::pmt_content(pcr_pid, info, rows.chain(sections));
        if content == self.tables.pmt_content {
            return false;
        }
        let tables = &mut self.tables;
        tables.version = (tables.version + 1) & 0x1f;
        tables.pat = psi::section_payload(PAT_TABLE, PROGRAM, 0, &psi::pat_content(PROGRAM, PMT_PID));
        tables.pmt = psi::section_payload(PMT_TABLE, PROGRAM, tables.version, &content);
        (tables.pmt_content, tables.pcr_pid) = (content, pcr_pid);
        true
    }

    /// Time goes on to a frame: writes the PCRs and tables up to it. Returns the PCR that its own packet
    /// has, if its track has the PCR, and else writes one if that is due.
    fn advance(&mut self, out: &mut Vec<u8>, ticks: i64, new_tables: bool, is_of_pcr: bool) -> Adaptation {
        let clock = self.clock.map_or(ticks, |clock| clock.max(ticks));
        self.clock = Some(clock);
        let mut discontinuity = false;
        match self.pcr_at {
            Some(at) if clock - at <= PAUSE_TICKS_MAX => {
                // In equal steps, of which the last is this frame's.
                let steps = (clock - at + PCR_TICKS_MAX - 1) / PCR_TICKS_MAX;
                for step in 1..steps {
                    let time = at + (clock - at) * step / steps;
                    self.write_pcr(out, time, false);
                    self.write_tables(out, time, false);
                }
            }
            at => discontinuity = at.is_some(),
        }
        self.write_tables(out, clock, new_tables);
        if is_of_pcr {
            self.pcr_at = Some(clock);
            return Adaptation { discontinuity, pcr: Some(pcr(clock)), ..Adaptation::default() };
        }
        if discontinuity || self.pcr_at.is_none() {
            self.write_pcr(out, clock, discontinuity);
        }
        Adaptation::default()
    }

    fn write_pcr(&mut self, out: &mut Vec<u8>, time: i64, discontinuity: bool) {
        let pid = self.tables.pcr_pid;
        self.pcr_at = Some(time);
        let slot = usize::from(pid.wrapping_sub(FIRST_PID));
        let Some(Some(track)) = self.tracks.get_mut(slot) else { return };
        let adaptation = Adaptation { pcr: Some(pcr(time)), discontinuity, ..Adaptation::default() };
        PacketWriter { pid, counter: &mut track.counter }.write_adaptation_only(out, adaptation);
    }

    fn write_tables(&mut self, out: &mut Vec<u8>, time: i64, are_new: bool) {
        let is_due = self.tables_at.is_none_or(|at| time - at > TABLES_TICKS);
        if !is_due && !are_new {
            return;
        }
        self.tables_at = Some(time);
        let Tables { pat, pmt, pat_counter, pmt_counter, .. } = &mut self.tables;
        let nothing = Adaptation::default();
        PacketWriter { pid: PAT_PID, counter: pat_counter }.write(out, nothing, pat);
        PacketWriter { pid: PMT_PID, counter: pmt_counter }.write(out, nothing, pmt);
    }
}

/// Where a track is in the table; `None` for data.
fn slot(track: TrackId) -> Result<Option<usize>, NotCarried> {
    let index = usize::from(track.index);
    match track.kind {
        MediaKind::Data => Ok(None),
        _ if index >= TRACKS_MAX => Err(NotCarried::TooManyTracks),
        MediaKind::Video => Ok(Some(index)),
        MediaKind::Audio => Ok(Some(TRACKS_MAX + index)),
    }
}

fn pid(slot: usize) -> u16 {
    FIRST_PID + slot as u16
}

/// Ticks of 27 MHz.
fn pcr(ticks: i64) -> u64 {
    (ticks.cast_unsigned() & ((1 << crate::pes::TICKS_BITS) - 1)) * 300
}
