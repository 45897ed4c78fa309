//! The stream: RTP packets of 1200 bytes, in frames, 25 a second. Both sides know what is in the
//! n-th.

use relay::LinkSecret;

/// Bytes of an RTP packet.
pub(crate) const PACKET_BYTES: usize = 1200;
const HEADER_BYTES: usize = 12;
const FRAMES_PER_SECOND: u64 = 25;
const SSRC: u32 = 0x7265_6c61;
/// Different contents.
const BODIES: usize = 64;

/// What the packets contain.
pub(crate) struct Contents(Vec<Vec<u8>>);

impl Contents {
    pub(crate) fn new() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        Self((0..BODIES).map(|_| (0..PACKET_BYTES).map(|_| byte()).collect()).collect())
    }

    /// Writes the n-th packet.
    pub(crate) fn write(&self, number: u32, packet: &mut Vec<u8>) {
        packet.clear();
        packet.extend_from_slice(&self.0[number as usize % BODIES]);
        packet[..2].copy_from_slice(&[0x80, 96]);
        packet[2..4].copy_from_slice(&(number as u16).to_be_bytes());
        packet[4..8].copy_from_slice(&(number / 3 * 3_600).to_be_bytes());
        packet[8..HEADER_BYTES].copy_from_slice(&SSRC.to_be_bytes());
        packet[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&number.to_be_bytes());
    }

    /// Which packet this is; `None` unless every byte of it is right.
    pub(crate) fn number_of(&self, packet: &[u8], scratch: &mut Vec<u8>) -> Option<u32> {
        let number = u32::from_be_bytes(*packet.get(HEADER_BYTES..)?.first_chunk()?);
        self.write(number, scratch);
        (packet == scratch).then_some(number)
    }
}

/// A rate, as RESULT lines name it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) name: &'static str,
    bits_per_second: u64,
}

pub(crate) const RATES: [Rate; 2] =
    [Rate { name: "600k", bits_per_second: 600_000 }, Rate { name: "2500k", bits_per_second: 2_500_000 }];

impl Rate {
    /// Packets of the n-th frame: 2 or 3, and 10 or 11.
    pub(crate) fn packets(self, frame: u64) -> usize {
        let until = |frame: u64| frame * self.bits_per_second / (8 * FRAMES_PER_SECOND * PACKET_BYTES as u64);
        (until(frame + 1) - until(frame)) as usize
    }
}

/// Time from one frame to the next.
pub(crate) const FRAME: std::time::Duration = std::time::Duration::from_millis(1_000 / FRAMES_PER_SECOND);

/// What a link's ends share; nobody attacks a benchmark.
pub(crate) fn secret(case: u32, node: usize) -> LinkSecret {
    let mut bytes = [0x5a; 32];
    bytes[..4].copy_from_slice(&case.to_be_bytes());
    bytes[4..8].copy_from_slice(&(node as u32).to_be_bytes());
    LinkSecret::new(bytes)
}

/// The key of a node of `loop`.
pub(crate) fn loop_key(case: u32, node: usize) -> [u8; 16] {
    let mut bytes = [0xa5; 16];
    bytes[..4].copy_from_slice(&case.to_be_bytes());
    bytes[4..8].copy_from_slice(&(node as u32).to_be_bytes());
    bytes
}

/// Bytes before the ciphertext of `loop`: its number, which makes the nonce and is authenticated.
pub(crate) const LOOP_HEADER_BYTES: usize = 8;

/// The nonce of a number.
pub(crate) fn loop_nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}
