//! What a SETUP asks for, by its `Transport` field (RFC 2326 section 12.39).
//!
//! ```text
//! RTP/AVP/TCP;unicast;interleaved=0-1;mode=record, RTP/AVP;unicast;client_port=5000-5001
//! ```
//! Read here and not by `rtsp-types`, whose reader of this field (0.1.3) panics on a lone quotation mark.

use crate::server::{Role, Status};

/// How RTP and RTCP of a track go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lower {
    /// Interleaved in the connection, under these channels.
    Interleaved {
        /// Of RTP.
        rtp: u8,
        /// Of RTCP.
        rtcp: u8,
    },
    /// In datagrams, to and from these ports of the client.
    Udp {
        /// Of RTP.
        rtp: u16,
        /// Of RTCP.
        rtcp: u16,
    },
}

/// A track that was set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Its position in the description.
    pub track: usize,
    /// How its packets go.
    pub lower: Lower,
}

/// The first of the transports that can be had. Channels that the client left open are those of `track`.
pub(crate) fn choose(field: &str, track: usize, role: Role, with_udp: bool) -> Result<Lower, Status> {
    let mut all = field.split(',').take(TRANSPORTS_MAX);
    all.find_map(|one| read(one, track, role, with_udp)).ok_or(Status::UnsupportedTransport)
}

fn read(text: &str, track: usize, role: Role, with_udp: bool) -> Option<Lower> {
    let mut parts = text.split(';').map(str::trim);
    let is_tcp = match parts.next()?.to_ascii_uppercase().as_str() {
        "RTP/AVP/TCP" => true,
        "RTP/AVP" | "RTP/AVP/UDP" => false,
        _ => return None,
    };
    let (mut interleaved, mut client_port) = (None, None);
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match key.trim().to_ascii_lowercase().as_str() {
            "multicast" => return None,
            "interleaved" => interleaved = Some(pair::<u8>(value)?),
            "client_port" => client_port = Some(pair::<u16>(value)?),
            "mode" => {
                let mode = value.trim_matches('"').to_ascii_lowercase();
                let other = match role {
                    Role::Publish => "play",
                    Role::Play => "record",
                };
                if mode == other {
                    return None;
                }
            }
            _ => {}
        }
    }
    if is_tcp {
        let of_track = u8::try_from(2 * track).ok()?;
        let (rtp, rtcp) = interleaved.unwrap_or((of_track, None));
        let rtcp = rtcp.or(rtp.checked_add(1))?;
        return (rtp != rtcp).then_some(Lower::Interleaved { rtp, rtcp });
    }
    let (rtp, rtcp) = client_port.filter(|_| with_udp)?;
    let rtcp = rtcp.or(rtp.checked_add(1))?;
    (rtp != 0 && rtcp != 0 && rtp != rtcp).then_some(Lower::Udp { rtp, rtcp })
}

/// `first-second`, or the first alone.
fn pair<N: std::str::FromStr>(text: &str) -> Option<(N, Option<N>)> {
    let number = |text: &str| text.trim().parse().ok();
    match text.split_once('-') {
        Some((first, second)) => Some((number(first)?, Some(number(second)?))),
        None => Some((number(text)?, None)),
    }
}

/// Transports of a SETUP that are looked at.
const TRANSPORTS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn play(field: &str) -> Result<Lower, Status> {
        choose(field, 1, Role::Play, true)
    }

    #[test]
    fn the_first_transport_that_can_be_had_is_taken() {
        let udp = Lower::Udp { rtp: 5000, rtcp: 5001 };
        assert_eq!(play("RTP/AVP;unicast;client_port=5000-5001"), Ok(udp));
        assert_eq!(play("RTP/AVP/UDP;unicast;client_port=5000"), Ok(udp));
        let tcp = Lower::Interleaved { rtp: 6, rtcp: 7 };
        assert_eq!(play("RTP/AVP/TCP;unicast;interleaved=6-7"), Ok(tcp));
        assert_eq!(play("RTP/AVP/TCP;unicast"), Ok(Lower::Interleaved { rtp: 2, rtcp: 3 }));
        assert_eq!(
            play("RTP/AVP;multicast;client_port=1-2, rtp/avp/tcp;interleaved=6-7;mode=\"PLAY\""),
            Ok(tcp)
        );
        let field = "RTP/AVP;unicast;client_port=5000-5001,RTP/AVP/TCP;interleaved=6-7";
        assert_eq!(choose(field, 0, Role::Play, false), Ok(tcp), "UDP is off");
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        for field in [
            "",
            "\"",
            "RTP/SAVP;unicast;client_port=5000-5001",
            "RTP/AVP;multicast;port=5000-5001",
            "RTP/AVP;unicast",
            "RTP/AVP;unicast;client_port=0-1",
            "RTP/AVP;unicast;client_port=65535",
            "RTP/AVP;unicast;client_port=5000-5000",
            "RTP/AVP;unicast;client_port=70000-70001",
            "RTP/AVP/TCP;interleaved=255",
            "RTP/AVP/TCP;interleaved=256-257",
            "RTP/AVP/TCP;interleaved=3-3",
            "RTP/AVP/TCP;interleaved=0-1;mode=\"record\"",
            "RTP/AVP/TCP;mode=\"",
        ] {
            let chosen = play(field);
            assert!(
                chosen == Err(Status::UnsupportedTransport) || field.ends_with('"'),
                "{field}: {chosen:?}"
            );
        }
        let record = "RTP/AVP/TCP;unicast;interleaved=0-1;mode=record";
        let channels = Lower::Interleaved { rtp: 0, rtcp: 1 };
        assert_eq!(choose(record, 0, Role::Publish, false), Ok(channels));
    }
}
