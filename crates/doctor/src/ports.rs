//! Whether the ports are free, and who has them if not.

use std::fs;
use std::io;
use std::net::SocketAddr;

use nix::errno::Errno;
use socket2::{Domain, Socket, Type};

use crate::{Finding, Level, Port, Protocol, System, Wanted};

pub(crate) fn examine(wanted: &Wanted, system: &System, findings: &mut Vec<Finding>) {
    let mut free = Vec::new();
    for port in wanted.ports.iter().filter(|port| port.address.port() != 0) {
        match taken(port) {
            Ok(()) => free.push(port),
            Err(error) => findings.push(refused(port, &error, system)),
        }
    }
    if !free.is_empty() {
        findings.push(Finding::fine("ports", format!("free: {}", list(&free).join(" and "))));
    }
    findings.extend(ephemeral(wanted, system));
}

/// For each protocol its name and its ports, without a firewall's doubles for IPv4 and IPv6.
pub(crate) fn list(ports: &[&Port]) -> Vec<String> {
    let of = |protocol| {
        let numbers = ports.iter().filter(|port| port.protocol == protocol).map(|port| port.address.port());
        let ranges = ranges(numbers.collect());
        (!ranges.is_empty()).then(|| format!("{protocol} {ranges}"))
    };
    [Protocol::Tcp, Protocol::Udp].into_iter().filter_map(of).collect()
}

/// `8000-8003, 8080`
pub(crate) fn ranges(mut numbers: Vec<u16>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let shown = runs.map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Binds a port for a moment, without `SO_REUSEPORT`: with it two servers of one user would share the port,
/// and each would get half of the clients.
fn taken(port: &Port) -> io::Result<()> {
    let kind = if port.protocol == Protocol::Tcp { Type::STREAM } else { Type::DGRAM };
    let socket = Socket::new(Domain::for_address(port.address), kind, None)?;
    if port.address.is_ipv6() {
        // The address for all is for IPv4 as well.
        socket.set_only_v6(!port.address.ip().is_unspecified())?;
    }
    if port.protocol == Protocol::Tcp {
        // Connections that ended a moment ago are in nobody's way.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&port.address.into())?;
    if port.protocol == Protocol::Tcp { socket.listen(1) } else { Ok(()) }
}

fn refused(port: &Port, error: &io::Error, system: &System) -> Finding {
    let Port { key, protocol, address } = port;
    let (found, mend) = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EADDRINUSE) => {
            let holder = holder(*protocol, *address, system);
            let by = holder.as_deref().unwrap_or("another program (run this as root to see which)");
            let found = format!("{protocol} {address} is in use by {by}");
            // A server that runs is what most people who see this have.
            if holder.as_ref().is_some_and(|by| by.starts_with("millstream ")) {
                let mend = "nothing to do if that is the server this configuration is for".to_owned();
                return Finding::new(Level::Hint, "port", found, mend);
            }
            (found, format!("stop that, or set {key} to another port"))
        }
        Some(Errno::EACCES) => {
            let mend = format!("sysctl -w net.ipv4.ip_unprivileged_port_start={}", address.port());
            (format!("{protocol} {address} is for root only"), mend)
        }
        Some(Errno::EADDRNOTAVAIL) => {
            let found = format!("{} is no address of this machine", address.ip());
            (found, format!("set {key} to an address of `ip address`, or to one for all"))
        }
        _ => {
            (format!("{protocol} {address} cannot be had: {error}"), format!("set {key} to another address"))
        }
    };
    Finding::new(Level::Fault, "port", found, mend)
}

/// Name and process id of the program that has a port.
fn holder(protocol: Protocol, address: SocketAddr, system: &System) -> Option<String> {
    let tables: Vec<String> = ["", "6"].map(|family| format!("/proc/net/{protocol}{family}")).into();
    let inodes: Vec<u64> = tables
        .iter()
        .filter_map(|table| system.read(table))
        .flat_map(|table| {
            table.lines().filter_map(|line| listener(protocol, address.port(), line)).collect::<Vec<_>>()
        })
        .collect();
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir(system.path("/proc")).ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        // Those of other users are not to be seen.
        let descriptors = fs::read_dir(system.path(&format!("/proc/{pid}/fd"))).ok()?;
        let mut targets = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| links.iter().any(|link| target.as_os_str() == link.as_str())).then_some(pid)
    })
    .map(|pid| {
        let name = system.read(&format!("/proc/{pid}/comm")).unwrap_or_else(|| "a program".to_owned());
        format!("{name} (process {pid})")
    })
    .next()
}

/// The inode of a socket that listens on a port, by a line of `/proc/net/tcp` or `/proc/net/udp`:
/// `sl local_address rem_address st tx:rx tr:when retransmits uid timeout inode`.
fn listener(protocol: Protocol, port: u16, line: &str) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state) = (fields.get(1)?, fields.get(3)?);
    let (_, local_port) = local.rsplit_once(':')?;
    let listens = if protocol == Protocol::Tcp { "0A" } else { "07" };
    (u16::from_str_radix(local_port, 16).ok()? == port && *state == listens).then_some(())?;
    fields.get(9)?.parse().ok()
}

/// A port that the kernel gives to outgoing connections may be gone at the next start.
fn ephemeral(wanted: &Wanted, system: &System) -> Option<Finding> {
    let range = system.read("/proc/sys/net/ipv4/ip_local_port_range")?;
    let mut ends = range.split_whitespace().filter_map(|text| text.parse::<u16>().ok());
    let range = ends.next()?..=ends.next()?;
    let reserved = system.read("/proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    let is_reserved = |port: u16| {
        reserved.split(',').any(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let ends = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
            ends.is_some_and(|(first, last)| (first..=last).contains(&port))
        })
    };
    let mut inside: Vec<u16> = wanted.ports.iter().map(|port| port.address.port()).collect();
    inside.retain(|port| range.contains(port) && !is_reserved(*port));
    if inside.is_empty() {
        return None;
    }
    let list = ranges(inside).replace(' ', "");
    let found =
        format!("{list}: the kernel may give them to connections of other programs before the next start");
    let before = if reserved.is_empty() { String::new() } else { format!("{reserved},") };
    let mend = format!("sysctl -w net.ipv4.ip_local_reserved_ports={before}{list}");
    Some(Finding::new(Level::Warning, "ports", found, mend))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;
    use crate::system::tests::Files;

    fn port(protocol: Protocol, address: SocketAddr) -> Port {
        Port { key: "rtmp.listen", protocol, address }
    }

    fn found(port: Port) -> Vec<Finding> {
        let mut findings = Vec::new();
        examine(&Wanted { ports: vec![port], ..Wanted::default() }, &System::this(), &mut findings);
        findings.retain(|finding| finding.about != "ports" || finding.level == Level::Fine);
        findings
    }

    #[test]
    fn a_port_that_is_taken_names_its_holder() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        for port in
            [port(Protocol::Tcp, tcp.local_addr().unwrap()), port(Protocol::Udp, udp.local_addr().unwrap())]
        {
            let findings = found(port.clone());
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].level, Level::Fault);
            let holder = format!("(process {})", std::process::id());
            assert!(findings[0].found.contains(&holder), "{}", findings[0].found);
            assert!(findings[0].mend.as_ref().unwrap().contains("rtmp.listen"));
        }
        let free = tcp.local_addr().unwrap();
        drop(tcp);
        assert_eq!(found(port(Protocol::Tcp, free))[0].level, Level::Fine);
    }

    #[test]
    fn a_server_that_runs_is_no_fault() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let line = format!("0: 0100007F:{:04X} 00000000:0000 0A 0:0 00:0 0 0 0 4711 1", address.port());
        let files = Files::new(&[("/proc/net/tcp", &line), ("/proc/12/comm", "millstream\n")]);
        let system = files.system();
        fs::create_dir_all(system.path("/proc/12/fd")).unwrap();
        std::os::unix::fs::symlink("socket:[4711]", system.path("/proc/12/fd/3")).unwrap();
        let error = io::Error::from_raw_os_error(Errno::EADDRINUSE as i32);
        let finding = refused(&port(Protocol::Tcp, address), &error, &system);
        assert_eq!(finding.level, Level::Hint);
        assert!(finding.found.ends_with("in use by millstream (process 12)"), "{}", finding.found);
        let elsewhere = refused(&port(Protocol::Tcp, address), &error, &Files::new(&[]).system());
        assert!(elsewhere.found.contains("another program"), "without /proc: {}", elsewhere.found);
    }

    #[test]
    fn the_address_for_all_is_for_ipv4_as_well() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let everywhere =
            SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, taken.local_addr().unwrap().port()));
        assert_eq!(found(port(Protocol::Tcp, everywhere))[0].level, Level::Fault);
    }

    #[test]
    fn numbers_in_a_row_are_one_range() {
        assert_eq!(ranges(vec![8_002, 8_000, 8_001, 8_080, 8_000, u16::MAX]), "8000-8002, 8080, 65535");
        assert_eq!(ranges(Vec::new()), "");
    }

    #[test]
    fn an_address_of_another_machine_is_said() {
        let findings = found(port(Protocol::Tcp, "192.0.2.1:1935".parse().unwrap()));
        assert_eq!(findings[0].found, "192.0.2.1 is no address of this machine");
        assert_eq!(findings[0].level, Level::Fault);
    }

    #[test]
    fn ports_for_root_name_the_setting() {
        let error = io::Error::from_raw_os_error(Errno::EACCES as i32);
        let address = "0.0.0.0:443".parse().unwrap();
        let finding = refused(&port(Protocol::Tcp, address), &error, &Files::new(&[]).system());
        assert_eq!(finding.mend.unwrap(), "sysctl -w net.ipv4.ip_unprivileged_port_start=443");
    }

    #[test]
    fn ports_that_the_kernel_gives_away_are_found() {
        let wanted = Wanted {
            ports: [40_001, 40_000, 8_080, 40_000]
                .map(|number| port(Protocol::Udp, SocketAddr::from(([0, 0, 0, 0], number))))
                .into(),
            ..Wanted::default()
        };
        let range = ("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999");
        let reserved = "/proc/sys/net/ipv4/ip_local_reserved_ports";
        let mend = |files: &[_]| {
            ephemeral(&wanted, &Files::new(files).system()).map(|finding| finding.mend.unwrap())
        };
        let line = "sysctl -w net.ipv4.ip_local_reserved_ports=";
        assert_eq!(mend(&[range]).unwrap(), format!("{line}40000-40001"));
        assert_eq!(
            mend(&[range, (reserved, "50000,40001-40009")]).unwrap(),
            format!("{line}50000,40001-40009,40000")
        );
        assert_eq!(mend(&[range, (reserved, "40000-40001")]), None);
        assert_eq!(mend(&[("/proc/sys/net/ipv4/ip_local_port_range", "50000 60999")]), None);
        assert_eq!(mend(&[]), None, "no /proc");
    }
}
