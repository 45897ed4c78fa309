//! The control side: what it serves is in the modules below.
