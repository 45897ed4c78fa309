//! When each player of a stream is served: merged writes, spread evenly over the merge period.
//!
//! Players are distributed over slots; slot `i` of `n` is served at times `t` with `t = i * period
//! / n (mod period)`. So each player is served once per period with everything that arrived since,
//! no message waits longer than one period, and the work of a period is spread over it instead of
//! one burst that delays everything else.

/// Distance between two slots, milliseconds; shorter steps would wake the loop more often for fewer
/// writes each.
const SLOT_MS: u64 = 5;
/// Most slots of a schedule.
const SLOTS_MAX: u64 = 128;

/// Names a player of a [`Schedule`]; the caller chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlayerId(pub u32);

/// Names a slot of a [`Schedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotId(u32);

/// The players of one delivery log, by slot.
#[derive(Debug)]
pub struct Schedule {
    period_ms: u64,
    slots: Vec<Slot>,
    players: usize,
}

#[derive(Debug, Default)]
struct Slot {
    players: Vec<PlayerId>,
    due_ms: u64,
    /// Log position and message count up to which this slot has been served.
    served: (u64, u64),
}

impl Schedule {
    /// A schedule with this merge period; zero means a single slot that is due as soon as there is
    /// anything to send.
    pub fn new(period_ms: u64) -> Self {
        let count = (period_ms / SLOT_MS).clamp(1, SLOTS_MAX);
        Self { period_ms, slots: (0..count).map(|_| Slot::default()).collect(), players: 0 }
    }

    /// Adds a player to the emptiest slot.
    pub fn add(&mut self, player: PlayerId, now_ms: u64, served: (u64, u64)) -> SlotId {
        let emptiest =
            (0..self.slots.len()).min_by_key(|&index| self.slots[index].players.len()).unwrap_or(0);
        let due_ms = self.tick_after(emptiest, now_ms);
        let slot = &mut self.slots[emptiest];
        if slot.players.is_empty() {
            (slot.due_ms, slot.served) = (due_ms, served);
        }
        slot.players.push(player);
        self.players += 1;
        SlotId(emptiest as u32)
    }

    /// Removes a player from its slot.
    pub fn remove(&mut self, slot: SlotId, player: PlayerId) {
        let players = &mut self.slots[slot.0 as usize].players;
        if let Some(index) = players.iter().position(|&other| other == player) {
            players.swap_remove(index);
            self.players -= 1;
        }
    }

    /// The stream was silent and resumes: slots keep their phase in the period.
    pub fn resume(&mut self, now_ms: u64) {
        for index in 0..self.slots.len() {
            self.slots[index].due_ms = self.tick_after(index, now_ms);
        }
    }

    /// When a slot with something to send is due next, given the log's `(head, next message)`.
    pub fn next_due(&self, log_end: (u64, u64)) -> Option<u64> {
        self.pending(log_end).map(|index| self.slots[index].due_ms).min()
    }

    /// The next slot that is due at `now_ms`, or that holds back `messages_max` messages (0: no
    /// such limit). It counts as served from here on.
    pub fn take_due(&mut self, now_ms: u64, log_end: (u64, u64), messages_max: u64) -> Option<SlotId> {
        let full = |slot: &Slot| messages_max > 0 && log_end.1 - slot.served.1 >= messages_max;
        let index = self
            .pending(log_end)
            .find(|&index| self.slots[index].due_ms <= now_ms || full(&self.slots[index]))?;
        let due_ms = self.tick_after(index, now_ms);
        let slot = &mut self.slots[index];
        (slot.due_ms, slot.served) = (due_ms, log_end);
        Some(SlotId(index as u32))
    }

    /// Whether some slot holds back `messages_max` messages (0: no such limit).
    pub fn is_full(&self, log_end: (u64, u64), messages_max: u64) -> bool {
        let held_back = |index: usize| log_end.1 - self.slots[index].served.1;
        messages_max > 0 && self.pending(log_end).any(|index| held_back(index) >= messages_max)
    }

    /// The players of a slot.
    pub fn players(&self, slot: SlotId) -> &[PlayerId] {
        &self.slots[slot.0 as usize].players
    }

    /// All players.
    pub fn all_players(&self) -> impl Iterator<Item = PlayerId> {
        self.slots.iter().flat_map(|slot| slot.players.iter().copied())
    }

    /// Number of players.
    pub fn len(&self) -> usize {
        self.players
    }

    /// Whether there is no player.
    pub fn is_empty(&self) -> bool {
        self.players == 0
    }

    fn pending(&self, log_end: (u64, u64)) -> impl Iterator<Item = usize> {
        let waits = move |slot: &Slot| !slot.players.is_empty() && slot.served.0 < log_end.0;
        self.slots.iter().enumerate().filter(move |(_, slot)| waits(slot)).map(|(index, _)| index)
    }

    /// First tick of slot `index` after `now_ms`; with no period everything is due at once.
    fn tick_after(&self, index: usize, now_ms: u64) -> u64 {
        if self.period_ms == 0 {
            return 0;
        }
        let phase = index as u64 * self.period_ms / self.slots.len() as u64;
        let periods = (now_ms + self.period_ms - phase) / self.period_ms;
        periods * self.period_ms + phase
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(schedule: &mut Schedule, now_ms: u64, log_end: (u64, u64)) -> Vec<SlotId> {
        std::iter::from_fn(|| schedule.take_due(now_ms, log_end, 0)).collect()
    }

    #[test]
    fn every_player_is_served_once_per_period_and_the_work_is_spread() {
        let mut schedule = Schedule::new(100);
        for player in 0..200 {
            schedule.add(PlayerId(player), 0, (0, 0));
        }
        let mut served = vec![0; 200];
        let mut most_at_once = 0;
        for now in 0..1000 {
            let log_end = (now + 1, now + 1);
            let due = drain(&mut schedule, now, log_end);
            let players = due.iter().flat_map(|&slot| schedule.players(slot).to_vec());
            let before: usize = served.iter().sum();
            players.for_each(|player| served[player.0 as usize] += 1);
            most_at_once = most_at_once.max(served.iter().sum::<usize>() - before);
        }
        assert!(served.iter().all(|&count| count == 9 || count == 10), "{served:?}");
        assert_eq!(most_at_once, 10, "200 players in 20 slots");
    }

    #[test]
    fn no_message_waits_longer_than_a_period() {
        let mut schedule = Schedule::new(350);
        schedule.add(PlayerId(7), 1_000, (0, 0));
        for arrival in [1_003u64, 1_500, 4_444, 4_445, 9_999] {
            schedule.resume(arrival);
            let due = schedule.next_due((arrival, 1)).unwrap();
            assert!((arrival + 1..=arrival + 350).contains(&due), "{arrival}: {due}");
            assert_eq!(drain(&mut schedule, due, (arrival, 1)), [SlotId(0)]);
            assert_eq!(schedule.next_due((arrival, 1)), None, "nothing new: no wake-up");
        }
    }

    #[test]
    fn without_a_period_everything_is_due_at_once() {
        let mut schedule = Schedule::new(0);
        schedule.add(PlayerId(1), 50, (0, 0));
        assert_eq!(drain(&mut schedule, 50, (10, 1)), [SlotId(0)]);
        assert_eq!(drain(&mut schedule, 50, (10, 1)), [] as [SlotId; 0]);
        assert_eq!(drain(&mut schedule, 50, (20, 2)), [SlotId(0)]);
    }

    #[test]
    fn a_count_of_messages_ends_the_wait() {
        let mut schedule = Schedule::new(1000);
        schedule.add(PlayerId(1), 0, (0, 0));
        assert_eq!(schedule.take_due(1, (700, 7), 8), None);
        assert_eq!(schedule.take_due(1, (800, 8), 8), Some(SlotId(0)));
        assert_eq!(schedule.take_due(2, (900, 9), 8), None);
    }

    #[test]
    fn removed_players_are_not_served() {
        let mut schedule = Schedule::new(0);
        let slot = schedule.add(PlayerId(1), 0, (0, 0));
        schedule.add(PlayerId(2), 0, (0, 0));
        schedule.remove(slot, PlayerId(1));
        schedule.remove(slot, PlayerId(1));
        assert_eq!((schedule.players(SlotId(0)), schedule.len()), (&[PlayerId(2)][..], 1));
    }
}
