//! AAC in packets: access units with their headers in front (RFC 3640, modes AAC-hbr and AAC-lbr), or
//! elements of LATM (RFC 6416).
//!
//! ```text
//! | AU-headers-length 16, in bits | { size | index } { size | index delta } ... | AU | AU | ... |
//! ```
//! Units are in order: interleaving (an index delta that is not 0) is not known here, nor are the other
//! fields that a header may have. A unit longer than a packet comes in fragments, each with the size of the
//! whole in front; then it is alone in its packets. An element of LATM that is longer than a packet is cut
//! anywhere, if it has one frame: its length says when it is whole.

use media::bitstream::{BitReader, StreamMuxConfig};

use super::Broken;

/// How the headers of access units are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AacLayout {
    /// Bits of a size (`sizelength`).
    pub size_bits: u8,
    /// Bits of the index of the first unit (`indexlength`).
    pub index_bits: u8,
    /// Bits of the others' (`indexdeltalength`).
    pub index_delta_bits: u8,
}

impl AacLayout {
    /// AAC-hbr (RFC 3640 section 3.3.6), which is what all send.
    pub const HIGH_BIT_RATE: Self = Self { size_bits: 13, index_bits: 3, index_delta_bits: 3 };
}

/// How AAC lies in packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AacPackets {
    /// Access units behind their headers (`MPEG4-GENERIC`).
    Units(AacLayout),
    /// Elements of LATM (`MP4A-LATM`), whose configuration the description has.
    Latm {
        /// What the description has.
        config: StreamMuxConfig,
        /// Each element says whether one follows in it (`cpresent`).
        is_in_band: bool,
    },
}

/// Units of a packet at most: a header and a byte each.
const UNITS_MAX: usize = 256;
/// Bytes of a unit at most: what sizes of 13 bits can say.
const UNIT_BYTES_MAX: usize = 8_191;

/// Takes access units out of packets.
#[derive(Debug)]
pub struct AacDepacketizer {
    packets: AacPackets,
    /// The fragments so far of a unit, and how long it will be if that is known; or of an element.
    partial: Vec<u8>,
    whole: usize,
}

impl AacDepacketizer {
    /// For packets like these.
    pub fn new(packets: AacPackets) -> Self {
        Self { packets, partial: Vec::new(), whole: 0 }
    }

    /// What was begun is not finished: packets are missing.
    pub fn abandon(&mut self) {
        self.partial.clear();
        self.whole = 0;
    }

    /// Takes a packet; `take` gets each access unit that is whole by now, with its position in the packet.
    ///
    /// # Errors
    /// The payload contradicts its format; units ahead of what does were taken.
    pub fn push(&mut self, payload: &[u8], take: impl FnMut(usize, &[u8])) -> Result<(), Broken> {
        match self.packets {
            AacPackets::Units(layout) => self.units(layout, payload, take),
            AacPackets::Latm { .. } => self.element(payload, take),
        }
    }

    /// Takes a part of an element, or all of it. One of several frames has to be whole in its packet.
    fn element(&mut self, payload: &[u8], take: impl FnMut(usize, &[u8])) -> Result<(), Broken> {
        let AacPackets::Latm { config, is_in_band } = &self.packets else { return Ok(()) };
        self.partial.extend_from_slice(payload);
        // It is not looked at again before it can be whole.
        if self.partial.len() < self.whole {
            return Ok(());
        }
        let mut bits = BitReader::new(&self.partial);
        let read = match *is_in_band && !bits.bit().map_err(|_| Broken::Malformed)? {
            true => StreamMuxConfig::read(&mut bits).map_err(|_| Broken::Malformed),
            false => Ok(config.clone()),
        };
        let missing = match read {
            // What has been announced does not change.
            Ok(read) if read != *config => Err(Broken::Unsupported),
            Ok(_) => config.frames(&mut bits, UNIT_BYTES_MAX, take).map_err(|_| Broken::Malformed),
            Err(broken) => Err(broken),
        };
        match missing {
            Ok(missing) if missing > 0 && config.frames == 1 => {
                self.whole = self.partial.len() + missing;
                Ok(())
            }
            missing => {
                self.abandon();
                match missing {
                    Ok(0) => Ok(()),
                    Ok(_) => Err(Broken::Unsupported),
                    Err(broken) => Err(broken),
                }
            }
        }
    }

    fn units(
        &mut self,
        layout: AacLayout,
        payload: &[u8],
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), Broken> {
        let (length, rest) = payload.split_first_chunk().ok_or(Broken::Malformed)?;
        let header_bits = usize::from(u16::from_be_bytes(*length));
        let (headers, mut data) = rest.split_at_checked(header_bits.div_ceil(8)).ok_or(Broken::Malformed)?;
        let AacLayout { size_bits, index_bits, index_delta_bits } = layout;
        let (first_bits, next_bits) = (size_bits + index_bits, size_bits + index_delta_bits);
        let mut bits = BitReader::new(headers);
        let mut left = header_bits;
        for at in 0..UNITS_MAX {
            let (bits_needed, index) =
                if at == 0 { (first_bits, index_bits) } else { (next_bits, index_delta_bits) };
            if left < usize::from(bits_needed) || bits_needed == 0 {
                return if at == 0 { Err(Broken::Malformed) } else { Ok(()) };
            }
            left -= usize::from(bits_needed);
            let size = bits.u(u32::from(size_bits)).map_err(|_| Broken::Malformed)? as usize;
            let index = bits.u(u32::from(index)).map_err(|_| Broken::Malformed)?;
            if at > 0 && index != 0 {
                return Err(Broken::Unsupported);
            }
            if size == 0 || size > UNIT_BYTES_MAX {
                self.abandon();
                return Err(Broken::Malformed);
            }
            if at == 0 && size > data.len() {
                return self.fragment(size, data, take);
            }
            self.abandon();
            let (unit, behind) = data.split_at_checked(size).ok_or(Broken::Malformed)?;
            take(at, unit);
            data = behind;
        }
        Err(Broken::TooLarge)
    }

    fn fragment(
        &mut self,
        size: usize,
        data: &[u8],
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), Broken> {
        if self.whole != size {
            self.abandon();
            self.whole = size;
        }
        self.partial.extend_from_slice(data);
        let result = match self.partial.len() {
            have if have < size => return Ok(()),
            have if have == size => {
                take(0, &self.partial);
                Ok(())
            }
            _ => Err(Broken::Malformed),
        };
        self.abandon();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(depacketizer: &mut AacDepacketizer, payload: &[u8]) -> Result<Vec<(usize, Vec<u8>)>, Broken> {
        let mut taken = Vec::new();
        depacketizer.push(payload, |at, unit| taken.push((at, unit.to_vec()))).map(|()| taken)
    }

    fn header(size: u16) -> [u8; 2] {
        (size << 3).to_be_bytes()
    }

    #[test]
    fn units_of_a_packet_come_in_order() {
        let mut depacketizer = AacDepacketizer::new(AacPackets::Units(AacLayout::HIGH_BIT_RATE));
        let payload = [&[0, 32][..], &header(3), &header(2), b"abcde"].concat();
        let taken = units(&mut depacketizer, &payload).expect("two units");
        assert_eq!(taken, [(0, b"abc".to_vec()), (1, b"de".to_vec())]);
    }

    #[test]
    fn fragments_make_one_unit_unless_one_is_missing() {
        let mut depacketizer = AacDepacketizer::new(AacPackets::Units(AacLayout::HIGH_BIT_RATE));
        let part = |size, data: &[u8]| [&[0, 16][..], &header(size), data].concat();
        assert_eq!(units(&mut depacketizer, &part(5, b"abc")), Ok(vec![]));
        assert_eq!(units(&mut depacketizer, &part(5, b"de")), Ok(vec![(0, b"abcde".to_vec())]));
        assert_eq!(units(&mut depacketizer, &part(5, b"abc")), Ok(vec![]));
        depacketizer.abandon();
        assert_eq!(units(&mut depacketizer, &part(5, b"de")), Ok(vec![]));
        assert_eq!(units(&mut depacketizer, &part(7, b"abc")), Ok(vec![]), "another unit");
        assert_eq!(units(&mut depacketizer, &part(2, b"xy")), Ok(vec![(0, b"xy".to_vec())]));
    }

    #[test]
    fn every_cut_and_every_header_is_survived() {
        let payload = [&[0, 32][..], &header(3), &header(2), b"abcde"].concat();
        for len in 0..payload.len() {
            let mut depacketizer = AacDepacketizer::new(AacPackets::Units(AacLayout::HIGH_BIT_RATE));
            let _ = units(&mut depacketizer, &payload[..len]);
        }
        for bits in 0..=64u16 {
            let mut depacketizer = AacDepacketizer::new(AacPackets::Units(AacLayout::HIGH_BIT_RATE));
            let _ = units(&mut depacketizer, &[&bits.to_be_bytes()[..], &[0xff; 40]].concat());
        }
    }

    /// AAC-LC, 48 kHz, two channels; one frame in an element, or more.
    fn latm(frames: u32, is_in_band: bool) -> AacDepacketizer {
        let config = StreamMuxConfig { record: vec![0x11, 0x90], samples: 1024, sample_rate: 48_000, frames };
        AacDepacketizer::new(AacPackets::Latm { config, is_in_band })
    }

    #[test]
    fn elements_of_latm_have_their_frames_and_lengths() {
        assert_eq!(units(&mut latm(1, false), b"\x03abc"), Ok(vec![(0, b"abc".to_vec())]));
        let two = units(&mut latm(2, false), b"\x03abc\x02de").expect("two");
        assert_eq!(two, [(0, b"abc".to_vec()), (1, b"de".to_vec())]);
        let long = [&[255, 45][..], &[7; 300]].concat();
        assert_eq!(units(&mut latm(1, false), &long), Ok(vec![(0, vec![7; 300])]));
        // With a bit in front that says that there is no configuration, all is shifted by it.
        let shifted: Vec<u8> = [0x80 | 3 >> 1, 0x80 | b'a' >> 1, 0x80 | b'b' >> 1, b'c' >> 1, 0x80].to_vec();
        assert_eq!(units(&mut latm(1, true), &shifted), Ok(vec![(0, b"abc".to_vec())]));
        assert_eq!(units(&mut latm(1, false), b"\0"), Err(Broken::Malformed));
    }

    #[test]
    fn parts_of_an_element_make_one_unless_one_is_missing() {
        let element = [&[255, 45][..], &[7; 300]].concat();
        for cut in 1..element.len() {
            let mut depacketizer = latm(1, false);
            assert_eq!(units(&mut depacketizer, &element[..cut]), Ok(vec![]));
            assert_eq!(units(&mut depacketizer, &element[cut..]), Ok(vec![(0, vec![7; 300])]));
            assert_eq!(units(&mut depacketizer, &element[..cut]), Ok(vec![]));
            depacketizer.abandon();
            assert_eq!(units(&mut depacketizer, b"\x01x"), Ok(vec![(0, b"x".to_vec())]));
        }
        // Of more than one frame none is kept for later.
        let mut depacketizer = latm(2, false);
        assert_eq!(units(&mut depacketizer, b"\x03abc\x02d"), Err(Broken::Unsupported));
        assert!(depacketizer.partial.is_empty());
        assert_eq!(latm(1, false).push(&[255; 1_000], |_, _| {}), Err(Broken::Malformed));
    }
}
