//! Pictures of H.264 as a decoder keeps them: in which order they are shown (section 8.2.1), which of them
//! are references (8.2.5), and the lists that slices choose from (8.2.4).
//!
//! Kept twice by the filter: as the encoder means it, and as a decoder has it that does not get the
//! pictures left out. The blocks of a slice refer to pictures by their index in a list. If a
//! decoder can be given the same pictures at each index a slice can use, leaving pictures out
//! changes nothing for it, whatever its blocks refer to.
//!
//! Lists of frames only: nothing is rewritten in streams of fields.

use serde::{Deserialize, Serialize};

use super::sets::{PictureOrderType, Sps};
use super::slice::{Marking, Markings, Modification, SliceHeader, SliceKind, Structure};

/// What the order of the next picture is derived from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PictureOrder {
    /// Of the last reference picture, type 0.
    msb: i64,
    lsb: i64,
    /// Of the last picture, types 1 and 2.
    frame_num: u32,
    frame_num_offset: i64,
}

impl PictureOrder {
    /// Before the first picture, when it is no IDR picture.
    pub(crate) fn behind_unknown(header: &SliceHeader) -> Self {
        Self { lsb: i64::from(header.order_lsb), ..Self::default() }
    }

    /// The order count of the picture `header` is of: the smaller of its fields. Call it once for
    /// each picture.
    pub(crate) fn next(&mut self, sps: &Sps, header: &SliceHeader) -> i64 {
        if header.idr {
            *self = Self::default();
        }
        // `FrameNumOffset`.
        let wrapped = self.frame_num > header.frame_num;
        let offset = self.frame_num_offset + if wrapped { 1 << sps.frame_num_bits } else { 0 };
        let (top, bottom) = match &sps.order {
            // Section 8.2.1.1.
            PictureOrderType::Lsb { bits } => {
                let (max, lsb) = (1i64 << bits, i64::from(header.order_lsb));
                let msb = if lsb < self.lsb && self.lsb - lsb >= max / 2 {
                    self.msb + max
                } else if lsb > self.lsb && lsb - self.lsb > max / 2 {
                    self.msb - max
                } else {
                    self.msb
                };
                if header.reference {
                    (self.msb, self.lsb) = (msb, lsb);
                }
                (msb + lsb, msb + lsb + i64::from(header.order_bottom_delta))
            }
            PictureOrderType::Decoding | PictureOrderType::Cycle => {
                let order = 2 * (offset + i64::from(header.frame_num));
                let order = order - i64::from(!header.reference);
                (order, order)
            }
        };
        let order = match header.structure {
            Structure::Frame => top.min(bottom),
            Structure::Top => top,
            Structure::Bottom => bottom,
        };
        self.frame_num = header.frame_num;
        self.frame_num_offset = offset;
        if header.resets() {
            // After operation 5 the picture counts as if it had been the first.
            let lsb = if header.structure == Structure::Bottom { 0 } else { top - order };
            *self = Self { lsb, ..Self::default() };
        }
        order
    }
}

/// Entries of a reference list: 32, and one more while it is changed.
const LIST_MAX: usize = 33;

/// Which pictures the indexes of both lists stand for; `None` for no picture.
pub(crate) type Lists = [Vec<Option<u64>>; 2];

/// A reference picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reference {
    /// Which picture it is; `None` in a list only, where a picture is missing.
    picture: Option<u64>,
    frame_num: u32,
    order: i64,
    long_term: Option<u32>,
}

/// All reference pictures at one point of decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct References {
    kept: Vec<Reference>,
    last_frame_num: u32,
    /// The picture that came last was the first field of a frame, of this parity.
    first_field: Option<(Structure, u32)>,
}

impl References {
    /// Before the first picture, which has this `frame_num` and is no IDR picture: nothing of what
    /// was before is known.
    pub(crate) fn behind_unknown(sps: &Sps, header: &SliceHeader) -> Self {
        let last_frame_num = header.frame_num.wrapping_sub(1) & ((1 << sps.frame_num_bits) - 1);
        Self { last_frame_num, ..Self::default() }
    }

    /// Whether reference frames are missing ahead of a picture with this header (section 7.4.3, `frame_num`).
    pub(crate) fn has_gap(&self, sps: &Sps, header: &SliceHeader) -> bool {
        !header.idr && header.frame_num != self.last_frame_num && header.frame_num != self.next_frame_num(sps)
    }

    /// `frame_num` of the next picture.
    pub(crate) fn next_frame_num(&self, sps: &Sps) -> u32 {
        (self.last_frame_num + 1) & ((1 << sps.frame_num_bits) - 1)
    }

    /// After a picture: what is marked, and the picture itself if it is a reference (section 8.2.5.1).
    pub(crate) fn mark(&mut self, sps: &Sps, header: &SliceHeader, picture: u64, order: i64) {
        let second = self.first_field.is_some_and(|(structure, frame_num)| {
            structure != header.structure
                && header.structure != Structure::Frame
                && frame_num == header.frame_num
                && !header.idr
        });
        self.first_field = match header.structure {
            Structure::Frame => None,
            _ if second => None,
            structure => Some((structure, header.frame_num)),
        };
        let Some(markings) = &header.markings else { return };
        let mut this =
            Reference { picture: Some(picture), frame_num: header.frame_num, order, long_term: None };
        self.last_frame_num = header.frame_num;
        match markings {
            // The second field of an IDR picture is no IDR picture; the first has emptied the rest.
            Markings::Idr { long_term } => {
                self.kept.clear();
                this.long_term = long_term.then_some(0);
            }
            Markings::SlidingWindow if second => {}
            Markings::SlidingWindow => self.slide(sps, header.frame_num),
            Markings::Adaptive(markings) => {
                self.adapt(sps, header, markings, &mut this);
                // Operation 5 makes the picture the first one, with number 0.
                if header.resets() {
                    (this.frame_num, this.order, self.last_frame_num) = (0, 0, 0);
                }
            }
        }
        if !second {
            self.kept.push(this);
            // A stream that marks too few; a decoder would have to do something of the kind, too.
            if self.kept.len() > 32 {
                self.kept.remove(0);
            }
        }
    }

    /// The steps that give a slice the lists `wanted`, whose `header` has a number of this side.
    ///
    /// `None`: some of the pictures are not there.
    pub(crate) fn reach(
        &self,
        wanted: &Lists,
        sps: &Sps,
        header: &SliceHeader,
        order: i64,
    ) -> Option<[Vec<Modification>; 2]> {
        let mut plain = header.clone();
        plain.modifications = [const { Vec::new() }; 2];
        let unchanged = self.lists(sps, &plain, order);
        for list in 0..2 {
            if unchanged[list] != wanted[list] {
                plain.modifications[list] = self.steps(&wanted[list], sps, header.frame_num)?;
            }
        }
        (self.lists(sps, &plain, order) == *wanted).then_some(plain.modifications)
    }

    fn steps(&self, wanted: &[Option<u64>], sps: &Sps, current: u32) -> Option<Vec<Modification>> {
        let mut predicted = i64::from(current);
        wanted
            .iter()
            .map(|&picture| {
                let found = self.kept.iter().find(|kept| picture.is_some() && kept.picture == picture)?;
                let number = Self::number(sps, found, current);
                let difference = u32::try_from((number - predicted).abs()).ok()?;
                let up = number > predicted;
                predicted = number;
                Some(match difference {
                    _ if found.long_term.is_some() => return None,
                    // The same once more: all the way round.
                    0 => Modification::Subtract(1 << sps.frame_num_bits),
                    by if up => Modification::Add(by),
                    by => Modification::Subtract(by),
                })
            })
            .collect()
    }

    /// The markings that leave what `after` has, as far as it is here; `header` has a number of this side.
    ///
    /// `None`: there are long-term pictures.
    pub(crate) fn mirror(&self, after: &Self, sps: &Sps, header: &SliceHeader) -> Option<Markings> {
        if header.resets() {
            return Some(Markings::Adaptive(vec![Marking::UnuseAll]));
        }
        if after.kept.iter().chain(&self.kept).any(|kept| kept.long_term.is_some()) {
            return None;
        }
        let stays = |kept: &Reference| after.kept.iter().any(|other| other.picture == kept.picture);
        let mut slid = self.clone();
        slid.slide(sps, header.frame_num);
        if slid.kept.iter().all(stays)
            && self.kept.iter().filter(|kept| stays(kept)).count() == slid.kept.len()
        {
            return Some(Markings::SlidingWindow);
        }
        let leaves = self.kept.iter().filter(|kept| !stays(kept));
        let differences =
            leaves.map(|kept| i64::from(header.frame_num) - Self::number(sps, kept, header.frame_num));
        let markings =
            differences.map(|by| u32::try_from(by).ok().filter(|&by| by > 0).map(Marking::UnuseShort));
        Some(Markings::Adaptive(markings.collect::<Option<_>>()?))
    }

    /// `FrameNumWrap`, which is `PicNum` of a frame (section 8.2.4.1).
    fn number(sps: &Sps, reference: &Reference, current: u32) -> i64 {
        let wraps = reference.frame_num > current;
        i64::from(reference.frame_num) - if wraps { 1 << sps.frame_num_bits } else { 0 }
    }

    /// Section 8.2.5.3.
    fn slide(&mut self, sps: &Sps, current: u32) {
        while self.kept.len() >= sps.reference_frames_max.max(1) as usize {
            let short = self.kept.iter().enumerate().filter(|(_, reference)| reference.long_term.is_none());
            let oldest = short.min_by_key(|(_, reference)| Self::number(sps, reference, current));
            let Some((at, _)) = oldest else { return };
            self.kept.remove(at);
        }
    }

    /// Section 8.2.5.4. Numbers of fields count twice and name a field; of these only frames as a
    /// whole are followed.
    fn adapt(&mut self, sps: &Sps, header: &SliceHeader, markings: &[Marking], this: &mut Reference) {
        if header.structure != Structure::Frame && !header.resets() {
            return self.slide(sps, header.frame_num);
        }
        for &marking in markings {
            let current = header.frame_num;
            let is_short = |reference: &Reference, difference| {
                reference.long_term.is_none()
                    && Self::number(sps, reference, current) == i64::from(current) - i64::from(difference)
            };
            match marking {
                Marking::UnuseShort(difference) => self.kept.retain(|kept| !is_short(kept, difference)),
                Marking::UnuseLong(index) => self.kept.retain(|kept| kept.long_term != Some(index)),
                Marking::ShortToLong(difference, index) => {
                    self.kept.retain(|kept| kept.long_term != Some(index));
                    if let Some(kept) = self.kept.iter_mut().find(|kept| is_short(kept, difference)) {
                        kept.long_term = Some(index);
                    }
                }
                Marking::LongMax(max) => {
                    self.kept.retain(|kept| kept.long_term.is_none_or(|index| index < max))
                }
                Marking::UnuseAll => self.kept.clear(),
                Marking::ThisToLong(index) => {
                    self.kept.retain(|kept| kept.long_term != Some(index));
                    this.long_term = Some(index);
                }
            }
        }
    }

    /// Both lists as far as blocks can refer to them; `None` where there is no picture (section 8.2.4).
    pub(crate) fn lists(&self, sps: &Sps, header: &SliceHeader, order: i64) -> Lists {
        let mut lists = match header.kind {
            SliceKind::B => self.initial_b(order),
            // Section 8.2.4.2.1.
            _ => {
                let short = self.kept.iter().filter(|kept| kept.long_term.is_none());
                let mut list: Vec<_> = short.copied().collect();
                list.sort_by_key(|kept| -Self::number(sps, kept, header.frame_num));
                list.extend(self.long_term());
                [list, Vec::new()]
            }
        };
        for (list, modifications) in lists.iter_mut().zip(&header.modifications) {
            self.modify(list, modifications, sps, header.frame_num);
        }
        let mut picked = [const { Vec::new() }; 2];
        for ((picked, list), active) in picked.iter_mut().zip(&lists).zip(header.references) {
            // Beyond its end a list has no pictures.
            picked
                .extend((0..active as usize).map(|at| list.get(at).and_then(|reference| reference.picture)));
        }
        picked
    }

    /// Section 8.2.4.2.3.
    fn initial_b(&self, order: i64) -> [Vec<Reference>; 2] {
        // Frames inferred from a gap have no order and are not in these lists.
        let short =
            || self.kept.iter().filter(|kept| kept.long_term.is_none() && kept.picture.is_some()).copied();
        let mut before: Vec<_> = short().filter(|kept| kept.order <= order).collect();
        let mut behind: Vec<_> = short().filter(|kept| kept.order > order).collect();
        before.sort_by_key(|kept| std::cmp::Reverse(kept.order));
        behind.sort_by_key(|kept| kept.order);
        let join = |first: &[Reference], second: &[Reference]| {
            let mut list = [first, second].concat();
            list.extend(self.long_term());
            list
        };
        let (list0, mut list1) = (join(&before, &behind), join(&behind, &before));
        if list1.len() > 1 && list0 == list1 {
            list1.swap(0, 1);
        }
        [list0, list1]
    }

    fn long_term(&self) -> Vec<Reference> {
        let mut long: Vec<_> = self.kept.iter().filter(|kept| kept.long_term.is_some()).copied().collect();
        long.sort_by_key(|kept| kept.long_term);
        long
    }

    /// Section 8.2.4.3.
    fn modify(&self, list: &mut Vec<Reference>, modifications: &[Modification], sps: &Sps, current: u32) {
        let modulus = 1i64 << sps.frame_num_bits;
        let mut predicted = i64::from(current);
        for (at, &modification) in modifications.iter().enumerate() {
            let found = match modification {
                Modification::LongTerm(index) => self.kept.iter().find(|kept| kept.long_term == Some(index)),
                Modification::Subtract(by) | Modification::Add(by) => {
                    let by = i64::from(by);
                    let sign = if matches!(modification, Modification::Add(_)) { 1 } else { -1 };
                    predicted = (predicted + sign * by).rem_euclid(modulus);
                    let number = if predicted > i64::from(current) { predicted - modulus } else { predicted };
                    self.kept
                        .iter()
                        .find(|kept| kept.long_term.is_none() && Self::number(sps, kept, current) == number)
                }
            };
            let Some(&found) = found else {
                // Not there: the place holds nothing, and others move on as if it did.
                let nothing = Reference { picture: None, frame_num: u32::MAX, order: 0, long_term: None };
                list.insert(at.min(list.len()), nothing);
                continue;
            };
            let at = at.min(list.len());
            let mut place = 0;
            list.retain(|kept| {
                place += 1;
                place <= at || *kept != found
            });
            list.insert(at, found);
            list.truncate(LIST_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sps(order: PictureOrderType) -> Sps {
        Sps {
            id: 0,
            profile: 100,
            constraints: 0,
            level: 31,
            separate_colour_planes: false,
            chroma_array_type: 1,
            frame_num_bits: 4,
            order,
            reference_frames_max: 4,
            frame_num_gaps_allowed: false,
            frames_only: false,
            reorder_max: None,
        }
    }

    fn header(frame_num: u32, reference: bool) -> SliceHeader {
        SliceHeader {
            first_macroblock: 0,
            kind: SliceKind::P,
            pps: 0,
            frame_num,
            structure: Structure::Frame,
            idr: false,
            reference,
            order_lsb: 0,
            order_bottom_delta: 0,
            redundant: false,
            references: [1, 0],
            modifications: [const { Vec::new() }; 2],
            markings: reference.then_some(Markings::SlidingWindow),
        }
    }

    #[test]
    fn low_bits_wrap_forwards_and_backwards() {
        let sps = sps(PictureOrderType::Lsb { bits: 4 });
        let mut order = PictureOrder::default();
        for (lsb, reference, expected, remark) in [
            (0, true, 0, "first"),
            (6, true, 6, "later"),
            (2, false, 2, "earlier, no reference: counts for none behind"),
            (13, true, 13, "later by 7"),
            (3, true, 19, "wraps"),
            (14, false, 14, "earlier across the wrap"),
            (8, true, 24, "later than the last reference"),
        ] {
            let header = SliceHeader { order_lsb: lsb, ..header(0, reference) };
            assert_eq!(order.next(&sps, &header), expected, "{remark}");
        }
    }

    #[test]
    fn the_order_of_a_frame_is_that_of_its_earlier_field() {
        let sps = sps(PictureOrderType::Lsb { bits: 8 });
        let bottom_first = SliceHeader { order_lsb: 9, order_bottom_delta: -1, ..header(0, true) };
        assert_eq!(PictureOrder::default().next(&sps, &bottom_first), 8);
        let bottom = SliceHeader { structure: Structure::Bottom, order_lsb: 9, ..header(0, true) };
        assert_eq!(PictureOrder::default().next(&sps, &bottom), 9);
    }

    #[test]
    fn in_order_of_decoding_numbers_wrap_and_pictures_no_other_needs_come_between() {
        let sps = sps(PictureOrderType::Decoding);
        let mut order = PictureOrder::default();
        for (frame_num, reference, expected) in [
            (0, true, 0),
            (1, true, 2),
            (2, false, 3),
            (2, true, 4),
            (15, true, 30),
            (0, true, 32),
            (1, false, 33),
        ] {
            assert_eq!(order.next(&sps, &header(frame_num, reference)), expected, "{frame_num}");
        }
    }

    #[test]
    fn operation_five_starts_over() {
        let sps = sps(PictureOrderType::Lsb { bits: 4 });
        let mut order = PictureOrder::default();
        let reset = Some(Markings::Adaptive(vec![Marking::UnuseAll]));
        let picture = SliceHeader { order_lsb: 12, markings: reset, ..header(3, true) };
        // Counted from 0 backwards: 12 is nearer as -4.
        assert_eq!(order.next(&sps, &picture), -4);
        assert_eq!(order.next(&sps, &SliceHeader { order_lsb: 2, ..header(1, true) }), 2);
    }
}
