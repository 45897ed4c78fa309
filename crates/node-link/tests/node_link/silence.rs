//! Whether the other node is there.

use node_link::{LinkError, PING_BUSY, ROUND_TRIP_MAX, SILENT_BUSY, SILENT_IDLE};

use crate::pair::{Pair, ms};

#[test]
fn an_idle_link_lives_by_its_pings_which_are_few() {
    let mut pair = Pair::up();
    let before = pair.dialer.link.stats();
    pair.run(ms(60_000));
    assert_eq!((&pair.dialer.error, &pair.listener.error), (&None, &None));
    let bytes = pair.dialer.link.stats().bytes_out - before.bytes_out;
    assert!((60 * 8..70 * 12).contains(&bytes), "{bytes} bytes in a minute");
}

#[test]
fn a_cut_is_noticed_soon_where_there_is_a_stream_and_later_where_there_is_none() {
    for (busy, within) in [(true, SILENT_BUSY + ms(250)), (false, SILENT_IDLE + ms(1_100))] {
        let mut pair = Pair::up();
        if busy {
            pair.fetch("live/a");
        }
        pair.run(ms(5_000));
        pair.is_cut = true;
        pair.run(within / 2);
        assert_eq!((&pair.dialer.error, &pair.listener.error), (&None, &None));
        pair.run(within / 2);
        assert_eq!(pair.dialer.error, Some(LinkError::Silent), "busy: {busy}");
        assert_eq!(pair.listener.error, Some(LinkError::Silent), "busy: {busy}");
    }
}

#[test]
fn a_short_cut_and_a_long_way_are_no_silence() {
    let mut pair = Pair::up();
    pair.delay = ms(400);
    pair.run(ms(3_000));
    let fetched = pair.dialer.link.subscribe("live/a").unwrap();
    pair.run(ms(60_000));
    assert_eq!((&pair.dialer.error, &pair.listener.error), (&None, &None));
    pair.dialer.link.unsubscribe(fetched);
    pair.delay = ms(5);
    pair.run(ms(20_000));
    pair.is_cut = true;
    pair.run(ms(400));
    pair.is_cut = false;
    pair.run(ms(10_000));
    assert_eq!((&pair.dialer.error, &pair.listener.error), (&None, &None));
}

#[test]
fn a_process_that_stood_still_reads_before_it_judges() {
    let mut pair = Pair::up();
    pair.fetch("live/a");
    pair.run(ms(1_000));
    // Only this node stands still, for longer than any silence may be; then it is asked what is due first.
    pair.now += ms(5_000);
    assert_eq!(pair.dialer.link.handle_timeout(pair.now), Ok(()));
    assert_eq!(pair.listener.link.handle_timeout(pair.now), Ok(()));
    pair.run(ms(10_000));
    assert_eq!((&pair.dialer.error, &pair.listener.error), (&None, &None));
}

#[test]
fn a_round_trip_over_a_standstill_does_not_keep_a_dead_node_for_long() {
    let mut pair = Pair::up();
    pair.fetch("live/a");
    pair.run(ms(1_000));
    // The answer to a ping is on its way when the dialer stands still, and is the first thing that it reads.
    pair.delay = ms(100);
    let mut answer = Vec::new();
    for _ in 0..40 {
        pair.run(ms(10));
        answer.extend(pair.listener.take_under_way());
    }
    pair.now += ms(20_000);
    assert_eq!(pair.dialer.link.handle_input(pair.now, &answer), Ok(()));
    pair.run(ms(500));
    assert_eq!((&pair.dialer.error, &pair.listener.error), (&None, &None));
    pair.is_cut = true;
    pair.run(PING_BUSY + SILENT_BUSY + 2 * ROUND_TRIP_MAX + ms(50));
    assert_eq!(pair.dialer.error, Some(LinkError::Silent));
}
