//! Serves a stream to another node: as a player inside this process, whose frames go to the link.

use std::sync::Arc;
use std::time::Duration;

use cluster::StreamName;
use cluster::parent::can_feed;
use node_link::{Lane, Publication, ServeId, StreamEnd, StreamRefusal};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::{debug, info};
use worker_api::snapshot::Protocol;
use worker_api::streams::Epoch;
use worker_api::tap::{Tap, TapItem, TapRefusal, TapRequest};

use crate::center::Center;
use crate::connection::{Attachment, NodeLink};
use crate::packets;
use crate::stream::{Serving, Slot};
use crate::task;

/// How long a node that fetches a stream itself, and has not got it yet, lets another one wait.
const OWN_FETCH_WITHIN: Duration = Duration::from_millis(1_500);

/// Begins to serve a stream.
pub(crate) fn spawn(
    center: &Arc<Center>,
    link: &Arc<NodeLink>,
    (id, stream): (ServeId, String),
    attachments: mpsc::Receiver<Attachment>,
) -> AbortHandle {
    let (center, link) = (Arc::clone(center), Arc::clone(link));
    let task = async move {
        if let Err((why, others)) = serve(&center, &link, (id, &stream), attachments).await {
            debug!(node = %link.peer, stream, "a node was refused a stream: {why}");
            link.driven.with(|machine, _| machine.refuse_stream(id, why, others));
        }
        link.forget(id);
    };
    task::spawn(task)
}

type Refused = (StreamRefusal, Vec<String>);

async fn serve(
    center: &Arc<Center>,
    link: &Arc<NodeLink>,
    (id, stream): (ServeId, &str),
    mut attachments: mpsc::Receiver<Attachment>,
) -> Result<(), Refused> {
    let refuse = |why| Err((why, Vec::new()));
    let slot = StreamName::new(stream).and_then(|stream| center.slot(&stream));
    let Some(slot) = slot else { return refuse(StreamRefusal::NotHere) };
    if center.is_draining() {
        return refuse(StreamRefusal::Draining);
    }
    let goes = |node: &_| center.is_other_draining(node);
    let Some(child) = slot.add_child(&link.peer, center.settings.fan_out_max, goes) else {
        return Err((StreamRefusal::Full, with_room(center, link, &slot)));
    };
    let Serving::Here { publication, worker, local, parent } = until_here(link, &slot).await? else {
        return refuse(StreamRefusal::NotHere);
    };
    // A loop feeds nobody. What the directory does not know yet is noticed when it does (`fetch.rs`).
    let is_loop = || !can_feed(&center.name, &link.peer, &center.directory.feeds(&slot.stream));
    if parent.is_some_and(|parent| parent == link.peer || is_loop()) {
        return refuse(StreamRefusal::Loop);
    }
    let served = match publication.lane {
        Lane::Packets => {
            packets::serve(center, link, &slot, (id, publication, local), &mut attachments).await
        }
        Lane::Frames => serve_frames(center, link, &slot, (id, publication, local), worker).await,
    };
    let end = served.map_err(|why| (why, Vec::new()))?;
    debug!(stream = %slot.stream, node = %link.peer, "not served any more: {end}");
    link.driven.with(|machine, _| machine.end_stream(id, end));
    drop(child);
    Ok(())
}

/// Serves a stream of frames, until it ends or the task does.
async fn serve_frames(
    center: &Center,
    link: &NodeLink,
    slot: &Slot,
    (id, publication, local): (ServeId, Publication, Option<Epoch>),
    worker: usize,
) -> Result<StreamEnd, StreamRefusal> {
    let (app, name) = slot.app_and_name();
    let request = TapRequest {
        app,
        name,
        protocol: Protocol::Node,
        address: link.address,
        detail: link.peer.to_string(),
    };
    let tap = match center.workers.tap(worker, request).await {
        Ok(Ok(tap)) => tap,
        Ok(Err(TapRefusal::Draining)) => return Err(StreamRefusal::Draining),
        Ok(Err(TapRefusal::NotFound | TapRefusal::NotFrames)) => return Err(StreamRefusal::NotHere),
        Ok(Err(TapRefusal::Full)) | Err(_) => return Err(StreamRefusal::Full),
    };
    info!(stream = %slot.stream, node = %link.peer, "served to another node");
    link.driven.with(|machine, _| machine.accept_stream(id, publication));
    Ok(pass_on(link, id, tap, local).await)
}

/// Waits until the stream is here, if it is on its way.
async fn until_here(link: &NodeLink, slot: &Slot) -> Result<Serving, Refused> {
    let mut serving = slot.serving();
    let settled = serving.wait_for(|serving| match serving {
        Serving::Nothing => false,
        Serving::Fetching { parent } => *parent == link.peer,
        Serving::Here { .. } => true,
    });
    match timeout(OWN_FETCH_WITHIN, settled).await {
        Ok(Ok(serving)) if matches!(*serving, Serving::Fetching { .. }) => {
            Err((StreamRefusal::Loop, Vec::new()))
        }
        Ok(Ok(serving)) => Ok(serving.clone()),
        _ => Err((StreamRefusal::NotHere, Vec::new())),
    }
}

/// Nodes that get the stream, not by way of the one that asks, and feed fewer others than they may, as far as
/// the directory knows.
fn with_room(center: &Center, link: &NodeLink, slot: &Slot) -> Vec<String> {
    let feeds = center.directory.feeds(&slot.stream);
    let fed = |node| feeds.iter().filter(|(_, parent)| *parent == node).count();
    let others = feeds.iter().map(|(child, _)| child.clone()).filter(|child| {
        *child != center.name
            && can_feed(child, &link.peer, &feeds)
            && fed(child.clone()) < center.settings.fan_out_max
    });
    others.take(node_link::OTHERS_MAX).map(|name| name.to_string()).collect()
}

/// Passes on what the worker gives, until the publication or the tap ends.
async fn pass_on(link: &NodeLink, id: ServeId, mut tap: Tap, local: Option<Epoch>) -> StreamEnd {
    let mut is_begun = false;
    loop {
        let Ok(item) = tap.next().await else { return StreamEnd::Stopped };
        let frames = match item {
            // Another publication than the one that was accepted: the node asks again, and gets that.
            TapItem::Start { epoch, .. } if is_begun || local.is_some_and(|local| local != epoch) => {
                return StreamEnd::PublisherEnded;
            }
            TapItem::Start { frames, .. } => {
                is_begun = true;
                frames
            }
            TapItem::Frame(frame) => vec![frame],
            TapItem::Gap { dropped, frames } => {
                let dropped = u32::try_from(dropped).unwrap_or(u32::MAX);
                link.driven.with(|machine, _| machine.skip(id, dropped));
                frames
            }
            TapItem::Stop => return StreamEnd::PublisherEnded,
        };
        link.driven.with(|machine, now| {
            frames.into_iter().for_each(|frame| machine.send(now, id, frame));
        });
    }
}
