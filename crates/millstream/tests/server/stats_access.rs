//! Who may read live statistics: whoever may use the API, with a token by header, or by subprotocol
//! from a browser.

use crate::common::server::Server;
use crate::common::stats::{self, SUBPROTOCOL};
use serde_json::Value;

/// Header fields of a handshake.
type Fields<'a> = &'a [(&'a str, &'a str)];

/// `keeper` and `keepers` in base64url.
const KEEPER: &str = "bearer.a2VlcGVy";
const KEEPERS: &str = "bearer.a2VlcGVycw";

#[test]
fn a_token_is_shown_by_header_or_as_a_subprotocol() {
    let server = Server::start("[auth]\nmanage_token = 'keeper'\n");
    let both = format!("{SUBPROTOCOL}, {KEEPER}");
    let wrong = format!("{SUBPROTOCOL}, {KEEPERS}");
    let cases: [(Fields<'_>, Result<(), &str>); 9] = [
        (&[("Authorization", "Bearer keeper")], Ok(())),
        (&[("Sec-WebSocket-Protocol", &both)], Ok(())),
        (&[("Sec-WebSocket-Protocol", SUBPROTOCOL), ("Sec-WebSocket-Protocol", KEEPER)], Ok(())),
        (&[("Sec-WebSocket-Protocol", SUBPROTOCOL)], Err("token_missing")),
        (&[("Sec-WebSocket-Protocol", &wrong)], Err("token_wrong")),
        (&[("Sec-WebSocket-Protocol", "millstream.stats.v1, bearer.")], Err("token_wrong")),
        (&[("Sec-WebSocket-Protocol", "millstream.stats.v1, bearer.!")], Err("token_wrong")),
        (&[("Authorization", "Bearer other"), ("Sec-WebSocket-Protocol", &both)], Err("token_wrong")),
        (&[], Err("token_missing")),
    ];
    for (headers, expected) in cases {
        match (stats::try_open(&server, headers), expected) {
            (Ok(mut reader), Ok(())) => {
                let chosen = reader.response.headers().get("sec-websocket-protocol");
                assert!(chosen.is_none_or(|chosen| chosen == SUBPROTOCOL), "never the token: {chosen:?}");
                reader.next();
            }
            (Err((status, body)), Err(code)) => {
                assert_eq!((status, &body["error"]["code"]), (401, &Value::from(code)), "{headers:?}");
            }
            (result, _) => panic!("{headers:?}: {:?}", result.map(|_| ())),
        }
    }
    assert!(!server.log().contains("keeper"), "tokens are not logged");
}

#[test]
fn pages_of_other_sites_do_not_read_in_the_name_of_this_machine() {
    let server = Server::start("");
    let own = format!("http://{}", server.http);
    for (headers, allowed) in [
        (vec![("Origin", own.as_str())], true),
        (vec![("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin")], true),
        (vec![("Origin", "https://example.org")], false),
        (vec![("Origin", "null")], false),
        (vec![("Sec-Fetch-Site", "cross-site")], false),
        (vec![("X-Forwarded-For", "203.0.113.9")], false),
    ] {
        let opened = stats::try_open(&server, &headers);
        assert_eq!(opened.is_ok(), allowed, "{headers:?}");
        if let Err((status, body)) = opened {
            assert_eq!(status, 403, "{body}");
        }
    }
}
