//! Which encoding an SSRC of the publisher belongs to.
//!
//! First what it signalled, then what the packet says (MID, RID), then the payload type if only one
//! track has it. An SSRC is remembered once a packet of it has come, and only authentic packets
//! come here. However many a publisher invents, no more than [`SSRCS_MAX`] are remembered.

use std::time::Instant;

use rtp::Packet;
use rtp::extension::{Extension, ExtensionMap};
use ssrc_map::SsrcMap;

use super::limits::TRACKS_MAX;
use super::track::{Track, TrackIndex, Tracks};

/// What an SSRC is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SsrcRole {
    pub(crate) track: TrackIndex,
    pub(crate) layer: u8,
    /// It carries retransmissions of the source.
    pub(crate) is_repair: bool,
    /// Another SSRC has taken its place.
    pub(crate) is_retired: bool,
}

/// SSRCs of one publisher.
#[derive(Debug)]
pub(crate) struct SsrcTable {
    roles: SsrcMap<SsrcRole>,
}

/// Why an SSRC has no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownSsrc {
    /// Neither signalling nor its packets name its track.
    NotIdentified,
    /// The publisher has used as many SSRCs as are remembered.
    TableFull,
}

impl SsrcTable {
    pub(crate) fn new() -> Self {
        Self { roles: SsrcMap::new(SSRCS_MAX) }
    }

    /// Remembers the SSRCs a track signalled.
    pub(crate) fn signalled(&mut self, track: &Track) {
        for (layer, encoding) in track.encodings.iter().enumerate() {
            for (ssrc, is_repair) in [(encoding.ssrc, false), (encoding.repair_ssrc, true)] {
                let role = SsrcRole { track: track.index, layer: layer as u8, is_repair, is_retired: false };
                if let Some(ssrc) = ssrc {
                    // More than fit are identified by what their packets say, like those that were
                    // not signalled.
                    let _ = self.roles.insert(ssrc, role);
                }
            }
        }
    }

    /// SSRCs in use and what they are.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (u32, SsrcRole)> {
        self.roles.iter().map(|(ssrc, role)| (ssrc, *role)).filter(|(_, role)| !role.is_retired)
    }

    /// An SSRC is this, as another process has found out.
    pub(crate) fn resume(&mut self, ssrc: u32, role: SsrcRole) {
        // As with those that were signalled.
        let _ = self.roles.insert(ssrc, role);
    }

    /// The role of the SSRC of a packet, if it is known.
    #[inline]
    pub(crate) fn get(&self, ssrc: u32) -> Option<SsrcRole> {
        self.roles.get(ssrc).copied()
    }

    /// Gives an SSRC that was replaced its encoding back, if the SSRC that replaced it is silent.
    pub(crate) fn reinstate(&mut self, now: Instant, ssrc: u32, role: SsrcRole, track: &mut Track) -> bool {
        let Some(encoding) = track.encodings.get_mut(usize::from(role.layer)) else { return false };
        if encoding.is_live(now) {
            return false;
        }
        let replaced = if role.is_repair {
            encoding.repair_ssrc.replace(ssrc)
        } else {
            let replaced = encoding.ssrc;
            encoding.replace(ssrc);
            replaced
        };
        if let Some(role) = replaced.and_then(|replaced| self.roles.get_mut(replaced)) {
            role.is_retired = true;
        }
        if let Some(role) = self.roles.get_mut(ssrc) {
            role.is_retired = false;
        }
        true
    }

    /// Finds out what the SSRC of a packet is and remembers it.
    pub(crate) fn identify(
        &mut self,
        packet: &Packet<'_>,
        tracks: &mut Tracks,
    ) -> Result<SsrcRole, UnknownSsrc> {
        if self.roles.len() >= SSRCS_MAX {
            return Err(UnknownSsrc::TableFull);
        }
        let role = role_of(packet, tracks).ok_or(UnknownSsrc::NotIdentified)?;
        let encoding = tracks
            .get_mut(role.track)
            .and_then(|track| track.encodings.get_mut(usize::from(role.layer)))
            .ok_or(UnknownSsrc::NotIdentified)?;
        let ssrc = packet.ssrc();
        let replaced = if role.is_repair {
            encoding.repair_ssrc.replace(ssrc)
        } else {
            let replaced = encoding.ssrc;
            match replaced {
                Some(_) => encoding.replace(ssrc),
                None => encoding.ssrc = Some(ssrc),
            }
            replaced
        };
        if let Some(role) = replaced.and_then(|replaced| self.roles.get_mut(replaced)) {
            role.is_retired = true;
        }
        self.roles.insert(ssrc, role).map_err(|_| UnknownSsrc::TableFull)?;
        Ok(role)
    }
}

/// What a packet says of itself.
fn role_of(packet: &Packet<'_>, tracks: &Tracks) -> Option<SsrcRole> {
    let known = || tracks.iter();
    let by_mid = known().find(|track| {
        let input = track.input.as_ref();
        input.is_some_and(|input| {
            let mid = element(packet, &input.extensions, Extension::Mid);
            !input.mid.is_empty() && mid == Some(input.mid.as_bytes())
        })
    });
    let mut by_payload = known().filter(|track| is_repair(track, packet.payload_type()).is_some());
    let track = match by_mid {
        Some(track) => track,
        None => by_payload.next().filter(|_| by_payload.next().is_none())?,
    };
    let is_repair = is_repair(track, packet.payload_type())?;
    let input = track.input.as_ref()?;
    let named =
        element(packet, &input.extensions, if is_repair { Extension::RepairedRid } else { Extension::Rid });
    let layer = match named {
        Some(rid) => input.rids.iter().position(|known| known.as_bytes() == rid)?,
        None if track.encodings.len() == 1 => 0,
        None => return None,
    };
    Some(SsrcRole { track: track.index, layer: layer as u8, is_repair, is_retired: false })
}

/// Whether the payload type is that of retransmissions; `None` if the track does not have it.
fn is_repair(track: &Track, payload_type: u8) -> Option<bool> {
    let payloads = &track.input.as_ref()?.payloads;
    if payloads.iter().any(|payload| payload.payload_type == payload_type) {
        return Some(false);
    }
    payloads.iter().any(|payload| payload.rtx == Some(payload_type)).then_some(true)
}

fn element<'a>(packet: &Packet<'a>, map: &ExtensionMap, wanted: Extension) -> Option<&'a [u8]> {
    let id = map.id_of(wanted)?;
    packet.extensions().find(|(known, _)| *known == id).map(|(_, data)| data)
}

/// SSRCs of one publisher that are remembered: all tracks, each with retransmissions, and as many
/// again for layers and for those that are replaced. Beyond, packets of new ones are dropped until
/// the publisher restarts. A table for few is small, whatever the cap.
pub(crate) const SSRCS_MAX: usize = 4 * TRACKS_MAX;
