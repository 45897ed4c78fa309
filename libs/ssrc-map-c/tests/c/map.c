/* What a C program sees of ssrc_map.h. Ends with status 0 if all of it is as the header says. */

#include "ssrc_map.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

struct stream {
    uint32_t ssrc;
    unsigned visits;
};

static void entries_come_and_go(void)
{
    struct stream audio = {0x1234abcd, 0}, video = {0, 0}, other = {0x1234abcd, 0};
    void *old = &other;
    ssrc_map *map = ssrc_map_create(2);

    CHECK(map != NULL);
    CHECK(ssrc_map_len(map) == 0 && ssrc_map_limit(map) == 2);
    CHECK(ssrc_map_get(map, audio.ssrc) == NULL);
    CHECK(ssrc_map_insert(map, audio.ssrc, &audio, &old) == SSRC_MAP_STATUS_OK && old == NULL);
    CHECK(ssrc_map_insert(map, video.ssrc, &video, NULL) == SSRC_MAP_STATUS_OK);
    CHECK(ssrc_map_len(map) == 2 && ssrc_map_capacity(map) >= 2);
    CHECK(ssrc_map_get(map, audio.ssrc) == &audio && ssrc_map_get(map, video.ssrc) == &video);

    /* Full: a third SSRC is refused, one that is there gets its new value. */
    old = &other;
    CHECK(ssrc_map_insert(map, 77, &other, &old) == SSRC_MAP_STATUS_FULL && old == NULL);
    CHECK(ssrc_map_get(map, 77) == NULL);
    CHECK(ssrc_map_insert(map, audio.ssrc, &other, &old) == SSRC_MAP_STATUS_OK && old == &audio);
    CHECK(ssrc_map_get(map, audio.ssrc) == &other);

    CHECK(ssrc_map_remove(map, audio.ssrc, &old) == SSRC_MAP_STATUS_OK && old == &other);
    CHECK(ssrc_map_remove(map, audio.ssrc, &old) == SSRC_MAP_STATUS_NOT_FOUND && old == NULL);
    CHECK(ssrc_map_remove(map, video.ssrc, NULL) == SSRC_MAP_STATUS_OK);
    CHECK(ssrc_map_len(map) == 0);

    CHECK(ssrc_map_insert(map, 77, &other, NULL) == SSRC_MAP_STATUS_OK);
    ssrc_map_clear(map);
    CHECK(ssrc_map_len(map) == 0 && ssrc_map_get(map, 77) == NULL);
    ssrc_map_destroy(map);
}

static void null_is_refused_or_harmless(void)
{
    int value = 0;
    void *old = &value;
    ssrc_map *map = ssrc_map_create_with_seed(1, 42);

    CHECK(ssrc_map_insert(NULL, 1, &value, &old) == SSRC_MAP_STATUS_NULL_ARGUMENT && old == NULL);
    CHECK(ssrc_map_insert(map, 1, NULL, NULL) == SSRC_MAP_STATUS_NULL_ARGUMENT);
    CHECK(ssrc_map_remove(NULL, 1, NULL) == SSRC_MAP_STATUS_NULL_ARGUMENT);
    CHECK(ssrc_map_for_each(NULL, NULL, NULL) == SSRC_MAP_STATUS_NULL_ARGUMENT);
    CHECK(ssrc_map_for_each(map, NULL, NULL) == SSRC_MAP_STATUS_NULL_ARGUMENT);
    CHECK(ssrc_map_get(NULL, 1) == NULL);
    CHECK(ssrc_map_len(NULL) == 0 && ssrc_map_capacity(NULL) == 0 && ssrc_map_limit(NULL) == 0);
    CHECK(ssrc_map_len(map) == 0);
    ssrc_map_clear(NULL);
    ssrc_map_destroy(NULL);
    ssrc_map_destroy(map);
}

enum { STREAMS = 1000 };

static bool count(uint32_t ssrc, void *value, void *context)
{
    struct stream *stream = value;

    CHECK(stream->ssrc == ssrc);
    stream->visits++;
    ++*(unsigned *)context;
    return true;
}

static bool stop_at_third(uint32_t ssrc, void *value, void *context)
{
    (void)ssrc;
    (void)value;
    return ++*(unsigned *)context < 3;
}

/* Removes what it is called with, as one does to free all streams. */
static bool remove_visited(uint32_t ssrc, void *value, void *context)
{
    void *old = NULL;

    CHECK(ssrc_map_remove(context, ssrc, &old) == SSRC_MAP_STATUS_OK && old == value);
    return true;
}

static void many_streams_are_found_and_visited_once(void)
{
    static struct stream streams[STREAMS];
    unsigned visits = 0, i;
    ssrc_map *map = ssrc_map_create(STREAMS);

    for (i = 0; i < STREAMS; i++) {
        streams[i].ssrc = i * 2654435761u; /* odd factor: all differ */
        CHECK(ssrc_map_insert(map, streams[i].ssrc, &streams[i], NULL) == SSRC_MAP_STATUS_OK);
    }
    for (i = 0; i < STREAMS; i++) {
        CHECK(ssrc_map_get(map, streams[i].ssrc) == &streams[i]);
    }
    CHECK(ssrc_map_for_each(map, count, &visits) == SSRC_MAP_STATUS_OK && visits == STREAMS);
    for (i = 0; i < STREAMS; i++) {
        CHECK(streams[i].visits == 1);
    }
    visits = 0;
    CHECK(ssrc_map_for_each(map, stop_at_third, &visits) == SSRC_MAP_STATUS_OK && visits == 3);
    CHECK(ssrc_map_for_each(map, remove_visited, map) == SSRC_MAP_STATUS_OK && ssrc_map_len(map) == 0);
    ssrc_map_destroy(map);
}

int main(void)
{
    entries_come_and_go();
    null_is_refused_or_harmless();
    many_streams_are_found_and_visited_once();
    return 0;
}
