//! Tokens whose signature has been checked: a signature of RSA takes 30 us, and players show the same token
//! with every request for a part.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::Grant;

/// Tokens that are remembered.
const KNOWN_MAX: usize = 16_384;

/// What tokens allow, by the SHA-256 of each.
#[derive(Debug, Default)]
pub(crate) struct Known {
    grants: HashMap<[u8; 32], Arc<Grant>>,
    /// Changes with the keys: what was signed by keys before is not put in.
    generation: u64,
}

impl Known {
    /// The token's grant; and the generation in which one that is not known has to be checked.
    pub(crate) fn get(&self, digest: &[u8]) -> (u64, Option<Arc<Grant>>) {
        (self.generation, self.grants.get(digest).cloned())
    }

    pub(crate) fn put(&mut self, generation: u64, digest: &[u8], grant: Arc<Grant>, now: Duration) {
        let Ok(digest) = digest.try_into() else { return };
        if generation != self.generation {
            return;
        }
        if self.grants.len() >= KNOWN_MAX {
            self.grants.retain(|_, grant| grant.until() > now);
        }
        // All of them are valid: begin again rather than look for one that is not used.
        if self.grants.len() >= KNOWN_MAX {
            self.grants.clear();
        }
        self.grants.insert(digest, grant);
    }

    pub(crate) fn clear(&mut self) {
        self.grants.clear();
        self.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u32) -> [u8; 32] {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_le_bytes());
        digest
    }

    #[test]
    fn many_tokens_are_remembered_within_bounds() {
        let (mut known, now) = (Known::default(), Duration::from_secs(1_000));
        let ends = |seconds| Arc::new(Grant::ends_at(Duration::from_secs(seconds)));
        for number in 0..KNOWN_MAX as u32 {
            known.put(0, &digest(number), ends(if number % 2 == 0 { 999 } else { 2_000 }), now);
        }
        known.put(0, &digest(u32::MAX), ends(2_000), now);
        assert_eq!(known.grants.len(), KNOWN_MAX / 2 + 1, "those that have ended give their room");
        for number in 0..KNOWN_MAX as u32 {
            known.put(0, &digest(number), ends(2_000), now);
            assert!(known.grants.len() <= KNOWN_MAX);
        }
    }

    #[test]
    fn what_keys_of_before_have_signed_is_not_put_in() {
        let mut known = Known::default();
        let (generation, _) = known.get(&digest(1));
        known.clear();
        known.put(generation, &digest(1), Arc::new(Grant::ends_at(Duration::MAX)), Duration::ZERO);
        assert_eq!(known.get(&digest(1)), (generation + 1, None));
    }
}
