//! The peer table gives the answers of a `HashMap` keyed by addresses, whatever is done to it in
//! whatever order.

use group_send::peer_table::{Full, PeerKey, PeerTable};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// The naive twin: what the table must do, in the words of the standard library.
struct Twin {
    map: HashMap<SocketAddr, u32>,
    limit: usize,
}

impl Twin {
    /// An IPv4-mapped address is the IPv4 address; the flow label does not count.
    fn canonical(mut address: SocketAddr) -> SocketAddr {
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_flowinfo(0);
        }
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
            IpAddr::V6(_) => address,
        }
    }

    fn insert(&mut self, address: SocketAddr, value: u32) -> Result<Option<u32>, Full<u32>> {
        let address = Self::canonical(address);
        if !self.map.contains_key(&address) && self.map.len() == self.limit {
            return Err(Full(value));
        }
        Ok(self.map.insert(address, value))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(SocketAddr, u32),
    Remove(SocketAddr),
    Change(SocketAddr),
    Clear,
}

/// Few enough addresses that the same ones come again: both families, mapped ones, links, flow
/// labels.
fn address() -> impl Strategy<Value = SocketAddr> {
    prop_oneof![
        (0..40_u32, 0..4_u16).prop_map(|(ip, port)| format!("10.0.0.{ip}:{port}")),
        (0..40_u32, 0..4_u16).prop_map(|(ip, port)| format!("[::ffff:10.0.0.{ip}]:{port}")),
        (0..9_u32, 0..4_u16).prop_map(|(ip, port)| format!("[::10.0.0.{ip}]:{port}")),
        (0..9_u32, 0..3_u32, 0..4_u16).prop_map(|(ip, link, port)| format!("[fe80::{ip:x}%{link}]:{port}")),
        (any::<u128>(), any::<u16>())
            .prop_map(|(ip, port)| SocketAddr::new(IpAddr::V6(ip.into()), port).to_string()),
    ]
    .prop_map(|text| text.parse().unwrap())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (address(), any::<u32>()).prop_map(|(address, value)| Step::Insert(address, value)),
        20 => address().prop_map(Step::Remove),
        10 => address().prop_map(Step::Change),
        1 => Just(Step::Clear),
    ]
}

/// Applies one step to both and compares the results.
fn take(step: Step, table: &mut PeerTable<u32>, twin: &mut Twin) -> Result<(), TestCaseError> {
    match step {
        Step::Insert(address, value) => {
            prop_assert_eq!(table.insert(address.into(), value), twin.insert(address, value));
        }
        Step::Remove(address) => {
            prop_assert_eq!(table.remove(address.into()), twin.map.remove(&Twin::canonical(address)));
        }
        Step::Change(address) => {
            let one = table.get_mut(address.into());
            let other = twin.map.get_mut(&Twin::canonical(address));
            prop_assert_eq!(&one, &other);
            for value in one.into_iter().chain(other) {
                *value = value.wrapping_add(1);
            }
        }
        Step::Clear => {
            table.clear();
            twin.map.clear();
        }
    }
    prop_assert_eq!((table.len(), table.is_empty()), (twin.map.len(), twin.map.is_empty()));
    prop_assert!(table.displaced() <= table.len());
    Ok(())
}

/// Every entry of either is in the other.
fn compare(table: &PeerTable<u32>, twin: &Twin) -> Result<(), TestCaseError> {
    let entries: HashMap<SocketAddr, u32> =
        table.iter().map(|(key, &value)| (SocketAddr::from(key), value)).collect();
    prop_assert_eq!(&entries, &twin.map);
    prop_assert_eq!(table.iter().count(), twin.map.len());
    for (&address, value) in &twin.map {
        prop_assert_eq!(table.get(address.into()), Some(value));
        let mut elsewhere = address;
        elsewhere.set_port(address.port() ^ 0x8000);
        prop_assert_eq!(table.get(elsewhere.into()), twin.map.get(&elsewhere));
    }
    Ok(())
}

proptest! {
    #[test]
    fn table_does_what_its_twin_does(seed: u64, limit in 0..400_usize, steps in vec(step(), 0..600)) {
        let mut table = PeerTable::with_seed(limit, seed);
        let mut twin = Twin { map: HashMap::new(), limit };
        prop_assert_eq!(table.limit(), limit);
        for step in steps {
            take(step, &mut table, &mut twin)?;
        }
        compare(&table, &twin)?;
    }

    #[test]
    fn keys_are_equal_exactly_if_the_peers_are(one in address(), other in address()) {
        let (key, other_key) = (PeerKey::from(one), PeerKey::from(other));
        prop_assert_eq!(key == other_key, Twin::canonical(one) == Twin::canonical(other));
        prop_assert_eq!(SocketAddr::from(key), Twin::canonical(one));
    }
}

#[test]
fn every_peer_is_found_at_every_size() {
    let address = |i: u32| -> SocketAddr {
        let text = if i.is_multiple_of(3) {
            format!("[2001:db8::{i:x}]:5004")
        } else {
            format!("10.0.{}.{}:5004", i >> 8, i & 255)
        };
        text.parse().unwrap()
    };
    let mut table = PeerTable::new(3000);
    for len in 0..3000 {
        assert_eq!(table.insert(address(len).into(), len), Ok(None));
        // All of them at each power of two and one more or less, which is where the table grows.
        if (len + 2).is_power_of_two() || (len + 1).is_power_of_two() || len.is_power_of_two() {
            for i in 0..=len {
                assert_eq!(table.get(address(i).into()), Some(&i), "{i} of {len}");
            }
        }
    }
    assert_eq!(table.insert(address(3000).into(), 3000), Err(Full(3000)));
    assert_eq!(table.insert(address(77).into(), 0), Ok(Some(77)), "a full table still changes values");
    assert_eq!(table.remove(address(0).into()), Some(0));
    assert_eq!(table.insert(address(3000).into(), 3000), Ok(None), "room again");
}

#[test]
fn values_need_not_be_copies_and_are_dropped_once() {
    let value = std::sync::Arc::new(());
    let mut table = PeerTable::new(100);
    for port in 0..100 {
        let key = PeerKey::from(SocketAddr::from(([192, 0, 2, 1], port)));
        assert!(table.insert(key, value.clone()).is_ok());
    }
    assert_eq!(std::sync::Arc::strong_count(&value), 101);
    drop(table.remove(PeerKey::from(SocketAddr::from(([192, 0, 2, 1], 9)))));
    assert_eq!(std::sync::Arc::strong_count(&value), 100);
    table.clear();
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
}
