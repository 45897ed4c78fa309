//! Introductions.

use node_link::{Event, Goodbye, LinkError, Refusal, Secret};

use crate::pair::{Pair, ms, node, secret};

#[test]
fn two_nodes_with_one_secret_meet() {
    let pair = Pair::up();
    assert_eq!((pair.dialer.error, pair.listener.error), (None, None));
    let round_trip = pair.dialer.link.round_trip().unwrap();
    assert!(round_trip >= ms(10) && round_trip < ms(11), "{round_trip:?}");
}

#[test]
fn a_node_with_another_secret_is_refused_and_both_sides_know() {
    let mut pair = Pair::with_secrets(Secret::new(b"another secret..").unwrap(), secret());
    pair.run(ms(50));
    assert_eq!(pair.listener.error, Some(LinkError::WrongSecret));
    assert_eq!(pair.dialer.error, Some(LinkError::Refused(Refusal::WrongSecret)));
    assert!(pair.listener.events.is_empty() && pair.dialer.events.is_empty());
}

#[test]
fn a_node_of_another_version_is_refused_and_both_sides_name_both_versions() {
    let mut pair = Pair::with_secrets(secret(), secret());
    let mut hello = Vec::new();
    pair.dialer.link.poll_output(pair.now, &mut hello, usize::MAX);
    hello[5] = 9;
    pair.dialer.inject(pair.now, &hello);
    pair.run(ms(50));
    let theirs = LinkError::OtherVersion { theirs: 9, software: "0.1.0".to_owned() };
    assert_eq!(pair.listener.error, Some(theirs));

    // The answer of a listener of another version.
    let mut pair = Pair::with_secrets(secret(), Secret::new(b"another secret..").unwrap());
    pair.run(ms(6));
    let mut answer = pair.listener.take_under_way();
    answer[5] = 9;
    pair.listener.inject(pair.now, &answer);
    pair.run(ms(50));
    let error = pair.dialer.error.expect("the link is over");
    assert_eq!(error, LinkError::OtherVersion { theirs: 9, software: "0.1.0".to_owned() });
    let text = error.to_string();
    assert!(text.contains("version 9 ") && text.contains("version 2 "), "{text}");
}

#[test]
fn a_listener_refuses_for_reasons_of_its_own() {
    for refusal in [Refusal::NameTaken, Refusal::Leaving, Refusal::TooMany] {
        let mut pair = Pair::with_secrets(secret(), secret());
        pair.run(ms(50));
        pair.listener.link.refuse(refusal);
        pair.run(ms(50));
        assert_eq!(pair.dialer.error, Some(LinkError::Refused(refusal)));
    }
}

#[test]
fn a_node_that_says_nothing_has_three_seconds() {
    let mut pair = Pair::with_secrets(secret(), secret());
    pair.is_cut = true;
    pair.run(ms(2_990));
    assert_eq!((&pair.dialer.error, &pair.listener.error), (&None, &None));
    pair.run(ms(20));
    assert_eq!(pair.dialer.error, Some(LinkError::NoHello));
    assert_eq!(pair.listener.error, Some(LinkError::NoHello));
}

#[test]
fn a_goodbye_says_why_and_nothing_follows() {
    let mut pair = Pair::up();
    pair.listener.link.say_goodbye(Goodbye::WrongNode);
    assert!(pair.listener.link.subscribe("live/a").is_err());
    pair.run(ms(20));
    assert_eq!(pair.dialer.events, [Event::Goodbye(Goodbye::WrongNode)]);
    pair.run(ms(10_000));
    assert_eq!((pair.dialer.error, pair.listener.error), (None, None));
}

#[test]
fn nothing_is_taken_of_a_node_before_it_is_let_in() {
    let mut pair = Pair::with_secrets(secret(), secret());
    pair.run(ms(50));
    assert_eq!(pair.listener.events, [Event::Hello(node("dialer"))]);
    pair.dialer.inject(pair.now, &[10, 0, 1, 1]);
    pair.run(ms(50));
    assert_eq!(pair.listener.error, Some(LinkError::Malformed("a message before the answer")));
}
