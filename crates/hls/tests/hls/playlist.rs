//! A strict reader of media playlists, line by line, by the rules of RFC 8216bis
//! (draft-pantos-hls-rfc8216bis), written apart from the writer: what breaks a rule panics.

/// A media playlist.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Playlist {
    /// 9 with parts; 8 is that of files, which has none.
    version: u64,
    pub(crate) target: u64,
    pub(crate) part_target: f64,
    pub(crate) media_sequence: u64,
    pub(crate) discontinuity_sequence: u64,
    pub(crate) skipped: usize,
    pub(crate) segments: Vec<Entry>,
    /// Parts behind the last complete segment, and the date of the segment they are of.
    pub(crate) open: Entry,
    pub(crate) hint: Option<String>,
    pub(crate) reports: Vec<(String, u64, u64)>,
    pub(crate) is_ended: bool,
    text: String,
}

/// A segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Entry {
    pub(crate) uri: String,
    pub(crate) duration: f64,
    pub(crate) parts: Vec<Part>,
    pub(crate) map: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) date: i64,
    pub(crate) is_discontinuity: bool,
    pub(crate) is_gap: bool,
    /// Its lines, without parts.
    lines: Vec<String>,
}

/// A partial segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Part {
    pub(crate) uri: String,
    pub(crate) duration: f64,
    pub(crate) independent: bool,
}

impl Playlist {
    /// Media sequence number of the segment that grows, and its parts.
    pub(crate) fn next(&self) -> (u64, usize) {
        (self.media_sequence + self.segments.len() as u64, self.open.parts.len())
    }

    /// The full playlist that this one becomes with a delta update (section 6.2.5.1): what is left out is
    /// what this one had.
    pub(crate) fn apply(&self, delta: &str, full: &Playlist) -> String {
        let read = read(delta);
        assert!(read.skipped > 0 && read.media_sequence == full.media_sequence);
        assert_eq!(read.skipped + read.segments.len(), full.segments.len(), "the numbers of segments");
        let mut out = String::new();
        for line in delta.lines() {
            if line.starts_with("#EXT-X-SKIP:") {
                let from = (full.media_sequence - self.media_sequence) as usize;
                // A client takes over segments and their tags; those of parts are not kept.
                for (index, entry) in self.segments[from..from + read.skipped].iter().enumerate() {
                    let mut lines = entry.lines.clone();
                    let has_map = entry.lines.iter().any(|line| line.starts_with("#EXT-X-MAP"));
                    if index == 0 && !has_map {
                        let at = lines.iter().position(|line| line.starts_with("#EXT-X-PROGRAM")).unwrap();
                        lines.insert(at, format!("#EXT-X-MAP:URI=\"{}\"", entry.map.as_ref().unwrap()));
                    }
                    out.push_str(&(lines.join("\n") + "\n"));
                }
                continue;
            }
            out.push_str(line);
            out.push('\n');
        }
        out
    }
}

/// Reads a playlist, checks it, and checks it as an update of the one before.
pub(crate) fn check(text: &str, before: Option<&Playlist>) -> Playlist {
    let read = read(text);
    assert_eq!(read.skipped, 0, "a full playlist");
    check_durations(&read);
    check_dates(&read);
    if let Some(before) = before {
        check_update(&read, before);
    }
    read
}

fn check_durations(read: &Playlist) {
    assert!(read.segments.first().is_none_or(|first| first.map.is_some()), "the first segment has its map");
    for (index, entry) in read.segments.iter().enumerate() {
        assert!(entry.duration.round() as u64 <= read.target, "EXTINF {} of {}", entry.duration, read.target);
        assert!(entry.duration > 0.0);
        if entry.is_gap {
            assert!(entry.parts.is_empty());
            continue;
        }
        if !entry.parts.is_empty() {
            let sum: f64 = entry.parts.iter().map(|part| part.duration).sum();
            let error = (sum - entry.duration).abs();
            assert!(error < 1e-5 * (entry.parts.len() + 1) as f64, "parts make up segment {index}: {error}");
        }
    }
    for entry in read.segments.iter().chain([&read.open]) {
        for part in &entry.parts {
            assert!(
                part.duration <= read.part_target + 1e-9,
                "part {} of {}",
                part.duration,
                read.part_target
            );
        }
        let complete = !entry.uri.is_empty();
        let full = entry.parts.len().saturating_sub(usize::from(complete));
        for part in &entry.parts[..full] {
            assert!(
                part.duration >= 0.85 * read.part_target,
                "part {} of {}",
                part.duration,
                read.part_target
            );
        }
    }
    // Parts are there near the live edge only, and then for all segments from one on.
    let first = read.segments.iter().position(|entry| !entry.parts.is_empty());
    let rest = &read.segments[first.unwrap_or(read.segments.len())..];
    assert!(rest.iter().all(|entry| entry.is_gap || !entry.parts.is_empty()));
    let listed: f64 = rest.iter().skip(1).map(|entry| entry.duration).sum();
    assert!(listed <= 3.0 * read.target as f64, "parts further than three target durations from the end");
}

/// Dates and durations agree but for what is missing.
fn check_dates(read: &Playlist) {
    let entries: Vec<_> =
        read.segments.iter().chain((!read.open.parts.is_empty()).then_some(&read.open)).collect();
    for pair in entries.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        assert!(to.date > from.date, "dates go on");
        if !to.is_discontinuity && !from.is_gap && !to.is_gap {
            let error = (to.date - from.date) as f64 - from.duration * 1000.0;
            assert!(error.abs() <= 2.0, "dates and durations are {error} ms apart");
        }
    }
}

fn check_update(read: &Playlist, before: &Playlist) {
    assert_eq!((read.target, read.part_target), (before.target, before.part_target), "what never changes");
    assert!(!before.is_ended || read == before, "nothing changes behind the end");
    assert!(read.media_sequence >= before.media_sequence, "the media sequence does not go back");
    let removed = (read.media_sequence - before.media_sequence) as usize;
    assert!(removed <= before.segments.len(), "a segment that nobody has seen is gone");
    let (gone, kept) = before.segments.split_at(removed);
    let tags = gone.iter().filter(|entry| entry.is_discontinuity).count() as u64;
    assert_eq!(read.discontinuity_sequence, before.discontinuity_sequence + tags, "discontinuity sequence");
    assert!(read.next() >= before.next(), "what was there stays");
    if removed > 0 {
        let left: f64 = read.segments.iter().map(|entry| entry.duration).sum();
        assert!(left >= 3.0 * read.target as f64 - 0.01, "three target durations stay: {left}");
    }
    for (old, new) in kept.iter().zip(&read.segments) {
        let of = |entry: &Entry| {
            (
                entry.uri.clone(),
                entry.duration,
                entry.map.clone(),
                entry.date,
                entry.is_gap,
                entry.is_discontinuity,
            )
        };
        assert_eq!(of(old), of(new), "a segment does not change");
        assert!(new.parts.is_empty() || old.parts == new.parts, "its parts do not change");
    }
    if let Some(done) = read.segments.get(kept.len()) {
        let parts = before.open.parts.len();
        assert_eq!(done.parts.get(..parts).unwrap_or_default(), &before.open.parts[..], "parts stay");
        if parts > 0 {
            assert_eq!(done.date, before.open.date);
        }
    } else {
        assert_eq!(read.open.parts[..before.open.parts.len()], before.open.parts[..], "parts stay");
    }
    if let Some(hint) = &before.hint {
        // A hint comes true unless the segment ends or is empty.
        let parts: Vec<_> = read.segments.iter().chain([&read.open]).flat_map(|entry| &entry.parts).collect();
        let went_on = read.next() > before.next() && read.next().0 == before.next().0;
        assert!(!went_on || parts.iter().any(|part| part.uri == *hint), "the hint {hint} comes true");
    }
}

/// Reads the lines; each tag is known, in its place and well-formed.
fn read(text: &str) -> Playlist {
    assert!(text.ends_with('\n') && !text.contains('\r'));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("#EXTM3U"));
    let mut read = Playlist { text: text.to_owned(), ..Playlist::default() };
    let mut once: Vec<&str> = Vec::new();
    let mut entry = Entry::default();
    let mut map = None;
    let mut extinf = None;
    for line in lines {
        assert!(!read.is_ended, "nothing comes behind EXT-X-ENDLIST");
        if !line.starts_with('#') {
            entry.uri = line.to_owned();
            entry.duration = extinf.take().expect("EXTINF comes before a URI");
            entry.map.clone_from(&map);
            entry.lines.push(line.to_owned());
            read.segments.push(std::mem::take(&mut entry));
            continue;
        }
        let (tag, value) = line.split_once(':').unwrap_or((line, ""));
        let is_header = matches!(
            tag,
            "#EXT-X-VERSION"
                | "#EXT-X-TARGETDURATION"
                | "#EXT-X-SERVER-CONTROL"
                | "#EXT-X-PART-INF"
                | "#EXT-X-MEDIA-SEQUENCE"
                | "#EXT-X-DISCONTINUITY-SEQUENCE"
                | "#EXT-X-SKIP"
        );
        if is_header {
            assert!(!once.contains(&tag), "{tag} twice");
            assert!(read.segments.is_empty() && entry == Entry::default(), "{tag} comes late");
            once.push(tag);
        } else if !matches!(
            tag,
            "#EXT-X-PART" | "#EXT-X-PRELOAD-HINT" | "#EXT-X-RENDITION-REPORT" | "#EXT-X-ENDLIST"
        ) {
            entry.lines.push(line.to_owned());
        }
        match tag {
            "#EXT-X-VERSION" => read.version = value.parse().unwrap(),
            "#EXT-X-TARGETDURATION" => read.target = value.parse().unwrap(),
            "#EXT-X-SERVER-CONTROL" => {
                let of = attributes(value);
                assert_eq!(of.get("CAN-BLOCK-RELOAD"), "YES");
                assert!(of.number("CAN-SKIP-UNTIL") >= 6.0 * read.target as f64);
                assert!(of.number("HOLD-BACK") >= 3.0 * read.target as f64);
                assert!(of.number("PART-HOLD-BACK") > 0.0);
                assert_eq!(of.0.len(), 4);
                read.part_target = of.number("PART-HOLD-BACK") / 3.0;
            }
            "#EXT-X-PART-INF" => {
                let of = attributes(value).number("PART-TARGET");
                assert!(read.part_target >= of - 1e-9, "PART-HOLD-BACK is three parts");
                read.part_target = of;
            }
            "#EXT-X-MEDIA-SEQUENCE" => read.media_sequence = value.parse().unwrap(),
            "#EXT-X-DISCONTINUITY-SEQUENCE" => read.discontinuity_sequence = value.parse().unwrap(),
            "#EXT-X-SKIP" => read.skipped = attributes(value).number("SKIPPED-SEGMENTS") as usize,
            "#EXT-X-MAP" => map = Some(attributes(value).quoted("URI")),
            "#EXT-X-DISCONTINUITY" => entry.is_discontinuity = true,
            "#EXT-X-GAP" => entry.is_gap = true,
            "#EXT-X-PROGRAM-DATE-TIME" => {
                assert_eq!(entry.date, 0, "one date for a segment");
                entry.date = millis_of(value);
            }
            "#EXT-X-PART" => {
                let of = attributes(value);
                let independent = of.0.iter().any(|(name, value)| *name == "INDEPENDENT" && *value == "YES");
                assert_eq!(of.0.len(), 2 + usize::from(independent));
                let part = Part { uri: of.quoted("URI"), duration: of.number("DURATION"), independent };
                assert!(part.duration > 0.0);
                entry.parts.push(part);
            }
            "#EXTINF" => {
                let duration = value.strip_suffix(',').expect("a comma ends EXTINF");
                assert!(duration.split_once('.').is_some_and(|(_, decimals)| decimals.len() >= 3));
                assert!(extinf.replace(duration.parse().unwrap()).is_none());
            }
            "#EXT-X-PRELOAD-HINT" => {
                let of = attributes(value);
                assert_eq!(of.get("TYPE"), "PART");
                assert!(read.hint.replace(of.quoted("URI")).is_none());
            }
            "#EXT-X-RENDITION-REPORT" => {
                let of = attributes(value);
                let number = |name| of.get(name).parse().unwrap();
                read.reports.push((of.quoted("URI"), number("LAST-MSN"), number("LAST-PART")));
            }
            "#EXT-X-ENDLIST" => read.is_ended = true,
            other => panic!("unknown tag {other}"),
        }
    }
    for tag in ["#EXT-X-VERSION", "#EXT-X-TARGETDURATION", "#EXT-X-MEDIA-SEQUENCE"] {
        assert!(once.contains(&tag), "{tag} is missing");
    }
    let has_parts = read.version == 9;
    assert!(has_parts || read.version == 8, "a version that what it has needs: {}", read.version);
    for tag in ["#EXT-X-PART-INF", "#EXT-X-SERVER-CONTROL"] {
        assert_eq!(once.contains(&tag), has_parts, "{tag}");
    }
    assert!(has_parts || read.segments.iter().all(|entry| entry.parts.is_empty()));
    assert!(extinf.is_none() && entry.uri.is_empty());
    assert_eq!(has_parts && !read.is_ended, read.hint.is_some(), "a hint until the end");
    assert!(read.is_ended || read.segments.iter().all(|entry| entry.date > 0), "a date for each segment");
    let mut uris: Vec<_> = read.segments.iter().map(|entry| &entry.uri).collect();
    uris.sort();
    uris.dedup();
    assert_eq!(uris.len(), read.segments.len(), "each segment has a name of its own");
    entry.map = map;
    read.open = entry;
    read
}

struct Attributes<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Attributes<'a> {
    fn get(&self, name: &str) -> &'a str {
        self.0.iter().find(|(found, _)| *found == name).unwrap_or_else(|| panic!("{name} is missing")).1
    }

    fn number(&self, name: &str) -> f64 {
        self.get(name).parse().unwrap()
    }

    fn quoted(&self, name: &str) -> String {
        let value = self.get(name).strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let value = value.expect("a quoted string");
        assert!(!value.contains('"') && !value.is_empty());
        value.to_owned()
    }
}

/// Attribute list (section 4.2).
fn attributes(mut text: &str) -> Attributes<'_> {
    let mut list: Vec<(&str, &str)> = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once('=').expect("a name and a value");
        assert!(name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-'));
        assert!(list.iter().all(|(other, _)| *other != name), "{name} twice");
        let end = match rest.strip_prefix('"') {
            Some(quoted) => quoted.find('"').expect("a closing quote") + 2,
            None => rest.find(',').unwrap_or(rest.len()),
        };
        list.push((name, &rest[..end]));
        text = &rest[end..];
        if let Some(more) = text.strip_prefix(',') {
            assert!(!more.is_empty());
            text = more;
        } else {
            assert!(text.is_empty());
        }
    }
    Attributes(list)
}

/// Milliseconds since 1970 of an ISO 8601 date.
pub(crate) fn millis_of(date: &str) -> i64 {
    let bytes = date.as_bytes();
    assert!(bytes.len() == 24 && bytes[10] == b'T' && bytes[19] == b'.' && bytes[23] == b'Z', "{date}");
    let number = |range: std::ops::Range<usize>| date[range].parse::<i64>().unwrap();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut days: i64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let months = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    days += months[..month as usize - 1].iter().sum::<i64>() + day - 1;
    let seconds = days * 86_400 + number(11..13) * 3600 + number(14..16) * 60 + number(17..19);
    seconds * 1000 + number(20..23)
}
