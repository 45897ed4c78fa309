//! Orders at authorities that break the protocol. Well-behaved ones: scripts/test-interop-acme.

use super::*;
use crate::test_server;

const NAME: &str = "a.test";

/// An answer with a nonce. `head` are further lines.
fn json(status: u16, head: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\nreplay-nonce: nonce\r\nconnection: close\r\n{head}content-length: \
         {length}\r\n\r\n{body}"
    )
}

/// What an authority answers until the order, and `authorization` then.
fn until_order(line: &str, base: &str, authorization: &str) -> String {
    match line.split(' ').nth(1).unwrap_or_default() {
        "/dir" => {
            let url = |name: &str| format!("\"{name}\": \"{base}/{name}\"");
            json(200, "", &format!("{{{}, {}, {}}}", url("newNonce"), url("newAccount"), url("newOrder")))
        }
        "/newNonce" => json(200, "", ""),
        "/newAccount" => json(201, &format!("location: {base}/account\r\n"), "{\"status\": \"valid\"}"),
        "/newOrder" => {
            let order = format!(
                "{{\"status\": \"pending\", \"authorizations\": [\"{base}/authorization\"], \"finalize\": \
                 \"{base}/finalize\"}}"
            );
            json(201, &format!("location: {base}/order\r\n"), &order)
        }
        "/authorization" => json(200, "", authorization),
        _ => json(200, "", "{}"),
    }
}

async fn order(answer: impl Fn(&str, &str) -> String + Send + 'static) -> (Failure, AcmeAuthority) {
    let (base, pem) = test_server::start(answer).await;
    let directory = tempfile::tempdir().expect("a directory");
    let settings = Arc::new(AcmeSettings {
        orders: Vec::new(),
        contact: Vec::new(),
        directory: format!("{base}/dir"),
        challenge: ChallengeKind::Http,
        state_directory: directory.path().join("state"),
        external_account: None,
        extra_roots_pem: pem.into_bytes(),
        renew_before: None,
    });
    let storage = Arc::new(Storage::new(&settings));
    let made = AcmeAuthority::new(settings, storage, Arc::default());
    let mut authority = made.expect("right settings");
    let failure = authority.issue(&[NAME.to_owned()], None).await.expect_err("no certificate");
    (failure, authority)
}

fn authorization(name: &str, status: &str, kind: &str) -> String {
    let challenge = serde_json::json!({
        "type": kind, "url": "https://localhost/c", "status": "pending", "token": "token",
    });
    let identifier = serde_json::json!({ "type": "dns", "value": name });
    let all = serde_json::json!({ "identifier": identifier, "status": status, "challenges": [challenge] });
    all.to_string()
}

#[tokio::test]
async fn authorities_that_ask_for_something_else_get_no_answer() {
    let cases = [
        (authorization("other.test", "pending", "http-01"), Cause::BadAnswer, "which was not ordered"),
        (authorization(NAME, "pending", "dns-01"), Cause::Challenge, "does not offer the challenge"),
        (authorization(NAME, "revoked", "http-01"), Cause::Challenge, "is Revoked"),
        ("<html>".to_owned(), Cause::BadAnswer, "makes no sense"),
        ("[".repeat(100_000), Cause::BadAnswer, "makes no sense"),
    ];
    for (text, cause, expected) in cases {
        let shown = text.chars().take(80).collect::<String>();
        let (failure, authority) = order(move |line, base| until_order(line, base, &text)).await;
        assert_eq!(failure.cause, cause, "{shown}: {}", failure.message);
        assert!(failure.message.contains(expected), "{shown}: {}", failure.message);
        assert_eq!(authority.store.challenges.http_answer("token"), None);
    }
}

#[tokio::test]
async fn refusals_say_their_cause_and_when_to_come_again() {
    let cases = [
        ("rateLimited", Cause::RateLimited),
        ("rejectedIdentifier", Cause::Refused),
        ("caa", Cause::Challenge),
        ("userActionRequired", Cause::Refused),
        ("somethingNew", Cause::Refused),
    ];
    for (kind, cause) in cases {
        let (failure, _) = order(move |line, base| match line.contains("/newOrder") {
            true => {
                let kind = format!("urn:ietf:params:acme:error:{kind}");
                let body = format!("{{\"type\": \"{kind}\", \"detail\": \"why\\u001b[31m\"}}");
                json(429, "retry-after: 900\r\n", &body)
            }
            false => until_order(line, base, ""),
        })
        .await;
        let expected = (cause, Some(Duration::from_secs(900)));
        assert_eq!((failure.cause, failure.retry_after), expected, "{kind}");
        assert!(failure.message.contains("why [31m"), "nothing for terminals: {}", failure.message);
    }
}

#[tokio::test]
async fn addresses_that_are_none_end_an_order_and_not_the_server() {
    for directory in [
        "{\"newNonce\": \"% %\", \"newAccount\": \"https://h/a\", \"newOrder\": \"https://h/o\"}",
        "{\"newNonce\": \"https://h/n\", \"newAccount\": \"ftp://h/a\", \"newOrder\": \"https://h/o\"}",
        "{\"newNonce\": \"\", \"newAccount\": \"\", \"newOrder\": \"\"}",
        "{\"newNonce\": 7}",
        "[]",
    ] {
        let (failure, _) = order(move |_, _| json(200, "", directory)).await;
        assert_eq!(failure.cause, Cause::BadAnswer, "{directory}: {}", failure.message);
    }
}
