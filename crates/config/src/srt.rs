//! Configuration of SRT: `[srt]` and `[[srt.stream]]`.

use srt::{PASSPHRASE_BYTES, Passphrase};
use worker_api::pattern::Pattern;
use worker_api::settings::{SrtPassphrases, SrtSettings};

use super::Config;
use super::error::Origin;
use super::resolve::{Errors, ms, to_u32, to_u64, to_usize};
use super::value::UdpBackendChoice;

/// What `[srt]` and `[[srt.stream]]` mean.
pub(super) fn settings(config: &Config, ipv6: bool, errors: &mut Errors) -> SrtSettings {
    let srt = &config.srt;
    if srt.latency_max_ms < srt.latency_ms {
        let message = "`srt.latency_max_ms` has to be as much as `srt.latency_ms` at least";
        errors.add(&config.origin("srt.latency_max_ms"), message);
    }
    if srt.udp_backend == UdpBackendChoice::AfXdp {
        errors.add(&config.origin("srt.udp_backend"), "`srt.udp_backend` cannot be \"af_xdp\"");
    }
    let mut passphrases = Vec::new();
    for entry in &config.srt_streams {
        let stream = &entry.stream;
        if stream.stream.is_empty() {
            errors.add(&entry.origin, "[[srt.stream]] needs a `stream`, such as \"live/*\"");
        }
        passphrases.push(SrtPassphrases {
            pattern: Pattern::new(&stream.stream),
            publish: passphrase("publish_passphrase", &stream.publish_passphrase, &entry.origin, errors),
            play: passphrase("play_passphrase", &stream.play_passphrase, &entry.origin, errors),
        });
    }
    let of_all = passphrase("srt.passphrase", &srt.passphrase, &config.origin("srt.passphrase"), errors);
    passphrases.push(SrtPassphrases { pattern: Pattern::new("*"), publish: of_all.clone(), play: of_all });
    SrtSettings {
        listen: srt.listen.addresses(ipv6),
        latency: ms(srt.latency_ms),
        latency_max: ms(srt.latency_max_ms),
        passphrases,
        sessions_max: to_usize(srt.sessions_per_worker),
        pending_max: to_usize(srt.pending_per_worker),
        pending_per_address_max: to_usize(srt.pending_per_address),
        handshakes_per_second_max: to_u32(srt.handshakes_per_second),
        silence_max: ms(srt.silence_timeout_ms),
        buffer_bytes_max: to_usize(srt.buffer_max_bytes),
        player_bits_per_second_max: to_u64(srt.player_max_kbps * 1_000),
        udp_backend: srt.udp_backend.into(),
    }
}

fn passphrase(key: &str, text: &str, origin: &Origin, errors: &mut Errors) -> Option<Passphrase> {
    if text.is_empty() {
        return None;
    }
    let passphrase = Passphrase::new(text);
    if passphrase.is_none() {
        let (least, most) = (PASSPHRASE_BYTES.start(), PASSPHRASE_BYTES.end());
        errors.add(origin, format!("`{key}` takes {least} to {most} bytes"));
    }
    passphrase
}
