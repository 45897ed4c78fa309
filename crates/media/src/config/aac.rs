//! AAC: AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1), with SBR and PS.
//!
//! ```text
//!  object type 5 [31: + 6] | rate index 4 [15: rate 24] | channels 4
//!  type 5 (SBR), 29 (PS): | extension rate 4 [15: 24] | object type 5 of the core
//!  GASpecificConfig:      | frame length 1 | core coder 1 [delay 14] | extension 1
//!  or, behind it:         | 0x2b7, 11 | 5, 5 | SBR 1 | rate 4 [24] | 0x548, 11 | PS 1
//! ```

use super::AudioFormat;
use super::bits::Bits;

pub(super) fn format(config: &[u8]) -> Option<AudioFormat> {
    let mut bits = Bits::new(config);
    let mut object = object_type(&mut bits)?;
    let mut sample_rate = sampling_rate(&mut bits)?;
    let channels = bits.u(4)?;
    let (mut sbr, mut ps) = (object == SBR || object == PS, object == PS);
    if sbr {
        sample_rate = sampling_rate(&mut bits)?;
        object = object_type(&mut bits)?;
    } else if let Some((rate, has_ps)) = backward_compatible_sbr(&mut bits, object) {
        (sbr, ps, sample_rate) = (true, has_ps, rate);
    }
    let profile = match object {
        LC if ps => "HE-AAC v2".to_owned(),
        LC if sbr => "HE-AAC".to_owned(),
        1 => "Main".to_owned(),
        LC => "LC".to_owned(),
        3 => "SSR".to_owned(),
        4 => "LTP".to_owned(),
        23 => "LD".to_owned(),
        39 => "ELD".to_owned(),
        42 => "xHE-AAC".to_owned(),
        other => format!("object type {other}"),
    };
    // Table 1.19; parametric stereo makes two channels of one. 0: a program config element says it.
    let channels = match channels {
        1 if ps => 2,
        7 => 8,
        11 => 7,
        12 | 14 => 8,
        channels @ 0..=6 => channels as u8,
        _ => 0,
    };
    Some(AudioFormat { profile, sample_rate, channels })
}

/// SBR as announced behind a core configuration that older decoders understand (1.6.5.3).
fn backward_compatible_sbr(bits: &mut Bits<'_>, object: u32) -> Option<(u32, bool)> {
    if !matches!(object, 1..=4) {
        return None;
    }
    bits.skip(1)?;
    if bits.flag()? {
        bits.skip(14)?;
    }
    bits.skip(1)?;
    if bits.left() < 16 || bits.u(11)? != 0x2b7 || object_type(bits)? != SBR || !bits.flag()? {
        return None;
    }
    let rate = sampling_rate(bits)?;
    let ps = bits.left() >= 12 && bits.u(11)? == 0x548 && bits.flag()?;
    Some((rate, ps))
}

fn object_type(bits: &mut Bits<'_>) -> Option<u32> {
    match bits.u(5)? {
        31 => Some(32 + bits.u(6)?),
        object => Some(object),
    }
}

fn sampling_rate(bits: &mut Bits<'_>) -> Option<u32> {
    match bits.u(4)? {
        15 => bits.u(24),
        index => RATES.get(index as usize).copied(),
    }
}

const LC: u32 = 2;
const SBR: u32 = 5;
const PS: u32 = 29;

/// Table 1.18.
const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sbr_and_ps_are_found_in_both_notations() {
        for (config, profile, rate, channels) in [
            (&[0x2b, 0x92, 0x08, 0x00][..], "HE-AAC", 44_100, 2), // type 5, 22.05 kHz core
            (&[0xeb, 0x8a, 0x08, 0x00], "HE-AAC v2", 44_100, 2),  // type 29, mono core
            (&[0x13, 0x90, 0x56, 0xe5, 0xa0], "HE-AAC", 44_100, 2), // LC, then 0x2b7
            (&[0x13, 0x88, 0x56, 0xe5, 0xa5, 0x48, 0x80], "HE-AAC v2", 44_100, 2), // and 0x548
            (&[0x13, 0x90, 0x56, 0xe5, 0x00], "LC", 22_050, 2),   // the SBR flag is 0
            (&[0xf8, 0xe6, 0x20], "ELD", 48_000, 1),              // escaped object type 39
        ] {
            let expected = AudioFormat { profile: profile.to_owned(), sample_rate: rate, channels };
            assert_eq!(format(config), Some(expected), "{config:02x?}");
        }
    }
}
