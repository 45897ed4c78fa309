//! What a viewer gets over a path that carries too little, and what the others get.

use std::time::{Duration, Instant};

use sfu::Share;

use super::world::{Reports, Terms, World, quantile};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_wide_path_gets_everything_at_once() {
    let mut world = World::new(2e6, Some(50));
    world.join(1, 50e6, true);
    world.run(10 * SECOND);
    let seen = &world.seats[&1].seen;
    assert!(seen.pictures.len() >= 248, "{}", seen.pictures.len());
    let settled = seen.pictures.iter().filter(|(at, ..)| *at > world.start + 2 * SECOND);
    let late = quantile(settled.map(|(_, late, _)| *late), 1.0);
    assert!(late < Duration::from_millis(45), "{late:?}");
    assert_eq!(seen.overflowed, 0);
}

#[test]
fn audio_is_whole_and_in_time_where_video_does_not_fit() {
    for rate in [100e3, 250e3, 600e3] {
        let mut world = World::new(1.7e6, Some(50));
        world.join(1, rate, true);
        world.run(40 * SECOND);
        let seen = &world.seats[&1].seen;
        let settled = world.start + 5 * SECOND;
        let audio = seen.audio.iter().filter(|(at, _)| *at > settled).count();
        assert!(audio >= 1_748, "{rate}: {audio} of 1750");
        let late = quantile(seen.audio.iter().filter(|(at, _)| *at > settled).map(|(_, late)| *late), 0.99);
        let waits = quantile(seen.waits.iter().filter(|(at, _)| *at > settled).map(|(_, wait)| *wait), 0.95);
        let pictures = seen.pictures.len();
        println!(
            "{rate}: audio late {late:?}, waits {waits:?}, {pictures} pictures, {} lost of {}, {:?}",
            seen.overflowed,
            seen.sent,
            world.stats(1)
        );
        // Behind two packets of video at most, which take 37 ms each on 250 kbit/s.
        assert!(waits < Duration::from_millis(90), "{rate}: {waits:?}");
    }
}

#[test]
fn video_comes_back_by_itself_when_the_path_has_room_again() {
    let mut world = World::new(1.5e6, Some(50));
    world.join(1, 3e6, true);
    world.run(10 * SECOND);
    world.seats.get_mut(&1).expect("it").rate = 250e3;
    world.run(20 * SECOND);
    assert!(world.stats(1).share < Share::All, "{:?}", world.stats(1));
    world.seats.get_mut(&1).expect("it").rate = 3e6;
    let back = world.clock.now();
    world.run(15 * SECOND);
    assert_eq!(world.stats(1).share, Share::All);
    let seen = &world.seats[&1].seen;
    let pictures = seen.pictures.iter().filter(|(at, ..)| *at > back + 10 * SECOND).count();
    assert!(pictures >= 120, "{pictures} of 125 in the last five seconds");
}

/// What was lost meanwhile is asked for at once, when the path is back: it must not fill the queue.
#[test]
fn after_an_outage_lost_packets_come_again_at_the_pace_of_the_path() {
    let mut world = World::new(1.7e6, Some(250));
    world.join(1, 2.5e6, true);
    let outages: Vec<_> = (0..8).map(|at| world.start + Duration::from_millis(4_000 + 5_000 * at)).collect();
    let of_path = outages.iter().map(|from| *from..*from + Duration::from_millis(300));
    world.seats.get_mut(&1).expect("it").outages = of_path.collect();
    world.run(45 * SECOND);
    let seen = &world.seats[&1].seen;
    let is_after = |at: &Instant| outages.iter().any(|from| (*from..*from + SECOND).contains(at));
    let waits = seen.waits.iter().filter(|(at, _)| is_after(at)).map(|(_, wait)| *wait);
    let waits = quantile(waits, 0.95);
    let late = seen.audio.iter().filter(|(at, _)| is_after(at)).map(|(_, late)| *late);
    let late = quantile(late, 0.99);
    let gap = seen.pictures.windows(2).map(|two| two[1].0 - two[0].0).max().expect("pictures");
    let pictures = seen.pictures.len();
    println!("waits {waits:?}, audio late {late:?}, gap {gap:?}, {pictures} pictures, {:?}", world.stats(1));
    assert!(waits < Duration::from_millis(50), "{waits:?}");
    assert!(late < Duration::from_millis(80), "{late:?}");
    assert!(gap < Duration::from_millis(900), "{gap:?}");
    assert!(pictures >= 1_110, "{pictures} of 1125");
    // It asks for each every 50 ms, until it comes.
    let (resent, lost) = (world.stats(1).resent_packets as i64, world.stats(1).lost);
    assert!(resent * 10 < lost * 11, "{resent} for {lost}");
}

#[test]
fn without_reports_less_is_sent_and_then_nothing_until_they_come_again() {
    let mut world = World::new(1.5e6, Some(50));
    world.join(1, 10e6, true);
    world.run(5 * SECOND);
    world.seats.get_mut(&1).expect("it").is_silent = true;
    world.run(20 * SECOND);
    let sent =
        |world: &World, second: u64| world.seats[&1].seen.sent_bytes.get(&second).copied().unwrap_or(0);
    assert!(sent(&world, 4) > 120_000, "{}", sent(&world, 4));
    assert!(sent(&world, 8) < 60_000, "three seconds of silence: {}", sent(&world, 8));
    assert_eq!((17..25).map(|second| sent(&world, second)).sum::<u64>(), 0, "after ten");
    world.seats.get_mut(&1).expect("it").is_silent = false;
    world.run(10 * SECOND);
    assert!(sent(&world, 33) > 120_000, "{}", sent(&world, 33));
}

#[test]
fn a_viewer_with_a_bad_path_changes_nothing_for_the_others() {
    let others = |bad: Option<f64>| {
        let mut world = World::new(1.5e6, Some(100));
        world.join(1, 20e6, true);
        if let Some(rate) = bad {
            world.join(2, rate, true);
            world.seats.get_mut(&2).expect("it").storms = true;
        }
        world.run(30 * SECOND);
        let asked = world.key_frames_asked.len();
        let seen = &world.seats[&1].seen;
        (seen.pictures.len(), quantile(seen.pictures.iter().map(|(_, late, _)| *late), 0.99), asked)
    };
    let (alone, late_alone, _) = others(None);
    let (pictures, late, asked) = others(Some(200e3));
    assert!(pictures + 2 >= alone, "{pictures} of {alone}");
    assert!(late <= late_alone + Duration::from_millis(10), "{late:?}, alone {late_alone:?}");
    assert!(asked <= 12, "one in three seconds: {asked} in 30 s");
}

#[test]
fn viewers_that_report_losses_only_get_what_their_limit_says() {
    let mut world = World::new(1.5e6, Some(50));
    world.join(1, 10e6, false);
    world.run(10 * SECOND);
    assert!(world.seats[&1].seen.pictures.len() >= 245);
}

/// It sees a gap in the numbers either way: one that its path has made, or one that was there before.
#[test]
fn what_was_lost_before_the_server_is_not_taken_for_the_loss_of_a_viewers_path() {
    for (make, name) in [(World::new as fn(_, _) -> _, "publisher"), (World::relayed, "link")] {
        let bits = |upstream: Option<u64>, path: Option<u64>| {
            let mut world = make(1.5e6, Some(25));
            world.join(1, 10e6, false);
            world.lost_upstream = upstream;
            world.seats.get_mut(&1).expect("it").lost_each = path;
            world.run(30 * SECOND);
            let sent = world.seats[&1].seen.sent_bytes.range(20..).map(|(_, bytes)| bytes).sum::<u64>();
            let estimate = world.seats[&1].pacer.as_ref().expect("one").stats(world.clock.now());
            let estimate = estimate.estimate_bits_per_second;
            println!("{name}, {upstream:?}, {path:?}: {} kbit/s, {estimate}", sent * 8 / 10_000);
            (sent as f64, estimate)
        };
        let (clean, _) = bits(None, None);
        let (behind_a_bad_link, estimate) = bits(Some(5), None);
        assert!(behind_a_bad_link > 0.75 * clean, "{name}: {behind_a_bad_link}, {clean} without loss");
        assert!(estimate >= 10_000_000, "{name}: {estimate}");
        // Its own loss counts as before, with that of the link or without.
        for upstream in [None, Some(5)] {
            let (_, estimate) = bits(upstream, Some(5));
            assert!(estimate < 1_000_000, "{name}: {estimate}");
        }
    }
}

#[test]
fn a_viewer_that_joins_on_a_wide_path_misses_nothing_and_is_live_soon() {
    for (rate, live_within) in [(1.6e6, 450), (3e6, 750), (6e6, 900)] {
        for phase in 0..10 {
            let mut world = World::new(rate, Some(25));
            world.report_interval = Duration::from_millis(100);
            world.run(SECOND + Duration::from_millis(100 * phase));
            let joined = world.clock.now();
            world.join(1, 100e6, true);
            world.run(4 * SECOND);
            let seat = &world.seats[&1];
            let live = seat.seen.pictures.iter().find(|(_, late, _)| *late < Duration::from_millis(60));
            let live = live.map(|(at, ..)| *at - joined);
            assert!(
                live.is_some_and(|live| live < Duration::from_millis(live_within)),
                "{rate}, {phase}: {live:?}"
            );
            // Where a picture that came too late is cut short one number is left out.
            let cut_short = u64::from(rate > 5e6);
            assert!(seat.missed() as u64 <= cut_short, "{rate}, {phase}: {}", seat.missed());
        }
    }
}

#[test]
fn a_viewer_without_rtx_gets_lost_packets_again_under_the_transport_numbers_that_they_had() {
    let run = |has_rtx| {
        let mut world = World::new(1.5e6, Some(50));
        world.join_as(1, 5e6, Terms { has_rtx, reports: Reports::Packets });
        world.run(4 * SECOND);
        // The bottleneck loses what it has no room for, and later every thirtieth packet.
        let seat = world.seats.get_mut(&1).expect("it");
        seat.lost_each = Some(30);
        world.run(26 * SECOND);
        let seen = &world.seats[&1].seen;
        let waits = quantile(seen.waits.iter().map(|(_, wait)| *wait), 0.99);
        let estimate = world.seats[&1].pacer.as_ref().expect("one").stats(world.clock.now());
        let estimate = estimate.estimate_bits_per_second;
        println!(
            "{has_rtx}: {} pictures, {} again, {waits:?}, {estimate}",
            seen.pictures.len(),
            seen.same_again
        );
        (seen.pictures.len(), seen.same_again, waits, estimate)
    };
    let (with, none, _, estimate_with) = run(true);
    assert_eq!(none, 0);
    let (without, again, waits, estimate) = run(false);
    assert!(again > 80, "{again}");
    assert!(without + 15 >= with, "{without} pictures, {with} with RTX");
    assert!(waits < Duration::from_millis(60), "{waits:?}");
    assert!(estimate >= estimate_with * 3 / 4, "{estimate}, {estimate_with} with RTX");
}

/// How long it takes after a time of 250 kbit/s until all pictures come again, however a viewer reports on
/// its path.
#[test]
fn all_of_the_video_comes_back_in_time_with_every_kind_of_reports() {
    let terms = |has_rtx, reports| Terms { has_rtx, reports };
    for (terms, seconds) in [
        (terms(true, Reports::Packets), 5),
        (terms(false, Reports::Packets), 5),
        (terms(false, Reports::Remb), 20),
        (terms(false, Reports::Losses), 32),
    ] {
        let mut world = World::new(1.5e6, Some(50));
        world.join_as(1, 3e6, terms);
        world.run(10 * SECOND);
        world.seats.get_mut(&1).expect("it").rate = 250e3;
        world.run(20 * SECOND);
        let shrunk = (world.stats(1).share, world.seats[&1].seen.overflowed);
        world.seats.get_mut(&1).expect("it").rate = 3e6;
        let back = world.clock.now();
        world.run(40 * SECOND);
        let seen = &world.seats[&1].seen;
        // From when on no second lacks a picture.
        let in_second = |second: u32| {
            let from = back + second * SECOND;
            seen.pictures.iter().filter(|(at, ..)| (from..from + SECOND).contains(at)).count()
        };
        let whole_from = (0..40).rev().take_while(|second| in_second(*second) >= 23).last();
        println!("{terms:?}: {shrunk:?}, whole from {whole_from:?}");
        assert!(whole_from.is_some_and(|from| from <= seconds), "{terms:?}: {whole_from:?}");
    }
}

/// Else it shows less than the path carries.
#[test]
fn a_probe_is_as_fast_as_it_is_meant_to_be() {
    let mut world = World::simulcast(&[150e3, 500e3, 1.7e6], Some(250));
    world.join(1, 1.3e6, true);
    world.run(60 * SECOND);
    let departures = &world.seats[&1].seen.departures;
    let padding: Vec<usize> = (0..departures.len()).filter(|at| departures[*at].1).collect();
    let probes = padding.chunk_by(|one, next| departures[*next].0 - departures[*one].0 < SECOND / 40);
    let mut lasts = Vec::new();
    for probe in probes.filter(|probe| probe.len() >= 3) {
        let (first, last) = (probe[0], probe[probe.len() - 1]);
        lasts.push(departures[last].0 - departures[first].0);
    }
    lasts.sort_unstable();
    println!("{lasts:?}");
    assert!(lasts.len() >= 10, "{lasts:?}");
    // It is 30 ms long: its last packet leaves before that.
    let longest = lasts[lasts.len() * 3 / 4];
    assert!(longest <= Duration::from_millis(30), "{lasts:?}");
}

/// Two viewers of the same path, one with numbers in its headers and one without.
#[test]
fn reports_by_stream_say_what_reports_by_number_do() {
    for rate in [250e3, 1e6, 50e6] {
        let mut world = World::new(1.7e6, Some(50));
        world.join(1, rate, true);
        world.join_by_streams(2, rate);
        world.run(30 * SECOND);
        let settled = world.start + 5 * SECOND;
        let [by_number, by_stream] = [1, 2].map(|token| {
            let seen = &world.seats[&token].seen;
            let waits = seen.waits.iter().filter(|(at, _)| *at > settled);
            let bytes: u64 = seen.sent_bytes.range(5..).map(|(_, bytes)| bytes).sum();
            (quantile(waits.map(|(_, wait)| *wait), 0.95), bytes as f64 * 8.0 / 25.0)
        });
        println!("{rate}: {by_number:?} and {by_stream:?}");
        // A packet takes 36 ms on 250 kbit/s: half of one.
        assert!(by_stream.0 < by_number.0 + Duration::from_millis(18), "{rate}: {by_stream:?} {by_number:?}");
        assert!(by_stream.1 > 0.9 * by_number.1, "{rate}: {by_stream:?} {by_number:?}");
        let stats = world.seats[&2].pacer.as_ref().map(|pacer| pacer.stats(world.clock.now()));
        assert!(stats.is_some_and(|stats| stats.unmatched_reports == 0), "{stats:?}");
    }
}

/// Whatever a viewer says of packets in this form, it gets no more than the ones that say the truth.
#[test]
fn reports_by_stream_of_what_was_not_sent_change_nothing() {
    let mut world = World::new(1e6, Some(50));
    world.join_by_streams(1, 600e3);
    world.join_by_streams(2, 600e3);
    for _ in 0..200 {
        world.run(Duration::from_millis(50));
        world.lie_by_streams(2);
    }
    let sent =
        [1, 2].map(|token| world.seats[&token].seen.sent_bytes.range(3..).map(|(_, bytes)| bytes).sum());
    let [honest, liar]: [u64; 2] = sent;
    assert!(honest.abs_diff(liar) < honest / 5, "{honest} {liar}");
}

/// Whether its packets are reported or not: what its connection takes is known.
#[test]
fn a_viewer_that_reads_its_tcp_connection_slowly_gets_less_and_in_time() {
    for (reports_packets, rate) in [(false, 300e3), (true, 300e3), (false, 900e3), (false, 50e6)] {
        let mut world = World::new(1.7e6, Some(50));
        world.join(1, rate, reports_packets);
        world.seats.get_mut(&1).expect("it").is_tcp = true;
        world.run(30 * SECOND);
        let seen = &world.seats[&1].seen;
        let settled = world.start + 3 * SECOND;
        let waits = seen.waits.iter().filter(|(at, _)| *at > settled).map(|(_, wait)| *wait);
        let (nearly_all, longest) = (quantile(waits.clone(), 0.95), quantile(waits, 0.999));
        let audio = quantile(seen.audio.iter().filter(|(at, _)| *at > settled).map(|(_, late)| *late), 0.999);
        let bits = seen.sent_bytes.range(3..).map(|(_, bytes)| bytes).sum::<u64>() as f64 * 8.0 / 27.0;
        println!("{rate} {reports_packets}: {nearly_all:?}, {longest:?}, audio {audio:?}, {bits}");
        // 50 ms, a picture's first packets, and audio.
        assert!(nearly_all < Duration::from_millis(110), "{rate} {reports_packets}: {nearly_all:?}");
        assert!(audio < Duration::from_millis(400), "{rate} {reports_packets}: {audio:?}");
        // Of a stream that does not fit, key frames only.
        let least = if rate > 2e6 { 1.6e6 } else { 0.2 * rate };
        assert!(bits > least, "{rate} {reports_packets}: {bits}");
        assert!(rate > 2e6 || world.stats(1).share < Share::All, "{:?}", world.stats(1));
    }
}

#[test]
fn a_bottleneck_that_marks_has_a_shorter_queue() {
    let waits = |mark_above| {
        let mut world = World::new(1.7e6, Some(50));
        world.join_by_streams(1, 900e3);
        world.seats.get_mut(&1).expect("it").mark_above = mark_above;
        world.run(30 * SECOND);
        let seat = &world.seats[&1];
        assert_eq!(seat.marked > 0, mark_above.is_some());
        assert!(seat.pacer.as_ref().is_some_and(sfu::Pacer::sends_ect), "it is not taken off");
        let settled = seat.seen.waits.iter().filter(|(at, _)| *at > world.start + 3 * SECOND);
        quantile(settled.map(|(_, wait)| *wait), 0.95)
    };
    let (without, with) = (waits(None), waits(Some(Duration::from_millis(10))));
    println!("{without:?} without marks, {with:?} with");
    assert!(with <= without, "{with:?} {without:?}");
}

#[test]
fn what_is_lost_by_chance_comes_again_before_pictures_stop() {
    for share in [0.02, 0.05, 0.1] {
        let mut world = World::new(1.7e6, Some(250));
        world.join(1, 2.5e6, true);
        world.report_interval = Duration::from_millis(100);
        world.run(SECOND);
        world.seats.get_mut(&1).expect("it").lost_share = share;
        world.run(19 * SECOND);
        let pictures = &world.seats[&1].seen.pictures;
        let gaps = pictures.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let longest = gaps.max().expect("pictures");
        println!("{share}: {} pictures, longest gap {longest:?}", pictures.len());
        assert!(pictures.len() >= 488, "{share}: {} of 500", pictures.len());
        // Asked for each 100 ms, and each time lost by the same chance.
        assert!(longest < Duration::from_millis(700), "{share}: {longest:?}");
    }
}

/// Audio alone takes most of what is left, so that the queue goes slowly: that is nobody else's.
#[test]
fn after_a_deep_fall_audio_is_whole_within_seconds() {
    for (from, to) in [(700e3, 60e3), (700e3, 100e3), (2.5e6, 100e3), (2.5e6, 60e3)] {
        let mut world = World::simulcast(&[150e3, 500e3, 1.7e6], Some(250));
        world.report_interval = Duration::from_millis(100);
        world.join(1, from, true);
        world.run(15 * SECOND);
        world.seats.get_mut(&1).expect("it").rate = to;
        world.run(3 * SECOND);
        let (before, lost) = (world.seats[&1].seen.audio.len(), world.seats[&1].seen.overflowed);
        world.run(17 * SECOND);
        let seen = &world.seats[&1].seen;
        let late = quantile(seen.audio[before..].iter().map(|(_, late)| *late), 0.95);
        let (audio, lost) = (seen.audio.len() - before, seen.overflowed - lost);
        println!("{from} {to}: {audio} of 850, {late:?} late, {lost} lost");
        assert!(audio >= 840, "{from} {to}: {audio} of 850");
        assert!(late < Duration::from_millis(260), "{from} {to}: {late:?}");
        assert_eq!(lost, 0, "{from} {to}");
    }
}
