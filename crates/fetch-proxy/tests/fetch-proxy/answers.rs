//! Methods, ranges, refusals and limits.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::mpsc;

use crate::origin::Origin;
use crate::{Running, args};

fn file() -> Vec<u8> {
    (0..3_000_000_u32).map(|at| (at / 7) as u8).collect()
}

#[test]
fn ranges_are_answered_as_http_says() {
    let (file, proxy) = (file(), Running::local(8));
    let origin = Origin::start(file.clone(), None);
    let target = format!("/{}", origin.url("/film.mp4?token=secret"));
    let total = file.len();
    // Field, status, first byte and end.
    let cases = [
        ("range: bytes=0-9", 206, 0..10),
        ("range: bytes=100-", 206, 100..total),
        ("range: bytes=-100", 206, total - 100..total),
        ("range: bytes=-9999999", 206, 0..total),
        ("range: bytes=2999999-9999999", 206, total - 1..total),
        ("x-none: 1", 200, 0..total),
        ("range: bytes=5-4", 200, 0..total), // no range at all (RFC 9110, 14.1.1)
        ("range: bytes=1-2,4-5", 200, 0..total), // several: as a server may
        ("range: lines=1-2", 200, 0..total),
        ("range: bytes=1-2\r\nif-range: \"1\"", 200, 0..total), // we have given no validator
    ];
    for (field, status, part) in cases {
        let (head, body) = proxy.ask("GET", &target, &[field]);
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{field}: {head}");
        assert!(body == file[part.clone()], "{field}: {} bytes", body.len());
        assert!(head.contains(&format!("content-length: {}\r\n", part.len())), "{field}: {head}");
        assert!(head.contains("accept-ranges: bytes\r\n"), "{field}: {head}");
        let range = format!("content-range: bytes {}-{}/{total}\r\n", part.start, part.end - 1);
        assert_eq!(head.contains(&range), status == 206, "{field}: {head}");
    }
    for field in ["range: bytes=3000000-", "range: bytes=-0", "range: bytes=99999999999999999999-"] {
        let (head, _) = proxy.ask("GET", &target, &[field]);
        assert!(head.starts_with("http/1.1 416 "), "{field}: {head}");
        assert!(head.contains(&format!("content-range: bytes */{total}\r\n")), "{field}: {head}");
    }
    let (head, body) = proxy.ask("HEAD", &target, &["range: bytes=0-9"]);
    assert!(head.starts_with("http/1.1 200 ") && body.is_empty(), "{head}");
    assert!(head.contains(&format!("content-length: {total}\r\n")), "{head}");

    let stats = String::from_utf8(proxy.ask("GET", "/stats", &[]).1).expect("JSON");
    assert!(stats.contains("/film.mp4\"") && !stats.contains("secret"), "{stats}");
    let report = proxy.stop();
    assert_eq!((report.files.len(), report.total.player_requests), (1, 14));
    assert_eq!(report.total.requests, origin.heads().len() as u64);
    println!("{} requests of a player, {} of the proxy", report.total.player_requests, report.total.requests);
    assert!(report.total.requests <= report.total.player_requests, "{:?}", report.total);
}

#[test]
fn an_empty_file_has_no_range() {
    let (proxy, origin) = (Running::local(8), Origin::start(Vec::new(), None));
    let target = format!("/{}", origin.url("/empty"));
    let (head, body) = proxy.ask("GET", &target, &[]);
    assert!(head.starts_with("http/1.1 200 ") && head.contains("content-length: 0\r\n"), "{head}");
    assert!(body.is_empty());
    assert!(proxy.ask("GET", &target, &["range: bytes=0-"]).0.starts_with("http/1.1 416 "));
}

#[test]
fn a_file_of_unknown_length_comes_whole() {
    let (file, proxy) = (file(), Running::local(8));
    let origin = Origin::start(file.clone(), None);
    let target = format!("/{}", origin.url("/unsaid"));
    let (head, body) = proxy.ask("GET", &target, &["range: bytes=100-"]);
    assert!(head.starts_with("http/1.1 200 ") && head.contains("accept-ranges: none\r\n"), "{head}");
    assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
    // In chunks, each behind its length.
    assert!(body.len() > file.len() && body.len() < file.len() + 20_000, "{}", body.len());
}

#[test]
fn errors_are_statuses_with_a_reason() {
    let (proxy, origin) = (Running::local(8), Origin::start(file(), None));
    let at = |path: &str| format!("/{}", origin.url(path));
    let cases = [
        ("GET", at("/missing"), "404", "the server answers 404"),
        ("GET", at("/forbidden"), "403", "the server answers 403"),
        ("GET", "/http://127.0.0.1:1/film".to_owned(), "504", "127.0.0.1:1: "),
        ("GET", "/film".to_owned(), "404", "no url here"),
        ("GET", "/ftp://127.0.0.1/film".to_owned(), "404", "no url here"),
        ("GET", "/http://a:b:c/".to_owned(), "400", "the url behind the slash"),
        ("POST", at("/film"), "405", "only get and head"),
    ];
    for (method, target, status, words) in cases {
        let (head, body) = proxy.ask(method, &target, &["content-length: 0"]);
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{target}: {head}");
        let body = String::from_utf8(body).expect("text").to_lowercase();
        assert!(body.contains(words), "{target}: {body}");
    }
    // Too late for a status: the answer breaks off.
    let (head, body) = proxy.ask("GET", &at("/short"), &[]);
    assert!(head.starts_with("http/1.1 200 ") && body.len() < 3_000_000, "{head} {}", body.len());
}

#[test]
fn pages_of_others_are_refused() {
    let (proxy, origin) = (Running::local(8), Origin::start(file(), None));
    let target = format!("/{}", origin.url("/film"));
    for field in ["host: evil.test:8090", "sec-fetch-site: cross-site"] {
        assert!(proxy.ask("GET", &target, &[field]).0.starts_with("http/1.1 403 "), "{field}");
    }
    assert!(origin.heads().is_empty());
}

#[test]
fn who_listens_for_others_fetches_from_public_addresses_only() {
    let origin = Origin::start(file(), None);
    let proxy = Running::start(args(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8));
    let port = proxy.address.port();
    let mut local = Running::local(1);
    local.address.set_port(port);
    for url in [origin.url("/film"), "http://169.254.169.254/latest".to_owned(), "http://[::1]/".to_owned()] {
        let (head, body) = local.ask("GET", &format!("/{url}"), &[]);
        assert!(head.starts_with("http/1.1 403 "), "{url}: {head}");
        assert!(String::from_utf8_lossy(&body).contains("no public address"), "{url}");
    }
    assert!(origin.heads().is_empty());
}

#[test]
fn files_are_bounded_and_unused_ones_make_room() {
    let (proxy, origin) = (Running::local(1), Origin::start(file(), None));
    let at = |path: &str| format!("/{}", origin.url(path));
    // A player that stops in the middle holds its file.
    let mut paused = TcpStream::connect(proxy.address).expect("it listens");
    write!(paused, "GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n", at("/one")).expect("it reads");
    let mut begun = [0; 1000];
    paused.read_exact(&mut begun).expect("an answer");
    let (head, body) = proxy.ask("GET", &at("/other"), &[]);
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    assert_eq!(String::from_utf8_lossy(&body), "1 files are being read, which is the limit\n");
    // Another request for the same file is served meanwhile.
    let (head, body) = proxy.ask("GET", &at("/one"), &["range: bytes=2000000-2000099"]);
    assert!(head.starts_with("http/1.1 206 ") && body == file()[2_000_000..2_000_100], "{head}");
    drop(paused);
    // It takes a moment until the proxy sees that the player has gone.
    let head = (0..).map(|_| proxy.ask("GET", &at("/other"), &["range: bytes=0-9"]).0);
    let mut refused = head.take_while(|head| !head.starts_with("http/1.1 206 "));
    assert!(refused.all(|head| head.starts_with("http/1.1 503 ")));
    let report = proxy.stop();
    assert_eq!(report.files.len(), 1);
    assert!(report.files[0].url.ends_with("/other") && report.total.player_requests >= 3, "{report:?}");
}

#[test]
fn players_of_one_file_at_once_get_their_bytes() {
    let (file, proxy) = (file(), Running::local(1));
    let origin = Origin::start(file.clone(), None);
    let target = format!("/{}", origin.url("/film"));
    let (results, done) = mpsc::channel();
    std::thread::scope(|scope| {
        for start in [0, 1_000_000, 2_500_000] {
            let (results, proxy, target) = (results.clone(), &proxy, &target);
            scope.spawn(move || {
                let body = proxy.ask("GET", target, &[&format!("range: bytes={start}-")]).1;
                results.send((start, body)).expect("the test waits");
            });
        }
    });
    for (start, body) in done.iter().take(3) {
        assert!(body == file[start..], "from {start}: {} bytes", body.len());
    }
    let report = proxy.stop();
    println!(
        "3 players at once: {} requests, {} bytes of {}",
        report.total.requests,
        report.total.bytes_received,
        file.len()
    );
    // The file once, and a few more when turns change.
    assert!(report.total.requests <= 15, "{:?}", report.total);
}
