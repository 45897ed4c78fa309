//! Sessions that exist are changed and ended: candidates that come later, a restart of ICE, tags, DELETE.

use super::*;

#[tokio::test]
async fn candidates_are_taken_and_not_answered() {
    let server = server();
    let (url, etag) = server.session().await;
    let headers = [("content-type", "application/trickle-ice-sdpfrag"), ("if-match", etag.as_str())];
    let answer = server.send("PATCH", &url, &headers, fragment(UFRAG, PASSWORD)).await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    assert!(!answer.headers.contains_key("etag"), "RFC 9725 section 4.3.2 forbids it");
    let RtcPatch::Candidates(candidates) = server.last_patch().1 else { panic!("no restart was asked for") };
    assert_eq!(candidates[0].address.to_string(), "192.0.2.7:61764");
    // Without credentials, and with the tag of whatever there is.
    let headers = [headers[0], ("if-match", "*")];
    assert_eq!(server.send("PATCH", &url, &headers, "a=end-of-candidates\r\n").await.status, 204);
}

#[tokio::test]
async fn new_credentials_restart_ice_and_change_the_tag() {
    let server = server();
    let (url, etag) = server.session().await;
    let headers = [("content-type", "application/trickle-ice-sdpfrag"), ("if-match", "\"*\"")];
    let answer = server.send("PATCH", &url, &headers, fragment("ysXw", NEW_PASSWORD)).await;
    assert_eq!((answer.status, answer.field("content-type")), (200, "application/trickle-ice-sdpfrag"));
    let (session, RtcPatch::Restart { local, remote, candidates }) = server.last_patch() else {
        panic!("a restart was asked for")
    };
    assert_eq!(session, SessionId::new(0, 0));
    assert_eq!(
        (remote.ufrag.as_str(), remote.password.as_str(), candidates.len()),
        ("ysXw", NEW_PASSWORD, 1)
    );
    for line in
        ["a=ice-lite", &format!("a=ice-ufrag:{}", local.ufrag), &format!("a=ice-pwd:{}", local.password)]
    {
        assert!(answer.body.lines().any(|it| it == line), "{line} is not in\n{}", answer.body);
    }
    assert!(
        answer.body.contains("192.0.2.1 8189 typ host") && answer.body.contains("a=mid:0"),
        "{}",
        answer.body
    );
    let changed = answer.field("etag");
    assert!(changed != etag && changed == format!("\"{}\"", local.ufrag), "{changed}");

    // What was on its way for the old ICE session is refused, for the new one taken.
    let with = |tag| [("content-type", "application/trickle-ice-sdpfrag"), ("if-match", tag)];
    let late = server.send("PATCH", &url, &with(&etag), fragment(UFRAG, PASSWORD)).await;
    assert_eq!((late.status, late.code().as_str()), (412, "precondition_failed"));
    let timely = server.send("PATCH", &url, &with(changed), fragment("ysXw", NEW_PASSWORD)).await;
    assert_eq!(timely.status, 204, "{}", timely.body);
}

#[tokio::test]
async fn changes_that_make_no_sense_change_nothing() {
    let server = server();
    let (url, etag) = server.session().await;
    let typed = ("content-type", "application/trickle-ice-sdpfrag");
    let tag = ("if-match", etag.as_str());
    let trickle = || fragment(UFRAG, PASSWORD);
    let half = "a=ice-ufrag:ysXw\r\n".to_owned();
    let only_password = fragment(UFRAG, NEW_PASSWORD);
    let cases: [(Fields<'_>, String, u16); 10] = [
        (&[typed], trickle(), 428),
        (&[typed, ("if-match", "\"other\"")], trickle(), 412),
        (&[typed, ("if-match", "W/\"x\"")], trickle(), 412),
        (&[typed, ("if-match", "\"a\"b\"")], trickle(), 400),
        (&[typed, ("if-match", "\"other\"")], fragment("ysXw", NEW_PASSWORD), 412),
        (&[tag], trickle(), 415),
        (&[tag, ("content-type", "application/sdp")], trickle(), 415),
        (&[typed, tag], "nonsense".to_owned(), 400),
        (&[typed, tag], half, 400),
        (&[typed, tag], only_password, 400),
    ];
    for (headers, body, status) in cases {
        let answer = server.send("PATCH", &url, headers, body.clone()).await;
        assert_eq!(answer.status, status, "{headers:?} {body}: {}", answer.body);
        assert_eq!(answer.field("accept-patch").is_empty(), status != 415);
    }
    assert!(server.workers.patched.lock().expect("not poisoned").is_empty());
    let answer = server.send("PATCH", &url, &[typed, tag], trickle()).await;
    assert_eq!(answer.status, 204, "the session is as it was");
}

#[tokio::test]
async fn a_session_ends_once() {
    let server = server();
    let (url, _) = server.session().await;
    assert_eq!(server.send("GET", &url, &[], "").await.status, 204);
    // A tag of another ICE session is of no account.
    assert_eq!(server.send("DELETE", &url, &[("if-match", "\"other\"")], "").await.status, 200);
    assert_eq!(*server.workers.closed.lock().expect("not poisoned"), [SessionId::new(0, 0)]);
    server.context.rtc.registry.notice(RtcNotice::Ended(SessionId::new(0, 0)));
    for method in ["DELETE", "PATCH", "GET"] {
        assert_eq!(server.send(method, &url, &[], "").await.status, 404, "{method}");
    }
    assert!(server.context.rtc.registry.is_clear(), "nothing is kept of it");
}

#[tokio::test]
async fn sessions_that_have_gone_are_not_found() {
    let server = server();
    let (url, etag) = server.session().await;
    server.workers.gone.store(true, Ordering::Relaxed);
    let headers = [("content-type", "application/trickle-ice-sdpfrag"), ("if-match", etag.as_str())];
    assert_eq!(server.send("PATCH", &url, &headers, fragment(UFRAG, PASSWORD)).await.status, 404);
    assert_eq!(
        server
            .send("PATCH", &url, &[headers[0], ("if-match", "*")], fragment("ysXw", NEW_PASSWORD))
            .await
            .status,
        404
    );
    assert_eq!(server.send("DELETE", &url, &[], "").await.status, 404);
}
