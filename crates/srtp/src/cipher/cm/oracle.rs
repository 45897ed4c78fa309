//! Counter mode by RustCrypto and HMAC-SHA1 by AWS-LC: what the tests compare every backend with.
//!
//! Just the other way round than `library.rs`, so that no backend is compared with itself.

use aes::cipher::consts::U16;
use aes::cipher::{
    BlockCipherEncrypt, BlockSizeUser, InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper,
};
use aes::{Aes128, Aes256};
use aws_lc_rs::hmac;
use ctr::{CtrCore, flavors};

use super::MAC_BYTES;

/// `text` run through AES in counter mode.
pub(super) fn counter_mode(key: &[u8], iv: &[u8; 16], text: &mut [u8]) {
    match key.len() {
        16 => apply(&Aes128::new_from_slice(key).expect("16 bytes"), iv, text),
        _ => apply(&Aes256::new_from_slice(key).expect("32 bytes"), iv, text),
    }
}

fn apply<C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>>(key: &C, iv: &[u8; 16], text: &mut [u8]) {
    let core = CtrCore::<&C, flavors::Ctr128BE>::inner_iv_init(key, iv.into());
    StreamCipherCoreWrapper::from_core(core).apply_keystream(text);
}

/// HMAC-SHA1 of `packet` and `suffix`.
pub(super) fn mac(key: &[u8; 20], packet: &[u8], suffix: &[u8; 4]) -> [u8; MAC_BYTES] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key));
    context.update(packet);
    context.update(suffix);
    *context.sign().as_ref().first_chunk().expect("HMAC-SHA1 is 20 bytes long")
}
