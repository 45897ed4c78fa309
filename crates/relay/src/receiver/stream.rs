//! One stream of a receiver: its keys, which packets came, and its tracks.

use srtp::aead::TAG_BYTES;
use ssrc_map::SsrcMap;
use std::time::Instant;

use super::{InLink, Position};
use crate::error::{DropReason, SetupError};
use crate::keys::{OpenKey, Opener};
use crate::limits::{EPOCHS_MAX, INDEX_WINDOW, OLD_EPOCH_VALID};
use crate::table::Id;
use crate::window::Window;

/// Number of a track of a stream, from 0 in the order in which SSRCs first appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackIndex(pub u16);

pub(super) struct InStream {
    /// The oldest first.
    epochs: Vec<Epoch>,
    tracks: SsrcMap<TrackIndex>,
    /// Links that it comes by, and its handle there.
    pub(super) links: Vec<(Id<InLink>, u16)>,
    /// SSRCs that are not wanted, and how often that has changed.
    pub(super) left_out: Vec<[u8; 4]>,
    pub(super) left_out_number: u16,
}

struct Epoch {
    opener: Opener,
    /// Indices that came.
    window: Window,
    /// Since when there are packets of a later epoch.
    outdated_at: Option<Instant>,
}

impl InStream {
    pub(super) fn new(key: &OpenKey, tracks_max: usize) -> Self {
        let tracks_max = tracks_max.min(usize::from(u16::MAX));
        // The node may join in the middle of its first epoch.
        let first = Epoch::new(key, Window::new(INDEX_WINDOW));
        Self {
            epochs: vec![first],
            tracks: SsrcMap::new(tracks_max),
            links: Vec::new(),
            left_out: Vec::new(),
            left_out_number: 0,
        }
    }

    pub(super) fn add_key(&mut self, now: Instant, key: &OpenKey) -> Result<(), SetupError> {
        let newest = self.epochs.last().map(|epoch| epoch.opener.epoch());
        // Datagrams have eight bits of it.
        if newest.is_some_and(|newest| !(1..128).contains(&key.epoch().wrapping_sub(newest))) {
            return Err(SetupError::StaleEpoch);
        }
        // Keys may come long before they are used: which of them opens nothing any more, only time says.
        self.epochs.retain(|epoch| !epoch.is_expired(now));
        if self.epochs.len() >= EPOCHS_MAX {
            return Err(SetupError::TooManyKeys);
        }
        self.epochs.push(Epoch::new(key, Window::from_zero(INDEX_WINDOW)));
        Ok(())
    }

    /// Whether a key of this epoch may still come: it is later than those there were.
    pub(super) fn may_get(&self, epoch: u8) -> bool {
        let newest = self.epochs.last().map_or(0, |epoch| epoch.opener.epoch() as u8);
        (1..128).contains(&epoch.wrapping_sub(newest))
    }

    /// Opens a packet, and returns how long it is. Only then, or if its index has come before, has it
    /// changed anything.
    #[inline]
    pub(super) fn open(
        &mut self,
        now: Instant,
        epoch: u8,
        index: u32,
        text: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<usize, DropReason> {
        let is_epoch = |of: &Epoch| of.opener.epoch() as u8 == epoch && !of.is_expired(now);
        let at = self.epochs.iter().rposition(is_epoch).ok_or(DropReason::UnknownEpoch)?;
        let Epoch { opener, window, .. } = &mut self.epochs[at];
        if !window.is_new(index.into()) {
            return Err(DropReason::Duplicate);
        }
        if !opener.open(index, text, tag) {
            return Err(DropReason::BadPayload);
        }
        window.accept(index.into());
        for older in &mut self.epochs[..at] {
            older.outdated_at.get_or_insert(now);
        }
        let padding = text.last().map_or(0, |padding| usize::from(*padding));
        (text.len() - 1).checked_sub(padding).ok_or(DropReason::NotRtp)
    }

    /// From where on packets may be missing that can still be opened.
    ///
    /// In the oldest epoch that has not expired, also if it lacks nothing: how many packets it had is
    /// not known, and its last ones may have been lost. For a few seconds after a change of keys, more
    /// comes twice for that.
    pub(super) fn position(&self, now: Instant) -> Position {
        // A first epoch of which nothing came before another one was over when the node joined.
        let mut valid = self.epochs.iter().filter(|epoch| !epoch.is_expired(now));
        let oldest = valid.find(|epoch| epoch.window.has_begun() || epoch.outdated_at.is_none());
        oldest.map_or(Position { epoch: 0, index: 0 }, |epoch| Position {
            epoch: epoch.opener.epoch() as u8,
            index: u32::try_from(epoch.window.first_missing(GAPS_MAX)).unwrap_or(u32::MAX),
        })
    }

    /// The track of an SSRC, a new one if it has none; `None` if there are too many.
    #[inline]
    pub(super) fn track(&mut self, ssrc: u32) -> Option<TrackIndex> {
        if let Some(track) = self.tracks.get(ssrc) {
            return Some(*track);
        }
        let track = TrackIndex(self.tracks.len() as u16);
        self.tracks.insert(ssrc, track).ok().map(|_| track)
    }

    pub(super) fn tracks(&self) -> impl Iterator<Item = (u32, TrackIndex)> {
        self.tracks.iter().map(|(ssrc, track)| (ssrc, *track))
    }
}

impl Epoch {
    fn new(key: &OpenKey, window: Window) -> Self {
        Self { opener: Opener::new(key), window, outdated_at: None }
    }

    fn is_expired(&self, now: Instant) -> bool {
        self.outdated_at.is_some_and(|at| now.saturating_duration_since(at) > OLD_EPOCH_VALID)
    }
}

/// How far back gaps count: those behind are given up.
const GAPS_MAX: u64 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::SealedPacket;
    use crate::keys::{SealKey, Sealer};
    use std::time::Duration;

    /// Index, text and tag of the next packet.
    fn seal(sealer: &mut Sealer, padding: u8) -> (u32, Vec<u8>, [u8; TAG_BYTES]) {
        let mut packet = SealedPacket::default();
        packet.seal(sealer, &[7; 20], padding);
        let (text, tag) = packet.bytes()[4..].split_last_chunk().expect("longer than a tag");
        (packet.index, text.to_vec(), *tag)
    }

    #[test]
    fn an_old_key_opens_for_a_short_time_after_the_first_packet_of_the_next() {
        let now = netsim::Clock::new().now();
        let keys = [0, 1].map(SealKey::random);
        let mut stream = InStream::new(&keys[0].open_key(), 10);
        stream.add_key(now, &keys[1].open_key()).unwrap();
        let [mut old, mut new] = keys.map(Sealer::new);
        let mut open = |at: Duration, epoch: u8, sealer: &mut Sealer| {
            let (index, mut text, tag) = seal(sealer, 0);
            stream.open(now + at, epoch, index, &mut text, &tag)
        };
        let hour = Duration::from_secs(3_600);
        assert_eq!(open(hour, 0, &mut old), Ok(20), "the next key alone changes nothing");
        assert_eq!(open(hour, 1, &mut new), Ok(20));
        assert_eq!(open(hour + OLD_EPOCH_VALID, 0, &mut old), Ok(20));
        let late = hour + OLD_EPOCH_VALID + Duration::from_millis(1);
        assert_eq!(open(late, 0, &mut old), Err(DropReason::UnknownEpoch));
        assert_eq!(open(late, 1, &mut new), Ok(20));
        assert_eq!(open(late, 2, &mut new), Err(DropReason::UnknownEpoch));
        assert_eq!(open(late, 1, &mut old), Err(DropReason::BadPayload), "another key's");
    }

    #[test]
    fn packets_that_were_lost_at_a_change_of_keys_are_behind_the_position() {
        let now = netsim::Clock::new().now();
        let keys = [5, 6, 7].map(SealKey::random);
        let mut stream = InStream::new(&keys[0].open_key(), 10);
        stream.add_key(now, &keys[1].open_key()).unwrap();
        stream.add_key(now, &keys[2].open_key()).unwrap();
        let mut sealers = keys.map(Sealer::new);
        let mut position = |at: Instant, packet: Option<(usize, u32)>| {
            if let Some((epoch, index)) = packet {
                sealers[epoch].skip_to(index);
                let (index, mut text, tag) = seal(&mut sealers[epoch], 0);
                stream.open(at, 5 + epoch as u8, index, &mut text, &tag).unwrap();
            }
            let Position { epoch, index } = stream.position(at);
            (epoch, index)
        };
        let late = now + OLD_EPOCH_VALID + Duration::from_millis(1);
        assert_eq!(position(now, None), (5, 0), "nothing came: from the beginning");
        assert_eq!(position(now, Some((0, 40))), (5, 41), "where the node joined");
        assert_eq!(position(now, Some((0, 42))), (5, 41));
        assert_eq!(position(now, Some((2, 3))), (5, 41), "another epoch leaves its gaps open");
        assert_eq!(position(late, None), (7, 0), "its first ones are lost");
    }

    #[test]
    fn keys_that_come_early_do_not_displace_the_one_in_use() {
        let now = netsim::Clock::new().now();
        let keys = [0, 1, 2, 3].map(SealKey::random);
        let open_keys = [0, 1, 2, 3].map(|at: usize| keys[at].open_key());
        let mut stream = InStream::new(&open_keys[0], 10);
        assert_eq!(stream.add_key(now, &open_keys[1]), Ok(()));
        assert_eq!(stream.add_key(now, &open_keys[2]), Ok(()));
        assert_eq!(stream.add_key(now, &open_keys[3]), Err(SetupError::TooManyKeys));
        let [mut first, mut second, ..] = keys.map(Sealer::new);
        let open = |stream: &mut InStream, at, epoch, sealer: &mut Sealer| {
            let (index, mut text, tag) = seal(sealer, 0);
            stream.open(at, epoch, index, &mut text, &tag)
        };
        assert_eq!(open(&mut stream, now, 0, &mut first), Ok(20), "it is in use");
        assert_eq!(open(&mut stream, now, 1, &mut second), Ok(20));
        assert_eq!(stream.add_key(now + OLD_EPOCH_VALID, &open_keys[3]), Err(SetupError::TooManyKeys));
        let late = now + OLD_EPOCH_VALID + Duration::from_millis(1);
        assert_eq!(stream.add_key(late, &open_keys[3]), Ok(()), "the first one opens nothing any more");
        assert_eq!(open(&mut stream, late, 1, &mut second), Ok(20));
    }

    #[test]
    fn padding_is_taken_off_and_an_index_counts_once() {
        let now = netsim::Clock::new().now();
        let key = SealKey::random(0);
        let mut stream = InStream::new(&key.open_key(), 10);
        let mut sealer = Sealer::new(key);
        let (index, text, tag) = seal(&mut sealer, 16);
        let mut opened = text.clone();
        assert_eq!(stream.open(now, 0, index, &mut opened, &tag), Ok(20));
        assert_eq!(opened[..20], [7; 20]);
        assert_eq!(stream.open(now, 0, index, &mut text.clone(), &tag), Err(DropReason::Duplicate));
    }
}
