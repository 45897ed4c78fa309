//! What the data of each header extension says.
//!
//! Readers return `None` for data of the wrong length; data that is longer than needed is read as
//! far as it is known, since later versions of an extension append.

use crate::rtcp::NtpTime;

/// Audio level of a packet (RFC 6464 section 3).
///
/// One-byte form: `|V| level (7 bits) |`; in two bytes with the two-byte form the second is padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioLevel {
    /// The sender believes that there is speech.
    pub voice: bool,
    /// Level below full scale, `0..=127`: 0 is loudest, 127 silence. In -dBov.
    pub level_below_overload: u8,
}

impl AudioLevel {
    /// Reads it.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let byte = *data.first()?;
        Some(Self { voice: byte & 0x80 != 0, level_below_overload: byte & 0x7f })
    }

    /// The byte to send.
    pub fn to_bytes(self) -> [u8; 1] {
        [u8::from(self.voice) << 7 | self.level_below_overload & 0x7f]
    }
}

/// How to rotate the video (3GPP TS 26.114 section 7.4.5): `|0 0 0 0 C F R1 R0|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoOrientation {
    /// Taken by the camera at the back.
    pub back_camera: bool,
    /// Mirrored left to right.
    pub flipped: bool,
    /// Quarter turns the receiver makes clockwise, `0..=3`.
    pub quarter_turns: u8,
}

impl VideoOrientation {
    /// Reads it.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let byte = *data.first()?;
        Some(Self { back_camera: byte & 8 != 0, flipped: byte & 4 != 0, quarter_turns: byte & 3 })
    }

    /// The byte to send.
    pub fn to_bytes(self) -> [u8; 1] {
        [u8::from(self.back_camera) << 3 | u8::from(self.flipped) << 2 | self.quarter_turns & 3]
    }
}

/// Limits of the playout delay, each 12 bits, in units of 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayoutDelay {
    /// Least delay in units of 10 ms, `0..=4095`.
    pub least_10_ms: u16,
    /// Greatest delay in units of 10 ms, `0..=4095`.
    pub greatest_10_ms: u16,
}

impl PlayoutDelay {
    /// Reads it.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let [a, b, c, ..] = *data else { return None };
        Some(Self {
            least_10_ms: u16::from(a) << 4 | u16::from(b >> 4),
            greatest_10_ms: u16::from(b & 0x0f) << 8 | u16::from(c),
        })
    }

    /// The bytes to send.
    pub fn to_bytes(self) -> [u8; 3] {
        let (least, greatest) = (self.least_10_ms & 0xfff, self.greatest_10_ms & 0xfff);
        [(least >> 4) as u8, (least as u8) << 4 | (greatest >> 8) as u8, greatest as u8]
    }
}

/// When a frame was captured, by the clock of the capturing system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsoluteCaptureTime {
    /// Time of capture.
    pub captured: NtpTime,
    /// What to add to it for the sender's own clock, in units of 2^-32 s.
    pub sender_clock_offset: Option<i64>,
}

impl AbsoluteCaptureTime {
    /// Reads it: eight bytes, or sixteen with the offset.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let captured = NtpTime(u64::from_be_bytes(*data.first_chunk()?));
        let offset = data.get(8..).and_then(|rest| rest.first_chunk());
        Some(Self { captured, sender_clock_offset: offset.map(|bytes| i64::from_be_bytes(*bytes)) })
    }
}

/// Transport-wide sequence number; wraps at 2^16.
#[inline]
pub fn transport_sequence_number(data: &[u8]) -> Option<u16> {
    data.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Send time in units of 2^-18 s, 24 bits: wraps after 64 s.
#[inline]
pub fn abs_send_time(data: &[u8]) -> Option<u32> {
    let [a, b, c, ..] = *data else { return None };
    Some(u32::from_be_bytes([0, a, b, c]))
}

/// The three bytes that say this time: the low 6 bits of the seconds and the high 18 of the fraction.
#[inline]
pub fn abs_send_time_from_ntp(time: NtpTime) -> [u8; 3] {
    let [_, a, b, c] = ((time.0 >> 14) as u32).to_be_bytes();
    [a, b, c]
}

/// MID, RID or repaired RID: 1 to 255 visible ASCII characters (RFC 9143 section 15, RFC 8852 section 3).
#[inline]
pub fn text(data: &[u8]) -> Option<&str> {
    if data.is_empty() || !data.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    std::str::from_utf8(data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_read_as_it_was_written() {
        for byte in 0..=255u8 {
            assert_eq!(AudioLevel::parse(&[byte]).unwrap().to_bytes(), [byte]);
            assert_eq!(VideoOrientation::parse(&[byte]).unwrap().to_bytes(), [byte & 0x0f]);
            let delay = [byte, byte.wrapping_mul(7), byte.wrapping_mul(31)];
            assert_eq!(PlayoutDelay::parse(&delay).unwrap().to_bytes(), delay);
        }
        let delay = PlayoutDelay::parse(&[0x12, 0x34, 0x56]).unwrap();
        assert_eq!(delay, PlayoutDelay { least_10_ms: 0x123, greatest_10_ms: 0x456 });
        assert_eq!(transport_sequence_number(&[1, 2]), Some(0x0102));
        assert_eq!(text(b"video-0"), Some("video-0"));
        for (wrong, remark) in
            [(&b""[..], "empty"), (b"a b", "space"), (b"\xff", "not ASCII"), (b"a\0", "NUL")]
        {
            assert_eq!(text(wrong), None, "{remark}");
        }
    }

    #[test]
    fn short_data_says_nothing() {
        assert_eq!(AudioLevel::parse(&[]), None);
        assert_eq!(VideoOrientation::parse(&[]), None);
        assert_eq!(PlayoutDelay::parse(&[1, 2]), None);
        assert_eq!(AbsoluteCaptureTime::parse(&[0; 7]), None);
        assert_eq!(AbsoluteCaptureTime::parse(&[0; 15]).unwrap().sender_clock_offset, None);
        assert_eq!(AbsoluteCaptureTime::parse(&[255; 16]).unwrap().sender_clock_offset, Some(-1));
        assert_eq!(transport_sequence_number(&[1]), None);
        assert_eq!(abs_send_time(&[1, 2]), None);
    }

    #[test]
    fn send_time_is_the_middle_of_the_ntp_time_and_wraps_after_64_seconds() {
        let time = |seconds: u64, fraction: u64| NtpTime(seconds << 32 | fraction);
        for (ntp, expected) in [
            (time(0, 0), 0),
            (time(1, 0), 1 << 18),
            (time(63, 0xffff_ffff), (1 << 24) - 1), // last before it wraps
            (time(64, 0), 0),                       // wrapped
            (time(0, 1 << 31), 1 << 17),            // half a second
        ] {
            assert_eq!(abs_send_time(&abs_send_time_from_ntp(ntp)), Some(expected), "{ntp:?}");
        }
    }
}
