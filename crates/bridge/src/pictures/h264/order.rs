//! Picture order counts of H.264 (section 8.2.1): in which order pictures are shown.

use super::slice::{Marking, Markings, SliceHeader, Structure};
use super::sps::{PictureOrderType, Sps};

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
        let offset = self.offset(sps, header);
        let (top, bottom) = match &sps.order {
            PictureOrderType::Lsb { bits } => self.lsb_order(*bits, header),
            PictureOrderType::Cycle { .. } => cycle_order(&sps.order, offset, header),
            PictureOrderType::Decoding => {
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
            self.reset(header.structure, top, order);
        }
        order
    }

    /// After operation 5 the picture counts as if it had been the first (section 8.2.1).
    fn reset(&mut self, structure: Structure, top: i64, order: i64) {
        let lsb = if structure == Structure::Bottom { 0 } else { top - order };
        *self = Self { lsb, ..Self::default() };
    }

    /// `FrameNumOffset`.
    fn offset(&self, sps: &Sps, header: &SliceHeader) -> i64 {
        let wrapped = self.frame_num > header.frame_num;
        self.frame_num_offset + if wrapped { 1 << sps.frame_num_bits } else { 0 }
    }

    /// Section 8.2.1.1.
    fn lsb_order(&mut self, bits: u32, header: &SliceHeader) -> (i64, i64) {
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
}

/// Section 8.2.1.2.
fn cycle_order(order: &PictureOrderType, offset: i64, header: &SliceHeader) -> (i64, i64) {
    let PictureOrderType::Cycle { non_reference, top_to_bottom, cycle, .. } = order else { return (0, 0) };
    let len = cycle.len() as i64;
    let mut number = if len > 0 { offset + i64::from(header.frame_num) } else { 0 };
    if !header.reference && number > 0 {
        number -= 1;
    }
    let mut expected = 0;
    if number > 0 {
        let cycle_sum: i64 = cycle.iter().map(|&delta| i64::from(delta)).sum();
        let (cycles, within) = ((number - 1) / len, (number - 1) % len);
        let rest: i64 = cycle.iter().take(within as usize + 1).map(|&delta| i64::from(delta)).sum();
        // No stream gets there; a bound keeps what is added below from overflowing.
        expected = cycles.saturating_mul(cycle_sum).clamp(-ORDER_MAX, ORDER_MAX) + rest;
    }
    if !header.reference {
        expected += i64::from(*non_reference);
    }
    let top = expected + i64::from(header.order_deltas[0]);
    let bottom = if header.structure == Structure::Frame {
        top + i64::from(*top_to_bottom) + i64::from(header.order_deltas[1])
    } else {
        expected + i64::from(*top_to_bottom) + i64::from(header.order_deltas[0])
    };
    (top, bottom)
}

/// Farthest order from the first picture, some 500,000 years at 60 pictures per second.
const ORDER_MAX: i64 = 1 << 50;

impl SliceHeader {
    /// Whether the picture makes all others of no use, with operation 5.
    pub(crate) fn resets(&self) -> bool {
        matches!(&self.markings, Some(Markings::Adaptive(markings)) if markings.contains(&Marking::UnuseAll))
    }
}
