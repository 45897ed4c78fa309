//! Proxies: whole URLs for `http`, tunnels for `https`, credentials for each.

use std::collections::HashMap;

use range_reader::error::{Permanent, SourceError};
use range_reader::http::{HttpConfig, HttpSource, Proxy};
use range_reader::source::Source;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

use crate::http::nginx::Nginx;
use crate::http::scripted::{Scripted, Step, answer, honest};
use crate::http::{config, file, one, read_all, reader};

fn through(scheme: &str, proxy: &str, http: HttpConfig) -> HttpConfig {
    let by_scheme = HashMap::from([(scheme.to_owned(), proxy.parse().unwrap())]);
    HttpConfig { proxy: Some(Proxy { by_scheme, except: Vec::new() }), ..http }
}

/// A proxy that opens tunnels if credentials are right.
struct Tunnels {
    address: std::net::SocketAddr,
    _tasks: JoinSet<()>,
}

impl Tunnels {
    /// `answer` comes before the bytes of the other side; without `200` in it the connection is
    /// closed.
    async fn start(answer: &'static str, target: Url) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let to = (target.host_str().unwrap().to_owned(), target.port().unwrap());
                connections.spawn(tunnel(stream, answer, to));
            }
        });
        Self { address, _tasks: tasks }
    }
}

async fn tunnel(mut client: TcpStream, answer: &str, (host, port): (String, u16)) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if client.read_buf(&mut head).await.unwrap() == 0 {
            return;
        }
    }
    let head = String::from_utf8(head).unwrap();
    assert!(
        head.starts_with(&format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n")),
        "{head}"
    );
    assert!(head.contains("\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n"), "{head}");
    client.write_all(answer.as_bytes()).await.unwrap();
    if answer.contains(" 200 ") {
        let mut server = TcpStream::connect((host, port)).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

#[tokio::test]
async fn a_proxy_is_asked_for_the_whole_url() {
    let file = file(300_000);
    let served = file.clone();
    let proxy = Scripted::start(move |asked| {
        assert_eq!(asked.target(), "http://example.com:8080/a?b=c");
        assert_eq!(asked.field("host"), Some("example.com:8080"));
        assert_eq!(asked.field("proxy-authorization"), Some("Basic dXNlcjpwYXNz"));
        assert_eq!(asked.field("authorization"), Some("Basic bWU6"));
        vec![Step::Send(honest(asked, &served, &[]))]
    })
    .await;
    let http = through("http", &format!("http://user:pass@{}", proxy.address), HttpConfig::default());
    let url = "http://me@example.com:8080/a?b=c#d".parse().unwrap();
    assert!(read_all(&mut reader(&url, http)).await.unwrap() == file);
}

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    let file = file(300_000);
    let (nginx, certificate) = Nginx::start_tls(true, &[("file.bin", &file)]);
    let url = nginx.url("/file.bin");
    let proxy = Tunnels::start("HTTP/1.1 200 Connection established\r\nvia: me\r\n\r\n", url.clone()).await;
    let http = HttpConfig { extra_roots_pem: certificate.pem().into_bytes(), ..config() };
    let http = through("all", &format!("http://user:pass@{}", proxy.address), http);
    assert!(read_all(&mut reader(&url, http)).await.unwrap() == file);
}

#[tokio::test]
async fn a_proxy_that_refuses_is_an_error() {
    let url: Url = "https://example.com:443/".parse().unwrap();
    for (says, is_transient) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", false),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", false),
        ("HTTP/1.1 502 Bad Gateway\r\n\r\n", true),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", false),
        ("HTTP/1.1 2", true),
        ("", true),
    ] {
        let answers = Scripted::start(move |asked| {
            assert_eq!(asked.line, "CONNECT example.com:443 HTTP/1.1");
            vec![Step::Send(says.into()), Step::Close]
        })
        .await;
        let http = through("https", &format!("http://{}", answers.address), HttpConfig::default());
        let error = HttpSource::new(&url, http).unwrap().open(one(0..1)).await.unwrap_err();
        assert_eq!(matches!(error, SourceError::Transient { .. }), is_transient, "{says:?}: {error}");
    }
    // Of a URL that the proxy is asked for itself, too.
    let plain = Scripted::start(|_| vec![Step::Send(answer("407 No", &[], b""))]).await;
    let http = through("http", &format!("http://{}", plain.address), HttpConfig::default());
    let url = "http://example.com/".parse().unwrap();
    let error = HttpSource::new(&url, http).unwrap().open(one(0..1)).await.unwrap_err();
    assert!(matches!(error, SourceError::Permanent(Permanent::Setup(_))), "{error}");
}

#[tokio::test]
async fn a_forbidden_host_is_not_asked_of_a_proxy() {
    let proxy = Scripted::start(|_| panic!("nobody may ask")).await;
    for url in ["http://127.0.0.1/", "https://localhost/", "http://[::ffff:10.0.0.1]/"] {
        let http = through("all", &format!("http://{}", proxy.address), HttpConfig::default());
        let error = HttpSource::new(&url.parse().unwrap(), http).unwrap().open(one(0..1)).await.unwrap_err();
        assert!(matches!(error, SourceError::Permanent(Permanent::NotPublic(_))), "{url}: {error}");
    }
}
