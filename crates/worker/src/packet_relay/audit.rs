//! Contradictions in what there is of other nodes, for simulations.

use super::PacketRelay;
use super::serve::ServedSource;
use crate::registry::{Epoch, StreamId};

impl PacketRelay {
    /// Whether there is input that is read without being reported again.
    pub(crate) fn reads_later(&self) -> bool {
        self.port.readable
    }

    /// Streams that are served and fetched, and links.
    pub(crate) fn tables(&self) -> [usize; 3] {
        [self.served.len(), self.fetched.len(), self.links.len()]
    }

    /// After every turn: datagrams that were made were taken by the kernel, refused or dropped, or wait.
    pub(crate) fn add_up(&self) -> Result<(), String> {
        let (counts, waiting, taken) = (self.port.counts, self.port.left(), self.port.taken());
        if counts.datagrams != taken + counts.failed + counts.dropped + waiting {
            return Err(format!(
                "{waiting} datagrams to nodes wait, {taken} were taken, counted are {counts:?}"
            ));
        }
        Ok(())
    }

    /// The first contradiction. `is_published` says whether a publication is there.
    pub(crate) fn audit(&self, is_published: impl Fn(StreamId, Epoch) -> bool) -> Result<(), String> {
        for (id, fetched) in &self.fetched {
            if self.of_in.get(fetched.into.index()) != Some(&Some(*id)) {
                return Err(format!("what comes for {} is not known to be", fetched.key));
            }
            if !is_published(*id, fetched.epoch) {
                return Err(format!("{} is fetched, and another is published", fetched.key));
            }
            if let Some(link) = fetched.parents.iter().find(|link| !self.links.contains_key(link)) {
                return Err(format!("{} comes over {link:?}, which is gone", fetched.key));
            }
        }
        for (id, served) in &self.served {
            let is_forwarded = matches!(served.source, ServedSource::Forwarded);
            if is_forwarded != self.fetched.contains_key(id) {
                return Err(format!("{} is served, and is it sent on? {is_forwarded}", served.key));
            }
            if !is_forwarded && self.of_out.get(&served.out) != Some(id) {
                return Err(format!("what leaves of {} is not known to be", served.key));
            }
            if let Some(link) = served.children.iter().find(|link| !self.links.contains_key(link)) {
                return Err(format!("{} goes over {link:?}, which is gone", served.key));
            }
        }
        let sealed =
            self.served.values().filter(|served| matches!(served.source, ServedSource::Sealed { .. }));
        let kept = self.fetched.values().filter(|fetched| fetched.out.is_some());
        let (outs, known) = (sealed.count() + kept.count(), self.of_out.len());
        if outs != known {
            return Err(format!("{known} streams that leave, of {outs}"));
        }
        let gets = |id, link| self.served.get(id).is_some_and(|served| served.children.contains(link));
        match self.catching_up.iter().find(|(id, link)| !gets(id, link)) {
            Some((id, link)) => Err(format!("{link:?} catches up with {id:?}, which it does not get")),
            None => Ok(()),
        }
    }
}
