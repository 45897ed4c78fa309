/* SSRC to pointer look-up for media servers. Made by cbindgen from src/lib.rs of the crate ssrc-map-c; do not edit.
 *
 * Link with libssrc_map_c.a (on Linux also -lpthread -ldl -lm) or with -lssrc_map_c. Running out of memory, or a bug in
 * the library, ends the process; nothing else does. What "Safety" asks for is the caller's part: what is not so is
 * undefined behaviour.
 */

#ifndef SSRC_MAP_H
#define SSRC_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 What came of a change.
 */
typedef enum {
  /*
   It was done.
   */
  SSRC_MAP_STATUS_OK = 0,
  /*
   An argument that must not be NULL was; nothing has changed.
   */
  SSRC_MAP_STATUS_NULL_ARGUMENT = 1,
  /*
   The SSRC is new and the map has as many entries as its limit allows; nothing has changed.
   */
  SSRC_MAP_STATUS_FULL = 2,
  /*
   The map does not contain the SSRC; nothing has changed.
   */
  SSRC_MAP_STATUS_NOT_FOUND = 3,
} ssrc_map_status;

/*
 Map from SSRC to pointer.

 Any number of threads may look things up at the same time; while one changes the map, no other may use it.
 */
typedef struct ssrc_map ssrc_map;

/*
 Called with an entry of a map and the caller's `context`; returns whether to continue.

 It must return: an exception or `longjmp` out of it is undefined behaviour.
 */
typedef bool (*ssrc_map_visitor)(uint32_t ssrc, void *value, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Makes an empty map for at most `limit` entries (2^30 if that is less), keyed with random numbers
 of the operating system, so that an attacker cannot choose SSRCs that make it slow. Never
 returns NULL. Costs one small allocation; memory grows with the number of streams. Free it with
 `ssrc_map_destroy`.
 */
ssrc_map *ssrc_map_create(size_t limit);

/*
 As `ssrc_map_create`, keyed with `seed`: for tests that must be repeatable. Anyone who knows the
 seed can choose SSRCs that make look-ups slow.
 */
ssrc_map *ssrc_map_create_with_seed(size_t limit, uint64_t seed);

/*
 Frees a map; what its values point to is left alone. NULL is allowed and does nothing.

 # Safety
 `map` is NULL or a map that has not been destroyed and is not used by others during or after the
 call.
 */
void ssrc_map_destroy(ssrc_map *map);

/*
 Maps `ssrc` to `value`. `*old` becomes the value that `ssrc` had before, NULL if it had none or
 when nothing has changed; `old` may be NULL.

 Returns `SSRC_MAP_STATUS_NULL_ARGUMENT` if `map` or `value` is NULL, `SSRC_MAP_STATUS_FULL` if
 `ssrc` is new and the limit is reached.

 # Safety
 `map` is NULL or a map that is not used by others meanwhile; `old` is NULL or may be written to.
 */
ssrc_map_status ssrc_map_insert(ssrc_map *map, uint32_t ssrc, void *value, void **old);

/*
 The value of `ssrc`; NULL if there is none, or if `map` is NULL. This is the function to call
 for each packet.

 # Safety
 `map` is NULL or a map that is not changed meanwhile.
 */
void *ssrc_map_get(const ssrc_map *map, uint32_t ssrc);

/*
 Removes `ssrc`. `*old` becomes its value, NULL if it had none; `old` may be NULL.

 Returns `SSRC_MAP_STATUS_NULL_ARGUMENT` if `map` is NULL, `SSRC_MAP_STATUS_NOT_FOUND` if it does
 not contain `ssrc`.

 # Safety
 `map` is NULL or a map that is not used by others meanwhile; `old` is NULL or may be written to.
 */
ssrc_map_status ssrc_map_remove(ssrc_map *map, uint32_t ssrc, void **old);

/*
 Removes all entries; what their values point to is left alone. Does nothing if `map` is NULL.

 # Safety
 `map` is NULL or a map that is not used by others meanwhile.
 */
void ssrc_map_clear(ssrc_map *map);

/*
 Calls `visitor` for each entry, in no particular order, until it returns false.

 The visitor may change the map, but not destroy it: what it removes before its turn is left out,
 and what it inserts need not come. For that the SSRCs are noted first: 4 bytes of memory for
 each, and a look-up.

 Returns `SSRC_MAP_STATUS_NULL_ARGUMENT` if `map` or `visitor` is NULL.

 # Safety
 `map` is NULL or a map that others do not change meanwhile; `visitor` may be called with
 `context`, and obeys the rules of its type.
 */
ssrc_map_status ssrc_map_for_each(ssrc_map *map, ssrc_map_visitor visitor, void *context);

/*
 Number of entries; 0 if `map` is NULL.

 # Safety
 `map` is NULL or a map that is not changed meanwhile.
 */
size_t ssrc_map_len(const ssrc_map *map);

/*
 Number of entries the map has memory for; 0 if `map` is NULL.

 # Safety
 `map` is NULL or a map that is not changed meanwhile.
 */
size_t ssrc_map_capacity(const ssrc_map *map);

/*
 Largest number of entries the map takes; 0 if `map` is NULL.

 # Safety
 `map` is NULL or a map that is not changed meanwhile.
 */
size_t ssrc_map_limit(const ssrc_map *map);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SSRC_MAP_H */
