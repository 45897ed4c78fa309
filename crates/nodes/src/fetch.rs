//! Fetches a stream of another node, and publishes it here: from one parent after the other, for as long as
//! the stream is wanted.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster::parent::{Candidate, can_feed, choose_parent, is_too_deep, parents};
use cluster::{Home, Lane, NodeName};
use node_link::{Publication, StreamEnd, StreamRefusal};
use relay::OpenKey;
use tokio::time::{Instant, interval_at, timeout};
use tracing::{debug, info, trace, warn};
use worker_api::internal::{PublishRequest, Publisher, Refusal, Unsent};
use worker_api::snapshot::Protocol;
use worker_api::streams::Epoch;
use worker_api::{EndReason, RELAY_WORKER};

use crate::center::Center;
use crate::connection::{Fetched, NodeLink, Subscription};
use crate::packets::{self, UNHEARD_FOR};
use crate::splice::Splice;
use crate::stream::{Serving, Slot};

/// Time a parent has to answer. It may wait for its own.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// A parent that refused, or did not have the stream, is not asked for this long.
const EXCLUDE_FOR: Duration = Duration::from_millis(250);
/// The same of one of which no datagram comes.
const EXCLUDE_UNHEARD_FOR: Duration = Duration::from_secs(10);
/// A stream that nobody can give now is asked for again after this, at the latest.
const RETRY: Duration = Duration::from_millis(250);
/// The same where nothing but a change can help.
const RETRY_QUIETLY: Duration = Duration::from_secs(5);
/// How often a node looks whether it is where it should be in the tree.
const REVIEW_EVERY: Duration = Duration::from_secs(2);
/// A parent that nobody feeds, as the directory says, may say nothing for this long.
const SILENT_FOR: Duration = Duration::from_secs(2);
/// What the workers did not take is tried again after this.
const RETRY_WORKERS: Duration = Duration::from_secs(1);

/// What is published here of the fetched stream.
struct Output {
    /// Which publication of the cluster it is.
    instance: u64,
    epoch: u64,
    media: Media,
}

enum Media {
    Frames {
        publisher: Publisher,
        worker: usize,
        splice: Splice,
    },
    /// The relay of a worker publishes it.
    Packets(packets::Output),
}

impl Output {
    /// Waits for an end that was not asked for.
    async fn ended(&mut self) -> EndReason {
        match &mut self.media {
            Media::Frames { publisher, .. } => publisher.ended().await,
            Media::Packets(output) => output.ended().await,
        }
    }

    /// Ends the publication.
    async fn finish(self) {
        if let Media::Frames { publisher, .. } = self.media {
            publisher.finish().await;
        }
    }
}

/// Why a parent's stream is not followed any more.
enum FollowEnd {
    /// The parent does not have it, or not for this node; others may.
    Refused(StreamRefusal, Vec<String>),
    /// It had it.
    End(StreamEnd),
    /// The link is gone.
    LinkLost,
    /// It did not answer, or cannot be asked: the link has as many streams as it may have.
    NoAnswer,
    /// It gives packets, and no datagram of it comes.
    Unheard,
    /// Another parent is better, or the publication is another one by now.
    Changed,
    /// This node's workers did not take it, or ended it.
    Workers(String),
}

/// Fetches until it is dropped.
pub(crate) async fn run(center: &Arc<Center>, slot: &Arc<Slot>) -> Infallible {
    let mut changes = slot.changes();
    let mut output: Option<Output> = None;
    let mut excluded: Vec<(NodeName, Instant)> = Vec::new();
    let mut hints: Vec<String> = Vec::new();
    let mut fetched: Option<Home> = None;
    loop {
        changes.borrow_and_update();
        excluded.retain(|(_, until)| *until > Instant::now());
        let home = elsewhere(center, slot, fetched.as_ref());
        fetched.clone_from(&home);
        let is_other =
            |output: &Output, home: &Home| (output.instance, output.epoch) != (home.instance.0, home.epoch.0);
        if let Some(ended) = output.take_if(|output| home.as_ref().is_none_or(|home| is_other(output, home)))
        {
            slot.set_serving(Serving::Nothing);
            debug!(stream = %slot.stream, "the publication that was fetched is over");
            ended.finish().await;
        }
        let Some(home) = home else {
            slot.set_serving(Serving::Nothing);
            slot.set_feed(center, None);
            let _ = changes.changed().await;
            continue;
        };
        let Some(link) = choose(center, slot, &home, &excluded, &std::mem::take(&mut hints)) else {
            slot.set_serving(Serving::Nothing);
            slot.set_feed(center, None);
            // New links and nodes are changes; only an exclusion ends by itself.
            let wait = if excluded.is_empty() { RETRY_QUIETLY } else { RETRY };
            let _ = timeout(wait, changes.changed()).await;
            continue;
        };
        let parent = link.peer.clone();
        slot.set_serving(Serving::Fetching { parent: parent.clone() });
        slot.set_feed(center, Some(&parent));
        debug!(stream = %slot.stream, %parent, home = %home.node, "fetching");
        match follow(center, slot, &link, &home, &mut output).await {
            FollowEnd::Refused(why, others) => {
                debug!(stream = %slot.stream, %parent, "refused: {why}");
                hints = others;
                // Nobody knows better.
                fetched.take_if(|home| why == StreamRefusal::NotHere && home.node == parent);
                excluded.push((parent, Instant::now() + EXCLUDE_FOR));
            }
            FollowEnd::NoAnswer => {
                info!(stream = %slot.stream, %parent, "no answer");
                excluded.push((parent, Instant::now() + EXCLUDE_FOR));
            }
            FollowEnd::End(StreamEnd::PublisherEnded) => {
                debug!(stream = %slot.stream, %parent, "its publisher has ended");
                // As on the node that it was published on. The directory says whether there is another one.
                slot.set_serving(Serving::Nothing);
                fetched = None;
                if let Some(ended) = output.take() {
                    ended.finish().await;
                }
                let _ = timeout(RETRY, changes.changed()).await;
            }
            FollowEnd::End(why) => {
                debug!(stream = %slot.stream, %parent, "ended: {why}");
                excluded.push((parent, Instant::now() + EXCLUDE_FOR));
            }
            FollowEnd::LinkLost => {
                info!(stream = %slot.stream, %parent, "the node that it came from is gone");
            }
            FollowEnd::Unheard => {
                center.silent_parents.fetch_add(1, Ordering::Relaxed);
                if center.warnings.may_log(format!("unheard {parent}")) {
                    let (address, here) = (link.relay.address(), center.relay_address.as_deref());
                    warn!(
                        stream = %slot.stream, %parent, address = address.map(tracing::field::display), here,
                        "no packets come from the node, although it is linked to: firewalls have to let UDP \
                         through between both addresses, each way"
                    );
                }
                excluded.push((parent, Instant::now() + EXCLUDE_UNHEARD_FOR));
            }
            FollowEnd::Changed => debug!(stream = %slot.stream, %parent, "choosing again"),
            FollowEnd::Workers(why) => {
                if center.warnings.may_log(format!("workers {} {why}", slot.stream)) {
                    warn!(stream = %slot.stream, "not published here: {why}");
                } else {
                    debug!(stream = %slot.stream, "not published here: {why}");
                }
                output = None;
                let _ = timeout(RETRY_WORKERS, changes.changed()).await;
            }
        }
    }
}

/// Where the stream is, if it is on another node and can be fetched. A home that the directory does not hear
/// may have a link to this node: what was `fetched` goes on until that ends, the publisher does, or another
/// node has the name.
fn elsewhere(center: &Center, slot: &Slot, fetched: Option<&Home>) -> Option<Home> {
    let is_linked =
        |home: &&Home| center.links.get(&home.node).is_some_and(|link| link.instance == home.instance);
    let home = center.directory.find(&slot.stream).or_else(|| fetched.filter(is_linked).cloned())?;
    // Packets come to the relay of a worker.
    let can_be_fetched = home.description.lane == Lane::Frames || center.relay_address.is_some();
    (home.instance != center.directory.instance() && can_be_fetched).then_some(home)
}

/// The node to fetch from. One that was named by a node that had no room comes first: that one knows better
/// than the directory.
fn choose(
    center: &Center,
    slot: &Slot,
    home: &Home,
    excluded: &[(NodeName, Instant)],
    hints: &[String],
) -> Option<Arc<NodeLink>> {
    let is_excluded = |name: &NodeName| excluded.iter().any(|(other, _)| other == name);
    let is_of_packets = home.description.lane == Lane::Packets;
    let is_unheard =
        |name: &NodeName| is_of_packets && center.links.get(name).is_some_and(|link| !link.relay.is_heard());
    let nodes = center.directory.nodes();
    let mut feeds = center.directory.feeds(&slot.stream);
    let hinted = hints.iter().filter_map(|name| NodeName::new(name)).find(|name| {
        let lives = nodes.iter().any(|node| node.name == *name && !node.draining);
        let can_feed = can_feed(name, &center.name, &feeds);
        lives && can_feed && !is_excluded(name) && center.links.get(name).is_some() && !is_unheard(name)
    });
    if let Some(name) = hinted {
        return center.links.get(&name);
    }
    let is_draining: HashSet<NodeName> =
        nodes.iter().filter(|node| node.draining).map(|node| node.name.clone()).collect();
    let candidate = |name: NodeName, region: String| {
        let link = center.links.get(&name);
        Candidate {
            round_trip: link.as_ref().and_then(|link| link.stats().round_trip),
            excluded: is_draining.contains(&name) || link.is_none() || is_excluded(&name),
            name,
            region,
        }
    };
    // The directory may not hear the home.
    let unheard = nodes.iter().all(|node| node.name != home.node);
    let unheard = unheard.then(|| candidate(home.node.clone(), String::new()));
    let others = nodes.into_iter().filter(|node| node.name != center.name);
    let candidates = others.map(|node| candidate(node.name, node.region)).chain(unheard);
    // The directory forgets a node that died after a second; its place is free before, and so is that of one
    // that drains.
    feeds.retain(|(child, _)| {
        *child == center.name || center.links.get(child).is_some() && !is_draining.contains(child)
    });
    let region = &center.settings.directory.region;
    let all: Vec<Candidate> = candidates.collect();
    let but_unheard: Vec<Candidate> = all
        .iter()
        .cloned()
        .map(|node| Candidate { excluded: node.excluded || is_unheard(&node.name), ..node })
        .collect();
    let choose = |candidates| {
        choose_parent(&center.name, region, &home.node, &feeds, candidates, center.settings.fan_out_max)
    };
    // One of which no datagram comes may have a stream that pauses, over a way that is closed to what this
    // node says: then its packets come once there are some.
    center.links.get(&choose(&but_unheard).or_else(|| choose(&all))?)
}

/// Takes a stream from a parent, as long as it gives it.
async fn follow(
    center: &Arc<Center>,
    slot: &Arc<Slot>,
    link: &Arc<NodeLink>,
    home: &Home,
    output: &mut Option<Output>,
) -> FollowEnd {
    let Some(mut subscription) = link.subscribe(slot.stream.as_str()) else { return FollowEnd::NoAnswer };
    let publication = match timeout(ANSWER_WITHIN, subscription.next()).await {
        Err(_) => return FollowEnd::NoAnswer,
        Ok(None) => return FollowEnd::LinkLost,
        Ok(Some(Fetched::Accepted(publication))) => publication,
        Ok(Some(Fetched::Refused(why, others))) => return FollowEnd::Refused(why, others),
        Ok(Some(_)) => return FollowEnd::End(StreamEnd::Lost),
    };
    if (publication.instance, publication.epoch) != (home.instance.0, home.epoch.0) {
        // The parent or this node knows of a newer one first; the directory brings both together.
        return FollowEnd::Refused(StreamRefusal::NotHere, Vec::new());
    }
    let is_frames = publication.lane == node_link::Lane::Frames;
    if is_frames && let Some(Output { media: Media::Frames { worker, splice, .. }, .. }) = output {
        splice.change_parent(center.clock.now());
        slot.set_serving(here(&publication, link, *worker, None));
    }
    // Dropped when this ends; the next parent continues the stream.
    let _parent = match is_frames {
        true => None,
        false => match attach(center, slot, link, &mut subscription, &publication, output).await {
            Ok(parent) => Some(parent),
            Err(left) => return left,
        },
    };
    let mut missed = 0_u64;
    let begun_at = Instant::now();
    let is_unheard = || !is_frames && begun_at.elapsed() >= UNHEARD_FOR && !link.relay.is_heard();
    let mut heard_at = begun_at;
    // Each parent learns which nodes have left since the key was changed: the one before may be gone.
    let mut reported: HashSet<NodeName> = HashSet::new();
    let report_left = |subscription: &Subscription, reported: &mut HashSet<NodeName>| {
        let left = if is_frames { Vec::new() } else { slot.key_holders.left(&slot.child_names()) };
        for node in left {
            if reported.insert(node.clone()) {
                subscription.left(&node);
            }
        }
    };
    report_left(&subscription, &mut reported);
    let mut review = interval_at(Instant::now() + REVIEW_EVERY, REVIEW_EVERY);
    let mut changes = slot.changes();
    let left = loop {
        tokio::select! {
            biased;
            reason = ended(output) => break FollowEnd::Workers(reason.text().to_owned()),
            fetched = subscription.next() => match fetched {
                None => break FollowEnd::LinkLost,
                Some(Fetched::Frame(frame)) if is_frames => {
                    heard_at = Instant::now();
                    let cost = node_link::cost(&frame);
                    let taken = hand_on(center, slot, link, &publication, output, frame).await;
                    subscription.used(cost);
                    if let Err(why) = taken {
                        break FollowEnd::Workers(why);
                    }
                    if let Some(Output { media: Media::Frames { publisher, .. }, .. }) = output
                        && !subscription.has_next()
                    {
                        publisher.flush();
                    }
                }
                Some(Fetched::Gap(frames)) if is_frames => {
                    missed += u64::from(frames);
                    if center.warnings.may_log(format!("gap {} {}", link.peer, slot.stream)) {
                        warn!(
                            stream = %slot.stream, parent = %link.peer, frames,
                            "the link is slower than the stream: frames were left out up to a key frame"
                        );
                    }
                }
                Some(Fetched::Key(key)) if !is_frames => {
                    packets::add_key(center, slot, OpenKey::from_bytes(&key.0)).await;
                    report_left(&subscription, &mut reported);
                    slot.key_holders.renew(slot.child_names());
                    reported.clear();
                }
                Some(Fetched::End(why)) => break FollowEnd::End(why),
                Some(Fetched::Refused(why, others)) => break FollowEnd::Refused(why, others),
                Some(Fetched::Accepted(_) | Fetched::Frame(_) | Fetched::Gap(_) | Fetched::Key(_)) => {}
            },
            _ = changes.changed() => {
                report_left(&subscription, &mut reported);
                if is_unheard() {
                    break FollowEnd::Unheard;
                }
                if is_another(center, slot, home)
                    || is_parent_going(center, slot, link, home)
                    || is_unfed(center, slot, link, home, heard_at)
                {
                    break FollowEnd::Changed;
                }
            }
            _ = review.tick() => {
                if is_unheard() {
                    break FollowEnd::Unheard;
                }
                if is_misplaced(center, slot, link, home) || is_unfed(center, slot, link, home, heard_at) {
                    break FollowEnd::Changed;
                }
            }
        }
    };
    if missed > 0 {
        debug!(stream = %slot.stream, parent = %link.peer, missed, "frames were missed");
    }
    left
}

/// Has the relay take packets, once their keys are here.
async fn attach(
    center: &Arc<Center>,
    slot: &Arc<Slot>,
    link: &Arc<NodeLink>,
    subscription: &mut Subscription,
    publication: &Publication,
    output: &mut Option<Output>,
) -> Result<packets::Ends, FollowEnd> {
    // All keys that are in use come behind the acceptance.
    let mut keys = Vec::new();
    while keys.is_empty() || subscription.has_next() {
        match timeout(ANSWER_WITHIN, subscription.next()).await {
            Err(_) => return Err(FollowEnd::NoAnswer),
            Ok(None) => return Err(FollowEnd::LinkLost),
            Ok(Some(Fetched::Key(key))) => keys.push(OpenKey::from_bytes(&key.0)),
            Ok(Some(Fetched::End(why))) => return Err(FollowEnd::End(why)),
            Ok(Some(_)) => {}
        }
    }
    let &Publication { instance, epoch, ref tracks, .. } = publication;
    let mut packets = match output.take() {
        Some(Output { media: Media::Packets(packets), .. }) => Some(packets),
        _ => None,
    };
    let attached = packets::attach(center, link, slot, (tracks, keys), &mut packets).await;
    let local = packets.as_ref().map(|packets| packets.local);
    *output = packets.map(|packets| Output { instance, epoch, media: Media::Packets(packets) });
    let (parent, handle, from) = attached.map_err(FollowEnd::Workers)?;
    subscription.attach(handle, from);
    info!(stream = %slot.stream, parent = %link.peer, "fetched from another node");
    slot.set_serving(here(publication, link, RELAY_WORKER, local));
    Ok(parent)
}

/// Whether what this node fetches is not what the directory has any more.
fn is_another(center: &Center, slot: &Slot, home: &Home) -> bool {
    let now = elsewhere(center, slot, Some(home));
    now.is_none_or(|now| (now.instance, now.epoch) != (home.instance, home.epoch))
}

/// Whether another parent would be chosen now. One of which no datagram comes is not worth a change.
fn has_another(center: &Center, slot: &Slot, link: &NodeLink, home: &Home) -> bool {
    choose(center, slot, home, &[], &[]).is_some_and(|other| {
        other.peer != link.peer && (home.description.lane == Lane::Frames || other.relay.is_heard())
    })
}

/// Whether the parent drains, and another one has what it gives: it waits for its children to go there.
fn is_parent_going(center: &Center, slot: &Slot, link: &NodeLink, home: &Home) -> bool {
    link.peer != home.node && center.is_other_draining(&link.peer) && has_another(center, slot, link, home)
}

/// Whether this node, which feeds none, is deeper in the tree than it has to be, and another parent is there.
fn is_misplaced(center: &Center, slot: &Slot, link: &NodeLink, home: &Home) -> bool {
    let feeds = center.directory.feeds(&slot.stream);
    let is_leaf = feeds.iter().all(|(_, parent)| *parent != center.name);
    is_leaf
        && is_too_deep(&center.name, &home.node, &feeds, center.settings.fan_out_max)
        && has_another(center, slot, link, home)
}

/// Whether the parent gets nothing itself, and another one is there: nodes that chose at once may feed each
/// other in a loop, and a node may have lost its own parent. One that gives frames is fed, whatever the
/// directory knows, and of a node that it does not hear it knows nothing.
fn is_unfed(center: &Center, slot: &Slot, link: &NodeLink, home: &Home, heard_at: Instant) -> bool {
    let is_heard = |name: &NodeName| center.directory.nodes().iter().any(|node| node.name == *name);
    let is_fed = parents(&center.name, &center.directory.feeds(&slot.stream)).is_some_and(|chain| {
        let ends_here = |last: &NodeName| *last != home.node && is_heard(last);
        heard_at.elapsed() < SILENT_FOR || !chain.last().is_some_and(ends_here)
    });
    !is_fed && has_another(center, slot, link, home)
}

/// Publishes a frame here; the first one begins the publication.
async fn hand_on(
    center: &Center,
    slot: &Slot,
    link: &NodeLink,
    publication: &Publication,
    output: &mut Option<Output>,
    frame: media::Frame,
) -> Result<(), String> {
    if !matches!(output, Some(Output { media: Media::Frames { .. }, .. })) {
        let (publisher, worker) = begin(center, slot, link).await?;
        info!(stream = %slot.stream, parent = %link.peer, "fetched from another node");
        slot.set_serving(here(publication, link, worker, None));
        let media = Media::Frames { publisher, worker, splice: Splice::default() };
        *output = Some(Output { instance: publication.instance, epoch: publication.epoch, media });
    }
    let Some(Output { media: Media::Frames { publisher, splice, .. }, .. }) = output else { return Ok(()) };
    if let Err(why) = splice.take(center.clock.now(), &frame) {
        trace!(stream = %slot.stream, track = ?frame.track, ?why, "frame dropped behind a change of parents");
        link.count_left_out(why, 1);
        return Ok(());
    }
    match publisher.send(Arc::new(frame)).await {
        Ok(()) => Ok(()),
        Err(Unsent::TooLong) => {
            publisher.count_invalid();
            Ok(())
        }
        Err(Unsent::Ended(reason)) => Err(reason.text().to_owned()),
    }
}

async fn begin(center: &Center, slot: &Slot, link: &NodeLink) -> Result<(Publisher, usize), String> {
    let (app, name) = slot.app_and_name();
    let protocol = Protocol::Node;
    let request =
        PublishRequest { app, name, protocol, address: link.address, detail: link.peer.to_string() };
    let no_answer = |_| "a worker does not answer".to_owned();
    let worker = center.workers.least_busy().await.map_err(no_answer)?;
    let answer = center.workers.publish(worker, request, center.settings.frame_bytes_max).await;
    let publisher = answer.map_err(no_answer)?.map_err(|refusal| match refusal {
        Refusal::Taken | Refusal::TakenElsewhere => "the stream has a publisher here",
        Refusal::Full => "the worker has as many sessions as it may have",
        Refusal::Draining => "the server is shutting down",
    })?;
    Ok((publisher, worker))
}

fn here(publication: &Publication, link: &NodeLink, worker: usize, local: Option<Epoch>) -> Serving {
    let publication = publication.clone();
    Serving::Here { publication, worker, local, parent: Some(link.peer.clone()) }
}

/// The end of what is published; never, while nothing is.
async fn ended(output: &mut Option<Output>) -> EndReason {
    match output {
        Some(output) => output.ended().await,
        None => std::future::pending().await,
    }
}
