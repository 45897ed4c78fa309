//! One message as text, for scripts and pipes: `millstream top --once`, with `--nodes` the cluster.
//!
//! A line for each worker, stream and session, or node and link; the first word says which. Figures
//! are plain numbers in the units of the message, unknown values are `-`, and no field contains spaces,
//! so that `awk` finds its columns by number. Lines with the names of the columns begin with `#`. Sessions
//! and streams are filtered and sorted as on the screen.

use super::app::App;
use super::cluster::{LINKS, NODES};
use super::columns::{Column, SESSIONS, STREAMS, Value};
use stats::message::StatsMessage;

/// The text of the message that `app` holds.
pub(crate) fn text(app: &App) -> String {
    let mut out = String::new();
    let message = &app.message;
    let workers: Vec<u32> = (0..message.workers.index.len() as u32).collect();
    let fields = WORKERS.iter().map(|(field, _)| *field);
    let value = |row, column: usize| (WORKERS[column].1)(message, row);
    group(&mut out, "worker", fields, &workers, value);
    table(&mut out, "stream", message, &STREAMS, app.streams.rows());
    table(&mut out, "session", message, &SESSIONS, app.sessions.rows());
    out
}

/// The text of the cluster that `app` holds.
pub(crate) fn cluster_text(app: &App) -> String {
    let mut out = String::new();
    table(&mut out, "node", &app.cluster, &NODES, app.nodes.rows());
    table(&mut out, "link", &app.cluster, &LINKS, app.links.rows());
    out
}

type WorkerColumn = (&'static str, fn(&StatsMessage, usize) -> Value<'_>);

const WORKERS: [WorkerColumn; 6] = [
    ("index", |m, row| Value::Count(m.workers.index[row].into())),
    ("load_percent", |m, row| Value::Real(m.workers.load_percent[row])),
    ("sessions", |m, row| Value::Count(m.workers.sessions[row].into())),
    ("snapshot_us", |m, row| Value::Count(m.workers.snapshot_us[row].into())),
    ("bits_in_per_second", |m, row| Value::Count(m.workers.bits_in_per_second[row])),
    ("bits_out_per_second", |m, row| Value::Count(m.workers.bits_out_per_second[row])),
];

fn table<M>(out: &mut String, kind: &str, message: &M, columns: &[Column<M>], rows: &[u32]) {
    let fields = columns.iter().map(|column| column.field);
    group(out, kind, fields, rows, |row, column| (columns[column].value)(message, row));
}

/// Lines of one kind, columns under each other.
fn group<'a>(
    out: &mut String,
    kind: &str,
    fields: impl Iterator<Item = &'static str>,
    rows: &[u32],
    value: impl Fn(usize, usize) -> Value<'a>,
) {
    let mut lines: Vec<Vec<String>> = Vec::with_capacity(rows.len() + 1);
    lines.push(std::iter::once(format!("#{kind}")).chain(fields.map(str::to_owned)).collect());
    let columns = lines[0].len() - 1;
    for row in rows {
        let cells = (0..columns).map(|column| value(*row as usize, column).plain());
        lines.push(std::iter::once(kind.to_owned()).chain(cells).collect());
    }
    let widths: Vec<usize> = (0..=columns)
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    for line in lines {
        for (cell, width) in line.iter().zip(&widths) {
            out.push_str(cell);
            let missing = width - cell.chars().count();
            out.extend(std::iter::repeat_n(' ', missing + 2));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::sample::cluster as sample_of_cluster;
    use crate::sample;

    /// The load in a worker's line.
    fn load(line: &str) -> &str {
        line.split_whitespace().nth(2).expect("a field")
    }

    #[test]
    fn every_line_has_as_many_fields_as_its_header() {
        let mut message = sample::message(2, 3, 12);
        message.streams.name[1] = "live/my cam".to_owned();
        message.streams.name[2] = String::new();
        message.workers.load_percent = vec![f32::INFINITY, f32::NAN];
        let mut app = App::new(String::new());
        app.receive(message);
        let text = text(&app);
        let mut fields = 0;
        for line in text.lines() {
            let found = line.split_whitespace().count();
            if line.starts_with('#') {
                fields = found;
            }
            assert_eq!(found, fields, "{line}");
            assert_eq!(line, line.trim_end());
        }
        let count = |kind: &str| text.lines().filter(|line| line.split(' ').next() == Some(kind)).count();
        assert_eq!((count("worker"), count("stream"), count("session")), (2, 3, 12));
        assert!(text.contains("live/my%20cam"), "{text}");
        let loads: Vec<_> = text.lines().filter(|line| line.starts_with("worker")).map(load).collect();
        assert_eq!(loads, ["-", "-"], "{text}");
    }

    #[test]
    fn nodes_and_links_have_lines_of_their_own() {
        let mut app = App::new(String::new());
        app.receive_cluster(Ok(sample_of_cluster(6)));
        let text = cluster_text(&app);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let node = ["node", "node-03", "nyc", "draining", "3000", "3", "24.00", "7500000000", "0.1.0"];
        assert_eq!(lines[4], node);
        assert_eq!(lines[7][..5], ["#link", "link", "state", "state_ms", "rtt_ms"]);
        assert_eq!(lines[11][..5], ["link", "node-04", "down", "244000", "-"]);
        assert_eq!(lines.len(), 13);
    }

    #[test]
    fn figures_are_plain_numbers_in_the_order_that_was_asked_for() {
        let mut app = App::new(String::new());
        app.filter = "whep".to_owned();
        app.sessions.sort_by("RTT");
        app.receive(sample::message(1, 3, 9));
        let text = text(&app);
        let sessions: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("session"))
            .map(|line| line.split_whitespace().collect())
            .collect();
        let expected = [
            "session",
            "0-7",
            "live/cam001",
            "player",
            "whep",
            "5900",
            "2000700",
            "207",
            "7",
            "0.70",
            "12.00",
            "3.50",
            "910",
            "490000",
            "18",
        ];
        assert_eq!(sessions[0], expected);
        assert_eq!(sessions.len(), 3);
        let header = text.lines().find(|line| line.starts_with("#session")).expect("a header");
        assert!(header.ends_with("queue_ms  queue_bytes  dropped_frames"), "{header}");
    }
}
