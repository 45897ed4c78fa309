//! The columns of tables: how each cell is sorted, printed and rated. Those of the cluster are in
//! `cluster.rs`.
//!
//! One list per table, in the order of the screen; headers, help, `--sort` and `--once` follow
//! them. A cell is a function of a message and a row, so that rows that are not shown cost only a
//! comparison.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::format;
use stats::message::{NO_STREAM, ROLE_PENDING, ROLE_PLAYER, ROLE_PUBLISHER, StatsMessage};

/// A column of a table of what is in an `M`.
pub(crate) struct Column<M = StatsMessage> {
    /// Header, and name for `--sort` in any case.
    pub title: &'static str,
    /// Name of what it shows with its unit, as in the message where it comes from there; for `--once`.
    pub field: &'static str,
    /// What it shows, for help.
    pub meaning: &'static str,
    /// Width in characters, more than that of the title, so that the mark of the order fits beside
    /// it; or [`FLEXIBLE`].
    pub width: u16,
    /// Whether it holds figures: they are aligned right and sorted largest first.
    pub is_figure: bool,
    /// Columns with the highest number are dropped first where there is no room for all.
    pub order_of_leaving: u8,
    /// The value of a row.
    pub value: for<'a> fn(&'a M, usize) -> Value<'a>,
    /// The value as people read it.
    pub text: for<'a> fn(Value<'a>) -> Cow<'a, str>,
    /// How good it is.
    pub judge: fn(Value<'_>) -> Level,
}

/// Width of the column that takes the remaining space, but at least [`FLEXIBLE_MIN`].
pub(crate) const FLEXIBLE: u16 = 0;
/// Least width of the flexible column.
pub(crate) const FLEXIBLE_MIN: u16 = 14;

/// What a cell holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// A count, a rate, a time in milliseconds.
    Count(u64),
    /// A measure.
    Real(f32),
    /// Worker and number of a session.
    Id(u16, u64),
    /// A name.
    Text(Cow<'a, str>),
    /// Unknown, or without meaning in this row. Comes last in any order.
    Unknown,
}

/// How good a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Neutral.
    Plain,
    /// As it should be.
    Good,
    /// Worth attention.
    Warning,
    /// Bad.
    Bad,
}

impl Value<'_> {
    /// Order of two values of one column; unknown ones come last in both directions.
    pub(crate) fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let order = match (self, other) {
            (Self::Unknown, Self::Unknown) => return Ordering::Equal,
            (Self::Unknown, _) => return Ordering::Greater,
            (_, Self::Unknown) => return Ordering::Less,
            (Self::Count(a), Self::Count(b)) => a.cmp(b),
            (Self::Real(a), Self::Real(b)) => a.total_cmp(b),
            (Self::Id(worker, serial), Self::Id(other, number)) => (worker, serial).cmp(&(other, number)),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            // A column has one kind of value.
            _ => Ordering::Equal,
        };
        if descending { order.reverse() } else { order }
    }

    /// The value for programs: plain numbers, no blanks within.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Count(value) => value.to_string(),
            Self::Real(value) if !value.is_finite() => format::UNKNOWN.to_owned(),
            Self::Real(value) => format!("{value:.2}"),
            Self::Id(worker, serial) => format!("{worker}-{serial}"),
            Self::Text(text) if text.is_empty() => format::UNKNOWN.to_owned(),
            Self::Text(text) => text.replace(char::is_whitespace, "%20"),
            Self::Unknown => format::UNKNOWN.to_owned(),
        }
    }
}

/// A measure that may be unknown.
fn real(value: f32) -> Value<'static> {
    if value.is_finite() { Value::Real(value) } else { Value::Unknown }
}

/// Index of a worker; -1 is none.
fn worker(index: i32) -> Value<'static> {
    u64::try_from(index).map_or(Value::Unknown, Value::Count)
}

/// Name of the stream of session `row`.
pub(crate) fn stream_of(message: &StatsMessage, row: usize) -> Option<&str> {
    let stream = message.sessions.stream[row];
    (stream != NO_STREAM).then(|| message.streams.name[stream as usize].as_str())
}

/// What sessions are, as texts.
pub(crate) const ROLES: [&str; 3] = ["publisher", "player", "pending"];

/// The role of session `row`.
pub(crate) fn role_of(message: &StatsMessage, row: usize) -> &'static str {
    match message.sessions.role[row] {
        ROLE_PUBLISHER => ROLES[0],
        ROLE_PLAYER => ROLES[1],
        ROLE_PENDING => ROLES[2],
        // A role of later versions.
        _ => format::UNKNOWN,
    }
}

/// The name of the protocol of session `row`.
pub(crate) fn protocol_of(message: &StatsMessage, row: usize) -> &str {
    &message.protocols[usize::from(message.sessions.protocol[row])]
}

fn as_is(value: Value<'_>) -> Cow<'_, str> {
    match value {
        Value::Count(value) => format::scaled(value).into(),
        Value::Real(value) => format::real(value).into(),
        Value::Id(worker, serial) => format!("{worker}-{serial}").into(),
        Value::Text(text) => text,
        Value::Unknown => format::UNKNOWN.into(),
    }
}

/// A count with all its digits: for players, one more or less matters.
pub(crate) fn exact(value: Value<'_>) -> Cow<'_, str> {
    match value {
        Value::Count(value) => format::grouped(value).into(),
        other => as_is(other),
    }
}

/// Milliseconds as a time span.
pub(crate) fn as_time(value: Value<'_>) -> Cow<'_, str> {
    match value {
        Value::Count(ms) => format::duration_ms(ms).into(),
        other => as_is(other),
    }
}

fn plain(_: Value<'_>) -> Level {
    Level::Plain
}

/// Rates counts that should be 0.
pub(crate) fn none_is_best(value: Value<'_>) -> Level {
    if matches!(value, Value::Count(1..)) { Level::Warning } else { Level::Plain }
}

/// Loss in percent: visible from 1, bad from 5.
pub(crate) fn loss(value: Value<'_>) -> Level {
    above(value, 1.0, 5.0)
}

/// Round trip in milliseconds: where retransmissions begin to arrive late, and too late.
fn round_trip(value: Value<'_>) -> Level {
    above(value, 200.0, 500.0)
}

/// Interarrival jitter in milliseconds: more than usual receive buffers absorb, and more than any
/// does.
fn jitter(value: Value<'_>) -> Level {
    above(value, 30.0, 100.0)
}

/// Queue of a player, in milliseconds: more than any merging delay, and half of what makes it skip
/// to the next key frame.
fn waiting(value: Value<'_>) -> Level {
    match value {
        Value::Count(5000..) => Level::Bad,
        Value::Count(1000..) => Level::Warning,
        _ => Level::Plain,
    }
}

/// Rates a measure by two limits.
pub(crate) fn above(value: Value<'_>, warning: f32, bad: f32) -> Level {
    match value {
        Value::Real(value) if value >= bad => Level::Bad,
        Value::Real(value) if value >= warning => Level::Warning,
        _ => Level::Plain,
    }
}

fn state(value: Value<'_>) -> Level {
    if value == Value::Text("live".into()) { Level::Good } else { Level::Warning }
}

/// Rows of a list of columns: kind, title, field, width, order of leaving, meaning, and the value.
macro_rules! columns {
    (@kind name) => { false };
    (@kind figure) => { true };
    ($($kind:ident $title:literal, $field:literal, $width:expr, $leaving:literal, $meaning:literal
        $(, text $text:ident)? $(, judge $judge:ident)?: $value:expr;)*) => {
        [$(Column {
            is_figure: $crate::columns::columns!(@kind $kind),
            value: $value,
            $(text: $text,)?
            $(judge: $judge,)?
            ..$crate::columns::column($title, $field, $width, $leaving, $meaning)
        }),*]
    };
}

pub(crate) use columns;

/// A column of figures without a value, for [`columns`].
pub(crate) const fn column<M>(
    title: &'static str,
    field: &'static str,
    width: u16,
    order_of_leaving: u8,
    meaning: &'static str,
) -> Column<M> {
    let value: for<'a> fn(&'a M, usize) -> Value<'a> = |_, _| Value::Unknown;
    Column {
        title,
        field,
        meaning,
        width,
        is_figure: true,
        order_of_leaving,
        value,
        text: as_is,
        judge: plain,
    }
}

/// Columns of the table of streams.
pub(crate) const STREAMS: [Column; 6] = columns! {
    name "STREAM", "stream", FLEXIBLE, 0, "name of the stream":
        |m, row| Value::Text(m.streams.name[row].as_str().into());
    name "STATE", "state", 7, 2, "live, or waiting: players without a publisher", judge state:
        |m, row| Value::Text(if m.streams.live[row] { "live" } else { "waiting" }.into());
    figure "HOME", "publisher_worker", 5, 5, "worker of its publisher":
        |m, row| worker(m.streams.publisher_worker[row]);
    figure "PLAYERS", "players", 8, 1, "players on all workers", text exact:
        |m, row| Value::Count(m.streams.players[row].into());
    figure "IN", "bits_in_per_second", 6, 3, "bits per second from its publisher":
        |m, row| Value::Count(m.streams.bits_in_per_second[row]);
    figure "OUT", "bits_out_per_second", 6, 4, "bits per second to its players":
        |m, row| Value::Count(m.streams.bits_out_per_second[row]);
};

/// Columns of the table of sessions.
pub(crate) const SESSIONS: [Column; 14] = columns! {
    name "ID", "id", 10, 2, "id: worker and number, as in the API":
        |m, row| Value::Id(m.sessions.worker[row], m.sessions.serial[row]);
    name "STREAM", "stream", FLEXIBLE, 0, "stream it publishes or plays":
        |m, row| stream_of(m, row).map_or(Value::Unknown, |name| Value::Text(name.into()));
    name "ROLE", "role", 9, 5, "publisher, player, or pending: neither yet":
        |m, row| Value::Text(role_of(m, row).into());
    name "PROTO", "protocol", 9, 4, "protocol":
        |m, row| Value::Text(protocol_of(m, row).into());
    figure "AGE", "connected_ms", 6, 9, "time since it came", text as_time:
        |m, row| Value::Count(m.sessions.connected_ms[row]);
    figure "BIT/S", "bits_per_second", 6, 1, "bits per second, from a publisher or to a player":
        |m, row| Value::Count(m.sessions.bits_per_second[row]);
    figure "PKT/S", "packets_per_second", 6, 10, "packets or messages per second":
        |m, row| Value::Count(m.sessions.packets_per_second[row].into());
    figure "LOST", "lost_packets", 5, 12, "packets lost so far (WebRTC)":
        |m, row| match m.sessions.lost_packets[row] {
            // Without loss reports, none were counted.
            0 if m.sessions.loss_percent[row].is_nan() => Value::Unknown,
            lost => Value::Count(lost),
        };
    figure "LOSS%", "loss_percent", 6, 3, "percent lost, by the last report (WebRTC)", judge loss:
        |m, row| real(m.sessions.loss_percent[row]);
    figure "RTT", "rtt_ms", 5, 6, "round trip, ms (WebRTC)", judge round_trip:
        |m, row| real(m.sessions.rtt_ms[row]);
    figure "JITTER", "jitter_ms", 7, 7, "variation of the arrival, ms (WebRTC)", judge jitter:
        |m, row| real(m.sessions.jitter_ms[row]);
    figure "QUEUE", "queue_ms", 6, 8, "what waits for a player, ms", judge waiting:
        |m, row| Value::Count(m.sessions.queue_ms[row].into());
    figure "QUEUED", "queue_bytes", 7, 13, "what waits for a player, bytes":
        |m, row| Value::Count(m.sessions.queue_bytes[row]);
    figure "DROPS", "dropped_frames", 6, 11, "frames a slow player did not get", judge none_is_best:
        |m, row| Value::Count(m.sessions.dropped_frames[row]);
};

/// Indices of the columns that fit into `width` characters, with one character between them. The
/// one at `sorted` is kept as long as the flexible one.
pub(crate) fn fitting<M>(columns: &[Column<M>], width: u16, sorted: usize) -> Vec<usize> {
    let least = |at: usize| {
        usize::from(columns[at].width.max(FLEXIBLE_MIN * u16::from(columns[at].width == FLEXIBLE)))
    };
    let leaving = |at: usize| if at == sorted { 0 } else { columns[at].order_of_leaving };
    let mut chosen: Vec<usize> = (0..columns.len()).collect();
    while chosen.len() > 1 && chosen.iter().map(|at| least(*at) + 1).sum::<usize>() > usize::from(width) + 1 {
        let first =
            (0..chosen.len()).max_by_key(|place| (leaving(chosen[*place]), columns[chosen[*place]].width));
        chosen.remove(first.unwrap_or(0));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn titles(columns: &[Column], width: u16, sorted: usize) -> Vec<&'static str> {
        fitting(columns, width, sorted).into_iter().map(|at| columns[at].title).collect()
    }

    #[test]
    fn columns_leave_one_by_one_and_the_sorted_one_last() {
        for columns in [STREAMS.as_slice(), SESSIONS.as_slice()] {
            for sorted in 0..columns.len() {
                let mut last = columns.len();
                for width in (0..=200).rev() {
                    let now = titles(columns, width, sorted);
                    assert!(now.len() == last || now.len() + 1 == last, "{width}: {now:?}");
                    let two = now.contains(&"STREAM") && now.contains(&columns[sorted].title);
                    assert!(two || now.len() == 1, "{width}: {now:?}");
                    last = now.len();
                }
                assert_eq!(last, 1);
            }
        }
        assert_eq!(titles(&SESSIONS, 40, 0), ["ID", "STREAM", "BIT/S", "LOSS%"]);
        assert_eq!(titles(&SESSIONS, 40, 13), ["ID", "STREAM", "BIT/S", "DROPS"]);
        assert_eq!(titles(&SESSIONS, 130, 0).len(), SESSIONS.len());
    }

    #[test]
    fn unknown_values_are_last_in_both_directions() {
        let cases = [
            (Value::Real(1.0), Value::Real(2.0), false, Ordering::Less),
            (Value::Real(1.0), Value::Real(2.0), true, Ordering::Greater),
            (Value::Unknown, Value::Real(2.0), false, Ordering::Greater),
            (Value::Unknown, Value::Real(2.0), true, Ordering::Greater),
            (Value::Text("a".into()), Value::Text("b".into()), false, Ordering::Less),
        ];
        for (a, b, descending, expected) in cases {
            assert_eq!(a.compare(&b, descending), expected, "{a:?} {b:?} {descending}");
            assert_eq!(b.compare(&a, descending), expected.reverse(), "{b:?} {a:?} {descending}");
        }
    }

    #[test]
    fn cells_show_what_the_message_says() {
        let message = sample::message(2, 3, 9);
        let row = |row| {
            let cell = |column: &Column| (column.text)((column.value)(&message, row)).into_owned();
            SESSIONS.iter().map(cell).collect::<Vec<_>>()
        };
        let publisher = ["0-0", "live/cam000", "publisher", "rtmp", "1s", "2.00M", "200", "-"];
        assert_eq!(row(0)[..8], publisher);
        assert_eq!(row(0)[8..], ["-", "-", "-", "0", "0", "0"]);
        let player = ["1-7", "live/cam001", "player", "whep", "5s", "2.00M", "207", "7"];
        assert_eq!(row(7)[..8], player);
        assert_eq!(row(7)[8..], ["0.7", "12.0", "3.5", "910", "490k", "18"]);
    }

    #[test]
    fn texts_for_programs_have_no_blanks() {
        assert_eq!(
            (Value::Real(f32::INFINITY).plain(), Value::Real(1.0).plain()),
            ("-".into(), "1.00".into())
        );
        assert_eq!(Value::Text("live/my cam\u{3000}1".into()).plain(), "live/my%20cam%201");
        assert_eq!(Value::Text("".into()).plain(), "-");
        assert_eq!((Value::Count(1_234_567).plain(), Value::Unknown.plain()), ("1234567".into(), "-".into()));
    }

    #[test]
    fn every_column_says_what_it_shows() {
        for column in STREAMS.iter().chain(&SESSIONS) {
            assert!(!column.meaning.is_empty() && !column.field.contains(' '), "{}", column.title);
            assert!(
                column.width == FLEXIBLE || column.title.len() < usize::from(column.width),
                "{}",
                column.title
            );
        }
    }
}
