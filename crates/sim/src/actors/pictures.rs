//! Video of a bridge at a viewer by WebRTC: put together from its packets, and compared with what was
//! published.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use netsim::kernel;

use super::ms;
use super::rtc::Plan;
use crate::content::slice_stamp;
use crate::ledger::{Ledger, StreamKey};

/// H.264 of a bridge (RFC 6184, mode 1), put together again.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    /// Payloads by sequence number, continued beyond 16 bits.
    packets: BTreeMap<i64, Vec<u8>>,
    newest: Option<i64>,
    /// NAL units that are whole, in the order they became so.
    units: Vec<Vec<u8>>,
    seen: HashSet<(u64, u32)>,
    last: Option<(u64, u32)>,
}

impl Pictures {
    pub(super) fn packet(&mut self, sequence: u16, payload: &[u8]) {
        let newest = self.newest.unwrap_or(i64::from(sequence) + (1 << 20));
        let newest = if self.newest.is_none() { newest & !0xffff | i64::from(sequence) } else { newest };
        let at = newest + i64::from(sequence.wrapping_sub(newest as u16) as i16);
        self.newest = Some(newest.max(at));
        match payload {
            [first, ..] if first & 0x1f == 28 && payload.len() > 2 => {
                self.packets.insert(at, payload.to_vec());
                self.put_together(at);
            }
            // STAP-A: units with their lengths.
            [first, rest @ ..] if first & 0x1f == 24 => {
                let mut rest = rest;
                while let [high, low, more @ ..] = rest {
                    let len = usize::from(u16::from_be_bytes([*high, *low])).min(more.len());
                    self.units.extend((len > 0).then(|| more[..len].to_vec()));
                    rest = &more[len..];
                }
            }
            [] => {}
            payload => self.units.push(payload.to_vec()),
        }
        let old = self.packets.split_off(&(self.newest.unwrap_or(0) - 2_000));
        self.packets = old;
    }

    /// Fragments around this one that make a unit (FU-A).
    fn put_together(&mut self, at: i64) {
        let (begins, ends) = (|bytes: &[u8]| bytes[1] & 0x80 != 0, |bytes: &[u8]| bytes[1] & 0x40 != 0);
        let (mut first, mut last) = (at, at);
        while !begins(&self.packets[&first]) {
            first -= 1;
            if self.packets.get(&first).is_none_or(|before| ends(before)) {
                return;
            }
        }
        while !ends(&self.packets[&last]) {
            last += 1;
            if self.packets.get(&last).is_none_or(|behind| begins(behind)) {
                return;
            }
        }
        let head = &self.packets[&first];
        let mut unit = vec![head[0] & 0xe0 | head[1] & 0x1f];
        for sequence in first..=last {
            unit.extend(
                self.packets.remove(&sequence).into_iter().flat_map(|bytes| bytes.into_iter().skip(2)),
            );
        }
        self.units.push(unit);
    }

    /// Each picture is the publisher's, byte for byte; on a good path they begin at a key frame and are in
    /// order, none between two missing.
    pub(super) fn check(&mut self, ledger: &mut Ledger, plan: &Plan, who: &str) {
        for unit in std::mem::take(&mut self.units) {
            if !matches!(unit[0] & 0x1f, 1 | 5) {
                let is_known = matches!(unit[0] & 0x1f, 6..=9);
                ledger.check(is_known, || format!("{who}: a NAL unit of type {}", unit[0] & 0x1f));
                continue;
            }
            let stamp = slice_stamp(&unit);
            let record = stamp.and_then(|(id, number)| Some((ledger.publications.get(&id)?, number)));
            let Some((record, number)) = record else {
                ledger.violation(format!("{who}: a picture of nobody, {} bytes", unit.len()));
                continue;
            };
            let (content, sent, of, is_steady) =
                (record.content, record.sent.len(), record.key, record.is_steady && plan.is_steady);
            // Whoever asks for everything again gets some of it.
            let is_steady = is_steady && plan.storms.is_none();
            let id = content.id;
            ledger.check(of == plan.key, || format!("{who}: a picture of {of:?}"));
            ledger.check((number as usize) < sent, || format!("{who}: picture {number} of {id} too early"));
            let is_right = content.frame(number).body.get(9..) == Some(&unit[..]);
            ledger.check(is_right, || format!("{who}: picture {number} of {id} is another"));
            let is_new = self.seen.insert((id, number));
            let is_key = content.is_key(number);
            if is_steady {
                ledger.check(is_new, || format!("{who}: picture {number} of {id} twice"));
                let follows = match self.last {
                    // Packets that are lost between two workers do not come again, those of key frames
                    // neither.
                    last if ledger.loses_between_workers => last < Some((id, number)),
                    Some((last_id, last)) if last_id == id => number == last + 2 || number > last && is_key,
                    Some((last_id, _)) => is_key && id > last_id,
                    None => is_key,
                };
                let last = self.last;
                ledger.check(follows, || format!("{who}: picture {number} of {id} after {last:?}"));
            }
            self.last = self.last.max(Some((id, number)));
            ledger.packets_received += 1;
        }
    }

    pub(super) fn are_in_time(&self, ledger: &mut Ledger, key: StreamKey, who: &str, since: Option<Instant>) {
        let (now, most) = (kernel::now(), ms(2_500) + ledger.slack);
        let Some(record) = ledger.live(key).filter(|record| record.is_steady) else { return };
        let gop = ms(u64::from(record.content.gop) * 40);
        let began = record.sent.first().copied().max(since);
        if began.is_none_or(|began| now < began + gop + ms(4_000) + ledger.slack) {
            return;
        }
        let id = record.content.id;
        let old = record.sent.partition_point(|sent| *sent + most <= now);
        let has = self.last.filter(|(last, _)| *last == id).map_or(0, |(_, number)| number as usize + 2);
        let (waiting, newest, last) = (self.packets.len(), self.newest, self.last);
        ledger.check(has >= old, || {
            format!(
                "{who}: has {has} of {old} frames of {id}: {last:?}, {waiting} fragments, packets to {newest:?}"
            )
        });
    }
}
