//! Counted places, each taken by a client address: so many in all, and so many of one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A number of places; clones share them. An IPv6 network of 64 bits counts as one address.
#[derive(Debug, Clone)]
pub struct AddressSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total_max: AtomicUsize,
    per_address_max: AtomicUsize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl AddressSlots {
    /// At most `total_max` places, at most `per_address_max` of them for one address.
    pub fn new(total_max: usize, per_address_max: usize) -> Self {
        let (total_max, per_address_max) = (AtomicUsize::new(total_max), AtomicUsize::new(per_address_max));
        Self(Arc::new(Shared { total_max, per_address_max, taken: Mutex::default() }))
    }

    /// Sets other limits. Places beyond them that are taken stay taken.
    pub fn set_limits(&self, total_max: usize, per_address_max: usize) {
        self.0.total_max.store(total_max, Ordering::Relaxed);
        self.0.per_address_max.store(per_address_max, Ordering::Relaxed);
    }

    /// A place for `address`, or none while it has as many as it may, or all are taken. Dropping the slot
    /// gives it back.
    pub fn take(&self, address: IpAddr) -> Option<AddressSlot> {
        let key = network(address);
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.total >= self.0.total_max.load(Ordering::Relaxed) {
            return None;
        }
        let count = taken.by_address.get(&key).copied().unwrap_or(0);
        if count >= self.0.per_address_max.load(Ordering::Relaxed) {
            return None;
        }
        taken.by_address.insert(key, count + 1);
        taken.total += 1;
        Some(AddressSlot { key, shared: Arc::clone(&self.0) })
    }

    /// Places taken.
    pub fn taken(&self) -> usize {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner).total
    }
}

/// A place taken by one address.
#[derive(Debug)]
pub struct AddressSlot {
    key: IpAddr,
    shared: Arc<Shared>,
}

impl AddressSlot {
    /// Places its address has, this one included.
    pub fn of_same_address(&self) -> usize {
        let taken = self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.by_address.get(&self.key).copied().unwrap_or(0)
    }
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let mut taken = self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total -= 1;
        if let Some(count) = taken.by_address.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.by_address.remove(&self.key);
            }
        }
    }
}

/// An address as limits count it: of IPv6, its network of 64 bits.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn one_address_cannot_take_every_slot() {
        let slots = AddressSlots::new(1000, 128);
        let mut taken: Vec<_> = (0..128).map(|_| slots.take(ip("2001:db8::1"))).collect();
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
        let again = slots.take(ip("2001:db8::2")).expect("a slot was given back");
        assert_eq!((again.of_same_address(), slots.taken()), (128, 128));
        drop(again);
        taken.clear();
        assert_eq!(slots.taken(), 0);
        assert!(
            slots.0.taken.lock().expect("not poisoned").by_address.is_empty(),
            "nothing is kept for those who left"
        );
    }

    #[test]
    fn other_limits_end_nothing_that_is_taken() {
        let slots = AddressSlots::new(2, 2);
        let taken = (slots.take(ip("192.0.2.1")), slots.take(ip("192.0.2.1")));
        slots.set_limits(3, 1);
        assert_eq!(slots.taken(), 2);
        assert!(slots.take(ip("192.0.2.1")).is_none(), "it has more than it may");
        assert!(slots.take(ip("192.0.2.2")).is_some());
        drop(taken);
        assert!(slots.take(ip("192.0.2.1")).is_some());
    }

    #[test]
    fn refused_addresses_leave_nothing_behind() {
        let slots = AddressSlots::new(1000, 0);
        assert!((0..100).all(|last| slots.take(Ipv4Addr::new(192, 0, 2, last).into()).is_none()));
        assert!(slots.0.taken.lock().expect("not poisoned").by_address.is_empty());
    }

    #[test]
    fn all_addresses_together_have_a_limit_too() {
        let slots = AddressSlots::new(2, 2);
        let first = slots.take(ip("192.0.2.1"));
        let second = slots.take(ip("192.0.2.2"));
        assert!(first.is_some() && second.is_some() && slots.take(ip("192.0.2.3")).is_none());
        drop(first);
        assert!(slots.take(ip("192.0.2.3")).is_some());
    }
}
