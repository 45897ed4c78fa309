/* What does a look-up cost in libsrtp, and what is it of srtp_unprotect? Built once with each list.
 *
 *     cost MILLISECONDS [streams]...
 *
 * Prints CELL streams order nanoseconds-of-a-look-up nanoseconds-of-srtp_unprotect. Streams have random SSRCs, and
 * packets of 160 bytes (audio: where the look-up weighs most) come in random order or in turn. */

#define _POSIX_C_SOURCE 200809L

#include "srtp_priv.h"
#include "stream_list_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STREAMS_MAX = 200, LOOK_UPS = 1 << 16, PACKETS = 4096, PAYLOAD = 160, PACKET_ROOM = 12 + PAYLOAD + SRTP_MAX_TRAILER_LEN };

static uint64_t state;
/* More look-ups than a branch predictor learns by heart: with 4096 in a fixed order the list looks three times as fast. */
static uint32_t ssrcs[STREAMS_MAX], order[LOOK_UPS], wanted[LOOK_UPS];
static unsigned char packets[PACKETS][PACKET_ROOM], working[PACKETS][PACKET_ROOM];
static int lengths[PACKETS];
static unsigned char key[SRTP_MAX_KEY_LEN];

static uint32_t random_number(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void check(int is_true, const char *what)
{
    if (!is_true) {
        fprintf(stderr, "cost: %s\n", what);
        exit(1);
    }
}

static void choose_order(int streams, int in_turn)
{
    int i;

    for (i = 0; i < LOOK_UPS; i++) {
        order[i] = in_turn ? (uint32_t)(i % streams) : random_number() % (uint32_t)streams;
    }
}

/* The list alone, with streams of their real size, allocated as libsrtp allocates them. */
static double look_up(int streams, double ns)
{
    srtp_stream_list_t list;
    srtp_stream_t made[STREAMS_MAX];
    double best = 1e30, end;
    uint64_t sum = 0, expected = 0;
    int i;

    check(srtp_stream_list_alloc(&list) == srtp_err_status_ok, "a list");
    for (i = 0; i < streams; i++) {
        made[i] = srtp_crypto_alloc(sizeof(srtp_stream_ctx_t));
        check(made[i] != NULL, "a stream");
        made[i]->ssrc = ssrcs[i];
        check(srtp_stream_list_insert(list, made[i]) == srtp_err_status_ok, "a stream in the list");
    }
    for (i = 0; i < LOOK_UPS; i++) {
        wanted[i] = ssrcs[order[i]];
        expected += wanted[i];
    }
    end = now() + ns;
    do {
        double start = now(), took;

        sum = 0;
        for (i = 0; i < LOOK_UPS; i++) {
            sum += srtp_stream_list_get(list, wanted[i])->ssrc;
        }
        took = (now() - start) / LOOK_UPS;
        best = took < best ? took : best;
        check(sum == expected, "another stream was found");
    } while (now() < end);
    for (i = 0; i < streams; i++) {
        srtp_stream_list_remove(list, made[i]);
        srtp_crypto_free(made[i]);
    }
    check(srtp_stream_list_dealloc(list) == srtp_err_status_ok, "an empty list");
    return best;
}

static srtp_t session_of(int streams)
{
    srtp_policy_t policy;
    srtp_t session;
    int i;

    check(srtp_create(&session, NULL) == srtp_err_status_ok, "a session");
    memset(&policy, 0, sizeof(policy));
    srtp_crypto_policy_set_aes_cm_128_hmac_sha1_80(&policy.rtp);
    srtp_crypto_policy_set_aes_cm_128_hmac_sha1_80(&policy.rtcp);
    policy.ssrc.type = ssrc_specific;
    policy.key = key;
    policy.window_size = 1024;
    for (i = 0; i < streams; i++) {
        policy.ssrc.value = ssrcs[i];
        check(srtp_add_stream(session, &policy) == srtp_err_status_ok, "a stream");
    }
    return session;
}

static double unprotect(int streams, double ns)
{
    uint16_t next[STREAMS_MAX] = {0};
    srtp_t sender = session_of(streams), receiver;
    double best = 1e30, end;
    int i;

    for (i = 0; i < PACKETS; i++) {
        uint32_t ssrc = htonl(ssrcs[order[i]]);
        uint16_t sequence = htons(next[order[i]]++);

        memset(packets[i], 0, sizeof(packets[i]));
        packets[i][0] = 0x80;
        memcpy(packets[i] + 2, &sequence, 2);
        memcpy(packets[i] + 8, &ssrc, 4);
        lengths[i] = 12 + PAYLOAD;
        check(srtp_protect(sender, packets[i], &lengths[i]) == srtp_err_status_ok, "a protected packet");
    }
    srtp_dealloc(sender);
    end = now() + ns;
    do {
        double start, took;

        receiver = session_of(streams); /* with an empty replay window */
        memcpy(working, packets, sizeof(packets));
        start = now();
        for (i = 0; i < PACKETS; i++) {
            int len = lengths[i];
            check(srtp_unprotect(receiver, working[i], &len) == srtp_err_status_ok, "an authentic packet");
        }
        took = (now() - start) / PACKETS;
        best = took < best ? took : best;
        srtp_dealloc(receiver);
    } while (now() < end);
    return best;
}

int main(int argc, char **argv)
{
    double ns = argc > 1 ? atof(argv[1]) * 1e6 : 0;
    struct timespec time;
    int i, n, in_turn;

    check(ns > 0 && argc > 2, "cost MILLISECONDS [streams]...");
    clock_gettime(CLOCK_REALTIME, &time);
    state = (uint64_t)time.tv_nsec * 2654435761u + 1;
    check(srtp_init() == srtp_err_status_ok, "srtp_init");
    for (i = 0; i < STREAMS_MAX; i++) {
        ssrcs[i] = random_number();
    }
    for (n = 2; n < argc; n++) {
        int streams = atoi(argv[n]);

        check(streams >= 1 && streams <= STREAMS_MAX, "1 to 200 streams");
        for (in_turn = 0; in_turn < 2; in_turn++) {
            double get, whole;

            choose_order(streams, in_turn);
            get = look_up(streams, ns);
            whole = unprotect(streams, ns);
            printf("CELL %d %s %.3f %.1f\n", streams, in_turn ? "round_robin" : "random", get, whole);
        }
    }
    srtp_shutdown();
    return 0;
}
