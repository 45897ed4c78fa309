//! A small H.264 encoder: frames of exactly the requested size whose bytes may be changed.
//!
//! Constrained baseline, CAVLC, one slice a frame, 320x240. Most of a key frame is flat grey,
//! most of another frame is skipped; the last macroblocks of both are raw samples (`I_PCM`, ITU-T
//! H.264 section 7.3.5), 384 bytes each that mean nothing but brightness and colour. So a decoder
//! takes the stream whatever marks are written into it, a frame has any size wanted, and no
//! recording has to be committed. Packets are made in `media.rs`.

/// Macroblocks of a frame.
pub const MACROBLOCKS: u32 = COLUMNS * ROWS;

/// A NAL unit, and where in it there are raw samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Header byte and payload, without start code or length.
    pub bytes: Vec<u8>,
    /// Ranges of `bytes` that may hold any values but zero, in order.
    pub free: Vec<std::ops::Range<usize>>,
}

/// The sequence parameter set (section 7.3.2.1.1).
pub fn sequence_parameters() -> Vec<u8> {
    let mut bits = Bits::new(0x67);
    // Baseline with constraint flags 0 to 2, level 3.1: what browsers call 42e01f.
    for byte in [0x42, 0xe0, 0x1f] {
        bits.put(byte, 8);
    }
    bits.golomb(0); // seq_parameter_set_id
    bits.golomb(FRAME_NUM_BITS - 4);
    bits.golomb(2); // pic_order_cnt_type: output in order of decoding
    bits.golomb(1); // max_num_ref_frames
    bits.put(0, 1); // gaps_in_frame_num_value_allowed_flag
    bits.golomb(COLUMNS - 1);
    bits.golomb(ROWS - 1);
    bits.put(0b11, 2); // frame_mbs_only_flag, direct_8x8_inference_flag
    bits.put(0b00, 2); // no cropping, no VUI
    bits.finish()
}

/// The picture parameter set (section 7.3.2.2).
pub fn picture_parameters() -> Vec<u8> {
    let mut bits = Bits::new(0x68);
    bits.golomb(0); // pic_parameter_set_id
    bits.golomb(0); // seq_parameter_set_id
    bits.put(0b00, 2); // CAVLC, bottom_field_pic_order_in_frame_present_flag
    bits.golomb(0); // num_slice_groups_minus1
    bits.golomb(0); // num_ref_idx_l0_default_active_minus1
    bits.golomb(0); // num_ref_idx_l1_default_active_minus1
    bits.put(0b000, 3); // weighted_pred_flag, weighted_bipred_idc
    bits.golomb(0); // pic_init_qp_minus26
    bits.golomb(0); // pic_init_qs_minus26
    bits.golomb(0); // chroma_qp_index_offset
    bits.put(0b100, 3); // deblocking_filter_control_present_flag, constrained_intra_pred, redundant_pic_cnt
    bits.finish()
}

/// A frame that needs no other (IDR), with `raw` macroblocks of samples.
pub fn key_frame(raw: u32) -> Unit {
    let raw = raw.min(MACROBLOCKS);
    let mut bits = Bits::new(0x65);
    bits.golomb(0); // first_mb_in_slice
    bits.golomb(7); // slice_type: I, and so are all slices
    bits.golomb(0); // pic_parameter_set_id
    bits.put(0, FRAME_NUM_BITS);
    bits.golomb(0); // idr_pic_id
    bits.put(0b00, 2); // no_output_of_prior_pics_flag, long_term_reference_flag
    bits.golomb(0); // slice_qp_delta
    bits.golomb(1); // disable_deblocking_filter_idc
    for _ in 0..MACROBLOCKS - raw {
        bits.golomb(3); // mb_type I_16x16_2_0_0: predicted from the neighbours' mean, no coefficients
        bits.golomb(0); // intra_chroma_pred_mode
        bits.golomb(0); // mb_qp_delta
        bits.put(1, 1); // coeff_token of the DC block: none; no neighbour has any either
    }
    for _ in 0..raw {
        bits.golomb(25); // mb_type I_PCM
        bits.samples();
    }
    bits.finish_unit()
}

/// A frame that changes `raw` macroblocks of the one before. `frame_num` counts from the key frame.
pub fn changed_frame(frame_num: u32, raw: u32) -> Unit {
    let raw = raw.min(MACROBLOCKS);
    let mut bits = Bits::new(0x41);
    bits.golomb(0); // first_mb_in_slice
    bits.golomb(5); // slice_type: P, and so are all slices
    bits.golomb(0); // pic_parameter_set_id
    bits.put(frame_num % (1 << FRAME_NUM_BITS), FRAME_NUM_BITS);
    bits.put(0b00, 2); // num_ref_idx_active_override_flag, ref_pic_list_modification_flag_l0
    bits.put(0, 1); // adaptive_ref_pic_marking_mode_flag
    bits.golomb(0); // slice_qp_delta
    bits.golomb(1); // disable_deblocking_filter_idc
    bits.golomb(MACROBLOCKS - raw); // mb_skip_run
    for index in 0..raw {
        if index > 0 {
            bits.golomb(0); // mb_skip_run
        }
        bits.golomb(5 + 25); // mb_type I_PCM in a P slice
        bits.samples();
    }
    bits.finish_unit()
}

/// Writes a NAL unit bit by bit.
#[derive(Debug, Default)]
struct Bits {
    unit: Unit,
    /// Bits used of the last byte; 0 when it is full.
    used: u32,
    noise: u32,
}

impl Bits {
    fn new(header: u8) -> Bits {
        Bits { unit: Unit { bytes: vec![header], free: Vec::new() }, used: 0, noise: 0x2545_f491 }
    }

    /// The low `count` bits of `value`, most significant first.
    fn put(&mut self, value: u32, count: u32) {
        for position in (0..count).rev() {
            if self.used == 0 {
                self.unit.bytes.push(0);
            }
            let last = self.unit.bytes.last_mut().expect("there is a header byte");
            *last |= ((value >> position & 1) as u8) << (7 - self.used);
            self.used = (self.used + 1) % 8;
        }
    }

    /// ue(v), which is also se(v) for 0 (section 9.1).
    fn golomb(&mut self, value: u32) {
        let length = (value + 1).ilog2();
        self.put(0, length);
        self.put(value + 1, length + 1);
    }

    /// One raw macroblock: aligned, then 384 samples; noise, so that it compresses as little as a recording.
    fn samples(&mut self) {
        self.used = 0;
        let begin = self.unit.bytes.len();
        for _ in 0..RAW_BYTES {
            self.noise ^= self.noise << 13;
            self.noise ^= self.noise >> 17;
            self.noise ^= self.noise << 5;
            self.unit.bytes.push(64 + (self.noise >> 9) as u8 % 128);
        }
        self.unit.free.push(begin..self.unit.bytes.len());
    }

    fn finish(self) -> Vec<u8> {
        self.finish_unit().bytes
    }

    /// Stop bit and alignment (section 7.3.2.11). Nothing here ever holds two zero bytes in a row,
    /// so no emulation prevention is needed (section 7.4.1.1); the tests see to that.
    fn finish_unit(mut self) -> Unit {
        self.put(1, 1);
        self.unit
    }
}

const COLUMNS: u32 = 20;
const ROWS: u32 = 15;
const FRAME_NUM_BITS: u32 = 8;

/// Bytes of a raw macroblock: 256 of brightness, twice 64 of colour.
const RAW_BYTES: usize = 384;

#[cfg(test)]
mod tests {
    use super::*;

    fn units() -> Vec<Unit> {
        let plain = |bytes| Unit { bytes, free: Vec::new() };
        let mut units = vec![plain(sequence_parameters()), plain(picture_parameters())];
        units.extend((0..=40).chain([MACROBLOCKS, MACROBLOCKS + 1]).map(key_frame));
        units.extend((1..300).map(|number| changed_frame(number, number % 12)));
        units
    }

    #[test]
    fn no_unit_needs_emulation_prevention_and_every_free_byte_is_one() {
        for (index, unit) in units().iter().enumerate() {
            assert!(!unit.bytes.windows(2).any(|pair| pair == [0, 0]), "unit {index}: {:x?}", unit.bytes);
            assert_ne!(unit.bytes.last(), Some(&0), "unit {index}");
            assert!(unit.free.iter().flat_map(|range| &unit.bytes[range.clone()]).all(|&byte| byte != 0));
        }
    }

    #[test]
    fn a_frame_is_as_large_as_its_raw_macroblocks() {
        for raw in 1..20 {
            assert_eq!(changed_frame(1, raw).free.len(), raw as usize);
            let bytes = changed_frame(1, raw).bytes.len();
            assert!((raw as usize * 386..raw as usize * 386 + 12).contains(&bytes), "{raw}: {bytes}");
        }
        assert_eq!(key_frame(MACROBLOCKS + 1), key_frame(MACROBLOCKS), "no more than there is");
    }
}
