//! Another stream beside what a test does: each of its bytes is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rtmp::MediaKind;
use rtmp::flv::Tag;

use super::flv::{is_frame, sample_tags};
use super::rtmp::RtmpClient;
use super::server::Server;

/// A publisher and a player by RTMP, at work until [`Beside::finish`].
pub(crate) struct Beside {
    is_over: Arc<AtomicBool>,
    working: JoinHandle<usize>,
}

/// Frames that are on their way at once.
const BATCH: usize = 50;

impl Beside {
    /// Publishes `live/beside`, again and again, and plays it.
    pub(crate) fn start(server: &Server) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut player = RtmpClient::play(server.rtmp, "live/beside");
        let mut publisher = RtmpClient::publish(server.rtmp, "live/beside");
        let over = Arc::clone(&is_over);
        let working = thread::spawn(move || {
            let tags: Vec<Tag> =
                sample_tags().into_iter().filter(|tag| tag.kind != MediaKind::Data).collect();
            let (mut compared, mut zero) = (0, None);
            for round in 0.. {
                // The configurations are sent once.
                let sent: Vec<Tag> = tags.iter().filter(|tag| round == 0 || is_frame(tag)).cloned().collect();
                for batch in sent.chunks(BATCH) {
                    // Its last audio ends a little later than ten seconds.
                    let later = round * 10_100;
                    let batch: Vec<Tag> = batch
                        .iter()
                        .map(|tag| Tag { timestamp: tag.timestamp + later, ..tag.clone() })
                        .collect();
                    publisher.send_tags(&batch);
                    for (got, want) in player.take_frames(batch.len()).iter().zip(&batch) {
                        let zero = *zero.get_or_insert(got.timestamp.wrapping_sub(want.timestamp));
                        assert!(got.kind == want.kind && got.payload == want.body, "frame {compared}");
                        assert_eq!(got.timestamp.wrapping_sub(zero), want.timestamp, "frame {compared}");
                        compared += 1;
                    }
                    if over.load(Ordering::Relaxed) {
                        return compared;
                    }
                }
            }
            compared
        });
        Self { is_over, working }
    }

    /// Fails unless every frame so far has come, unchanged and with its time.
    pub(crate) fn finish(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let compared = self.working.join().expect("nothing else is disturbed");
        println!("beside: {compared} frames compared");
        assert!(compared >= BATCH);
    }
}
