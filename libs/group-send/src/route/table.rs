//! The interface, its neighbours and the routes to destinations, and how netlink messages change
//! them.
//!
//! No descriptor and no clock: `route.rs` feeds messages and the time. Two steps lead to a next
//! hop: the kernel's decision for the destination (`answers.rs`) and the neighbour's MAC address
//! (`neighbours.rs`). The MAC address is kept beside the decision and marked with the generation,
//! so that a hit is one look-up: 12 ns up to a thousand destinations. Whatever may change a result
//! moves the generation.

use super::answers::{Answer, Answers, ResolvedRoute};
use super::interface::Interface;
use super::neighbours::{Mac, Neighbours};
use super::{NextHop, RECHECK_MS, Unresolved};
use crate::netlink::message::{Message, NLMSG_DONE, NLMSG_NOOP, RTM_NEWLINK, interface_index};
use crate::netlink::objects::{self as nl, Link, Neighbour, Route};
use std::net::IpAddr;

pub(super) struct Table {
    interface: Interface,
    /// A message requires the interface and its lists to be read again.
    interface_outdated: bool,
    neighbours: Neighbours,
    answers: Answers,
    generation: u64,
    now_ms: u64,
    /// Changes of routes since the refresh began.
    route_changes: usize,
}

/// Route changes in one refresh for which the affected destinations are searched. With more,
/// forgetting all is cheaper.
const ROUTE_CHANGES_MAX: usize = 64;

impl Table {
    pub(super) fn new(interface: Interface) -> Self {
        Self {
            interface,
            interface_outdated: false,
            neighbours: Neighbours::default(),
            answers: Answers::default(),
            generation: 1,
            now_ms: 0,
            route_changes: 0,
        }
    }

    pub(super) fn begin_refresh(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.route_changes = 0;
        if self.neighbours.ask_for_confirmation_again(now_ms) {
            self.generation += 1;
        }
    }

    /// The next hop for datagrams to this address and port, if the kernel's decision for the
    /// address is known.
    #[inline]
    pub(super) fn resolve(&mut self, address: IpAddr, port: u16) -> Option<Result<NextHop, Unresolved>> {
        let Self { answers, interface, neighbours, .. } = self;
        let answer = answers.get_mut(address)?;
        answer.used = true;
        let route = match &answer.decision {
            Ok(route) => route,
            Err(reason) => return Some(Err(*reason)),
        };
        if answer.generation != self.generation || answer.confirming_port == port {
            if !interface.up {
                return Some(Err(Unresolved::LinkDown));
            }
            match neighbours.mac(route.neighbour, (address, port), self.now_ms) {
                Mac::Unknown => return Some(Err(Unresolved::NoNeighbour)),
                Mac::Unconfirmed => {
                    answer.confirming_port = port;
                    return Some(Err(Unresolved::StaleNeighbour));
                }
                Mac::Known(mac) => (answer.destination_mac, answer.generation) = (mac, self.generation),
            }
            if answer.confirming_port == port {
                answer.confirming_port = 0;
            }
        }
        Some(Ok(NextHop {
            interface_index: interface.index,
            source_mac: interface.mac,
            destination_mac: answer.destination_mac,
            source: route.source,
            mtu: route.mtu,
            hop_limit: route.hop_limit,
        }))
    }

    /// Takes the kernel's decision for an address; `None` if it refuses.
    pub(super) fn learn(&mut self, address: IpAddr, route: Option<Route>) {
        let decision = match route {
            Some(route) => decide(&self.interface, address, &route),
            None => Err(Unresolved::NoRoute),
        };
        match self.answers.get_mut(address).map(|answer| answer.decision) {
            Some(known) if known == decision => return,
            Some(_) => self.generation += 1,
            None if self.answers.is_full() => self.forget_answers(),
            None => {}
        }
        self.answers.insert(address, Answer::new(decision, self.now_ms));
    }

    /// The next address to ask for again. One that was not resolved since it was asked for is
    /// forgotten instead; the generation moves, because its next hop may have been kept outside and
    /// will not be watched any more.
    pub(super) fn next_outdated(&mut self) -> Option<IpAddr> {
        loop {
            let limit_ms = self.now_ms.checked_sub(RECHECK_MS)?;
            let (address, used) = self.answers.pop_older_than(limit_ms, self.now_ms)?;
            if used {
                return Some(address);
            }
            self.generation += 1;
        }
    }

    /// Handles one message of the kernel.
    pub(super) fn handle(&mut self, message: Message<'_>) {
        match message.kind {
            nl::RTM_NEWNEIGH | nl::RTM_DELNEIGH => self.handle_neighbour(&message),
            nl::RTM_NEWROUTE | nl::RTM_DELROUTE => self.handle_route(&message),
            RTM_NEWLINK | nl::RTM_DELLINK | nl::RTM_NEWADDR | nl::RTM_DELADDR => self.handle_link(&message),
            NLMSG_DONE | NLMSG_NOOP => {}
            // Rules, sets of next hops, whatever else the groups will carry: rare, and may change
            // any decision.
            _ => self.forget_answers(),
        }
    }

    fn handle_neighbour(&mut self, message: &Message<'_>) {
        let Some(mut neighbour) = Neighbour::parse(message.body) else { return };
        if neighbour.interface != self.interface.index {
            return;
        }
        if message.kind == nl::RTM_DELNEIGH {
            neighbour.mac = None;
        }
        if self.neighbours.update(&neighbour) {
            self.generation += 1;
        }
    }

    /// Any interface may change any decision: the kernel does not announce the IPv4 routes that go
    /// down with one.
    fn handle_link(&mut self, message: &Message<'_>) {
        // `ifinfomsg` and `ifaddrmsg` have the number at the same offset.
        if interface_index(message.body) == Some(self.interface.index) {
            self.interface_outdated = true;
        }
        self.forget_answers();
    }

    /// Forgets the decisions for destinations within the route's prefix: no table's route decides
    /// for others.
    fn handle_route(&mut self, message: &Message<'_>) {
        let route = Route::parse(message.body);
        self.route_changes += 1;
        match route.filter(|_| self.route_changes <= ROUTE_CHANGES_MAX) {
            Some(route) => self.answers.forget_within(&route),
            None => self.answers.clear(),
        }
        self.generation += 1;
    }

    /// Forgets decisions, and has the interface and its neighbours read again.
    pub(super) fn forget_everything(&mut self) {
        self.interface_outdated = true;
        self.forget_answers();
    }

    fn forget_answers(&mut self) {
        self.answers.clear();
        self.generation += 1;
    }

    pub(super) fn is_interface_outdated(&self) -> bool {
        self.interface_outdated
    }

    /// Takes what was read of the interface.
    pub(super) fn set_interface(&mut self, link: Link, addresses: Vec<IpAddr>, neighbours: Neighbours) {
        self.interface.set_link(link);
        self.interface.addresses = addresses;
        self.neighbours = neighbours;
        self.interface_outdated = false;
        self.forget_answers();
    }

    /// The interface could not be read: nothing goes through it until it can be.
    pub(super) fn interface_is_gone(&mut self) {
        self.interface.up = false;
        self.generation += 1;
    }

    pub(super) fn interface(&self) -> &Interface {
        &self.interface
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }
}

/// What a route means for frames on the interface.
fn decide(interface: &Interface, destination: IpAddr, route: &Route) -> Result<ResolvedRoute, Unresolved> {
    match route.kind {
        nl::RTN_UNICAST => {}
        nl::RTN_LOCAL | nl::RTN_ANYCAST => return Err(Unresolved::Local),
        nl::RTN_BROADCAST | nl::RTN_MULTICAST => return Err(Unresolved::Multicast),
        _ => return Err(Unresolved::NoRoute),
    }
    if route.encapsulated {
        return Err(Unresolved::Encapsulated);
    }
    if route.interface != Some(interface.index) {
        return Err(Unresolved::OtherInterface);
    }
    let source = route.preferred_source.filter(|source| source.is_ipv4() == destination.is_ipv4());
    let family = if destination.is_ipv4() { interface.ipv4 } else { interface.ipv6 };
    Ok(ResolvedRoute {
        neighbour: route.gateway.unwrap_or(destination),
        source: source.ok_or(Unresolved::NoRoute)?,
        mtu: route.mtu.map_or(family.mtu, |mtu| mtu.min(family.mtu)),
        hop_limit: route.hop_limit.unwrap_or(family.hop_limit),
    })
}

#[cfg(test)]
mod tests;
