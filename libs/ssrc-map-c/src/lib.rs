//! `ssrc-map` for C and C++: `include/ssrc_map.h`, `libssrc_map_c.a` and `libssrc_map_c.so`.
//!
//! Maps SSRCs to pointers of the caller's; what they point to is never looked at, and belongs to
//! the caller. The header is made from this file by cbindgen, kept in the repository, and compared
//! by `tests/ssrc-map-c/main.rs`; programs in C and C++ are compiled and run against both
//! libraries. Look-ups are done by `ssrc-map`.
//!
//! A panic, which would be a bug in `ssrc-map`, ends the process at the boundary and never unwinds
//! into C. So does running out of memory.

use core::ffi::c_void;
use core::ptr;

use ssrc_map::{Full, InStash, SsrcMap};

/// Map from SSRC to pointer.
///
/// Any number of threads may look things up at the same time; while one changes the map, no other may use it.
pub struct Map(SsrcMap<*mut c_void>);

/// What came of a change.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It was done.
    Ok = 0,
    /// An argument that must not be NULL was; nothing has changed.
    NullArgument = 1,
    /// The SSRC is new and the map has as many entries as its limit allows; nothing has changed.
    Full = 2,
    /// The map does not contain the SSRC; nothing has changed.
    NotFound = 3,
}

/// Called with an entry of a map and the caller's `context`; returns whether to continue.
///
/// It must return: an exception or `longjmp` out of it is undefined behaviour.
pub type Visitor = Option<unsafe extern "C" fn(ssrc: u32, value: *mut c_void, context: *mut c_void) -> bool>;

/// Makes an empty map for at most `limit` entries (2^30 if that is less), keyed with random numbers
/// of the operating system, so that an attacker cannot choose SSRCs that make it slow. Never
/// returns NULL. Costs one small allocation; memory grows with the number of streams. Free it with
/// `ssrc_map_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn ssrc_map_create(limit: usize) -> *mut Map {
    Box::into_raw(Box::new(Map(SsrcMap::new(limit))))
}

/// As `ssrc_map_create`, keyed with `seed`: for tests that must be repeatable. Anyone who knows the
/// seed can choose SSRCs that make look-ups slow.
#[unsafe(no_mangle)]
pub extern "C" fn ssrc_map_create_with_seed(limit: usize, seed: u64) -> *mut Map {
    Box::into_raw(Box::new(Map(SsrcMap::with_seed(limit, seed))))
}

/// Frees a map; what its values point to is left alone. NULL is allowed and does nothing.
///
/// # Safety
/// `map` is NULL or a map that has not been destroyed and is not used by others during or after the
/// call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssrc_map_destroy(map: *mut Map) {
    if !map.is_null() {
        // SAFETY: by the contract it comes from `Box::into_raw` in one of the two functions above,
        // and only once.
        drop(unsafe { Box::from_raw(map) });
    }
}

/// Maps `ssrc` to `value`. `*old` becomes the value that `ssrc` had before, NULL if it had none or
/// when nothing has changed; `old` may be NULL.
///
/// Returns `SSRC_MAP_STATUS_NULL_ARGUMENT` if `map` or `value` is NULL, `SSRC_MAP_STATUS_FULL` if
/// `ssrc` is new and the limit is reached.
///
/// # Safety
/// `map` is NULL or a map that is not used by others meanwhile; `old` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssrc_map_insert(
    map: *mut Map,
    ssrc: u32,
    value: *mut c_void,
    old: *mut *mut c_void,
) -> Status {
    // SAFETY: the same contract as this function's.
    let map = unsafe { map.as_mut() };
    let (status, before) = match map {
        Some(map) if !value.is_null() => match map.0.insert(ssrc, value) {
            Ok(before) => (Status::Ok, before),
            Err(Full(_)) => (Status::Full, None),
        },
        _ => (Status::NullArgument, None),
    };
    // SAFETY: `old` is as the contract says.
    unsafe { write_if_wanted(old, before) };
    status
}

/// The value of `ssrc`; NULL if there is none, or if `map` is NULL. This is the function to call
/// for each packet.
///
/// # Safety
/// `map` is NULL or a map that is not changed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssrc_map_get(map: *const Map, ssrc: u32) -> *mut c_void {
    // SAFETY: the same contract as this function's.
    let Some(entries) = (unsafe { map.as_ref() }) else { return ptr::null_mut() };
    match entries.0.get_unless_in_stash(ssrc) {
        Ok(value) => value.copied().unwrap_or(ptr::null_mut()),
        Err(InStash) => get_from_stash(entries, ssrc),
    }
}

/// A function of its own, and called last: so the other look-ups write nothing to the stack.
#[cold]
#[inline(never)]
extern "C" fn get_from_stash(map: &Map, ssrc: u32) -> *mut c_void {
    map.0.get(ssrc).copied().unwrap_or(ptr::null_mut())
}

/// Removes `ssrc`. `*old` becomes its value, NULL if it had none; `old` may be NULL.
///
/// Returns `SSRC_MAP_STATUS_NULL_ARGUMENT` if `map` is NULL, `SSRC_MAP_STATUS_NOT_FOUND` if it does
/// not contain `ssrc`.
///
/// # Safety
/// `map` is NULL or a map that is not used by others meanwhile; `old` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssrc_map_remove(map: *mut Map, ssrc: u32, old: *mut *mut c_void) -> Status {
    // SAFETY: the same contract as this function's.
    let map = unsafe { map.as_mut() };
    let (status, before) = match map.map(|map| map.0.remove(ssrc)) {
        Some(Some(before)) => (Status::Ok, Some(before)),
        Some(None) => (Status::NotFound, None),
        None => (Status::NullArgument, None),
    };
    // SAFETY: `old` is as the contract says.
    unsafe { write_if_wanted(old, before) };
    status
}

/// Removes all entries; what their values point to is left alone. Does nothing if `map` is NULL.
///
/// # Safety
/// `map` is NULL or a map that is not used by others meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssrc_map_clear(map: *mut Map) {
    // SAFETY: the same contract as this function's.
    if let Some(map) = unsafe { map.as_mut() } {
        map.0.clear();
    }
}

/// Calls `visitor` for each entry, in no particular order, until it returns false.
///
/// The visitor may change the map, but not destroy it: what it removes before its turn is left out,
/// and what it inserts need not come. For that the SSRCs are noted first: 4 bytes of memory for
/// each, and a look-up.
///
/// Returns `SSRC_MAP_STATUS_NULL_ARGUMENT` if `map` or `visitor` is NULL.
///
/// # Safety
/// `map` is NULL or a map that others do not change meanwhile; `visitor` may be called with
/// `context`, and obeys the rules of its type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssrc_map_for_each(map: *mut Map, visitor: Visitor, context: *mut c_void) -> Status {
    // SAFETY: the same contract as this function's. The reference ends with this statement.
    let ssrcs = unsafe { map.as_ref() }.map(|map| map.0.iter().map(|(ssrc, _)| ssrc).collect::<Vec<u32>>());
    let (Some(ssrcs), Some(visitor)) = (ssrcs, visitor) else { return Status::NullArgument };
    for ssrc in ssrcs {
        // SAFETY: the map has not been destroyed, and no reference into it outlives the call.
        let value = unsafe { ssrc_map_get(map, ssrc) };
        // SAFETY: the caller vouches for it.
        if !value.is_null() && !unsafe { visitor(ssrc, value, context) } {
            break;
        }
    }
    Status::Ok
}

/// Number of entries; 0 if `map` is NULL.
///
/// # Safety
/// `map` is NULL or a map that is not changed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssrc_map_len(map: *const Map) -> usize {
    // SAFETY: the same contract as this function's.
    unsafe { map.as_ref() }.map_or(0, |map| map.0.len())
}

/// Number of entries the map has memory for; 0 if `map` is NULL.
///
/// # Safety
/// `map` is NULL or a map that is not changed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssrc_map_capacity(map: *const Map) -> usize {
    // SAFETY: the same contract as this function's.
    unsafe { map.as_ref() }.map_or(0, |map| map.0.capacity())
}

/// Largest number of entries the map takes; 0 if `map` is NULL.
///
/// # Safety
/// `map` is NULL or a map that is not changed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssrc_map_limit(map: *const Map) -> usize {
    // SAFETY: the same contract as this function's.
    unsafe { map.as_ref() }.map_or(0, |map| map.0.limit())
}

/// # Safety
/// `to` is NULL or may be written to.
unsafe fn write_if_wanted(to: *mut *mut c_void, value: Option<*mut c_void>) {
    if !to.is_null() {
        // SAFETY: it is not NULL, so it may be written to.
        unsafe { to.write(value.unwrap_or(ptr::null_mut())) };
    }
}

#[cfg(test)]
mod tests {
    //! The C test does this and more; here Miri can watch it.

    use super::*;

    struct Visits {
        map: *mut Map,
        ssrcs: Vec<u32>,
    }

    /// Notes the entry and removes it and the one after it.
    unsafe extern "C" fn visit(ssrc: u32, value: *mut c_void, context: *mut c_void) -> bool {
        // SAFETY: `context` is the test's `Visits`, which nothing else uses during the call.
        let visits = unsafe { &mut *context.cast::<Visits>() };
        visits.ssrcs.push(ssrc);
        let mut old = ptr::null_mut();
        // SAFETY: the map exists, and no reference to it is alive.
        assert_eq!(unsafe { ssrc_map_remove(visits.map, ssrc, &raw mut old) }, Status::Ok);
        assert_eq!(old, value);
        // SAFETY: as above.
        unsafe { ssrc_map_remove(visits.map, ssrc + 1, ptr::null_mut()) };
        true
    }

    #[test]
    fn a_visitor_may_remove_what_it_is_called_with_and_others() {
        let map = ssrc_map_create_with_seed(40, 7);
        let mut values = [0_u8; 40];
        for (ssrc, value) in (0..).zip(&mut values) {
            // SAFETY: the map exists and is used here only; NULL is allowed for `old`.
            let status = unsafe { ssrc_map_insert(map, ssrc, ptr::from_mut(value).cast(), ptr::null_mut()) };
            assert_eq!(status, Status::Ok);
        }
        let mut visits = Visits { map, ssrcs: Vec::new() };
        // SAFETY: the visitor is made for this context, which outlives the call.
        let status = unsafe { ssrc_map_for_each(map, Some(visit), ptr::from_mut(&mut visits).cast()) };
        assert_eq!(status, Status::Ok);
        // SAFETY: the map exists.
        assert_eq!(unsafe { ssrc_map_len(map) }, 0);
        assert_eq!(visits.ssrcs, (0..40).step_by(2).collect::<Vec<u32>>());
        // SAFETY: the map exists and is not used again.
        unsafe { ssrc_map_destroy(map) };
    }
}
