//! A transport stream, in bytes cut at any place, as the frames of one program.
//!
//! Nothing is an error: what is broken is counted and left out, and the stream goes on behind it. Of
//! all PIDs only those of the two tables and of the program's tracks are kept track of, so that no
//! sender decides how much that is. Times are unwrapped from their 33 bits, and jump where the
//! sender's do. The PCR is not used: the times of frames say all that a live server needs, and
//! senders whose PCR jumps go on as if it did not.

mod aac;
mod audio;
mod elementary;
mod section;
mod sync;
mod unreadable;
mod video;

use std::collections::VecDeque;

use media::{Frame, FrameRole, MediaKind, Timestamp, TrackId};

use self::elementary::Elementary;
use self::section::SectionReader;
use self::sync::Sync;
pub use self::unreadable::Unreadable;
use crate::codecs::{self, Carried, PRIVATE, SCTE_35};
use crate::packet::{NULL_PID, Packet, PacketError};
use crate::psi::{self, PAT_PID, PAT_TABLE, PMT_TABLE, Section};
use crate::sections::{
    INFO_BYTES_MAX, PRIVATE_SECTION_BYTES_MAX, PRIVATE_SECTIONS, Passed, SECTION_TRACKS_MAX,
};
use crate::{PACKET_BYTES, TICKS_PER_SECOND};

/// Tracks of a program; further ones are counted as packets of other PIDs.
const TRACKS_MAX: usize = 16;
/// Programs of a table that are looked at.
const PROGRAMS_MAX: usize = 256;
/// Bytes of a PES packet's buffer that are kept for the next one.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Bytes of a PES packet of audio: more than its length of 16 bits can say.
const AUDIO_PES_BYTES_MAX: usize = 128 << 10;
/// Packets that a PID with sections may be ahead with what leaves.
const SECTION_CREDIT_MAX: usize = 64;
/// The same, where it begins.
const SECTION_CREDIT_FIRST: usize = 4;
/// Payload of a packet.
const PAYLOAD_BYTES: usize = PACKET_BYTES - 4;

/// Frames for which there is always room.
const FRAMES_KEPT: usize = 256;

/// What a demultiplexer takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DemuxSettings {
    /// Number of the program. `None`: the first one that has a track which is carried.
    pub program: Option<u16>,
    /// Bytes that PES packets which have not ended may have, all tracks together. One that would need
    /// more is dropped.
    pub pes_bytes_max: usize,
}

impl Default for DemuxSettings {
    fn default() -> Self {
        Self { program: None, pes_bytes_max: 8 << 20 }
    }
}

/// What came, and what was left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Times the sync byte was not where the next packet should begin.
    pub sync_losses: u64,
    /// Packets marked as damaged, or whose adaptation field is longer than they are.
    pub damaged: u64,
    /// Scrambled packets.
    pub scrambled: u64,
    /// Packets of PIDs that are neither tables nor tracks of the program.
    pub others: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Gaps in the counter of a PID that were not announced.
    pub discontinuities: u64,
    /// Sections with a wrong CRC, or of no known kind.
    pub sections_invalid: u64,
    /// PES packets that begin on private PIDs of the program, and are not carried.
    pub private: u64,
    /// Private sections that were passed on.
    pub private_sections: u64,
    /// Cues of SCTE 35 that were passed on.
    pub scte35: u64,
    /// Cues and private sections that came before the first frame, on more PIDs than are passed on, or
    /// took more packets than they came in.
    pub sections_left_out: u64,
    /// Times that the tracks of the program have changed.
    pub table_changes: u64,
    /// PES packets that are none, that lack bytes, or that have no time.
    pub pes_invalid: u64,
    /// PES packets dropped because too many bytes wait already.
    pub pes_too_long: u64,
    /// Access units whose bytes are not what their codec says, or that came before their configuration.
    pub frames_invalid: u64,
}

/// Reads one program. **Give it bytes with [`Demuxer::push`], then take frames with
/// [`Demuxer::next_frame`] until there is none.**
#[derive(Debug)]
pub struct Demuxer {
    settings: DemuxSettings,
    sync: Sync,
    program: Program,
    /// Whether bytes have come since the last frame of a track, and what was counted by then.
    since_frame: (bool, Counters),
}

/// All behind the packets' boundaries.
#[derive(Debug)]
struct Program {
    settings: DemuxSettings,
    pat: SectionReader,
    /// A table of programs has come.
    has_pat: bool,
    /// Number of each program and the PID of its table.
    listed: Vec<(u16, u16)>,
    /// Number, PID and table of the program that is read.
    current: Option<(u16, u16)>,
    pmt: SectionReader,
    /// Of the table in use.
    pmt_content: Vec<u8>,
    /// A table of tracks has come, if only one without any that are carried.
    has_pmt: bool,
    tracks: Vec<Elementary>,
    /// PIDs with sections that are passed on.
    sections: Vec<SectionTrack>,
    /// PIDs of the program that are only counted, and whether each has sections.
    counted: Vec<(u16, bool)>,
    /// Audio and video that is not carried, of all tables so far, and whether that has been said.
    left_out: Vec<(&'static str, bool)>,
    clock: Clock,
    counters: Counters,
    frames: VecDeque<Frame>,
}

/// A PID whose sections are passed on.
#[derive(Debug)]
struct SectionTrack {
    pid: u16,
    stream_type: u8,
    /// Descriptors in the table.
    info: Vec<u8>,
    reader: SectionReader,
    /// Packets that its sections may take where they are written. Each packet that comes adds one: one
    /// full of tiny sections does not become a packet for each of them.
    credit: usize,
}

/// Unwraps times of 33 bits, the same for all tracks.
#[derive(Debug, Default)]
struct Clock {
    last: Option<i64>,
}

/// Times of an access unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    dts: Timestamp,
    pts: Timestamp,
}

impl Demuxer {
    /// One that has seen nothing yet.
    pub fn new(settings: DemuxSettings) -> Self {
        let program = Program {
            settings,
            pat: SectionReader::default(),
            has_pat: false,
            listed: Vec::new(),
            current: None,
            pmt: SectionReader::default(),
            pmt_content: Vec::new(),
            has_pmt: false,
            tracks: Vec::new(),
            sections: Vec::new(),
            counted: Vec::new(),
            left_out: Vec::new(),
            clock: Clock::default(),
            counters: Counters::default(),
            frames: VecDeque::new(),
        };
        Self { settings, sync: Sync::default(), program, since_frame: (false, Counters::default()) }
    }

    /// Takes in bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.since_frame.0 |= !bytes.is_empty();
        let program = &mut self.program;
        let losses = self.sync.push(bytes, |packet| program.packet(packet));
        program.counters.sync_losses += losses;
    }

    /// The next frame. Configurations go ahead of the first frame that needs them.
    pub fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.program.frames.pop_front();
        match &frame {
            // A packet of many small frames is no reason to keep room for as many.
            None => self.program.frames.shrink_to(FRAMES_KEPT),
            // Configurations and cues alone are nothing to see or hear.
            Some(Frame { role: FrameRole::Key | FrameRole::Inter | FrameRole::Audio, .. }) => {
                self.since_frame = (false, self.program.counters);
            }
            Some(_) => {}
        }
        frame
    }

    /// The input is over: what waits for its end has ended.
    pub fn finish(&mut self) {
        self.program.finish_tracks();
    }

    /// What came, and what was left out.
    pub fn counters(&self) -> Counters {
        self.program.counters
    }

    /// The number of the program that is read, once its table has come.
    pub fn program(&self) -> Option<u16> {
        let current = self.program.current.filter(|_| !self.program.pmt_content.is_empty());
        current.map(|(number, _)| number)
    }

    /// Why no frame of audio or video has come of what was pushed since the last one. `None` if nothing
    /// was.
    pub fn unreadable(&self) -> Option<Unreadable> {
        let (has_come, before) = self.since_frame;
        let Program { counters, current, has_pat, has_pmt, tracks, .. } = &self.program;
        has_come.then(|| match current {
            _ if counters.packets == before.packets => Unreadable::NotTransportStream,
            None if !has_pat => Unreadable::NoPat,
            None => Unreadable::NoProgram,
            Some(_) if !has_pmt => Unreadable::NoPmt,
            Some(_) if tracks.is_empty() => Unreadable::NoTrack,
            Some(_) if counters.scrambled > before.scrambled => Unreadable::Scrambled,
            Some(_) => Unreadable::NoFrame,
        })
    }

    /// The name of a codec of which the program has a track that is left out; each is named once,
    /// whatever tables come.
    pub fn take_left_out(&mut self) -> Option<&'static str> {
        let news = self.program.left_out.iter_mut().find(|(_, is_said)| !*is_said)?;
        news.1 = true;
        Some(news.0)
    }

    /// What it takes.
    pub fn settings(&self) -> DemuxSettings {
        self.settings
    }

    /// Bytes that wait for more.
    pub fn bytes_held(&self) -> usize {
        let waiting: usize = self.program.tracks.iter().map(Elementary::bytes_held).sum();
        waiting + self.program.frames.iter().map(Frame::bytes_held).sum::<usize>()
    }
}

impl Program {
    fn packet(&mut self, bytes: &[u8; PACKET_BYTES]) {
        self.counters.packets += 1;
        let packet = match Packet::read(bytes) {
            Ok(packet) => packet,
            Err(PacketError::Damaged) => return self.counters.damaged += 1,
            Err(PacketError::Scrambled) => return self.counters.scrambled += 1,
        };
        match packet.pid {
            PAT_PID => self.pat_packet(&packet),
            pid if self.current.is_some_and(|(_, pmt)| pmt == pid) => self.pmt_packet(&packet),
            NULL_PID => {}
            pid => match self.tracks.iter().position(|track| track.pid == pid) {
                Some(at) => self.track_packet(at, &packet),
                None => self.other_packet(&packet),
            },
        }
    }

    fn other_packet(&mut self, packet: &Packet<'_>) {
        if let Some(at) = self.sections.iter().position(|track| track.pid == packet.pid) {
            return self.section_packet(at, packet);
        }
        match self.counted.iter().find(|(pid, _)| *pid == packet.pid) {
            Some((_, true)) => self.counters.sections_left_out += u64::from(packet.starts),
            Some((_, false)) => self.counters.private += u64::from(packet.starts),
            None => self.counters.others += 1,
        }
    }

    fn section_packet(&mut self, at: usize, packet: &Packet<'_>) {
        let Self { sections, clock, counters, frames, .. } = self;
        let SectionTrack { stream_type, info, reader, credit, .. } = &mut sections[at];
        *credit = (*credit + 1).min(SECTION_CREDIT_MAX);
        reader.push(packet, |section| {
            let packets = (1 + section.len()).div_ceil(PAYLOAD_BYTES);
            // A cue says when by the clock of the frames: before the first of them it says nothing.
            let Some(ticks) = clock.last.filter(|_| packets <= *credit) else {
                counters.sections_left_out += 1;
                return;
            };
            let passed = Passed { stream_type: *stream_type, info, section };
            let Some(frame) = passed.to_frame(at as u8, ticks) else {
                counters.sections_invalid += 1;
                return;
            };
            *credit -= packets;
            match *stream_type {
                SCTE_35 => counters.scte35 += 1,
                _ => counters.private_sections += 1,
            }
            frames.push_back(frame);
        });
    }

    fn pat_packet(&mut self, packet: &Packet<'_>) {
        let mut reader = std::mem::take(&mut self.pat);
        reader.push(packet, |bytes| match Section::read(bytes) {
            Some(section) if section.table == PAT_TABLE => self.pat_section(&section),
            _ => self.counters.sections_invalid += 1,
        });
        self.pat = reader;
    }

    fn pmt_packet(&mut self, packet: &Packet<'_>) {
        let mut reader = std::mem::take(&mut self.pmt);
        reader.push(packet, |bytes| match Section::read(bytes) {
            Some(section) if section.table == PMT_TABLE => self.pmt_section(&section),
            // Tables of other kinds may share the PID.
            Some(_) => {}
            None => self.counters.sections_invalid += 1,
        });
        self.pmt = reader;
    }

    fn pat_section(&mut self, section: &Section<'_>) {
        if !section.is_current {
            return;
        }
        self.has_pat = true;
        if section.section == 0 {
            self.listed.clear();
        }
        for row in psi::programs(section.content) {
            if self.listed.len() < PROGRAMS_MAX && !self.listed.contains(&row) {
                self.listed.push(row);
            }
        }
        let is_whole = section.section == section.last_section;
        let wanted = match (self.settings.program, self.current) {
            (Some(number), _) => Some(number),
            // It goes on as long as it is there.
            (None, Some((number, _))) if self.listed.iter().any(|listed| listed.0 == number) => Some(number),
            (None, _) if is_whole => self.listed.first().map(|listed| listed.0),
            (None, _) => None,
        };
        let found = wanted.and_then(|number| self.listed.iter().find(|listed| listed.0 == number));
        if let Some(&found) = found {
            self.choose(found);
        }
    }

    fn choose(&mut self, program: (u16, u16)) {
        if self.current != Some(program) {
            self.current = Some(program);
            self.pmt = SectionReader::default();
        }
    }

    fn pmt_section(&mut self, section: &Section<'_>) {
        let is_ours = self.current.is_some_and(|(number, _)| number == section.number);
        // Whether it is another is seen by its bytes: senders change tables without a new version.
        if !is_ours || !section.is_current {
            return;
        }
        self.has_pmt = true;
        if section.content == self.pmt_content {
            return;
        }
        let carried: Vec<(u16, Carried)> = psi::rows(section.content)
            .filter_map(|row| Some((row.pid, Carried::of(row.stream_type, row.info)?)))
            .filter(|(pid, _)| *pid != PAT_PID && *pid != NULL_PID)
            .collect();
        if carried.is_empty() && self.settings.program.is_none() && self.listed.len() > 1 {
            let at = self.listed.iter().position(|listed| listed.0 == section.number);
            let next = self.listed[at.map_or(0, |at| (at + 1) % self.listed.len())];
            return self.choose(next);
        }
        self.finish_tracks();
        self.pmt_content = section.content.to_vec();
        self.counters.table_changes += 1;
        for name in psi::rows(section.content).filter_map(|row| codecs::left_out(row.stream_type, row.info)) {
            if self.left_out.iter().all(|(known, _)| *known != name) {
                self.left_out.push((name, false));
            }
        }
        self.take_sections(section.content, &carried);
        self.take_tracks(&carried);
    }

    /// The PIDs of a new table that are no tracks.
    fn take_sections(&mut self, content: &[u8], carried: &[(u16, Carried)]) {
        let mut old = std::mem::take(&mut self.sections);
        self.counted.clear();
        for row in psi::rows(content).filter(|row| carried.iter().all(|(pid, _)| *pid != row.pid)) {
            let has_sections = matches!(row.stream_type, PRIVATE_SECTIONS | SCTE_35);
            let is_taken = has_sections
                && self.sections.len() < SECTION_TRACKS_MAX
                && row.info.len() <= INFO_BYTES_MAX
                && self.sections.iter().all(|track| track.pid != row.pid);
            if is_taken {
                let same = old.iter().position(|track| track.pid == row.pid).map(|at| old.swap_remove(at));
                let (reader, credit) = same.map_or_else(
                    || (SectionReader::new(PRIVATE_SECTION_BYTES_MAX), SECTION_CREDIT_FIRST),
                    |track| (track.reader, track.credit),
                );
                let (pid, stream_type, info) = (row.pid, row.stream_type, row.info.to_vec());
                self.sections.push(SectionTrack { pid, stream_type, info, reader, credit });
            } else if has_sections || row.stream_type == PRIVATE {
                self.counted.push((row.pid, has_sections));
            }
        }
    }

    /// The tracks of a new table. One that has the place of an earlier one among its kind, and its codec,
    /// is the same track on whatever PID: its configuration holds on.
    fn take_tracks(&mut self, carried: &[(u16, Carried)]) {
        let mut old = std::mem::take(&mut self.tracks);
        let mut indices = [0; 2];
        for &(pid, carried) in carried {
            let kind = carried.codec().kind();
            let index = &mut indices[usize::from(kind == MediaKind::Video)];
            if self.tracks.len() == TRACKS_MAX || self.tracks.iter().any(|track| track.pid == pid) {
                continue;
            }
            let id = TrackId { kind, index: *index };
            *index += 1;
            let same = old.iter().position(|track| track.id == id && track.carried == carried);
            let track = match same.map(|at| old.swap_remove(at)) {
                Some(track) => track.on(pid),
                None => Elementary::new(pid, id, carried),
            };
            self.tracks.push(track);
        }
        let time = Timestamp::from_ticks(self.clock.last.unwrap_or(0), TICKS_PER_SECOND);
        for track in old {
            let is_over = self.tracks.iter().all(|other| other.id != track.id);
            if is_over && track.has_begun {
                let codec = track.carried.codec();
                self.frames.push_back(Frame::new(track.id, FrameRole::End, codec, (time, time), Vec::new()));
            }
        }
    }

    fn track_packet(&mut self, at: usize, packet: &Packet<'_>) {
        let waiting: usize = self.tracks.iter().map(|track| track.pes_bytes()).sum();
        let room = self.settings.pes_bytes_max.saturating_sub(waiting);
        // Only video may leave its length open (ISO/IEC 13818-1 section 2.4.3.7).
        let room = match self.tracks[at].carried.codec().kind() {
            MediaKind::Audio => room.min(AUDIO_PES_BYTES_MAX.saturating_sub(self.tracks[at].pes_bytes())),
            _ => room,
        };
        let Self { tracks, clock, counters, frames, .. } = self;
        tracks[at].packet(packet, room, clock, counters, frames);
    }

    fn finish_tracks(&mut self) {
        let Self { tracks, clock, counters, frames, .. } = self;
        for track in tracks {
            track.finish(clock, counters, frames);
        }
    }
}

impl Clock {
    /// A time that goes on from the last one, the shorter way around.
    fn unwrap(&mut self, ticks: u64) -> i64 {
        let time = match self.last {
            None => ticks.cast_signed(),
            Some(last) => last.saturating_add(shorter(ticks.cast_signed().wrapping_sub(last))),
        };
        self.last = Some(time);
        time
    }
}

/// A distance of times of 33 bits, between -2^32 and 2^32.
fn shorter(distance: i64) -> i64 {
    (distance << 31) >> 31
}
