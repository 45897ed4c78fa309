//! Telemetry to a collector of OpenTelemetry: what the sessions of each protocol look like there, metrics,
//! and collectors that are away, hang, lie and refuse.

use std::collections::HashMap;
use std::io::Read;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rtc::sdp::{Direction, make_offer};

use crate::common::flv::{TagReader, sample_tags};
use crate::common::hook::{Call, HookServer, Reply};
use crate::common::http;
use crate::common::rtc::{Client, OfferOptions, offer, post, start_flow};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::{TIMEOUT, eventually};
use crate::reload::reload;
use crate::srt_hostile::call as srt_call;

/// An answer of 200 with this body.
fn ok(body: &[u8]) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    Reply::Bytes([head.as_bytes(), body].concat())
}

fn takes_all(_: &Call) -> Reply {
    ok(&[])
}

fn config(collector: &HookServer, more: &str) -> String {
    let endpoint = collector.url("/otlp");
    format!("[telemetry]\notlp_endpoint = \"{endpoint}\"\nmetrics_seconds = 0\n{more}\n")
}

fn text<'a>(attributes: &'a [KeyValue], name: &str) -> &'a str {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|found| found.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}

/// All spans so far.
fn spans(collector: &HookServer) -> Vec<Span> {
    let calls = collector.calls().into_iter().filter(|call| call.path == "/otlp/v1/traces");
    let requests =
        calls.map(|call| ExportTraceServiceRequest::decode(&*call.body).expect("a request of OTLP"));
    let resources = requests.flat_map(|request| request.resource_spans);
    resources.flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
}

/// The spans of the sessions of a stream that have ended, by the names of their spans, each with its children.
fn sessions(collector: &HookServer, stream: &str) -> HashMap<String, (Span, Vec<Span>)> {
    let spans = spans(collector);
    let of_stream = |span: &&Span| text(&span.attributes, "millstream.stream") == stream;
    let roots = spans.iter().filter(of_stream).filter(|span| span.name.contains(' ') && span.kind == 2);
    let with_children = roots.map(|root| {
        let children = spans.iter().filter(|span| span.parent_span_id == root.span_id).cloned().collect();
        (root.name.clone(), (root.clone(), children))
    });
    with_children.collect()
}

/// Waits for the end of a session.
fn session(collector: &HookServer, stream: &str, name: &str) -> (Span, Vec<Span>) {
    eventually(&format!("the span of `{name}`"), || sessions(collector, stream).remove(name))
}

fn names(children: &[Span]) -> Vec<&str> {
    children.iter().map(|span| &*span.name).collect()
}

/// Each begins where the one before ended, and all are within their session.
fn follow_each_other(root: &Span, children: &[Span]) {
    let mut at = root.start_time_unix_nano;
    for child in children {
        assert_eq!(child.trace_id, root.trace_id);
        assert!(child.start_time_unix_nano.abs_diff(at) < 1_000, "{}: it begins with a gap", child.name);
        at = child.end_time_unix_nano;
    }
    assert!(at <= root.end_time_unix_nano + 1_000);
}

#[test]
fn a_session_of_webrtc_is_a_trace_with_its_stages_within_that_of_the_client() {
    let collector = HookServer::start(takes_all);
    let server = Server::start(&config(&collector, "headers = ['X-Key: meadow']\n"));
    let mut publisher = Client::publish(&server, "live/a");
    let mut viewer = Client::play(&server, "live/a");
    start_flow(&mut publisher, &mut viewer, 0);
    let played = server.sessions("role=player").pop().expect("a player");
    // What came is looked at a few times a second.
    let mut number = 0;
    eventually("the first key frame", || {
        number += 1;
        publisher.send_video(number, number == 1, 400);
        publisher.turn();
        viewer.turn();
        let spans = spans(&collector);
        let of_key_frames = spans.iter().filter(|span| span.name == "first key frame").count();
        (of_key_frames == 2).then_some(())
    });
    assert_eq!(viewer.delete(), 200);
    assert_eq!(publisher.delete(), 200);

    let (root, children) = session(&collector, "live/a", "play whep");
    assert_eq!(names(&children), ["request", "ICE", "DTLS", "first key frame"]);
    follow_each_other(&root, &children);
    assert_eq!(text(&root.attributes, "millstream.session"), played["id"], "the id of the log and the API");
    assert_eq!(text(&root.attributes, "millstream.cause"), "closed_by_peer");
    assert_eq!(text(&root.attributes, "client.address"), "127.0.0.1");
    assert!(root.status.is_none() && root.parent_span_id.is_empty());
    let (root, children) = session(&collector, "live/a", "publish whip");
    assert_eq!(names(&children), ["request", "ICE", "DTLS", "first key frame"]);
    follow_each_other(&root, &children);
    let call = &collector.calls()[0];
    assert_eq!((call.header("x-key"), call.header("content-type")), ("meadow", "application/x-protobuf"));
    assert!(!server.log().contains("meadow"));

    // A trace that the client has begun.
    let local = "127.0.0.1:50000".parse().expect("an address");
    let sdp = make_offer(&offer(Direction::Receive, local, &OfferOptions::default()));
    let of_client = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let not_sampled = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-00";
    for traceparent in [not_sampled, of_client] {
        let answer = post(server.http, "/whep/live/nobody", &sdp, &[("traceparent", traceparent)]);
        assert_eq!(answer.expect("an answer").status, 409);
    }
    let (root, children) = session(&collector, "live/nobody", "play whep");
    assert_eq!(root.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(root.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
    assert_eq!(names(&children), ["request"]);
    assert_eq!(root.status.expect("an error").code, 2);
    assert_eq!(text(&root.attributes, "millstream.reason"), "not_live");
    let of_others = spans(&collector).iter().filter(|span| span.trace_id.ends_with(&[0x9d])).count();
    assert_eq!(of_others, 0, "the client has said that it is not exported");
}

#[test]
fn sessions_of_other_protocols_are_traced_and_so_are_refusals() {
    let collector = HookServer::start(takes_all);
    let auth = "[[auth.play]]\nstream = 'live/shut'\nallow = 'nobody'\n\
                [[auth.play]]\nstream = '*'\nallow = 'anyone'\n";
    let server = Server::start(&format!("{}{auth}", config(&collector, "")));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    player.take_frames(10);
    for path in ["/live/mill.flv", "/live/mill.ts"] {
        let mut answer = http::open(server.http, "GET", path, &[]).expect("an answer");
        assert_eq!(answer.status, 200);
        if path.ends_with(".flv") {
            let mut reader = TagReader::new(answer);
            (0..10).for_each(|_| assert!(reader.next().is_some()));
        } else {
            let mut packet = [0; 188];
            answer.read_exact(&mut packet).expect("a packet");
            assert_eq!(packet[0], 0x47);
        }
    }
    drop(player);
    for name in ["play rtmp", "play http-flv", "play http-ts"] {
        let (root, children) = session(&collector, "live/mill", name);
        assert_eq!(names(&children), ["request", "first key frame"], "{name}");
        follow_each_other(&root, &children);
        assert!(text(&root.attributes, "millstream.session").starts_with("0-"), "{name}");
    }
    drop(publisher);
    let (root, children) = session(&collector, "live/mill", "publish rtmp");
    assert_eq!(names(&children), ["request", "first key frame"]);
    assert_eq!(text(&root.attributes, "millstream.cause"), "closed_by_peer");

    let refused = RtmpClient::begin_play(server.rtmp, "live/shut").wait_started();
    assert!(refused.is_err());
    let (root, children) = session(&collector, "live/shut", "play rtmp");
    assert_eq!(names(&children), ["request"]);
    assert_eq!(text(&root.attributes, "millstream.cause"), "refused");
    assert_eq!(root.status.expect("an error").code, 2);

    srt_call(&server, "publish:live/srt", None).expect("let in");
    // It never sends anything, and its session goes on: its request is there in any case.
    eventually("the request of the caller by SRT", || {
        let spans = spans(&collector);
        let of_srt = |span: &&Span| text(&span.attributes, "millstream.protocol") == "srt";
        spans.iter().find(of_srt).filter(|span| span.name == "request").map(|_| ())
    });
}

#[test]
fn a_share_of_sessions_is_traced_and_a_reload_changes_it() {
    let collector = HookServer::start(takes_all);
    let server = Server::spawn(&config(&collector, "samples_per_million = 0\n"));
    RtmpClient::publish(server.rtmp, "live/quiet");
    let all = config(&collector, "samples_per_million = 1000000\n");
    let answer = reload(&server, &all);
    assert_eq!(answer["changed"], serde_json::json!(["telemetry.samples_per_million"]));
    RtmpClient::publish(server.rtmp, "live/loud");
    session(&collector, "live/loud", "publish rtmp");
    assert!(sessions(&collector, "live/quiet").is_empty());
}

#[test]
fn metrics_are_those_of_prometheus() {
    let collector = HookServer::start(takes_all);
    let endpoint = collector.url("");
    let server = Server::start(&format!(
        "[telemetry]\notlp_endpoint = \"{endpoint}\"\nmetrics_seconds = 1\nservice_name = 'mill'\n\
         resource_attributes = ['deployment.environment.name=test']\n"
    ));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/m\u{fc}hle");
    publisher.send_tags(&sample_tags()[..60]);
    let (resource, metrics) = eventually("metrics of the stream", || {
        let call = collector.calls().into_iter().rev().find(|call| call.path == "/v1/metrics")?;
        let mut request = ExportMetricsServiceRequest::decode(&*call.body).expect("a request of OTLP");
        let of_resource = request.resource_metrics.pop()?;
        let metrics = of_resource.scope_metrics.into_iter().next()?.metrics;
        let has_stream = metrics.iter().any(|metric| metric.name == "millstream_stream_players");
        has_stream.then_some((of_resource.resource?, metrics))
    });
    assert_eq!(text(&resource.attributes, "service.name"), "mill");
    assert_eq!(text(&resource.attributes, "deployment.environment.name"), "test");
    assert!(!text(&resource.attributes, "service.instance.id").is_empty());
    let by_name: HashMap<_, _> = metrics.iter().map(|metric| (&*metric.name, metric)).collect();
    // No second list: the names are those of the text.
    let page = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let families = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let has_samples = |name: &str| page.lines().any(|line| line.starts_with(name) && !line.starts_with('#'));
    let families: Vec<_> = families.filter(|(name, _)| has_samples(name)).collect();
    assert!(families.len() > 100, "{}", families.len());
    for (name, kind) in families {
        let Some(metric) = by_name.get(name) else { panic!("{name} is not exported") };
        assert!(!metric.description.is_empty() || name.starts_with("process"), "{name} has no description");
        match (metric.data.as_ref().expect("data"), kind) {
            (Data::Sum(sum), "counter") => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{name}");
                assert!(sum.data_points.iter().all(|point| point.start_time_unix_nano > 0), "{name}");
            }
            (Data::Gauge(_), "gauge" | "info") => {}
            (other, kind) => panic!("{name} is a {kind}, not {other:?}"),
        }
    }
    let Some(Data::Gauge(players)) = &by_name["millstream_stream_players"].data else { panic!("a gauge") };
    assert_eq!(text(&players.data_points[0].attributes, "stream"), "m\u{fc}hle");
    let Some(Data::Sum(accepted)) = &by_name["millstream_connections_accepted"].data else { panic!("a sum") };
    assert!(matches!(accepted.data_points[0].value, Some(Number::AsInt(1..))));
}

/// A counter of the export.
fn count(server: &Server, sample: &str) -> u64 {
    let text = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let line = text.lines().find(|line| line.starts_with(sample)).unwrap_or_default();
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[test]
fn a_collector_that_is_away_hangs_or_lies_delays_nobody_and_what_is_dropped_is_counted() {
    let garbage = |_: &Call| ok(b"<html>no protobuf</html>");
    let collector = HookServer::start(garbage);
    let server = Server::start(&config(&collector, "timeout_ms = 100\n"));
    let begin = |stream: &str| drop(RtmpClient::publish(server.rtmp, stream));
    let wait = |sample: &str| {
        eventually(sample, || (count(&server, sample) > 0).then_some(()));
    };
    begin("live/garbage");
    wait("millstream_telemetry_requests_total{signal=\"traces\",result=\"answer\"}");
    wait("millstream_telemetry_dropped_spans_total{reason=\"failed\"}");

    collector
        .set_answer(|_| Reply::Bytes(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec()));
    begin("live/refused");
    wait("millstream_telemetry_requests_total{signal=\"traces\",result=\"refused\"}");

    collector.set_answer(|_| ok(&vec![0; 100 << 10]));
    let before = count(&server, "millstream_telemetry_requests_total{signal=\"traces\",result=\"answer\"}");
    begin("live/long");
    eventually("an answer that is too long is not read", || {
        let sample = "millstream_telemetry_requests_total{signal=\"traces\",result=\"answer\"}";
        (count(&server, sample) > before).then_some(())
    });

    let partial = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: i64::MAX,
            error_message: "no".to_owned(),
        }),
    };
    let partial = partial.encode_to_vec();
    collector.set_answer(move |_| ok(&partial));
    begin("live/partial");
    wait("millstream_telemetry_dropped_spans_total{reason=\"rejected\"}");

    collector.set_answer(|_| Reply::Hang);
    begin("live/hang");
    wait("millstream_telemetry_requests_total{signal=\"traces\",result=\"timeout\"}");
    // Nobody waits for it.
    (0..50).for_each(|number| begin(&format!("live/{number}")));

    // The same that could not be sent for a while is sent as soon as it can.
    collector.set_answer(takes_all);
    collector.let_go();
    begin("live/back");
    session(&collector, "live/back", "publish rtmp");
    assert!(server.log().contains("traces are exported again"), "{}", server.log());
}

#[test]
fn what_waits_is_sent_when_the_server_stops_and_a_collector_that_hangs_does_not_hold_it() {
    for (hangs, stream) in [(false, "live/sent"), (true, "live/lost")] {
        let collector = HookServer::start(move |_| if hangs { Reply::Hang } else { ok(&[]) });
        let mut server = Server::spawn(&config(&collector, "timeout_ms = 60000\n"));
        let publisher = RtmpClient::publish(server.rtmp, stream);
        server.terminate();
        server.wait_for_exit(TIMEOUT);
        drop(publisher);
        let (root, _) = match hangs {
            // The server has ended in any case.
            true => continue,
            false => session(&collector, stream, "publish rtmp"),
        };
        assert_eq!(text(&root.attributes, "millstream.cause"), "draining");
    }
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused_by_its_key() {
    for (keys, expected) in [
        ("otlp_endpoint = 'grpc://x'", "`telemetry.otlp_endpoint` begins with http:// or https://"),
        ("otlp_endpoint = 'http://u:secret@x'", "`telemetry.otlp_endpoint` has a user name or a password"),
        ("headers = ['secret']", "`telemetry.headers` takes `Name: value`, and field 1 is none"),
        ("headers_file = '/nowhere'", "`telemetry.headers_file` /nowhere: "),
        ("resource_attributes = ['a']", "`telemetry.resource_attributes` takes `name=value`, not `a`"),
    ] {
        let said = Server::refusal(&format!("[telemetry]\n{keys}\n"));
        assert!(said.contains(expected) && !said.contains("secret"), "{said}");
    }
}
