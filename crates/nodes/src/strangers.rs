//! Connections of strangers at the port for nodes, who have not yet proven that they are nodes: how many
//! there may be, and how often one may come.
//!
//! Each costs a place, and this thread the work of a TLS handshake. Addresses of nodes have places and
//! handshakes that nobody else gets: those that the directory names, and those that a node has come from
//! before. Of strangers an IPv6 network of 64 bits counts as one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::cluster::RefusedConnections;
use tokio::time::Instant;
use worker_api::network;

/// Connections from addresses of nodes; from all others together.
const OPEN_OF_NODES_MAX: usize = 64;
const OPEN_MAX: usize = 64;
/// Connections of one address.
const OPEN_PER_ADDRESS_MAX: usize = 16;
/// Handshakes in a second, on average, and at once: of one address. A node that cannot be linked to tries it
/// two or three times a second.
const PER_ADDRESS: Rate = Rate { per_second: 4.0, at_once: 32.0 };
/// The same of all addresses together that are no node's: a twentieth of a core.
const OF_ALL: Rate = Rate { per_second: 50.0, at_once: 100.0 };
/// The same of one address of a node. Several nodes may be behind it.
const PER_NODE_ADDRESS: Rate = Rate { per_second: 16.0, at_once: 64.0 };
/// Addresses of nodes that are known; of more, those are forgotten that were seen longest ago.
const NODES_MAX: usize = 2 * cluster::INSTANCES_MAX;

/// Addresses that are remembered before those are forgotten of which there is nothing to remember.
const FORGET_MIN: usize = 256;

/// How often something may be.
#[derive(Debug, Clone, Copy)]
struct Rate {
    per_second: f64,
    at_once: f64,
}

/// What is left of a rate.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(now: Instant, rate: Rate) -> Self {
        Self { left: rate.at_once, at: now }
    }

    fn fill(&mut self, now: Instant, rate: Rate) {
        let added = now.saturating_duration_since(self.at).as_secs_f64() * rate.per_second;
        *self = Self { left: (self.left + added).min(rate.at_once), at: now };
    }
}

/// Why a connection is closed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooMuch {
    /// All places are taken.
    Open,
    /// The address has as many as it may.
    OpenOfAddress,
    /// There were too many handshakes.
    Often,
    /// There were too many of the address.
    OftenOfAddress,
}

/// All of them.
#[derive(Debug, Clone)]
pub(crate) struct Strangers(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    addresses: HashMap<IpAddr, Address>,
    /// When there are so many, some are forgotten.
    forget_at: usize,
    /// Connections of addresses that are no node's.
    open: usize,
    /// The same of addresses of nodes.
    open_of_nodes: usize,
    of_all: Bucket,
    /// Addresses of nodes, and when they were seen last.
    nodes: HashMap<IpAddr, Instant>,
    refused: RefusedConnections,
}

#[derive(Debug)]
struct Address {
    open: usize,
    bucket: Bucket,
}

impl Strangers {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            addresses: HashMap::new(),
            forget_at: FORGET_MIN,
            open: 0,
            open_of_nodes: 0,
            of_all: Bucket::full(now, OF_ALL),
            nodes: HashMap::new(),
            refused: RefusedConnections::default(),
        })))
    }

    /// A connection of a stranger, who has a place until what is returned is dropped.
    pub(crate) fn admit(&self, now: Instant, address: IpAddr) -> Result<Stranger, TooMuch> {
        let mut inner = self.lock();
        // Neighbours of a node share nothing with it.
        let address = match address.to_canonical() {
            node if inner.nodes.contains_key(&node) => node,
            stranger => network(stranger),
        };
        match inner.admit(now, address) {
            Ok(is_node) => Ok(Stranger { strangers: self.clone(), address, is_node }),
            Err(too_much) => {
                let refused = &mut inner.refused;
                *match too_much {
                    TooMuch::Open => &mut refused.too_many,
                    TooMuch::OpenOfAddress => &mut refused.too_many_of_address,
                    TooMuch::Often => &mut refused.too_often,
                    TooMuch::OftenOfAddress => &mut refused.too_often_of_address,
                } += 1;
                Err(too_much)
            }
        }
    }

    /// A node is at this address.
    pub(crate) fn note_node(&self, now: Instant, address: IpAddr) {
        let mut inner = self.lock();
        let address = address.to_canonical();
        if inner.nodes.len() >= NODES_MAX
            && !inner.nodes.contains_key(&address)
            && let Some(oldest) = inner.nodes.iter().min_by_key(|(_, at)| **at).map(|(address, _)| *address)
        {
            inner.nodes.remove(&oldest);
        }
        inner.nodes.insert(address, now);
    }

    /// Counts connections that were refused, each by one of these.
    pub(crate) fn count(&self, count: impl FnOnce(&mut RefusedConnections)) {
        count(&mut self.lock().refused);
    }

    pub(crate) fn refused(&self) -> RefusedConnections {
        self.lock().refused
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Says whether the address is a node's.
    fn admit(&mut self, now: Instant, address: IpAddr) -> Result<bool, TooMuch> {
        let is_node = self.nodes.contains_key(&address);
        let (open, open_max, rate) = match is_node {
            true => (&mut self.open_of_nodes, OPEN_OF_NODES_MAX, PER_NODE_ADDRESS),
            false => (&mut self.open, OPEN_MAX, PER_ADDRESS),
        };
        if let Some(known) = self.addresses.get_mut(&address) {
            known.bucket.fill(now, rate);
            if known.open >= OPEN_PER_ADDRESS_MAX {
                return Err(TooMuch::OpenOfAddress);
            }
            if known.bucket.left < 1.0 {
                return Err(TooMuch::OftenOfAddress);
            }
        }
        if *open >= open_max {
            return Err(TooMuch::Open);
        }
        self.of_all.fill(now, OF_ALL);
        if !is_node && self.of_all.left < 1.0 {
            return Err(TooMuch::Often);
        }
        // Only of those that are let in something is kept, so that it is not much.
        if self.addresses.len() >= self.forget_at {
            let nodes = &self.nodes;
            self.addresses.retain(|address, known| {
                let rate = if nodes.contains_key(address) { PER_NODE_ADDRESS } else { PER_ADDRESS };
                known.bucket.fill(now, rate);
                known.open > 0 || known.bucket.left < rate.at_once
            });
            self.forget_at = FORGET_MIN.max(2 * self.addresses.len());
        }
        let new = || Address { open: 0, bucket: Bucket::full(now, rate) };
        let known = self.addresses.entry(address).or_insert_with(new);
        known.bucket.left -= 1.0;
        known.open += 1;
        *open += 1;
        if !is_node {
            self.of_all.left -= 1.0;
        }
        Ok(is_node)
    }
}

/// The place of one.
#[derive(Debug)]
pub(crate) struct Stranger {
    strangers: Strangers,
    address: IpAddr,
    is_node: bool,
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut inner = self.strangers.lock();
        match self.is_node {
            true => inner.open_of_nodes -= 1,
            false => inner.open -= 1,
        }
        if let Some(known) = inner.addresses.get_mut(&self.address) {
            known.open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    /// As many connections as are let in, one of each address in turn.
    fn fill(strangers: &Strangers, addresses: impl Iterator<Item = IpAddr>) -> Vec<Stranger> {
        let now = Instant::now();
        addresses.filter_map(|address| strangers.admit(now, address).ok()).collect()
    }

    fn ips(count: u32) -> impl Iterator<Item = IpAddr> {
        (0..count).map(|number| Ipv4Addr::from_bits(0x0a00_0000 + number).into())
    }

    #[tokio::test(start_paused = true)]
    async fn neighbours_of_a_node_take_nothing_of_its_address() {
        let strangers = Strangers::new(Instant::now());
        let of_net = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host]);
        strangers.note_node(Instant::now(), of_net(1));
        let open = fill(&strangers, (2..1_000).map(of_net));
        assert_eq!(open.len(), OPEN_PER_ADDRESS_MAX);
        assert!(strangers.admit(Instant::now(), of_net(1)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_that_take_every_place_take_none_of_a_node_s() {
        let strangers = Strangers::new(Instant::now());
        let [node, other]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        strangers.note_node(Instant::now(), node);
        let open = fill(&strangers, ips(1_000));
        assert_eq!(open.len(), OPEN_MAX);
        assert_eq!(strangers.admit(Instant::now(), other).err(), Some(TooMuch::Open));
        // They come again whenever one of them is closed, as fast as they can.
        drop(open);
        let mut admitted = 0;
        for _ in 0..10 {
            admitted += fill(&strangers, ips(1_000)).len();
        }
        assert!(admitted <= OF_ALL.at_once as usize, "{admitted} handshakes at once");
        assert_eq!(strangers.admit(Instant::now(), other).err(), Some(TooMuch::Often));
        assert!(strangers.admit(Instant::now(), node).is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(fill(&strangers, ips(1_000)).len(), OF_ALL.per_second as usize);
        let refused = strangers.refused();
        assert_eq!((refused.too_many_of_address, refused.too_often_of_address), (0, 0));
        assert!(refused.too_many > 900 && refused.too_often > 9_000, "{refused:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_some_places_and_handshakes_and_a_network_of_ipv6_is_one() {
        let strangers = Strangers::new(Instant::now());
        let ip = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, number, 0, 0, 1]);
        let open = fill(&strangers, (0..100).map(ip));
        assert_eq!(open.len(), OPEN_PER_ADDRESS_MAX);
        drop(open);
        let mut now = Instant::now();
        let left = PER_ADDRESS.at_once as usize - OPEN_PER_ADDRESS_MAX;
        for at in 0..left {
            assert!(strangers.admit(now, ip(at as u16)).is_ok(), "{at}");
        }
        assert_eq!(strangers.admit(now, ip(0)).err(), Some(TooMuch::OftenOfAddress));
        assert!(strangers.admit(now, [192, 0, 2, 1].into()).is_ok(), "others have theirs");
        now += Duration::from_secs_f64(1.0 / PER_ADDRESS.per_second);
        assert!(strangers.admit(now, ip(0)).is_ok());
        assert_eq!(strangers.admit(now, ip(0)).err(), Some(TooMuch::OftenOfAddress));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_of_addresses_is_bounded() {
        let strangers = Strangers::new(Instant::now());
        for round in 0..100 {
            drop(fill(&strangers, ips(100_000).skip(round * 1_000).take(1_000)));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(strangers.lock().addresses.len() <= FORGET_MIN);
        for address in ips(NODES_MAX as u32 + 10) {
            strangers.note_node(Instant::now(), address);
        }
        assert_eq!(strangers.lock().nodes.len(), NODES_MAX);
    }
}
