//! A provider of identities: a key that signs tokens, and a server of its public half.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

/// Its server answers a single request.
pub(crate) struct KeyServer {
    pub(crate) address: SocketAddr,
    key: EncodingKey,
    request: Option<JoinHandle<String>>,
}

impl KeyServer {
    pub(crate) fn start() -> Self {
        let pair = rcgen::KeyPair::generate().expect("a key");
        let key = EncodingKey::from_ec_der(&pair.serialize_der());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("a public key");
        jwk.common.key_id = Some("first".to_owned());
        // A symmetric key in a set opens nothing.
        let set = json!({ "keys": [jwk, { "kty": "oct", "k": "c2VjcmV0" }] }).to_string();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let request = thread::spawn(move || {
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
            String::from_utf8(request).expect("text")
        });
        Self { address, key, request: Some(request) }
    }

    /// A token with these claims.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let header = Header { kid: Some("first".to_owned()), ..Header::new(Algorithm::ES256) };
        encode(&header, claims, &self.key).expect("a token")
    }

    /// The request, as soon as it has been answered.
    pub(crate) fn take_request(&mut self) -> String {
        self.request.take().expect("not taken yet").join().expect("served")
    }
}
