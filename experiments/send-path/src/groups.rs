//! The cases, in groups that are compared with their first case.

use crate::method::{Buffers, Method};
use crate::options::SenderOptions;
use crate::receiver::ReceiverOptions;
use crate::sender::{Cadence, Case};
use crate::stream::Stream;

pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) question: &'static str,
    pub(crate) cases: Vec<Case>,
}

/// All groups; `methods` and `options` once per cadence.
pub(crate) fn all(stream: &Stream) -> Vec<Group> {
    let cadences = [
        ("350", Cadence::Spread { period_us: 350_000 }),
        ("100", Cadence::Spread { period_us: 100_000 }),
        ("message", Cadence::EveryMessage),
    ];
    let mut groups = Vec::new();
    for (name, cadence) in cadences {
        let group = |kind: &str, question, cases| Group { name: format!("{kind}-{name}"), question, cases };
        groups.push(group("methods", "which call is cheapest?", methods(cadence)));
        groups.push(group("options", "which socket options matter?", options(cadence)));
        if let Cadence::Spread { period_us } = cadence {
            groups.push(group("timing", "does it matter when the players' turns come?", timing(period_us)));
        }
    }
    let cases = SIZES.iter().map(|&(name, bytes)| {
        let period_us = (f64::from(bytes) / stream.bytes_per_ms() * 1000.0) as u64;
        case(name, Cadence::Spread { period_us }, Method::Send)
    });
    let question = "what do fewer and larger writes save at the same rate?";
    groups.push(Group { name: "sizes".into(), question, cases: cases.collect() });
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
    let at_receiver = |name, receiver| Case { receiver, ..case(name, cadence, Method::Send) };
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
        at_receiver("receiver: TCP_QUICKACK", ReceiverOptions { quick_ack: true, ..Default::default() }),
        at_receiver(
            "receiver: TCP_WINDOW_CLAMP 64 KiB",
            ReceiverOptions { window_clamp: Some(64 << 10), ..Default::default() },
        ),
    ]
}

fn timing(period_us: u64) -> Vec<Case> {
    vec![
        case("spread over the period", Cadence::Spread { period_us }, Method::Send),
        case("all at once", Cadence::Burst { period_us }, Method::Send),
        case("same batches, cut at key frames", Cadence::KeyCuts { period_us }, Method::Send),
    ]
}

fn case(name: &'static str, cadence: Cadence, method: Method) -> Case {
    Case { name, cadence, method, sender: SenderOptions::default(), receiver: ReceiverOptions::default() }
}

const SIZES: [(&str, u32); 7] = [
    ("1 kB", 1_000),
    ("2 kB", 2_000),
    ("4 kB", 4_000),
    ("8 kB", 8_000),
    ("16 kB", 16_000),
    ("32 kB", 32_000),
    ("64 kB", 64_000),
];
