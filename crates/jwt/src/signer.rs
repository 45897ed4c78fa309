//! Who signs tokens, for tests and for the benchmark.

use aws_lc_rs::encoding::AsDer;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

pub(crate) struct Signer {
    pub(crate) key: EncodingKey,
    pub(crate) algorithm: Algorithm,
    pub(crate) id: &'static str,
    /// Public key of Ed25519, which `Jwk` does not take from this form of the private one.
    pub(crate) x: Option<String>,
}

impl Signer {
    pub(crate) fn p256(id: &'static str) -> Self {
        let pair = rcgen::KeyPair::generate().unwrap();
        Self {
            key: EncodingKey::from_ec_der(&pair.serialize_der()),
            algorithm: Algorithm::ES256,
            id,
            x: None,
        }
    }

    pub(crate) fn ed25519(id: &'static str) -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let x = Some(URL_SAFE_NO_PAD.encode(pair.public_key_raw()));
        Self { key: EncodingKey::from_ed_der(&pair.serialize_der()), algorithm: Algorithm::EdDSA, id, x }
    }

    pub(crate) fn rsa(id: &'static str) -> Self {
        let pair = aws_lc_rs::rsa::PrivateDecryptingKey::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = pair.as_der().unwrap();
        Self {
            key: EncodingKey::from_rsa_der(&pkcs1(der.as_ref())),
            algorithm: Algorithm::RS256,
            id,
            x: None,
        }
    }

    pub(crate) fn jwk(&self) -> Value {
        if let Some(x) = &self.x {
            return json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": self.id });
        }
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.id.to_owned());
        serde_json::to_value(jwk).unwrap()
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(
            &json!({ "alg": name(self.algorithm), "kid": self.id }).to_string(),
            &claims.to_string(),
        )
    }

    pub(crate) fn sign_with(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.key, self.algorithm).unwrap();
        format!("{message}.{signature}")
    }
}

/// The key within a PKCS #8 structure: version, algorithm (15 bytes of content), an octet string.
fn pkcs1(pkcs8: &[u8]) -> Vec<u8> {
    let at = pkcs8.windows(4).skip(10).position(|window| window[..2] == [0x30, 0x82]).unwrap() + 10;
    pkcs8[at..].to_vec()
}

pub(crate) fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::HS256 => "HS256",
        Algorithm::RS256 => "RS256",
        Algorithm::ES256 => "ES256",
        _ => "EdDSA",
    }
}
