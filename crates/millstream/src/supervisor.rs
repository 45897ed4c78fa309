//! Notifies systemd, or another supervisor, if it asks for that (`NOTIFY_SOCKET`), and takes the sockets that
//! it has bound for the server (`LISTEN_FDS`).

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use worker_api::settings::WorkerSettings;
use worker_api::sockets::{BoundSocket, SocketKind, SocketPlace};

/// The server answers.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The server ends.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Another process is the server from now on.
pub(crate) fn replaced_by(pid: u32) {
    notify(&[NotifyState::MainPid(pid)]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the supervisor could not be notified");
    }
}

/// The sockets that the supervisor has bound, as far as they are at addresses of the configuration.
pub(crate) fn sockets(settings: &WorkerSettings) -> Vec<BoundSocket> {
    let mut given = ListenFd::from_env();
    let mut sockets = Vec::new();
    for index in 0..given.len() {
        // What is of another type is left, for the next one to try.
        let tcp = given.take_tcp_listener(index).ok().flatten();
        let udp = given.take_udp_socket(index).ok().flatten();
        let found = match (tcp, udp) {
            (Some(socket), _) => of_tcp(settings, socket),
            (None, Some(socket)) => of_udp(settings, socket),
            (None, None) => Err(format!("number {index} is no socket of TCP or UDP")),
        };
        match found {
            Ok((kind, address, socket)) => {
                // One per worker of those at the same address.
                let same = |bound: &&BoundSocket| bound.place.kind == kind && bound.place.address == address;
                let worker = sockets.iter().filter(same).count();
                let place = SocketPlace { kind, worker, wanted: address, address };
                sockets.push(BoundSocket { place, socket });
            }
            Err(reason) => tracing::warn!(reason, "a socket of the supervisor is not used"),
        }
    }
    sockets
}

type Found = Result<(SocketKind, SocketAddr, OwnedFd), String>;

fn of_tcp(settings: &WorkerSettings, socket: TcpListener) -> Found {
    let lists = [
        (SocketKind::Rtmp, &settings.rtmp),
        (SocketKind::Rtmps, &settings.rtmps),
        (SocketKind::Http, &settings.http),
        (SocketKind::Https, &settings.https),
        (SocketKind::Rtsp, &settings.rtsp.listen),
        (SocketKind::Rtsps, &settings.rtsp.tls_listen),
        (SocketKind::RtcTcp, &settings.rtc.tcp),
    ];
    let address = socket.local_addr().map_err(|error| error.to_string())?;
    let kind = kind_at(&lists, address, "TCP")?;
    check_shared(settings, kind, address)?;
    Ok((kind, address, socket.into()))
}

fn of_udp(settings: &WorkerSettings, socket: UdpSocket) -> Found {
    let lists = [(SocketKind::RtcUdp, &settings.rtc.udp), (SocketKind::Srt, &settings.srt.listen)];
    let address = socket.local_addr().map_err(|error| error.to_string())?;
    if address.ip().is_unspecified() {
        return Err(format!("UDP at {address}: answers have to leave from one address, name each"));
    }
    let kind = kind_at(&lists, address, "UDP")?;
    check_shared(settings, kind, address)?;
    Ok((kind, address, socket.into()))
}

/// A port that all workers share takes a socket for each, bound in their order.
fn check_shared(settings: &WorkerSettings, kind: SocketKind, address: SocketAddr) -> Result<(), String> {
    match kind {
        SocketKind::RtcUdp | SocketKind::RtcTcp if settings.rtc.single_port => {
            Err(format!("`rtc.single_port` has {address} bound by the server itself, not by its supervisor"))
        }
        _ => Ok(()),
    }
}

fn kind_at(
    lists: &[(SocketKind, &Vec<SocketAddr>)],
    address: SocketAddr,
    protocol: &str,
) -> Result<SocketKind, String> {
    let found = lists.iter().find(|(_, list)| list.contains(&address));
    let (kind, _) = found.ok_or_else(|| format!("the configuration has no {protocol} at {address}"))?;
    Ok(*kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_known_by_their_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let mut settings = WorkerSettings { https: vec![address], ..WorkerSettings::default() };
        settings.srt.listen = vec![udp.local_addr().expect("bound")];
        let (kind, found, _) = of_tcp(&settings, listener).expect("configured");
        assert_eq!((kind, found), (SocketKind::Https, address));
        assert_eq!(of_udp(&settings, udp).expect("configured").0, SocketKind::Srt);
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let reason = of_tcp(&settings, other).expect_err("not configured");
        assert!(reason.starts_with("the configuration has no TCP at 127.0.0.1:"), "{reason}");
    }
}
