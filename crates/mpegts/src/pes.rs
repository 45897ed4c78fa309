//! Headers of PES packets (ISO/IEC 13818-1 section 2.4.3.6).
//!
//! ```text
//!  00 00 01 | stream id 8 | length 16, 0 if unbounded | 10, scrambling 2, priority 1, alignment 1, .. 2
//!  | PTS 1, DTS 1, others 6 | header length 8 | PTS 40 | DTS 40 | others, stuffing
//!  PTS, DTS: | 4 bits | 3 bits, 1 | 15 bits, 1 | 15 bits, 1 |
//! ```

/// Times have so many bits.
pub(crate) const TICKS_BITS: u32 = 33;

/// Largest value of the length field.
pub(crate) const LENGTH_MAX: usize = 0xffff;

/// What is read of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PesHeader {
    /// Bytes behind the header, if the packet says how many there are.
    pub(crate) payload_bytes: Option<usize>,
    /// 33 bits.
    pub(crate) pts: Option<u64>,
    /// 33 bits; the PTS if it says no other.
    pub(crate) dts: Option<u64>,
    /// Bytes of the header.
    pub(crate) bytes: usize,
}

/// What came of reading a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PesRead {
    /// All of it.
    Header(PesHeader),
    /// The bytes end within it.
    Incomplete,
    /// It is none, or carries no media (padding, for example).
    NotMedia,
}

impl PesHeader {
    /// Reads the header that `bytes` begin with.
    pub(crate) fn read(bytes: &[u8]) -> PesRead {
        let prefix = &[0, 0, 1][..];
        if !bytes.starts_with(prefix) {
            let is_beginning = prefix.starts_with(bytes);
            return if is_beginning { PesRead::Incomplete } else { PesRead::NotMedia };
        }
        let &[_, _, _, stream_id, high, low, first, flags, length, ..] = bytes else {
            return PesRead::Incomplete;
        };
        // Private stream 1, audio, video, and extended stream ids have this header.
        if !matches!(stream_id, 0xbd | 0xc0..=0xef | 0xfd) || first & 0xc0 != 0x80 {
            return PesRead::NotMedia;
        }
        let length = usize::from(length);
        let Some(fields) = bytes.get(9..9 + length) else { return PesRead::Incomplete };
        let times = (flags & 0x80 != 0).then(|| fields.get(..5)).flatten().map(read_ticks);
        let decoding = (flags & 0xc0 == 0xc0).then(|| fields.get(5..10)).flatten().map(read_ticks);
        let bytes_behind = usize::from(u16::from_be_bytes([high, low]));
        let payload_bytes = match bytes_behind {
            0 => None,
            behind => match behind.checked_sub(3 + length) {
                Some(bytes) => Some(bytes),
                None => return PesRead::NotMedia,
            },
        };
        let dts = decoding.or(times);
        PesRead::Header(Self { payload_bytes, pts: times, dts, bytes: 9 + length })
    }

    /// Writes a header; `ticks` are PTS and DTS, of which 33 bits count. A payload that the length
    /// field cannot count is left unbounded, as only video may be.
    pub(crate) fn write(out: &mut Vec<u8>, stream_id: u8, (pts, dts): (i64, i64), payload_bytes: usize) {
        let has_dts = pts != dts;
        let fields = if has_dts { 10 } else { 5 };
        let behind = 3 + fields + payload_bytes;
        let length = if behind > LENGTH_MAX { 0 } else { behind as u16 };
        out.extend_from_slice(&[0, 0, 1, stream_id]);
        out.extend_from_slice(&length.to_be_bytes());
        // The payload is aligned: it begins with a picture or an audio frame.
        out.extend_from_slice(&[0x84, if has_dts { 0xc0 } else { 0x80 }, fields as u8]);
        write_ticks(out, if has_dts { 3 } else { 2 }, pts);
        if has_dts {
            write_ticks(out, 1, dts);
        }
    }
}

fn read_ticks(field: &[u8]) -> u64 {
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|at| u64::from(field[at]));
    (a >> 1 & 7) << 30 | b << 22 | c >> 1 << 15 | d << 7 | e >> 1
}

fn write_ticks(out: &mut Vec<u8>, mark: u8, ticks: i64) {
    let bits = |shift: u32, mask: i64| (ticks >> shift & mask) as u8;
    out.extend_from_slice(&[
        mark << 4 | bits(30, 7) << 1 | 1,
        bits(22, 0xff),
        bits(15, 0x7f) << 1 | 1,
        bits(7, 0xff),
        bits(0, 0x7f) << 1 | 1,
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_wait_for_their_end() {
        let ticks_max = (1 << TICKS_BITS) - 1;
        for (pts, dts, payload, told) in [
            (0, 0, 100, Some(100)),
            (ticks_max, 0x1_2345_6789, 0, Some(0)),
            (1 << 30, 1 << 29, LENGTH_MAX - 13, Some(LENGTH_MAX - 13)),
            (90_000, 90_000, LENGTH_MAX, None),
        ] {
            let mut out = Vec::new();
            PesHeader::write(&mut out, 0xe0, (pts, dts), payload);
            for length in 0..out.len() {
                assert_eq!(PesHeader::read(&out[..length]), PesRead::Incomplete);
            }
            let PesRead::Header(read) = PesHeader::read(&out) else { panic!("no header") };
            assert_eq!((read.payload_bytes, read.bytes), (told, out.len()));
            assert_eq!((read.pts, read.dts), (Some(pts as u64), Some(dts as u64)));
        }
    }

    #[test]
    fn padding_and_nonsense_are_no_media() {
        for bytes in [&b"\0\0\x01\xbe\0\x10\xff\xff\xff\xff"[..], b"\0\0\x02", b"\0\0\x01\xe0\0\0\x40\0\0\0"]
        {
            assert_eq!(PesHeader::read(bytes), PesRead::NotMedia, "{bytes:?}");
        }
        // Shorter than its own header.
        assert_eq!(PesHeader::read(b"\0\0\x01\xe0\0\x02\x80\0\x05\0\0\0\0\0"), PesRead::NotMedia);
    }
}
