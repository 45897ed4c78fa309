//! Reference pictures of H.264 as a decoder keeps them (sections 8.2.4 and 8.2.5), and the lists slices choose from.
//!
//! Kept twice by the filter: as the encoder means it, and as a decoder has it that does not get the pictures left out.
//! The blocks of a slice refer to pictures by their index in a list. If a decoder can be given the same pictures at each
//! index a slice can use, leaving pictures out changes nothing for it, whatever its blocks refer to.
//!
//! Lists of frames only: nothing is rewritten in streams of fields.

use super::sets::Sps;
use super::slice::{Marking, Markings, Modification, SliceHeader, SliceKind, Structure};

/// Entries of a reference list: 32, and one more while it is changed.
const LIST_MAX: usize = 33;

/// Which pictures the indexes of both lists stand for; `None` for no picture.
pub(crate) type Lists = [Vec<Option<u64>>; 2];

/// A reference picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference {
    /// Which picture it is; `None` in a list only, where a picture is missing.
    picture: Option<u64>,
    frame_num: u32,
    order: i64,
    long_term: Option<u32>,
}

/// All reference pictures at one point of decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    kept: Vec<Reference>,
    last_frame_num: u32,
    /// The picture that came last was the first field of a frame, of this parity.
    first_field: Option<(Structure, u32)>,
}

impl References {
    /// Before the first picture, which has this `frame_num` and is no IDR picture: nothing of what was before is known.
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
        let second = self.is_second_field(header);
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

    fn is_second_field(&self, header: &SliceHeader) -> bool {
        self.first_field.is_some_and(|(structure, frame_num)| {
            structure != header.structure
                && header.structure != Structure::Frame
                && frame_num == header.frame_num
                && !header.idr
        })
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

    /// Section 8.2.5.4. Numbers of fields count twice and name a field; of these only frames as a whole are followed.
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
            _ => [self.initial_p(sps, header.frame_num), Vec::new()],
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

    /// Section 8.2.4.2.1.
    fn initial_p(&self, sps: &Sps, current: u32) -> Vec<Reference> {
        let mut short: Vec<_> = self.kept.iter().filter(|kept| kept.long_term.is_none()).copied().collect();
        short.sort_by_key(|kept| -Self::number(sps, kept, current));
        short.extend(self.long_term());
        short
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
