//! What does a signed token cost, the first time that it is shown and after that?
//!
//! Run: `scripts/bench operations --case jwks`. Prints a line for each kind of key: its algorithm, and
//! medians over tokens in microseconds, both on one thread.

#![allow(dead_code, reason = "of what the tests sign with, not all is needed here")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey};
use jwt::{KeySet, Settings, Verifier};
use serde_json::json;
use signer::{Signer, name};

#[path = "../src/signer.rs"]
mod signer;

const TOKENS: usize = 400;
const SHOWN: usize = 50;
const SECRET: &[u8] = b"a secret of thirty-two bytes, or more";

fn main() {
    let secret = Signer {
        key: EncodingKey::from_secret(SECRET).expect("long enough"),
        algorithm: Algorithm::HS256,
        id: "secret",
        x: None,
    };
    for signer in [secret, Signer::rsa("r"), Signer::p256("e"), Signer::ed25519("o")] {
        let (first, again) = measure(&signer);
        println!(
            "{} {:.2} {:.3}",
            name(signer.algorithm),
            first.as_secs_f64() * 1e6,
            again.as_secs_f64() * 1e6,
        );
    }
}

/// Of a token that is new, and of one that has been shown before.
fn measure(signer: &Signer) -> (Duration, Duration) {
    let is_secret = signer.algorithm == Algorithm::HS256;
    let verifier = Verifier::new(Settings::default(), is_secret.then_some(SECRET)).expect("a right secret");
    if !is_secret {
        // As a provider of identities has them: the keys of before and after a change beside it.
        let keys = [Signer::rsa("1").jwk(), signer.jwk(), Signer::p256("2").jwk()];
        verifier.set_keys(KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).expect("keys"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let token = |number: usize| {
        signer.sign(&json!({
            "exp": now.as_secs() + 3_600, "iat": now.as_secs(), "sub": format!("viewer-{number}"),
            "stream": ["live/*"], "actions": ["play"],
        }))
    };
    let tokens: Vec<String> = (0..TOKENS).map(token).collect();
    let mut first: Vec<Duration> = Vec::new();
    let mut again: Vec<Duration> = Vec::new();
    for token in &tokens {
        let begin = Instant::now();
        verifier.verify(token, now).expect("a right token");
        first.push(begin.elapsed());
        let begin = Instant::now();
        for _ in 0..SHOWN {
            verifier.verify(token, now).expect("a right token");
        }
        again.push(begin.elapsed() / SHOWN as u32);
    }
    (median(first), median(again))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
