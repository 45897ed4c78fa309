//! One stream of a sender: its packets, sealed here or elsewhere, and the links that get it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::link::OutLink;
use super::outgoing::Outgoing;
use crate::error::SendError;
use crate::history::{History, SealedPacket};
use crate::key_frames::KeyFrames;
use crate::keys::Sealer;
use crate::limits::{Limits, PADDING_MAX, SPARES_MAX};
use crate::table::Id;
use crate::wire::{PRIVATE_BYTES, SHARED_BYTES_ADDED, Shared};

pub(super) struct OutStream {
    /// None of a stream that another node is the source of.
    pub(super) sealer: Option<Sealer>,
    pub(super) history: History,
    pub(super) members: Vec<Member>,
    pub(super) key_frames: KeyFrames,
}

/// A link that gets a stream, and the handle it knows it by.
pub(super) struct Member {
    pub(super) link: Id<OutLink>,
    pub(super) handle: u16,
    /// Number of the next packet that it lacks, while it gets those that are kept.
    pub(super) behind: Option<u64>,
    /// SSRCs that it does not get.
    pub(super) left_out: Vec<u32>,
    /// Number of what its node said last about that.
    pub(super) said: Option<u16>,
}

impl Member {
    pub(super) fn new(link: Id<OutLink>, handle: u16) -> Self {
        Self { link, handle, behind: None, left_out: Vec::new(), said: None }
    }

    /// Whether it gets packets of this SSRC.
    #[inline]
    pub(super) fn wants(&self, ssrc: u32) -> bool {
        !self.left_out.contains(&ssrc)
    }

    /// Takes what its node says it leaves out. Whether that is anything new.
    pub(super) fn leave_out(&mut self, number: u16, ssrcs: &[[u8; 4]]) -> bool {
        if self.said.is_some_and(|said| number.wrapping_sub(said).cast_signed() <= 0) {
            return false;
        }
        self.said = Some(number);
        let ssrcs = ssrcs.iter().map(|ssrc| u32::from_be_bytes(*ssrc));
        let is_new = !self.left_out.iter().copied().eq(ssrcs.clone());
        self.left_out = ssrcs.collect();
        is_new
    }
}

/// A packet to be sent on.
#[derive(Clone, Copy, Debug)]
pub struct Forwarded<'a> {
    /// Whose it is.
    pub ssrc: u32,
    /// The datagram as it came.
    pub datagram: &'a [u8],
}

impl OutStream {
    pub(super) fn new(sealer: Option<Sealer>, tracks_max: usize) -> Self {
        let (history, key_frames) = (History::default(), KeyFrames::new(tracks_max));
        Self { sealer, history, members: Vec::new(), key_frames }
    }

    /// Where in `members` those are that get a packet.
    pub(super) fn members(&self, only: Option<Id<OutLink>>) -> Result<Range<usize>, SendError> {
        let Some(only) = only else { return Ok(0..self.members.len()) };
        let at = self.members.iter().position(|member| member.link == only).ok_or(SendError::Unknown)?;
        Ok(at..at + 1)
    }

    /// Seals packets into the history and `out`; returns the number of the first. The lengths are
    /// right, and the sealer has room.
    pub(super) fn seal(
        &mut self,
        now: Instant,
        packets: &[&[u8]],
        limits: &Limits,
        spares: &mut Spares,
        out: &mut Outgoing,
    ) -> u64 {
        let Self { sealer, history, key_frames, .. } = self;
        let first = history.end();
        let Some(sealer) = sealer else { return first };
        let longest = packets.iter().map(|packet| packet.len()).max().unwrap_or(0);
        // A packet that passes the path must not become as long as one that does not.
        let may_pad = PRIVATE_BYTES + longest + SHARED_BYTES_ADDED <= limits.datagram_bytes_max;
        for packet in packets {
            let lacks = longest - packet.len();
            let padding = if may_pad && lacks <= PADDING_MAX { lacks as u8 } else { 0 };
            let sealed = spares.fill(|sealed| sealed.seal(sealer, packet, padding));
            key_frames.note(sealed.ssrc);
            out.packets.push(Arc::clone(&sealed));
            history.push(now, sealed, limits, |packet| spares.put(packet));
        }
        first
    }

    /// Copies packets of datagrams into the history and `out`; returns the number of the first.
    ///
    /// Also when no link gets the stream: one that comes may want what was before.
    pub(super) fn copy(
        &mut self,
        now: Instant,
        packets: &[Forwarded<'_>],
        limits: &Limits,
        spares: &mut Spares,
        out: &mut Outgoing,
    ) -> u64 {
        let first = self.history.end();
        for packet in packets {
            let Some(shared) = Shared::parse(packet.datagram) else { continue };
            let sealed = spares.fill(|sealed| sealed.copy_from(&shared, packet.ssrc));
            self.key_frames.note(packet.ssrc);
            out.packets.push(Arc::clone(&sealed));
            self.history.push(now, sealed, limits, |packet| spares.put(packet));
        }
        first
    }
}

/// Packets whose memory is used again.
#[derive(Default)]
pub(super) struct Spares(Vec<Arc<SealedPacket>>);

impl Spares {
    /// Takes a packet that is not kept any more, unless somebody else has it still.
    pub(super) fn put(&mut self, mut packet: Arc<SealedPacket>) {
        if self.0.len() < SPARES_MAX && Arc::get_mut(&mut packet).is_some() {
            self.0.push(packet);
        }
    }

    /// A packet that `fill` writes.
    fn fill(&mut self, fill: impl FnOnce(&mut SealedPacket)) -> Arc<SealedPacket> {
        let mut packet = self.0.pop().unwrap_or_default();
        fill(Arc::get_mut(&mut packet).expect("nobody else has a spare one"));
        packet
    }
}
