//! `millstream fetch-proxy`: a local HTTP server that turns a player's reads of remote files into few
//! requests.
//!
//! A player that is given `http://127.0.0.1:8090/https://host/film.mp4` asks for ranges as it
//! pleases; all its requests for one URL are answered by one [`AsyncRangeReader`], which plans seeks,
//! reads ahead and keeps what it has. `answer.rs` is HTTP, `films.rs` the readers, `body.rs` how bytes
//! reach players.
//!
//! [`AsyncRangeReader`]: range_reader::AsyncRangeReader

mod answer;
mod body;
mod films;

use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use films::Films;
pub use films::{FilmReport, Report};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use range_reader::http::HttpConfig;
use range_reader::http::address::AddressPolicy;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// Exit code when it cannot listen.
const EXIT_FAILED: u8 = 1;
/// Exit code for invalid arguments, the same as clap's.
const EXIT_USAGE: u8 = 2;

/// Connections of players at a time; others wait to be accepted.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of an answer that the kernel holds for a player, about. What a player does not read before it
/// closes has been fetched for nothing; by itself the buffer grows to megabytes.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Largest head of a request, and how long one may take or be awaited.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `millstream fetch-proxy`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Port to listen on; 0 for any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    pub port: u16,
    /// Address to listen on. On anything but a loopback address, only public addresses are fetched from,
    /// and proxies of the environment are not used: others can reach it, and there is no password.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub address: IpAddr,
    /// Files open at a time, each with up to 7 MiB of memory; others are answered with 503 while all are
    /// used.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub files_max: u16,
    /// Header field for each request, such as `authorization: Bearer ...`; may be given several times.
    ///
    /// It is sent to every host that a player names.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// PEM file of certificate authorities to trust besides the system's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// A proxy that listens.
#[derive(Debug)]
pub struct FetchProxy {
    listener: TcpListener,
    address: SocketAddr,
    films: Arc<Films>,
}

impl FetchProxy {
    /// Listens where the options say. In a runtime of tokio.
    ///
    /// # Errors
    /// Options that make no sense, or an address that cannot be listened on, in words.
    pub async fn bind(args: &Args) -> Result<Self, String> {
        Self::listen(args, http(args)?).await
    }

    async fn listen(args: &Args, http: HttpConfig) -> Result<Self, String> {
        let wanted = SocketAddr::new(args.address, args.port);
        let cannot = |error: io::Error| format!("{wanted}: {error}");
        let listener = TcpListener::bind(wanted).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        Ok(Self { listener, address, films: Arc::new(Films::new(http, usize::from(args.files_max))) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers players until `end`, and reports what that has cost.
    pub async fn serve(self, end: impl Future<Output = ()>) -> Report {
        let films = Arc::clone(&self.films);
        let closing = films.close_unused();
        tokio::select! {
            () = self.accept() => {}
            () = closing => {}
            () = end => {}
        }
        films.report()
    }

    async fn accept(self) {
        let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(place) = Arc::clone(&free).acquire_owned().await else { return };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                // No descriptors: players that go free some.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let films = Arc::clone(&self.films);
            let is_local = self.address.ip().is_loopback();
            tokio::spawn(async move {
                serve_connection(stream, films, is_local).await;
                drop(place);
            });
        }
    }
}

async fn serve_connection(stream: TcpStream, films: Arc<Films>, is_local: bool) {
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES);
    let service = service_fn(move |request| {
        let films = Arc::clone(&films);
        async move { Ok::<_, Infallible>(answer::answer(&films, is_local, &request).await) }
    });
    // Errors are those of players that have gone, and of bodies that could not be completed.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Runs it until a signal ends it. Errors go to standard error.
pub fn run(args: &Args) -> ExitCode {
    let http = match http(args) {
        Ok(http) => http,
        Err(error) => return fail(error, EXIT_USAGE),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(error, EXIT_FAILED),
    };
    let served = runtime.block_on(async {
        let proxy = FetchProxy::listen(args, http).await?;
        let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
        print_line(&format!(
            "http://{0}/ fetches: play http://{0}/https://example.org/film.mp4; http://{0}/stats counts",
            proxy.address()
        ));
        let end = async {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated.recv() => {}
            }
        };
        Ok::<_, String>(proxy.serve(end).await)
    });
    // Without waiting for a thread that resolves a name.
    runtime.shutdown_background();
    match served {
        Ok(report) => {
            print_line(&report.to_json());
            ExitCode::SUCCESS
        }
        Err(error) => fail(error, EXIT_FAILED),
    }
}

/// How servers are reached. Who listens on loopback serves the person who started it, as `fetch-trace`
/// does; others must not reach this machine and its neighbours through it.
fn http(args: &Args) -> Result<HttpConfig, String> {
    let mut http = fetch_trace::http(&args.header, args.ca.as_deref())?;
    // Hints reach to the end of the file. With more, what a response of long ago still brings was
    // fetched beside it in pieces: seven requests for a film whose index is at its end, where three
    // are needed.
    http.connections_max = 1;
    if !args.address.is_loopback() {
        http.addresses = AddressPolicy::Public;
        // It would resolve names itself, and reach what it can reach.
        http.proxy = None;
    }
    Ok(http)
}

/// A reader that went away (`| head`) is no error.
fn print_line(line: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn fail(error: impl Display, code: u8) -> ExitCode {
    eprintln!("millstream fetch-proxy: {error}");
    ExitCode::from(code)
}
