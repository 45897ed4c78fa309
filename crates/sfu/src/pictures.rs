//! Numbers of pictures inside payloads and extensions, which decoders expect to go on over a change
//! of layers: picture ids and TL0PICIDX of VP8 and VP9, frame numbers of the dependency descriptor.

use std::collections::VecDeque;
use std::num::NonZeroU8;

use rtp::extension::{DependencyDescriptor, Extension};
use rtp::payload::vp8::PictureId;
use rtp::payload::{Codec, vp8, vp9};

use super::packet::Packet;

/// What is added to the numbers of pictures for one viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PictureShift {
    /// To picture ids.
    pub(crate) pictures: u16,
    /// To frame numbers.
    pub(crate) frames: u16,
    /// To TL0PICIDX.
    pub(crate) tl0: u8,
    /// Said in the first dependency descriptors: all of so many decode targets are active, after some were
    /// left out.
    pub(crate) all_active: Option<NonZeroU8>,
}

/// What has to be changed in a payload before it goes to a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadShift {
    codec: Codec,
    pictures: u16,
    tl0: u8,
}

impl PayloadShift {
    /// Changes the payload of a packet, padding included or not.
    pub fn apply(self, payload: &mut [u8]) {
        match self.codec {
            Codec::Vp8 => vp8::shift(payload, self.pictures, self.tl0),
            Codec::Vp9 => vp9::shift(payload, self.pictures, self.tl0),
            _ => {}
        }
    }
}

impl PictureShift {
    pub(crate) const NONE: Self = Self { pictures: 0, frames: 0, tl0: 0, all_active: None };

    /// What is to be changed in payloads of this codec.
    pub(crate) fn of_payload(self, codec: Codec) -> Option<PayloadShift> {
        let is_any = (self.pictures, self.tl0) != (0, 0) && matches!(codec, Codec::Vp8 | Codec::Vp9);
        is_any.then_some(PayloadShift { codec, pictures: self.pictures, tl0: self.tl0 })
    }

    /// For the packets from `next` on, so that their numbers follow those of `last`, which got this
    /// shift. With the same source, numbers that are left free stay so: references are differences
    /// of them. Only those of VP8 close up.
    pub(crate) fn following(self, last: &Packet, next: &Packet, is_same_source: bool) -> Self {
        let (last, next) = (PictureNumbers::of(last), PictureNumbers::of(next));
        let follow = |last: Option<u16>, shift: u16, next: Option<u16>| match (last, next) {
            (Some(last), Some(next)) => last.wrapping_add(shift).wrapping_add(1).wrapping_sub(next),
            _ => shift,
        };
        let pictures = follow(last.picture, self.pictures, next.picture);
        if is_same_source {
            return if next.is_vp8 { Self { pictures, ..self } } else { self };
        }
        let tl0 = |tl0: Option<u8>| tl0.map(u16::from);
        Self {
            all_active: None,
            pictures,
            frames: follow(last.frame, self.frames, next.frame),
            tl0: follow(tl0(last.tl0), u16::from(self.tl0), tl0(next.tl0)) as u8,
        }
    }
}

/// Numbers of the picture that a packet is of, as far as it says.
#[derive(Debug, Clone, Copy, Default)]
struct PictureNumbers {
    is_vp8: bool,
    picture: Option<u16>,
    tl0: Option<u8>,
    frame: Option<u16>,
}

impl PictureNumbers {
    fn of(packet: &Packet) -> Self {
        let descriptor =
            packet.extensions().find(|(extension, _)| *extension == Extension::DependencyDescriptor);
        let frame = descriptor.and_then(|(_, data)| DependencyDescriptor::parse(data));
        let frame = frame.map(|descriptor| descriptor.frame_number);
        let payload = packet.media();
        match packet.codec() {
            Codec::Vp8 => {
                let descriptor = vp8::Descriptor::parse(payload);
                let picture = descriptor.and_then(|descriptor| descriptor.picture_id).map(number);
                let tl0 = descriptor.and_then(|descriptor| descriptor.tl0_picture_index);
                Self { is_vp8: true, picture, tl0, frame }
            }
            Codec::Vp9 => {
                let descriptor = vp9::Descriptor::parse(payload);
                let picture = descriptor.and_then(|descriptor| descriptor.picture_id).map(number);
                let tl0 = descriptor.and_then(|descriptor| descriptor.layer?.tl0_picture_index);
                Self { is_vp8: false, picture, tl0, frame }
            }
            _ => Self { frame, ..Self::default() },
        }
    }
}

fn number(id: PictureId) -> u16 {
    match id {
        PictureId::Short(id) => u16::from(id),
        PictureId::Long(id) => id,
    }
}

/// Pictures of VP8 that are left out of an output: the ids of the others close up.
#[derive(Debug, Default)]
pub(crate) struct LeftOutPictures {
    count: u16,
    /// Ids of the last ones.
    recent: VecDeque<PictureId>,
}

impl LeftOutPictures {
    /// Notes a packet that was left out.
    pub(crate) fn note(&mut self, payload: &[u8]) {
        let Some(id) = vp8::Descriptor::parse(payload).and_then(|descriptor| descriptor.picture_id) else {
            return;
        };
        if self.recent.contains(&id) {
            return;
        }
        if self.recent.len() >= LEFT_OUT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(id);
        self.count = self.count.wrapping_add(1);
    }

    /// How many were left out before the picture of this packet.
    pub(crate) fn before(&self, payload: &[u8]) -> u16 {
        if self.count == 0 {
            return 0;
        }
        let Some(id) = vp8::Descriptor::parse(payload).and_then(|descriptor| descriptor.picture_id) else {
            return 0;
        };
        let is_later = |other: &&PictureId| is_later(**other, id);
        self.count.wrapping_sub(self.recent.iter().rev().take_while(is_later).count() as u16)
    }

    /// Another source begins.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn is_later(one: PictureId, other: PictureId) -> bool {
    let bits = if matches!(other, PictureId::Short(_)) { 7 } else { 15 };
    let ahead = number(one).wrapping_sub(number(other)) & ((1 << bits) - 1);
    ahead != 0 && ahead < 1 << (bits - 1)
}

/// Pictures that are remembered for packets that come late: more than two seconds of them.
const LEFT_OUT_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of a VP8 payload with this picture id.
    fn vp8(id: u16) -> [u8; 6] {
        let [high, low] = (id & 0x7fff | 0x8000).to_be_bytes();
        [0x90, 0x80, high, low, 1, 0]
    }

    #[test]
    fn ids_close_up_over_pictures_that_are_left_out_also_for_packets_that_come_late() {
        let mut left_out = LeftOutPictures::default();
        // Every second one, across the end of the numbers.
        for at in 0..100_u16 {
            let id = 0x7fe0 + 2 * at;
            assert_eq!(left_out.before(&vp8(id)), at);
            left_out.note(&vp8(id + 1));
            left_out.note(&vp8(id + 1));
            for back in 1..at.min(30) {
                assert_eq!(left_out.before(&vp8(id - 2 * back)), at - back, "{back} late");
            }
        }
        left_out.clear();
        assert_eq!(left_out.before(&vp8(5)), 0);
    }
}
