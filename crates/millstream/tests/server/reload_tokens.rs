//! Signed tokens over a reload: keys that are in use stay unless something about them has changed, and new
//! ones must be there before they count.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use crate::common::eventually;
use crate::common::http;
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

/// A token for `live/*`.
fn sign(header: &Header, key: &EncodingKey) -> String {
    let until = worker_api::time::since_1970().as_secs() + 600;
    encode(header, &json!({ "exp": until, "stream": "live/*", "actions": "publish" }), key).expect("a token")
}

/// One who signs, and whose key a server has that answers a single request.
struct Signer {
    key: EncodingKey,
    address: SocketAddr,
    _serve: JoinHandle<()>,
}

impl Signer {
    fn start() -> Self {
        let pair = rcgen::KeyPair::generate().expect("a key");
        let key = EncodingKey::from_ec_der(&pair.serialize_der());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("a public key");
        jwk.common.key_id = Some("first".to_owned());
        let set = json!({ "keys": [jwk] }).to_string();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let serve = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a request");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).expect("a request");
                request.push(byte[0]);
            }
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", set.len());
            socket.write_all((head + &set).as_bytes()).expect("sent");
        });
        Self { key, address, _serve: serve }
    }

    fn token(&self) -> String {
        sign(&Header { kid: Some("first".to_owned()), ..Header::new(Algorithm::ES256) }, &self.key)
    }

    fn config(&self, more: &str) -> String {
        let address = self.address;
        format!("{LOCAL}[auth]\nmanage = 'loopback'\njwks_url = 'http://{address}/keys'\n{more}")
    }
}

const LOCAL: &str = "[sources]\nallow_private_addresses = true\n";

#[test]
fn keys_from_a_server_stay_and_new_ones_must_be_there_first() {
    let (first, second) = (Signer::start(), Signer::start());
    let server = Server::spawn(&first.config(""));
    eventually("the keys are known", || may_publish(&server, &first.token()).then_some(()));
    // Their server answers no more.
    let (status, text) = reload(&server, &first.config("[limits]\nsessions_per_worker = 5000\n"));
    assert!(status == 200 && text.contains("limits.sessions_per_worker"), "{text}");
    assert!(may_publish(&server, &first.token()), "the same keys");
    let (status, text) = reload(&server, &first.config("jwks_refresh_seconds = 60\n"));
    assert!(status == 409 && text.contains("toml:5: `auth.jwks_url`: the keys of signed tokens"), "{text}");
    assert!(may_publish(&server, &first.token()), "nothing has changed");
    let (status, text) = reload(&server, &second.config(""));
    assert!(status == 200 && text.contains("auth.jwks_url"), "{text}");
    assert!(may_publish(&server, &second.token()), "at once");
    assert!(!may_publish(&server, &first.token()));
}

#[test]
fn another_secret_counts_at_once() {
    let secret = |number: u32| format!("secret number {number} of the tests of reloads");
    let config = |number: u32| format!("[auth]\nmanage = 'loopback'\njwt_secret = '{}'\n", secret(number));
    let key = |number| EncodingKey::from_secret(secret(number).as_bytes()).expect("a secret");
    let token = |number| sign(&Header::default(), &key(number));
    let server = Server::spawn(&config(1));
    assert!(may_publish(&server, &token(1)) && !may_publish(&server, &token(2)));
    let (status, text) = reload(&server, &config(2));
    assert!(status == 200 && text.contains("auth.jwt_secret") && !text.contains(&secret(2)), "{text}");
    assert!(may_publish(&server, &token(2)) && !may_publish(&server, &token(1)));
    assert_eq!(reload(&server, "[auth]\nmanage = 'loopback'\n").0, 200);
    assert!(may_publish(&server, "none"), "this machine needs no token any more");
}
