//! Sessions that go over from one process to the other.

use std::collections::HashSet;
use std::time::Duration;

use worker_api::WorkerHandles;
use worker_api::command::WorkerHandle;
use worker_api::hand_over::HandedUrl;

use super::Predecessor;

/// How long datagrams wait at most, unless it is said before that they need not.
const HOLD: Duration = Duration::from_secs(60);

/// Takes the sessions of the old server, says that this one serves, and goes on with them when the old one
/// has let go of them; datagrams are read then. The URLs of those that go on.
pub(crate) async fn take_over_sessions(
    workers: &[WorkerHandle],
    mut predecessor: Predecessor,
) -> Result<(Predecessor, Vec<HandedUrl>), String> {
    let handles = WorkerHandles::new(workers.to_vec());
    let (sessions, mut urls) = predecessor.take_sessions();
    let (publishers, mut players) = sessions.split_publishers();
    let keys = publishers.connections.iter().map(|one| (one.connection.id, one.connection.key()));
    let keys: Vec<_> = keys.collect();
    let mut resumed = handles.resume(publishers).await;
    resumed.sort_unstable();
    // Players on other workers than their publisher's get its next frame if it goes on.
    let published: HashSet<_> =
        keys.into_iter().filter(|(id, _)| resumed.binary_search(id).is_ok()).map(|(_, key)| key).collect();
    for stream in &mut players.streams {
        stream.is_published = published.contains(&stream.key());
    }
    resumed.extend(handles.resume(players).await);
    // What workers have for each other has arrived after two turns: who has players of which stream.
    for _ in 0..2 {
        // One that does not answer has nothing for the others.
        let _ = handles.hold(HOLD, true).await;
    }
    resumed.sort_unstable();
    urls.retain(|url| resumed.binary_search(&url.session).is_ok());
    let serving = tokio::task::spawn_blocking(move || {
        let ended = predecessor.serving(resumed)?;
        Ok((predecessor, ended))
    });
    let (predecessor, ended) = serving.await.unwrap_or_else(|error| Err(error.to_string()))?;
    handles.go_on(ended.into()).await;
    let _ = handles.hold(Duration::ZERO, false).await;
    Ok((predecessor, urls))
}
