//! Segmentation offload is used where possible, and a refusal loses no byte. The kernel's own
//! counter distinguishes runs from single datagrams: a message counts once, however many segments
//! it has.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::group::{Part, bytes};
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, send_whole};
use crate::every_byte::Family;
use crate::host::{FAR_DEVICE, FAR_V4, Link, NEAR_DEVICE, sources};
use group_send::socket::{self, DepartureClock};
use group_send::{BackendKind, BatchLimits, Config, Envelope, SendBatch, Sender};
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};

pub(crate) fn trials() -> Vec<Privileged> {
    let gso = |name: &str, run: fn()| {
        Privileged::new(format!("segmentation::{name}"), Need::Backend(BackendKind::Gso), run)
    };
    vec![
        gso("equal_packets_are_one_message", equal_packets_are_one_message),
        gso("sixty_five_packets_are_two_messages", sixty_five_packets_are_two_messages),
        gso("messages_stay_below_64_kilobytes", messages_stay_below_64_kilobytes),
        gso("unequal_packets_are_runs", unequal_packets_are_runs),
        gso("departure_times_divide_runs", departure_times_divide_runs),
        gso("narrow_path_keeps_the_others_joined", narrow_path_keeps_the_others_joined),
        gso("many_narrow_paths_keep_the_others_joined", many_narrow_paths_keep_the_others_joined),
        gso("a_twin_loses_nothing_on_a_narrow_path", a_twin_loses_nothing_on_a_narrow_path),
        gso("refused_everywhere", refused_everywhere),
    ]
}

struct Scene {
    link: Link,
    socket: UdpSocket,
    sender: Sender,
}

impl Scene {
    fn new(family: Family) -> Self {
        Self::with(Link::new(), family)
    }

    fn with(link: Link, family: Family) -> Self {
        let socket = link.socket(family.wildcard());
        let sender =
            link.near.run(|| Sender::new(&socket, &backends::only(BackendKind::Gso))).expect("a sender");
        Self { link, socket, sender }
    }

    fn receivers(&self, far: &[IpAddr], count: usize) -> Receivers {
        self.link.far.run(|| Receivers::bind(far, count)).from(&sources(&self.socket))
    }

    /// Sends the group, checks every byte, and returns how many messages that took.
    fn messages(&mut self, group: &Group, receivers: &mut Receivers) -> u64 {
        let before = self.link.sent_by_stack();
        let (slots, _) = send_whole(group, &mut self.sender, &self.socket);
        let messages = self.link.sent_by_stack() - before;
        assert_all_sent(group, &slots);
        receivers.expect_group(group);
        messages
    }
}

fn equal_packets_are_one_message() {
    for family in [Family::V4, Family::V6, Family::Mixed] {
        let mut scene = Scene::new(family);
        let mut receivers = scene.receivers(&family.far(), 30);
        for (packets, sizes, private) in [
            (2, Sizes::Equal(1200), Private::None),
            (8, Sizes::Equal(1000), Private::Same),
            (8, Sizes::Last(1000, 1), Private::Each),
            (64, Sizes::Equal(200), Private::Same),
        ] {
            let group = Group::new(&receivers.addresses(), packets, sizes, private);
            assert_eq!(scene.messages(&group, &mut receivers), 30, "{}", group.remark);
        }
    }
}

/// More packets than a message has segments.
fn sixty_five_packets_are_two_messages() {
    let mut scene = Scene::new(Family::V4);
    let mut receivers = scene.receivers(&FAR_V4, 7);
    let group = Group::new(&receivers.addresses(), 65, Sizes::Equal(300), Private::None);
    let messages = scene.messages(&group, &mut receivers);
    // A chunk that ends within a recipient's packets costs one message more.
    assert!((14..=14 + 2).contains(&messages), "{messages} messages");
}

/// As many segments as a message has, and as many bytes as one can have, in both families.
fn messages_stay_below_64_kilobytes() {
    for family in [Family::V4, Family::V6] {
        let mut scene = Scene::new(family);
        let mut receivers = scene.receivers(&family.far(), 8);
        for (bytes, messages) in [(1023, 1), (1024, 2), (1200, 2), (1400, 2)] {
            let group = Group::new(&receivers.addresses(), 64, Sizes::Equal(bytes), Private::None);
            assert_eq!(scene.messages(&group, &mut receivers), 8 * messages, "{}", group.remark);
        }
    }
}

fn unequal_packets_are_runs() {
    let mut scene = Scene::new(Family::V4);
    let mut receivers = scene.receivers(&FAR_V4, 7);
    // A run ends with a shorter packet, and before a longer one: 9 9 9 5 | 9 9 9 5.
    const SIZES: Sizes = Sizes::Cycle(&[900, 900, 900, 500]);
    let group = Group::new(&receivers.addresses(), 8, SIZES, Private::None);
    assert_eq!(scene.messages(&group, &mut receivers), 7 * 2);
}

/// A message leaves at one time, so packets with another one are another message.
fn departure_times_divide_runs() {
    let mut scene = Scene::new(Family::V4);
    socket::enable_txtime(&scene.socket, DepartureClock::Monotonic).expect("SO_TXTIME");
    let mut receivers = scene.receivers(&FAR_V4, 1);
    let datagram = |turn: usize| bytes(Part::Shared, 0, turn, 400);
    for (times, messages) in [([1; 8], 1), ([1, 1, 1, 1, 2, 2, 2, 2], 2), ([1, 2, 3, 4, 5, 6, 7, 8], 8)] {
        let mut batch = SendBatch::new(BatchLimits::default());
        for (turn, departure_ns) in times.into_iter().enumerate() {
            let envelope = Envelope { departure_ns, ..receivers.addresses()[0].into() };
            batch.push(envelope, &datagram(turn)).expect("room in the batch");
        }
        let before = scene.link.sent_by_stack();
        let progress = scene.sender.flush(&mut batch, usize::MAX);
        assert_eq!((progress.sent, progress.failed), (8, 0));
        assert_eq!(scene.link.sent_by_stack() - before, messages, "{times:?}");
        receivers.expect(0, (0..8).map(datagram), "with departure times");
    }
}

/// One recipient's path takes shorter packets only: the kernel refuses its runs and cuts its
/// packets into fragments.
fn narrow_path_keeps_the_others_joined() {
    let mut scene = Scene::new(Family::V4);
    let narrow = FAR_V4[1];
    scene.link.near.ip(&format!("route add {narrow}/32 dev {NEAR_DEVICE} mtu lock 1000"));
    let mut receivers = scene.receivers(&[FAR_V4[0], FAR_V4[0], narrow, FAR_V4[2]], 8);
    let group = Group::new(&receivers.addresses(), 6, Sizes::Equal(1200), Private::Same);
    for _ in 0..3 {
        assert_eq!(scene.messages(&group, &mut receivers), 6 + 2 * 6);
    }
    // What fits the path still travels together.
    let group = Group::new(&receivers.addresses(), 6, Sizes::Equal(700), Private::Same);
    assert_eq!(scene.messages(&group, &mut receivers), 8);
}

/// Forty recipients behind a tunnel, and the first ones of the group: no reason to give up joining
/// for everybody.
fn many_narrow_paths_keep_the_others_joined() {
    let link = Link::new();
    let narrow: Vec<IpAddr> = (1..=40).map(|host| IpAddr::from([10, 78, 0, host])).collect();
    link.far.ip(&narrow.iter().map(|ip| format!("addr add {ip}/32 dev {FAR_DEVICE}\n")).collect::<String>());
    link.near.ip(&format!("route add 10.78.0.0/24 via {} dev {NEAR_DEVICE} mtu lock 1000", FAR_V4[0]));
    let mut scene = Scene::with(link, Family::V4);
    let far: Vec<IpAddr> = narrow.into_iter().chain([FAR_V4[0]; 40]).collect();
    let mut receivers = scene.receivers(&far, 80);
    let group = Group::new(&receivers.addresses(), 4, Sizes::Equal(1200), Private::None);
    for _ in 0..3 {
        assert_eq!(scene.messages(&group, &mut receivers), 40 * 4 + 40);
    }
}

/// The twin has DF on all it sends. What does not fit the path leaves in fragments nevertheless, from
/// the same address.
fn a_twin_loses_nothing_on_a_narrow_path() {
    let mut scene = Scene::new(Family::V4);
    let config = Config { twin: true, ..backends::only(BackendKind::Gso) };
    scene.sender = scene.link.near.run(|| Sender::new(&scene.socket, &config)).expect("a sender");
    assert_eq!(scene.sender.twin_refused(), None);
    let narrow = FAR_V4[1];
    scene.link.near.ip(&format!("route add {narrow}/32 dev {NEAR_DEVICE} mtu 1000"));
    let mut receivers = scene.receivers(&[FAR_V4[0], narrow, FAR_V4[2]], 6);
    for sizes in [Sizes::Equal(1200), Sizes::Distinct, Sizes::Last(1100, 3), Sizes::Equal(700)] {
        let group = Group::new(&receivers.addresses(), 6, sizes, Private::Same);
        scene.messages(&group, &mut receivers);
    }
}

/// A socket whose runs the kernel refuses, whatever the recipient: it does not compute checksums
/// (`SO_NO_CHECK`).
fn refused_everywhere() {
    let mut scene = Scene::new(Family::V4);
    without_checksums(&scene.socket);
    let mut receivers = scene.receivers(&FAR_V4, 50);
    for sizes in [Sizes::Equal(1200), Sizes::Last(1000, 3), Sizes::Distinct] {
        let group = Group::new(&receivers.addresses(), 5, sizes, Private::Each);
        assert_eq!(scene.messages(&group, &mut receivers), 50 * 5, "{}", group.remark);
    }
}

/// Sets an option that only the socket's own interface has: by another program, which gets the
/// socket as its input.
fn without_checksums(socket: &UdpSocket) {
    const SCRIPT: &str = "import socket; socket.socket(fileno=0).setsockopt(socket.SOL_SOCKET, 11, 1) # SO_NO_CHECK (socket.h)";
    let input = std::os::fd::OwnedFd::from(socket.try_clone().expect("dup"));
    let done =
        Command::new("python3").args(["-c", SCRIPT]).stdin(Stdio::from(input)).status().expect("python3");
    assert!(done.success(), "setting SO_NO_CHECK");
}
