//! Sessions that another process goes on with, as plain values: here those of WebRTC.
//!
//! They are sent as MessagePack maps by name: a field that a later release adds has to have a default.
//! **Secrets are in here**: keys of media, passwords of ICE, and what proves
//! the right to a session's URL.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use bridge::FrameToRtpState;
use rtc::Established;
use rtc::sdp::{IceCredentials, TrackDescription, Transport};
use serde::{Deserialize, Serialize};
use sfu::{PublisherPosition, ViewerTrackPosition};
use srtp::{InboundPosition, MasterKey, OutboundPosition, Profile, SetupError, UsedIndices};

use crate::handed_connection::{HandedMedia, HandedSocket, HandedStream};
use crate::hooks::HandedAdmission;
use crate::rtc::RtcRole;
use crate::snapshot::SessionId;

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedSession {
    /// Its id, which stays.
    pub id: SessionId,
    /// Publishes or plays.
    pub role: RtcRole,
    /// Application.
    pub app: String,
    /// Stream within it.
    pub stream: String,
    /// Who asked, by HTTP.
    pub address: SocketAddr,
    /// `User-Agent` of the request.
    pub user_agent: Option<Box<str>>,
    /// What was negotiated.
    pub tracks: Vec<TrackDescription>,
    /// For a player, which of the published tracks of its kind each of `tracks` plays.
    pub published: Vec<usize>,
    /// Most bits per second that a player wants.
    pub bits_per_second_max: Option<u64>,
    /// Highest pictures that a player wants.
    pub height_max: Option<u16>,
    /// When it ends because its token does, milliseconds from now.
    pub ends_in_ms: Option<u64>,
    /// When it ends because a hook said so, milliseconds from now.
    pub time_over_in_ms: Option<u64>,
    /// A hook has let it in.
    pub admission: Option<HandedAdmission>,
    /// ICE.
    pub ice: Established,
    /// Username fragments that lead to it.
    pub ufrags: Vec<Box<str>>,
    /// Keys of media, and how far they are used.
    pub srtp: HandedSrtp,
    /// Of a publisher.
    pub publisher: Option<PublisherPosition>,
    /// Of a player.
    pub viewer: Vec<ViewerTrackPosition>,
    /// Transport-wide number of the next packet to a player.
    pub next_number: u16,
    /// It plays a stream that comes as frames: it goes over only together with that stream's bridge. Absent
    /// from earlier releases: false.
    #[serde(default)]
    pub is_bridged: bool,
}

impl HandedSession {
    /// `app/stream`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.app, self.stream)
    }

    /// Whether its media goes over a TCP connection, without which it cannot go over.
    pub fn is_by_tcp(&self) -> bool {
        self.ice.path.transport == Transport::Tcp
    }
}

/// The connection of a session by ICE-TCP. Its frames are those of RFC 4571.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedIceTcp {
    /// Which session it is of.
    pub session: SessionId,
    /// What has come of a frame that is not whole.
    #[serde(with = "serde_bytes")]
    pub received: Vec<u8>,
    /// What is to be written first: it may begin in the middle of a frame, and ends with a whole
    /// one.
    #[serde(with = "serde_bytes")]
    pub unsent: Vec<u8>,
}

impl fmt::Debug for HandedIceTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedIceTcp").field("session", &self.session).finish_non_exhaustive()
    }
}

/// That, and its socket.
#[derive(Debug)]
pub struct IceTcpSocket {
    /// The connection.
    pub connection: HandedIceTcp,
    /// A copy of its descriptor.
    pub socket: OwnedFd,
}

/// A bridge from frames to packets, whose publisher goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandedBridge {
    /// Index of the worker.
    pub worker: usize,
    /// Application.
    pub app: String,
    /// Stream within it.
    pub stream: String,
    /// When this was said: wall time, as NTP has it.
    pub at: u64,
    /// Where it is.
    pub machine: FrameToRtpState,
    /// Where it is as the publisher of packets.
    pub publisher: PublisherPosition,
}

impl HandedBridge {
    /// `app/stream`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.app, self.stream)
    }
}

/// Several sessions. In boxes: a block that grows is memory from the system, which takes its time just when
/// packets wait.
pub type HandedSessions = Vec<Box<HandedSession>>;

/// What another process goes on with.
#[derive(Debug, Default)]
pub struct HandedOver {
    /// WebRTC sessions.
    pub sessions: HandedSessions,
    /// Connections of those by ICE-TCP.
    pub ice_tcp: Vec<IceTcpSocket>,
    /// Streams of `connections`.
    pub streams: Vec<HandedStream>,
    /// Bridges of streams whose publishers are among `connections`.
    pub bridges: Vec<HandedBridge>,
    /// TCP connections.
    pub connections: Vec<HandedSocket>,
}

impl HandedOver {
    /// Ids of the sessions and connections.
    pub fn ids(&self) -> impl Iterator<Item = SessionId> {
        let connections = self.connections.iter().map(|one| one.connection.id);
        self.sessions.iter().map(|session| session.id).chain(connections)
    }

    /// Adds what another worker has.
    pub fn extend(&mut self, other: Self) {
        let Self { sessions, ice_tcp, streams, bridges, connections } = other;
        self.sessions.extend(sessions);
        self.ice_tcp.extend(ice_tcp);
        self.streams.extend(streams);
        self.bridges.extend(bridges);
        self.connections.extend(connections);
    }

    /// Leaves out players whose bridge does not go over: they connect again.
    pub fn drop_players_without_bridge(&mut self) {
        let bridges: HashSet<_> = self.bridges.iter().map(HandedBridge::key).collect();
        self.keep_sessions(|session| !session.is_bridged || bridges.contains(&session.key()));
    }

    /// Leaves out sessions by ICE-TCP, for a release that knows nothing of their connections.
    pub fn drop_sessions_by_tcp(&mut self) {
        self.keep_sessions(|session| !session.is_by_tcp());
    }

    fn keep_sessions(&mut self, keeps: impl Fn(&HandedSession) -> bool) {
        self.sessions.retain(|session| keeps(session));
        let kept: HashSet<_> = self.sessions.iter().map(|session| session.id).collect();
        self.ice_tcp.retain(|one| kept.contains(&one.connection.session));
    }

    /// Publishers, with their streams and bridges, and the others.
    pub fn split_publishers(self) -> (Self, Self) {
        let (sessions, other_sessions): (HandedSessions, _) =
            self.sessions.into_iter().partition(|session| session.role == RtcRole::Publish);
        let publishers: HashSet<_> = sessions.iter().map(|session| session.id).collect();
        let is_publisher = |one: &IceTcpSocket| publishers.contains(&one.connection.session);
        let (ice_tcp, other_ice_tcp) = self.ice_tcp.into_iter().partition(is_publisher);
        let (connections, other_connections): (Vec<HandedSocket>, _) =
            self.connections.into_iter().partition(|one| one.connection.media == HandedMedia::Publish);
        let home = |one: &HandedSocket| (one.connection.id.worker(), one.connection.key());
        let homes: HashSet<_> = connections.iter().map(home).collect();
        let is_home = |stream: &HandedStream| homes.contains(&(stream.worker, stream.key()));
        let (streams, other_streams) = self.streams.into_iter().partition(is_home);
        let others = Self {
            sessions: other_sessions,
            ice_tcp: other_ice_tcp,
            streams: other_streams,
            bridges: Vec::new(),
            connections: other_connections,
        };
        (Self { sessions, ice_tcp, streams, bridges: self.bridges, connections }, others)
    }
}

/// SRTP of a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedSrtp {
    /// Number of the profile in DTLS.
    profile: u16,
    inbound: (Vec<u8>, Vec<u8>),
    outbound: (Vec<u8>, Vec<u8>),
    received: Vec<Received>,
    sent: Vec<Sent>,
}

type Used = Option<(u64, u64)>;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Received {
    ssrc: u32,
    rtp: Used,
    rtcp: Used,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Sent {
    ssrc: u32,
    rtp: Used,
    rtcp_next: u32,
}

fn used(indices: Option<UsedIndices>) -> Used {
    indices.map(|indices| (indices.highest, indices.recent))
}

fn indices(used: Used) -> Option<UsedIndices> {
    used.map(|(highest, recent)| UsedIndices { highest, recent })
}

impl HandedSrtp {
    /// Of keys, and where their contexts are. `None` if their profile has no number.
    pub fn new(
        (inbound, outbound): (&MasterKey, &MasterKey),
        received: impl Iterator<Item = InboundPosition>,
        sent: impl Iterator<Item = OutboundPosition>,
    ) -> Option<Self> {
        let bytes = |key: &MasterKey| (key.key().to_vec(), key.salt().to_vec());
        let received = received.map(|of| Received { ssrc: of.ssrc, rtp: used(of.rtp), rtcp: used(of.rtcp) });
        let sent = sent.map(|of| Sent { ssrc: of.ssrc, rtp: used(of.rtp), rtcp_next: of.rtcp_next });
        Some(Self {
            profile: inbound.profile().dtls_id()?,
            inbound: bytes(inbound),
            outbound: bytes(outbound),
            received: received.collect(),
            sent: sent.collect(),
        })
    }

    /// The keys: to unprotect, and to protect.
    ///
    /// # Errors
    /// There is no such profile, or they are none of it.
    pub fn keys(&self) -> Result<(MasterKey, MasterKey), SetupError> {
        let profile = Profile::from_dtls_id(self.profile).ok_or(SetupError::KeyLength)?;
        let key = |(key, salt): &(Vec<u8>, Vec<u8>)| MasterKey::new(profile, key, salt);
        Ok((key(&self.inbound)?, key(&self.outbound)?))
    }

    /// What was unprotected.
    pub fn received(&self) -> impl Iterator<Item = InboundPosition> {
        let position =
            |of: &Received| InboundPosition { ssrc: of.ssrc, rtp: indices(of.rtp), rtcp: indices(of.rtcp) };
        self.received.iter().map(position)
    }

    /// What was protected.
    pub fn sent(&self) -> impl Iterator<Item = OutboundPosition> {
        let position =
            |of: &Sent| OutboundPosition { ssrc: of.ssrc, rtp: indices(of.rtp), rtcp_next: of.rtcp_next };
        self.sent.iter().map(position)
    }
}

impl fmt::Debug for HandedSrtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedSrtp").field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// The URL of a session.
#[derive(Clone, Serialize, Deserialize)]
pub struct HandedUrl {
    /// Which session it is of.
    pub session: SessionId,
    /// The end of the URL: by what it is found, and what proves the right to it.
    pub token: Vec<u8>,
    /// Who asked for it.
    pub client: IpAddr,
    /// The address that it asked to have named.
    pub asked: Option<IpAddr>,
    /// `a=mid` of the first media description.
    pub mid: String,
    /// What it plays: `app/stream`.
    pub played: Option<String>,
    /// The video tracks of that: line, `a=mid`, track, published track.
    pub videos: Vec<(usize, String, usize, usize)>,
    /// The entity tag of its ICE session.
    pub tag: String,
    /// ICE credentials of its client.
    pub remote: IceCredentials,
}

impl fmt::Debug for HandedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedUrl").field("session", &self.session).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use bridge::{BFrames, FrameToRtp, FrameToRtpSettings};
    use rtc::Path;
    use rtc::sdp::{FecFormat, Feedback, Format, RedFormat, Source};
    use rtp::extension::{Extension, ExtensionMap};
    use rtp::payload::{Codec, MediaKind};

    use super::*;

    fn track() -> TrackDescription {
        let extensions: ExtensionMap =
            [(1, Extension::Mid), (14, Extension::TransportCc)].into_iter().collect();
        TrackDescription {
            mid: "0".to_owned(),
            kind: MediaKind::Video,
            formats: vec![Format {
                payload_type: 96,
                codec: Codec::Vp8,
                clock_rate: 90_000,
                channels: 0,
                fmtp: "x=1".to_owned(),
                rtx_payload_type: Some(97),
                feedback: Feedback { nack: true, ..Feedback::default() },
            }],
            extensions,
            sources: vec![Source { ssrc: 1, rtx_ssrc: Some(2) }],
            extmap_allow_mixed: true,
            rids: vec!["h".to_owned()],
            red: Some(RedFormat { payload_type: 63, media_payload_type: 111, is_preferred: true }),
            fec: Some(FecFormat { payload_type: 98, ssrc: 3 }),
        }
    }

    pub(crate) fn session() -> HandedSession {
        let ice = |ufrag: &str| IceCredentials::new(ufrag, "0123456789012345678901").expect("credentials");
        let path = Path::udp("192.0.2.1:1".parse().expect("one"), "[2001:db8::1]:2".parse().expect("one"));
        let key =
            |byte: u8| MasterKey::new(Profile::AesCm128HmacSha1_80, &[byte; 16], &[3; 14]).expect("a key");
        let indices = |highest| Some(UsedIndices { highest, recent: u64::MAX });
        let received = InboundPosition { ssrc: 7, rtp: indices((1 << 48) - 1), rtcp: None };
        let sent = OutboundPosition { ssrc: 8, rtp: indices(0), rtcp_next: 5 };
        HandedSession {
            id: SessionId::new(3, 9),
            role: RtcRole::Play,
            app: "live".to_owned(),
            stream: "a".to_owned(),
            address: "192.0.2.1:9".parse().expect("one"),
            user_agent: None,
            tracks: vec![track()],
            published: vec![0],
            bits_per_second_max: None,
            height_max: Some(720),
            ends_in_ms: Some(1),
            time_over_in_ms: None,
            admission: Some(HandedAdmission {
                id: "event".to_owned(),
                since: Duration::from_millis(1_500),
                is_recorded: true,
            }),
            ice: Established {
                local_ice: ice("local"),
                remote_ice: ice("remote"),
                path,
                checked: Duration::from_millis(2_345),
                proven: Some(path),
                seen: vec![(1, 2)],
            },
            ufrags: vec!["local".into()],
            srtp: HandedSrtp::new((&key(1), &key(2)), [received].into_iter(), [sent].into_iter())
                .expect("one"),
            publisher: Some(PublisherPosition::default()),
            viewer: Vec::new(),
            next_number: 65_535,
            is_bridged: true,
        }
    }

    #[test]
    fn a_session_arrives_as_it_was_sent_and_what_is_added_later_is_skipped() {
        let mut sent = serde_json::to_value(session()).expect("written");
        sent["added"] = serde_json::json!({ "by": "a later release" });
        sent["tracks"][0]["added"] = serde_json::json!(1);
        let arrived: HandedSession = serde_json::from_value(sent).expect("read");
        assert_eq!(arrived, session());
        let (inbound, outbound) = arrived.srtp.keys().expect("keys");
        assert_eq!((inbound.key(), outbound.key()), (&[1; 16][..], &[2; 16][..]));
        assert_eq!(
            arrived.srtp.received().next().and_then(|of| of.rtp).map(|of| of.highest),
            Some((1 << 48) - 1)
        );
        assert_eq!(arrived.srtp.sent().next().map(|of| of.rtcp_next), Some(5));
    }

    #[test]
    fn sessions_by_tcp_go_over_with_their_connections_or_not_at_all() {
        let path = Path::tcp("192.0.2.1:1".parse().expect("one"), "192.0.2.2:2".parse().expect("one"));
        let one = |role, serial, path| {
            let ice = Established { path, ..session().ice };
            Box::new(HandedSession {
                id: SessionId::new(0, serial),
                role,
                ice,
                is_bridged: false,
                ..session()
            })
        };
        let socket = |serial| {
            let (socket, _) = std::os::unix::net::UnixStream::pair().expect("a pair");
            let session = SessionId::new(0, serial);
            let connection = HandedIceTcp { session, received: vec![0], unsent: Vec::new() };
            IceTcpSocket { connection, socket: socket.into() }
        };
        let by_udp = one(RtcRole::Play, 3, session().ice.path);
        let all = || HandedOver {
            sessions: vec![one(RtcRole::Play, 1, path), one(RtcRole::Publish, 2, path), by_udp.clone()],
            ice_tcp: vec![socket(1), socket(2)],
            ..HandedOver::default()
        };
        let of = |handed: &HandedOver| -> Vec<_> {
            handed.ice_tcp.iter().map(|one| one.connection.session).collect()
        };
        let (publishers, others) = all().split_publishers();
        assert_eq!(publishers.ids().collect::<Vec<_>>(), of(&publishers));
        assert_eq!((of(&publishers), of(&others)), (vec![SessionId::new(0, 2)], vec![SessionId::new(0, 1)]));
        let mut handed = all();
        handed.sessions[0].is_bridged = true;
        handed.drop_players_without_bridge();
        assert_eq!((handed.sessions.len(), of(&handed)), (2, vec![SessionId::new(0, 2)]));
        let mut handed = all();
        handed.drop_sessions_by_tcp();
        assert_eq!((handed.sessions, handed.ice_tcp.len()), (vec![by_udp.clone()], 0));
    }

    #[test]
    fn players_by_a_bridge_go_over_with_it_alone() {
        #[expect(clippy::disallowed_methods, reason = "there is no other way to have an instant")]
        let now = std::time::Instant::now();
        let settings = FrameToRtpSettings { b_frames: BFrames::Drop, payload_bytes_max: 1_000 };
        let bridge = HandedBridge {
            worker: 0,
            app: "live".to_owned(),
            stream: "a".to_owned(),
            at: 1 << 32,
            machine: FrameToRtp::new(settings, now).state(now),
            publisher: PublisherPosition::default(),
        };
        let of_packets = HandedSession { is_bridged: false, ..session() };
        let of_another = HandedSession { stream: "b".to_owned(), ..session() };
        let all = || HandedOver {
            sessions: [session(), of_packets.clone(), of_another.clone()].map(Box::new).into(),
            bridges: vec![bridge.clone()],
            ..HandedOver::default()
        };
        let kept = |are_taken| {
            let mut handed = all();
            handed.bridges.retain(|_| are_taken);
            handed.drop_players_without_bridge();
            (handed.bridges.len(), handed.sessions.into_iter().map(|session| *session).collect::<Vec<_>>())
        };
        assert_eq!(kept(true), (1, vec![session(), of_packets.clone()]));
        assert_eq!(kept(false), (0, vec![of_packets.clone()]));
        // Of a release that knows nothing of it.
        let mut before = serde_json::to_value(of_packets.clone()).expect("written");
        before.as_object_mut().expect("a map").remove("is_bridged");
        assert_eq!(serde_json::from_value::<HandedSession>(before).expect("read"), of_packets);
        let (publishers, players) = all().split_publishers();
        assert_eq!((publishers.bridges.len(), players.bridges.len()), (1, 0));
    }

    #[test]
    fn no_secret_is_shown() {
        let shown = format!("{:?}", session());
        assert!(!shown.contains("0123456789") && !shown.contains("[1, 1, 1"), "{shown}");
    }
}
