//! Traffic that continues while routes and neighbours change, with the kernel's own ARP and
//! neighbour discovery, and a count of lost datagrams.
//!
//! A near host and two gateways on a switch. Both gateways have the addresses behind them, so that
//! either can receive, and it shows which one did. `changes.rs` has more kinds of change, made
//! between two calls and with entries by hand.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::{TIMEOUT_MS, wait_writable};
use crate::host::{Host, NEAR_DEVICE, NEAR_MAC, cable};
use group_send::{BackendKind, Recipient, Sender, Slot};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Privileged> {
    let mut trials = Vec::new();
    for kind in backends::all().into_iter().filter(|kind| writes_frames(*kind)) {
        let mut add = |name: &str, run: fn(&str, BackendKind)| {
            let name = format!("moving_targets::{kind}::{name}");
            let told = name.clone();
            trials.push(Privileged::new(name, Need::Switched(kind), move || run(&told, kind)));
        };
        add("a_route_is_replaced", a_route_is_replaced);
        add("a_gateway_dies_and_a_route_is_replaced", a_gateway_dies_and_a_route_is_replaced);
        add("a_neighbour_announces_another_mac", a_neighbour_announces_another_mac);
        add("a_neighbour_has_another_mac_and_says_nothing", a_neighbour_has_another_mac_and_says_nothing);
    }
    trials
}

fn writes_frames(kind: BackendKind) -> bool {
    matches!(kind, BackendKind::AfXdp | BackendKind::TcClone)
}

/// Recipients of each family.
const RECIPIENTS: usize = 6;

/// Rounds of traffic before and after a change.
const ROUNDS: usize = 100;

/// How long a round waits for its datagrams. Of those that come later none is lost either.
const ROUND_MS: u16 = 20;

/// A near host and two gateways, all on one switch, and the traffic from one to the others.
struct Course {
    near: Arc<Host>,
    gateways: [Arc<Host>; 2],
    _switch: Host,
    socket: UdpSocket,
    sender: Sender,
    destinations: Vec<SocketAddr>,
    /// By gateway, then by recipient.
    receivers: [Vec<UdpSocket>; 2],
    sent: usize,
    /// By gateway.
    received: [usize; 2],
}

impl Course {
    fn new(kind: BackendKind) -> Self {
        let [near, switch, first, second] = [(); 4].map(|()| Host::new().expect("a namespace"));
        switch.ip("link add switch type bridge\nlink set switch up");
        let hosts = [(&near, NEAR_DEVICE, 1), (&first, "gate0", 2), (&second, "gate0", 3)];
        for (host, device, number) in hosts {
            let port = format!("port{number}");
            let mac = if number == 1 { NEAR_MAC.to_owned() } else { format!("02:00:00:00:77:0{number}") };
            cable(host, &switch, (device, &mac), (&port, &format!("02:00:00:00:88:0{number}")));
            switch.ip(&format!("link set {port} master switch up"));
            host.ip(&format!(
                "addr add 10.77.0.{number}/24 dev {device}\naddr add fd77::{number}/64 dev {device} nodad
                 link set {device} up"
            ));
        }
        for gateway in [&first, &second] {
            gateway.ip("addr add 10.90.0.1/32 dev lo\naddr add fd90::1/128 dev lo nodad");
        }
        near.run(impatient_neighbours);
        near.ip("route add 10.90.0.0/16 via 10.77.0.2\nroute add fd90::/16 via fd77::2");
        let gateways = [first, second];
        let receivers = gateways.each_ref().map(|host| host.run(receivers));
        let socket = near.run(|| UdpSocket::bind("[::]:0")).expect("bind");
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        let sender = near.run(|| Sender::new(&socket, &backends::only(kind))).expect("a sender");
        let destinations = receivers[0].iter().map(|r| r.local_addr().expect("bound")).collect();
        let mut course = Self {
            near: Arc::new(near),
            gateways: gateways.map(Arc::new),
            _switch: switch,
            socket,
            sender,
            destinations,
            receivers,
            sent: 0,
            received: [0; 2],
        };
        course.run_until_whole();
        course.rounds(ROUNDS);
        (course.sent, course.received) = (0, [0; 2]);
        course
    }

    /// Sends one datagram to each recipient, and returns how many datagrams arrived meanwhile.
    fn round(&mut self) -> usize {
        let payload = [0x6d; 200];
        let recipients: Vec<_> = self
            .destinations
            .iter()
            .map(|destination| Recipient { destination: *destination, prepend: &[], append: &[] })
            .collect();
        let mut slots = vec![Slot::default(); recipients.len()];
        while self.sender.send_group(&[&payload], &recipients, &mut slots).blocked {
            wait_writable(&self.socket);
        }
        // One that the kernel could not send at once is lost as well.
        self.sent += slots.len();
        let before: usize = self.received.iter().sum();
        let arrived = |course: &Self| course.received.iter().sum::<usize>() - before;
        let end = now() + Duration::from_millis(ROUND_MS.into());
        while arrived(self) < slots.len() && now() < end {
            self.receive();
        }
        arrived(self)
    }

    /// Counts what has arrived, or waits a little for something to.
    fn receive(&mut self) {
        let mut wanted: Vec<_> = self
            .receivers
            .iter()
            .flatten()
            .map(|receiver| PollFd::new(receiver.as_fd(), PollFlags::POLLIN))
            .collect();
        poll(&mut wanted, PollTimeout::from(ROUND_MS)).expect("poll");
        for (gateway, receivers) in self.receivers.iter().enumerate() {
            for receiver in receivers {
                loop {
                    match receiver.recv(&mut [0; 256]) {
                        Ok(length) => assert_eq!(length, 200),
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => panic!("{error}"),
                    }
                    self.received[gateway] += 1;
                }
            }
        }
    }

    fn rounds(&mut self, rounds: usize) {
        (0..rounds).for_each(|_| _ = self.round());
    }

    /// Rounds until everybody is reached in some of them in a row; how many it took. The kernel may
    /// be asking for MAC addresses at first.
    fn run_until_whole(&mut self) -> usize {
        let end = now() + Duration::from_millis(TIMEOUT_MS.into());
        let (mut rounds, mut whole) = (0, 0);
        while whole < 10 {
            assert!(now() < end, "not everybody is reached after {rounds} rounds");
            whole = if self.round() == self.destinations.len() { whole + 1 } else { 0 };
            rounds += 1;
        }
        rounds - whole
    }

    /// Goes on with rounds while another thread makes the change, and until that is done.
    fn rounds_during(&mut self, change: impl FnOnce(&Host, &[Arc<Host>; 2]) + Send) {
        let hosts = (Arc::clone(&self.near), self.gateways.clone());
        thread::scope(|scope| {
            let change = scope.spawn(move || change(&hosts.0, &hosts.1));
            while !change.is_finished() {
                self.round();
            }
        });
    }

    /// Datagrams lost since the traffic began, once everything in flight has arrived.
    fn lost(&mut self) -> usize {
        let end = now() + Duration::from_millis(500);
        while self.received.iter().sum::<usize>() < self.sent && now() < end {
            self.receive();
        }
        let received: usize = self.received.iter().sum();
        assert!(received <= self.sent, "{received} of {} arrived", self.sent);
        self.sent - received
    }

    /// Whether frames reach everybody: the kernel's own UDP has sent nothing, or with `tc_clone`
    /// one to be copied for each family. A neighbour that is just being confirmed takes some
    /// seconds of one recipient's datagrams.
    fn frames_again(&mut self) {
        let end = now() + Duration::from_millis(TIMEOUT_MS.into());
        let sent_by_stack =
            |near: &Host| near.counter("Udp", "OutDatagrams") + near.counter("Udp6", "OutDatagrams");
        loop {
            let before = sent_by_stack(&self.near);
            let arrived = self.round();
            if arrived == self.destinations.len() && sent_by_stack(&self.near) - before <= 2 {
                return;
            }
            assert!(now() < end, "it stays with the socket");
        }
    }
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a limit for what must come, and how long the kernel took")]
    Instant::now()
}

/// Sockets on a gateway: some of each family, with the same ports on all gateways.
fn receivers() -> Vec<UdpSocket> {
    let bind = |host: &str, n: usize| {
        let address: SocketAddr = format!("{host}:{}", 7000 + n).parse().expect("an address");
        let socket = UdpSocket::bind(address).expect("bind");
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        socket
    };
    (0..2 * RECIPIENTS).map(|n| bind(if n < RECIPIENTS { "10.90.0.1" } else { "[fd90::1]" }, n)).collect()
}

/// Has the kernel doubt its neighbours after a third of a second, not half a minute, and ask for a
/// second, not eight.
fn impatient_neighbours() {
    for family in ["ipv4", "ipv6"] {
        let settings =
            [("base_reachable_time_ms", "300"), ("delay_first_probe_time", "1"), ("retrans_time_ms", "100")];
        for (name, value) in settings {
            let file = format!("/proc/sys/net/{family}/neigh/{NEAR_DEVICE}/{name}");
            std::fs::write(&file, value).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
    }
}

/// Nothing is lost: the old gateway is there until the kernel has found the new one's MAC address.
fn a_route_is_replaced(name: &str, kind: BackendKind) {
    let mut course = Course::new(kind);
    for gateway in [3, 2, 3] {
        course.rounds_during(|near, _| {
            near.ip(&format!(
                "route replace 10.90.0.0/16 via 10.77.0.{gateway}
                 route append fd90::/16 via fd77::{gateway}\nroute del fd90::/16 via fd77::{}",
                5 - gateway
            ));
        });
        assert_eq!(course.lost(), 0, "of {}", course.sent);
        let old = course.received[3 - gateway];
        let new = course.received[gateway - 2];
        course.rounds(ROUNDS);
        assert_eq!(course.lost(), 0, "of {}", course.sent);
        assert_eq!(course.received[3 - gateway], old, "the old gateway gets nothing more");
        assert!(course.received[gateway - 2] >= new + ROUNDS * course.destinations.len());
        course.frames_again();
    }
    eprintln!("{name}: lost 0 of {}", course.sent);
}

/// Lost is what is sent between the gateway's death and the new route, and nothing later.
fn a_gateway_dies_and_a_route_is_replaced(name: &str, kind: BackendKind) {
    let mut course = Course::new(kind);
    course.rounds_during(|near, gateways| {
        gateways[0].ip("link set gate0 down");
        near.ip("route replace 10.90.0.0/16 via 10.77.0.3
                 route append fd90::/16 via fd77::3\nroute del fd90::/16 via fd77::2");
    });
    let (lost, sent) = (course.lost(), course.sent);
    course.rounds(ROUNDS);
    assert_eq!(course.lost(), lost, "nothing more is lost");
    course.frames_again();
    eprintln!("{name}: lost {lost} of the {sent} sent until the route was replaced, and none after");
}

/// A gateway gets another device and says so (RFC 5227 section 3, RFC 4861 section 7.2.6).
fn a_neighbour_announces_another_mac(name: &str, kind: BackendKind) {
    let mut course = Course::new(kind);
    course.gateways[0].run(|| {
        std::fs::write("/proc/sys/net/ipv4/conf/gate0/arp_notify", "1").expect("a sysctl");
        std::fs::write("/proc/sys/net/ipv6/conf/gate0/ndisc_notify", "1").expect("a sysctl");
    });
    course.rounds_during(|_, gateways| gateways[0].ip("link set gate0 address 02:00:00:00:77:44"));
    let rounds = course.run_until_whole();
    let (lost, sent) = (course.lost(), course.sent);
    course.rounds(ROUNDS);
    assert_eq!(course.lost(), lost, "nothing more is lost");
    course.frames_again();
    assert_eq!(course.received[1], 0);
    eprintln!("{name}: lost {lost} of {sent}, none after {rounds} rounds");
}

/// A gateway moves to another device silently: frames for the old one are lost until the kernel
/// considers the entry stale, probes it without an answer, and broadcasts a request. The datagrams
/// of one recipient through the socket trigger that.
fn a_neighbour_has_another_mac_and_says_nothing(name: &str, kind: BackendKind) {
    let mut course = Course::new(kind);
    course.rounds_during(|_, gateways| gateways[0].ip("link set gate0 address 02:00:00:00:77:44"));
    let start = now();
    let rounds = course.run_until_whole();
    let (lost, sent, took) = (course.lost(), course.sent, start.elapsed());
    course.rounds(ROUNDS);
    assert_eq!(course.lost(), lost, "nothing more is lost");
    course.frames_again();
    assert_eq!(course.received[1], 0);
    eprintln!("{name}: lost {lost} of {sent} in {rounds} rounds ({took:.1?}), none after");
}
