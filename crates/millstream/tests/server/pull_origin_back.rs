//! The origin of a pull dies in the middle of a frame and comes back: players stay, and their time goes on.

use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::origin::{LOCAL, Origin, add_pull, wait_for_pull};
use crate::common::server::Server;
use rtmp::MediaKind;
use rtmp::flv::Tag;

#[test]
fn players_are_served_on_and_time_never_runs_back() {
    let server = Server::start(LOCAL);
    let mut origin = Origin::start();
    let at = origin.address();
    add_pull(&server, "copy", &origin.url("/cam.flv"));
    // Two seconds: one group of pictures.
    let tags: Vec<Tag> = sample_tags().into_iter().filter(|tag| tag.timestamp < 2_000).collect();
    let sent: Vec<&Tag> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    let address = server.http;
    // Answered with the first frame.
    let opening =
        std::thread::spawn(move || http::open(address, "GET", "/live/copy.flv", &[]).expect("play"));
    server.wait_for_players("live/copy", 1);
    let (mut opening, mut player) = (Some(opening), None);
    let mut played: Vec<Tag> = Vec::new();
    // The origin's clock restarts, jumps, and is about to wrap.
    for (round, offset_ms) in [0, 0, 5_000_000, 0xffff_fc00].into_iter().enumerate() {
        let mut asked = origin.accept();
        asked.begin();
        asked.send_tags(&tags, offset_ms);
        wait_for_pull(&server, "copy", "live", |pull| pull["state"] == "live" && pull["reconnects"] == round);
        if let Some(opening) = opening.take() {
            player = Some(TagReader::new(opening.join().expect("an answer")));
        }
        let player = player.as_mut().expect("opened in the first round");
        let frames = std::iter::from_fn(|| player.next()).filter(|tag| tag.kind != MediaKind::Data);
        let frames: Vec<Tag> = frames.take(sent.len()).collect();
        for (index, (got, sent)) in frames.iter().zip(&sent).enumerate() {
            assert!(got.body == sent.body, "round {round}, message {index}");
        }
        assert_eq!(frames.len(), sent.len(), "round {round}");
        played.extend(frames);
        // Half a tag, and then nothing: not even somebody who listens.
        asked.send(&[9, 0, 1, 0, 0, 0, 0]);
        drop(origin);
        drop(asked);
        let pull = wait_for_pull(&server, "copy", "waiting", |pull| {
            pull["state"] == "waiting" && pull["attempts"].as_u64() > Some(1)
        });
        assert!(pull["last_error"].as_str().expect("a reason").contains("refused"), "{pull}");
        assert_eq!(server.sessions("stream=live/copy&role=player").len(), 1, "the player stays");
        assert!(server.sessions("stream=live/copy&role=publisher").is_empty(), "no publisher is shown");
        origin = Origin::at(at);
    }
    for pair in played.windows(2) {
        let step = pair[1].timestamp.wrapping_sub(pair[0].timestamp) as i32;
        assert!((0..10_000).contains(&step), "from {} to {}", pair[0].timestamp, pair[1].timestamp);
    }
}
