//! TLS with a real server: HTTP/2 by ALPN, HTTP/1.1 without it, and certificates that are not to be
//! trusted.

use range_reader::error::{Permanent, SourceError};
use range_reader::http::{HttpConfig, HttpSource};
use range_reader::source::Source;

use crate::http::nginx::Nginx;
use crate::http::{ask, bytes_of, config, file, one, read_all, reader};

fn trusting(certificate: &rcgen::Certificate) -> HttpConfig {
    HttpConfig { extra_roots_pem: certificate.pem().into_bytes(), ..config() }
}

#[tokio::test]
async fn a_file_is_read_over_tls_by_either_protocol() {
    let file = file(3_000_000);
    for (theirs, ours) in [(true, true), (true, false), (false, true)] {
        let (nginx, certificate) = Nginx::start_tls(theirs, &[("file.bin", &file)]);
        let http = HttpConfig { http2: ours, ..trusting(&certificate) };
        let mut reader = reader(&nginx.url("/file.bin"), http.clone());
        assert!(read_all(&mut reader).await.unwrap() == file);
        assert!(reader.counters().connections <= 2, "{:?}", reader.counters());
        let mut source = HttpSource::new(&nginx.url("/file.bin"), http).unwrap();
        let mut response = source.open(one(1_000..2_000)).await.unwrap();
        assert_eq!(source.state().can_reset, theirs && ours);
        assert!(source.state().time_to_connect.is_some() && source.state().round_trip.is_some());
        assert_eq!(bytes_of(&mut response.body).await.unwrap(), &file[1_000..2_000]);
        let protocol = if theirs && ours { "HTTP/2.0" } else { "HTTP/1.1" };
        assert!(nginx.answered().lines().all(|line| line.contains(protocol)), "{}", nginx.answered());
    }
}

#[tokio::test]
async fn several_streams_come_from_a_real_server() {
    let file = file(3_000_000);
    let (nginx, certificate) = Nginx::start_tls(true, &[("file.bin", &file)]);
    let mut source = HttpSource::new(&nginx.url("/file.bin"), trusting(&certificate)).unwrap();
    drop(source.open(one(0..3_000_000)).await.unwrap());
    let opening: Vec<_> =
        (0..10).map(|index| ask(&mut source, index * 300_000..(index + 1) * 300_000)).collect();
    let mut responses = Vec::new();
    for open in opening {
        responses.push(open.await.unwrap());
    }
    for (index, response) in responses.iter_mut().enumerate() {
        assert!(bytes_of(&mut response.body).await.unwrap() == file[index * 300_000..(index + 1) * 300_000]);
    }
    assert_eq!((source.state().requests, source.state().connections), (11, 1));
}

#[tokio::test]
async fn a_certificate_that_does_not_fit_is_not_worth_another_try() {
    let (nginx, certificate) = Nginx::start_tls(true, &[("file.bin", b"bytes")]);
    // Signed by an unknown authority.
    let mut stranger = HttpSource::new(&nginx.url("/file.bin"), config()).unwrap();
    // For another name: 127.0.0.2 is the same server.
    let other = nginx.url("/file.bin").as_str().replace("127.0.0.1", "127.0.0.2").parse().unwrap();
    let mut misnamed = HttpSource::new(&other, trusting(&certificate)).unwrap();
    for source in [&mut stranger, &mut misnamed] {
        let error = source.open(one(0..1)).await.unwrap_err();
        assert!(matches!(error, SourceError::Permanent(Permanent::Setup(_))), "{error}");
    }
    let broken = HttpConfig {
        extra_roots_pem: b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec(),
        ..config()
    };
    let error = HttpSource::new(&nginx.url("/file.bin"), broken).unwrap().open(one(0..1)).await.unwrap_err();
    assert!(matches!(error, SourceError::Permanent(Permanent::Setup(_))), "{error}");
}
