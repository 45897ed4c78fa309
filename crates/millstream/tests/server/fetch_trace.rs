//! `millstream fetch-trace`: what it reads, what it prints of that, and what it says when it cannot.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::server::{BINARY, ScratchDir, Server};
use serde_json::Value;

/// Reads with gaps between them, a step back, two that touch, and one that was read before.
const TRACE: &str = "offset,length\n0,48\n290000,8000\n48,7000\n60000,9000\n69000,1000\n130000,70\n0,20\n";
const TRACE_BYTES: u64 = 48 + 8000 + 7000 + 9000 + 1000 + 70 + 20;

#[test]
fn with_hints_and_without_the_bytes_are_those_of_the_reads_in_their_order() {
    let (dir, origin) = (ScratchDir::new(), Origin::start(None));
    let trace = written(&dir, "reads.csv", TRACE);
    let output = dir.path().join("read.bin").display().to_string();
    let mut expected = Vec::new();
    for line in TRACE.lines().skip(1) {
        let (offset, length) = line.split_once(',').expect("two numbers");
        let (offset, length): (usize, usize) = (offset.parse().expect("one"), length.parse().expect("two"));
        expected.extend_from_slice(&origin.file[offset..offset + length]);
    }
    let (url, mut sums) = (origin.url(), Vec::new());
    for hints in [&[][..], &["--hints"]] {
        let line = [&[url.as_str(), "--trace", &trace, "--output", &output], hints].concat();
        let report = report(&fetch(&line, &[]));
        assert_eq!(fs::read(&output).expect("it is written"), expected, "{hints:?}");
        assert_eq!((report["reads"].as_u64(), report["bytes"].as_u64()), (Some(7), Some(TRACE_BYTES)));
        let count = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report}"));
        assert_eq!(count("bytes_used"), TRACE_BYTES - 20, "bytes read twice count once: {report}");
        let parts = ["bytes_used", "bytes_skipped", "bytes_wasted"].map(count);
        assert_eq!(count("bytes_received"), parts.iter().sum::<u64>(), "{report}");
        assert_eq!(count("requests"), origin.requests().len() as u64, "{report}");
        assert_eq!(count("connections"), origin.connections(), "{report}");
        assert!(report["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{report}");
        sums.push(report["sha256"].clone());
        origin.forget();
    }
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0].as_str().map(str::len), Some(64));
}

#[test]
fn hints_save_requests_of_a_server_that_takes_several_ranges() {
    let (dir, origin) = (ScratchDir::new(), Origin::start(None));
    let lines: String = (0..60).fold(String::new(), |mut text, run| {
        writeln!(text, "{},300", run * 5000).expect("to memory");
        text
    });
    let trace = written(&dir, "reads.csv", &lines);
    let report = report(&fetch(&[&origin.url(), "--trace", &trace, "--hints"], &[]));
    assert!(report["requests"].as_u64() <= Some(3) && report["connections"].as_u64() == Some(1), "{report}");
    assert!(
        origin.requests().iter().any(|head| head.contains(",5000-5299,") || head.contains(", 5000-5299,"))
    );
}

#[test]
fn a_trace_that_makes_no_sense_is_refused_with_its_line_before_anything_is_asked() {
    let (dir, origin) = (ScratchDir::new(), Origin::start(None));
    let wrong = written(&dir, "wrong.csv", "offset,length\n0,48\n48;7000\n");
    let empty = written(&dir, "empty.csv", "offset,length\n");
    let missing = dir.path().join("missing.csv").display().to_string();
    let good = written(&dir, "good.csv", TRACE);
    let url = origin.url();
    let cases: [(&[&str], &str); 7] = [
        (&[&url, "--trace", &wrong], "wrong.csv: line 3: expected offset,length"),
        (&[&url, "--trace", &empty], "empty.csv: no read in it"),
        (&[&url, "--trace", &missing], "missing.csv: "),
        (&["not a url", "--trace", &good], "not a url: "),
        (&[&url, "--trace", &good, "--header", "no colon"], "--header: expected NAME: VALUE"),
        (&[&url, "--trace", &good, "--ca", &missing], "--ca "),
        (&[&url], "--trace"),
    ];
    for (line, expected) in cases {
        let output = fetch(line, &[]);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{line:?}: {error}");
        assert!(error.contains(expected), "{line:?}: {error}");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn what_is_read_is_not_written_over_under_any_name() {
    let (dir, origin) = (ScratchDir::new(), Origin::start(None));
    let trace = written(&dir, "reads.csv", TRACE);
    let authority = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let authority = written(&dir, "ca.pem", &authority.cert.pem());
    let [symbolic, hard] = ["symbolic", "hard"].map(|name| dir.path().join(name));
    std::os::unix::fs::symlink(&trace, &symbolic).expect("a link");
    fs::hard_link(&trace, &hard).expect("a link");
    let spelled = dir.path().join(".").join("reads.csv");
    let names = [spelled, symbolic, hard].map(|path| path.display().to_string());
    let before = [&trace, &authority].map(|path| fs::read(path).expect("it is there"));
    for output in names.iter().chain([&trace, &authority]) {
        let url = origin.url();
        let ran = fetch(&[&url, "--trace", &trace, "--ca", &authority, "--output", output], &[]);
        let error = text(&ran.stderr);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{output}: {error}");
        assert!(error.contains("--output") && error.contains("would be lost"), "{output}: {error}");
        assert_eq!([&trace, &authority].map(|path| fs::read(path).expect("it is there")), before, "{output}");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn what_cannot_be_read_is_named() {
    let (dir, origin) = (ScratchDir::new(), Origin::start(None));
    let beyond = written(&dir, "beyond.csv", "0,48\n299990,20\n");
    let output = fetch(&[&origin.url(), "--trace", &beyond], &[]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "read of 20 bytes at 299990 (line 2 of the trace): the file ends at 300000";
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    let behind = written(&dir, "behind.csv", "0,48\n400000,5\n");
    let output = fetch(&[&origin.url(), "--trace", &behind], &[]);
    let expected = "read of 5 bytes at 400000 (line 2 of the trace): the file ends at 300000";
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    let trace = written(&dir, "reads.csv", TRACE);
    let gone = origin.url().replace("file.bin", "gone?signature=secret").replace("://", "://user:secret@");
    let output = fetch(&[&gone, "--trace", &trace], &[]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{error}");
    assert!(error.contains("404") && !error.contains("secret"), "{error}");
    let folder = dir.path().display().to_string();
    let output = fetch(&[&origin.url(), "--trace", &trace, "--output", &folder], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--output"), "{}", text(&output.stderr));
}

#[test]
fn header_fields_are_sent_with_each_request() {
    let (dir, origin) = (ScratchDir::new(), Origin::start(Some("authorization: Bearer key")));
    let trace = written(&dir, "reads.csv", TRACE);
    let output = fetch(&[&origin.url(), "--trace", &trace], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("403"), "{}", text(&output.stderr));
    origin.forget();
    let fields = ["--header", "Authorization: Bearer key", "--header", "x-second: 2"];
    let url = origin.url();
    report(&fetch(&[&[url.as_str(), "--trace", &trace], &fields[..]].concat(), &[]));
    let requests = origin.requests();
    assert!(!requests.is_empty());
    for head in requests {
        assert!(head.contains("x-second: 2\r\n") && head.contains("user-agent: millstream/"), "{head}");
    }
}

#[test]
fn proxies_are_those_of_the_environment() {
    let (dir, proxy) = (ScratchDir::new(), Origin::start(None));
    let trace = written(&dir, "reads.csv", TRACE);
    // No name that resolves: whoever answers is the proxy.
    let url = "http://nowhere.invalid/file.bin";
    let variables = [("http_proxy", format!("http://{}", proxy.address))];
    report(&fetch(&[url, "--trace", &trace], &variables));
    let requests = proxy.requests();
    assert!(!requests.is_empty());
    assert!(
        requests.iter().all(|head| head.starts_with("GET http://nowhere.invalid/file.bin ")),
        "{requests:?}"
    );
}

#[test]
fn a_certificate_is_trusted_when_its_authority_was_named() {
    let dir = ScratchDir::new();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let certificate = written(&dir, "cert.pem", &made.cert.pem());
    let key = written(&dir, "key.pem", &made.signing_key.serialize_pem());
    let server = Server::start(&format!("[tls]\ncertificate = '{certificate}'\nkey = '{key}'\n"));
    // The page of the console: a file whose server answers 200 whatever range is asked.
    let url = format!("https://{}/", server.https.expect("an HTTPS address"));
    let trace = written(&dir, "reads.csv", "0,15\n20,5\n");
    let output = fetch(&[&url, "--trace", &trace], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("certificate"), "{}", text(&output.stderr));
    let report = report(&fetch(&[&url, "--trace", &trace, "--ca", &certificate], &[]));
    assert_eq!(report["bytes"].as_u64(), Some(20), "{report}");
}

/// Runs the command with an environment that has no proxies but those of `variables`.
fn fetch(arguments: &[&str], variables: &[(&str, String)]) -> Output {
    let mut command = Command::new(BINARY);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command.arg("fetch-trace").args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
    command.output().expect("it runs")
}

/// The one JSON object of a run that worked.
fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    serde_json::from_str(&printed).expect("JSON")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn written(dir: &ScratchDir, name: &str, content: &str) -> String {
    let path = dir.path().join(name);
    fs::write(&path, content).expect("written");
    path.display().to_string()
}

/// A server of one file, `/file.bin`, that takes ranges, one or several, and remembers the heads of requests.
struct Origin {
    address: SocketAddr,
    file: Arc<Vec<u8>>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    heads: Vec<String>,
    connections: u64,
}

impl Origin {
    /// Answers 403 to requests without the line `needed`. Its threads end with their connections,
    /// the first with the test.
    fn start(needed: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("an address");
        // Not periodic, so that bytes of another place are noticed.
        let file = (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let origin = Self { address, file: Arc::new(file), seen: Arc::default() };
        let (file, seen) = (origin.file.clone(), origin.seen.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                seen.lock().expect("no panic").connections += 1;
                let (file, seen) = (file.clone(), seen.clone());
                thread::spawn(move || serve(stream, needed, &file, &seen));
            }
        });
        origin
    }

    fn url(&self) -> String {
        format!("http://{}/file.bin", self.address)
    }

    /// Heads of the requests since the last `forget`.
    fn requests(&self) -> Vec<String> {
        self.seen.lock().expect("no panic").heads.clone()
    }

    fn connections(&self) -> u64 {
        self.seen.lock().expect("no panic").connections
    }

    fn forget(&self) {
        *self.seen.lock().expect("no panic") = Seen::default();
    }
}

/// Answers until the client closes.
fn serve(mut stream: TcpStream, needed: Option<&str>, file: &[u8], seen: &Mutex<Seen>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        seen.lock().expect("no panic").heads.push(head.clone());
        let answer = answer(&head, needed, file);
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn answer(head: &str, needed: Option<&str>, file: &[u8]) -> Vec<u8> {
    if needed.is_some_and(|needed| !head.lines().any(|line| line.eq_ignore_ascii_case(needed))) {
        return b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_vec();
    }
    if !head.lines().next().is_some_and(|line| line.contains("/file.bin ")) {
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec();
    }
    let place = |range: &Range<usize>| {
        format!("content-range: bytes {}-{}/{}", range.start, range.end - 1, file.len())
    };
    let (status, fields, body) = match ranges(head, file.len()).as_slice() {
        [] => ("200 OK", String::new(), file.to_vec()),
        [one] => ("206 Partial Content", format!("{}\r\n", place(one)), file[one.clone()].to_vec()),
        several => {
            let mut body = Vec::new();
            for range in several {
                body.extend_from_slice(format!("\r\n--cut\r\n{}\r\n\r\n", place(range)).as_bytes());
                body.extend_from_slice(&file[range.clone()]);
            }
            body.extend_from_slice(b"\r\n--cut--\r\n");
            ("206 Partial Content", "content-type: multipart/byteranges; boundary=cut\r\n".to_owned(), body)
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\netag: \"one\"\r\naccept-ranges: bytes\r\n{fields}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

/// The ranges that a request asks for.
fn ranges(head: &str, length: usize) -> Vec<Range<usize>> {
    let Some(list) = head.lines().find_map(|line| line.strip_prefix("range: bytes=")) else {
        return Vec::new();
    };
    let range = |text: &str| {
        let (first, last) = text.trim().split_once('-')?;
        let end = if last.is_empty() { length } else { last.parse::<usize>().ok()? + 1 };
        Some(first.parse().ok()?..end.min(length))
    };
    list.split(',').filter_map(range).collect()
}
