//! WebRTC sessions, signalled as the control side does it.

use rtc::sdp::Direction;
use rtc_test::{Answered, OfferOptions, UdpClient, credentials};
use rtp::payload::Codec;
use tokio::sync::oneshot;
use worker_api::rtc::{RtcOpen, RtcRefusal, RtcRole};
use worker_api::streams::{Published, WebrtcAvailability};

use super::{Node, until};

/// Publishes Opus and VP8 on a worker, connected.
pub(crate) async fn publish(node: &Node, worker: usize, name: &str) -> Result<UdpClient, RtcRefusal> {
    open(node, worker, name, RtcRole::Publish, None).await
}

/// Plays on a worker, connected; video is VP8 unless the stream has another.
pub(crate) async fn play(
    node: &Node,
    worker: usize,
    name: &str,
    video: Option<Codec>,
) -> Result<UdpClient, RtcRefusal> {
    open(node, worker, name, RtcRole::Play, video).await
}

async fn open(
    node: &Node,
    worker: usize,
    name: &str,
    role: RtcRole,
    video: Option<Codec>,
) -> Result<UdpClient, RtcRefusal> {
    let socket = UdpClient::bind();
    let local = socket.local_addr().expect("its address");
    let direction = if role == RtcRole::Publish { Direction::Send } else { Direction::Receive };
    let offer = rtc_test::offer(direction, local, &OfferOptions { video, ..OfferOptions::default() });
    let published = (node.published)(&format!("live/{name}"));
    let viewed = match (role, &published) {
        (RtcRole::Publish, _) => None,
        (
            RtcRole::Play,
            Published::Packets(tracks) | Published::Frames(WebrtcAvailability::Tracks(tracks, _)),
        ) => Some(&**tracks),
        (RtcRole::Play, other) => panic!("{other:?}: nothing to answer by"),
    };
    let answered = rtc_test::answer(&offer, credentials(), &node.rtc[worker].udp, viewed);
    let Answered { answer, remote, peer } = answered.expect("a codec that both have");
    let (reply, answered) = oneshot::channel();
    let open = RtcOpen {
        role,
        app: "live".to_owned(),
        stream: name.to_owned(),
        address: local,
        user_agent: None,
        peer,
        tracks: answer.tracks,
        published: answer.published,
        bits_per_second_max: None,
        height_max: None,
        until: None,
        admission: None,
        time_over: None,
        uses: None,
        trace: None,
        reply,
    };
    node.handles.rtc_open(worker, open, answered).await.expect("an answer")?;
    let mut client = UdpClient::new(socket, offer, remote);
    turn_until(&mut client, "connected", |client| client.is_connected()).await;
    Ok(client)
}

/// Runs a client until something holds.
pub(crate) async fn turn_until(
    client: &mut UdpClient,
    what: &str,
    mut check: impl FnMut(&mut UdpClient) -> bool,
) {
    until(what, async || {
        client.turn();
        check(client).then_some(())
    })
    .await;
}
