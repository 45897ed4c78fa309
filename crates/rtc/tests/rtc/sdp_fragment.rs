//! Trickled candidates and ICE restarts as bodies of PATCH.

use rtc::sdp::{Candidate, IceCredentials, SdpError, Transport, TrickleFragment, parse_fragment};

#[test]
fn candidates_of_a_browser_are_read() {
    // In the manner of RFC 9725 figure 4.
    let text = "a=group:BUNDLE 0 1\r\n\
        m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n\
        a=mid:0\r\n\
        a=ice-ufrag:EsAw\r\n\
        a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n\
        a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag EsAw network-id 1\r\n\
        a=candidate:3471623853 1 udp 2122194687 198.51.100.2 61765 typ host generation 0 ufrag EsAw network-id 2\r\n\
        a=candidate:473322822 1 tcp 1518280447 192.0.2.1 9 typ host tcptype active generation 0 ufrag EsAw\r\n\
        a=candidate:2154773085 1 udp 1686052607 203.0.113.9 51234 typ srflx raddr 192.0.2.1 rport 61764\r\n\
        a=candidate:2154773086 1 udp 1 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0.local 51234 typ host\r\n\
        a=candidate:2154773087 2 udp 1686052606 203.0.113.9 51235 typ host\r\n\
        a=end-of-candidates\r\n";
    let fragment = parse_fragment(text).expect("readable");
    assert_eq!(fragment.ufrag.as_deref(), Some("EsAw"));
    assert!(fragment.ice().is_some() && fragment.end_of_candidates);
    let found: Vec<String> = fragment.candidates.iter().map(|it| it.address.to_string()).collect();
    assert_eq!(found, ["192.0.2.1:61764", "198.51.100.2:61765", "192.0.2.1:9", "203.0.113.9:51234"]);
    let related = fragment.candidates[3].related.map(|address| address.to_string());
    assert_eq!(related.as_deref(), Some("192.0.2.1:61764"));
}

#[test]
fn a_restarted_transport_is_printed_as_it_is_read() {
    let ice = IceCredentials::new("newFrag1", "newPassword01234567890").expect("well-formed");
    let address = "203.0.113.5:8189".parse().expect("an address");
    let candidates =
        [Candidate::host(address, Transport::Udp, 65535), Candidate::host(address, Transport::Tcp, 65535)];
    let fragment = TrickleFragment::restarted(&ice, &candidates, "0");
    let text = fragment.to_string();
    assert!(
        text.starts_with("a=ice-lite\r\na=ice-options:trickle ice2\r\na=group:BUNDLE 0\r\nm=audio 9 "),
        "{text}"
    );
    assert_eq!(parse_fragment(&text), Ok(fragment.clone()));
    assert_eq!(fragment.ice(), Some(ice));
}

#[test]
fn what_is_not_a_fragment_is_refused() {
    let cases = [
        ("{\"candidate\":\"\"}", SdpError::Syntax(1)),
        ("a=mid:0\r\nnonsense\r\n", SdpError::Syntax(2)),
        ("a=ice-ufrag:ab\r\n", SdpError::NoIceCredentials),
        ("a=ice-ufrag:a:bcd\r\n", SdpError::NoIceCredentials),
        ("a=ice-ufrag:abcd\r\na=ice-pwd:short\r\n", SdpError::NoIceCredentials),
    ];
    for (text, error) in cases {
        assert_eq!(parse_fragment(text), Err(error), "{text:?}");
    }
    // Nothing is news, too: a keep-alive of some clients.
    assert_eq!(parse_fragment(""), Ok(TrickleFragment::default()));
    assert_eq!(parse_fragment("a=ice-ufrag:abcd\r\n").expect("readable").ice(), None);
}

#[test]
fn candidates_are_read_as_they_are_printed_and_odd_ones_are_passed_over() {
    let good = [
        "candidate:1 1 udp 2130706431 192.0.2.1 5000 typ host",
        "candidate:a+/9 1 tcp 1 2001:db8::1 9 typ host tcptype active",
        "candidate:1 1 tcp 1 2001:db8::1 443 typ host tcptype passive",
        "candidate:1 1 tcp 1 192.0.2.1 443 typ host tcptype so",
        "candidate:1 2 udp 4294967295 192.0.2.1 5000 typ relay raddr 198.51.100.1 rport 6000",
        "candidate:1 1 udp 1 192.0.2.1 5000 typ prflx",
    ];
    for text in good {
        assert_eq!(Candidate::parse(text).expect(text).to_string(), text);
        assert_eq!(Candidate::parse(&format!("a={text} generation 0")), Candidate::parse(text));
        for end in 0..text.len() {
            // No panic, and nothing but a candidate of the same address.
            let part = Candidate::parse(&text[..end]);
            assert!(part.is_none_or(|it| text.contains(&it.address.ip().to_string())), "{}", &text[..end]);
        }
    }
    let bad = [
        "candidate:1 1 udp 4294967296 192.0.2.1 5000 typ host",
        "candidate:1 1 udp 1 192.0.2.1 65536 typ host",
        "candidate:1 1 udp 1 192.0.2.1 0 typ host",
        "candidate:1 0 udp 1 192.0.2.1 5000 typ host",
        "candidate:1 1 sctp 1 192.0.2.1 5000 typ host",
        "candidate:1 1 udp 1 0.0.0.0 5000 typ host",
        "candidate:1 1 udp 1 example.org 5000 typ host",
        "candidate:1 1 udp 1 192.0.2.1 5000 typ token",
        "candidate:1 1 tcp 1 192.0.2.1 5000 typ host",
        "candidate:1 1 udp 1 192.0.2.1 5000 typ host tcptype passive",
        "candidate:1 1 udp 1 192.0.2.1 5000 typ host generation",
        "candidate:\u{e9} 1 udp 1 192.0.2.1 5000 typ host",
        "candidate:123456789012345678901234567890123 1 udp 1 192.0.2.1 5000 typ host",
    ];
    for text in bad {
        assert_eq!(Candidate::parse(text), None, "{text}");
    }
}

#[test]
fn candidates_of_udp_come_before_those_of_tcp_and_keep_their_order() {
    let address = "192.0.2.1:1000".parse().expect("an address");
    let priorities: Vec<u32> = [(Transport::Udp, 9000), (Transport::Udp, 10), (Transport::Tcp, 9000)]
        .into_iter()
        .map(|(transport, preference)| Candidate::host(address, transport, preference).priority)
        .collect();
    assert!(priorities.is_sorted_by(|a, b| a > b), "{priorities:?}");
}
