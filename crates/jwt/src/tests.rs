use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::*;
use crate::signer::Signer;

const SECRET: &[u8] = b"a secret of thirty-two bytes, or more";
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn set(keys: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

fn verifier(keys: &[Value]) -> Verifier {
    let verifier = Verifier::new(Settings::default(), None).unwrap();
    verifier.set_keys(set(keys));
    verifier
}

fn claims() -> Value {
    json!({ "exp": NOW.as_secs() + 60, "stream": ["live/*"], "actions": ["publish", "play"] })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn secret_token(claims: &Value) -> String {
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET).unwrap())
        .unwrap()
}

fn by_secret(settings: Settings) -> Verifier {
    Verifier::new(settings, Some(SECRET)).unwrap()
}

#[test]
fn every_supported_algorithm_lets_its_bearer_in() {
    let signers = [Signer::p256("a"), Signer::ed25519("b"), Signer::rsa("c")];
    let verifier = verifier(&signers.each_ref().map(Signer::jwk));
    for signer in &signers {
        let grant = verifier.verify(&signer.sign(&claims()), NOW).unwrap();
        assert_eq!(grant.allows(Action::Publish, |pattern| pattern == "live/*"), Ok(()));
        assert_eq!(grant.allows(Action::Play, |_| false), Err(Refused::Stream));
        assert_eq!(grant.allows(Action::Manage, |_| true), Err(Refused::Action));
        assert_eq!(grant.until(), NOW + Duration::from_secs(60));
    }
    assert!(by_secret(Settings::default()).verify(&secret_token(&claims()), NOW).is_ok());
}

#[test]
fn a_key_opens_nothing_for_another_algorithm() {
    let rsa = Signer::rsa("a");
    let public = rsa.jwk();
    let verifier = verifier(&[public.clone(), json!({ "kty": "oct", "k": URL_SAFE_NO_PAD.encode(SECRET) })]);
    // A public key as the secret of an HMAC, in the forms in which it is known.
    for secret in [public.to_string().into_bytes(), public["n"].as_str().unwrap().into(), SECRET.to_vec()] {
        let key = EncodingKey::from_secret(&secret).unwrap();
        let forged = Signer { key, algorithm: Algorithm::HS256, id: "a", x: None };
        assert_eq!(verifier.verify(&forged.sign(&claims()), NOW), Err(Refused::Algorithm));
    }
    // The set's secret is no secret.
    assert_eq!(verifier.verify(&secret_token(&claims()), NOW), Err(Refused::Algorithm));
    // Another's key under the same id.
    assert_eq!(verifier.verify(&Signer::rsa("a").sign(&claims()), NOW), Err(Refused::Signature));
    assert_eq!(verifier.verify(&Signer::p256("a").sign(&claims()), NOW), Err(Refused::UnknownKey));
}

#[test]
fn tokens_without_a_signature_are_refused() {
    let signer = Signer::p256("a");
    let verifier = verifier(&[signer.jwk()]);
    let body = URL_SAFE_NO_PAD.encode(claims().to_string());
    for name in ["none", "None", "nOnE", "", "HS512", "PS256", "ES384", "es256"] {
        let header = URL_SAFE_NO_PAD.encode(json!({ "alg": name, "kid": "a" }).to_string());
        assert_eq!(verifier.verify(&format!("{header}.{body}."), NOW), Err(Refused::Algorithm), "{name}");
    }
    // r and s of zero, which some libraries took for a signature of anything.
    let header = URL_SAFE_NO_PAD.encode(json!({ "alg": "ES256", "kid": "a" }).to_string());
    for signature in [vec![0; 64], vec![], vec![0; 63], vec![0xff; 64]] {
        let token = format!("{header}.{body}.{}", URL_SAFE_NO_PAD.encode(signature));
        assert_eq!(verifier.verify(&token, NOW), Err(Refused::Signature));
    }
}

#[test]
fn what_a_header_says_of_its_key_is_an_id_and_no_more() {
    let (signer, stranger) = (Signer::p256("a"), Signer::p256("b"));
    let verifier = verifier(&[signer.jwk()]);
    let own = [
        json!({ "alg": "ES256", "jwk": stranger.jwk() }),
        json!({ "alg": "ES256", "kid": "a", "jwk": stranger.jwk() }),
        json!({ "alg": "ES256", "kid": "a", "jku": "http://127.0.0.1/keys", "x5u": "http://127.0.0.1/" }),
    ];
    for header in own {
        let token = stranger.sign_with(&header.to_string(), &claims().to_string());
        assert_eq!(verifier.verify(&token, NOW), Err(Refused::Signature), "{header}");
    }
    for id in ["../../../dev/null", "a' OR '1'='1", "", "A"] {
        let header = json!({ "alg": "ES256", "kid": id }).to_string();
        let token = signer.sign_with(&header, &claims().to_string());
        assert_eq!(verifier.verify(&token, NOW), Err(Refused::UnknownKey), "{id}");
    }
    assert_eq!(verifier.unknown_keys(), 4);
    let header = json!({ "alg": "ES256", "kid": ["a"] }).to_string();
    assert_eq!(verifier.verify(&signer.sign_with(&header, "{}"), NOW), Err(Refused::Malformed));
    let header = json!({ "alg": "ES256", "kid": "a", "crit": ["b64"], "b64": false }).to_string();
    let token = signer.sign_with(&header, &claims().to_string());
    assert_eq!(verifier.verify(&token, NOW), Err(Refused::Critical));
    // Without an id, keys of the algorithm are tried.
    let token = signer.sign_with(r#"{"alg":"ES256"}"#, &claims().to_string());
    assert!(verifier.verify(&token, NOW).is_ok());
}

#[test]
fn a_name_that_is_there_twice_is_refused() {
    let signer = Signer::p256("a");
    let verifier = verifier(&[signer.jwk()]);
    let end = NOW.as_secs() + 60;
    let twice = format!(r#"{{"exp":1,"exp":{end},"stream":"live/*","actions":"play"}}"#);
    assert_eq!(
        verifier.verify(&signer.sign_with(r#"{"alg":"ES256"}"#, &twice), NOW),
        Err(Refused::Malformed)
    );
    let header = r#"{"alg":"none","alg":"ES256"}"#;
    let token = signer.sign_with(header, &claims().to_string());
    assert_eq!(verifier.verify(&token, NOW), Err(Refused::Malformed));
}

#[test]
fn what_is_not_a_token_is_malformed() {
    let signer = Signer::p256("a");
    let verifier = verifier(&[signer.jwk()]);
    let token = signer.sign(&claims());
    let parts: Vec<&str> = token.split('.').collect();
    let strange = [
        String::new(),
        "..".to_owned(),
        "a.b.c".to_owned(),
        format!("{}.{}", parts[0], parts[1]),
        format!("{token}.{}", parts[2]),
        format!(" {token}"),
        format!("{}=.{}.{}", parts[0], parts[1], parts[2]),
        "a".repeat(TOKEN_BYTES_MAX + 1),
        signer.sign(&with("filler", json!("x".repeat(TOKEN_BYTES_MAX)))),
        signer.sign_with(r#"{"alg":"ES256"}"#, "[1]"),
        signer.sign_with(r#"{"alg":"ES256"}"#, "not json"),
        signer.sign_with(r#"["ES256"]"#, "{}"),
    ];
    for token in &strange {
        let refused = verifier.verify(token, NOW);
        let is_right = matches!(refused, Err(Refused::Malformed | Refused::Signature));
        assert!(is_right, "{token:.60}: {refused:?}");
    }
    // A bit of each part changed.
    for at in [parts[0].len() + 3, token.len() - 4] {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let refused = verifier.verify(std::str::from_utf8(&changed).unwrap(), NOW);
        assert_eq!(refused, Err(Refused::Signature));
    }
}

#[test]
fn time_counts_with_the_leeway_and_a_token_has_to_end() {
    let verifier = by_secret(Settings { leeway: Duration::from_secs(5), ..Settings::default() });
    let verify = |claims: Value| verifier.verify(&secret_token(&claims), NOW).map(|_| ());
    let now = NOW.as_secs();
    assert_eq!(verify(json!({ "stream": "*", "actions": "play" })), Err(Refused::WithoutEnd));
    assert_eq!(verify(with("exp", json!(now - 6))), Err(Refused::Ended));
    assert_eq!(verify(with("exp", json!(now - 5))), Err(Refused::Ended));
    assert_eq!(verify(with("exp", json!(now - 4))), Ok(()));
    assert_eq!(verify(with("exp", json!(now as f64 + 0.5))), Ok(()));
    assert_eq!(verify(with("exp", json!(1e300))), Ok(()));
    assert_eq!(verify(with("exp", json!(-1))), Err(Refused::Ended));
    for strange in [json!(null), json!("1900000000"), json!([now + 9]), json!({})] {
        assert_eq!(verify(with("exp", strange)), Err(Refused::Malformed));
    }
    assert_eq!(verify(with("nbf", json!(now + 5))), Ok(()));
    assert_eq!(verify(with("nbf", json!(now + 6))), Err(Refused::NotYet));
    assert_eq!(verify(with("nbf", json!("soon"))), Err(Refused::Malformed));
    // One that is remembered ends as well.
    let token = secret_token(&claims());
    assert!(verifier.verify(&token, NOW).is_ok());
    assert_eq!(verifier.verify(&token, NOW + Duration::from_secs(65)), Err(Refused::Ended));
}

#[test]
fn issuer_and_audience_are_required_where_they_are_configured() {
    let (issuer, audience) = (Some("https://id.example".to_owned()), Some("millstream".to_owned()));
    let verifier = by_secret(Settings { issuer, audience, ..Settings::default() });
    let verify = |issuer: Value, audience: Value| {
        let mut claims = claims();
        claims["iss"] = issuer;
        claims["aud"] = audience;
        verifier.verify(&secret_token(&claims), NOW).map(|_| ())
    };
    let (ours, us) = (json!("https://id.example"), json!("millstream"));
    assert_eq!(verify(ours.clone(), us.clone()), Ok(()));
    assert_eq!(verify(ours.clone(), json!(["other", "millstream"])), Ok(()));
    assert_eq!(verify(json!("https://id.example/"), us.clone()), Err(Refused::Issuer));
    assert_eq!(verify(json!(["https://id.example"]), us.clone()), Err(Refused::Malformed));
    assert_eq!(verify(ours.clone(), json!("other")), Err(Refused::Audience));
    assert_eq!(verify(ours.clone(), json!([])), Err(Refused::Audience));
    assert_eq!(verify(ours, json!({ "millstream": 1 })), Err(Refused::Malformed));
    assert_eq!(verifier.verify(&secret_token(&claims()), NOW).map(|_| ()), Err(Refused::Issuer));
    // A token for somebody is not for everybody.
    let unnamed = by_secret(Settings::default());
    assert_eq!(unnamed.verify(&secret_token(&with("aud", us)), NOW).map(|_| ()), Err(Refused::Audience));
}

#[test]
fn claims_have_the_names_that_are_configured() {
    let settings =
        Settings { stream_claim: "room".into(), actions_claim: "scope".into(), ..Settings::default() };
    let verifier = by_secret(settings);
    let claims = json!({ "exp": NOW.as_secs() + 9, "room": "live/a", "scope": "openid play unknown" });
    let grant = verifier.verify(&secret_token(&claims), NOW).unwrap();
    assert_eq!(grant.allows(Action::Play, |pattern| pattern == "live/a"), Ok(()));
    assert_eq!(grant.allows(Action::Publish, |_| true), Err(Refused::Action));
    // None of them: nothing is allowed.
    let grant = verifier.verify(&secret_token(&json!({ "exp": NOW.as_secs() + 9 })), NOW).unwrap();
    assert_eq!(grant.allows(Action::Play, |_| true), Err(Refused::Action));
    let claims = json!({ "exp": NOW.as_secs() + 9, "scope": ["play", "manage"] });
    let grant = verifier.verify(&secret_token(&claims), NOW).unwrap();
    assert_eq!(grant.allows(Action::Play, |_| true), Err(Refused::Stream));
    assert_eq!(grant.allows(Action::Manage, |_| false), Ok(()));
    let many = vec!["live/*"; 65];
    let claims = json!({ "exp": NOW.as_secs() + 9, "room": many, "scope": "play" });
    assert_eq!(verifier.verify(&secret_token(&claims), NOW), Err(Refused::Malformed));
}

#[test]
fn keys_are_replaced_while_they_are_used() {
    let (first, second) = (Signer::p256("1"), Signer::ed25519("2"));
    let verifier = verifier(&[first.jwk()]);
    let (by_first, by_second) = (first.sign(&claims()), second.sign(&claims()));
    assert!(verifier.verify(&by_first, NOW).is_ok());
    assert_eq!(verifier.verify(&by_second, NOW), Err(Refused::UnknownKey));
    verifier.set_keys(set(&[first.jwk(), second.jwk()]));
    assert!(verifier.verify(&by_first, NOW).is_ok() && verifier.verify(&by_second, NOW).is_ok());
    // A key that has gone opens nothing, nor does what it signed and was remembered.
    verifier.set_keys(set(&[second.jwk()]));
    assert_eq!(verifier.verify(&by_first, NOW), Err(Refused::UnknownKey));
}

#[test]
fn a_key_set_says_what_is_wrong_with_it() {
    let signer = Signer::p256("a");
    let changed = |name: &str, value: Value| {
        let mut jwk = signer.jwk();
        jwk[name] = value;
        jwk
    };
    let unusable = [
        json!({ "kty": "oct", "k": "c2VjcmV0" }),
        json!({ "kty": "EC", "crv": "P-384", "x": "AA", "y": "AA" }),
        json!({ "kty": "something" }),
        json!(7),
        changed("use", json!("enc")),
        changed("key_ops", json!(["sign"])),
        changed("alg", json!("ES384")),
    ];
    for key in unusable {
        let json = json!({ "keys": [key] }).to_string();
        assert_eq!(KeySet::parse(json.as_bytes()).err(), Some(KeyError::NoKey), "{json}");
    }
    let some = set(&[json!({ "kty": "oct", "k": "c2VjcmV0" }), changed("use", json!("sig"))]);
    assert_eq!((some.len(), some.left_out()), (1, 1));
    for json in ["", "[]", "{}", "<html>", r#"{"keys":{}}"#] {
        assert!(matches!(KeySet::parse(json.as_bytes()), Err(KeyError::NotASet(_))), "{json}");
    }
    assert!(matches!(KeySet::parse(&vec![b' '; 300 << 10]), Err(KeyError::NotASet(_))));
    assert_eq!(Verifier::new(Settings::default(), Some(b"short")).err(), Some(KeyError::ShortSecret));
}
