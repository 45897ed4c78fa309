//! WHIP and WHEP by plain HTTP for the client of `rtc-test`.
//!
//! It does what a browser does to connect, and as a viewer it says every few seconds that it is there;
//! what else is sent, and to whom, is up to the test. Real time and blocking sockets.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use rtc::dtls::Fingerprint;
use rtc::sdp::{Direction, make_offer, read_answer};
use rtc_test::UdpClient;
use rtp::extension::Extension;
use rtp::payload::Codec;

use super::http::{self, Response};
use super::server::Server;
use super::{TIMEOUT, eventually};

pub(crate) use rtc_test::{
    AUDIO_SSRC, OPUS, OfferOptions, VIDEO_RTX_SSRC, VIDEO_SSRC, VP8, VP8_RTX, certificate, credentials,
    offer, random, vp8_frame,
};

/// How a client differs from the usual one.
#[derive(Clone, Default)]
pub(crate) struct Options {
    /// Offer no retransmissions for video.
    pub(crate) no_rtx: bool,
    /// Signal this fingerprint in place of one's own.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Headers of the POST, as `("authorization", "Bearer x")`.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Offer this in place of VP8, under the same payload types.
    pub(crate) video: Option<Codec>,
    /// Offer this in place of Opus, under the same payload type.
    pub(crate) audio: Option<Codec>,
    /// Offer no video.
    pub(crate) audio_only: bool,
    /// Offer simulcast layers with these RIDs, under this id of the header extension.
    pub(crate) simulcast: Option<([&'static str; 3], u8)>,
    /// Have a socket at this address in place of loopback.
    pub(crate) address: Option<IpAddr>,
}

const REPORT_INTERVAL: Duration = Duration::from_secs(3);

/// A WHIP or WHEP client with its session.
pub(crate) struct Client {
    client: UdpClient,
    http: SocketAddr,
    /// Path of the session's URL.
    pub(crate) session: String,
    /// Of a viewer: when it says the next time that it is there.
    report_at: Option<Instant>,
}

impl Deref for Client {
    type Target = UdpClient;

    fn deref(&self) -> &UdpClient {
        &self.client
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut UdpClient {
        &mut self.client
    }
}

impl Client {
    /// Publishes `stream` (`app/name`) and waits until it is connected.
    pub(crate) fn publish(server: &Server, stream: &str) -> Self {
        let mut client = Self::open(server, &format!("/whip/{stream}"), Direction::Send, &Options::default());
        client.connect();
        client
    }

    /// Plays `stream` and waits until it is connected.
    pub(crate) fn play(server: &Server, stream: &str) -> Self {
        let mut client =
            Self::open(server, &format!("/whep/{stream}"), Direction::Receive, &Options::default());
        client.connect();
        client
    }

    /// As [`Client::play`], with H.264, and again as long as the stream is not ready.
    pub(crate) fn play_h264(server: &Server, stream: &str) -> Self {
        Self::play_when_ready(server, stream, &Options { video: Some(Codec::H264), ..Options::default() })
    }

    /// As [`Client::play`], and again as long as the stream is not ready: what it has is known some
    /// time after its publisher.
    pub(crate) fn play_when_ready(server: &Server, stream: &str, options: &Options) -> Self {
        let path = format!("/whep/{stream}");
        let mut client = eventually(&format!("{stream} can be played"), || {
            match Self::try_open(server, &path, Direction::Receive, options) {
                Ok(client) => Some(client),
                Err(response) if response.status == 409 => None,
                Err(response) => panic!("POST {path}: {} {}", response.status, response.text()),
            }
        });
        client.connect();
        client
    }

    /// Signals, without sending a datagram yet.
    pub(crate) fn open(server: &Server, path: &str, direction: Direction, options: &Options) -> Self {
        Self::try_open(server, path, direction, options)
            .unwrap_or_else(|response| panic!("POST {path}: {} {}", response.status, response.text()))
    }

    /// As [`Client::open`]; the response when it is not 201.
    pub(crate) fn try_open(
        server: &Server,
        path: &str,
        direction: Direction,
        options: &Options,
    ) -> Result<Self, Response> {
        Self::try_open_at(server.http, path, direction, options).expect("a response")
    }

    /// As [`Client::try_open`] of a server that may not be there.
    pub(crate) fn try_open_at(
        http: SocketAddr,
        path: &str,
        direction: Direction,
        options: &Options,
    ) -> io::Result<Result<Self, Response>> {
        let Options { fingerprint, video, audio, audio_only, address, no_rtx, .. } = *options;
        let socket = address.map_or_else(UdpClient::bind, |at| UdpSocket::bind((at, 0)).expect("a port"));
        let local = socket.local_addr().expect("its address");
        let mut offer = offer(
            direction,
            local,
            &OfferOptions { fingerprint, video, audio, audio_only, no_rtx, ..OfferOptions::default() },
        );
        if let Some((rids, id)) = options.simulcast {
            let video = &mut offer.media[1];
            video.rids = rids.map(str::to_owned).to_vec();
            video.sources.clear();
            video.extensions.set(id, Extension::Rid);
        }
        let headers: Vec<(&str, &str)> =
            options.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let response = post(http, path, &make_offer(&offer), &headers)?;
        if response.status != 201 {
            return Ok(Err(response));
        }
        let answer = read_answer(&response.text(), &offer).expect("an answer that can be read");
        let session = path_of(response.header("location").expect("the session's URL"));
        let report_at = (direction == Direction::Receive).then(|| Instant::now() + REPORT_INTERVAL);
        Ok(Ok(Self { client: UdpClient::new(socket, offer, answer), http, session, report_at }))
    }

    /// Takes what has arrived and runs what is due, without waiting.
    pub(crate) fn turn(&mut self) {
        self.client.turn();
        if self.report_at.is_some_and(|at| at <= Instant::now()) && self.client.is_connected() {
            // A viewer that reports nothing for ten seconds, which a busy machine takes for many a test,
            // would get nothing more.
            self.client.send_rtcp(&[0x80, 201, 0, 1, 0, 0, 0, 1]);
            self.report_at = Some(Instant::now() + REPORT_INTERVAL);
        }
    }

    /// Runs until media can flow.
    pub(crate) fn connect(&mut self) {
        self.until("connected", |client| client.is_connected());
    }

    /// Runs until `check` holds; panics with `what` after [`TIMEOUT`].
    pub(crate) fn until(&mut self, what: &str, check: impl FnMut(&mut Self) -> bool) {
        assert!(
            self.until_within(TIMEOUT, check),
            "not within {TIMEOUT:?}: {what} (failed: {:?})",
            self.failed
        );
    }

    /// Runs until `check` holds or `limit` is over; whether it did.
    pub(crate) fn until_within(&mut self, limit: Duration, mut check: impl FnMut(&mut Self) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            self.turn();
            if check(self) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            self.client.wait(deadline);
        }
    }

    /// DELETE of the session.
    pub(crate) fn delete(&self) -> u16 {
        http::request(self.http, "DELETE", &self.session, &[]).expect("a response").status
    }

    /// PATCH of the session with a fragment.
    pub(crate) fn patch(&self, body: &str, headers: &[(&str, &str)]) -> Response {
        let mut all = vec![("Content-Type", "application/trickle-ice-sdpfrag")];
        all.extend(headers);
        send_body(self.http, "PATCH", &self.session, body, &all).expect("a response")
    }
}

impl Client {
    /// A request with JSON, or nothing, to what is below the session's URL.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Response {
        let path = format!("{}{path}", self.session);
        send_body(self.http, method, &path, body, &[("Content-Type", "application/json")])
            .expect("a response")
    }
}

/// Sends audio packets of these numbers, one at a time, and waits until the viewer has each.
pub(crate) fn exchange(publisher: &mut Client, viewer: &mut Client, numbers: std::ops::Range<u32>) {
    for number in numbers {
        publisher.turn();
        publisher.send_audio(number);
        viewer.until("an audio packet", |viewer| !viewer.media.is_empty());
        assert_eq!(viewer.take_audio(), [number]);
    }
}

/// Waits until the server has no viewer left.
pub(crate) fn eventually_no_viewers(server: &Server) {
    eventually("the server has no viewer left", || server.sessions("role=player").is_empty().then_some(()));
}

/// Waits until the server has no WebRTC session left.
pub(crate) fn wait_for_no_sessions(server: &Server) {
    server.wait_for_session_count(0);
}

/// POST of an offer.
pub(crate) fn post(
    address: SocketAddr,
    path: &str,
    sdp: &str,
    headers: &[(&str, &str)],
) -> io::Result<Response> {
    let mut all = vec![("Content-Type", "application/sdp")];
    all.extend(headers);
    send_body(address, "POST", path, sdp, &all)
}

fn send_body(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> io::Result<Response> {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    let mut streaming = http::send(address, request.as_bytes())?;
    let mut body = Vec::new();
    io::Read::read_to_end(&mut streaming, &mut body)?;
    Ok(Response { status: streaming.status, headers: streaming.headers, body })
}

/// The path of a URL that may be absolute.
fn path_of(location: &str) -> String {
    match location.split_once("://") {
        Some((_, rest)) => rest[rest.find('/').unwrap_or(rest.len())..].to_owned(),
        None => location.to_owned(),
    }
}

/// Lets audio flow from packet `number` on: sends until the viewer, which may not be quite
/// connected on the server's side, gets some. Returns the number of the next packet.
pub(crate) fn start_flow(publisher: &mut Client, viewer: &mut Client, mut number: u32) -> u32 {
    viewer.until("audio begins", |viewer| {
        publisher.turn();
        publisher.send_audio(number);
        number += 1;
        !viewer.media.is_empty()
    });
    viewer.until("the last of it", |viewer| viewer.take_audio().contains(&(number - 1)));
    number
}

/// A WebRTC counter of `/metrics`, as [`Server::counter`].
pub(crate) fn counter(server: &Server, name: &str) -> u64 {
    server.counter(&format!("millstream_rtc_{name}"))
}

/// Whether to run at the sizes of the specification in place of those that fit into every day's
/// test run.
pub(crate) fn full_size() -> bool {
    std::env::var_os("TEST_AT_FULL_SIZE").is_some()
}
