//! What is kept of a stream that nobody plays, and whether its publisher can be relied on for the rest.
//!
//! Packets are kept for viewers: to be sent again, and from the newest key frame on to begin with. A
//! stream without players needs neither. But a publisher that sends key frames only when it likes would
//! keep its next player waiting, so its GOP stays. Of one that has been seen to send a key frame as soon
//! as it was asked nothing stays: it is asked when the next player's session is opened, and has
//! answered before that player is connected.
//!
//! ```text
//!  unwatched, key frame ──0.35 s──▶ request ─▶ key frame ──0.65 s──▶ request ─▶ key frame: prompt
//! ```
//! Both times it has [`PROMPT`] to answer. Key frames at a regular distance cannot look like answers twice:
//! by the first it would be at most 0.6 s, by the second more than 0.65 s.
//!
//! The GOP is let go with the first answer, before the stream has taken more memory than it may keep: what
//! thousands of publishers take when they begin at once stays with the process. If the first answer was a
//! chance, which the second trial shows, a player who comes before the next key frame waits for that.

use std::time::{Duration, Instant};

use super::feedback::KEY_FRAME_INTERVAL;

/// What of a track is kept at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retention {
    /// How long a packet stays, to be sent again or to be put in order.
    pub(crate) history: Duration,
    /// Whether packets from the newest key frame on stay as long as they may.
    pub(crate) gop: bool,
}

/// How soon an encoding's key frames come when they are asked for, as far as was tried.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Requests in a row that were answered in time.
    prompt: u8,
    is_slow: bool,
    /// An open request.
    asked_at: Option<Instant>,
    /// Age of the newest key frame at the first trial.
    first_age: Duration,
    /// When the newest key frame began.
    key_frame_at: Option<Instant>,
}

/// What a trial asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trial {
    /// A key frame is to be requested.
    Ask,
    /// The publisher did not answer: the request is off.
    GiveUp,
}

impl Answers {
    /// A key frame begins.
    pub(crate) fn key_frame(&mut self, now: Instant) {
        self.key_frame_at = Some(now);
        if let Some(asked_at) = self.asked_at.take() {
            self.is_slow |= now.saturating_duration_since(asked_at) > PROMPT;
            self.prompt = (self.prompt + 1).min(TRIALS);
        }
    }

    /// A key frame is requested for a new player: a prompt publisher has to be prompt again.
    pub(crate) fn asked(&mut self, now: Instant) {
        if self.is_prompt() {
            self.asked_at.get_or_insert(now);
        }
    }

    /// Goes on with trying how soon key frames come, of a stream nobody has played since
    /// `unwatched_since`. For each packet.
    pub(crate) fn try_out(&mut self, now: Instant, unwatched_since: Instant) -> Option<Trial> {
        if self.is_slow || self.is_prompt() {
            return None;
        }
        if let Some(asked_at) = self.asked_at {
            self.is_slow = now.saturating_duration_since(asked_at) > PROMPT;
            return self.is_slow.then_some(Trial::GiveUp);
        }
        let age = now.saturating_duration_since(self.key_frame_at?);
        let (is_first, unwatched) = (self.prompt == 0, now.saturating_duration_since(unwatched_since));
        let due = if is_first { FIRST_AGE } else { self.first_age + LATER_BY };
        if age < due || unwatched < FIRST_AGE {
            return None;
        }
        if is_first {
            self.first_age = age;
        }
        self.asked_at = Some(now);
        Some(Trial::Ask)
    }

    /// Whether key frames come at once.
    fn is_prompt(&self) -> bool {
        self.prompt == TRIALS && !self.is_slow
    }

    /// Whether key frames have come at once whenever one was asked for, if only one was.
    pub(crate) fn seem_prompt(&self) -> bool {
        self.prompt > 0 && !self.is_slow
    }
}

/// How long packets of a stream without players are kept: until one that is missing has been asked for
/// and has come, on most paths. There is nobody who could miss it if it takes longer.
pub(crate) const UNWATCHED_HISTORY: Duration = Duration::from_millis(100);
const TRIALS: u8 = 2;
/// Age of the newest key frame from which on the next is asked for, the first time, when there has been no
/// player for as long. libwebrtc ignores requests less than 300 ms after one before.
const FIRST_AGE: Duration = Duration::from_millis(350);
/// How much older it is the second time: more than [`PROMPT`].
const LATER_BY: Duration = Duration::from_millis(300);
/// A key frame that begins within this time of its request is an answer: a round trip and a frame. Less
/// than the time after which a request is repeated.
const PROMPT: Duration = Duration::from_millis(250);
const _: () = assert!(PROMPT.as_millis() < KEY_FRAME_INTERVAL.as_millis());
const _: () = assert!(PROMPT.as_millis() < LATER_BY.as_millis());

#[cfg(test)]
mod tests {
    use super::*;

    /// A publisher without players for a minute, a packet every 10 ms: a key frame every `interval`, and
    /// `delay` after each request. Whether it is prompt, and how often it was asked.
    fn tried(interval: Duration, delay: Option<Duration>) -> (bool, usize) {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let start = Instant::now();
        let (mut answers, mut requests, mut answer_at) = (Answers::default(), 0, None);
        let mut regular_at = start;
        for at in 0..6_000 {
            let now = start + Duration::from_millis(10) * at;
            if now >= regular_at || answer_at.is_some_and(|at| now >= at) {
                answer_at = None;
                // Encoders count the distance from whichever key frame was last.
                regular_at = now + interval;
                answers.key_frame(now);
            }
            if answers.try_out(now, start) == Some(Trial::Ask) {
                assert!(now >= start + FIRST_AGE);
                requests += 1;
                answer_at = delay.map(|delay| now + delay);
            }
        }
        (answers.is_prompt(), requests)
    }

    #[test]
    fn a_publisher_that_answers_twice_is_prompt_and_is_asked_no_more() {
        for delay in [0, 40, 150, 240] {
            let delay = Some(Duration::from_millis(delay));
            assert_eq!(tried(Duration::from_secs(2), delay), (true, 2), "{delay:?}");
            assert_eq!(tried(Duration::from_secs(1_000), delay), (true, 2), "{delay:?}, seldom");
        }
    }

    #[test]
    fn regular_key_frames_are_no_answers_whatever_their_distance() {
        for interval in (10..12_000).step_by(30) {
            let (is_prompt, requests) = tried(Duration::from_millis(interval), None);
            assert!(!is_prompt && requests <= 1, "every {interval} ms: {requests} requests");
        }
    }

    #[test]
    fn the_first_answer_counts_until_the_second_does_not_come() {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let start = Instant::now();
        let mut answers = Answers::default();
        answers.key_frame(start);
        assert!(!answers.seem_prompt());
        assert_eq!(answers.try_out(start + FIRST_AGE, start), Some(Trial::Ask));
        let answer = start + FIRST_AGE + PROMPT;
        answers.key_frame(answer);
        assert!(answers.seem_prompt() && !answers.is_prompt());
        let second = answer + FIRST_AGE + LATER_BY;
        assert_eq!(answers.try_out(second, start), Some(Trial::Ask));
        assert_eq!(answers.try_out(second + 2 * PROMPT, start), Some(Trial::GiveUp));
        assert!(!answers.seem_prompt());
    }

    #[test]
    fn a_late_answer_is_none_and_ends_the_trial() {
        assert_eq!(tried(Duration::from_secs(4), Some(Duration::from_millis(270))), (false, 1));
    }

    #[test]
    fn a_publisher_that_lets_a_player_wait_is_prompt_no_longer() {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let now = Instant::now();
        let mut answers = Answers::default();
        answers.asked(now);
        answers.key_frame(now);
        assert!(!answers.is_prompt(), "it has not been tried");
        answers.prompt = TRIALS;
        answers.asked(now);
        answers.key_frame(now + PROMPT);
        assert!(answers.is_prompt());
        answers.asked(now);
        answers.key_frame(now + PROMPT + Duration::from_millis(1));
        assert!(!answers.is_prompt());
    }
}
