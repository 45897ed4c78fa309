//! Every backend against published vectors, and against the library for every length and batch size.

use super::*;

/// Bytes that look random and are the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 56) as u8).collect()
    }
}

/// A packet, its key, and where in a larger buffer it stands.
struct Case {
    key_len: usize,
    key: Vec<u8>,
    auth_key: [u8; 20],
    backend: Backend,
    iv: [u8; 16],
    suffix: [u8; 4],
    packet: Vec<u8>,
    payload_offset: usize,
    source: Option<Vec<u8>>,
    alignment: usize,
}

impl Case {
    fn new(noise: &mut Noise, backend: Backend, key_len: usize, len: usize, payload_offset: usize) -> Self {
        let mut iv: [u8; 16] = noise.bytes(16).try_into().unwrap();
        iv[14..].fill(0);
        let source = (noise.below(2) == 0).then(|| noise.bytes(len - payload_offset));
        Self {
            key_len,
            key: noise.bytes(key_len),
            auth_key: noise.bytes(20).try_into().unwrap(),
            backend,
            iv,
            suffix: noise.bytes(4).try_into().unwrap(),
            packet: noise.bytes(len),
            payload_offset,
            source,
            alignment: noise.below(64),
        }
    }

    fn remark(&self) -> String {
        format!(
            "{} AES-{} len {} offset {} source {} alignment {}",
            self.backend,
            self.key_len * 8,
            self.packet.len(),
            self.payload_offset,
            self.source.is_some(),
            self.alignment
        )
    }

    /// Sealed packet and tag, by the library alone.
    fn expected(&self) -> (Vec<u8>, [u8; MAC_BYTES]) {
        let key = library::Key::new(&self.key, &self.auth_key);
        let mut packet = self.packet.clone();
        key.aes.encrypt(&self.iv, self.source.as_deref(), &mut packet[self.payload_offset..]);
        let tag = key.mac.of(&packet, &self.suffix);
        (packet, tag)
    }
}

const CANARY: u8 = 0xa5;
const MARGIN: usize = 80;

/// Seals all cases in one call and compares with the library; then authenticates and decrypts what came out.
fn check(cases: &[Case]) {
    let keys: Vec<_> = cases.iter().map(|case| CmKey::new(&case.key, &case.auth_key, case.backend)).collect();
    let mut buffers: Vec<Vec<u8>> = cases
        .iter()
        .map(|case| {
            let mut buffer = vec![CANARY; case.alignment + MARGIN];
            buffer.extend(&case.packet);
            buffer.extend([CANARY; MARGIN]);
            buffer
        })
        .collect();
    fn jobs<'a>(
        cases: &'a [Case],
        keys: &'a [CmKey],
        buffers: &'a mut [Vec<u8>],
        with_source: bool,
    ) -> Vec<CmJob<'a>> {
        let parts = cases.iter().zip(keys).zip(buffers);
        let job = |((case, key), buffer): ((&'a Case, &'a CmKey), &'a mut Vec<u8>)| CmJob {
            key,
            iv: case.iv,
            suffix: case.suffix,
            packet: &mut buffer[case.alignment + MARGIN..][..case.packet.len()],
            payload_offset: case.payload_offset,
            source: case.source.as_deref().filter(|_| with_source),
            tag: [0; MAC_BYTES],
        };
        parts.map(job).collect()
    }
    let mut sealing = jobs(cases, &keys, &mut buffers, true);
    seal(&mut sealing);
    for (case, job) in cases.iter().zip(&sealing) {
        let (packet, tag) = case.expected();
        assert!(*job.packet == packet, "text: {} of {}", case.remark(), cases.len());
        assert!(job.tag == tag, "tag of seal: {} of {}", case.remark(), cases.len());
    }
    let mut opening = jobs(cases, &keys, &mut buffers, false);
    authenticate(&mut opening);
    for (case, job) in cases.iter().zip(&mut opening) {
        let (packet, tag) = case.expected();
        assert!(*job.packet == packet, "authenticate changes nothing: {}", case.remark());
        assert!(job.tag == tag, "tag of authenticate: {} of {}", case.remark(), cases.len());
        decrypt(job);
        let plain = case.source.as_deref().unwrap_or(&case.packet[case.payload_offset..]);
        assert!(job.packet[case.payload_offset..] == *plain, "decrypted: {}", case.remark());
        assert!(job.packet[..case.payload_offset] == case.packet[..case.payload_offset]);
    }
    for (case, buffer) in cases.iter().zip(&buffers) {
        let (before, rest) = buffer.split_at(case.alignment + MARGIN);
        let untouched = before.iter().chain(&rest[case.packet.len()..]).all(|&byte| byte == CANARY);
        assert!(untouched, "bytes around the packet: {}", case.remark());
    }
}

fn backends() -> impl Iterator<Item = Backend> {
    Backend::ALL.into_iter().filter(|backend| backend.is_supported())
}

#[test]
fn every_length_alone_is_as_by_the_library() {
    let mut noise = Noise(1);
    for backend in backends() {
        for key_len in [16, 32] {
            for len in 0..=1500 {
                let offset = noise.below(len.min(100) + 1);
                check(&[Case::new(&mut noise, backend, key_len, len, offset)]);
            }
        }
    }
}

#[test]
fn every_length_in_a_full_batch_is_as_by_the_library() {
    let mut noise = Noise(2);
    for backend in backends() {
        for len in 12..=1500 {
            let cases: Vec<_> = (0..16).map(|_| Case::new(&mut noise, backend, 16, len, 12)).collect();
            check(&cases);
        }
    }
}

#[test]
fn every_batch_size_with_mixed_lengths_keys_and_offsets_is_as_by_the_library() {
    let mut noise = Noise(3);
    for backend in backends() {
        for size in 1..=40 {
            for longest in [100, 300, 1500] {
                let cases: Vec<_> = (0..size)
                    .map(|_| {
                        let len = noise.below(longest + 1);
                        let offset = noise.below(len + 1);
                        let key_len = [16, 32][noise.below(2)];
                        Case::new(&mut noise, backend, key_len, len, offset)
                    })
                    .collect();
                check(&cases);
            }
        }
    }
}

#[test]
fn backends_may_be_mixed_in_a_batch() {
    let mut noise = Noise(4);
    let available: Vec<_> = backends().collect();
    for size in 1..=40 {
        let cases: Vec<_> = (0..size)
            .map(|_| {
                let backend = available[noise.below(available.len())];
                let len = 12 + noise.below(1300);
                let key_len = [16, 32][noise.below(2)];
                Case::new(&mut noise, backend, key_len, len, 12)
            })
            .collect();
        check(&cases);
    }
}

#[test]
fn every_payload_offset_of_rtp_is_as_by_the_library() {
    let mut noise = Noise(5);
    for backend in backends() {
        for offset in 0..=100 {
            for size in [1, 2, 3, 16] {
                let cases: Vec<_> = (0..size)
                    .map(|_| {
                        let len = offset + noise.below(200);
                        Case::new(&mut noise, backend, 16, len, offset)
                    })
                    .collect();
                check(&cases);
            }
        }
    }
}

#[test]
fn packets_up_to_64_kib_are_as_by_the_library() {
    let mut noise = Noise(6);
    for backend in backends() {
        for len in [4095, 4096, 4097, 4108, 8191, 16_384 + 12, 40_000, PACKET_BYTES_MAX - 1, PACKET_BYTES_MAX]
        {
            for (size, key_len) in [(1, 16), (2, 32), (16, 16)] {
                let cases: Vec<_> =
                    (0..size).map(|_| Case::new(&mut noise, backend, key_len, len, 12)).collect();
                check(&cases);
            }
        }
    }
}
