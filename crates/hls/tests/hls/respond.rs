//! Answers: what is there, what is waited for, what is refused.

use hls::{Answer, BadRequest, Cache, Object};
use media::TrackId;

use crate::support::{Stream, publish};

const V: TrackId = TrackId::VIDEO;
const A: TrackId = TrackId::AUDIO;

/// Five seconds: two complete segments, and half of the third.
fn live() -> Stream {
    let mut stream = Stream::new(cmaf::Settings::default(), hls::Settings::default());
    stream.configure(true);
    publish(&mut stream, true, 0..5_000, 25, 50);
    stream
}

fn waits(answer: &Answer) -> bool {
    matches!(answer, Answer::Wait { .. })
}

#[test]
fn a_reload_waits_for_the_part_it_asks_for_and_no_longer() {
    let mut stream = live();
    assert_eq!(stream.playlists.iter().find(|(track, _)| *track == V).unwrap().1.next(), (2, 4));
    for (query, expected) in [
        ("", "now"),
        ("_HLS_msn=0", "now"),
        ("_HLS_msn=1", "now"),
        ("_HLS_msn=1&_HLS_part=2", "now"),
        ("_HLS_msn=1&_HLS_part=10", "now"),
        ("_HLS_msn=2&_HLS_part=3", "now"),
        ("_HLS_msn=2&_HLS_part=4", "wait"),
        ("_HLS_msn=2&_HLS_part=18", "wait"),
        ("_HLS_msn=2", "wait"),
        ("_HLS_msn=3", "wait"),
        ("_HLS_msn=3&_HLS_part=0", "wait"),
        ("_HLS_msn=2&_HLS_part=20", "bad"),
        ("_HLS_msn=4", "bad"),
        ("_HLS_msn=4&_HLS_part=0", "bad"),
        ("_HLS_msn=18446744073709551615", "bad"),
        ("_HLS_msn=18446744073709551615&_HLS_part=4294967295", "bad"),
    ] {
        let answer = stream.ask(Object::Playlist(V), query);
        let found = match &answer {
            Answer::Respond(_) => "now",
            Answer::Wait { timeout } => {
                assert_eq!(timeout.as_secs(), 6, "three target durations");
                "wait"
            }
            Answer::Bad(reason) => {
                assert_eq!(*reason, BadRequest::TooFarAhead);
                "bad"
            }
            Answer::Recall(_) => "on disk",
            Answer::NotFound => "not found",
        };
        assert_eq!(found, expected, "{query}");
    }
    assert_eq!(stream.ask(Object::Playlist(V), "_HLS_part=1"), Answer::Bad(BadRequest::PartWithoutMsn));
    publish(&mut stream, true, 5_000..5_300, 25, 500);
    assert!(matches!(stream.ask(Object::Playlist(V), "_HLS_msn=2&_HLS_part=4"), Answer::Respond(_)));
}

#[test]
fn a_part_beyond_the_last_of_a_segment_is_the_first_of_the_next() {
    let mut stream = Stream::new(cmaf::Settings::default(), hls::Settings::default());
    stream.configure(true);
    publish(&mut stream, true, 0..4_100, 25, 50);
    // Segment 1 is complete with ten parts, and segment 2 has none yet.
    assert_eq!(stream.playlists.iter().find(|(track, _)| *track == V).unwrap().1.next(), (2, 0));
    assert!(waits(&stream.ask(Object::Playlist(V), "_HLS_msn=1&_HLS_part=10")));
    publish(&mut stream, true, 4_120..4_400, 25, 500);
    assert!(!waits(&stream.ask(Object::Playlist(V), "_HLS_msn=1&_HLS_part=10")));
}

#[test]
fn a_hinted_part_waits_and_others_that_are_not_there_are_not_found() {
    let mut stream = live();
    assert!(waits(&stream.ask(Object::Part(V, 2, 4), "")));
    for object in [
        Object::Part(V, 2, 5),
        Object::Part(V, 3, 0),
        Object::Part(V, 1, 10),
        Object::Part(TrackId { index: 1, ..A }, 0, 0),
        Object::Segment(V, 3),
        Object::Init(V, 1),
        Object::Playlist(TrackId { index: 1, ..A }),
    ] {
        assert_eq!(stream.ask(object, ""), Answer::NotFound, "{object}");
    }
    publish(&mut stream, true, 5_000..5_100, 25, 500);
    // What was hinted came to be the last of its segment.
    publish(&mut stream, true, 5_100..7_000, 25, 500);
    assert!(matches!(stream.ask(Object::Part(V, 2, 4), ""), Answer::Respond(_)));
}

#[test]
fn a_segment_is_its_parts_and_grows_while_it_is_made() {
    let mut stream = live();
    let whole = stream.body(Object::Segment(V, 1), "");
    let parts: Vec<_> = (0..10).flat_map(|part| stream.body(Object::Part(V, 1, part), "").bytes).collect();
    assert_eq!((whole.bytes.concat(), whole.grows_from), (parts.concat(), None));
    let growing = stream.body(Object::Segment(V, 2), "");
    assert_eq!((growing.bytes.len(), growing.grows_from), (4, Some(4)));
    publish(&mut stream, true, 5_000..5_300, 25, 500);
    let (more, is_complete) = stream.window.growing(V, 2, 4).unwrap();
    assert_eq!((more.len(), is_complete), (2, false));
}

#[test]
fn caches_keep_what_never_changes_and_playlists_briefly() {
    let mut stream = live();
    for (object, query, cache) in [
        (Object::Init(V, 0), "", Cache::Immutable),
        (Object::Segment(A, 1), "", Cache::Immutable),
        (Object::Part(V, 1, 3), "", Cache::Immutable),
        (Object::Playlist(V), "", Cache::Seconds(1)),
        (Object::Playlist(V), "_HLS_msn=2&_HLS_part=0", Cache::Seconds(12)),
        (Object::Multivariant, "", Cache::Seconds(1)),
        (Object::Mpd, "", Cache::Seconds(1)),
        (Object::Time, "", Cache::Never),
    ] {
        assert_eq!(stream.body(object, query).cache, cache, "{object}");
    }
}

#[test]
fn a_token_goes_on_to_all_children_and_directives_do_not() {
    let mut stream = live();
    for object in [Object::Multivariant, Object::Playlist(V)] {
        let plain = stream.text(object, "").unwrap();
        let query = if object == Object::Multivariant { "token=x%2Fy" } else { "token=x%2Fy&_HLS_msn=1" };
        let with = stream.text(object, query).unwrap();
        for (plain, with) in plain.lines().zip(with.lines()) {
            let has_uri = !plain.starts_with('#') || plain.contains("URI=");
            assert_eq!(with.matches("?token=x%2Fy").count(), usize::from(has_uri), "{with}");
            assert_eq!(with.replace("?token=x%2Fy", ""), plain);
        }
    }
    let mpd = stream.text(Object::Mpd, "token=x&b=1").unwrap();
    assert!(mpd.contains("$Number$.m4s?token=x&amp;b=1\"") && mpd.contains("init-0.mp4?token=x&amp;b=1\""));
}

#[test]
fn playlists_are_shared_and_compressed_once() {
    let mut stream = live();
    let ask = |stream: &mut Stream, gzip| {
        let accepts = hls::Accepts { gzip };
        let query = hls::Query::default();
        let now = std::time::Duration::from_secs(1_700_000_000);
        let Answer::Respond(body) = stream.window.respond(Object::Playlist(V), &query, accepts, "", now)
        else {
            panic!("there is a playlist");
        };
        assert_eq!(body.is_gzip, gzip);
        body.bytes[0].clone()
    };
    for gzip in [false, true] {
        let (first, second) = (ask(&mut stream, gzip), ask(&mut stream, gzip));
        assert_eq!(first.as_ptr(), second.as_ptr(), "the same bytes for all");
    }
    let (plain, small) = (ask(&mut stream, false), ask(&mut stream, true));
    assert!(small.len() * 3 < plain.len());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&small[..]), &mut text).unwrap();
    assert_eq!(text.as_bytes(), &plain[..]);
}

#[test]
fn a_stream_that_begins_makes_its_first_players_wait() {
    let mut stream = Stream::new(cmaf::Settings::default(), hls::Settings::default());
    for object in [Object::Multivariant, Object::Playlist(V), Object::Mpd] {
        assert!(waits(&stream.ask(object, "")), "{object}");
    }
    assert_eq!(stream.ask(Object::Segment(V, 0), ""), Answer::NotFound);
    stream.finish();
    assert_eq!(stream.ask(Object::Multivariant, ""), Answer::NotFound);
}

#[test]
fn nobody_waits_for_a_stream_that_has_ended() {
    let mut stream = live();
    stream.finish();
    let text = stream.text(Object::Playlist(V), "_HLS_msn=9").unwrap();
    assert!(text.ends_with("#EXT-X-ENDLIST\n"));
    assert_eq!(stream.ask(Object::Part(V, 3, 0), ""), Answer::NotFound);
    assert_eq!(stream.ask(Object::Segment(V, 3), ""), Answer::NotFound);
}
