//! DTLS records in a datagram (RFC 6347 section 4.1): iterating over them, and filtering some out.
//!
//! Anyone who can forge the peer's address can write a record of epoch 0. Those that would make a
//! library end the handshake (an alert, application data, garbage) are removed before it sees them:
//! RFC 6347 section 4.1.2.7 permits dropping them silently, and if the alert was genuine, the
//! handshake ends at its time limit.

use std::borrow::Cow;

/// One record, as it was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) content_type: u8,
    pub(super) epoch: u16,
    /// What follows the 13-byte header.
    pub(super) body: &'a [u8],
    /// All of it, with the header.
    pub(super) bytes: &'a [u8],
}

pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;

/// Type of the first handshake message of a flight, in its plaintext header.
pub(super) const CLIENT_HELLO: u8 = 1;
pub(super) const HELLO_VERIFY_REQUEST: u8 = 3;

/// Longest handshake message taken, in bytes: a chain of RSA certificates has 4000.
const HANDSHAKE_MESSAGE_MAX: usize = 16_384;

/// Header of a record and header of a handshake message.
pub(super) const RECORD_HEADER_LEN: usize = 13;
pub(super) const HANDSHAKE_HEADER_LEN: usize = 12;

/// The records of `datagram` up to the first that is not one: a byte of another version, or more
/// than is there.
///
/// ```text
/// type(1) version(2) epoch(2) sequence_number(6) length(2) body
/// ```
pub(super) fn records(datagram: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let (header, after) = rest.split_first_chunk::<RECORD_HEADER_LEN>()?;
        let len = usize::from(u16::from_be_bytes([header[11], header[12]]));
        let body = after.get(..len)?;
        // DTLS 1.0 is 0xfeff, and the number ClientHellos are sent with; 1.2 and 1.3 are 0xfefd.
        if header[1] != 0xfe || !matches!(header[2], 0xff | 0xfd) {
            return None;
        }
        let bytes = &rest[..RECORD_HEADER_LEN + len];
        rest = &after[len..];
        Some(Record {
            content_type: header[0],
            epoch: u16::from_be_bytes([header[3], header[4]]),
            body,
            bytes,
        })
    })
}

/// `datagram` without the alerts that anybody could have written.
///
/// For DTLS 1.3, whose encrypted records have another header (RFC 9147 section 4): they and all
/// that follows stay.
pub(super) fn without_plaintext_alerts(datagram: &[u8]) -> Cow<'_, [u8]> {
    let is_alert = |record: &Record<'_>| record.content_type == ALERT && record.epoch == 0;
    if !records(datagram).any(|record| is_alert(&record)) {
        return Cow::Borrowed(datagram);
    }
    let walked: usize = records(datagram).map(|record| record.bytes.len()).sum();
    let kept = records(datagram).filter(|record| !is_alert(record)).flat_map(|record| record.bytes);
    Cow::Owned(kept.chain(&datagram[walked..]).copied().collect())
}

impl Record<'_> {
    /// Whether a DTLS 1.2 handshake can make use of it. What is encrypted always passes: it will be
    /// authenticated.
    pub(super) fn is_useful(&self) -> bool {
        match (self.epoch, self.content_type) {
            (0, HANDSHAKE) => self.handshake_type().is_some(),
            (0, CHANGE_CIPHER_SPEC) => self.body == [1],
            (0, _) => false,
            (_, CHANGE_CIPHER_SPEC..=23) => true,
            _ => false,
        }
    }

    /// Type of the plaintext handshake message it begins with, if its header is consistent.
    ///
    /// ```text
    /// type(1) length(3) message_seq(2) fragment_offset(3) fragment_length(3) fragment
    /// ```
    pub(super) fn handshake_type(&self) -> Option<u8> {
        if self.content_type != HANDSHAKE || self.epoch != 0 {
            return None;
        }
        let header = self.body.first_chunk::<HANDSHAKE_HEADER_LEN>()?;
        let (length, offset, fragment) =
            (uint24(&header[1..4]), uint24(&header[6..9]), uint24(&header[9..12]));
        let consistent = length <= HANDSHAKE_MESSAGE_MAX
            && offset + fragment <= length
            && HANDSHAKE_HEADER_LEN + fragment <= self.body.len();
        consistent.then_some(header[0])
    }
}

/// A big-endian number of three bytes.
pub(super) fn uint24(bytes: &[u8]) -> usize {
    bytes.iter().take(3).fold(0, |number, &byte| number << 8 | usize::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(content_type: u8, epoch: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![content_type, 0xfe, 0xfd];
        bytes.extend(epoch.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0, 7]);
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn records_end_where_the_datagram_stops_making_sense() {
        let mut datagram = record(HANDSHAKE, 0, &[0; 12]);
        datagram.extend(record(ALERT, 1, b"sealed"));
        let whole = datagram.len();
        datagram.extend(record(HANDSHAKE, 0, &[0; 12]));
        for len in 0..datagram.len() {
            let found: usize = records(&datagram[..len]).map(|record| record.bytes.len()).sum();
            let expected = if len >= whole {
                whole
            } else if len >= 25 {
                25
            } else {
                0
            };
            assert_eq!(found, expected, "of {len} bytes");
        }
        let with_rest =
            [&record(ALERT, 0, &[2, 40])[..], &datagram[..25], &record(ALERT, 0, &[2, 0]), b"rest"].concat();
        assert_eq!(*without_plaintext_alerts(&with_rest), [&datagram[..25], b"rest"].concat());
        assert_eq!(*without_plaintext_alerts(&datagram), datagram);
        let mut other_version = datagram.clone();
        other_version[2] = 0x01;
        assert_eq!(records(&other_version).count(), 0);
    }

    #[test]
    fn what_anybody_could_have_written_to_end_a_handshake_is_left_out() {
        let hello = [1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 9, 9];
        let mut too_long = hello;
        too_long[11] = 3;
        let cases: [(u8, u16, &[u8], bool); 11] = [
            (HANDSHAKE, 0, &hello, true),
            (HANDSHAKE, 0, &too_long, false), // fragment longer than the message
            (HANDSHAKE, 0, &hello[..11], false), // no whole header
            (HANDSHAKE, 0, &[1, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], false), // message of 16 MB
            (CHANGE_CIPHER_SPEC, 0, &[1], true),
            (CHANGE_CIPHER_SPEC, 0, &[2], false),
            (ALERT, 0, &[2, 40], false),
            (ALERT, 1, b"sealed", true),
            (HANDSHAKE, 1, b"sealed", true),
            (23, 0, b"data", false),
            (64, 1, b"sealed", false),
        ];
        for (content_type, epoch, body, useful) in cases {
            let bytes = record(content_type, epoch, body);
            let record = records(&bytes).next().unwrap();
            assert_eq!(record.is_useful(), useful, "{record:?}");
        }
    }
}
