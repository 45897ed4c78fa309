//! How receivers make themselves known to the floor: a datagram, no signalling, no handshake.
//!
//! ```text
//! 0        4      5                9
//! +--------+------+----------------+
//! | "mbfl" | kind | number         |
//! +--------+------+----------------+
//! ```
//!
//! The number of a receiver is what its keys are made of. They need not be secret between two
//! processes of a benchmark.

use srtp::{MasterKey, Profile};

/// A receiver comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Send to where this came from.
    Come {
        /// Which keys to use.
        number: u32,
    },
    /// Send no longer.
    Go,
}

impl Hello {
    /// As a datagram.
    pub fn to_bytes(self) -> [u8; 9] {
        let (kind, number) = match self {
            Hello::Come { number } => (COME, number),
            Hello::Go => (GO, 0),
        };
        let [n0, n1, n2, n3] = number.to_be_bytes();
        let [m0, m1, m2, m3] = MAGIC;
        [m0, m1, m2, m3, kind, n0, n1, n2, n3]
    }

    /// Reads a datagram.
    pub fn read(datagram: &[u8]) -> Option<Hello> {
        let &[m0, m1, m2, m3, kind, n0, n1, n2, n3] = datagram else { return None };
        match ([m0, m1, m2, m3], kind) {
            (MAGIC, COME) => Some(Hello::Come { number: u32::from_be_bytes([n0, n1, n2, n3]) }),
            (MAGIC, GO) => Some(Hello::Go),
            _ => None,
        }
    }
}

/// The key of a receiver.
pub fn key(profile: Profile, number: u32) -> MasterKey {
    let mut key = [0x6b; 32];
    key[..4].copy_from_slice(&number.to_be_bytes());
    MasterKey::new(profile, &key[..profile.key_len()], &[0x73; 14][..profile.salt_len()])
        .expect("key and salt are as long as the profile asks")
}

const MAGIC: [u8; 4] = *b"mbfl";
const COME: u8 = 1;
const GO: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for hello in [Hello::Come { number: 0x0102_0304 }, Hello::Come { number: 0 }, Hello::Go] {
            let bytes = hello.to_bytes();
            assert_eq!(Hello::read(&bytes), Some(hello));
            assert!((0..bytes.len()).all(|length| Hello::read(&bytes[..length]).is_none()));
            for changed in 0..5 {
                let mut wrong = bytes;
                wrong[changed] ^= 0x80;
                assert_eq!(Hello::read(&wrong), None, "byte {changed}");
            }
        }
    }

    #[test]
    fn every_profile_has_keys_that_differ_by_number() {
        let config = srtp::Config::default();
        for profile in Profile::ALL {
            let header = [0x80, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 42];
            let protect = |number| {
                let mut outbound =
                    srtp::OutboundContext::new(&config, &[key(profile, number)]).expect("a key");
                let mut out = [0; 100];
                let length = outbound.protect_rtp_from(&header, b"payload", &mut out).expect("it fits");
                out[..length].to_vec()
            };
            assert_ne!(protect(1), protect(2));
            let mut inbound = srtp::InboundContext::new(&config, &[key(profile, 2)]).expect("a key");
            assert_eq!(inbound.unprotect_rtp(&mut protect(2)), Ok(19));
        }
    }
}
