//! The table of next hops without a kernel, for the fuzz target `netlink` and its replay.

use super::interface::Interface;
use super::neighbours::Neighbours;
use super::table::Table;
use super::{NextHop, Unresolved};
use crate::netlink::message::Messages;
use crate::netlink::objects::{Link, RTM_NEWROUTE, Route};
use std::net::IpAddr;

/// A table of next hops that is fed by hand.
pub struct KnownHops(Table);

impl KnownHops {
    /// A table of an interface with number 2 and MTU 1500 that is up, without neighbours.
    pub fn new() -> Self {
        let mac = Some([2, 0, 0, 0, 0, 1]);
        let link = Link { index: 2, hardware: 1, flags: 0x41, mac, mtu: 1500, ..Link::default() };
        let mut table = Table::new(Interface::new("test", link).expect("an Ethernet interface"));
        table.set_interface(link, Vec::new(), Neighbours::default());
        Self(table)
    }

    /// Takes a datagram of changes, at a time that does not go back.
    pub fn handle(&mut self, datagram: &[u8], now_ms: u64) {
        self.0.begin_refresh(now_ms);
        Messages(datagram).for_each(|message| self.0.handle(message));
    }

    /// Takes the first route of a datagram as the kernel's answer for an address. False if there is
    /// none.
    pub fn learn(&mut self, address: IpAddr, datagram: &[u8]) -> bool {
        let mut routes = Messages(datagram).filter(|message| message.kind == RTM_NEWROUTE);
        let Some(route) = routes.find_map(|message| Route::parse(message.body)) else { return false };
        self.0.learn(address, Some(route));
        true
    }

    /// The answer for datagrams to an address and port, if one was learnt for the address.
    pub fn resolve(&mut self, address: IpAddr, port: u16) -> Option<Result<NextHop, Unresolved>> {
        self.0.resolve(address, port)
    }

    /// Forgets or names answers that are due to be asked for again.
    pub fn next_outdated(&mut self) -> Option<IpAddr> {
        self.0.next_outdated()
    }

    /// See [`NextHops::generation`](super::NextHops::generation).
    pub fn generation(&self) -> u64 {
        self.0.generation()
    }
}

impl Default for KnownHops {
    fn default() -> Self {
        Self::new()
    }
}
