//! A stream played from an RTSP server, as cameras are.
//!
//! The protocol is `rtsp::PlaySession`'s; this moves bytes between it and a connection, and
//! datagrams where media is to come by UDP. Datagrams are taken from the address of the server only.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use media::Frame;
use rtsp::{Login, PlaySession, PlaySettings, TRACKS_MAX};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};
use url::Url;

use super::failure::Failure;
use crate::peer::{Connected, Stream, connect_to, rtp_sockets};
use crate::settings::SourceSettings;

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// Datagrams read at a time.
const BATCH: usize = 64;
/// Longest a packet that is missing is waited for, with UDP.
const REORDER_MAX: Duration = Duration::from_millis(200);

/// `rtsp://user:password@host:port/path?query`, of whose query `transport=udp` is ours.
#[derive(Clone)]
pub struct RtspUrl {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// `rtsps`.
    pub tls: bool,
    /// Media comes, or goes, by UDP.
    pub udp: bool,
    login: Option<Login>,
    /// What requests name: without user and password.
    asked: String,
    shown: String,
}

impl PartialEq for RtspUrl {
    fn eq(&self, other: &Self) -> bool {
        let parts = |url: &Self| (url.asked.clone(), url.udp, url.login.clone());
        parts(self) == parts(other)
    }
}

impl Eq for RtspUrl {}

impl RtspUrl {
    /// Reads a URL that begins with `rtsp://` or `rtsps://`.
    ///
    /// # Errors
    /// What is wrong with it, without what may be secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "cannot use its URL: it is not a valid one".to_owned();
        let mut url = Url::parse(text).map_err(|_| invalid())?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(invalid)?.to_owned();
        let tls = url.scheme() == "rtsps";
        let port = url.port().unwrap_or(if tls { 322 } else { 554 });
        let decode = |text: &str| rtmp::name::query_value(&format!("v={}", text.replace('+', "%2B")), "v");
        let (user, password) = (decode(url.username()), decode(url.password().unwrap_or_default()));
        let (user, password) = user.zip(password).ok_or_else(invalid)?;
        let login = (!url.username().is_empty()).then_some(Login { user, password });
        url.set_username("").and_then(|()| url.set_password(None)).map_err(|()| invalid())?;
        url.set_fragment(None);
        let mut udp = false;
        let is_ours = |field: &str| match field {
            "transport=udp" => Some(true),
            "transport=tcp" => Some(false),
            _ => None,
        };
        if let Some(query) = url.query().map(str::to_owned) {
            udp = query.split('&').filter_map(is_ours).next_back().unwrap_or(false);
            let rest: Vec<&str> = query.split('&').filter(|field| is_ours(field).is_none()).collect();
            url.set_query((!rest.is_empty()).then(|| rest.join("&")).as_deref());
        }
        if udp && tls {
            return Err("cannot use its URL: with `rtsps://` media comes in the connection".to_owned());
        }
        let asked = url.to_string();
        let hidden = if url.query().is_some() { "?..." } else { "" };
        url.set_query(None);
        Ok(Self { host, port, tls, udp, login, asked, shown: format!("{url}{hidden}") })
    }

    /// Who asks, if the URL says so.
    pub fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// What requests name: without user and password.
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// Its path, decoded, without the slash that it begins with.
    pub fn path(&self) -> String {
        let path = self.asked.split_once("://").map_or("", |(_, rest)| rest);
        let path = path.split('?').next().unwrap_or_default().split_once('/').map_or("", |(_, path)| path);
        rtmp::name::query_value(&format!("v={}", path.replace('+', "%2B")), "v").unwrap_or_default()
    }
}

/// Without secrets.
impl fmt::Display for RtspUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RtspUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// An open stream.
pub(super) struct RtspPlay {
    stream: Box<dyn Stream>,
    session: PlaySession,
    input: Box<[u8]>,
    peer: Option<SocketAddr>,
    /// RTP and RTCP of each track, with UDP.
    sockets: Vec<[UdpSocket; 2]>,
    has_said: bool,
}

impl RtspPlay {
    /// Connects. What the server says comes with [`fill`](Self::fill).
    pub(super) async fn open(url: &RtspUrl, settings: &SourceSettings) -> Result<Self, Failure> {
        let connected = connect_to(&url.host, url.port, url.tls, settings).await;
        let Connected { stream, peer, .. } = connected.map_err(Failure::new)?;
        let (mut sockets, mut ports) = (Vec::new(), [[0; 2]; TRACKS_MAX]);
        if url.udp {
            for of_track in &mut ports {
                let pair = rtp_sockets(peer).await.map_err(Failure::new)?;
                *of_track = [pair[0].local_addr()?.port(), pair[1].local_addr()?.port()];
                sockets.push(pair);
            }
        }
        let config = PlaySettings {
            url: url.asked.clone(),
            login: url.login.clone(),
            user_agent: concat!("millstream/", env!("CARGO_PKG_VERSION")).to_owned(),
            udp: url.udp.then_some(ports),
            reorder_max: if url.udp { REORDER_MAX } else { Duration::ZERO },
        };
        let session = PlaySession::new(config, Instant::now().into_std());
        let input = vec![0; READ_BYTES].into_boxed_slice();
        Ok(Self { stream, session, input, peer, sockets, has_said: false })
    }

    /// Writes what is pending, waits for bytes or for a time, and returns how many arrived.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        let now = Instant::now().into_std();
        self.session.poll(now);
        self.send_reports(now);
        let output = std::mem::take(self.session.output());
        self.stream.write_all(&output).await?;
        self.stream.flush().await?;
        let Self { stream, session, input, peer, sockets, .. } = self;
        let failed = |error: rtsp::ClientError| Failure::new(error.reason());
        let due = session.next_timeout().map(Instant::from_std);
        let bytes = tokio::select! {
            read = stream.read(input) => {
                let bytes = read?;
                if bytes == 0 {
                    return Err(Failure::new("the server closed the connection".to_owned()));
                }
                session.handle_input(Instant::now().into_std(), &input[..bytes]).map_err(failed)?;
                bytes
            }
            ready = readable(sockets), if !sockets.is_empty() => {
                let (track, part) = ready?;
                let now = Instant::now().into_std();
                let mut total = 0;
                for _ in 0..BATCH {
                    let Ok((bytes, from)) = sockets[track][part].try_recv_from(input) else { break };
                    // Whoever else sends here is not heard.
                    if peer.is_some_and(|peer| peer.ip() == from.ip()) {
                        session.handle_datagram(now, track, part == 1, &input[..bytes]).map_err(failed)?;
                        total += bytes;
                    }
                }
                total
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => 0,
        };
        if self.session.is_playing() && !std::mem::replace(&mut self.has_said, true) {
            for note in self.session.notes() {
                tracing::warn!(reason = note, "a track of a pull is left out");
            }
        }
        Ok(bytes)
    }

    fn send_reports(&mut self, now: std::time::Instant) {
        let Some(peer) = self.peer else { return };
        let mut reports = Vec::new();
        self.session.report(now, |track, report| reports.push((track, report.to_vec())));
        for (track, report) in reports {
            if let (Some(ports), Some(pair)) = (self.session.server_ports(track), self.sockets.get(track)) {
                // A report that is lost is followed by the next.
                let _ = pair[1].try_send_to(&report, (peer.ip(), ports[1]).into());
            }
        }
    }

    /// The next frame that has come as a whole.
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        self.session.next_frame().map(std::sync::Arc::unwrap_or_clone)
    }

    /// Who sends it.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }
}

/// Says goodbye, as far as that goes without waiting: cameras have few sessions.
impl Drop for RtspPlay {
    fn drop(&mut self) {
        self.session.tear_down();
        let output = std::mem::take(self.session.output());
        let write = self.stream.write_all(&output);
        let mut write = std::pin::pin!(write);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = write.as_mut().poll(&mut context);
    }
}

/// Waits until one of the sockets has something: which track's, and whether it is RTCP.
async fn readable(sockets: &[[UdpSocket; 2]]) -> std::io::Result<(usize, usize)> {
    let [first, second] = sockets else { return std::future::pending().await };
    tokio::select! {
        ready = first[0].readable() => ready.map(|()| (0, 0)),
        ready = first[1].readable() => ready.map(|()| (0, 1)),
        ready = second[0].readable() => ready.map(|()| (1, 0)),
        ready = second[1].readable() => ready.map(|()| (1, 1)),
    }
}

impl fmt::Debug for RtspPlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtspPlay").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_the_cameras_query_and_hide_who_asks() {
        // (URL, asked for, shown, UDP)
        for (text, asked, shown, udp) in [
            ("rtsp://h/a", "rtsp://h/a", "rtsp://h/a", false),
            (
                "rtsp://u:secret@h:8554/cam/real?channel=1&transport=udp&subtype=0",
                "rtsp://h:8554/cam/real?channel=1&subtype=0",
                "rtsp://h:8554/cam/real?...",
                true,
            ),
            ("rtsp://u:p%40ss@[::1]/a?transport=tcp", "rtsp://[::1]/a", "rtsp://[::1]/a", false),
        ] {
            let url = RtspUrl::parse(text).expect(text);
            assert_eq!(
                (url.asked.as_str(), url.to_string().as_str(), url.udp),
                (asked, shown, udp),
                "{text}"
            );
            assert!(!format!("{url:?}").contains("secret"));
        }
        let url = RtspUrl::parse("rtsps://us%3Aer:p%40s+s@h/a").expect("a URL");
        assert_eq!((url.port, url.tls), (322, true));
        let login = url.login.expect("one");
        assert_eq!((login.user.as_str(), login.password.as_str()), ("us:er", "p@s+s"));
        for text in ["rtsp://", "rtsp:///a", "rtsps://h/a?transport=udp", "rtsp://h:99999/"] {
            RtspUrl::parse(text).expect_err(text);
        }
    }
}
