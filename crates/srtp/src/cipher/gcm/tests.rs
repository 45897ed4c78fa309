//! Both backends against published vectors and against each other: every length, every alignment,
//! every tag bit.

use super::*;

/// Numbers without a pattern; xorshift64*, so that a failure can be had again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 32) as u8).collect()
    }

    fn nonce(&mut self) -> [u8; 12] {
        self.bytes(12).try_into().expect("12 bytes")
    }
}

/// The library first: it is the oracle of the others.
fn backends() -> Vec<Backend> {
    Backend::ALL.into_iter().filter(|backend| backend.is_supported() && *backend != Backend::ShaNi).collect()
}

/// The library's key and the fastest backend's. On a CPU without AVX-512 both are the library's.
fn twins(random: &mut Random, key_bytes: usize) -> (GcmKey, GcmKey) {
    let key = random.bytes(key_bytes);
    (GcmKey::new(&key, Backend::Portable), GcmKey::new(&key, Backend::detected()))
}

fn from_hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

/// McGrew and Viega, "The Galois/Counter Mode of Operation (GCM)", appendix B: test cases 1 to 4
/// and 13 to 16. Key, nonce, associated data, plaintext, ciphertext, tag.
const SPECIFICATION: [[&str; 6]; 8] = [
    [
        "00000000000000000000000000000000",
        "000000000000000000000000",
        "",
        "",
        "",
        "58e2fccefa7e3061367f1d57a4e7455a",
    ],
    [
        "00000000000000000000000000000000",
        "000000000000000000000000",
        "",
        "00000000000000000000000000000000",
        "0388dace60b6a392f328c2b971b2fe78",
        "ab6e47d42cec13bdf53a67b21257bddf",
    ],
    [
        "feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
        "4d5c2af327cd64a62cf35abd2ba6fab4",
    ],
    [
        "feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        "5bc94fbc3221a5db94fae95ae7121a47",
    ],
    [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000",
        "",
        "",
        "",
        "530f8afbc74536b9a963b4f1c4cb738b",
    ],
    [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000",
        "",
        "00000000000000000000000000000000",
        "cea7403d4d606b6e074ec5d3baf39d18",
        "d0d1c8a799996bf0265b98b5d48ab919",
    ],
    [
        "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
        "b094dac5d93471bdec1a502270e3cc6c",
    ],
    [
        "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        "76fc6ece0f4e1768cddf8853bb2d551b",
    ],
];

#[test]
fn gives_the_values_of_the_specification() {
    for (case, fields) in SPECIFICATION.iter().enumerate() {
        let [key, nonce, aad, plain, cipher, tag] = fields.map(from_hex);
        let nonce = nonce.try_into().expect("12 bytes");
        let tag: [u8; 16] = tag.try_into().expect("16 bytes");
        for backend in backends() {
            let key = GcmKey::new(&key, backend);
            let mut text = plain.clone();
            assert_eq!(key.seal(&nonce, &aad, None, &mut text), tag, "case {case}, {backend}");
            assert_eq!(text, cipher, "case {case}, {backend}");
            assert!(key.open(&nonce, &aad, &mut text, &tag), "case {case}, {backend}");
            assert_eq!(text, plain, "case {case}, {backend}");
        }
    }
}

/// Every length with some lengths of associated data: the twins agree on ciphertext and tag, in
/// place and from a source, and open each other's.
#[test]
fn every_length_is_sealed_and_opened_as_by_the_library() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for key_bytes in [16, 32] {
        let (library, fast) = twins(&mut random, key_bytes);
        for len in 0..=1500 {
            for aad_len in [12, random.below(81), random.below(81)] {
                agree(&library, &fast, &mut random, aad_len, len);
            }
        }
    }
}

#[test]
fn every_length_of_associated_data_is_hashed_as_by_the_library() {
    let mut random = Random(0xd1b5_4a32_d192_ed03);
    for key_bytes in [16, 32] {
        let (library, fast) = twins(&mut random, key_bytes);
        for aad_len in (0..=700).chain([1500, 65_535]) {
            // Around the lengths where a tail's registers or the summing of products change.
            for len in [0, 1, 16, 64, 160, 176, 192, 207, 208, 224, 240, 255, 256, 1200] {
                agree(&library, &fast, &mut random, aad_len, len);
            }
        }
    }
}

#[test]
fn texts_longer_than_a_datagram_of_the_road_are_sealed_as_by_the_library() {
    let mut random = Random(0x0123_4567_89ab_cdef);
    for key_bytes in [16, 32] {
        let (library, fast) = twins(&mut random, key_bytes);
        // 4064 bytes are where the lowest byte of the block counter runs over.
        for len in (2040..2056).chain(4000..4200).chain([9000, 65_000, 65_519, 65_535, 65_536]) {
            agree(&library, &fast, &mut random, 12, len);
        }
    }
}

fn agree(library: &GcmKey, fast: &GcmKey, random: &mut Random, aad_len: usize, len: usize) {
    let seed = random.0;
    let nonce = random.nonce();
    let aad = random.bytes(aad_len);
    let plain = random.bytes(len);
    let remark = format!("aad {aad_len}, text {len}, seed {seed:#x}");

    let mut expected = plain.clone();
    let expected_tag = library.seal(&nonce, &aad, None, &mut expected);
    for key in [library, fast] {
        let mut text = plain.clone();
        assert_eq!(key.seal(&nonce, &aad, None, &mut text), expected_tag, "in place, {remark}");
        assert_eq!(text, expected, "in place, {remark}");
        text.fill(0xa5);
        assert_eq!(key.seal(&nonce, &aad, Some(&plain), &mut text), expected_tag, "from source, {remark}");
        assert_eq!(text, expected, "from source, {remark}");
        assert!(key.open(&nonce, &aad, &mut text, &expected_tag), "{remark}");
        assert_eq!(text, plain, "{remark}");
    }
}

/// Source and target at every offset from a cache line, with bytes around them that must not change.
#[test]
fn every_alignment_works_and_nothing_around_the_text_is_written() {
    const CANARY: u8 = 0xc5;
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    for key_bytes in [16, 32] {
        let (library, fast) = twins(&mut random, key_bytes);
        for len in [0, 1, 15, 16, 17, 63, 64, 65, 160, 241, 250, 255, 256, 257, 271, 511, 512, 1200] {
            let nonce = random.nonce();
            let aad = random.bytes(20);
            let plain = random.bytes(len);
            let mut expected = plain.clone();
            let tag = library.seal(&nonce, &aad, None, &mut expected);
            for offset in 0..64 {
                let place = 128 + offset..128 + offset + len;
                let mut memory = vec![CANARY; 256 + 64 + len];
                memory[place.clone()].copy_from_slice(&plain);
                assert_eq!(fast.seal(&nonce, &aad, None, &mut memory[place.clone()]), tag);
                assert_eq!(memory[place.clone()], expected, "len {len}, offset {offset}");
                assert!(fast.open(&nonce, &aad, &mut memory[place.clone()], &tag));
                assert_eq!(memory[place.clone()], plain, "len {len}, offset {offset}");
                assert!(!fast.open(&nonce, &aad[1..], &mut memory[place.clone()], &tag));
                assert_eq!(memory[place.clone()], plain, "len {len}, offset {offset}");

                let mut shifted = vec![CANARY; 64 + len];
                let source = 63 - offset..63 - offset + len;
                shifted[source.clone()].copy_from_slice(&plain);
                memory[place.clone()].fill(0);
                let sealed =
                    fast.seal(&nonce, &aad, Some(&shifted[source.clone()]), &mut memory[place.clone()]);
                assert_eq!(sealed, tag, "len {len}, offset {offset}");
                assert_eq!(memory[place.clone()], expected, "len {len}, offset {offset}");
                assert_eq!(shifted[source], plain, "the source is only read");

                let around = memory[..place.start].iter().chain(&memory[place.end..]);
                assert!(around.copied().all(|byte| byte == CANARY), "len {len}, offset {offset}");
            }
        }
    }
}

/// Each single bit of tag, associated data, nonce and ciphertext counts, and a refused packet is left alone.
#[test]
fn every_flipped_bit_is_refused_and_the_ciphertext_stays() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for backend in backends() {
        for (key_bytes, len) in [(16, 0), (16, 33), (16, 160), (16, 300), (32, 160), (32, 1200), (32, 2100)] {
            let key = GcmKey::new(&random.bytes(key_bytes), backend);
            let nonce = random.nonce();
            let aad = random.bytes(20);
            let mut sealed = random.bytes(len);
            let tag = key.seal(&nonce, &aad, None, &mut sealed);
            let flip = |bytes: &[u8], bit: usize| {
                let mut bytes = bytes.to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            };
            let refused = |nonce: &[u8], aad: &[u8], cipher: &[u8], tag: &[u8]| {
                let mut text = cipher.to_vec();
                let (nonce, tag) = (nonce.try_into().expect("12"), tag.try_into().expect("16"));
                assert!(!key.open(nonce, aad, &mut text, tag), "{backend}, len {len}");
                assert_eq!(text, cipher, "{backend}, len {len}");
            };
            (0..128).for_each(|bit| refused(&nonce, &aad, &sealed, &flip(&tag, bit)));
            (0..96).for_each(|bit| refused(&flip(&nonce, bit), &aad, &sealed, &tag));
            (0..160).for_each(|bit| refused(&nonce, &flip(&aad, bit), &sealed, &tag));
            (0..len * 8).step_by(3).for_each(|bit| refused(&nonce, &aad, &flip(&sealed, bit), &tag));
            assert!(key.open(&nonce, &aad, &mut sealed, &tag), "and as it was, it is right");
        }
    }
}

/// Bytes moved between associated data and text change the tag: both lengths are hashed.
#[test]
fn the_border_between_associated_data_and_text_is_authenticated() {
    let mut random = Random(0x1405_7b7e_f767_814f);
    for backend in backends() {
        let key = GcmKey::new(&random.bytes(16), backend);
        let nonce = random.nonce();
        let packet = [0_u8; 32];
        let tags: Vec<_> = [0, 16, 32].map(|at| key.seal(&nonce, &packet[..at], None, &mut [])).to_vec();
        assert!(tags[0] != tags[1] && tags[1] != tags[2], "zeros hash to zero, only the lengths differ");
    }
}

#[test]
fn one_key_serves_several_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<GcmKey>();
}

#[test]
#[should_panic(expected = "source and text are one packet's")]
fn a_source_of_another_length_is_the_callers_mistake() {
    GcmKey::new(&[0; 16], Backend::detected()).seal(&[0; 12], &[], Some(&[0; 4]), &mut [0; 5]);
}
