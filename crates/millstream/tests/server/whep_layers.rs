//! A player chooses among the simulcast layers of a publisher, and sees what it gets.

use std::io::{BufRead, BufReader};

use rtc::sdp::Direction;
use rtc_test::video_fields;
use rtp::HeaderFields;
use rtp::extension::{BlockWriter, Form};
use rtp::payload::MediaKind;
use rtp::rtcp::Remb;
use serde_json::{Value, json};

use crate::common::http;
use crate::common::rtc::{Client, Options, VP8, counter, vp8_frame};
use crate::common::server::Server;
use crate::common::{eventually, openapi::departures};

const RID_ID: u8 = 10;
const RIDS: [&str; 3] = ["f", "h", "q"];

/// Frames of all layers, each with a quarter of the bytes of the one before.
struct Publisher {
    client: Client,
    frame: u32,
}

impl Publisher {
    fn start(server: &Server) -> Self {
        let options = Options { simulcast: Some((RIDS, RID_ID)), ..Options::default() };
        let mut client = Client::open(server, "/whip/live/a", Direction::Send, &options);
        client.connect();
        Self { client, frame: 0 }
    }

    fn send(&mut self) {
        self.client.turn();
        for (layer, rid) in (0..).zip(RIDS) {
            let mut block = [0; 32];
            let mut writer = BlockWriter::new(&mut block, Form::OneByte);
            writer.push(1, b"1").expect("MID");
            writer.push(RID_ID, rid.as_bytes()).expect("room");
            let len = writer.finish();
            let ssrc = 0x0b00_0000 + layer;
            let fields = HeaderFields { ssrc, payload_type: VP8, ..video_fields(self.frame) };
            let payload = vp8_frame(self.frame, self.frame.is_multiple_of(10), LENGTHS[layer as usize]);
            self.client.send_rtp_with(fields, &block[..len], &payload);
        }
        self.frame += 1;
    }
}

const LENGTHS: [usize; 3] = [960, 240, 60];

/// Runs both until `check` holds.
fn until(
    publisher: &mut Publisher,
    viewer: &mut Client,
    what: &str,
    mut check: impl FnMut(&[usize]) -> bool,
) {
    viewer.until(what, |viewer| {
        publisher.send();
        let ssrc = viewer.source(MediaKind::Video).ssrc;
        let media: Vec<Vec<u8>> = viewer.media.drain(..).collect();
        let packets = media.iter().filter_map(|bytes| rtp::Packet::parse(bytes).ok());
        let lengths: Vec<usize> =
            packets.filter(|packet| packet.ssrc() == ssrc).map(|packet| packet.payload().len()).collect();
        check(&lengths)
    });
}

fn choose(viewer: &Client, body: &str) -> http::Response {
    viewer.send("POST", "/layer", body)
}

fn session(server: &Server) -> Value {
    server.sessions("role=player").pop().expect("a player")["rtc"]["path"].clone()
}

#[test]
fn a_player_gets_the_layer_that_it_asks_for_and_sees_it() {
    let server = Server::start("");
    let document = server.api("/api/v1/openapi.json");
    let mut publisher = Publisher::start(&server);
    let mut viewer = Client::play(&server, "live/a");
    let mut seen = 0;
    until(&mut publisher, &mut viewer, "video", |lengths| {
        seen += lengths.len();
        seen > 60
    });
    eventually("all layers are known", || {
        publisher.send();
        let layers = server.api("/api/v1/streams/live/a")["layers"].clone();
        let known = |layer: &Value| layer["live"] == true && layer["bits_per_second"].as_u64() > Some(0);
        let layers = layers.as_array()?;
        (layers.len() == 3 && layers.iter().all(known)).then_some(())
    });

    assert_eq!(choose(&viewer, r#"{"encodingId": "q"}"#).status, 200);
    until(&mut publisher, &mut viewer, "the least layer", |lengths| lengths.contains(&LENGTHS[2]));
    eventually("it is shown", || {
        publisher.send();
        viewer.turn();
        let path = session(&server);
        (path["layer"]["name"] == "q" && path["wanted_layer"]["name"] == "q").then_some(())
    });
    let path = session(&server);
    assert_eq!(
        (&path["fixed"], &path["reason"]),
        (&json!(true), &json!("asked for by the player")),
        "{path}"
    );
    let stream = server.api("/api/v1/streams/live/a");
    let viewers: Vec<_> = stream["layers"]
        .as_array()
        .expect("layers")
        .iter()
        .map(|layer| (&layer["name"], &layer["viewers"]))
        .collect();
    assert!(viewers.contains(&(&json!("q"), &json!(1))), "{stream}");
    for (template, path) in
        [("/api/v1/streams/{app}/{name}", "/api/v1/streams/live/a"), ("/api/v1/sessions", "/api/v1/sessions")]
    {
        let found = departures(&document, template, &server.api(path));
        assert!(found.is_empty(), "GET {path}:\n  {}", found.join("\n  "));
    }

    let refused = choose(&viewer, r#"{"encodingId": "x"}"#);
    assert_eq!(refused.status, 404, "{}", refused.text());
    assert_eq!(choose(&viewer, r#"{"temporalLayerId": 0}"#).status, 400, "of which encoding?");
    assert_eq!(choose(&viewer, r#"{"encodingId": "f"}"#).status, 200);
    until(&mut publisher, &mut viewer, "the best layer", |lengths| lengths.contains(&LENGTHS[0]));
    assert_eq!(choose(&viewer, "").status, 200);
    eventually("its path decides again", || {
        publisher.send();
        viewer.turn();
        (session(&server)["fixed"] == false).then_some(())
    });
    assert_eq!(counter(&server, "players"), 1);
}

#[test]
fn a_slow_player_on_another_worker_gets_less_and_a_fast_one_the_best() {
    let server = Server::start_workers(2, "");
    let mut publisher = Publisher::start(&server);
    let worker_of = |session: &Value| session["worker"].as_u64();
    let home = server.sessions("role=publisher").first().and_then(worker_of).expect("a publisher");
    // Until there are two on the other worker; those at home play along.
    let mut players: Vec<Client> = Vec::new();
    let (mut slow, mut fast) = (None, None);
    while slow.is_none() || fast.is_none() {
        let known: Vec<Value> =
            server.sessions("role=player").into_iter().map(|session| session["id"].clone()).collect();
        let player = Client::play(&server, "live/a");
        let sessions = server.sessions("role=player");
        let new = sessions.iter().find(|session| !known.contains(&session["id"])).expect("it is listed");
        let is_away = worker_of(new) != Some(home);
        let place = if slow.is_none() { &mut slow } else { &mut fast };
        if is_away {
            *place = Some((players.len(), new["id"].clone()));
        }
        players.push(player);
        assert!(players.len() < 8, "players are spread");
    }
    let ((slow, slow_id), (fast, fast_id)) = slow.zip(fast).expect("two on the other worker");
    let path_of = |id: &Value| {
        let sessions = server.sessions("role=player");
        let session = sessions.into_iter().find(|session| session["id"] == *id).expect("it plays");
        session["rtc"]["path"].clone()
    };
    // Lengths of the packets of video that a player got since the last time.
    let lengths = |player: &mut Client| -> Vec<usize> {
        let ssrc = player.source(MediaKind::Video).ssrc;
        let media: Vec<Vec<u8>> = player.media.drain(..).collect();
        let packets = media.iter().filter_map(|bytes| rtp::Packet::parse(bytes).ok());
        packets.filter(|packet| packet.ssrc() == ssrc).map(|packet| packet.payload().len()).collect()
    };
    let (mut of_slow, mut of_fast) = (Vec::new(), Vec::new());
    eventually("each gets what its path carries", || {
        publisher.send();
        for (at, player) in players.iter_mut().enumerate() {
            player.turn();
            let (carries, ssrc) =
                (if at == slow { 50_000 } else { 20_000_000 }, player.source(MediaKind::Video).ssrc);
            let mut rtcp = Vec::new();
            Remb::write(&mut rtcp, 1, carries, &[ssrc]);
            player.send_rtcp(&rtcp);
        }
        of_slow.extend(lengths(&mut players[slow]));
        of_fast.extend(lengths(&mut players[fast]));
        let is =
            |got: &[usize], len: usize| got.len() > 20 && got[got.len() - 10..].iter().all(|it| *it == len);
        let is_so = is(&of_slow, LENGTHS[2]) && is(&of_fast, LENGTHS[0]);
        let names = || [&slow_id, &fast_id].map(|id| path_of(id)["layer"]["name"].clone());
        (is_so && names() == ["q", "f"]).then_some(())
    });
    let layers = server.api("/api/v1/streams/live/a")["layers"].clone();
    let viewers = |name: &str| {
        let of_name = layers.as_array().into_iter().flatten().filter(|layer| layer["name"] == name);
        of_name.filter_map(|layer| layer["viewers"].as_u64()).sum::<u64>()
    };
    assert!(viewers("q") >= 1 && viewers("f") >= 1, "{layers}");
    // And what it asks for.
    assert_eq!(choose(&players[fast], r#"{"encodingId": "h"}"#).status, 200);
    eventually("it gets that", || {
        publisher.send();
        players.iter_mut().for_each(|player| player.turn());
        lengths(&mut players[fast]).contains(&LENGTHS[1]).then_some(())
    });
}

#[test]
fn events_come_over_http_and_end_with_the_session() {
    let server = Server::start("");
    let mut publisher = Publisher::start(&server);
    let mut viewer = Client::play(&server, "live/a");
    let mut seen = 0;
    until(&mut publisher, &mut viewer, "video", |lengths| {
        seen += lengths.len();
        seen > 30
    });
    let path = format!("{}/sse", viewer.session);
    let events = http::open(server.http, "GET", &path, &[]).expect("events");
    assert_eq!((events.status, events.header("content-type")), (200, Some("text/event-stream")));
    let mut lines = BufReader::new(events).lines().map(|line| line.expect("a line"));
    assert_eq!(lines.next().as_deref(), Some("event: active"));
    let layers = lines.find(|line| line.contains("\"layers\"")).expect("layers");
    let layers: Value = serde_json::from_str(layers.strip_prefix("data: ").expect("data")).expect("JSON");
    let names: Vec<_> =
        layers["1"]["layers"].as_array().expect("layers").iter().map(|layer| &layer["encodingId"]).collect();
    assert_eq!(names.len(), 3, "{layers}");
    for rid in RIDS {
        assert!(names.contains(&&json!(rid)), "{layers}");
    }
    assert!(lines.any(|line| line == "data: {\"viewercount\":1}"));
    assert_eq!(viewer.delete(), 200);
    assert!(lines.all(|line| !line.starts_with("event: active")), "it ends");
    assert_eq!(http::get(server.http, &path).expect("a response").status, 404);
}
