//! What does a viewer cost when no media flows: a consent check answered, a forged one refused, and memory
//! held?
//!
//! Beside it the ICE-lite agent of crate `is`, which could answer the checks as well, with the HMAC it
//! comes with. Checks have a transaction id of their own each; the figures are nanoseconds per datagram,
//! the best of several rounds, and bytes of resident memory per peer over a few thousand of them.
//!
//! Run: `cargo bench -p rtc --bench peer`.

#[path = "../tests/rtc/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use common::{
    CLIENT_PASSWORD, CLIENT_UFRAG, SERVER_PASSWORD, SERVER_UFRAG, World, client_config, client_path,
    genuine_check, millis, server_config,
};
use is::stun::{StunMessage, StunPacket};
use is::{IceAgent, IceCreds, Protocol};
use rtc::dtls::DtlsVersion;
use rtc::{Peer, Signal};
use rtc_test::stun::Check;

const CHECKS: usize = 10_000;
const ROUNDS: usize = 7;

fn main() {
    // Cargo passes `--bench` to it.
    match std::env::args().nth(1).filter(|argument| STATES.contains(&argument.as_str())) {
        Some(state) => measure(&state),
        None => {
            times();
            memory();
        }
    }
}

fn times() {
    let checks: Vec<Vec<u8>> = (0..CHECKS as u64).map(|number| genuine_check(number).bytes()).collect();
    let of = |change: fn(&mut Check)| -> Vec<Vec<u8>> {
        let change = |number| {
            let mut check = genuine_check(number);
            change(&mut check);
            check.bytes()
        };
        (0..CHECKS as u64).map(change).collect()
    };
    let forged = of(|check| check.password = "another+password+of+24ch".to_owned());
    let stray = of(|check| check.username = "serverUF:othr".to_owned());
    println!("a check answered           {:>8.0} ns", best(|| answered(&checks, true)));
    println!("  by the agent of `is`     {:>8.0} ns", best(|| answered_by_is(&checks)));
    println!("a check, wrong integrity   {:>8.0} ns", best(|| answered(&forged, false)));
    println!("a check, wrong username    {:>8.0} ns", best(|| answered(&stray, false)));
    println!("finding its session's name {:>8.0} ns", best(|| named(&checks)));
}

/// Nanoseconds per datagram.
fn best(run: impl Fn()) -> f64 {
    let times = (0..ROUNDS).map(|_| {
        let began = now();
        run();
        began.elapsed()
    });
    times.min().expect("several rounds").as_nanos() as f64 / CHECKS as f64
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}

fn answered(checks: &[Vec<u8>], genuine: bool) {
    let start = now();
    let mut peer = Peer::new(server_config(), start).expect("a good configuration");
    for check in checks {
        assert_eq!(peer.handle_signal(start, client_path(), check) == Signal::Accepted, genuine);
        assert_eq!(black_box(peer.poll_transmit()).is_some(), genuine);
    }
}

fn is_agent(start: Instant) -> IceAgent {
    let creds = |ufrag: &str, pass: &str| IceCreds { ufrag: ufrag.to_owned(), pass: pass.to_owned() };
    let mut agent = IceAgent::new(creds(SERVER_UFRAG, SERVER_PASSWORD));
    agent.set_ice_lite(true);
    agent.set_remote_credentials(creds(CLIENT_UFRAG, CLIENT_PASSWORD));
    agent.add_local_candidate(is::Candidate::host(client_path().local, Protocol::Udp).expect("an address"));
    agent.handle_timeout(start);
    agent
}

fn answered_by_is(checks: &[Vec<u8>]) {
    let start = now();
    let mut agent = is_agent(start);
    for check in checks {
        assert!(check_is(&mut agent, start, check));
    }
}

fn check_is(agent: &mut IceAgent, start: Instant, check: &[u8]) -> bool {
    let message = StunMessage::parse(check).expect("well-formed");
    let (source, destination) = (client_path().remote, client_path().local);
    let taken = agent.handle_packet(start, StunPacket { proto: Protocol::Udp, source, destination, message });
    taken && black_box(agent.poll_transmit()).is_some()
}

fn named(checks: &[Vec<u8>]) {
    for check in checks {
        assert_eq!(black_box(rtc::demux::stun_local_ufrag(check)), Some(SERVER_UFRAG));
    }
}

/// What a peer can be in when its memory is measured.
const STATES: [&str; 5] = ["waiting", "checked", "connected-1.2", "connected-1.3", "agent-of-is"];

/// Each in a process of its own, where nothing has been freed that could be used again.
fn memory() {
    println!("Peer itself                {:>8} B", size_of::<Peer>());
    let program = std::env::current_exe().expect("this program");
    for state in STATES {
        let output = std::process::Command::new(&program).arg(state).output().expect("this program runs");
        println!("{state:<27}{:>8} B", String::from_utf8_lossy(&output.stdout).trim());
    }
}

fn measure(state: &str) {
    let waiting = |_| Peer::new(server_config(), now()).expect("a good configuration");
    let checked = |number| {
        let mut peer = waiting(number);
        let check = genuine_check(1).without_nomination().bytes();
        assert_eq!(peer.handle_signal(now(), client_path(), &check), Signal::Accepted);
        while peer.poll_transmit().is_some() {}
        peer
    };
    let connected = |version: DtlsVersion| {
        move |seed| {
            let mut client = client_config();
            client.dtls.versions = vec![version];
            let mut world = World::of(client, server_config(), seed);
            assert!(world.run_until(millis(5000), World::is_connected));
            world.run(millis(2000));
            world.server.peer
        }
    };
    let agent = |_| {
        let mut agent = is_agent(now());
        assert!(check_is(&mut agent, now(), &genuine_check(1).bytes()));
        agent
    };
    let bytes = match state {
        "waiting" => resident(waiting),
        "checked" => resident(checked),
        "connected-1.2" => resident(connected(DtlsVersion::V1_2)),
        "connected-1.3" => resident(connected(DtlsVersion::V1_3)),
        _ => resident(agent),
    };
    println!("{bytes}");
}

/// Resident bytes of one of many, beyond those made first.
fn resident<T>(make: impl Fn(u64) -> T) -> usize {
    const MANY: u64 = 1000;
    let mut kept: Vec<T> = Vec::with_capacity(2 * MANY as usize);
    kept.extend((0..MANY / 4).map(&make));
    let before = resident_bytes();
    kept.extend((0..MANY).map(&make));
    let after = resident_bytes();
    black_box(&kept);
    after.saturating_sub(before) / MANY as usize
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}
