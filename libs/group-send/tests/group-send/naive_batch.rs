//! A batch against its naive twin: random writing, taking back, dropping and flushing, and what
//! arrives compared.
#![cfg(target_os = "linux")]

use crate::common::group::{Part, bytes};
use crate::common::{Receivers, loopback, prefer};
use group_send::{BackendKind, BatchLimits, DatagramId, Envelope, SendBatch, Sender};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Recipient, room, length within it.
    Write(usize, usize, usize),
    /// Room that is never given a length.
    Abandon(usize, usize),
    /// Takes back one of those written since the last flush.
    Discard(prop::sample::Index),
    /// Drops what has this remainder of its stamp by five.
    Retain(u64),
    Flush(usize),
}

const RECIPIENTS: usize = 4;

/// What a batch is, without a slab: a list.
#[derive(Default)]
struct Naive {
    waiting: Vec<(usize, u64, Vec<u8>)>,
    arrives: Vec<Vec<Vec<u8>>>,
}

impl Naive {
    /// Recipients in the order of their first datagram, each one's datagrams in order, until the
    /// budget ends.
    fn flush(&mut self, mut budget: usize) -> usize {
        let mut firsts: Vec<usize> = Vec::new();
        for &(recipient, ..) in &self.waiting {
            if !firsts.contains(&recipient) {
                firsts.push(recipient);
            }
        }
        let place = |recipient| firsts.iter().position(|first| *first == recipient);
        let mut order: Vec<usize> = (0..self.waiting.len()).collect();
        order.sort_by_key(|&at| (place(self.waiting[at].0), at));
        let mut is_first = budget > 0;
        let fits = |&at: &usize| {
            let length = self.waiting[at].2.len();
            // The first is never too long.
            let fits = length <= budget || is_first;
            is_first = false;
            budget = if fits { budget.saturating_sub(length) } else { 0 };
            fits
        };
        let mut sent: Vec<usize> = order.into_iter().take_while(fits).collect();
        for &at in &sent {
            let (recipient, _, bytes) = &self.waiting[at];
            self.arrives[*recipient].push(bytes.clone());
        }
        sent.sort_unstable();
        for at in sent.iter().rev() {
            self.waiting.remove(*at);
        }
        sent.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_is_a_list(steps in prop::collection::vec(step(), 1..120)) {
        for kind in [BackendKind::Sendmsg, BackendKind::Gso] {
            run(kind, &steps);
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let room = prop_oneof![Just(200_usize), 0..400_usize];
    prop_oneof![
        12 => (0..RECIPIENTS, room, 0..=100_usize).prop_map(|(to, room, part)| {
            // Mostly the whole room, so that runs of equal lengths form.
            Step::Write(to, room, if part < 60 { room } else { room * (part - 60) / 40 })
        }),
        1 => (0..RECIPIENTS, 0..300_usize).prop_map(|(to, room)| Step::Abandon(to, room)),
        1 => any::<prop::sample::Index>().prop_map(Step::Discard),
        1 => (0..5_u64).prop_map(Step::Retain),
        1 => prop_oneof![Just(usize::MAX), 0..3000_usize].prop_map(Step::Flush),
    ]
}

fn run(kind: BackendKind, steps: &[Step]) {
    let socket = loopback::socket();
    let mut sender = Sender::new(&socket, &prefer(&[kind])).unwrap();
    let mut receivers = Receivers::bind(&loopback::V4, RECIPIENTS);
    let addresses = receivers.addresses();
    let mut batch = SendBatch::new(BatchLimits { bytes: 8000, datagrams: 40 });
    let mut naive = Naive { arrives: vec![Vec::new(); RECIPIENTS], ..Naive::default() };
    // Written since the last flush, and not taken back.
    let mut fresh: Vec<(DatagramId, u64)> = Vec::new();
    for (stamp, step) in steps.iter().chain([&Step::Flush(usize::MAX)]).enumerate() {
        let stamp = stamp as u64;
        match *step {
            Step::Write(to, room, length) => {
                let envelope = Envelope { stamp, ..addresses[to].into() };
                let Ok(id) = batch.reserve(envelope, room) else {
                    assert!(batch.datagrams_free() == 0 || batch.bytes_free() < room, "there was room");
                    continue;
                };
                let datagram = bytes(Part::Shared, to, stamp as usize, length);
                batch.buffer(id)[..length].copy_from_slice(&datagram);
                batch.set_len(id, length);
                naive.waiting.push((to, stamp, datagram));
                fresh.push((id, stamp));
            }
            Step::Abandon(to, room) => {
                let _ = batch.reserve(Envelope { stamp: u64::MAX, ..addresses[to].into() }, room);
            }
            Step::Discard(index) if !fresh.is_empty() => {
                let (id, stamp) = fresh.remove(index.index(fresh.len()));
                batch.discard(id);
                naive.waiting.retain(|waiting| waiting.1 != stamp);
            }
            Step::Discard(_) => {}
            Step::Retain(remainder) => {
                batch.retain(|envelope, bytes| {
                    let same = |w: &&(usize, u64, Vec<u8>)| {
                        w.1 == envelope.stamp && addresses[w.0] == envelope.destination
                    };
                    if let Some(waiting) = naive.waiting.iter().find(same) {
                        assert!(waiting.2 == bytes, "another datagram than the one written");
                    }
                    envelope.stamp % 5 != remainder
                });
                naive.waiting.retain(|waiting| waiting.1 % 5 != remainder);
                fresh.clear();
            }
            Step::Flush(budget) => {
                let progress = sender.flush(&mut batch, budget);
                assert_eq!(
                    (progress.sent, progress.failed, progress.blocked),
                    (naive.flush(budget), 0, false)
                );
                assert_eq!(batch.len(), naive.waiting.len());
                fresh.clear();
            }
        }
    }
    for (recipient, datagrams) in naive.arrives.into_iter().enumerate() {
        receivers.expect(recipient, datagrams.into_iter(), "random batches");
    }
    receivers.expect_nothing_more("random batches");
}
