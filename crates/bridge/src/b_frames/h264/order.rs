//! Picture order counts of H.264 (section 8.2.1): in which order pictures are shown.

use super::sets::{PictureOrderType, Sps};
use super::slice::{Marking, Markings, SliceHeader, Structure};

/// What the order of the next picture is derived from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    /// The order count of the picture `header` is of: the smaller of its fields. Call it once for each picture.
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

impl SliceHeader {
    /// Whether the picture makes all others of no use, with operation 5.
    pub(crate) fn resets(&self) -> bool {
        matches!(&self.markings, Some(Markings::Adaptive(markings)) if markings.contains(&Marking::UnuseAll))
    }
}

#[cfg(test)]
mod tests {
    use super::super::slice::SliceKind;
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
