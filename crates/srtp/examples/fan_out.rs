//! One plaintext for many viewers: each gets its own header, its own keys, and its place in the send buffer.
//!
//! `cargo run -p srtp --example fan_out`

use srtp::{
    Config, InboundContext, MasterKey, OutboundContext, Outgoing, Plaintext, Profile, protect_rtp_batch,
};

const VIEWERS: usize = 40;
const SLOT_BYTES: usize = 1500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In a server every key comes from its viewer's DTLS handshake: `MasterKey::from_dtls`.
    let profile = Profile::AeadAes128Gcm;
    let keys: Vec<MasterKey> = (0..VIEWERS as u8)
        .map(|viewer| MasterKey::new(profile, &[viewer; 16], &[!viewer; 12]))
        .collect::<Result<_, _>>()?;
    let config = Config::default();
    let mut contexts = keys
        .iter()
        .map(|key| OutboundContext::new(&config, std::slice::from_ref(key)))
        .collect::<Result<Vec<_>, _>>()?;

    let payload = b"a slice of a picture, encoded once";
    let headers: Vec<[u8; 12]> = (0..VIEWERS as u32).map(header).collect();
    let mut slab = vec![0; VIEWERS * SLOT_BYTES];
    let mut packets: Vec<Outgoing<'_>> = slab
        .chunks_mut(SLOT_BYTES)
        .zip(&headers)
        .enumerate()
        .map(|(context, (out, header))| Outgoing {
            context,
            plaintext: Plaintext::From { header, payload },
            out,
            result: Ok(0),
        })
        .collect();

    protect_rtp_batch(&mut contexts[..], &mut packets);

    for (packet, key) in packets.iter_mut().zip(&keys) {
        let len = packet.result?;
        let mut viewer = InboundContext::new(&config, std::slice::from_ref(key))?;
        let plain = viewer.unprotect_rtp(&mut packet.out[..len])?;
        assert_eq!(&packet.out[12..plain], payload);
    }
    println!("{VIEWERS} viewers, {} bytes each, by the {} backend", packets[0].result?, config.backend);
    Ok(())
}

/// Sequence number 1, payload type 96, an SSRC of the viewer's own.
fn header(viewer: u32) -> [u8; 12] {
    let mut header = [0x80, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    header[8..].copy_from_slice(&(0x5000 + viewer).to_be_bytes());
    header
}
