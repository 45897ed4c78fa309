//! Hosts and the cable between them: anonymous network namespaces joined by a pair of virtual
//! Ethernet devices.
//!
//! A namespace has no name and no process; it lives as long as a descriptor of this process is
//! open, so nothing is left behind when a test panics or is killed. Needs `ip` (iproute2) and
//! `ethtool`; says nothing about senders.

use nix::sched::{CloneFlags, setns, unshare};
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio, id};
use std::thread;
use std::time::Duration;

/// A network stack of its own.
pub(crate) struct Host {
    namespace: File,
}

impl Host {
    /// A host with nothing but loopback. Needs `CAP_SYS_ADMIN`.
    pub(crate) fn new() -> io::Result<Self> {
        let namespace = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let host = Self { namespace: namespace.join().expect("a thread that only opens a file")? };
        host.ip("link set lo up");
        Ok(host)
    }

    /// Runs `work` on this host: sockets that it opens and threads and programs that it starts
    /// belong to the host, even when they are used from elsewhere later. A panic propagates to the
    /// caller.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let on_host = || {
            setns(&self.namespace, CloneFlags::CLONE_NEWNET).expect("entering a namespace that is open");
            work()
        };
        thread::scope(|scope| {
            scope.spawn(on_host).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs lines of `ip -batch` on this host; panics with what `ip` says when one fails.
    pub(crate) fn ip(&self, lines: &str) {
        self.program(&["ip", "-batch", "-"], lines);
    }

    /// Runs a program on this host with `input`, and returns its output; panics with its error
    /// output when it fails.
    pub(crate) fn program(&self, command: &[&str], input: &str) -> String {
        let output = self.run(|| -> io::Result<_> {
            let mut child = Command::new(command[0])
                .args(&command[1..])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            child.stdin.take().expect("piped").write_all(input.as_bytes())?;
            child.wait_with_output()
        });
        let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?} <<< {input:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Writes a setting of a device, or several, by their name below `/sys/class/net/DEVICE`.
    pub(crate) fn write_setting(&self, device: &str, name: &str, value: &str) {
        // Devices of a namespace are seen in a file system that was mounted in it.
        let script = format!(
            "mount -t sysfs none /sys && for file in /sys/class/net/{device}/{name}; do \
             echo {value} > $file || exit 1; done"
        );
        self.program(&["unshare", "--mount", "sh", "-c", &script], "");
    }

    /// One of the kernel's counters of this host, `Udp InCsumErrors` of `/proc/net/snmp` for
    /// example, or 0 when there is no such line.
    pub(crate) fn counter(&self, protocol: &str, name: &str) -> u64 {
        // `/proc/net` is the namespace of the process's first thread, not of this one.
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        let (snmp, snmp6) = self.run(|| (read("snmp"), read("snmp6")));
        if protocol.ends_with('6') {
            let mut lines = snmp6.lines().map(str::split_whitespace);
            let wanted = format!("{protocol}{name}");
            return lines
                .find_map(|mut line| (line.next()? == wanted).then(|| line.next()?.parse().ok())?)
                .unwrap_or(0);
        }
        let mut lines = snmp.lines().filter(|line| line.split(':').next() == Some(protocol));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
        let column = names.split_whitespace().position(|n| n == name);
        column.and_then(|column| values.split_whitespace().nth(column)?.parse().ok()).unwrap_or(0)
    }
}

/// Two hosts and the cable between them.
///
/// Neither device computes checksums or cuts segments: the sender's kernel does both before the
/// cable, and the receiver's kernel verifies each datagram, as between two machines.
pub(crate) struct Link {
    pub(crate) near: Host,
    pub(crate) far: Host,
}

/// The device of the near host, and of the far host.
pub(crate) const NEAR_DEVICE: &str = "near0";
pub(crate) const FAR_DEVICE: &str = "far0";

pub(crate) const NEAR_MAC: &str = "02:00:00:00:77:01";
pub(crate) const FAR_MAC: &str = "02:00:00:00:77:02";

/// The address of the near host, in both families.
pub(crate) const NEAR_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
pub(crate) const NEAR_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1));

/// The far host's addresses: several, so that a group does not have one next hop only.
pub(crate) const FAR_V4: [IpAddr; 3] = [far_v4(2), far_v4(3), far_v4(4)];
pub(crate) const FAR_V6: [IpAddr; 3] = [far_v6(2), far_v6(3), far_v6(4)];

const fn far_v4(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, host))
}

const fn far_v6(host: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host))
}

impl Link {
    /// Two hosts that reach each other, with permanent entries for each other's addresses.
    pub(crate) fn new() -> Self {
        Self::with_queues(1)
    }

    /// The same, by devices that have so many queues for sending, and as many for receiving.
    pub(crate) fn with_queues(queues: u32) -> Self {
        let (near, far) = (Host::new().expect("a namespace"), Host::new().expect("a namespace"));
        cable_with_queues(&near, &far, (NEAR_DEVICE, NEAR_MAC), (FAR_DEVICE, FAR_MAC), queues);
        let mut lines = String::new();
        for address in FAR_V4.iter().chain(&FAR_V6) {
            lines += &format!("neigh replace {address} lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent\n");
        }
        let addresses: String =
            FAR_V4.iter().chain(&FAR_V6).map(|address| address_line(*address, FAR_DEVICE)).collect();
        far.ip(&format!("{addresses}link set {FAR_DEVICE} up\n"));
        near.ip(&[NEAR_V4, NEAR_V6].map(|address| address_line(address, NEAR_DEVICE)).concat());
        near.ip(&format!("link set {NEAR_DEVICE} up\n{lines}"));
        for address in [NEAR_V4, NEAR_V6] {
            far.ip(&format!("neigh replace {address} lladdr {NEAR_MAC} dev {FAR_DEVICE} nud permanent"));
        }
        let link = Self { near, far };
        link.settle();
        link
    }

    /// A socket of the near host that sends from any of its addresses, without blocking. Others may
    /// share its port, which the sockets of the `io_uring` back end do.
    pub(crate) fn socket(&self, bind: IpAddr) -> UdpSocket {
        self.near.run(|| {
            let socket =
                Socket::new(Domain::for_address((bind, 0).into()), Type::DGRAM, None).expect("a socket");
            socket.set_reuse_port(true).expect("SO_REUSEPORT");
            socket.set_nonblocking(true).expect("O_NONBLOCK");
            socket.bind(&SocketAddr::from((bind, 0)).into()).expect("bind");
            socket.into()
        })
    }

    /// Waits until the cable carries datagrams in both directions.
    fn settle(&self) {
        for address in FAR_V4.into_iter().chain(FAR_V6) {
            await_reachable(&self.near, &self.far, address);
        }
        for address in [NEAR_V4, NEAR_V6] {
            await_reachable(&self.far, &self.near, address);
        }
    }

    /// How many datagrams the far host refused for their checksum, in either family.
    pub(crate) fn bad_checksums(&self) -> u64 {
        self.far.counter("Udp", "InCsumErrors") + self.far.counter("Udp6", "InCsumErrors")
    }

    /// How many datagrams the near host's own UDP sent, in either family. One message with segments
    /// counts once, and what passes the UDP stack by does not count.
    pub(crate) fn sent_by_stack(&self) -> u64 {
        self.near.counter("Udp", "OutDatagrams") + self.near.counter("Udp6", "OutDatagrams")
    }
}

/// Where datagrams come from that `socket` sends on the near host.
pub(crate) fn sources(socket: &UdpSocket) -> [SocketAddr; 2] {
    let port = socket.local_addr().expect("bound").port();
    [(NEAR_V4, port).into(), (NEAR_V6, port).into()]
}

/// Waits until datagrams from one host arrive at an address of the other: a device starts to send a
/// moment after it is set up, and the kernel takes up an address of IPv6 in its own time, also
/// without a check for duplicates.
pub(crate) fn await_reachable(from: &Host, to: &Host, address: IpAddr) {
    let bind = || UdpSocket::bind((address, 0));
    let receiver = (0..500).find_map(|_| to.run(bind).ok()).unwrap_or_else(|| panic!("bind {address}"));
    receiver.set_read_timeout(Some(Duration::from_millis(20))).expect("SO_RCVTIMEO");
    let destination = receiver.local_addr().expect("bound");
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let sender = from.run(|| UdpSocket::bind(any)).expect("bind");
    let arrives = || {
        let _ = sender.send_to(b"?", destination);
        receiver.recv(&mut [0; 1]).is_ok()
    };
    assert!((0..500).any(|_| arrives()), "nothing arrives at {destination}");
}

/// Lays a cable: a device on each host, both down and without addresses, with a MAC address each
/// and no offloads.
pub(crate) fn cable(one: &Host, other: &Host, device: (&str, &str), peer: (&str, &str)) {
    cable_with_queues(one, other, device, peer, 1);
}

fn cable_with_queues(one: &Host, other: &Host, device: (&str, &str), peer: (&str, &str), queues: u32) {
    let queues = format!("numtxqueues {queues} numrxqueues {queues}");
    let other_namespace = format!("/proc/{}/fd/{}", id(), other.namespace.as_raw_fd());
    one.ip(&format!(
        "link add {} address {} {queues} type veth peer name {} address {} {queues} netns {other_namespace}",
        device.0, device.1, peer.0, peer.1
    ));
    for (host, name) in [(one, device.0), (other, peer.0)] {
        host.program(
            &["ethtool", "-K", name, "tx", "off", "tso", "off", "gso", "off", "tx-udp-segmentation", "off"],
            "",
        );
        receive_here(host, name);
    }
}

/// Has what arrives at a device wait in the queue of this processor. It would wait in that of the
/// processor that sent it, so that a datagram of another processor, a timer's that opens a token
/// bucket for example, could overtake: no cable between two machines does that.
fn receive_here(host: &Host, device: &str) {
    let processor = nix::sched::sched_getcpu().expect("Linux has it");
    // A mask in hexadecimal, 32 processors a group.
    let mask = format!("{:x}{}", 1 << (processor % 32), ",00000000".repeat(processor / 32));
    host.write_setting(device, "queues/rx-*/rps_cpus", &mask);
}

fn address_line(address: IpAddr, device: &str) -> String {
    match address {
        IpAddr::V4(_) => format!("addr add {address}/24 dev {device}\n"),
        // Without a check for duplicates, which takes a second.
        IpAddr::V6(_) => format!("addr add {address}/64 dev {device} nodad\n"),
    }
}
