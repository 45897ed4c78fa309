/* The streams of a libsrtp 2.5 context in an ssrc_map: compile it with libsrtp, and libsrtp with SRTP_NO_STREAM_LIST,
 * which leaves its own list out. scripts/bench ssrc-map-libsrtp does that, and runs libsrtp's tests on it.
 *
 * libsrtp does not look whether an SSRC is there before it adds a stream, and of several finds the newest. So does this:
 * older ones hang behind it by `next`, which libsrtp leaves to the list. */

#include "srtp_priv.h"
#include "stream_list_priv.h"

#include "ssrc_map.h"

#ifndef SSRC_MAP_STREAMS_MAX
#define SSRC_MAP_STREAMS_MAX (1 << 20) /* libsrtp has no limit */
#endif

/* A list is the map itself: one address less to read for each packet. */
static ssrc_map *map_of(srtp_stream_list_t list)
{
    return (ssrc_map *)list;
}

srtp_err_status_t srtp_stream_list_alloc(srtp_stream_list_t *list_ptr)
{
    *list_ptr = (srtp_stream_list_t)ssrc_map_create(SSRC_MAP_STREAMS_MAX);
    return srtp_err_status_ok;
}

srtp_err_status_t srtp_stream_list_dealloc(srtp_stream_list_t list)
{
    if (ssrc_map_len(map_of(list)) != 0) {
        return srtp_err_status_fail;
    }
    ssrc_map_destroy(map_of(list));
    return srtp_err_status_ok;
}

srtp_err_status_t srtp_stream_list_insert(srtp_stream_list_t list, srtp_stream_t stream)
{
    void *older = NULL;

    if (ssrc_map_insert(map_of(list), stream->ssrc, stream, &older) != SSRC_MAP_STATUS_OK) {
        return srtp_err_status_alloc_fail;
    }
    stream->next = older;
    return srtp_err_status_ok;
}

srtp_stream_t srtp_stream_list_get(srtp_stream_list_t list, uint32_t ssrc)
{
    return ssrc_map_get(map_of(list), ssrc);
}

void srtp_stream_list_remove(srtp_stream_list_t list, srtp_stream_t stream)
{
    srtp_stream_t newest = ssrc_map_get(map_of(list), stream->ssrc);

    if (newest != stream) {
        while (newest->next != stream) {
            newest = newest->next;
        }
        newest->next = stream->next;
    } else if (stream->next != NULL) {
        ssrc_map_insert(map_of(list), stream->ssrc, stream->next, NULL); /* in its place: needs no memory */
    } else {
        ssrc_map_remove(map_of(list), stream->ssrc, NULL);
    }
}

struct visit {
    int (*callback)(srtp_stream_t, void *);
    void *data;
};

static bool visit_streams(uint32_t ssrc, void *newest, void *context)
{
    struct visit *visit = context;
    srtp_stream_t stream = newest;

    (void)ssrc;
    while (stream != NULL) {
        srtp_stream_t next = stream->next; /* the callback may free the stream */

        if (visit->callback(stream, visit->data) != 0) {
            return false;
        }
        stream = next;
    }
    return true;
}

/* The callback may remove the stream that it is called with; not zero ends the loop. */
void srtp_stream_list_for_each(srtp_stream_list_t list, int (*callback)(srtp_stream_t, void *), void *data)
{
    struct visit visit = {callback, data};

    ssrc_map_for_each(map_of(list), visit_streams, &visit);
}
