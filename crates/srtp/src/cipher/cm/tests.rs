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

    /// Sealed packet and tag, by code that no backend uses.
    fn expected(&self) -> (Vec<u8>, [u8; MAC_BYTES]) {
        let mut packet = self.packet.clone();
        let text = &mut packet[self.payload_offset..];
        if let Some(source) = &self.source {
            text.copy_from_slice(source);
        }
        oracle::counter_mode(&self.key, &self.iv, text);
        let tag = oracle::mac(&self.auth_key, &packet, &self.suffix);
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

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Seals `packet` in place under every backend; returns what each makes of it.
fn sealed(
    key: &[u8],
    auth_key: &[u8; 20],
    iv: [u8; 16],
    packet: &[u8],
    suffix: [u8; 4],
) -> Vec<(Backend, Vec<u8>, [u8; MAC_BYTES])> {
    backends()
        .map(|backend| {
            let key = CmKey::new(key, auth_key, backend);
            let mut packet = packet.to_vec();
            let mut jobs = [CmJob {
                key: &key,
                iv,
                suffix,
                packet: &mut packet,
                payload_offset: 0,
                source: None,
                tag: [0; MAC_BYTES],
            }];
            seal(&mut jobs);
            let tag = jobs[0].tag;
            (backend, packet, tag)
        })
        .collect()
}

/// RFC 3711 appendix B.2 (AES-128) and RFC 6188 section 7.1 (AES-256): first blocks of the key
/// stream, then those about block 0xff00, which lie beyond the longest packet and are asked of the
/// kernel itself.
#[test]
fn key_streams_are_those_of_rfc_3711_and_rfc_6188() {
    let iv = bytes("F0F1F2F3F4F5F6F7F8F9FAFBFCFD0000").try_into().unwrap();
    let tables = [
        (
            "2B7E151628AED2A6ABF7158809CF4F3C",
            "E03EAD0935C95E80E166B16DD92B4EB4D23513162B02D0F72A43A2FE4A5F97AB41E95B3BB0A2E8DD477901E4FCA894C0",
            "EC8CDF7398607CB0F2D21675EA9EA1E4362B7C3C6773516318A077D7FC5073AE6A2CC3787889374FBEB4C81B17BA6C44",
        ),
        (
            "57f82fe3613fd170a85ec93c40b1f0922ec4cb0dc025b58272147cc438944a98",
            "92bdd28a93c3f52511c677d08b5515a49da71b2378a854f67050756ded165bac63c4868b7096d88421b563b8c94c9a31",
            "cea518c90fd91ced9cbb18c078a547113dbc4814f4da5f00a08772b63c6a046d6eb246913062a16891433e97dd01a57f",
        ),
    ];
    for (key, first, late) in tables {
        let (key, first, late) = (bytes(key), bytes(first), bytes(late));
        for (backend, stream, _) in sealed(&key, &[0; 20], iv, &[0; 48], [0; 4]) {
            assert_eq!(stream, first, "{backend}");
        }
        let mut stream = vec![0; 0xff02 * 16];
        match key.len() {
            _ if !Backend::Avx512.is_supported() => library::Aes::new(&key).encrypt(&iv, None, &mut stream),
            16 => avx512::Key128::new(&key, &[0; 20]).encrypt(&iv, None, &mut stream),
            _ => avx512::Key256::new(&key, &[0; 20]).encrypt(&iv, None, &mut stream),
        }
        assert_eq!(stream[..48], first);
        assert_eq!(stream[0xfeff * 16..], late);
    }
}

/// NIST SP 800-38A sections F.5.1 and F.5.5. Their counter does not start at 0, as that of SRTP
/// does, so only the library takes them; the kernels are compared with the library above.
#[test]
fn the_library_gives_the_counter_mode_of_sp_800_38a() {
    let counter = bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff").try_into().unwrap();
    let plain = bytes(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
    );
    let tables = [
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
             5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
        ),
        (
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
             2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
        ),
    ];
    for (key, cipher) in tables {
        let mut text = plain.clone();
        library::Aes::new(&bytes(key)).encrypt(&counter, None, &mut text);
        assert_eq!(text, bytes(cipher));
    }
}

/// RFC 2202 section 3, cases 1 and 3 with the 20-byte keys SRTP has, the last four bytes of the
/// message as the suffix; and FIPS 180-4 by its example "abc" (NIST, "SHA1 Example", one block).
#[test]
fn hashes_are_those_of_rfc_2202_and_fips_180() {
    let tables: [(&str, &[u8], &str); 2] = [
        ("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &[0xdd; 50], "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
    ];
    for (auth_key, message, expected) in tables {
        let auth_key = bytes(auth_key).try_into().unwrap();
        let (packet, suffix) = message.split_last_chunk::<4>().unwrap();
        for backend in backends() {
            let key = CmKey::new(&[0; 16], &auth_key, backend);
            for size in [1, 2, 3, 7, 16] {
                let mut packets = vec![packet.to_vec(); size];
                let mut jobs: Vec<_> = packets
                    .iter_mut()
                    .map(|packet| CmJob {
                        key: &key,
                        iv: [0; 16],
                        suffix: *suffix,
                        packet,
                        payload_offset: 0,
                        source: None,
                        tag: [0; MAC_BYTES],
                    })
                    .collect();
                authenticate(&mut jobs);
                for job in jobs {
                    assert_eq!(job.tag[..], bytes(expected), "{backend}, {size} at once");
                }
            }
        }
    }
    if Backend::ShaNi.is_supported() {
        let mut block = [0; BLOCK_BYTES];
        block[..4].copy_from_slice(b"abc\x80");
        block[63] = 24;
        let hash = sha_ni::compress(SHA1_INITIAL, &block);
        assert_eq!(hash, [0xa999_3e36, 0x4706_816a, 0xba3e_2571, 0x7850_c26c, 0x9cd0_d89d]);
    }
}

/// The plan is a matter of speed only; this holds it to its sums.
#[test]
fn the_plan_follows_the_costs() {
    let equal = |packets: usize, blocks: usize| plan(&vec![blocks; packets]);
    assert_eq!(plan(&[]), Plan::Pairs, "nothing to do");
    for blocks in [2, 4, 11, 21, 1026] {
        for packets in 1..=6 {
            assert_eq!(equal(packets, blocks), Plan::Pairs, "{packets} of {blocks}: few");
        }
        for packets in 7..=16 {
            assert_eq!(equal(packets, blocks), Plan::Lanes, "{packets} of {blocks}: many");
        }
    }
    let mut mixed = [4; 16];
    mixed[5] = 21;
    assert_eq!(plan(&mixed), Plan::Pairs, "one long packet would keep fifteen lanes waiting");
    mixed[..8].fill(21);
    assert_eq!(plan(&mixed), Plan::Lanes, "eight long ones keep them busy enough");
}

#[test]
#[should_panic(expected = "source and payload are equally long")]
fn a_source_of_another_length_is_the_callers_mistake() {
    let key = CmKey::new(&[0; 16], &[0; 20], Backend::Portable);
    let mut packet = [0; 20];
    let source = Some(&[0; 9][..]);
    let (iv, suffix, tag) = ([0; 16], [0; 4], [0; MAC_BYTES]);
    seal(&mut [CmJob { key: &key, iv, suffix, packet: &mut packet, payload_offset: 12, source, tag }]);
}

#[test]
#[should_panic(expected = "shorter than 64 KiB")]
fn a_packet_beyond_64_kib_is_the_callers_mistake() {
    let key = CmKey::new(&[0; 16], &[0; 20], Backend::Portable);
    let mut packet = vec![0; PACKET_BYTES_MAX + 1];
    let (iv, suffix, tag) = ([0; 16], [0; 4], [0; MAC_BYTES]);
    authenticate(&mut [CmJob {
        key: &key,
        iv,
        suffix,
        packet: &mut packet,
        payload_offset: 12,
        source: None,
        tag,
    }]);
}
