//! The short authenticator of a media datagram: SipHash-2-4 under a key of the link's direction.
//!
//! It is written once for each packet and node, so it is the one cost that group unicast does not
//! share: 18 ns here. A single block of AES by a library took 115 ns a node and packet (17 for eight
//! packets at once), and 176 bytes of key schedule per link instead of 16.
//!
//! The input has 23 bytes, all that one more block of the hash has room for beside two whole ones:
//! link number (8), first bytes of the payload's tag (8), epoch, handle and index (7).

use zeroize::ZeroizeOnDrop;

/// What an authenticator covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered {
    /// The whole link sequence number, of which the datagram has the lower half.
    pub(crate) sequence: u64,
    pub(crate) epoch: u8,
    pub(crate) handle: u16,
    pub(crate) index: u32,
    /// The first bytes of the sealed payload's tag.
    pub(crate) tag: u64,
}

/// A key of one direction of a link.
#[derive(ZeroizeOnDrop)]
pub(crate) struct Authenticator {
    key: [u64; 2],
}

impl Authenticator {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let (halves, _) = key.as_chunks::<8>();
        Self { key: [u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1])] }
    }

    /// The 64 bits a datagram carries.
    #[inline]
    pub(crate) fn sign(&self, covered: &Covered) -> u64 {
        let Covered { sequence, epoch, handle, index, tag } = *covered;
        let [a, b] = self.key;
        let mut state = [a ^ INITIAL[0], b ^ INITIAL[1], a ^ INITIAL[2], b ^ INITIAL[3]];
        let last =
            u64::from(epoch) | u64::from(handle) << 8 | u64::from(index) << 24 | (INPUT_BYTES as u64) << 56;
        for word in [sequence, tag, last] {
            state[3] ^= word;
            round(&mut state);
            round(&mut state);
            state[0] ^= word;
        }
        state[2] ^= 0xff;
        for _ in 0..4 {
            round(&mut state);
        }
        state[0] ^ state[1] ^ state[2] ^ state[3]
    }
}

#[inline(always)]
fn round(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    *state = [a, b, c, d];
}

const INPUT_BYTES: usize = 23;

/// "somepseudorandomlygeneratedbytes"
const INITIAL: [u64; 4] =
    [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    #[test]
    #[expect(deprecated, reason = "the standard library's SipHash-2-4 is an oracle by other hands")]
    fn it_is_siphash_of_the_fields_in_little_endian() {
        let mut random = netsim::Random::new(4);
        for _ in 0..1_000 {
            let key: [u64; 2] = [random.next_u64(), random.next_u64()];
            let bytes: Vec<u8> = key.iter().flat_map(|half| half.to_le_bytes()).collect();
            let covered = Covered {
                sequence: random.next_u64(),
                epoch: random.next_u64() as u8,
                handle: random.next_u64() as u16,
                index: random.next_u64() as u32,
                tag: random.next_u64(),
            };
            let mut hasher = std::hash::SipHasher::new_with_keys(key[0], key[1]);
            hasher.write(&covered.sequence.to_le_bytes());
            hasher.write(&covered.tag.to_le_bytes());
            hasher.write(&[covered.epoch]);
            hasher.write(&covered.handle.to_le_bytes());
            hasher.write(&covered.index.to_le_bytes());
            let authenticator = Authenticator::new(bytes.as_slice().try_into().unwrap());
            assert_eq!(authenticator.sign(&covered), hasher.finish());
        }
    }
}
