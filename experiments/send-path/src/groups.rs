//! The cases, in groups that are compared with their first case.

use crate::method::{Buffers, Method};
use crate::options::SenderOptions;
use crate::receiver::ReceiverOptions;
use crate::sender::{Cadence, Case};
use crate::stream::Stream;

pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) question: &'static str,
    /// Whether its cases run side by side.
    pub(crate) side_by_side: bool,
    pub(crate) cases: Vec<Case>,
}

/// All groups; most of them once per cadence.
pub(crate) fn all(stream: &Stream) -> Vec<Group> {
    let mut groups = Vec::new();
    for (name, period_us) in [("350", 350_000), ("100", 100_000), ("message", 0)] {
        let cadence = match period_us {
            0 => Cadence::EveryMessage,
            _ => Cadence::Spread { period_us, slot_us: SLOT_US },
        };
        let group = |kind: &str, question, side_by_side, cases| Group {
            name: format!("{kind}-{name}"),
            question,
            side_by_side,
            cases,
        };
        groups.push(group("methods", "which call is cheapest?", true, methods(cadence)));
        groups.push(group("options", "which socket options matter?", true, options(cadence)));
        groups.push(group("receiver", "do the receiver's options matter?", false, receiver(cadence)));
        if period_us > 0 {
            groups.push(group("timing", "does it matter when the turns come?", false, timing(period_us)));
        }
        groups.push(group("together", "what do the good ones save together?", false, together(period_us)));
    }
    let cases = SIZES.iter().map(|&(name, bytes)| {
        let period_us = (f64::from(bytes) / stream.bytes_per_ms() * 1000.0) as u64;
        case(name, Cadence::Spread { period_us, slot_us: SLOT_US }, Method::Send)
    });
    let question = "what do fewer and larger writes save at the same rate?";
    groups.push(Group { name: "sizes".into(), question, side_by_side: false, cases: cases.collect() });
    groups
}

fn methods(cadence: Cadence) -> Vec<Case> {
    let uring = |fixed_files, zero_copy| Method::Uring { fixed_files, zero_copy };
    let zero_copy = SenderOptions { zero_copy: true, ..Default::default() };
    vec![
        case("send", cadence, Method::Send),
        case("writev of two slices", cadence, Method::Writev),
        case("two sends", cadence, Method::TwoSends { more: false }),
        case("two sends, first MSG_MORE", cadence, Method::TwoSends { more: true }),
        case("cork, send, uncork", cadence, Method::Cork),
        case("io_uring", cadence, uring(false, None)),
        case("io_uring, fixed files", cadence, uring(true, None)),
        case("io_uring SEND_ZC, fixed files", cadence, uring(true, Some(Buffers::Plain))),
        case("io_uring SEND_ZC, fixed both", cadence, uring(true, Some(Buffers::Registered))),
        Case { sender: zero_copy, ..case("MSG_ZEROCOPY", cadence, Method::ZeroCopy) },
        case("sendfile from memfd", cadence, Method::Sendfile),
        case("tee + splice", cadence, Method::Tee),
    ]
}

fn options(cadence: Cadence) -> Vec<Case> {
    let with = |name, sender| Case { sender, ..case(name, cadence, Method::Send) };
    let default = SenderOptions::default();
    let send_buffer = |bytes| SenderOptions { send_buffer: Some(bytes), ..default };
    let congestion = |name| SenderOptions { congestion: Some(name), ..default };
    vec![
        with("defaults, TCP_NODELAY", default),
        with("no TCP_NODELAY", SenderOptions { nagle: true, ..default }),
        with("SO_SNDBUF 32 KiB", send_buffer(32 << 10)),
        with("SO_SNDBUF 128 KiB", send_buffer(128 << 10)),
        with("SO_SNDBUF 512 KiB", send_buffer(512 << 10)),
        with("TCP_NOTSENT_LOWAT 16 KiB", SenderOptions { not_sent_low: Some(16 << 10), ..default }),
        with("TCP_CONGESTION reno", congestion("reno")),
        with("TCP_CONGESTION cubic", congestion("cubic")),
        with("TCP_CONGESTION bbr", congestion("bbr")),
    ]
}

fn receiver(cadence: Cadence) -> Vec<Case> {
    let with = |name, receiver| Case { receiver, ..case(name, cadence, Method::Send) };
    let default = ReceiverOptions::default();
    vec![
        with("defaults", default),
        with("receiver: TCP_QUICKACK", ReceiverOptions { quick_ack: true, ..default }),
        with(
            "receiver: TCP_WINDOW_CLAMP 64 KiB",
            ReceiverOptions { window_clamp: Some(64 << 10), ..default },
        ),
    ]
}

fn timing(period_us: u64) -> Vec<Case> {
    let spread = |name, slot_us| case(name, Cadence::Spread { period_us, slot_us }, Method::Send);
    vec![
        spread("slots of 5 ms", SLOT_US),
        spread("slots of 1 ms", 1_000),
        spread("slots of 2 ms", 2_000),
        spread("slots of 10 ms", 10_000),
        spread("slots of 20 ms", 20_000),
        spread("slots of 50 ms", 50_000),
        spread("all at once", period_us),
        case(
            "slots of 5 ms, cut at key frames",
            Cadence::KeyCuts { period_us, slot_us: SLOT_US },
            Method::Send,
        ),
    ]
}

fn together(period_us: u64) -> Vec<Case> {
    let cadence = |slot_us| match period_us {
        0 => Cadence::EveryMessage,
        _ => Cadence::Spread { period_us, slot_us },
    };
    let uring = Method::Uring { fixed_files: true, zero_copy: None };
    let reno = SenderOptions { congestion: Some("reno"), ..Default::default() };
    let mut cases = vec![
        case("send", cadence(SLOT_US), Method::Send),
        case("io_uring, fixed files", cadence(SLOT_US), uring),
        Case { sender: reno, ..case("io_uring, fixed files, reno", cadence(SLOT_US), uring) },
    ];
    if period_us > 0 {
        cases.extend([
            case("send, slots of 20 ms", cadence(20_000), Method::Send),
            case("io_uring, fixed files, 20 ms", cadence(20_000), uring),
            case("sendfile, slots of 20 ms", cadence(20_000), Method::Sendfile),
        ]);
    }
    cases
}

fn case(name: &'static str, cadence: Cadence, method: Method) -> Case {
    Case { name, cadence, method, sender: SenderOptions::default(), receiver: ReceiverOptions::default() }
}

/// As in the server and in the floor of `scripts/bench rtmp-players`.
const SLOT_US: u64 = 5_000;

const SIZES: [(&str, u32); 7] = [
    ("1 kB", 1_000),
    ("2 kB", 2_000),
    ("4 kB", 4_000),
    ("8 kB", 8_000),
    ("16 kB", 16_000),
    ("32 kB", 32_000),
    ("64 kB", 64_000),
];
