//! Datagrams built in place in one slab and sent all at once: made for servers that forward.
//!
//! The caller reserves space for a datagram, writes it there (for example by encrypting into it)
//! and continues; once per turn of its loop everything is passed to
//! [`Sender::flush`](crate::Sender::flush). The order in which recipients were written does not
//! matter: a flush goes recipient by recipient, each one's datagrams in the order they were
//! reserved. This file knows no sockets.

use crate::datagram::{CHUNK, Datagram, Outcome};
use crate::error::SendError;
use crate::group::Progress;
use crate::recipient_order::RecipientOrder;
use crate::recv::Ecn;
use arrayvec::ArrayVec;
use std::fmt;
use std::net::SocketAddr;

/// How much a [`SendBatch`] may hold. Memory is taken once, when the batch is made.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Bytes of all datagrams together. Default 2 MiB.
    pub bytes: usize,
    /// Number of datagrams, at most 2^20. Default 2048; each costs about 200 bytes beside its own.
    pub datagrams: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { bytes: 2 << 20, datagrams: 2048 }
    }
}

/// Where a datagram goes, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The recipient.
    pub destination: SocketAddr,
    /// An opaque value of the caller's, returned with a datagram that is still queued or failed:
    /// the time it was made, to drop it by age, or a session's number.
    pub stamp: u64,
    /// Departure time, in nanoseconds of the clock given to
    /// [`socket::enable_txtime`](crate::socket::enable_txtime); 0 for at once. Without that, and
    /// with queueing disciplines that do not know departure times, it leaves at once.
    pub departure_ns: u64,
    /// The mark it leaves with, which takes the place of those two bits of the socket's own traffic
    /// class; [`Ecn::NotEct`] leaves that as it is. Only on Linux; elsewhere it is left out.
    pub ecn: Ecn,
}

/// With stamp 0, to leave at once, and as the socket marks it.
impl From<SocketAddr> for Envelope {
    fn from(destination: SocketAddr) -> Self {
        Self { destination, stamp: 0, departure_ns: 0, ecn: Ecn::NotEct }
    }
}

/// A datagram in a [`SendBatch`]. Valid until the next flush, clear or retain; later uses panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramId {
    index: u32,
    turn: u32,
}

/// Why there is no room for a datagram in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// A limit of the batch is reached: flush, or drop something.
    Full,
    /// It never fits: longer than 65,535 bytes, or than the whole batch.
    TooLong,
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "no room for another datagram in the batch",
            Self::TooLong => "datagram longer than 65,535 bytes or than the batch",
        })
    }
}

impl std::error::Error for ReserveError {}

/// A datagram that was given up, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its destination, and the caller's stamp.
    pub envelope: Envelope,
    /// Never [`SendError::WouldBlock`].
    pub error: SendError,
}

/// Datagrams that wait for a flush.
///
/// **Reserve, write, set the length, and flush once a turn.** A reservation that never got a length
/// is not sent and is dropped by the flush. Datagrams for which the kernel had no room stay, and
/// are sent first by the next flush.
pub struct SendBatch {
    slab: Box<[u8]>,
    used: usize,
    queued: Vec<Queued>,
    datagrams_max: usize,
    failures: Vec<Failure>,
    order: RecipientOrder,
    /// Datagrams that were discarded and still occupy their room.
    discarded: usize,
    /// Counts what makes ids invalid.
    turn: u32,
}

struct Queued {
    envelope: Envelope,
    offset: u32,
    capacity: u16,
    len: u16,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reserved,
    Ready,
    /// Sent, failed or discarded.
    Done,
}

impl SendBatch {
    /// A batch within `limits`.
    ///
    /// # Panics
    /// If a limit is 0, above 4 GiB or above 2^20 datagrams.
    pub fn new(limits: BatchLimits) -> Self {
        assert!(limits.bytes > 0 && limits.bytes <= u32::MAX as usize, "bytes of a batch: 1 to 4 GiB");
        assert!(limits.datagrams > 0 && limits.datagrams <= 1 << 20, "datagrams of a batch: 1 to 2^20");
        Self {
            slab: vec![0; limits.bytes].into_boxed_slice(),
            used: 0,
            queued: Vec::with_capacity(limits.datagrams),
            datagrams_max: limits.datagrams,
            failures: Vec::with_capacity(limits.datagrams),
            order: RecipientOrder::new(limits.datagrams),
            discarded: 0,
            turn: 0,
        }
    }

    /// Takes room for a datagram of up to `len_max` bytes, which is written by
    /// [`SendBatch::buffer`] or [`SendBatch::buffers_from`] and becomes a datagram by
    /// [`SendBatch::set_len`].
    ///
    /// # Errors
    /// [`ReserveError`].
    pub fn reserve(
        &mut self,
        envelope: impl Into<Envelope>,
        len_max: usize,
    ) -> Result<DatagramId, ReserveError> {
        let capacity = u16::try_from(len_max).map_err(|_| ReserveError::TooLong)?;
        if len_max > self.slab.len() {
            return Err(ReserveError::TooLong);
        }
        if self.queued.len() == self.datagrams_max || self.slab.len() - self.used < len_max {
            return Err(ReserveError::Full);
        }
        let offset = self.used as u32;
        self.used += len_max;
        self.queued.push(Queued {
            envelope: envelope.into(),
            offset,
            capacity,
            len: 0,
            state: State::Reserved,
        });
        Ok(DatagramId { index: self.queued.len() as u32 - 1, turn: self.turn })
    }

    /// Copies a whole datagram in.
    ///
    /// # Errors
    /// [`ReserveError`].
    pub fn push(
        &mut self,
        envelope: impl Into<Envelope>,
        datagram: &[u8],
    ) -> Result<DatagramId, ReserveError> {
        let id = self.reserve(envelope, datagram.len())?;
        self.buffer(id).copy_from_slice(datagram);
        self.set_len(id, datagram.len());
        Ok(id)
    }

    /// The room of one datagram, as long as it was reserved; of the latest one, once it has a
    /// length, as long as that. What it holds before it is written is left over from earlier
    /// datagrams.
    ///
    /// # Panics
    /// If `id` is not of this batch since the last flush.
    pub fn buffer(&mut self, id: DatagramId) -> &mut [u8] {
        let queued = &self.queued[self.index(id)];
        let start = queued.offset as usize;
        &mut self.slab[start..start + queued.capacity as usize]
    }

    /// The same, to be read: of several datagrams at the same time.
    ///
    /// # Panics
    /// If `id` is not of this batch since the last flush.
    pub fn bytes(&self, id: DatagramId) -> &[u8] {
        let queued = &self.queued[self.index(id)];
        let start = queued.offset as usize;
        &self.slab[start..start + queued.capacity as usize]
    }

    /// The room of `first` and of every datagram that was reserved after it, in that order, all at
    /// the same time: for ciphers that work on many packets at once.
    ///
    /// # Panics
    /// If `first` is not of this batch since the last flush.
    pub fn buffers_from(&mut self, first: DatagramId) -> impl Iterator<Item = &mut [u8]> {
        let queued = &self.queued[self.index(first)..];
        let mut rest = &mut self.slab[queued[0].offset as usize..];
        queued.iter().map(move |queued| {
            let (buffer, after) = std::mem::take(&mut rest).split_at_mut(queued.capacity as usize);
            rest = after;
            buffer
        })
    }

    /// Makes the first `len` bytes of the room a datagram, which the next flush sends. 0 is a
    /// datagram without bytes.
    ///
    /// # Panics
    /// If `len` is more than the room, `id` is not of this batch since the last flush, or it was
    /// taken back.
    pub fn set_len(&mut self, id: DatagramId, len: usize) {
        let index = self.index(id);
        let is_last = index + 1 == self.queued.len();
        let queued = &mut self.queued[index];
        assert!(len <= queued.capacity as usize, "a datagram is not longer than its room");
        assert!(queued.state != State::Done, "this datagram was discarded");
        queued.len = len as u16;
        queued.state = State::Ready;
        // The last one gives back what it does not need, which makes room for more, and neighbours
        // in memory.
        if is_last {
            queued.capacity = queued.len;
            self.used = queued.offset as usize + len;
        }
    }

    /// Discards a datagram; it will not be sent. Its room is free again after the next flush.
    ///
    /// # Panics
    /// If `id` is not of this batch since the last flush.
    pub fn discard(&mut self, id: DatagramId) {
        let index = self.index(id);
        self.discarded += usize::from(self.queued[index].state != State::Done);
        self.queued[index].state = State::Done;
    }

    /// Drops the datagrams for which `keep` says false: those too old to be of use, after a flush
    /// that was blocked. What has no length yet or was discarded is dropped without asking.
    /// Invalidates every [`DatagramId`].
    pub fn retain(&mut self, mut keep: impl FnMut(&Envelope, &[u8]) -> bool) {
        for queued in &mut self.queued {
            let start = queued.offset as usize;
            if queued.state != State::Ready
                || !keep(&queued.envelope, &self.slab[start..start + queued.len as usize])
            {
                queued.state = State::Done;
            }
        }
        self.compact();
    }

    /// Drops everything, and forgets failures.
    pub fn clear(&mut self) {
        self.queued.clear();
        self.failures.clear();
        self.compact();
    }

    /// Number of queued datagrams, including those without a length yet.
    pub fn len(&self) -> usize {
        self.queued.len() - self.discarded
    }

    /// Whether nothing is queueds.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that can still be reserved.
    pub fn bytes_free(&self) -> usize {
        self.slab.len() - self.used
    }

    /// Datagrams that can still be reserved.
    pub fn datagrams_free(&self) -> usize {
        self.datagrams_max - self.queued.len()
    }

    /// The datagrams that the last flush gave up, one entry each.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Passes ready datagrams to `send` in recipient-major chunks until `budget_bytes` are used up
    /// or there is no more room.
    pub(crate) fn drain(
        &mut self,
        budget_bytes: usize,
        mut send: impl FnMut(&[Datagram<'_>], &mut [Outcome]),
    ) -> Progress {
        self.failures.clear();
        let Self { slab, queued, failures, order, .. } = self;
        let ready = queued.iter().enumerate().filter(|(_, q)| q.state == State::Ready);
        order.rebuild(queued.len(), ready.map(|(index, q)| (index as u32, &q.envelope.destination)));
        let mut indices = order.iter().peekable();
        let mut progress = Progress::default();
        let mut budget_left = budget_bytes;
        // The first goes even if it is longer than the budget, or it would wait for ever.
        let mut is_first = budget_bytes > 0;
        while indices.peek().is_some() && !progress.blocked {
            let mut chunk = ArrayVec::<u32, CHUNK>::new();
            while let Some(&index) = indices.peek()
                && let len = queued[index as usize].len as usize
                && (len <= budget_left || is_first)
                && chunk.try_push(index).is_ok()
            {
                is_first = false;
                budget_left = budget_left.saturating_sub(len);
                indices.next();
            }
            if chunk.is_empty() {
                break;
            }
            send_chunk(slab, queued, &chunk, failures, &mut progress, &mut send);
        }
        drop(indices);
        for queued in queued.iter_mut().filter(|queued| queued.state == State::Reserved) {
            queued.state = State::Done;
        }
        self.compact();
        progress
    }

    /// Moves what remains to the front of the slab. After a flush that sent everything there is
    /// nothing to move.
    fn compact(&mut self) {
        let (slab, mut used) = (&mut self.slab, 0);
        self.queued.retain_mut(|queued| {
            if queued.state == State::Done {
                return false;
            }
            let start = queued.offset as usize;
            slab.copy_within(start..start + queued.capacity as usize, used);
            queued.offset = used as u32;
            used += queued.capacity as usize;
            true
        });
        self.used = used;
        self.discarded = 0;
        self.turn = self.turn.wrapping_add(1);
    }

    fn index(&self, id: DatagramId) -> usize {
        assert_eq!(id.turn, self.turn, "the datagram is from before the last flush");
        id.index as usize
    }
}

impl fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBatch").field("len", &self.len()).field("bytes_free", &self.bytes_free()).finish()
    }
}

fn send_chunk(
    slab: &[u8],
    queued: &mut [Queued],
    chunk: &[u32],
    failures: &mut Vec<Failure>,
    progress: &mut Progress,
    send: &mut impl FnMut(&[Datagram<'_>], &mut [Outcome]),
) {
    // Filled in place: collecting would move the whole array.
    let mut datagrams = ArrayVec::<Datagram<'_>, CHUNK>::new();
    let mut outcomes = ArrayVec::<Outcome, CHUNK>::new();
    for &index in chunk {
        datagrams.push(queued[index as usize].datagram(slab));
        outcomes.push(Outcome::Unsent);
    }
    send(&datagrams, &mut outcomes);
    drop(datagrams);
    for (&index, outcome) in chunk.iter().zip(outcomes) {
        let queued = &mut queued[index as usize];
        match outcome {
            Outcome::Sent => progress.sent += 1,
            Outcome::Failed(error) => {
                progress.failed += 1;
                failures.push(Failure { envelope: queued.envelope, error });
            }
            Outcome::Unsent => {
                progress.blocked = true;
                continue;
            }
        }
        queued.state = State::Done;
    }
}

impl Queued {
    fn datagram<'a>(&'a self, slab: &'a [u8]) -> Datagram<'a> {
        let start = self.offset as usize;
        Datagram {
            destination: &self.envelope.destination,
            parts: [&slab[start..start + self.len as usize], &[], &[]],
            departure_ns: self.envelope.departure_ns,
            ecn: self.envelope.ecn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Takes datagrams until `room` is used up, and notes what it got.
    struct Network {
        room: usize,
        got: Vec<(u16, Vec<u8>)>,
    }

    impl Network {
        fn new(room: usize) -> Self {
            Self { room, got: Vec::new() }
        }

        fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
            for (datagram, outcome) in datagrams.iter().zip(outcomes) {
                if datagram.destination.port() == FAILING {
                    *outcome = Outcome::Failed(SendError::Unreachable);
                    continue;
                }
                if self.room == 0 {
                    return;
                }
                self.room -= 1;
                self.got.push((datagram.destination.port(), datagram.parts.concat()));
                *outcome = Outcome::Sent;
            }
        }
    }

    const FAILING: u16 = 9;

    fn to(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    fn batch(bytes: usize, datagrams: usize) -> SendBatch {
        SendBatch::new(BatchLimits { bytes, datagrams })
    }

    #[test]
    fn packet_major_order_becomes_recipient_major() {
        let mut batch = batch(1000, 10);
        for packet in 0..2 {
            for port in 1..=3 {
                batch.push(to(port), &[packet]).unwrap();
            }
        }
        let mut network = Network::new(usize::MAX);
        let progress = batch.drain(usize::MAX, |d, o| network.send(d, o));
        assert_eq!(progress, Progress { sent: 6, failed: 0, blocked: false });
        let expected =
            [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)].map(|(port, byte)| (port, vec![byte]));
        assert_eq!(network.got, expected);
        assert!(batch.is_empty() && batch.bytes_free() == 1000);
    }

    #[test]
    fn more_than_a_chunk_goes_in_one_flush() {
        let mut batch = batch(100_000, 2000);
        for index in 0..2000_u32 {
            batch.push(to(1 + (index % 7) as u16), &index.to_be_bytes()).unwrap();
        }
        let mut network = Network::new(usize::MAX);
        let progress = batch.drain(usize::MAX, |datagrams, outcomes| {
            assert!(datagrams.len() <= CHUNK && datagrams.len() == outcomes.len());
            network.send(datagrams, outcomes);
        });
        assert_eq!(progress.sent, 2000);
        assert!(network.got.is_sorted());
    }

    #[test]
    fn what_had_no_room_stays_in_order_and_can_be_dropped_by_age() {
        for room in 0..6 {
            let mut batch = batch(1000, 10);
            for stamp in 0..6 {
                batch.push(Envelope { stamp, ..to(1).into() }, &[stamp as u8; 9]).unwrap();
            }
            let mut network = Network::new(room);
            assert!(batch.drain(usize::MAX, |d, o| network.send(d, o)).blocked);
            assert_eq!(batch.len(), 6 - room);
            batch.retain(|envelope, bytes| {
                assert_eq!(bytes, [envelope.stamp as u8; 9]);
                envelope.stamp >= 3
            });
            network.room = usize::MAX;
            assert!(!batch.drain(usize::MAX, |d, o| network.send(d, o)).blocked);
            let stamps: Vec<usize> = network.got.iter().map(|(_, bytes)| bytes[0].into()).collect();
            assert_eq!(stamps, (0..6).filter(|&s| s < room || s >= 3).collect::<Vec<_>>(), "room {room}");
        }
    }

    #[test]
    fn a_budget_ends_a_flush_and_the_next_goes_on() {
        let mut batch = batch(1000, 10);
        for byte in 0..5 {
            batch.push(to(1), &[byte; 100]).unwrap();
        }
        let mut network = Network::new(usize::MAX);
        let mut sent = Vec::new();
        for budget in [0, 250, 99, 1000] {
            let progress = batch.drain(budget, |d, o| network.send(d, o));
            assert!(!progress.blocked);
            sent.push(progress.sent);
        }
        assert_eq!(sent, [0, 2, 1, 2]);
        assert!(network.got.is_sorted());
    }

    #[test]
    fn failures_are_reported_with_their_stamp_until_the_next_flush() {
        let mut batch = batch(1000, 10);
        for (stamp, port) in [(1, 1), (2, FAILING), (3, 2), (4, FAILING)] {
            batch.push(Envelope { stamp, ..to(port).into() }, b"x").unwrap();
        }
        let mut network = Network::new(usize::MAX);
        let progress = batch.drain(usize::MAX, |d, o| network.send(d, o));
        assert_eq!((progress.sent, progress.failed), (2, 2));
        assert_eq!(batch.failures().iter().map(|f| f.envelope.stamp).collect::<Vec<_>>(), [2, 4]);
        assert!(batch.failures().iter().all(|f| f.error == SendError::Unreachable));
        let _ = batch.drain(usize::MAX, |d, o| network.send(d, o));
        assert_eq!(batch.failures(), []);
    }

    #[test]
    fn reserved_and_discarded_room_is_not_sent_and_is_free_again() {
        let mut batch = batch(1000, 10);
        let unwritten = batch.reserve(to(1), 100).unwrap();
        let discarded = batch.push(to(2), b"no").unwrap();
        let empty = batch.reserve(to(3), 0).unwrap();
        batch.set_len(empty, 0);
        batch.discard(discarded);
        assert_eq!(batch.buffer(unwritten).len(), 100);
        assert_eq!((batch.bytes(unwritten).len(), batch.bytes(discarded)), (100, &b"no"[..]));
        let mut network = Network::new(usize::MAX);
        assert_eq!(batch.drain(usize::MAX, |d, o| network.send(d, o)).sent, 1);
        assert_eq!(network.got, [(3, vec![])]);
        assert_eq!((batch.len(), batch.bytes_free()), (0, 1000));
    }

    #[test]
    fn buffers_are_disjoint_and_in_order_of_reservation() {
        let mut batch = batch(1000, 10);
        batch.push(to(1), b"earlier").unwrap();
        let ids: Vec<_> = [5, 0, 7].iter().map(|&len| batch.reserve(to(1), len).unwrap()).collect();
        for (index, buffer) in batch.buffers_from(ids[0]).enumerate() {
            buffer.fill(index as u8 + 1);
        }
        ids.iter().zip([5, 0, 6]).for_each(|(&id, len)| batch.set_len(id, len));
        let mut network = Network::new(usize::MAX);
        let _ = batch.drain(usize::MAX, |d, o| network.send(d, o));
        assert_eq!(
            network.got,
            [b"earlier".to_vec(), vec![1; 5], vec![], vec![3; 6]].map(|bytes| (1, bytes))
        );
    }

    #[test]
    fn an_id_of_before_the_flush_is_not_another_datagram() {
        let uses: [fn(&mut SendBatch, DatagramId); 5] = [
            |batch, id| batch.buffer(id).fill(0),
            |batch, id| assert_eq!(batch.bytes(id), []),
            |batch, id| batch.set_len(id, 0),
            |batch, id| batch.discard(id),
            |batch, id| assert_eq!(batch.buffers_from(id).count(), 1),
        ];
        for use_id in uses {
            let mut batch = batch(100, 3);
            let old = batch.push(to(1), b"one").unwrap();
            let _ = batch.drain(usize::MAX, |d, o| Network::new(9).send(d, o));
            batch.push(to(2), b"two").unwrap();
            let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| use_id(&mut batch, old)));
            assert!(used.is_err());
            assert_eq!(batch.len(), 1);
        }
    }

    #[test]
    fn a_discarded_datagram_neither_counts_nor_comes_back() {
        let mut batch = batch(100, 3);
        let id = batch.push(to(1), b"one").unwrap();
        batch.discard(id);
        batch.discard(id);
        assert!(batch.is_empty());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| batch.set_len(id, 1))).is_err());
        batch.retain(|_, _| panic!("discarded datagrams are not offered"));
        assert_eq!((batch.len(), batch.bytes_free()), (0, 100));
    }

    #[test]
    fn limits_are_kept_and_the_last_one_gives_back_what_it_does_not_need() {
        let mut batch = batch(100, 3);
        assert_eq!(batch.reserve(to(1), 101), Err(ReserveError::TooLong));
        assert_eq!(batch.reserve(to(1), 65_536), Err(ReserveError::TooLong));
        let first = batch.reserve(to(1), 100).unwrap();
        assert_eq!(batch.reserve(to(1), 1), Err(ReserveError::Full));
        batch.set_len(first, 10);
        assert_eq!(batch.bytes_free(), 90);
        batch.push(to(1), &[0; 45]).unwrap();
        batch.push(to(1), &[0; 45]).unwrap();
        assert_eq!(batch.push(to(1), b""), Err(ReserveError::Full));
        assert_eq!(batch.datagrams_free(), 0);
        batch.clear();
        assert_eq!((batch.bytes_free(), batch.datagrams_free()), (100, 3));
    }
}
