//! What leaves is a valid H.264 stream, by the word of another parser.

use crate::b_frames::samples::{names, sample};
use h264_reader::Context;
use h264_reader::nal::pps::PicParameterSet;
use h264_reader::nal::slice::{
    DecRefPicMarking, MemoryManagementControlOperation, ModificationOfPicNums, PicOrderCountLsb,
    RefPicListModifications, SliceHeader,
};
use h264_reader::nal::sps::{PicOrderCntType, SeqParameterSet};
use h264_reader::nal::{Nal, RefNal, UnitType};

/// Follows the numbers of reference pictures: all short-term frames, as no sample has others.
#[derive(Default)]
struct Numbers {
    /// `frame_num` of those kept, oldest first.
    kept: Vec<i64>,
    last: i64,
}

impl Numbers {
    /// Numbers of pictures ahead of `current` that are kept, as `PicNum`.
    fn of(&self, current: i64, modulus: i64) -> Vec<i64> {
        self.kept.iter().map(|&kept| if kept > current { kept - modulus } else { kept }).collect()
    }
}

#[test]
fn numbers_have_no_gaps_and_slices_name_only_pictures_that_are_there() {
    for name in names().into_iter().filter(|name| name.starts_with("h264")) {
        let sent = sample(&name).filtered();
        let (mut context, mut numbers) = (Context::new(), Numbers::default());
        let mut order_before = None;
        for (at, units) in &sent.kept {
            let mut last = None;
            for unit in units {
                let nal = RefNal::new(unit, &[], true);
                match nal.header().unwrap().nal_unit_type() {
                    UnitType::SeqParameterSet => {
                        let sps = SeqParameterSet::from_bits(nal.rbsp_bits()).unwrap();
                        let vui = sps.vui_parameters.as_ref().unwrap();
                        let restrictions = vui.bitstream_restrictions.as_ref().unwrap();
                        assert_eq!(restrictions.max_num_reorder_frames, 0, "{name}");
                        assert!(!sps.gaps_in_frame_num_value_allowed_flag, "{name}");
                        context.put_seq_param_set(sps);
                    }
                    UnitType::PicParameterSet => {
                        let pps = PicParameterSet::from_bits(&context, nal.rbsp_bits()).unwrap();
                        context.put_pic_param_set(pps);
                    }
                    UnitType::SliceLayerWithoutPartitioningIdr
                    | UnitType::SliceLayerWithoutPartitioningNonIdr => {
                        let header = nal.header().unwrap();
                        let (slice, sps, _) =
                            SliceHeader::from_bits(&context, &mut nal.rbsp_bits(), header, None).unwrap();
                        let modulus = 1i64 << sps.log2_max_frame_num();
                        let is_idr = header.nal_unit_type() == UnitType::SliceLayerWithoutPartitioningIdr;
                        check_slice(&name, *at, &slice, &mut numbers, is_idr, modulus, &mut last);
                        if slice.first_mb_in_slice == 0 {
                            let before = order_before.take().filter(|_| !is_idr);
                            let order = order_lsb(&slice, sps);
                            if let (Some(before), Some((lsb, modulus))) = (before, order) {
                                // Later by less than half of what the low bits count, or it would
                                // be taken for earlier.
                                let later = (lsb - before) & (modulus - 1);
                                assert!(
                                    later > 0 && later < modulus / 2,
                                    "{name}: picture {at} is {later} later"
                                );
                            }
                            order_before = order.map(|(lsb, _)| lsb);
                        }
                        let max = sps.max_num_ref_frames.max(1) as usize;
                        last = last.or(Some((slice, header.nal_ref_idc() > 0, modulus, max)));
                    }
                    _ => {}
                }
            }
            let (slice, is_reference, modulus, max) = last.unwrap();
            if is_reference {
                mark(&mut numbers, &slice, modulus, max, &format!("{name}: picture {at}"));
            }
        }
    }
}

/// Low bits of the order, and how much they count up to.
fn order_lsb(slice: &SliceHeader, sps: &SeqParameterSet) -> Option<(i64, i64)> {
    let lsb = match slice.pic_order_cnt_lsb.as_ref()? {
        PicOrderCountLsb::Frame(lsb) | PicOrderCountLsb::FieldsAbsolute { pic_order_cnt_lsb: lsb, .. } => {
            *lsb
        }
        PicOrderCountLsb::FieldsDelta(_) => return None,
    };
    let PicOrderCntType::TypeZero { log2_max_pic_order_cnt_lsb_minus4 } = sps.pic_order_cnt else {
        return None;
    };
    Some((i64::from(lsb), 16 << log2_max_pic_order_cnt_lsb_minus4))
}

type Last = Option<(SliceHeader, bool, i64, usize)>;

fn check_slice(
    name: &str,
    at: usize,
    slice: &SliceHeader,
    numbers: &mut Numbers,
    is_idr: bool,
    modulus: i64,
    last: &mut Last,
) {
    let number = i64::from(slice.frame_num);
    if let Some((first, ..)) = last {
        assert_eq!(first.frame_num, slice.frame_num, "{name}: slices of picture {at}");
    }
    if is_idr {
        *numbers = Numbers::default();
        assert_eq!(number, 0, "{name}: picture {at}");
        return;
    }
    assert_eq!(number, (numbers.last + 1) % modulus, "{name}: picture {at}");
    let there = numbers.of(number, modulus);
    let lists = match &slice.ref_pic_list_modification {
        Some(RefPicListModifications::P { ref_pic_list_modification_l0 }) => {
            vec![ref_pic_list_modification_l0]
        }
        Some(RefPicListModifications::B { .. }) => panic!("{name}: a B slice was sent"),
        _ => vec![],
    };
    for list in lists {
        let mut predicted = number;
        for modification in list {
            let by = match *modification {
                ModificationOfPicNums::Subtract(by) => -(i64::from(by) + 1),
                ModificationOfPicNums::Add(by) => i64::from(by) + 1,
                _ => panic!("{name}: no sample has long-term pictures or views"),
            };
            predicted = (predicted + by).rem_euclid(modulus);
            let named = if predicted > number { predicted - modulus } else { predicted };
            assert!(there.contains(&named), "{name}: picture {at} names {named} of {there:?}");
        }
    }
}

fn mark(numbers: &mut Numbers, slice: &SliceHeader, modulus: i64, max: usize, what: &str) {
    let number = i64::from(slice.frame_num);
    match slice.dec_ref_pic_marking.as_ref().unwrap() {
        DecRefPicMarking::Adaptive(operations) => {
            for operation in operations {
                let MemoryManagementControlOperation::ShortTermUnusedForRef { difference_of_pic_nums_minus1 } =
                    operation
                else {
                    panic!("{what}: no sample has other operations");
                };
                let there = numbers.of(number, modulus);
                let named = number - i64::from(*difference_of_pic_nums_minus1) - 1;
                let place = there.iter().position(|&kept| kept == named);
                numbers.kept.remove(place.unwrap_or_else(|| panic!("{what} marks {named} of {there:?}")));
            }
        }
        _ if numbers.kept.len() >= max => drop(numbers.kept.remove(0)),
        _ => {}
    }
    assert!(numbers.kept.len() < max.max(1), "{what}: more pictures than a decoder has room for");
    numbers.kept.push(number);
    numbers.last = number;
}
