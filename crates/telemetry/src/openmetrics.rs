//! The text of `/metrics`, read back: names, help, types and samples.
//!
//! So that what is exported is what Prometheus reads, and no second list of metrics has to be kept.
//! Lines that are none of OpenMetrics 1.0 are left out: names of streams in labels come from clients.
//!
//! ```text
//! # HELP millstream_sent_bytes Bytes sent on all sockets.
//! # TYPE millstream_sent_bytes counter
//! millstream_sent_bytes_total{worker="0"} 17
//! ```

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FamilyKind {
    Counter,
    /// And what has a sample of 1: facts in labels.
    Gauge,
}

/// The value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

/// A sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: Number,
}

/// Samples of one name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) kind: FamilyKind,
    pub(crate) samples: Vec<Sample>,
}

/// Reads all families that have samples.
pub(crate) fn families(text: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    let mut help = ("", String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
            help = (name, unescape(text));
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let kind = if kind == "counter" { FamilyKind::Counter } else { FamilyKind::Gauge };
            let help = if help.0 == name { std::mem::take(&mut help.1) } else { String::new() };
            families.push(Family { name: name.to_owned(), help, kind, samples: Vec::new() });
        } else if let Some(family) = families.last_mut()
            && let Some((name, sample)) = sample(line)
            && name
                .strip_prefix(&*family.name)
                .is_some_and(|suffix| matches!(suffix, "" | "_total" | "_info"))
        {
            family.samples.push(sample);
        }
    }
    families.retain(|family| !family.samples.is_empty());
    families
}

fn sample(line: &str) -> Option<(&str, Sample)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    // A time may follow.
    let value = rest.trim_start().split(' ').next()?;
    let value = match value.parse() {
        Ok(integer) => Number::Integer(integer),
        Err(_) => Number::Float(value.parse().ok()?),
    };
    (!name.is_empty()).then_some((name, Sample { labels, value }))
}

/// Labels up to the brace that ends them, and what is behind it.
fn labels(mut text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let mut is_escaped = false;
        let end = rest.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })?;
        labels.push((name.to_owned(), unescape(&rest[..end])));
        let rest = &rest[end + 1..];
        text = rest.strip_prefix(',').unwrap_or(rest);
        if text.len() == rest.len() && !text.starts_with('}') {
            return None;
        }
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, char == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (char, false) => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prometheus_reads_is_read() {
        let text = "# HELP a_bytes Bytes.\n# TYPE a_bytes counter\na_bytes_total{worker=\"0\",x=\"b\"} 17\n\
            a_bytes_total{worker=\"1\"} 18 1700000000\n# HELP load Load.\n# TYPE load gauge\nload 0.25\n\
            # TYPE build info\nbuild_info{version=\"1\"} 1\n# TYPE none counter\n# EOF\n";
        let found = families(text);
        let names: Vec<_> = found.iter().map(|family| (&*family.name, family.kind)).collect();
        let (counter, gauge) = (FamilyKind::Counter, FamilyKind::Gauge);
        assert_eq!(names, [("a_bytes", counter), ("load", gauge), ("build", gauge)]);
        assert_eq!(found[0].help, "Bytes.");
        let values: Vec<Number> = found[0].samples.iter().map(|sample| sample.value).collect();
        assert_eq!(values, [Number::Integer(17), Number::Integer(18)]);
        assert_eq!(found[1].samples, [Sample { labels: Vec::new(), value: Number::Float(0.25) }]);
    }

    #[test]
    fn names_in_labels_cannot_break_out() {
        for (escaped, name) in
            [(r#"a\"} 1"#, r#"a"} 1"#), (r"a\\", r"a\"), (r"a\\\nb", "a\\\nb"), ("a,b=c{}", "a,b=c{}")]
        {
            let found = families(&format!("# TYPE x gauge\nx{{stream=\"{escaped}\",y=\"z\"}} 2\n"));
            let labels = vec![("stream".to_owned(), name.to_owned()), ("y".to_owned(), "z".to_owned())];
            assert_eq!(found[0].samples, [Sample { labels, value: Number::Integer(2) }], "{escaped}");
        }
    }

    #[test]
    fn what_is_no_sample_is_left_out() {
        for line in
            ["x", "x{", "x{a=\"b", "x{a=\"b\"", "x{a=\"b\"c} 1", "x{a} 1", "x y", " 1", "y 1", "x_sum 1"]
        {
            assert_eq!(families(&format!("# TYPE x counter\n{line}\n")), [], "{line}");
        }
    }
}
