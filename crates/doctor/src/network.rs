//! How datagrams leave and arrive, which addresses clients are given, and what a firewall has to let in.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use group_send::socket::{BUFFER_BYTES, size_buffers};

use crate::ports::list;
use crate::{Finding, Level, Protocol, System, Wanted};

pub(crate) fn examine(wanted: &Wanted, system: &System, findings: &mut Vec<Finding>) {
    if wanted.ports.iter().any(|port| port.protocol == Protocol::Udp) {
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
            findings.extend(buffers(&socket));
            findings.extend(back_end(&socket));
        }
        findings.extend(candidates(wanted));
    }
    findings.extend(doors(wanted));
    findings.extend(queue(system));
    for (key, server) in &wanted.servers {
        findings.push(server_answers(key, server));
    }
}

/// A socket gets what the kernel allows, which by default holds 150 datagrams.
fn buffers(socket: &UdpSocket) -> Option<Finding> {
    let granted = size_buffers(socket, BUFFER_BYTES).ok()?;
    let sizes = format!("{} and {} bytes to receive and to send", granted.receive_bytes, granted.send_bytes);
    if granted.warning.is_none() {
        return Some(Finding::fine("udp buffers", sizes));
    }
    let found = format!("{sizes}, {BUFFER_BYTES} are wanted: bursts of publishers and to viewers are lost");
    let mend = format!("sysctl -w net.core.rmem_max={BUFFER_BYTES} net.core.wmem_max={BUFFER_BYTES}");
    Some(Finding::new(Level::Warning, "udp buffers", found, mend))
}

fn back_end(socket: &UdpSocket) -> Option<Finding> {
    let sender = group_send::Sender::new(socket, &group_send::Config::default()).ok()?;
    let refused: Vec<String> = sender.not_chosen().iter().map(ToString::to_string).collect();
    let found = format!("datagrams leave by {}", sender.backend());
    if refused.is_empty() {
        return Some(Finding::fine("udp sending", found));
    }
    let mend = format!("a kernel or container that allows it costs less per packet ({})", refused.join("; "));
    Some(Finding::new(Level::Hint, "udp sending", found, mend))
}

/// Clients elsewhere cannot reach private addresses.
fn candidates(wanted: &Wanted) -> Option<Finding> {
    let listens_by_rtc = wanted.ports.iter().any(|port| port.key == RTC);
    if !listens_by_rtc {
        return None;
    }
    if !wanted.public_addresses.is_empty() {
        let list: Vec<String> = wanted.public_addresses.iter().map(ToString::to_string).collect();
        return Some(Finding::fine("webrtc", format!("clients are given {}", list.join(", "))));
    }
    let own = outgoing_address()?;
    if !is_private(own) {
        return Some(Finding::fine(
            "webrtc",
            format!("clients are given {own}, among the addresses of interfaces"),
        ));
    }
    let found = format!("clients are given {own} only, which others than those of this network cannot reach");
    let mend = "rtc.public_addresses = [\"THE ADDRESS THAT THE ROUTER FORWARDS\"], if they come from outside";
    Some(Finding::new(Level::Hint, "webrtc", found, mend))
}

/// The address this machine has towards the rest of the world. Nothing is sent.
fn outgoing_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Of a range for documentation (RFC 5737): as far away as any other.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            // RFC 6598: behind the NAT of a provider.
            let is_shared = address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64;
            address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

/// What a firewall in front of the server has to let in.
fn doors(wanted: &Wanted) -> Option<Finding> {
    let open =
        wanted.ports.iter().filter(|port| port.address.port() != 0 && !port.address.ip().is_loopback());
    let lists = list(&open.collect::<Vec<_>>());
    if lists.is_empty() {
        return None;
    }
    let rules = lists.iter().filter_map(|list| list.split_once(' ')).map(|(protocol, ports)| {
        format!("nft add rule inet filter input {protocol} dport {{ {ports} }} accept")
    });
    let mend = rules.collect::<Vec<_>>().join("; ");
    Some(Finding::new(Level::Hint, "firewall", format!("has to let in {}", lists.join(" and ")), mend))
}

/// Packets that a core takes from the network card before it lets others run.
fn queue(system: &System) -> Option<Finding> {
    let backlog: u64 = system.number("/proc/sys/net/core/netdev_max_backlog")?;
    if backlog >= BACKLOG_MIN {
        return None;
    }
    let found = format!("{backlog} packets may wait for a core; more are dropped");
    Some(Finding::new(
        Level::Warning,
        "receive queue",
        found,
        format!("sysctl -w net.core.netdev_max_backlog={BACKLOG_MIN}"),
    ))
}

fn server_answers(key: &str, server: &str) -> Finding {
    let reached = server.to_socket_addrs().map_err(|error| error.to_string()).and_then(|addresses| {
        let mut last = "no address".to_owned();
        for address in addresses {
            match connect(address) {
                Ok(()) => return Ok(address),
                Err(error) => last = format!("{address}: {error}"),
            }
        }
        Err(last)
    });
    match reached {
        Ok(address) => Finding::fine("cluster", format!("{server} answers at {address}")),
        Err(why) => {
            let found = format!("{server} cannot be reached: {why}");
            Finding::new(Level::Fault, "cluster", found, format!("start it, or name another in {key}"))
        }
    }
}

fn connect(address: SocketAddr) -> std::io::Result<()> {
    TcpStream::connect_timeout(&address, PATIENCE).map(drop)
}

/// The key of the port of WebRTC.
const RTC: &str = "rtc.udp_listen";
/// The kernel's own default.
const BACKLOG_MIN: u64 = 1_000;
/// For a server to take a connection.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::Port;
    use crate::system::tests::Files;

    fn port(key: &'static str, protocol: Protocol, address: &str) -> Port {
        Port { key, protocol, address: address.parse().unwrap() }
    }

    #[test]
    fn a_firewall_is_given_a_line_for_each_protocol() {
        let wanted = Wanted {
            ports: vec![
                port("rtmp.listen", Protocol::Tcp, "0.0.0.0:1935"),
                port("rtmp.listen", Protocol::Tcp, "[::]:1935"),
                port("http.listen", Protocol::Tcp, "127.0.0.1:8080"),
                port(RTC, Protocol::Udp, "0.0.0.0:8190"),
                port(RTC, Protocol::Udp, "0.0.0.0:8189"),
            ],
            ..Wanted::default()
        };
        let finding = doors(&wanted).unwrap();
        assert_eq!(finding.found, "has to let in tcp 1935 and udp 8189-8190");
        let rules = finding.mend.unwrap();
        assert!(
            rules.ends_with("; nft add rule inet filter input udp dport { 8189-8190 } accept"),
            "{rules}"
        );
        assert_eq!(doors(&Wanted::default()), None);
    }

    #[test]
    fn private_addresses_are_known() {
        for (address, expected) in [
            ("10.1.2.3", true),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("203.0.113.9", false),
            ("fd00::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_private(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn public_addresses_of_the_configuration_are_named() {
        let mut wanted =
            Wanted { ports: vec![port(RTC, Protocol::Udp, "0.0.0.0:8189")], ..Wanted::default() };
        wanted.public_addresses = vec!["203.0.113.9".parse().unwrap()];
        assert_eq!(candidates(&wanted).unwrap().found, "clients are given 203.0.113.9");
        wanted.ports.clear();
        assert_eq!(candidates(&wanted), None, "no WebRTC");
    }

    #[test]
    fn servers_are_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(server_answers("cluster.nats", &address.to_string()).level, Level::Fine);
        drop(listener);
        let gone = server_answers("cluster.nats", &address.to_string());
        assert_eq!(gone.level, Level::Fault);
        assert!(
            gone.found.contains("refused") && gone.mend.unwrap().contains("cluster.nats"),
            "{}",
            gone.found
        );
        assert_eq!(server_answers("cluster.nats", "no port").level, Level::Fault);
    }

    #[test]
    fn a_short_receive_queue_is_found() {
        let path = "/proc/sys/net/core/netdev_max_backlog";
        assert_eq!(queue(&Files::new(&[(path, "300")]).system()).unwrap().level, Level::Warning);
        assert_eq!(queue(&Files::new(&[(path, "1000")]).system()), None);
    }

    #[test]
    fn sockets_of_this_machine_are_described() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(buffers(&socket).unwrap().found.contains("bytes to receive"));
        assert!(back_end(&socket).unwrap().found.starts_with("datagrams leave by "));
    }
}
