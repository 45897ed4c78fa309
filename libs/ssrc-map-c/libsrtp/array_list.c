/* The streams of a libsrtp 2.5 context in two parallel arrays, SSRCs and streams, and a scan of the first: what libsrtp's
 * pull request 508 proposed, written for the comparison. SCAN is 0 for one SSRC after the other, 1 for four by SSE2, 2 for
 * eight by AVX2, 3 for sixteen by AVX-512. */

#include "srtp_priv.h"
#include "stream_list_priv.h"

#include <stdlib.h>
#include <string.h>

#if SCAN > 0
#include <immintrin.h>
#endif

enum { LANES = 16 };

struct srtp_stream_list_ctx_t_ {
    uint32_t *ssrcs; /* capacity of them, a multiple of LANES, of which size are in use */
    srtp_stream_t *streams;
    size_t size, capacity;
};

/* Where the SSRC is, or size. What lies behind size may match, and is not taken. */
static size_t position(const struct srtp_stream_list_ctx_t_ *list, uint32_t ssrc)
{
    size_t i;

#if SCAN == 0
    for (i = 0; i < list->size; i++) {
        if (list->ssrcs[i] == ssrc) {
            return i;
        }
    }
#elif SCAN == 1
    const __m128i wanted = _mm_set1_epi32((int)ssrc);

    for (i = 0; i < list->size; i += 8) {
        __m128i low = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(const void *)(list->ssrcs + i)), wanted);
        __m128i high = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(const void *)(list->ssrcs + i + 4)), wanted);
        unsigned mask = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128()));

        if (mask != 0) {
            i += (size_t)__builtin_ctz(mask);
            return i < list->size ? i : list->size;
        }
    }
#elif SCAN == 2
    const __m256i wanted = _mm256_set1_epi32((int)ssrc);

    for (i = 0; i < list->size; i += 8) {
        __m256i same = _mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(list->ssrcs + i)), wanted);
        unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(same));

        if (mask != 0) {
            i += (size_t)__builtin_ctz(mask);
            return i < list->size ? i : list->size;
        }
    }
#else
    const __m512i wanted = _mm512_set1_epi32((int)ssrc);

    for (i = 0; i < list->size; i += 16) {
        unsigned mask = _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(list->ssrcs + i), wanted);

        if (mask != 0) {
            i += (size_t)__builtin_ctz(mask);
            return i < list->size ? i : list->size;
        }
    }
#endif
    return list->size;
}

srtp_err_status_t srtp_stream_list_alloc(srtp_stream_list_t *list_ptr)
{
    *list_ptr = calloc(1, sizeof(**list_ptr));
    return *list_ptr == NULL ? srtp_err_status_alloc_fail : srtp_err_status_ok;
}

srtp_err_status_t srtp_stream_list_dealloc(srtp_stream_list_t list)
{
    if (list->size != 0) {
        return srtp_err_status_fail;
    }
    free(list->ssrcs);
    free(list->streams);
    free(list);
    return srtp_err_status_ok;
}

srtp_err_status_t srtp_stream_list_insert(srtp_stream_list_t list, srtp_stream_t stream)
{
    if (list->size == list->capacity) {
        size_t capacity = list->capacity == 0 ? LANES : 2 * list->capacity;
        uint32_t *ssrcs = calloc(capacity, sizeof(*ssrcs));
        srtp_stream_t *streams = calloc(capacity, sizeof(*streams));

        if (ssrcs == NULL || streams == NULL) {
            free(ssrcs);
            free(streams);
            return srtp_err_status_alloc_fail;
        }
        if (list->size > 0) {
            memcpy(ssrcs, list->ssrcs, list->size * sizeof(*ssrcs));
            memcpy(streams, list->streams, list->size * sizeof(*streams));
        }
        free(list->ssrcs);
        free(list->streams);
        list->ssrcs = ssrcs;
        list->streams = streams;
        list->capacity = capacity;
    }
    list->ssrcs[list->size] = stream->ssrc;
    list->streams[list->size++] = stream;
    return srtp_err_status_ok;
}

srtp_stream_t srtp_stream_list_get(srtp_stream_list_t list, uint32_t ssrc)
{
    size_t at = position(list, ssrc);

    return at < list->size ? list->streams[at] : NULL;
}

void srtp_stream_list_remove(srtp_stream_list_t list, srtp_stream_t stream)
{
    size_t at;

    for (at = 0; at < list->size; at++) {
        if (list->streams[at] == stream) {
            list->size--;
            list->ssrcs[at] = list->ssrcs[list->size];
            list->streams[at] = list->streams[list->size];
            return;
        }
    }
}

void srtp_stream_list_for_each(srtp_stream_list_t list, int (*callback)(srtp_stream_t, void *), void *data)
{
    size_t at = list->size;

    while (at > 0) { /* from the end: what is removed is filled from behind */
        at--;
        if (callback(list->streams[at], data) != 0) {
            return;
        }
    }
}
