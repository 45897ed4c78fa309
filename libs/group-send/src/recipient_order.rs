//! Recipient-major order of a batch: all datagrams of one recipient together, first come first.
//!
//! One pass with a hash table of the recipients, and one chain through each one's datagrams;
//! sorting would cost more and needs an order among addresses that has no use. The hash is keyed by
//! a secret: recipients choose their own addresses, and must not be able to make all of them
//! collide.

use crate::peer_table::{PeerKey, Secret};
use std::net::SocketAddr;

/// The order of a batch's datagrams, by index. Memory is reused from flush to flush.
pub(crate) struct RecipientOrder {
    secret: Secret,
    /// Recipients in the order of their first datagram.
    recipients: Vec<Chain>,
    /// Index of a datagram's successor, by index.
    next: Vec<u32>,
    /// Open addressing, at most half full: index of a recipient, or `NONE`.
    table: Vec<u32>,
}

struct Chain {
    destination: SocketAddr,
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

fn table_len(datagrams: usize) -> usize {
    (2 * datagrams).next_power_of_two()
}

impl RecipientOrder {
    /// For up to so many datagrams without further memory.
    pub(crate) fn new(datagrams_max: usize) -> Self {
        Self {
            secret: Secret::random(),
            recipients: Vec::with_capacity(datagrams_max),
            next: Vec::with_capacity(datagrams_max),
            table: Vec::with_capacity(table_len(datagrams_max)),
        }
    }

    /// Takes in all datagrams, `(index, destination)` with rising indices below `len`.
    pub(crate) fn rebuild<'a>(&mut self, len: usize, datagrams: impl Iterator<Item = (u32, &'a SocketAddr)>) {
        self.recipients.clear();
        self.next.clear();
        self.next.resize(len, NONE);
        self.table.clear();
        self.table.resize(table_len(len), NONE);
        let mut latest = NONE;
        for (index, destination) in datagrams {
            // Datagrams often come as frames, several for one recipient.
            if latest == NONE || self.recipients[latest as usize].destination != *destination {
                latest = self.find_or_add(index, destination);
            }
            let chain = &mut self.recipients[latest as usize];
            if chain.last != index {
                self.next[chain.last as usize] = index;
                chain.last = index;
            }
        }
    }

    /// All indices, recipient by recipient.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.recipients.iter().flat_map(|chain| {
            std::iter::successors(Some(chain.first), |&index| {
                let next = self.next[index as usize];
                (next != NONE).then_some(next)
            })
        })
    }

    fn find_or_add(&mut self, index: u32, destination: &SocketAddr) -> u32 {
        let mask = self.table.len() - 1;
        let mut slot = self.secret.hash(PeerKey::from(destination)) as usize & mask;
        while self.table[slot] != NONE {
            if self.recipients[self.table[slot] as usize].destination == *destination {
                return self.table[slot];
            }
            slot = (slot + 1) & mask;
        }
        self.table[slot] = self.recipients.len() as u32;
        self.recipients.push(Chain { destination: *destination, first: index, last: index });
        self.table[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn order_of(destinations: &[SocketAddr]) -> Vec<u32> {
        let mut order = RecipientOrder::new(8);
        order.rebuild(destinations.len(), destinations.iter().enumerate().map(|(i, d)| (i as u32, d)));
        order.iter().collect()
    }

    /// Quadratic, and plainly right.
    fn naive_order(destinations: &[SocketAddr]) -> Vec<u32> {
        let mut done = vec![false; destinations.len()];
        let mut order = Vec::new();
        for first in 0..destinations.len() {
            for index in first..destinations.len() {
                if !done[index] && destinations[index] == destinations[first] {
                    done[index] = true;
                    order.push(index as u32);
                }
            }
        }
        order
    }

    fn destination(number: u32) -> SocketAddr {
        if number.is_multiple_of(3) {
            SocketAddr::new(IpAddr::V6((u128::from(number / 6) << 70 | 1).into()), 5000 + (number % 2) as u16)
        } else {
            SocketAddr::new(IpAddr::V4((0x7f00_0000 + number / 4).into()), 5000 + (number % 4) as u16)
        }
    }

    #[test]
    fn order_is_recipient_major_and_keeps_each_recipients_order() {
        let mut state = 1_u32;
        for len in [0, 1, 2, 3, 7, 64, 500] {
            for recipients in [1, 2, 5, 100, 1000] {
                let destinations: Vec<_> = (0..len)
                    .map(|_| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        destination((state >> 8) % recipients)
                    })
                    .collect();
                assert_eq!(order_of(&destinations), naive_order(&destinations), "{len} for {recipients}");
            }
        }
    }

    #[test]
    fn a_smaller_batch_after_a_larger_one_sees_nothing_of_it() {
        let many: Vec<_> = (0..100).map(destination).collect();
        let mut order = RecipientOrder::new(8);
        order.rebuild(many.len(), many.iter().enumerate().map(|(i, d)| (i as u32, d)));
        order.rebuild(4, [(1, &many[7]), (2, &many[8]), (3, &many[7])].into_iter());
        assert_eq!(order.iter().collect::<Vec<_>>(), [1, 3, 2]);
    }

    /// Recipients choose port and the lower half of their address; one of these must not cancel the
    /// other.
    #[test]
    fn addresses_that_differ_by_what_the_port_differs_by_do_not_collide() {
        let chosen = |port: u16| {
            let low = u64::from(port) << 48 | 1;
            SocketAddr::new(IpAddr::V6((0xfd00_u128 << 112 | u128::from(low)).into()), port)
        };
        let secret = Secret::random();
        let hashes: std::collections::HashSet<u32> =
            (0..4096).map(|port| secret.hash(PeerKey::from(chosen(port)))).collect();
        // By chance two of them agree in one of 500 secrets.
        assert!(hashes.len() > 4000, "{} different hashes", hashes.len());
    }
}
