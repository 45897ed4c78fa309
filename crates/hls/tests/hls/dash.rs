//! MPDs: well-formed, and their timelines are those of the boxes.

use hls::Object;
use media::TrackId;

use crate::support::{Stream, publish};

/// Value of an attribute behind a place in the text.
fn attribute(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("{name}: {text}"));
    rest.split('"').next().unwrap().to_owned()
}

/// Tags are closed in order, and attributes quoted.
fn check_well_formed(text: &str) {
    let mut open = Vec::new();
    for tag in text.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        if tag.starts_with('?') || tag.ends_with('/') {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{text}");
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty());
}

/// When the segments of a timeline begin.
fn times(set: &str) -> Vec<u64> {
    let entries = set.split("<S ").skip(1).map(|entry| entry.split_once("/>").unwrap().0);
    let number = |entry: &str, name| attribute(&format!(" {entry}"), name).parse().unwrap();
    entries
        .flat_map(|entry| {
            let repeats = if entry.contains(" r=") { number(entry, "r") } else { 0 };
            let (first, duration) = (number(entry, "t"), number(entry, "d"));
            (0..=repeats).map(move |index| first + index * duration)
        })
        .collect()
}

#[test]
fn a_live_stream_has_its_segments_and_the_one_that_grows() {
    let mut stream = Stream::new(cmaf::Settings::default(), hls::Settings::default());
    stream.configure(true);
    publish(&mut stream, true, 0..9_000, 25, 50);
    let mpd = stream.text(Object::Mpd, "").unwrap();
    check_well_formed(&mpd);
    assert_eq!(attribute(&mpd, "type"), "dynamic");
    assert_eq!(attribute(&mpd, "availabilityStartTime"), "2023-11-14T22:13:20.000Z");
    assert!(mpd.contains("<BaseURL>s/</BaseURL>"));
    // Relative to that, as players resolve it.
    assert!(mpd.contains("urn:mpeg:dash:utc:http-iso:2014\" value=\"time\""), "{mpd}");
    let with_token = stream.text(Object::Mpd, "token=x").unwrap();
    for url in ["value=\"time?token=x\"", "$Number$.m4s?token=x\"", "init-0.mp4?token=x\""] {
        assert!(with_token.contains(url), "{url}: {with_token}");
    }
    let (_, video) = mpd.split_once("contentType=\"video\"").unwrap();
    assert_eq!(attribute(video, "startNumber"), "0");
    assert_eq!(attribute(video, "media"), "v0/$Number$.m4s");
    assert_eq!(attribute(video, "frameRate"), "25");
    assert!(attribute(video, "availabilityTimeOffset").parse::<f64>().unwrap() > 1.7);
    let (video, audio) = video.split_once("</AdaptationSet>").unwrap();
    assert_eq!(times(video), [0, 180_000, 360_000, 540_000, 720_000]);
    assert_eq!(attribute(audio, "audioSamplingRate"), "48000");
    assert_eq!(times(audio).len(), 5);
}

#[test]
fn a_discontinuity_is_a_period() {
    let mut stream = Stream::new(cmaf::Settings::default(), hls::Settings::default());
    stream.configure(true);
    publish(&mut stream, true, 0..6_000, 25, 50);
    stream.segmenter.restart();
    stream.configure(true);
    publish(&mut stream, true, 0..5_000, 25, 50);
    let mpd = stream.text(Object::Mpd, "").unwrap();
    check_well_formed(&mpd);
    let periods: Vec<_> = mpd.split("<Period ").skip(1).collect();
    assert_eq!(periods.len(), 2);
    assert_eq!(attribute(&format!(" {}", periods[0]), "start"), "PT0.000S");
    let start: f64 =
        attribute(&format!(" {}", periods[1]), "start").trim_matches(['P', 'T', 'S']).parse().unwrap();
    assert!((5.9..6.2).contains(&start), "{start}");
    assert_eq!(attribute(periods[1], "startNumber"), "3");
    let offset: u64 = attribute(periods[1], "presentationTimeOffset").parse().unwrap();
    let first: u64 =
        attribute(&format!(" {}", periods[1].split_once("<S ").unwrap().1), "t").parse().unwrap();
    assert_eq!(offset, first, "the period begins with its first picture");
    stream.finish();
    let mpd = stream.text(Object::Mpd, "").unwrap();
    assert!(!mpd.contains("minimumUpdatePeriod") && mpd.contains("mediaPresentationDuration"));
    let _ = TrackId::VIDEO;
}
