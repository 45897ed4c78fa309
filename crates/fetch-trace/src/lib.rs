//! `millstream fetch-trace`: replays reads of a remote file and reports what they cost.
//!
//! Shows what the seeks of a program in files behind HTTP cost, or would cost with `range_reader`:
//! with `--hints` the reader gets all reads as hints, without it has to predict them. `trace` reads
//! the list, `replay` makes the reads. A person runs this command, so it may reach any address.

mod replay;
mod trace;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use http::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use range_reader::http::address::AddressPolicy;
use range_reader::http::{HttpConfig, Proxy};
use range_reader::{Counters, RangeReader, ReaderConfig};
use replay::{ReplayError, Replayed};
use serde::Serialize;
use trace::Wanted;
use url::Url;

/// Exit code when the reads could not be made.
const EXIT_FAILED: u8 = 1;
/// Exit code for invalid arguments, the same as clap's.
const EXIT_USAGE: u8 = 2;

/// Options of `millstream fetch-trace`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The file: http://... or https://...
    #[arg(value_name = "URL")]
    pub url: String,
    /// The reads: a line `offset,length` for each, in bytes; the first line may be a header.
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Pass all reads to the reader as hints.
    #[arg(long)]
    pub hints: bool,
    /// Write the bytes here, one read after the other; an existing file is overwritten.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Header field for each request, such as `authorization: Bearer ...`; may be given several times.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// PEM file of certificate authorities to trust besides the system's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Report {
    sha256: String,
    seconds: f64,
    reads: usize,
    bytes: u64,
    requests: u64,
    connections: u64,
    retries: u64,
    bytes_received: u64,
    bytes_used: u64,
    bytes_skipped: u64,
    bytes_wasted: u64,
}

/// Runs it. Errors go to standard error.
pub fn run(args: &Args) -> ExitCode {
    let prepared = prepare(args);
    let (url, http, reads) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return fail(error, EXIT_USAGE),
    };
    match fetch(args, &url, http, &reads) {
        Ok(report) => {
            let line = serde_json::to_string(&report).expect("numbers and a word are JSON");
            // A closed pipe (`| head`) is not an error.
            let _ = writeln!(io::stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(error) => fail(error, EXIT_FAILED),
    }
}

/// Checks everything that can be checked before the first request.
fn prepare(args: &Args) -> Result<(Url, HttpConfig, Vec<Wanted>), String> {
    let url = Url::parse(&args.url).map_err(|error| format!("{}: {error}", args.url))?;
    let http = http(&args.header, args.ca.as_deref())?;
    let trace = File::open(&args.trace).map_err(|error| cannot("--trace", &args.trace, error))?;
    let reads = trace::parse(BufReader::new(trace)).map_err(|error| cannot("--trace", &args.trace, error))?;
    if let Some(output) = &args.output {
        for (option, input) in [("--trace", Some(&args.trace)), ("--ca", args.ca.as_ref())] {
            if input.is_some_and(|input| is_same_file(input, output)) {
                return Err(cannot("--output", output, format!("the file of {option}, which would be lost")));
            }
        }
    }
    Ok((url, http, reads))
}

/// How servers are reached by a command that a person runs: any address, the proxies of the
/// environment, header fields given as `NAME: VALUE`, and certificate authorities from a file.
///
/// # Errors
/// What is wrong with `--header`, `--ca` or the environment.
pub fn http(header: &[String], ca: Option<&Path>) -> Result<HttpConfig, String> {
    let mut http = HttpConfig { addresses: AddressPolicy::Any, ..HttpConfig::default() };
    http.headers = headers(header)?;
    http.proxy = Proxy::from_environment().map_err(|error| error.to_string())?;
    if let Some(path) = ca {
        http.extra_roots_pem = std::fs::read(path).map_err(|error| cannot("--ca", path, error))?;
    }
    Ok(http)
}

/// Whether two names refer to one regular file, also through links and other spellings. A terminal
/// or a pipe may be both read and written.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) else { return false };
    one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn headers(lines: &[String]) -> Result<HeaderMap, String> {
    let product = HeaderValue::from_static(concat!("millstream/", env!("CARGO_PKG_VERSION")));
    let mut headers = HeaderMap::from_iter([(USER_AGENT, product)]);
    let mut given = HeaderMap::new();
    for line in lines {
        let field = line.split_once(':').and_then(|(name, value)| {
            let value = HeaderValue::from_str(value.trim()).ok()?;
            Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
        });
        let (name, value) = field.ok_or("--header: expected NAME: VALUE")?;
        given.append(name, value);
    }
    headers.extend(given);
    Ok(headers)
}

#[expect(clippy::disallowed_methods, reason = "a command that measures itself")]
fn fetch(args: &Args, url: &Url, http: HttpConfig, reads: &[Wanted]) -> Result<Report, String> {
    let mut output: Box<dyn Write> = match &args.output {
        Some(path) => {
            Box::new(BufWriter::new(File::create(path).map_err(|error| cannot("--output", path, error))?))
        }
        None => Box::new(io::sink()),
    };
    let shown = without_secrets(url);
    let begun = Instant::now();
    let mut reader =
        RangeReader::open(url, http, ReaderConfig::default()).map_err(|error| format!("{shown}: {error}"))?;
    if args.hints {
        reader.will_need(reads.iter().map(|read| read.offset..read.offset + read.length));
    }
    let replayed = replay::replay(&mut reader, reads, &mut output).map_err(|error| match error {
        ReplayError::Read(at, error) => format!("{shown}: {}: {error}", place(at)),
        ReplayError::End(at, Some(end)) => format!("{shown}: {}: the file ends at {end}", place(at)),
        ReplayError::End(at, None) => format!("{shown}: {}: the file ends before", place(at)),
        ReplayError::Write(error) => {
            cannot("--output", args.output.as_deref().unwrap_or(Path::new("-")), error)
        }
    })?;
    Ok(report(replayed, begun.elapsed().as_secs_f64(), reads.len(), reader.counters()))
}

fn report(replayed: Replayed, seconds: f64, reads: usize, counters: Counters) -> Report {
    Report {
        sha256: replayed.sha256,
        seconds: (seconds * 1e6).round() / 1e6,
        reads,
        bytes: replayed.bytes,
        requests: counters.requests,
        connections: counters.connections,
        retries: counters.retries,
        bytes_received: counters.bytes_received,
        bytes_used: counters.bytes_used,
        bytes_skipped: counters.bytes_skipped,
        // What the reader still holds is wasted too: it will not be read.
        bytes_wasted: counters.bytes_received.saturating_sub(counters.bytes_used + counters.bytes_skipped),
    }
}

fn place(read: Wanted) -> String {
    format!("read of {} bytes at {} (line {} of the trace)", read.length, read.offset, read.line)
}

/// The URL without credentials, and without its query, which may hold a signature.
pub fn without_secrets(url: &Url) -> String {
    let mut shown = url.clone();
    // Fails for URLs that cannot have credentials.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(None);
    shown.set_fragment(None);
    shown.to_string()
}

fn cannot(option: &str, path: &Path, error: impl Display) -> String {
    format!("{option} {}: {error}", path.display())
}

fn fail(error: impl Display, code: u8) -> ExitCode {
    eprintln!("millstream fetch-trace: {error}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_given_replace_those_of_the_command() {
        let lines = ["authorization: Bearer a:b", "User-Agent: player"].map(str::to_owned);
        let headers = headers(&lines).expect("well formed");
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert_eq!(headers.get_all(USER_AGENT).iter().collect::<Vec<_>>(), ["player"]);
        for wrong in ["authorization", "a b: c", "name: line\nbreak"] {
            assert!(super::headers(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_do_not_show_credentials_or_signatures() {
        let url =
            Url::parse("https://user:secret@example.org:8443/a.mp4?signature=secret#secret").expect("valid");
        assert_eq!(without_secrets(&url), "https://example.org:8443/a.mp4");
    }
}
