//! Live statistics of WebRTC sessions: what reports say of a viewer and of a publisher, in both
//! lanes of a server.

use crate::common::rtc::{Client, start_flow};
use crate::common::server::Server;
use crate::common::{eventually, stats};
use serde_json::{Value, json};

#[test]
fn packets_and_reports_of_publisher_and_viewer_are_told() {
    let server = Server::start_workers(2, "");
    let mut publisher = Client::publish(&server, "live/cam");
    let mut viewer = Client::play(&server, "live/cam");
    let mut reader = stats::open(&server);
    let mut number = start_flow(&mut publisher, &mut viewer, 0);
    let id = |role: &str| {
        let sessions = server.sessions(&format!("stream=live/cam&role={role}"));
        sessions[0]["id"].as_str().expect("an id").to_owned()
    };
    let ids = [id("publisher"), id("player")];
    // Media goes on until a second of it is in the figures of both.
    let (sessions, message) = eventually("figures of both", || {
        for _ in 0..50 {
            publisher.send_audio(number);
            number += 1;
            publisher.turn();
            viewer.turn();
        }
        let message = reader.next();
        let sessions = [stats::session(&message, &ids[0])?, stats::session(&message, &ids[1])?];
        let moving = |session: &Value| session["packets_per_second"].as_u64() > Some(0);
        let measured = !sessions[0]["jitter_ms"].is_null() && !sessions[0]["loss_percent"].is_null();
        (sessions.iter().all(moving) && measured).then_some((sessions, message))
    });
    let protocols = sessions
        .each_ref()
        .map(|session| &message["protocols"][session["protocol"].as_u64().expect("one") as usize]);
    assert_eq!(protocols, [&json!("whip"), &json!("whep")]);
    assert_eq!((&sessions[0]["role"], &sessions[1]["role"]), (&json!(1), &json!(2)));
    assert_eq!((&sessions[0]["lost_packets"], &sessions[0]["loss_percent"]), (&json!(0), &json!(0.0)));
    for session in &sessions {
        assert!(session["bits_per_second"].as_u64() > Some(0), "{session}");
        assert!(session["packets"].as_u64() >= session["packets_per_second"].as_u64(), "{session}");
    }
    let cam = stats::stream(&message, "live/cam").expect("the stream");
    assert_eq!((&cam["live"], &cam["players"]), (&json!(true), &json!(1)));
    assert_eq!(cam["bits_in_per_second"], sessions[0]["bits_per_second"]);
    assert_eq!(cam["bits_out_per_second"], sessions[1]["bits_per_second"]);

    let of_workers = |column: &str| -> u64 {
        let workers = message["workers"][column].as_array().expect("a column");
        workers.iter().map(|bits| bits.as_u64().expect("a rate")).sum()
    };
    // Datagrams of checks and handshakes come on top of media.
    assert!(
        of_workers("bits_in_per_second") >= sessions[0]["bits_per_second"].as_u64().expect("a rate"),
        "{message}"
    );
    assert!(
        of_workers("bits_out_per_second") >= sessions[1]["bits_per_second"].as_u64().expect("a rate"),
        "{message}"
    );

    // What a viewer reports is in the figures once it does.
    assert!(sessions[1]["loss_percent"].is_null(), "this client has sent no report: {}", sessions[1]);
    let ssrc =
        u32::from_be_bytes(viewer.media.back().expect("a packet")[8..12].try_into().expect("four bytes"));
    viewer.reports.clear();
    viewer.until("a sender report", |viewer| {
        publisher.turn();
        publisher.send_audio(number);
        number += 1;
        viewer.reports.iter().any(|compound| sender_report_time(compound).is_some())
    });
    let last_report = viewer.reports.iter().find_map(|compound| sender_report_time(compound)).expect("one");
    viewer.send_rtcp(&receiver_report(ssrc, last_report));
    let viewer = reader.wait_for("what the viewer reported", |message| {
        stats::session(message, &ids[1]).filter(|session| !session["rtt_ms"].is_null())
    });
    assert_eq!((&viewer["lost_packets"], &viewer["loss_percent"]), (&json!(7), &json!(25.0)));
    assert_eq!(viewer["jitter_ms"], 10.0, "480 units of a clock of 48 kHz");
    let listed = server.sessions("role=player")[0]["rtc"].clone();
    assert_eq!((&listed["loss_percent"], &listed["jitter_ms"]), (&json!(25.0), &json!(10.0)));
    assert_eq!(listed["lost_packets"], 7);
}

/// Middle 32 bits of the time in a sender report, if the compound packet begins with one (RFC 3550
/// section 6.4.1).
fn sender_report_time(compound: &[u8]) -> Option<[u8; 4]> {
    (compound.get(1) == Some(&200)).then(|| compound.get(10..14)?.try_into().ok()).flatten()
}

/// A receiver report (RFC 3550 section 6.4.2) of a quarter lost, 7 packets in all, and a jitter of 480 units.
fn receiver_report(ssrc: u32, last_report: [u8; 4]) -> Vec<u8> {
    let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 1];
    report.extend(ssrc.to_be_bytes());
    report.extend([64, 0, 0, 7]);
    report.extend(1000u32.to_be_bytes());
    report.extend(480u32.to_be_bytes());
    report.extend(last_report);
    report.extend(0u32.to_be_bytes());
    report
}
