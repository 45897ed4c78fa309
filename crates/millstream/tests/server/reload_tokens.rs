//! Signed tokens over a reload: keys that are in use stay unless something about them has changed, and new
//! ones must be there before they count.

use std::fs;

use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::common::eventually;
use crate::common::http;
use crate::common::key_server::KeyServer;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

fn reload(server: &Server, config: &str) -> (u16, String) {
    fs::write(server.dir.path().join("millstream.toml"), config).expect("written");
    let answer = http::request(server.http, "POST", "/api/v1/config/reload", &[]).expect("an answer");
    (answer.status, answer.text())
}

fn may_publish(server: &Server, token: &str) -> bool {
    RtmpClient::begin_publish(server.rtmp, &format!("live/mill?token={token}")).wait_started().is_ok()
}

/// What tokens for `live/*` say.
fn claims() -> Value {
    let until = worker_api::time::since_1970().as_secs() + 600;
    json!({ "exp": until, "stream": "live/*", "actions": "publish" })
}

/// The configuration of a server that asks this one for its keys.
fn config(keys: &KeyServer, more: &str) -> String {
    format!("{LOCAL}[auth]\nmanage = 'loopback'\njwks_url = 'http://{}/keys'\n{more}", keys.address)
}

const LOCAL: &str = "[sources]\nallow_private_addresses = true\n";

#[test]
fn keys_from_a_server_stay_and_new_ones_must_be_there_first() {
    let (first, second) = (KeyServer::start(), KeyServer::start());
    let server = Server::spawn(&config(&first, ""));
    eventually("the keys are known", || may_publish(&server, &first.token(&claims())).then_some(()));
    // Their server answers no more.
    let (status, text) = reload(&server, &config(&first, "[limits]\nsessions_per_worker = 5000\n"));
    assert!(status == 200 && text.contains("limits.sessions_per_worker"), "{text}");
    assert!(may_publish(&server, &first.token(&claims())), "the same keys");
    let (status, text) = reload(&server, &config(&first, "jwks_refresh_seconds = 60\n"));
    assert!(status == 409 && text.contains("toml:5: `auth.jwks_url`: the keys of signed tokens"), "{text}");
    assert!(may_publish(&server, &first.token(&claims())), "nothing has changed");
    let (status, text) = reload(&server, &config(&second, ""));
    assert!(status == 200 && text.contains("auth.jwks_url"), "{text}");
    assert!(may_publish(&server, &second.token(&claims())), "at once");
    assert!(!may_publish(&server, &first.token(&claims())));
}

#[test]
fn another_secret_counts_at_once() {
    let secret = |number: u32| format!("secret number {number} of the tests of reloads");
    let config = |number: u32| format!("[auth]\nmanage = 'loopback'\njwt_secret = '{}'\n", secret(number));
    let key = |number| EncodingKey::from_secret(secret(number).as_bytes()).expect("a secret");
    let token = |number| encode(&Header::default(), &claims(), &key(number)).expect("a token");
    let server = Server::spawn(&config(1));
    assert!(may_publish(&server, &token(1)) && !may_publish(&server, &token(2)));
    let (status, text) = reload(&server, &config(2));
    assert!(status == 200 && text.contains("auth.jwt_secret") && !text.contains(&secret(2)), "{text}");
    assert!(may_publish(&server, &token(2)) && !may_publish(&server, &token(1)));
    assert_eq!(reload(&server, "[auth]\nmanage = 'loopback'\n").0, 200);
    assert!(may_publish(&server, "none"), "this machine needs no token any more");
}
