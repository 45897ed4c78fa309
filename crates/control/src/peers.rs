//! Counts the connections of each address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections of one address, so that slow readers there do not take every slot.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 128;

/// Connections served at present, by address; an IPv6 network of 64 bits counts as one.
#[derive(Debug, Clone, Default)]
pub(super) struct PeerSlots(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl PeerSlots {
    /// A slot for `address`, or none while it has as many as it may. Dropping the slot gives it back.
    pub(super) fn take(&self, address: IpAddr) -> Option<PeerSlot> {
        let key = network(address);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key).or_default();
        if *count >= CONNECTIONS_PER_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        Some(PeerSlot { key, slots: self.clone() })
    }
}

/// One connection of an address.
#[derive(Debug)]
pub(super) struct PeerSlot {
    key: IpAddr,
    slots: PeerSlots,
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_every_slot() {
        let slots = PeerSlots::default();
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let mut taken: Vec<_> =
            (0..CONNECTIONS_PER_ADDRESS_MAX).map(|_| slots.take(ip("2001:db8::1"))).collect();
        assert!(taken.iter().all(Option::is_some));
        let cases = [
            ("2001:db8::1", false),
            ("2001:db8::ffff:1", false), // the same network
            ("2001:db8:0:1::1", true),
            ("::ffff:192.0.2.1", true),
        ];
        for (address, expected) in cases {
            assert_eq!(slots.take(ip(address)).is_some(), expected, "{address}");
        }
        taken.pop();
        assert!(slots.take(ip("2001:db8::2")).is_some(), "a slot was given back");
        taken.clear();
        assert!(slots.0.lock().expect("not poisoned").is_empty(), "nothing is kept for those who left");
    }
}
