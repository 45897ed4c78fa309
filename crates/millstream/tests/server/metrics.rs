//! `/metrics` is well-formed Prometheus text and counts what happened.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::raw;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

#[test]
fn metrics_are_well_formed_and_count_what_happened() {
    let server = Server::start_workers(2, "");
    let before = scrape(&server);
    let mut players: Vec<_> = (0..3).map(|_| RtmpClient::play(server.rtmp, "live/mill")).collect();
    server.wait_for_players("live/mill", 3);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let tags: Vec<_> = sample_tags().into_iter().take(300).collect();
    publisher.send_tags(&tags);
    for player in &mut players {
        player.take_frames(290);
    }
    let sent: u64 = tags.iter().map(|tag| tag.body.len() as u64).sum();
    crate::common::eventually("the counters have followed", || {
        let now = scrape(&server);
        let grown = |name: &str| total(&now, name) - total(&before, name);
        (grown("millstream_received_bytes_total") >= sent as f64
            && grown("millstream_sent_bytes_total") >= 2.0 * sent as f64
            && per_stream(&now, "players", "mill") == Some(3.0))
        .then_some(())
    });
}

#[test]
fn names_with_special_characters_stay_inside_their_label() {
    let server = Server::start("[limits]\nname_extra_characters = ' \"}'\n");
    let mut publisher = raw::handshake(server.rtmp);
    let commands = [raw::connect_and_create("live"), raw::publish("say \"cheese\"} 1")].concat();
    std::io::Write::write_all(&mut publisher, &commands).expect("send");
    crate::common::eventually("the stream appears in the metrics", || {
        scrape(&server).keys().any(|key| key.contains("say \\\"cheese\\\"} 1")).then_some(())
    });
}

/// All samples by name and labels, after a check of the format.
fn scrape(server: &Server) -> BTreeMap<String, f64> {
    let response = http::get(server.http, "/metrics").expect("GET /metrics");
    assert_eq!(response.status, 200);
    let kind = response.header("content-type").expect("a content type").to_owned();
    assert!(kind.starts_with("text/plain") || kind.starts_with("application/openmetrics-text"), "{kind}");
    let (mut samples, mut described) = (BTreeMap::new(), BTreeSet::new());
    for line in response.text().lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            assert!(matches!(words[0], "HELP" | "TYPE" | "UNIT" | "EOF"), "{line}");
            if words[0] == "TYPE" {
                assert!(described.insert(words[1].to_owned()), "{} is described twice", words[1]);
                assert!(words[1].starts_with("millstream_") || words[1].starts_with("process_"), "{line}");
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value in {line:?}"));
        let name = series.split('{').next().expect("a name");
        let base = ["_total", "_bucket", "_sum", "_count", "_info"]
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix))
            .find(|base| described.contains(*base));
        assert!(described.contains(name) || base.is_some(), "{name} has no TYPE line");
        let value = value.parse().unwrap_or_else(|_| panic!("{value:?} is no number in {line:?}"));
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} appears twice");
    }
    assert!(samples.len() > 10, "only {} samples", samples.len());
    samples
}

/// Sum over all labels of the metric `name`.
fn total(samples: &BTreeMap<String, f64>, name: &str) -> f64 {
    let matching: Vec<f64> = samples
        .iter()
        .filter(|(key, _)| key.split('{').next() == Some(name))
        .map(|(_, value)| *value)
        .collect();
    assert!(!matching.is_empty(), "no metric is called {name}: {:?}", samples.keys().collect::<Vec<_>>());
    matching.iter().sum()
}

/// The sample of a stream whose metric name contains `what`.
fn per_stream(samples: &BTreeMap<String, f64>, what: &str, stream: &str) -> Option<f64> {
    let found = samples.iter().find(|(key, _)| {
        let (name, labels) = key.split_once('{').unwrap_or((key, ""));
        name.contains("stream") && name.contains(what) && labels.contains(&format!("\"{stream}\""))
            || name.contains(what) && labels.contains(&format!("/{stream}\""))
    });
    found.map(|(_, value)| *value)
}
