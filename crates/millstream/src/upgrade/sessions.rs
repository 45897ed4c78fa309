//! WebRTC sessions that go over from one process to the other.

use std::time::Duration;

use worker_api::command::WorkerHandle;
use worker_api::hand_over::{HandedSession, HandedUrl};
use worker_api::rtc::RtcRole;
use worker_api::{NoAnswer, WorkerHandles};

use super::Predecessor;

/// How long datagrams wait at most, unless it is said before that they need not.
const HOLD: Duration = Duration::from_secs(60);

/// Goes on with the sessions of another process; datagrams are read when they do. The URLs of those that do.
pub(crate) async fn resume_sessions(
    workers: &[WorkerHandle],
    predecessor: &mut Predecessor,
) -> Vec<HandedUrl> {
    let handles = WorkerHandles::new(workers.to_vec());
    let (sessions, mut urls) = predecessor.take_sessions();
    let (publishers, players) =
        sessions.into_iter().partition(|session: &HandedSession| session.role == RtcRole::Publish);
    let mut resumed = Vec::new();
    let resuming = async {
        resumed.extend(handles.resume(publishers).await?);
        resumed.extend(handles.resume(players).await?);
        // What workers have for each other has arrived after two turns: who has players of which stream.
        for _ in 0..2 {
            handles.hold(HOLD, true).await?;
        }
        Ok::<_, NoAnswer>(())
    };
    if let Err(NoAnswer { worker }) = resuming.await {
        tracing::error!(worker, "a worker does not go on with sessions");
    }
    // A worker that does not answer has nobody to hear from either.
    let _ = handles.hold(Duration::ZERO, false).await;
    urls.retain(|url| resumed.contains(&url.session));
    predecessor.resumed(resumed);
    urls
}
