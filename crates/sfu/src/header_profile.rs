//! Headers for viewers: one template per packet and profile, patched for each viewer.
//!
//! Viewers whose header extensions have the same ids, whose m-line has the same MID and whose
//! codecs have the same payload types share a profile; in practice there is one for each browser.
//! Everything but SSRC, sequence number and (for joiners) timestamp is the same for all viewers of
//! a profile, and written once.
//!
//! Viewers' offers decide what is in a profile, so each viewer could have one of its own, and a
//! template for each packet and profile would be memory without bound. Templates are made for the
//! few profiles most viewers have; for the others the header is written each time, which costs some
//! tens of nanoseconds more.

use std::num::NonZeroU8;

use rtp::extension::{BlockWriter, DESCRIPTOR_LEN_MAX, Extension, ExtensionMap, Form, shift_frame_number};
use rtp::{FIXED_HEADER_LEN, HeaderFields};

use super::dependencies::ActiveTargets;
use super::inputs::{ViewerPayload, ViewerTrackInput};
use super::pacer::Pacer;
use super::packet::{EXTENSION_BYTES_MAX, Packet};
use super::protection::{Protection, REPAIR_LEN_MAX};

/// Longest header of an outgoing packet, in bytes; a multiple of 32.
pub const HEADER_LEN_MAX: usize = 256;

// Fixed header, head of the block, MID with its head, padding, and what a packet carries on.
const _: () = assert!(FIXED_HEADER_LEN + 4 + 2 + MID_LEN_MAX + 3 + EXTENSION_BYTES_MAX <= HEADER_LEN_MAX);

/// Longest MID that is sent, in bytes. Longer ones are left out, and the viewer tells tracks apart
/// by SSRC alone.
const MID_LEN_MAX: usize = 32;

/// What the headers of some viewers have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderProfile {
    mid: String,
    payloads: Vec<ViewerPayload>,
    extensions: ExtensionMap,
    form: Form,
}

/// The header fields that differ by viewer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ViewerFields {
    pub(crate) ssrc: u32,
    pub(crate) sequence_number: u16,
    pub(crate) timestamp: u32,
    /// Its timestamp is not the packet's own, so extensions that refer to it are left out.
    pub(crate) is_catch_up: bool,
    /// Added to the frame number of the dependency descriptor.
    pub(crate) frames: u16,
    /// It says that all of so many decode targets are active, unless it says itself which are.
    pub(crate) all_active: Option<NonZeroU8>,
}

impl HeaderProfile {
    pub(crate) fn new(input: &ViewerTrackInput) -> Self {
        Self {
            mid: input.mid.clone(),
            payloads: input.payloads.clone(),
            extensions: input.extensions,
            form: input.form,
        }
    }

    /// Whether its headers have room for a transport-wide number.
    pub(crate) fn has_transport_number(&self) -> bool {
        self.extensions.id_of(Extension::TransportCc).is_some_and(|id| self.form == Form::Either || id <= 14)
    }

    /// Whether its viewers get dependency descriptors.
    pub(crate) fn has_descriptors(&self) -> bool {
        self.extensions.id_of(Extension::DependencyDescriptor).is_some()
    }

    /// The payload types for a packet; `None` if viewers of this profile do not take its codec.
    pub(crate) fn payload_of(&self, packet: &Packet) -> Option<&ViewerPayload> {
        self.payloads.iter().find(|payload| payload.codec == packet.meta.codec)
    }

    /// The payload type for a packet, and what follows its header then: redundant audio where that was agreed
    /// on and has this viewer's number in it, else the packet's own payload.
    #[inline]
    pub(crate) fn sent<'a>(&self, packet: &'a Packet) -> Option<(u8, &'a [u8])> {
        let ViewerPayload { payload_type, red, .. } = *self.payload_of(packet)?;
        if let (Some((in_it, bytes)), Some(red)) = (packet.red(), red)
            && in_it == payload_type
        {
            return Some((red, bytes));
        }
        Some((payload_type, packet.payload()))
    }

    /// A payload type of retransmissions, if there are any.
    pub(crate) fn any_rtx(&self) -> Option<u8> {
        self.payloads.iter().find_map(|payload| payload.rtx)
    }

    /// Writes the header of a packet that has padding only; returns its length.
    pub(crate) fn write_padding(&self, fields: &HeaderFields, out: &mut [u8; HEADER_LEN_MAX]) -> usize {
        let mut block = [0; 16];
        let mut writer = BlockWriter::new(&mut block, self.form);
        if let Some(id) = self.extensions.id_of(Extension::TransportCc) {
            let _ = writer.push(id, &[0; 2]);
        }
        let len = writer.finish();
        let len = fields.write(&block[..len], out);
        out[0] |= PADDING_BIT;
        len
    }

    /// Writes the next repair packet of a track. The length of its header, and of all of it.
    pub(crate) fn write_repair(
        &self,
        protection: &mut Protection,
        pacer: Option<&mut Pacer>,
        out: &mut [u8; REPAIR_LEN_MAX],
    ) -> Option<(usize, usize)> {
        let mut block = [0; 16];
        let mut writer = BlockWriter::new(&mut block, self.form);
        let extension = self.extensions.id_of(Extension::TransportCc);
        if let Some(pacer) = pacer.filter(|pacer| extension.is_some() || pacer.knows_streams()) {
            let (ssrc, sequence_number) = protection.next_repair();
            let number = pacer.take_number(ssrc, sequence_number);
            if let Some(id) = extension {
                let _ = writer.push(id, &number.to_be_bytes());
            }
        }
        let len = writer.finish();
        Some((FIXED_HEADER_LEN + len, protection.poll_repair(&block[..len], out)?))
    }

    /// Writes the header of `packet`; returns its length, or `None` if viewers of this profile do
    /// not take its codec.
    pub(crate) fn header(
        &self,
        packet: &Packet,
        to: ViewerFields,
        out: &mut [u8; HEADER_LEN_MAX],
    ) -> Option<usize> {
        let (payload_type, _) = self.sent(packet)?;
        Some(self.write(packet, to, payload_type, out))
    }

    /// Writes a header with this payload type.
    pub(crate) fn write(
        &self,
        packet: &Packet,
        to: ViewerFields,
        payload_type: u8,
        out: &mut [u8; HEADER_LEN_MAX],
    ) -> usize {
        let mut block = [0; HEADER_LEN_MAX - FIXED_HEADER_LEN];
        let mut writer = BlockWriter::new(&mut block, self.form);
        // First, so that its number can be written over for each viewer (`set_transport_number`).
        if let Some(id) = self.extensions.id_of(Extension::TransportCc) {
            let _ = writer.push(id, &[0; 2]);
        }
        // What does not fit a viewer's form is left out: the media is worth more than the
        // extension.
        if let Some(id) = self.extensions.id_of(Extension::Mid)
            && !self.mid.is_empty()
            && self.mid.len() <= MID_LEN_MAX
        {
            let _ = writer.push(id, self.mid.as_bytes());
        }
        for (extension, data) in packet.extensions() {
            let is_left_out = match extension {
                Extension::AbsCaptureTime => to.is_catch_up,
                // Its structure, which comes with key frames, fits the two-byte form only, and
                // without it what follows cannot be read: all or none.
                Extension::DependencyDescriptor => self.form == Form::OneByte,
                _ => false,
            };
            if is_left_out {
                continue;
            }
            if let Some(id) = self.extensions.id_of(extension) {
                let _ = match extension {
                    Extension::DependencyDescriptor if to.frames != 0 || to.all_active.is_some() => {
                        writer.push(id, with_descriptor_changed(data, to, &mut [0; DESCRIPTOR_LEN_MAX]))
                    }
                    _ => writer.push(id, data),
                };
            }
        }
        let len = writer.finish();
        let fields = HeaderFields {
            marker: packet.meta.marker,
            payload_type,
            sequence_number: to.sequence_number,
            timestamp: to.timestamp,
            ssrc: to.ssrc,
        };
        let len = fields.write(&block[..len], out);
        if packet.is_padded() {
            out[0] |= PADDING_BIT;
        }
        len
    }
}

/// Writes the transport-wide number of a packet into its header, which has room for one: it is the first of
/// the header extensions.
#[inline]
pub(crate) fn set_transport_number(header: &mut [u8; HEADER_LEN_MAX], number: u16) {
    const BLOCK: usize = FIXED_HEADER_LEN;
    // 0xbede is the form with heads of one byte, anything else has two (RFC 8285 section 4).
    let at = BLOCK + 4 + if header[BLOCK] == 0xbe { 1 } else { 2 };
    header[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// P in the first byte of an RTP header (RFC 3550 section 5.1).
const PADDING_BIT: u8 = 0x20;

/// A dependency descriptor of a viewer that has changed layers, in `room`.
#[cold]
fn with_descriptor_changed<'a>(
    data: &'a [u8],
    to: ViewerFields,
    room: &'a mut [u8; DESCRIPTOR_LEN_MAX],
) -> &'a [u8] {
    // T and A behind the mandatory fields: it says itself what is active.
    let says = data.get(3).is_some_and(|flags| flags & 0xc0 != 0);
    let active = to.all_active.filter(|_| !says).map(ActiveTargets::all).unwrap_or_default();
    let mut said = [0; DESCRIPTOR_LEN_MAX];
    let said = active.write(data, &mut said);
    let Some(room) = room.get_mut(..said.len()) else { return data };
    room.copy_from_slice(said);
    shift_frame_number(room, to.frames);
    room
}

/// A header ready to be patched. Empty for viewers that do not take the packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderTemplate {
    pub(crate) bytes: [u8; HEADER_LEN_MAX],
    pub(crate) len: u16,
}

impl HeaderTemplate {
    pub(crate) const EMPTY: Self = Self { bytes: [0; HEADER_LEN_MAX], len: 0 };

    /// Writes the header with this SSRC and sequence number to `out`.
    #[inline]
    pub(crate) fn write(&self, ssrc: u32, sequence_number: u16, out: &mut [u8; HEADER_LEN_MAX]) -> usize {
        let len = usize::from(self.len);
        // Most headers are shorter than this; copying a fixed length is one or two instructions.
        out[..SHORT].copy_from_slice(&self.bytes[..SHORT]);
        if len > SHORT {
            out[SHORT..].copy_from_slice(&self.bytes[SHORT..]);
        }
        out[2..4].copy_from_slice(&sequence_number.to_be_bytes());
        out[8..12].copy_from_slice(&ssrc.to_be_bytes());
        len
    }
}

/// Bytes of a header that are copied without looking at its length.
const SHORT: usize = 32;

/// The profiles in use, and which of them have templates.
///
/// A profile of a single viewer has none: its header is written once either way. When more than
/// [`TEMPLATED_MAX`] are shared, one that many have replaces one that few have.
#[derive(Debug, Default)]
pub(crate) struct HeaderProfiles {
    profiles: Vec<Entry>,
    /// The profile of each template of a packet.
    templated: Vec<Option<ProfileId>>,
    /// Counts its changes.
    version: u64,
}

/// Names a profile of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProfileId(u16);

impl ProfileId {
    /// Names no profile.
    pub(crate) const NONE: Self = Self(u16::MAX);
}

#[derive(Debug)]
struct Entry {
    profile: HeaderProfile,
    users: u32,
    /// Slot of its template among those of a packet; [`NO_TEMPLATE`] without.
    slot: u8,
}

/// Profiles with templates, of one stream. Browsers and their versions make a handful.
pub(crate) const TEMPLATED_MAX: usize = 32;
/// Slot of a profile without a template.
const NO_TEMPLATE: u8 = u8::MAX;

impl HeaderProfiles {
    /// Whether `more` viewers' tracks can have a profile, even if each has its own.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.profiles.len() + more <= usize::from(u16::MAX)
    }

    /// The id of a profile for one more viewer. The caller has asked whether there is room.
    pub(crate) fn acquire(&mut self, profile: HeaderProfile) -> ProfileId {
        let known = self.profiles.iter().position(|known| known.users > 0 && known.profile == profile);
        let unused = || self.profiles.iter().position(|known| known.users == 0);
        let at = match known.or_else(unused) {
            Some(at) => at,
            None => {
                self.profiles.push(Entry { profile: profile.clone(), users: 0, slot: NO_TEMPLATE });
                self.profiles.len() - 1
            }
        };
        let entry = &mut self.profiles[at];
        if entry.users == 0 {
            entry.profile = profile;
        }
        entry.users += 1;
        self.assign_template(at);
        ProfileId(at as u16)
    }

    /// One viewer fewer has this profile.
    pub(crate) fn release(&mut self, id: ProfileId) {
        let Some(entry) = self.profiles.get_mut(usize::from(id.0)) else { return };
        entry.users = entry.users.saturating_sub(1);
        if entry.users < SHARED && entry.slot != NO_TEMPLATE {
            self.templated[usize::from(entry.slot)] = None;
            entry.slot = NO_TEMPLATE;
            self.version += 1;
            let waiting = self.profiles.iter().enumerate().filter(|(_, other)| other.slot == NO_TEMPLATE);
            if let Some((next, _)) = waiting.max_by_key(|(_, other)| other.users) {
                self.assign_template(next);
            }
        }
        while self.templated.last().is_some_and(Option::is_none) {
            self.templated.pop();
        }
        while self.profiles.last().is_some_and(|last| last.users == 0) {
            self.profiles.pop();
        }
    }

    /// Gives a profile a template if it is shared and a slot is free, or one that fewer viewers
    /// use.
    fn assign_template(&mut self, at: usize) {
        let Entry { users, slot, .. } = self.profiles[at];
        if users < SHARED || slot != NO_TEMPLATE {
            return;
        }
        let users_at =
            |slot: &Option<ProfileId>| slot.map_or(0, |held| self.profiles[usize::from(held.0)].users);
        let least = self.templated.iter().enumerate().min_by_key(|(_, slot)| users_at(slot));
        let slot = match least {
            Some((slot, None)) => slot,
            _ if self.templated.len() < TEMPLATED_MAX => {
                self.templated.push(None);
                self.templated.len() - 1
            }
            // Twice as many, so that two of a size do not swap with every viewer that joins.
            Some((slot, Some(held))) if users_at(&Some(*held)) < users / 2 => slot,
            _ => return,
        };
        if let Some(held) = self.templated[slot].replace(ProfileId(at as u16)) {
            self.profiles[usize::from(held.0)].slot = NO_TEMPLATE;
        }
        self.profiles[at].slot = slot as u8;
        self.version += 1;
    }

    pub(crate) fn get(&self, id: ProfileId) -> Option<&HeaderProfile> {
        self.profiles.get(usize::from(id.0)).map(|entry| &entry.profile)
    }

    /// Slot of the profile's template among those of a packet; not below
    /// [`HeaderProfiles::templates`] if it has none.
    #[inline]
    pub(crate) fn slot(&self, id: ProfileId) -> usize {
        self.profiles.get(usize::from(id.0)).map_or(usize::from(NO_TEMPLATE), |entry| usize::from(entry.slot))
    }

    /// Templates that were made with another version are those of other profiles.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Templates a packet has.
    #[inline]
    pub(crate) fn templates(&self) -> usize {
        self.templated.len()
    }

    /// The profile of each template of a packet.
    pub(crate) fn templated(&self) -> impl Iterator<Item = Option<&HeaderProfile>> {
        self.templated.iter().map(|held| self.get((*held)?))
    }
}

/// Viewers from which a template pays.
const SHARED: u32 = 2;

#[cfg(test)]
mod tests {
    use rtp::payload::MediaKind;

    use super::super::track::TrackIndex;
    use super::*;

    fn profile(mid: usize) -> HeaderProfile {
        HeaderProfile::new(&ViewerTrackInput {
            track: TrackIndex::new(MediaKind::Video, 0).expect("the first"),
            ssrc: 1,
            rtx_ssrc: None,
            mid: mid.to_string(),
            payloads: Vec::new(),
            extensions: ExtensionMap::new(),
            form: Form::OneByte,
            fec: None,
            nack: false,
        })
    }

    fn has_template(profiles: &HeaderProfiles, at: ProfileId) -> bool {
        let slot = profiles.slot(at);
        let of_slot = profiles.templated().nth(slot).flatten();
        assert!(of_slot.is_none_or(|of_slot| Some(of_slot) == profiles.get(at)), "its own or none");
        slot < profiles.templates()
    }

    #[test]
    fn templates_are_for_shapes_that_are_shared_and_for_those_most_have() {
        let mut profiles = HeaderProfiles::default();
        let alone = profiles.acquire(profile(0));
        assert!(!has_template(&profiles, alone) && profiles.templates() == 0);
        assert_eq!(profiles.acquire(profile(0)), alone);
        assert!(has_template(&profiles, alone) && profiles.templates() == 1);
        let others: Vec<ProfileId> =
            (1..100).map(|mid| [profiles.acquire(profile(mid)), profiles.acquire(profile(mid))][0]).collect();
        assert_eq!(profiles.templates(), TEMPLATED_MAX);
        let with =
            |profiles: &HeaderProfiles| others.iter().filter(|at| has_template(profiles, **at)).count();
        assert_eq!(with(&profiles), TEMPLATED_MAX - 1);
        // One that came late becomes common.
        let common = others[98];
        assert!(!has_template(&profiles, common));
        for _ in 0..10 {
            profiles.acquire(profile(99));
        }
        assert!(has_template(&profiles, common));
        assert_eq!(
            (profiles.templates(), with(&profiles)),
            (TEMPLATED_MAX, TEMPLATED_MAX - usize::from(has_template(&profiles, alone)))
        );
    }

    #[test]
    fn a_template_slot_that_gets_free_is_reused_and_all_end_with_the_last_viewer() {
        let mut profiles = HeaderProfiles::default();
        let all: Vec<ProfileId> = (0..200).map(|at| profiles.acquire(profile(at / 4))).collect();
        assert_eq!(profiles.templates(), TEMPLATED_MAX);
        let last = all[199];
        assert!(!has_template(&profiles, last));
        for gone in &all[..72] {
            profiles.release(*gone);
        }
        assert_eq!(profiles.templates(), TEMPLATED_MAX, "32 that are shared are left");
        assert!(all[72..].iter().all(|at| has_template(&profiles, *at)));
        for gone in &all[72..] {
            profiles.release(*gone);
        }
        assert_eq!((profiles.templates(), profiles.profiles.len()), (0, 0));
    }

    #[test]
    fn there_is_room_for_as_many_shapes_as_numbers() {
        let mut profiles = HeaderProfiles::default();
        profiles.acquire(profile(0));
        assert!(profiles.has_room(65_534) && !profiles.has_room(65_535));
    }
}
