//! Puts packets into order and decides how long to wait for missing ones.
