//! A mirror of the kernel's table of neighbours on one interface.
//!
//! The kernel resolves addresses (ARP, RFC 826; neighbour discovery, RFC 4861), but only for
//! packets of its own. An entry that was not confirmed for some time is stale: its MAC address is
//! still valid, but packets have to use the socket, which makes the kernel check it (RFC 4861
//! section 7.3). Without that, frames would be sent to a neighbour that has left forever. The
//! packets of one destination are enough: the first that asks stays with the socket until the
//! kernel knows more, within about 5 s. A single packet would not be enough, because the caller may
//! not be able to send it now.

use super::answers::{Seed, key};
use crate::netlink::objects::{self as nl, Neighbour};
use crate::netlink::request::Request;
use crate::netlink::socket::NetlinkSocket;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

/// Neighbours remembered, at most; the kernel's own limit is 1024 unless raised. Others count as
/// unknown.
pub(super) const NEIGHBOURS_MAX: usize = 65_536;

/// A neighbour that is stale for so long after a destination was chosen gets another one: the first
/// may have nothing more to send. The kernel takes 5 s to begin asking.
const CONFIRM_AGAIN_MS: u64 = 10_000;

#[derive(Default)]
pub(super) struct Neighbours {
    by_address: HashMap<u128, Entry, Seed>,
    /// When some stale neighbour is to be confirmed again; none before.
    confirm_again_ms: Option<u64>,
}

#[derive(Clone, Copy)]
struct Entry {
    mac: [u8; 6],
    confirmation: Confirmation,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    /// Confirmed, or being confirmed.
    Fresh,
    /// Stale: the next destination resolved must make the kernel check it.
    Wanted,
    /// Stale, and this destination's packets make the kernel check.
    By { destination: (IpAddr, u16), since_ms: u64 },
}

/// What is known of a neighbour's MAC address.
pub(super) enum Mac {
    Unknown,
    /// Known, and to be confirmed by this destination's packets through the socket.
    Unconfirmed,
    Known([u8; 6]),
}

impl Neighbours {
    /// The MAC address of a neighbour, for packets to `destination`, an address and a port.
    pub(super) fn mac(&mut self, neighbour: IpAddr, destination: (IpAddr, u16), now_ms: u64) -> Mac {
        let Some(entry) = self.by_address.get_mut(&key(neighbour)) else { return Mac::Unknown };
        if entry.confirmation == Confirmation::Wanted {
            entry.confirmation = Confirmation::By { destination, since_ms: now_ms };
            let again_ms = now_ms + CONFIRM_AGAIN_MS;
            self.confirm_again_ms = Some(self.confirm_again_ms.map_or(again_ms, |ms| ms.min(again_ms)));
        }
        match entry.confirmation {
            Confirmation::By { destination: by, .. } if by == destination => Mac::Unconfirmed,
            _ => Mac::Known(entry.mac),
        }
    }

    /// Takes the kernel's word for a neighbour, and returns whether an answer given before may be
    /// wrong now.
    pub(super) fn update(&mut self, neighbour: &Neighbour) -> bool {
        let key = key(neighbour.address);
        let known = self.by_address.get(&key).copied();
        let Some(mac) = usable_mac(neighbour) else { return self.by_address.remove(&key).is_some() };
        let confirmation = match known {
            _ if neighbour.state & nl::NUD_STALE == 0 => Confirmation::Fresh,
            Some(known) if known.mac == mac && known.confirmation != Confirmation::Fresh => {
                known.confirmation
            }
            _ => Confirmation::Wanted,
        };
        if known.is_some() || self.by_address.len() < NEIGHBOURS_MAX {
            self.by_address.insert(key, Entry { mac, confirmation });
        }
        let wanted = |entry: &Entry| entry.confirmation == Confirmation::Wanted;
        known.is_some_and(|known| {
            known.mac != mac || (confirmation == Confirmation::Wanted && !wanted(&known))
        })
    }

    /// Has neighbours confirmed again that stayed stale, and returns whether there is one.
    pub(super) fn ask_for_confirmation_again(&mut self, now_ms: u64) -> bool {
        if self.confirm_again_ms.is_none_or(|ms| now_ms < ms) {
            return false;
        }
        let (mut any, mut next_ms) = (false, None::<u64>);
        for entry in self.by_address.values_mut() {
            let Confirmation::By { since_ms, .. } = entry.confirmation else { continue };
            let again_ms = since_ms + CONFIRM_AGAIN_MS;
            if again_ms <= now_ms {
                entry.confirmation = Confirmation::Wanted;
                any = true;
            } else {
                next_ms = Some(next_ms.map_or(again_ms, |ms| ms.min(again_ms)));
            }
        }
        self.confirm_again_ms = next_ms;
        any
    }
}

/// The MAC address, if frames may be sent to it in the neighbour's state.
fn usable_mac(neighbour: &Neighbour) -> Option<[u8; 6]> {
    const USABLE: u16 =
        nl::NUD_REACHABLE | nl::NUD_STALE | nl::NUD_DELAY | nl::NUD_PROBE | nl::NUD_NOARP | nl::NUD_PERMANENT;
    let is_of_one_station = |mac: &[u8; 6]| mac[0] & 1 == 0 && *mac != [0; 6];
    neighbour.mac.filter(is_of_one_station).filter(|_| neighbour.state & USABLE != 0)
}

/// Reads the kernel's table.
pub(super) fn ask(
    socket: &mut NetlinkSocket,
    request: &mut Request,
    interface: u32,
) -> io::Result<Neighbours> {
    let mut neighbours = Neighbours::default();
    socket.all(request.all(nl::RTM_GETNEIGH, &[0; nl::NEIGHBOUR_FIXED]), |message| {
        let Some(message) = message else { return neighbours = Neighbours::default() };
        let neighbour = Neighbour::parse(message.body).filter(|_| message.kind == nl::RTM_NEWNEIGH);
        if let Some(neighbour) = neighbour.filter(|n| n.interface == interface) {
            neighbours.update(&neighbour);
        }
    })?;
    Ok(neighbours)
}
