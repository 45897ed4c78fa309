//! Bounded rings between two threads, of which the simulation has one: what `rtrb` promises, and no more.
//!
//! Whoever pushes may learn late that the other side has popped: then a ring is full at one look and has
//! room at the next, as if the other thread had run in between
//! ([`Faults::late_room`](crate::kernel::Faults::late_room)).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::kernel;

/// A ring, and how many were popped of which its producer does not know.
#[derive(Debug)]
struct Shared<T> {
    items: VecDeque<T>,
    popped: usize,
}

/// The end that pushes.
#[derive(Debug)]
pub struct Producer<T> {
    shared: Arc<Mutex<Shared<T>>>,
    buffer: RingBuffer,
}

/// The end that pops.
#[derive(Debug)]
pub struct Consumer<T>(Arc<Mutex<Shared<T>>>);

/// What a ring was made with.
#[derive(Debug, Clone, Copy)]
pub struct RingBuffer {
    capacity: usize,
}

/// Why nothing was pushed.
#[derive(Debug, PartialEq, Eq)]
pub enum PushError<T> {
    /// There is no room for this.
    Full(T),
}

impl RingBuffer {
    /// A ring for so many.
    #[expect(clippy::new_ret_no_self, reason = "as that of rtrb")]
    pub fn new<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let shared = Arc::new(Mutex::new(Shared { items: VecDeque::new(), popped: 0 }));
        (Producer { shared: Arc::clone(&shared), buffer: Self { capacity } }, Consumer(shared))
    }

    /// How many have room.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<T> Producer<T> {
    /// Pushes one.
    ///
    /// # Errors
    /// With what is given if there is no room, as far as this side knows.
    pub fn push(&mut self, item: T) -> Result<(), PushError<T>> {
        let mut shared = lock(&self.shared);
        if shared.items.len() + shared.popped >= self.buffer.capacity {
            if shared.popped == 0 || kernel::learns_late() {
                return Err(PushError::Full(item));
            }
            shared.popped = 0;
        }
        shared.items.push_back(item);
        Ok(())
    }

    /// How many there is room for.
    pub fn slots(&self) -> usize {
        let mut shared = lock(&self.shared);
        shared.popped = 0;
        self.buffer.capacity - shared.items.len()
    }

    /// What it was made with.
    pub fn buffer(&self) -> &RingBuffer {
        &self.buffer
    }
}

impl<T> Consumer<T> {
    /// The one that was pushed first.
    ///
    /// # Errors
    /// If there is none.
    pub fn pop(&mut self) -> Result<T, Empty> {
        let mut shared = lock(&self.0);
        let item = shared.items.pop_front().ok_or(Empty)?;
        shared.popped += 1;
        Ok(item)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        lock(&self.0).items.is_empty()
    }
}

/// There is nothing in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Empty;

fn lock<T>(shared: &Mutex<Shared<T>>) -> MutexGuard<'_, Shared<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Faults, Path, begin};

    #[test]
    fn room_may_be_known_late_and_is_in_the_end() {
        begin(1, Path::default(), Faults::default());
        let (mut producer, mut consumer) = RingBuffer::new(2);
        assert_eq!((producer.push(1), producer.push(2)), (Ok(()), Ok(())));
        assert_eq!(producer.push(3), Err(PushError::Full(3)));
        assert_eq!((consumer.pop(), producer.slots()), (Ok(1), 1));
        assert_eq!(producer.push(3), Ok(()));
        assert_eq!([consumer.pop(), consumer.pop(), consumer.pop()], [Ok(2), Ok(3), Err(Empty)]);
        kernel::set_faults(Faults { late_room: 0.5, ..Faults::default() });
        let mut late = 0;
        for number in 0..100 {
            while producer.push(number).is_err() {
                late += 1;
            }
            assert_eq!(consumer.pop(), Ok(number));
        }
        assert!(late > 0);
    }
}
