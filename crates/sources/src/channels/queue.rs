//! A bounded queue from a thread that may wait to a task that must not block.
//!
//! Bounded by bytes, because frames differ in size by a factor of a thousand. When it is full, the
//! thread waits, so it does not read a whole file ahead. It continues when there is room for
//! several entries: waking a thread for each entry would be most of the work of a thousand
//! channels. When one end is dropped, the other learns it at once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::sync::Notify;

/// A thread that waits for room is woken when this part of the queue is free. No more, so that a
/// server that is read from does not see its client stand still for long: 256 KiB of 4 MiB are half
/// a minute of audio.
const ROOM_PART: usize = 16;

/// A queue that takes entries as long as less than `bytes_max` bytes wait in it: one entry may go
/// beyond.
pub(super) fn queue<T>(bytes_max: usize) -> (Sender<T>, Receiver<T>) {
    let state = State {
        entries: VecDeque::new(),
        bytes: 0,
        sender_waits: false,
        sender_gone: false,
        receiver_gone: false,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        bytes_max,
        has_room: Condvar::new(),
        has_entry: Notify::new(),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The receiver has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed;

/// The end of the thread.
#[derive(Debug)]
pub(super) struct Sender<T>(Arc<Shared<T>>);

/// The end of the task.
#[derive(Debug)]
pub(super) struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    bytes_max: usize,
    has_room: Condvar,
    has_entry: Notify,
}

#[derive(Debug)]
struct State<T> {
    entries: VecDeque<(T, usize)>,
    /// Sum of the entries' sizes.
    bytes: usize,
    /// For room.
    sender_waits: bool,
    sender_gone: bool,
    receiver_gone: bool,
}

impl<T> Sender<T> {
    /// Adds an entry that counts `bytes`; **blocks** while the queue is full.
    pub(super) fn push(&self, entry: T, bytes: usize) -> Result<(), Closed> {
        let mut state = self.0.lock();
        if state.bytes >= self.0.bytes_max {
            state.sender_waits = true;
            self.0.has_entry.notify_one();
        }
        while state.sender_waits && !state.receiver_gone {
            state = self.0.has_room.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        if state.receiver_gone {
            return Err(Closed);
        }
        state.bytes += bytes;
        state.entries.push_back((entry, bytes));
        drop(state);
        self.0.has_entry.notify_one();
        Ok(())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().sender_gone = true;
        self.0.has_entry.notify_one();
    }
}

impl<T> Receiver<T> {
    /// The oldest entry; `None` once the sender has gone and nothing is left. Dropping the future
    /// loses nothing.
    pub(super) async fn pop(&mut self) -> Option<T> {
        loop {
            {
                let mut state = self.0.lock();
                if let Some((entry, bytes)) = state.entries.pop_front() {
                    state.bytes -= bytes;
                    let room = self.0.bytes_max.saturating_sub(state.bytes);
                    if state.sender_waits && room > self.0.bytes_max / ROOM_PART {
                        state.sender_waits = false;
                        self.0.has_room.notify_one();
                    }
                    return Some(entry);
                }
                if state.sender_gone {
                    return None;
                }
            }
            // A notice that came since then is kept for this call.
            self.0.has_entry.notified().await;
        }
    }

    /// Waits until nothing more is coming, for want of room or because the sender has gone.
    /// Dropping the future loses nothing.
    pub(super) async fn filled(&mut self) {
        loop {
            {
                let state = self.0.lock();
                if state.sender_waits || state.bytes >= self.0.bytes_max || state.sender_gone {
                    return;
                }
            }
            self.0.has_entry.notified().await;
        }
    }

    /// Bytes that wait.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.0.lock().bytes
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.lock();
            state.receiver_gone = true;
            state.bytes = 0;
            std::mem::take(&mut state.entries)
        };
        self.0.has_room.notify_one();
        drop(left);
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing in here panics with the lock held; the state is whole in any case.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn entries_come_out_in_order_and_never_more_than_the_limit_waits() {
        let (sender, mut receiver) = queue::<u32>(100);
        let thread = std::thread::spawn(move || (0..1_000).all(|index| sender.push(index, 30).is_ok()));
        for expected in 0..1_000 {
            assert_eq!(receiver.pop().await, Some(expected));
            assert!(receiver.bytes() < 100 + 30, "{} bytes wait", receiver.bytes());
        }
        assert_eq!(receiver.pop().await, None, "the sender has gone");
        assert!(thread.join().expect("no panic"));
    }

    #[tokio::test]
    async fn an_entry_larger_than_the_limit_passes() {
        let (sender, mut receiver) = queue::<u32>(10);
        sender.push(1, 1_000).expect("an empty queue takes anything");
        assert_eq!(receiver.pop().await, Some(1));
        assert_eq!(receiver.bytes(), 0);
    }

    #[tokio::test]
    async fn a_thread_that_waits_for_room_is_woken_when_there_is_some() {
        let (sender, mut receiver) = queue::<u32>(160);
        let thread = std::thread::spawn(move || (0..20).all(|index| sender.push(index, 10).is_ok()));
        receiver.filled().await;
        while !receiver.0.lock().sender_waits {
            tokio::task::yield_now().await;
        }
        assert_eq!(receiver.pop().await, Some(0));
        assert!(receiver.0.lock().sender_waits, "for one there would be room");
        receiver.filled().await;
        assert_eq!(receiver.pop().await, Some(1));
        for expected in 2..20 {
            assert_eq!(receiver.pop().await, Some(expected));
        }
        assert!(thread.join().expect("no panic"));
    }

    #[test]
    fn a_thread_that_waits_for_room_ends_when_the_receiver_goes() {
        let (sender, receiver) = queue::<u32>(10);
        sender.push(1, 10).expect("room");
        let thread = std::thread::spawn(move || sender.push(2, 10));
        drop(receiver);
        assert_eq!(thread.join().expect("no panic"), Err(Closed));
    }

    #[tokio::test]
    async fn it_is_known_when_no_more_comes() {
        let (sender, mut receiver) = queue::<u32>(10);
        for (entry, is_full) in [(1, false), (2, true)] {
            sender.push(entry, 5).expect("room");
            tokio::select! {
                biased;
                () = receiver.filled() => assert!(is_full),
                () = tokio::task::yield_now() => assert!(!is_full),
            }
        }
        assert_eq!((receiver.pop().await, receiver.pop().await), (Some(1), Some(2)));
        drop(sender);
        receiver.filled().await;
        assert_eq!(receiver.pop().await, None);
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_loses_nothing() {
        let (sender, mut receiver) = queue::<u32>(10);
        for round in 0..100 {
            tokio::select! {
                biased;
                _ = receiver.pop() => panic!("nothing is there"),
                () = tokio::task::yield_now() => {}
            }
            sender.push(round, 1).expect("room");
            assert_eq!(receiver.pop().await, Some(round));
        }
    }
}
