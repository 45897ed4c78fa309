//! Certificates: chosen by the name that a client asks for, and replaced while connections stay.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::json;
use worker_api::time::since_1970;

use crate::common::TIMEOUT;
use crate::common::eventually;
use crate::common::http;
use crate::common::server::{ScratchDir, Server};

/// A certificate and its key, PEM; and as clients see it.
struct Pair {
    chain: String,
    key: String,
    der: CertificateDer<'static>,
}

fn pair(name: &str, until: i32) -> Pair {
    let since_1970 = |year| (date_time_ymd(year, 1, 1) - date_time_ymd(1970, 1, 1)).unsigned_abs();
    pair_of(name, since_1970(2020), since_1970(until))
}

/// From one moment to another, since 1970.
fn pair_of(name: &str, from: Duration, until: Duration) -> Pair {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.not_before = date_time_ymd(1970, 1, 1) + from;
    params.not_after = date_time_ymd(1970, 1, 1) + until;
    let made = params.self_signed(&key).expect("a certificate");
    Pair { chain: made.pem(), key: key.serialize_pem(), der: made.der().clone() }
}

impl Pair {
    fn write(&self, dir: &Path, name: &str) {
        fs::write(dir.join(format!("{name}.key")), &self.key).expect("written");
        fs::write(dir.join(format!("{name}.pem")), &self.chain).expect("written");
    }
}

fn config(dir: &Path, names: &[&str], check_seconds: u32) -> String {
    let entry = |name: &str| {
        let file = |end: &str| dir.join(format!("{name}.{end}"));
        format!("certificate = {:?}\nkey = {:?}\n", file("pem"), file("key"))
    };
    let further = names[1..].iter().map(|name| format!("[[tls.certificates]]\n{}", entry(name)));
    let further: String = further.collect();
    format!("[tls]\ncheck_seconds = {check_seconds}\n{}{further}", entry(names[0]))
}

/// A connection that asks for `name`, and the certificate it got.
fn connect(
    address: SocketAddr,
    name: &str,
) -> (StreamOwned<ClientConnection, TcpStream>, CertificateDer<'static>) {
    let config = self_signed::accept_any(ClientConfig::builder()).with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a session");
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a socket option");
    let mut stream = StreamOwned::new(connection, socket);
    stream.conn.complete_io(&mut stream.sock).expect("a handshake");
    let shown = stream.conn.peer_certificates().expect("certificates")[0].clone().into_owned();
    (stream, shown)
}

fn shown(address: SocketAddr, name: &str) -> CertificateDer<'static> {
    connect(address, name).1
}

/// A request on a connection that stays.
fn health(stream: &mut StreamOwned<ClientConnection, TcpStream>) {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    while !answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") || !answer.ends_with(b"\n") {
        let mut bytes = [0; 512];
        let count = stream.read(&mut bytes).expect("an answer");
        assert!(count > 0, "the connection stays");
        answer.extend_from_slice(&bytes[..count]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

fn metrics(server: &Server) -> String {
    http::get(server.http, "/metrics").expect("metrics").text()
}

#[test]
fn a_client_gets_the_certificate_of_its_name_on_every_door() {
    let dir = ScratchDir::new();
    let (a, b) = (pair("a.example", 2040), pair("*.b.example", 2041));
    a.write(dir.path(), "a");
    b.write(dir.path(), "b");
    let server = Server::spawn(&config(dir.path(), &["a", "b"], 0));
    for address in [server.https, server.rtmps, server.rtsps].map(|address| address.expect("TLS")) {
        let cases = [("a.example", &a), ("x.b.example", &b), ("other.example", &a), ("10.0.0.1", &a)];
        for (name, expected) in cases {
            assert!(shown(address, name) == expected.der, "{name}");
        }
    }
    let metrics = metrics(&server);
    for line in [
        "millstream_certificate_expiry_seconds{index=\"0\",name=\"a.example\"} 2208988800",
        "millstream_certificate_expiry_seconds{index=\"1\",name=\"*.b.example\"} 2240611200",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[test]
fn certificates_that_were_ordered_are_used_at_once_while_the_authority_is_away() {
    let dir = ScratchDir::new();
    let kept = pair("a.example", 2040);
    // Nobody listens there.
    let account = dir.path().join("state/127.0.0.1_1_dir");
    fs::create_dir_all(&account).expect("a directory");
    fs::write(account.join("a.example.pem"), format!("{}{}", kept.key, kept.chain)).expect("written");
    let server = Server::spawn(&format!(
        "[acme]\ndomains = [\"a.example\", \"b.example\"]\naccept_terms = true\nstate_dir = {:?}\n\
         directory = \"https://127.0.0.1:1/dir\"\n",
        dir.path().join("state"),
    ));
    for address in [server.https, server.rtmps, server.rtsps].map(|address| address.expect("TLS")) {
        assert!(shown(address, "a.example") == kept.der);
        assert!(shown(address, "b.example") == kept.der, "the first for all others");
    }
    let failed = "millstream_acme_orders_total{result=\"unreachable\"} 1";
    eventually("the other order fails", || metrics(&server).contains(failed).then_some(()));
    let orders = server.api("/api/v1/certificates")["orders"].clone();
    let of = |index: usize| json!([orders[index]["failures"], orders[index]["not_after"]]);
    assert_eq!(of(0), json!([0, "2040-01-01T00:00:00Z"]));
    assert_eq!(of(1), json!([1, null]));
    let token = http::get(server.http, "/.well-known/acme-challenge/token").expect("an answer");
    assert_eq!(token.status, 404, "nothing is asked");
}

#[test]
fn changed_files_are_taken_up_while_connections_stay() {
    let dir = ScratchDir::new();
    let old = pair("a.example", 2040);
    old.write(dir.path(), "a");
    let server = Server::spawn(&config(dir.path(), &["a"], 1));
    let https = server.https.expect("HTTPS");
    let (mut stays, first) = connect(https, "a.example");
    assert!(first == old.der);
    health(&mut stays);

    // Half of it: the key of another one. Those in use stay, and that is said.
    let new = pair("a.example", 2042);
    fs::write(dir.path().join("a.key"), &new.key).expect("written");
    server.wait_for_counter("millstream_certificate_changes_total{result=\"refused\"}", 1);
    assert!(shown(https, "a.example") == old.der);
    fs::write(dir.path().join("a.pem"), &new.chain[..new.chain.len() / 2]).expect("written");
    server.wait_for_counter("millstream_certificate_changes_total{result=\"refused\"}", 2);
    fs::write(dir.path().join("a.pem"), &new.chain).expect("written");
    eventually("the new one is shown", || (shown(https, "a.example") == new.der).then_some(()));
    health(&mut stays);
    assert!(metrics(&server).contains("{index=\"0\",name=\"a.example\"} 2272147200"));

    // One that proves nothing, and none.
    pair("a.example", 2021).write(dir.path(), "a");
    eventually("it is refused", || server.log().contains("has expired").then_some(()));
    fs::remove_file(dir.path().join("a.pem")).expect("removed");
    let before = server.counter("millstream_certificate_changes_total{result=\"refused\"}");
    assert!(before >= 3);
    eventually("its absence is said", || server.log().contains("No such file").then_some(()));
    assert!(shown(https, "a.example") == new.der);
    health(&mut stays);
    let said = server.log().matches("No such file").count();
    let lines = server.log().matches("changed certificates cannot be used").count();
    assert!(said <= 2 && lines <= 5, "once for each change:\n{}", server.log());
}

#[test]
fn a_certificate_that_is_not_valid_yet_is_taken_when_it_is() {
    let dir = ScratchDir::new();
    pair("a.example", 2040).write(dir.path(), "a");
    let server = Server::spawn(&config(dir.path(), &["a"], 1));
    let from = since_1970() + Duration::from_secs(3);
    let new = pair_of("a.example", from, from + Duration::from_secs(30 * 86_400));
    new.write(dir.path(), "a");
    let https = server.https.expect("HTTPS");
    eventually("it is taken", || (shown(https, "a.example") == new.der).then_some(()));
    let said = server.log().matches("is not valid yet").count();
    assert!(said <= 1, "{said} times:\n{}", server.log());
}

#[test]
fn the_expiry_of_a_certificate_is_warned_of_before_and_after_it() {
    let dir = ScratchDir::new();
    let until = since_1970() + Duration::from_secs(4);
    pair_of("a.example", Duration::ZERO, until).write(dir.path(), "a");
    pair_of("b.example", Duration::ZERO, since_1970() + Duration::from_secs(6 * 86_400))
        .write(dir.path(), "b");
    // Files are not looked at, and there is a reload each time.
    let server = Server::spawn(&config(dir.path(), &["a", "b"], 0));
    let warned = |text: &str| server.log().lines().filter(|line| line.contains(text)).count();
    eventually("both are warned of at the start", || (warned("a certificate") >= 2).then_some(()));
    eventually("once more after it", || {
        let answer = http::request(server.http, "POST", "/api/v1/config/reload", &[]).expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        (warned("a certificate in use has expired") == 1).then_some(())
    });
    assert!(warned("a certificate expires soon") <= 2, "once for each:\n{}", server.log());
}

#[test]
fn a_reload_takes_other_files_and_refuses_those_that_do_not_fit() {
    let dir = ScratchDir::new();
    let (a, b) = (pair("a.example", 2040), pair("b.example", 2041));
    a.write(dir.path(), "a");
    b.write(dir.path(), "b");
    pair("b.example", 2021).write(dir.path(), "old");
    fs::write(dir.path().join("bad.pem"), &a.chain).expect("written");
    fs::write(dir.path().join("bad.key"), &b.key).expect("written");
    let server = Server::spawn(&config(dir.path(), &["a"], 0));
    let https = server.https.expect("HTTPS");
    let reload = |names: &[&str]| {
        fs::write(server.dir.path().join("millstream.toml"), config(dir.path(), names, 0)).expect("written");
        let answer = http::request(server.http, "POST", "/api/v1/config/reload", &[]).expect("an answer");
        (answer.status, answer.text())
    };
    let (status, text) = reload(&["a", "b"]);
    assert!(status == 200 && text.contains("\"changed\":[\"tls.certificates\"]"), "{text}");
    assert!(shown(https, "b.example") == b.der && shown(https, "a.example") == a.der);
    let cases =
        [("bad", "the key is not that of the certificate"), ("old", "has expired"), ("none", "No such file")];
    for (name, reason) in cases {
        let (status, text) = reload(&["a", name]);
        assert!(
            status == 409 && text.contains(reason) && text.contains("toml:5: `tls.certificates"),
            "{status} {text}"
        );
        assert!(shown(https, "b.example") == b.der, "{name} changes nothing");
    }
    // The default changes places, and by a signal.
    fs::write(server.dir.path().join("millstream.toml"), config(dir.path(), &["b", "a"], 0))
        .expect("written");
    server.signal(Signal::SIGHUP);
    eventually("the other is the default", || (shown(https, "x.example") == b.der).then_some(()));
}

#[test]
fn tls_cannot_be_turned_on_by_a_reload() {
    let dir = ScratchDir::new();
    pair("a.example", 2040).write(dir.path(), "a");
    let server = Server::spawn("");
    fs::write(server.dir.path().join("millstream.toml"), config(dir.path(), &["a"], 10)).expect("written");
    let answer = http::request(server.http, "POST", "/api/v1/config/reload", &[]).expect("an answer").json();
    assert_eq!(answer["changed"], serde_json::json!([]));
    assert_eq!(answer["needs_restart"], serde_json::json!(["tls.certificate", "tls.key"]));
}

#[test]
fn files_and_a_certificate_of_its_own_change_places_at_a_restart() {
    let dir = ScratchDir::new();
    let a = pair("a.example", 2040);
    a.write(dir.path(), "a");
    let server = Server::spawn(&config(dir.path(), &["a"], 0));
    let own = "[tls]\nself_signed = true\ncheck_seconds = 0\n";
    fs::write(server.dir.path().join("millstream.toml"), own).expect("written");
    let ask = || http::request(server.http, "POST", "/api/v1/config/reload", &[]).expect("an answer");
    let answer = ask().json();
    assert_eq!(answer["needs_restart"], serde_json::json!(["tls.certificate", "tls.key", "tls.self_signed"]));
    assert!(shown(server.https.expect("HTTPS"), "a.example") == a.der);
    // What is in use until then is gone: no mistake of the file that was written.
    fs::remove_file(dir.path().join("a.pem")).expect("removed");
    let answer = ask();
    assert!(
        answer.status == 409 && answer.text().contains("until a restart: `tls.cert"),
        "{}",
        answer.text()
    );
}

#[test]
fn the_self_signed_certificate_stays_over_a_reload() {
    let server = Server::spawn("[tls]\nself_signed = true\n");
    let https = server.https.expect("HTTPS");
    let before = shown(https, "localhost");
    let text = "[tls]\nself_signed = true\n[auth]\nplay_token = 'meadow'\n";
    fs::write(server.dir.path().join("millstream.toml"), text).expect("written");
    let answer = http::request(server.http, "POST", "/api/v1/config/reload", &[]).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(shown(https, "localhost") == before);
}
