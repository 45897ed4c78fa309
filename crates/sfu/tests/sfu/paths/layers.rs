//! Which layer of a simulcast a viewer gets over paths that change, and how long it takes.

use std::time::Duration;

use netsim::bottleneck::Trace;

use super::world::{World, quantile};

const SECOND: Duration = Duration::from_secs(1);
const RATES: [f64; 3] = [150e3, 500e3, 1.7e6];

/// What a viewer saw of a path: bits of the layers that it was shown against those of the best that fits,
/// the wait of 95 % of packets, and the time without a picture.
struct Figures {
    utilisation: f64,
    waits: Duration,
    frozen: Duration,
}

fn figures(world: &World, trace: &Trace, seconds: u64) -> Figures {
    let seat = &world.seats[&1];
    let seen = &seat.seen;
    let shown: f64 = seen.layers.iter().map(|layer| RATES[usize::from(*layer)] / 25.0).sum();
    let best = |rate: f64| RATES.iter().rev().copied().find(|layer| 1.05 * layer <= rate).unwrap_or(RATES[0]);
    let could: f64 = (0..10 * seconds).map(|at| best(trace.at(at * 100_000)) * 0.1).sum();
    let gaps = seen.pictures.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let long = gaps.filter(|gap| *gap > Duration::from_millis(190));
    Figures {
        utilisation: shown / could,
        waits: quantile(seen.waits.iter().map(|(_, wait)| *wait), 0.95),
        frozen: long.map(|gap| gap - Duration::from_millis(40)).sum(),
    }
}

fn play(trace: Trace, seconds: u64, reports: u64) -> Figures {
    let mut world = World::simulcast(&RATES, Some(250));
    world.report_interval = Duration::from_millis(reports);
    world.trace = Some(trace.clone());
    world.run(Duration::from_millis(1_100));
    world.join(1, 2.5e6, true);
    world.run(seconds as u32 * SECOND);
    if std::env::var_os("DRAW_PATHS").is_some() {
        let seen = &world.seats[&1].seen;
        for at in 0..4 * seconds {
            let (from, to) =
                (world.start + SECOND / 4 * at as u32, world.start + SECOND / 4 * (at + 1) as u32);
            let of =
                seen.pictures.iter().zip(&seen.layers).filter(|((when, ..), _)| (from..to).contains(when));
            let layers: Vec<u8> = of.map(|(_, layer)| *layer).collect();
            println!("{:6.2} s, {:5.0} kbit/s: {layers:?}", at as f64 / 4.0, trace.at(at * 250_000) / 1e3);
        }
    }
    figures(&world, &trace, seconds)
}

#[test]
fn a_path_that_goes_up_and_down_is_followed() {
    let square = Trace((0..12).map(|at| (at * 5_000_000, [2.5e6, 0.6e6][at as usize % 2])).collect());
    for reports in [50, 100] {
        let Figures { utilisation, waits, frozen } = play(square.clone(), 60, reports);
        println!(
            "square, reports each {reports} ms: {utilisation:.3}, {waits:?}, {frozen:?} without a picture"
        );
        for seed in 1..4 {
            let Figures { utilisation, waits, frozen } = play(Trace::lte(seed, 60_000_000), 60, reports);
            println!("like LTE {seed}: {utilisation:.3}, {waits:?}, {frozen:?} without a picture");
            assert!(
                utilisation >= 0.75 && waits < Duration::from_millis(50),
                "{seed}: {utilisation} {waits:?}"
            );
        }
    }
}

/// Whose connection takes less for a while: a lower layer, audio in time, and all of it again.
#[test]
fn who_reads_its_tcp_connection_slowly_gets_a_lower_layer_and_the_full_one_again() {
    for reports_packets in [false, true] {
        let mut world = World::simulcast(&RATES, Some(50));
        world.run(SECOND);
        world.join(1, 4e6, reports_packets);
        world.seats.get_mut(&1).expect("it").is_tcp = true;
        let layers_of = |world: &World, from: u32, to: u32| {
            let seen = &world.seats[&1].seen;
            let within = world.start + from * SECOND..world.start + to * SECOND;
            let of = seen.pictures.iter().zip(&seen.layers).filter(|((at, ..), _)| within.contains(at));
            of.map(|(_, layer)| *layer).collect::<Vec<u8>>()
        };
        world.run(14 * SECOND);
        let full = layers_of(&world, 12, 15);
        assert!(full.len() >= 73 && full.iter().all(|layer| *layer == 2), "{reports_packets}: {full:?}");
        for (rate, layer) in [(0.9e6, 1), (0.28e6, 0)] {
            world.seats.get_mut(&1).expect("it").rate = rate;
            let begins = (world.clock.now() - world.start).as_secs() as u32;
            world.run(15 * SECOND);
            let lower = layers_of(&world, begins + 5, begins + 15);
            // The next layer is given now and then, to try.
            println!("{reports_packets} {rate}: {} pictures of 250", lower.len());
            assert!(lower.len() >= 150, "{reports_packets} {rate}: {} pictures", lower.len());
            let right = lower.iter().filter(|given| **given == layer).count();
            assert!(10 * right >= 7 * lower.len(), "{reports_packets} {rate}: {lower:?}");
            // What was before the socket when it took less goes first; then 50 ms of it, and a picture's
            // first packets.
            let from = world.start + (begins + 2) * SECOND;
            let seen = &world.seats[&1].seen;
            let audio = seen.audio.iter().filter(|(at, _)| *at > from);
            let late = quantile(audio.clone().map(|(_, late)| *late), 0.999);
            assert!(audio.count() >= 640, "{reports_packets} {rate}: audio is missing");
            println!("{reports_packets} {rate}: audio {late:?} late at most");
            assert!(late < Duration::from_millis(250), "{reports_packets} {rate}: audio {late:?} late");
        }
        world.seats.get_mut(&1).expect("it").rate = 4e6;
        let back = (world.clock.now() - world.start).as_secs() as u32;
        world.run(60 * SECOND);
        let full_again = (0..58).find(|second| {
            let layers = layers_of(&world, back + second, back + second + 2);
            layers.len() >= 48 && layers.iter().all(|layer| *layer == 2)
        });
        println!("{reports_packets}: all of it again after {full_again:?} s");
        assert!(full_again.is_some_and(|seconds| seconds <= 20), "{reports_packets}: {full_again:?}");
    }
}
