//! Classifies a datagram on a peer's port by its first bytes (RFC 7983 §7, RFC 5761 §4).
//!
//! Runs once for each datagram received, before any session is looked up, so it reads two bytes and
//! decides nothing else. [`stun_local_ufrag`] is the one deeper look: it finds the session a STUN
//! request asks for. Neither says that a datagram is genuine; [`Peer`](crate::Peer) does that.

use crate::stun::Envelope;

/// The protocol of a datagram, by its first byte and, for RTP and RTCP, its second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// STUN: first byte 0 to 3.
    Stun,
    /// DTLS: first byte 20 to 63.
    Dtls,
    /// RTP or SRTP: first byte 128 to 191 and a second byte that is no RTCP packet type.
    Rtp,
    /// RTCP or SRTCP: first byte 128 to 191, second byte 192 to 223 (payload types 64 to 95 are not
    /// used with rtcp-mux).
    Rtcp,
    /// Nothing a peer speaks here: ZRTP, TURN channels, an empty datagram, RTP too short for its
    /// packet type.
    Other,
}

/// Classifies a datagram.
///
/// ```text
/// first byte  [0..3] STUN   [16..19] ZRTP   [20..63] DTLS   [64..79] TURN channel   [128..191] RTP, RTCP
/// ```
#[inline]
#[must_use]
pub fn classify(datagram: &[u8]) -> Kind {
    match datagram {
        [0..=3, ..] => Kind::Stun,
        [20..=63, ..] => Kind::Dtls,
        [128..=191, 192..=223, ..] => Kind::Rtcp,
        [128..=191, _, ..] => Kind::Rtp,
        _ => Kind::Other,
    }
}

/// The username fragment of the session a STUN request is meant for: the left half of its USERNAME
/// (RFC 8445 §7.2.2).
///
/// `None` for everything that is no well-formed STUN request with a USERNAME and a
/// MESSAGE-INTEGRITY, so a datagram without either never reaches a session. The text is as the
/// sender wrote it: nothing has been verified, and it is good for a table look-up only.
#[must_use]
pub fn stun_local_ufrag(datagram: &[u8]) -> Option<&str> {
    let envelope = Envelope::parse(datagram).ok()?;
    if !envelope.is_request() {
        return None;
    }
    Some(envelope.usernames()?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_divide_as_rfc_7983_says() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let expected = match (first, second) {
                    (0..=3, _) => Kind::Stun,
                    (20..=63, _) => Kind::Dtls,
                    (128..=191, 192..=223) => Kind::Rtcp,
                    (128..=191, _) => Kind::Rtp,
                    _ => Kind::Other,
                };
                assert_eq!(classify(&[first, second]), expected, "{first} {second}");
            }
        }
    }

    #[test]
    fn short_datagrams_have_a_kind_too() {
        assert_eq!(classify(&[]), Kind::Other);
        assert_eq!(classify(&[1]), Kind::Stun);
        assert_eq!(classify(&[22]), Kind::Dtls);
        assert_eq!(classify(&[128]), Kind::Other);
    }
}
