//! Tables of who is let in.

use super::manage::{Manage, WebRequest, host_name};
use super::*;
use crate::pattern::Pattern;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn tokens(list: &[&str]) -> Tokens {
    Tokens::new(list.iter().map(|token| (*token).to_owned()))
}

fn rule(pattern: &str, access: Access) -> Rule {
    Rule { pattern: Pattern::new(pattern), access }
}

const FAR: &str = "203.0.113.9";
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn publish(
    policy: &Policy,
    app: &str,
    stream: &str,
    token: Option<&str>,
    peer: IpAddr,
) -> Result<(), Denied> {
    policy.may_publish(app, stream, &Bearer { token, peer, now: NOW }).map(|_| ())
}

fn play(policy: &Policy, app: &str, stream: &str, token: Option<&str>, peer: IpAddr) -> Result<(), Denied> {
    policy.may_play(app, stream, &Bearer { token, peer, now: NOW }).map(|_| ())
}

fn publish_by_web(policy: &Policy, app: &str, stream: &str, request: &WebRequest<'_>) -> Result<(), Denied> {
    policy.may_publish_by_web(app, stream, request).map(|_| ())
}

fn play_by_web(policy: &Policy, app: &str, stream: &str, request: &WebRequest<'_>) -> Result<(), Denied> {
    policy.may_play_by_web(app, stream, request).map(|_| ())
}

#[test]
fn loopback_is_recognised_in_every_form() {
    let cases = [
        ("127.0.0.1", true),
        ("127.9.9.9", true),
        ("::1", true),
        ("::ffff:127.0.0.1", true), // IPv4 peer of a dual-stack socket
        ("::ffff:203.0.113.9", false),
        ("::127.0.0.1", false), // the deprecated compatible form is no peer of ours
        (FAR, false),
        ("0.0.0.0", false),
        ("::", false),
    ];
    for (address, expected) in cases {
        assert_eq!(is_loopback(ip(address)), expected, "{address}");
    }
}

#[test]
fn without_rules_the_fallback_decides() {
    let policy = Policy {
        publish: Rules { rules: vec![], fallback: Access::loopback() },
        play: Rules { rules: vec![], fallback: Access::anyone() },
        ..Policy::default()
    };
    assert_eq!(publish(&policy, "live", "a", None, ip("::1")), Ok(()));
    assert_eq!(publish(&policy, "live", "a", None, ip(FAR)), Err(Denied::NotLoopback));
    assert_eq!(publish(&policy, "live", "a", Some("x"), ip(FAR)), Err(Denied::NotLoopback));
    assert_eq!(play(&policy, "live", "a", None, ip(FAR)), Ok(()));
    assert!(policy.publish_is_loopback_only() && !policy.publish_needs_token());
}

#[test]
fn a_policy_without_anything_lets_nobody_in() {
    let policy = Policy::default();
    assert_eq!(publish(&policy, "live", "a", Some(""), ip("127.0.0.1")), Err(Denied::Closed));
    assert_eq!(play(&policy, "live", "a", None, ip("127.0.0.1")), Err(Denied::Closed));
}

#[test]
fn the_first_matching_rule_decides() {
    let with_token = |list: &[&str], loopback| Access { loopback, tokens: tokens(list), ..Access::default() };
    let rules = Rules {
        rules: vec![
            rule("live/open", Access::anyone()),
            rule("live/none", Access::default()),
            rule("live/both", with_token(&["both"], true)),
            rule("live/*", with_token(&["one", "two"], false)),
        ],
        fallback: Access::default(),
    };
    let policy = Policy { publish: rules, ..Policy::default() };
    let cases = [
        ("live", "open", None, FAR, Ok(())),
        ("live", "none", Some("one"), "127.0.0.1", Err(Denied::Closed)), // the later rule is not asked
        ("live", "both", None, "127.0.0.1", Ok(())),
        ("live", "both", None, FAR, Err(Denied::TokenMissing)),
        ("live", "both", Some("one"), FAR, Err(Denied::TokenWrong)), // a token of another rule
        ("live", "cam", Some("one"), FAR, Ok(())),
        ("live", "cam", Some("two"), FAR, Ok(())),
        ("live", "cam", Some("on"), FAR, Err(Denied::TokenWrong)),
        ("live", "cam", Some("onee"), FAR, Err(Denied::TokenWrong)),
        ("live", "cam", Some(""), FAR, Err(Denied::TokenWrong)),
        ("live", "cam", None, "127.0.0.1", Err(Denied::TokenMissing)), // no bypass for this machine
        ("other", "cam", Some("one"), FAR, Err(Denied::Closed)),       // no rule matches
    ];
    for (app, stream, token, peer, expected) in cases {
        assert_eq!(
            publish(&policy, app, stream, token, ip(peer)),
            expected,
            "{app}/{stream} {token:?} {peer}"
        );
    }
}

#[test]
fn tokens_are_not_shown_by_debug() {
    assert_eq!(format!("{:?}", tokens(&["secret"])), "1 tokens");
}

const LOCAL: WebRequest<'static> = WebRequest {
    peer: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    token: None,
    host: Some("localhost:8080"),
    origin: None,
    fetch_site: None,
    forwarded: false,
    now: NOW,
    state_changing: false,
};

#[test]
fn loopback_management_asks_where_the_request_comes_from() {
    let manage = Manage { loopback: true, public_hosts: vec!["studio.example".into()], ..Manage::default() };
    let change = WebRequest { state_changing: true, ..LOCAL };
    let cases = [
        ("plain", LOCAL, Ok(())),
        ("change by curl", change, Ok(())),
        ("far", WebRequest { peer: ip(FAR), ..LOCAL }, Err(Denied::NotLoopback)),
        ("a token where none is configured", WebRequest { token: Some("x"), ..LOCAL }, Ok(())),
        ("proxied", WebRequest { forwarded: true, ..LOCAL }, Err(Denied::Forwarded)),
        ("IPv4 host", WebRequest { host: Some("127.0.0.1:8080"), ..LOCAL }, Ok(())),
        ("IPv6 host", WebRequest { host: Some("[::1]:8080"), ..LOCAL }, Ok(())),
        ("public host", WebRequest { host: Some("Studio.Example"), ..LOCAL }, Ok(())),
        (
            "rebound name",
            WebRequest { host: Some("evil.example:8080"), ..LOCAL },
            Err(Denied::HostNotTrusted),
        ),
        (
            "name that begins well",
            WebRequest { host: Some("localhost.evil.example"), ..LOCAL },
            Err(Denied::HostNotTrusted),
        ),
        ("no host", WebRequest { host: None, ..LOCAL }, Err(Denied::HostNotTrusted)),
        (
            "read by another site",
            WebRequest { fetch_site: Some("cross-site"), ..LOCAL },
            Err(Denied::CrossSite),
        ),
        (
            "read by another site in an older browser",
            WebRequest { origin: Some("http://evil.example"), ..LOCAL },
            Err(Denied::CrossSite),
        ),
        (
            "console",
            WebRequest { origin: Some("http://localhost:8080"), fetch_site: Some("same-origin"), ..change },
            Ok(()),
        ),
        (
            "another port",
            WebRequest { origin: Some("http://localhost:9"), fetch_site: Some("same-site"), ..change },
            Err(Denied::CrossSite),
        ),
        ("sandboxed page", WebRequest { origin: Some("null"), ..change }, Err(Denied::CrossSite)),
        (
            "same site without origin",
            WebRequest { fetch_site: Some("same-site"), ..change },
            Err(Denied::CrossSite),
        ),
    ];
    for (name, request, expected) in cases {
        assert_eq!(manage.may_manage(&request), expected, "{name}");
    }
}

#[test]
fn a_management_token_ends_loopback_trust_unless_both_are_asked_for() {
    let only_token = Manage { tokens: tokens(&["boss"]), ..Manage::default() };
    let both = Manage { loopback: true, ..only_token.clone() };
    let shown = |token, peer| WebRequest { token, peer: ip(peer), ..LOCAL };
    let cases = [
        ("token, local without", &only_token, shown(None, "127.0.0.1"), Err(Denied::TokenMissing)),
        ("token, far with", &only_token, shown(Some("boss"), FAR), Ok(())),
        ("token, wrong", &only_token, shown(Some("bos"), "127.0.0.1"), Err(Denied::TokenWrong)),
        ("both, local without", &both, shown(None, "127.0.0.1"), Ok(())),
        ("both, far without", &both, shown(None, FAR), Err(Denied::TokenMissing)),
        ("both, far with", &both, shown(Some("boss"), FAR), Ok(())),
        ("both, local with a wrong one", &both, shown(Some("x"), "127.0.0.1"), Err(Denied::TokenWrong)),
    ];
    for (name, manage, request, expected) in cases {
        assert_eq!(manage.may_manage(&request), expected, "{name}");
    }
    assert_eq!(Manage::default().may_manage(&shown(Some("x"), "127.0.0.1")), Err(Denied::Closed));
}

#[test]
fn the_metrics_token_opens_metrics_only() {
    let manage = Manage { loopback: true, metrics_tokens: tokens(&["scrape"]), ..Manage::default() };
    let scraper = WebRequest { token: Some("scrape"), peer: ip(FAR), ..LOCAL };
    assert_eq!(manage.may_read_metrics(&scraper), Ok(()));
    assert_eq!(manage.may_manage(&scraper), Err(Denied::NotLoopback));
    assert_eq!(manage.may_read_metrics(&WebRequest { token: None, ..scraper }), Err(Denied::TokenMissing));
    assert_eq!(manage.may_read_metrics(&WebRequest { token: Some("x"), ..scraper }), Err(Denied::TokenWrong));
    assert_eq!(manage.may_read_metrics(&LOCAL), Ok(()));
    let open = Manage { metrics_anyone: true, ..Manage::default() };
    assert_eq!(open.may_read_metrics(&WebRequest { token: None, ..scraper }), Ok(()));
}

#[test]
fn host_names_lose_their_port() {
    for (host, name) in
        [("a:1", "a"), ("a", "a"), ("[::1]:8080", "::1"), ("[::1]", "::1"), ("[::1", ""), ("", "")]
    {
        assert_eq!(host_name(host), name, "{host}");
    }
}

#[test]
fn pages_of_other_sites_do_not_publish_in_the_name_of_this_machine() {
    let policy = Policy {
        publish: Rules {
            rules: vec![
                rule("open/*", Access::anyone()),
                rule("both/*", Access { loopback: true, tokens: tokens(&["t"]), ..Access::default() }),
            ],
            fallback: Access::loopback(),
        },
        play: Rules { rules: vec![rule("own/*", Access::loopback())], fallback: Access::anyone() },
        ..Policy::default()
    };
    let program = WebRequest {
        peer: ip("127.0.0.1"),
        token: None,
        host: Some("localhost:8080"),
        origin: None,
        fetch_site: None,
        forwarded: false,
        now: NOW,
        state_changing: true,
    };
    let own_page =
        WebRequest { origin: Some("http://localhost:8080"), fetch_site: Some("same-origin"), ..program };
    let other_page =
        WebRequest { origin: Some("https://example.org"), fetch_site: Some("cross-site"), ..program };
    // Firefox before 90 and Safari before 16.4 say nothing but the origin.
    let old_browser = WebRequest { fetch_site: None, ..other_page };
    let rebound =
        WebRequest { host: Some("example.org:8080"), origin: Some("http://example.org:8080"), ..program };
    let opaque = WebRequest { origin: Some("null"), ..program };
    let forwarded = WebRequest { forwarded: true, ..program };
    let with_token = WebRequest { token: Some("t"), ..other_page };
    let far = WebRequest { peer: ip(FAR), ..program };
    let cases = [
        ("live", program, Ok(())),
        ("live", own_page, Ok(())),
        ("live", other_page, Err(Denied::CrossSite)),
        ("live", old_browser, Err(Denied::CrossSite)),
        ("live", opaque, Err(Denied::CrossSite)),
        ("live", rebound, Err(Denied::HostNotTrusted)),
        ("live", forwarded, Err(Denied::Forwarded)),
        ("live", far, Err(Denied::NotLoopback)),
        ("open", other_page, Ok(())), // the rule says anyone
        ("both", program, Ok(())),
        ("both", other_page, Err(Denied::CrossSite)),
        ("both", with_token, Ok(())), // who knows the token is meant
        ("both", WebRequest { token: Some("x"), ..far }, Err(Denied::TokenWrong)),
        ("both", far, Err(Denied::TokenMissing)),
    ];
    for (app, request, expected) in cases {
        assert_eq!(publish_by_web(&policy, app, "a", &request), expected, "{app} {request:?}");
    }
    assert_eq!(play_by_web(&policy, "live", "a", &other_page), Ok(()));
    assert_eq!(play_by_web(&policy, "own", "a", &other_page), Err(Denied::CrossSite));
    assert_eq!(play_by_web(&policy, "own", "a", &program), Ok(()));
}

/// A token by the secret of [`signed`], valid for a minute.
fn signed_token(claims: &str) -> String {
    let key = jsonwebtoken::EncodingKey::from_secret(&[7; 32]).expect("a secret");
    let claims: serde_json::Value =
        serde_json::from_str(&format!(r#"{{"exp":{},{claims}}}"#, NOW.as_secs() + 60)).expect("claims");
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).expect("a token")
}

fn signed(ends_sessions: bool) -> Option<Signed> {
    let verifier = Verifier::new(jwt::Settings::default(), Some(&[7; 32])).expect("a secret");
    Some(Signed { verifier: Arc::new(verifier), ends_sessions })
}

#[test]
fn signed_tokens_open_what_rules_leave_to_tokens() {
    let by_signed = Access { signed: true, ..Access::default() };
    let rules = vec![
        rule("live/open", Access::anyone()),
        rule("live/none", Access::default()),
        rule("live/text", Access { tokens: tokens(&["a.b.c"]), ..by_signed.clone() }),
        rule("live/only", Access { tokens: tokens(&["a.b.c"]), ..Access::default() }),
    ];
    let publish_rules = Rules { rules, fallback: by_signed };
    let play_rules = Rules { rules: vec![], fallback: Access::anyone() };
    let policy =
        Policy { publish: publish_rules, play: play_rules, signed: signed(true), ..Policy::default() };
    let asked = |stream: &str, token: Option<&str>| {
        policy.may_publish("live", stream, &Bearer { token, peer: ip(FAR), now: NOW })
    };
    let good = signed_token(r#""stream":"live/*","actions":"publish""#);
    // As long as it would be let in, with the leeway.
    let until = Some(NOW + Duration::from_secs(70));
    assert_eq!(asked("mill", Some(&good)), Ok(Permit { until }));
    assert_eq!(asked("open", None), Ok(Permit::default()));
    assert_eq!(asked("none", Some(&good)), Err(Denied::Closed));
    assert_eq!(asked("text", Some("a.b.c")), Ok(Permit::default()), "a text that looks like one");
    assert_eq!(asked("text", Some(&good)), Ok(Permit { until }));
    assert_eq!(asked("only", Some(&good)), Err(Denied::TokenWrong), "signed ones do not count here");
    assert_eq!(asked("mill", None), Err(Denied::TokenMissing));
    assert_eq!(asked("mill", Some("text")), Err(Denied::TokenWrong));
    let refused = |claims: &str| asked("mill", Some(&signed_token(claims))).unwrap_err();
    assert_eq!(refused(r#""stream":"live/*","actions":"play""#), Denied::Signed(jwt::Refused::Action));
    assert_eq!(refused(r#""stream":"other/*","actions":"publish""#), Denied::Signed(jwt::Refused::Stream));
    let late = Bearer { token: Some(&good), peer: ip(FAR), now: NOW + Duration::from_secs(100) };
    let ended = Err(Denied::Signed(jwt::Refused::Ended));
    assert_eq!(policy.may_publish("live", "mill", &late), ended);
    assert!(policy.publish_needs_token() && !policy.publish_is_loopback_only());
}

#[test]
fn management_takes_signed_tokens_that_say_so() {
    let manage = Manage { loopback: true, signed: signed(false), ..Manage::default() };
    let good = signed_token(r#""actions":["manage"]"#);
    let player = signed_token(r#""stream":"*","actions":["play","publish","x"]"#);
    let far = WebRequest { peer: ip(FAR), ..LOCAL };
    assert_eq!(manage.may_manage(&LOCAL), Ok(()));
    assert_eq!(manage.may_manage(&WebRequest { token: Some(&good), ..far }), Ok(()));
    assert_eq!(manage.may_manage(&far), Err(Denied::TokenMissing));
    assert_eq!(manage.may_manage(&WebRequest { token: Some("x"), ..far }), Err(Denied::TokenWrong));
    let action = Err(Denied::Signed(jwt::Refused::Action));
    assert_eq!(manage.may_manage(&WebRequest { token: Some(&player), ..far }), action);
    assert_eq!(manage.may_manage(&WebRequest { token: Some(&player), ..LOCAL }), action);
}
