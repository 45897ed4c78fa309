//! Keys from a DTLS handshake: how exported keying material is divided (RFC 5764 section 4.2), and
//! which numbers the profiles have there (RFC 5764 section 4.1.2, RFC 7714 section 14.2).

use crate::common::naive::{Naive, shape};
use crate::common::{Rtp, protect_rtp, unprotect_rtp};
use srtp::{Config, InboundContext, MasterKey, OutboundContext, Profile, SetupError};

/// client_write_SRTP_master_key, server_write_SRTP_master_key, client_write_SRTP_master_salt,
/// server_write_SRTP_master_salt, one behind the other.
#[test]
fn exported_material_is_two_keys_then_two_salts() {
    for profile in Profile::ALL {
        let shape = shape(profile);
        let exported: Vec<u8> =
            (0..2 * (shape.key + shape.salt) as u8).map(|at| at.wrapping_mul(37)).collect();
        let (keys, salts) = exported.split_at(2 * shape.key);
        let (client, server) = MasterKey::from_dtls(profile, &exported).unwrap();
        let plain = Rtp::new(3, 1, b"from the client").bytes();
        for (master, key, salt) in [
            (&client, &keys[..shape.key], &salts[..shape.salt]),
            (&server, &keys[shape.key..], &salts[shape.salt..]),
        ] {
            assert_eq!(master.profile(), profile);
            let mut context = OutboundContext::new(&Config::default(), std::slice::from_ref(master)).unwrap();
            let expected = Naive::new(profile, key, salt, &[]).protect_rtp(&plain, 0);
            assert_eq!(protect_rtp(&mut context, &plain), Ok(expected), "{profile}");
        }
        // What the client writes, the server reads with the same key, and with no other.
        let mut sender = OutboundContext::new(&Config::default(), std::slice::from_ref(&client)).unwrap();
        let protected = protect_rtp(&mut sender, &plain).unwrap();
        assert!(
            unprotect_rtp(&mut InboundContext::new(&Config::default(), &[server]).unwrap(), &protected)
                .is_err()
        );
        let mut reader = InboundContext::new(&Config::default(), &[client]).unwrap();
        assert_eq!(unprotect_rtp(&mut reader, &protected), Ok(plain.clone()), "{profile}");
    }
}

#[test]
fn exported_material_of_another_length_is_refused() {
    for profile in Profile::ALL {
        let shape = shape(profile);
        let right = 2 * (shape.key + shape.salt);
        for len in (0..right + 70).filter(|len| *len != right) {
            let refused = MasterKey::from_dtls(profile, &vec![1; len]).err();
            assert_eq!(refused, Some(SetupError::KeyingMaterialLength), "{profile}, {len}");
        }
    }
}

#[test]
fn profiles_have_the_numbers_of_the_registry() {
    for (profile, id) in [
        (Profile::AesCm128HmacSha1_80, Some(0x0001)),
        (Profile::AesCm128HmacSha1_32, Some(0x0002)),
        (Profile::AeadAes128Gcm, Some(0x0007)),
        (Profile::AeadAes256Gcm, Some(0x0008)),
        (Profile::AesCm256HmacSha1_80, None),
        (Profile::AesCm256HmacSha1_32, None),
    ] {
        assert_eq!(profile.dtls_id(), id, "{profile}");
    }
    let taken: Vec<u16> = (0..=u16::MAX).filter(|id| Profile::from_dtls_id(*id).is_some()).collect();
    assert_eq!(taken, [1, 2, 7, 8], "no profile without encryption, none that is withdrawn");
}

#[test]
fn profiles_have_the_sizes_of_the_rfcs() {
    for profile in Profile::ALL {
        let shape = shape(profile);
        assert_eq!((profile.key_len(), profile.salt_len()), (shape.key, shape.salt), "{profile}");
        assert_eq!(profile.rtp_overhead(), shape.rtp_tag, "{profile}");
        assert_eq!(profile.rtcp_overhead(), shape.rtcp_tag + 4, "{profile}");
    }
}
