//! What will be read next, learned from what has been read: a repeating pattern of runs and gaps.
