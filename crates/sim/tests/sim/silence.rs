//! Silence is no fault of players: of a publisher, between two publishers, and their own if they pause.
//! All of it lasts longer than a player may take no byte while some wait for it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use netsim::kernel::{self, Faults, Path};
use sim::actors::flv::{Carrier, FlvPlayer};
use sim::actors::rtmp_play::{self, RtmpPlayer};
use sim::actors::rtmp_publish::{self, RtmpPublisher};
use sim::actors::{Leave, Shows};
use sim::ledger::{Ledger, StreamKey};
use sim::server::Server;
use sim::world::{Schedule, World};
use worker_api::pattern::Pattern;
use worker_api::settings::{Application, ApplicationSettings, WorkerSettings};

const KEY: StreamKey = StreamKey { server: 0, stream: 0 };
const STALL_TIMEOUT: Duration = Duration::from_millis(700);
const LASTS: Duration = Duration::from_secs(20);
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// One server with two workers, on one of which a stream is published; from a seed.
fn world(seed: u64) -> World {
    kernel::begin(seed, Path::default(), Faults::default());
    let mut ledger = Ledger::new(seed);
    let settings = ApplicationSettings {
        player_stall_timeout: STALL_TIMEOUT,
        wait_for_publisher: None,
        ..ApplicationSettings::default()
    };
    let mut settings = WorkerSettings {
        workers: 2,
        applications: vec![Application { pattern: Pattern::new("*"), settings: Arc::new(settings) }],
        ..WorkerSettings::default()
    };
    settings.rtc.udp = vec![SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 9_000)];
    settings.transcoding.streams_max = 0;
    let server = Server::start(&mut ledger, Ipv4Addr::new(10, 0, 0, 1).into(), settings, None, None);
    World::new(seed, ledger, vec![server], Schedule::default())
}

fn client(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 1, 0, host).into()
}

fn publishes() -> rtmp_publish::Plan {
    rtmp_publish::Plan {
        key: KEY,
        from: client(1),
        gop: 25,
        video_bytes: 600,
        lasts: FOR_EVER,
        leave: Leave::Properly,
        retries: 0,
        is_steady: true,
        shows: Shows::Token,
        burst: Duration::ZERO,
        returns: (0, Duration::ZERO),
    }
}

fn plays(host: u8) -> rtmp_play::Plan {
    rtmp_play::Plan {
        key: KEY,
        at: KEY.server,
        from: client(host),
        bytes_per_second: None,
        lasts: FOR_EVER,
        leave: Leave::Properly,
        is_steady: true,
        shows: Shows::Token,
        naps: None,
        pauses: None,
    }
}

/// Two players of each protocol, so that workers have players of streams that come from another as well.
fn add_players(world: &mut World) {
    for pair in 0..2 {
        let plan = plays(10 + pair);
        world.arrive(Duration::ZERO, Box::new(|ledger| Box::new(RtmpPlayer::new(ledger, plan))));
        for (at, carrier) in [Carrier::Plain, Carrier::Chunked, Carrier::WebSocket].into_iter().enumerate() {
            let plan = plays(20 + 10 * at as u8 + pair);
            world.arrive(
                Duration::ZERO,
                Box::new(move |ledger| Box::new(FlvPlayer::new(ledger, plan, carrier))),
            );
        }
    }
}

fn add_publisher(world: &mut World, plan: rtmp_publish::Plan) {
    world.arrive(Duration::ZERO, Box::new(|ledger| Box::new(RtmpPublisher::new(ledger, plan))));
}

/// Runs it; all `clients` are there at the end, and got this many frames between them.
fn stay(world: &mut World, clients: usize, frames: std::ops::Range<u64>) {
    world.run_until(LASTS);
    assert!(world.ledger.violations.is_empty(), "{:?}", world.ledger.violations);
    assert_eq!(world.actors(), clients, "all of them stay");
    let received = world.ledger.frames_received;
    assert!(frames.contains(&received), "{received} frames");
}

#[test]
fn players_stay_while_the_publisher_says_nothing() {
    for seed in 0..4 {
        let mut world = world(seed);
        add_publisher(&mut world, rtmp_publish::Plan { burst: Duration::from_millis(1_500), ..publishes() });
        add_players(&mut world);
        // 50 frames a second for each of eight.
        stay(&mut world, 1 + 8, 8 * 50 * 17..8 * 50 * 20 + 1);
    }
}

#[test]
fn players_stay_while_there_is_no_publisher() {
    for seed in 0..4 {
        let mut world = world(seed);
        let returns = (100, Duration::from_millis(1_500));
        add_publisher(
            &mut world,
            rtmp_publish::Plan { lasts: Duration::from_millis(500), returns, ..publishes() },
        );
        add_players(&mut world);
        // A quarter of the time somebody publishes.
        stay(&mut world, 1 + 8, 8 * 50 * 3..8 * 50 * 6);
    }
}

#[test]
fn a_player_that_pauses_is_not_stalled() {
    for seed in 0..4 {
        let mut world = world(seed);
        add_publisher(&mut world, publishes());
        let pauses = Some((Duration::from_secs(3), Duration::from_secs(15)));
        for host in [10, 11] {
            let plan = rtmp_play::Plan { pauses, ..plays(host) };
            world.arrive(Duration::ZERO, Box::new(|ledger| Box::new(RtmpPlayer::new(ledger, plan))));
        }
        // It goes on at a key frame, one of which comes every second; nothing is sent meanwhile.
        stay(&mut world, 1 + 2, 2 * 50 * 6..2 * 50 * 10);
    }
}
