/* What a C program sees of the calls of libsrtp. Ends with status 0 if all of it is as the header says.
 *
 * Known packets are those of libsrtp 2.5.0's own tests (test/srtp_driver.c: srtp_validate, srtp_validate_gcm,
 * srtp_validate_aes_256). */

#include <srtp2/srtp.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

enum { SSRC = (int)0x0afebabe, RTP_BYTES = 28, RTCP_BYTES = 24 };

static unsigned char key_128[] = "\xe1\xf9\x7a\x0d\x3e\x01\x8b\xe0\xd6\x4f\xa3\x2c\x06\xde\x41\x39"
                                 "\x0e\xc6\x75\xad\x49\x8a\xfe\xeb\xb6\x96\x0b\x3a\xab\xe6";
static unsigned char key_256[] = "\xf0\xf0\x49\x14\xb5\x13\xf2\x76\x3a\x1b\x1f\xa1\x30\xf1\x0e\x29"
                                 "\x98\xf6\xf6\xe4\x3e\x43\x09\xd1\xe6\x22\xa0\xe3\x32\xb9\xf1\xb6"
                                 "\x3b\x04\x80\x3d\xe5\x1e\xe7\xc9\x64\x23\xab\x5b\x78\xd2";
static unsigned char key_gcm[] = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
                                 "\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab";
static const unsigned char rtp[] = "\x80\x0f\x12\x34\xde\xca\xfb\xad\xca\xfe\xba\xbe"
                                   "\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab";
static const unsigned char rtcp[] = "\x81\xc8\x00\x0b\xca\xfe\xba\xbe"
                                    "\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab\xab";

static const struct {
    void (*set)(srtp_crypto_policy_t *);
    unsigned char *key;
    const char *srtp, *srtcp; /* behind the header; NULL where there is none */
    int rtp_bytes, rtcp_bytes;
} known[] = {
    {srtp_crypto_policy_set_rtp_default, key_128,
     "\x4e\x55\xdc\x4c\xe7\x99\x78\xd8\x8c\xa4\xd2\x15\x94\x9d\x24\x02\xb7\x8d\x6a\xcc\x99\xea\x17\x9b\x8d\xbb",
     "\x71\x28\x03\x5b\xe4\x87\xb9\xbd\xbe\xf8\x90\x41\xf9\x77\xa5\xa8\x80\x00\x00\x01\x99\x3e\x08\xcd\x54\xd6\xc1\x23"
     "\x07\x98",
     38, 38},
    {srtp_crypto_policy_set_aes_gcm_128_16_auth, key_gcm,
     "\xc5\x00\x2e\xde\x04\xcf\xdd\x2e\xb9\x11\x59\xe0\x88\x0a\xa0\x6e\xd2\x97\x68\x26\xf7\x96\xb2\x01\xdf\x31\x31\xa1"
     "\x27\xe8\xa3\x92",
     "\xc9\x8b\x8b\x5d\xf0\x39\x2a\x55\x85\x2b\x6c\x21\xac\x8e\x70\x25\xc5\x2c\x6f\xbe\xa2\xb3\xb4\x46\xea\x31\x12\x3b"
     "\xa8\x8c\xe6\x1e\x80\x00\x00\x01",
     44, 44},
    {srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80, key_256,
     "\xf1\xd9\xde\x17\xff\x25\x1f\xf1\xaa\x00\x77\x74\xb0\xb4\xb4\x0d\xa0\x8d\x9d\x9a\x5b\x3a\x55\xd8\x87\x3b", NULL,
     38, 38},
};

static srtp_policy_t policy_of(void (*set)(srtp_crypto_policy_t *), unsigned char *key, srtp_ssrc_type_t type,
                               unsigned ssrc)
{
    srtp_policy_t policy;

    memset(&policy, 0, sizeof(policy));
    set(&policy.rtp);
    set(&policy.rtcp);
    policy.ssrc.type = type;
    policy.ssrc.value = ssrc;
    policy.key = key;
    return policy;
}

static srtp_t session_of(const srtp_policy_t *policy)
{
    srtp_t session = NULL;

    CHECK(srtp_create(&session, policy) == srtp_err_status_ok && session != NULL);
    return session;
}

/* The packet of the tests with another sequence number and SSRC. Memory of exactly its size, with the trailer's, so that
 * sanitizers see what is read or written beyond. */
static unsigned char *packet_of(unsigned sequence, unsigned ssrc, size_t trailer)
{
    unsigned char *packet = malloc(RTP_BYTES + trailer);

    CHECK(packet != NULL);
    memcpy(packet, rtp, RTP_BYTES);
    packet[2] = (unsigned char)(sequence >> 8);
    packet[3] = (unsigned char)sequence;
    packet[8] = (unsigned char)(ssrc >> 24);
    packet[9] = (unsigned char)(ssrc >> 16);
    packet[10] = (unsigned char)(ssrc >> 8);
    packet[11] = (unsigned char)ssrc;
    return packet;
}

static srtp_err_status_t protect(srtp_t session, unsigned sequence, unsigned ssrc, unsigned char **packet, int *len)
{
    uint32_t trailer = 0;
    srtp_err_status_t status;

    CHECK(srtp_get_protect_trailer_length(session, 0, 0, &trailer) == srtp_err_status_ok);
    *packet = packet_of(sequence, ssrc, trailer);
    *len = RTP_BYTES;
    status = srtp_protect(session, *packet, len);
    if (status != srtp_err_status_ok) {
        free(*packet);
    }
    return status;
}

static void packets_are_those_of_libsrtp(void)
{
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        srtp_policy_t policy = policy_of(known[i].set, known[i].key, ssrc_specific, 0xcafebabe);
        srtp_t sender = session_of(&policy), receiver = session_of(&policy);
        unsigned char packet[RTP_BYTES + 16], control[RTCP_BYTES + 20];
        int len = RTP_BYTES;

        memcpy(packet, rtp, RTP_BYTES);
        CHECK(srtp_protect(sender, packet, &len) == srtp_err_status_ok && len == known[i].rtp_bytes);
        CHECK(memcmp(packet, rtp, 12) == 0 && memcmp(packet + 12, known[i].srtp, (size_t)len - 12) == 0);
        CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_ok && len == RTP_BYTES);
        CHECK(memcmp(packet, rtp, RTP_BYTES) == 0);

        memcpy(control, rtcp, RTCP_BYTES);
        len = RTCP_BYTES;
        CHECK(srtp_protect_rtcp(sender, control, &len) == srtp_err_status_ok && len == known[i].rtcp_bytes);
        CHECK(known[i].srtcp == NULL || memcmp(control + 8, known[i].srtcp, (size_t)len - 8) == 0);
        CHECK(srtp_unprotect_rtcp(receiver, control, &len) == srtp_err_status_ok && len == RTCP_BYTES);
        CHECK(memcmp(control, rtcp, RTCP_BYTES) == 0);
        CHECK(srtp_dealloc(sender) == srtp_err_status_ok && srtp_dealloc(receiver) == srtp_err_status_ok);
    }
}

static void errors_have_the_numbers_of_libsrtp(void)
{
    srtp_policy_t inbound = policy_of(srtp_crypto_policy_set_rtp_default, key_128, ssrc_any_inbound, 0);
    srtp_policy_t outbound = policy_of(srtp_crypto_policy_set_rtp_default, key_128, ssrc_any_outbound, 0);
    srtp_t sender = session_of(&outbound), receiver = session_of(&inbound);
    unsigned char *packet, *copy, before[RTP_BYTES + 10];
    int len, kept;

    CHECK(protect(sender, 1000, 7, &packet, &len) == srtp_err_status_ok);
    memcpy(before, packet, (size_t)len);
    packet[len - 1] ^= 1;
    kept = len;
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_auth_fail && len == kept);
    packet[len - 1] ^= 1;
    CHECK(memcmp(packet, before, (size_t)len) == 0);
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_ok && len == RTP_BYTES);
    memcpy(packet, before, (size_t)kept);
    len = kept;
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_replay_fail);
    CHECK(protect(sender, 1000, 7, &copy, &len) == srtp_err_status_replay_fail);
    CHECK(protect(sender, 1500, 7, &copy, &len) == srtp_err_status_ok);
    CHECK(srtp_unprotect(receiver, copy, &len) == srtp_err_status_ok);
    free(copy);
    len = kept;
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_replay_old);
    CHECK(protect(sender, 1200, 7, &copy, &len) == srtp_err_status_replay_old);
    /* A wildcard is for one direction. */
    CHECK(protect(receiver, 1, 7, &copy, &len) == srtp_err_status_no_ctx);
    len = kept;
    CHECK(srtp_unprotect(sender, packet, &len) == srtp_err_status_no_ctx);
    free(packet);
    srtp_dealloc(sender);
    srtp_dealloc(receiver);
}

static void absurd_calls_are_refused(void)
{
    srtp_policy_t policy = policy_of(srtp_crypto_policy_set_aes_gcm_128_16_auth, key_gcm, ssrc_specific, 7), bad, circle;
    srtp_t session = session_of(&policy), other;
    srtp_master_key_t key, *keys[2];
    unsigned char packet[64];
    uint32_t number;
    int len, i;
    static const int lengths[] = {INT_MIN, -1, 0, 1, 7, 8, 11};

    CHECK(srtp_create(NULL, &policy) == srtp_err_status_bad_param);
    CHECK(srtp_create(&other, NULL) == srtp_err_status_ok);
    memcpy(packet, rtp, RTP_BYTES);
    len = RTP_BYTES;
    CHECK(srtp_protect(other, packet, &len) == srtp_err_status_no_ctx);
    CHECK(srtp_dealloc(other) == srtp_err_status_ok && srtp_dealloc(NULL) == srtp_err_status_bad_param);
    CHECK(srtp_protect(NULL, packet, &len) == srtp_err_status_bad_param);
    CHECK(srtp_protect(session, NULL, &len) == srtp_err_status_bad_param);
    CHECK(srtp_protect(session, packet, NULL) == srtp_err_status_bad_param);
    CHECK(srtp_unprotect(NULL, packet, &len) == srtp_err_status_bad_param);
    CHECK(srtp_unprotect_rtcp(session, NULL, &len) == srtp_err_status_bad_param);
    for (i = 0; i < (int)(sizeof(lengths) / sizeof(lengths[0])); i++) {
        unsigned char *small = malloc(lengths[i] > 0 ? (size_t)lengths[i] : 1);
        memcpy(small, rtp, lengths[i] > 0 ? (size_t)lengths[i] : 0);
        len = lengths[i];
        CHECK(srtp_unprotect(session, small, &len) == srtp_err_status_bad_param && len == lengths[i]);
        CHECK(srtp_unprotect_rtcp(session, small, &len) != srtp_err_status_ok && len == lengths[i]);
        free(small);
    }
    len = INT_MAX; /* no such packet: refused before anything beyond the header is looked at */
    CHECK(srtp_get_protect_trailer_length(NULL, 0, 0, &number) == srtp_err_status_bad_param);
    CHECK(srtp_get_protect_trailer_length(session, 0, 0, NULL) == srtp_err_status_bad_param);
    CHECK(srtp_get_stream_roc(session, 8, &number) == srtp_err_status_bad_param);
    CHECK(srtp_set_stream_roc(session, 8, 1) == srtp_err_status_bad_param);
    CHECK(srtp_remove_stream(session, 8) == srtp_err_status_no_ctx && srtp_remove_stream(NULL, 7) != 0);
    CHECK(srtp_add_stream(session, NULL) == srtp_err_status_bad_param);
    CHECK(srtp_add_stream(session, &policy) == srtp_err_status_bad_param); /* it is there */
    CHECK(srtp_update(session, NULL) == srtp_err_status_bad_param);

    circle = policy;
    circle.ssrc.value = 9;
    circle.next = &circle;
    CHECK(srtp_create(&other, &circle) == srtp_err_status_bad_param && other == NULL);
#define REFUSED(change)                                                                    \
    do {                                                                                   \
        bad = policy;                                                                      \
        change;                                                                            \
        CHECK(srtp_create(&other, &bad) == srtp_err_status_bad_param && other == NULL);     \
    } while (0)
    REFUSED(bad.key = NULL);
    REFUSED(bad.ssrc.type = ssrc_undefined);
    REFUSED(bad.ssrc.type = (srtp_ssrc_type_t)99);
    REFUSED(bad.rtp.cipher_type = SRTP_NULL_CIPHER);
    REFUSED(bad.rtp.cipher_key_len = INT_MAX);
    REFUSED(bad.rtp.auth_tag_len = -1);
    REFUSED(bad.rtp.sec_serv = sec_serv_none);
    REFUSED(srtp_crypto_policy_set_rtp_default(&bad.rtcp));
    REFUSED(bad.window_size = 63);
    REFUSED(bad.window_size = ULONG_MAX);
    REFUSED(bad.enc_xtn_hdr_count = 1);
    keys[0] = &key;
    keys[1] = NULL;
    memset(&key, 0, sizeof(key));
    REFUSED((bad.key = NULL, bad.keys = keys, bad.num_master_keys = 1));
    key.key = key_gcm;
    REFUSED((bad.key = NULL, bad.keys = keys, bad.num_master_keys = 0));
    REFUSED((bad.key = NULL, bad.keys = keys, bad.num_master_keys = 2));
    REFUSED((bad.key = NULL, bad.keys = keys, bad.num_master_keys = ULONG_MAX));
    key.mki_size = 4;
    REFUSED((bad.key = NULL, bad.keys = keys, bad.num_master_keys = 1));
    key.mki_id = key_gcm;
    key.mki_size = UINT_MAX;
    REFUSED((bad.key = NULL, bad.keys = keys, bad.num_master_keys = 1));
    srtp_crypto_policy_set_rtp_default(NULL);
    srtp_append_salt_to_key(NULL, 1, NULL, 1);
    srtp_set_user_data(NULL, NULL);
    CHECK(srtp_get_user_data(NULL) == NULL);
    srtp_dealloc(session);
}

static void streams_are_added_and_removed(void)
{
    srtp_policy_t first = policy_of(srtp_crypto_policy_set_rtp_default, key_128, ssrc_specific, 1);
    srtp_policy_t second = policy_of(srtp_crypto_policy_set_aes_gcm_128_16_auth, key_gcm, ssrc_specific, 2);
    srtp_t sender, receiver;
    unsigned char *packet;
    int len;
    uint32_t roc;

    first.next = &second;
    sender = session_of(&first);
    receiver = session_of(&first);
    CHECK(protect(sender, 5, 2, &packet, &len) == srtp_err_status_ok && len == RTP_BYTES + 16);
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_ok);
    free(packet);
    CHECK(srtp_remove_stream(sender, 1) == srtp_err_status_ok);
    CHECK(srtp_remove_stream(sender, 1) == srtp_err_status_no_ctx);
    CHECK(protect(sender, 5, 1, &packet, &len) == srtp_err_status_no_ctx);
    CHECK(protect(sender, 6, 2, &packet, &len) == srtp_err_status_ok);
    free(packet);
    /* Back with the same key: what was sent stays sent. With another key it begins again. */
    first.next = NULL;
    CHECK(srtp_add_stream(sender, &first) == srtp_err_status_ok);
    CHECK(protect(sender, 5, 1, &packet, &len) == srtp_err_status_ok);
    free(packet);
    CHECK(srtp_remove_stream(sender, 1) == srtp_err_status_ok && srtp_add_stream(sender, &first) == 0);
    CHECK(protect(sender, 5, 1, &packet, &len) == srtp_err_status_replay_fail);
    CHECK(srtp_remove_stream(sender, 1) == srtp_err_status_ok);
    first.key = key_256; /* its first 30 bytes */
    CHECK(srtp_add_stream(sender, &first) == srtp_err_status_ok);
    CHECK(protect(sender, 5, 1, &packet, &len) == srtp_err_status_ok);
    /* The receiver takes the new key with the stream as it is. */
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_auth_fail);
    CHECK(srtp_update_stream(receiver, &first) == srtp_err_status_ok);
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_ok);
    free(packet);
    CHECK(srtp_set_stream_roc(sender, 1, 3) == srtp_err_status_ok && srtp_get_stream_roc(sender, 1, &roc) == 0 && roc == 3);
    CHECK(protect(sender, 6, 1, &packet, &len) == srtp_err_status_ok);
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_auth_fail);
    CHECK(srtp_set_stream_roc(receiver, 1, 3) == srtp_err_status_ok);
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_ok);
    free(packet);
    CHECK(srtp_set_stream_roc(sender, 1, 2) == srtp_err_status_bad_param);
    srtp_dealloc(sender);
    srtp_dealloc(receiver);
}

/* However a stream comes back: under no key is an index used for two packets, and a call that is refused changes
 * nothing. */
static void streams_that_come_back_use_no_index_again(void)
{
    srtp_policy_t policy = policy_of(srtp_crypto_policy_set_rtp_default, key_128, ssrc_specific, 1), other;
    srtp_t sender = session_of(&policy), receiver;
    srtp_master_key_t masters[2], *keys[2];
    unsigned char *packet;
    int len, i;

    CHECK(protect(sender, 5, 1, &packet, &len) == srtp_err_status_ok);
    free(packet);

    /* With the same key and a shorter tag. */
    other = policy;
    srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32(&other.rtp);
    CHECK(srtp_remove_stream(sender, 1) == srtp_err_status_ok && srtp_add_stream(sender, &other) == srtp_err_status_ok);
    CHECK(protect(sender, 5, 1, &packet, &len) == srtp_err_status_replay_fail);
    CHECK(protect(sender, 6, 1, &packet, &len) == srtp_err_status_ok && len == RTP_BYTES + 4);
    receiver = session_of(&other);
    CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_ok);
    free(packet);
    srtp_dealloc(receiver);

    /* With keys that do not fit each other: refused, and as if it had not been tried. */
    for (i = 0; i < 2; i++) {
        masters[i].key = i == 0 ? key_128 : key_256;
        masters[i].mki_id = key_gcm;
        masters[i].mki_size = i == 0 ? 4 : 5;
        keys[i] = &masters[i];
    }
    CHECK(srtp_remove_stream(sender, 1) == srtp_err_status_ok);
    other.key = NULL;
    other.keys = keys;
    other.num_master_keys = 2;
    CHECK(srtp_add_stream(sender, &other) == srtp_err_status_bad_param);
    CHECK(srtp_add_stream(sender, &policy) == srtp_err_status_ok);
    CHECK(protect(sender, 6, 1, &packet, &len) == srtp_err_status_replay_fail);
    CHECK(protect(sender, 7, 1, &packet, &len) == srtp_err_status_ok && len == RTP_BYTES + 10);
    free(packet);

    /* With its key and another one. */
    masters[1].mki_size = 4;
    masters[1].mki_id = key_gcm + 1;
    CHECK(srtp_remove_stream(sender, 1) == srtp_err_status_ok && srtp_add_stream(sender, &other) == srtp_err_status_ok);
    packet = packet_of(7, 1, 16);
    len = RTP_BYTES;
    CHECK(srtp_protect_mki(sender, packet, &len, 1, 0) == srtp_err_status_replay_fail);
    free(packet);

    /* With another key alone it begins again, and its earlier keys are refused from then on. */
    CHECK(srtp_remove_stream(sender, 1) == srtp_err_status_ok);
    policy.key = key_256 + 1;
    CHECK(srtp_add_stream(sender, &policy) == srtp_err_status_ok);
    CHECK(protect(sender, 7, 1, &packet, &len) == srtp_err_status_ok);
    free(packet);
    policy.key = key_128;
    CHECK(srtp_update_stream(sender, &policy) == srtp_err_status_bad_param);
    CHECK(srtp_remove_stream(sender, 1) == srtp_err_status_ok);
    CHECK(srtp_add_stream(sender, &policy) == srtp_err_status_bad_param);
    CHECK(srtp_add_stream(sender, &other) == srtp_err_status_bad_param);
    policy.key = key_256 + 2;
    CHECK(srtp_add_stream(sender, &policy) == srtp_err_status_ok);
    CHECK(protect(sender, 7, 1, &packet, &len) == srtp_err_status_ok);
    free(packet);
    srtp_dealloc(sender);
}

static void a_packet_may_be_repeated_where_the_policy_says_so(void)
{
    unsigned char *first, *second;
    int i, first_len, second_len;

    for (i = 0; i < 2; i++) {
        srtp_policy_t policy = policy_of(srtp_crypto_policy_set_aes_gcm_128_16_auth, key_gcm,
                                         i == 0 ? ssrc_specific : ssrc_any_outbound, 7);
        srtp_t sender;

        policy.allow_repeat_tx = 1;
        sender = session_of(&policy);
        CHECK(protect(sender, 9, 7, &first, &first_len) == srtp_err_status_ok);
        CHECK(protect(sender, 9, 7, &second, &second_len) == srtp_err_status_ok);
        CHECK(first_len == second_len && memcmp(first, second, (size_t)first_len) == 0);
        free(second);
        /* Other bytes under the same index would give both away. */
        second = packet_of(9, 7, 16);
        second[20] ^= 1;
        second_len = RTP_BYTES;
        CHECK(srtp_protect(sender, second, &second_len) == srtp_err_status_replay_fail);
        free(first);
        free(second);
        srtp_dealloc(sender);
    }
}

static void several_keys_are_named_by_mki(void)
{
    unsigned char names[2][4] = {"abc", "xyz"}, *packet;
    srtp_master_key_t masters[2], *keys[2];
    srtp_policy_t policy = policy_of(srtp_crypto_policy_set_rtp_default, NULL, ssrc_any_outbound, 0);
    srtp_t sender, receiver;
    uint32_t trailer;
    unsigned i;
    int len;

    for (i = 0; i < 2; i++) {
        masters[i].key = i == 0 ? key_128 : key_256;
        masters[i].mki_id = names[i];
        masters[i].mki_size = 4;
        keys[i] = &masters[i];
    }
    policy.keys = keys;
    policy.num_master_keys = 2;
    sender = session_of(&policy);
    policy.ssrc.type = ssrc_any_inbound;
    receiver = session_of(&policy);
    CHECK(srtp_get_protect_trailer_length(sender, 1, 0, &trailer) == 0 && trailer == 14);
    for (i = 0; i < 6; i++) {
        packet = packet_of(i, 7, trailer);
        len = RTP_BYTES;
        CHECK(srtp_protect(sender, packet, &len) == srtp_err_status_bad_mki);
        CHECK(srtp_protect_mki(sender, packet, &len, 1, 2) == srtp_err_status_bad_mki);
        CHECK(srtp_protect_mki(sender, packet, &len, 1, i / 2 % 2) == srtp_err_status_ok && len == RTP_BYTES + 14);
        CHECK(memcmp(packet + RTP_BYTES, names[i / 2 % 2], 4) == 0);
        CHECK(srtp_unprotect(receiver, packet, &len) == srtp_err_status_bad_mki);
        packet[RTP_BYTES] ^= 1;
        CHECK(srtp_unprotect_mki(receiver, packet, &len, 1) == srtp_err_status_bad_mki);
        packet[RTP_BYTES] ^= 1;
        CHECK(srtp_unprotect_mki(receiver, packet, &len, 1) == srtp_err_status_ok && len == RTP_BYTES);
        free(packet);
    }
    srtp_dealloc(sender);
    srtp_dealloc(receiver);
}

static void profiles_have_numbers(void)
{
    srtp_crypto_policy_t by_name, by_number;
    unsigned char key[30] = {0};

    srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32(&by_name);
    CHECK(srtp_crypto_policy_set_from_profile_for_rtp(&by_number, srtp_profile_aes128_cm_sha1_32) == 0);
    CHECK(memcmp(&by_name, &by_number, sizeof(by_name)) == 0 && by_name.auth_tag_len == 4);
    srtp_crypto_policy_set_rtcp_default(&by_name);
    CHECK(srtp_crypto_policy_set_from_profile_for_rtcp(&by_number, srtp_profile_aes128_cm_sha1_32) == 0);
    CHECK(memcmp(&by_name, &by_number, sizeof(by_name)) == 0 && by_name.auth_tag_len == 10);
    CHECK(srtp_crypto_policy_set_from_profile_for_rtp(&by_number, srtp_profile_null_sha1_80) == srtp_err_status_bad_param);
    CHECK(srtp_crypto_policy_set_from_profile_for_rtp(NULL, srtp_profile_aes128_cm_sha1_80) == srtp_err_status_bad_param);
    CHECK(srtp_profile_get_master_key_length(srtp_profile_aead_aes_256_gcm) == 32);
    CHECK(srtp_profile_get_master_salt_length(srtp_profile_aead_aes_256_gcm) == 12);
    CHECK(srtp_profile_get_master_salt_length(srtp_profile_aes128_cm_sha1_80) == 14);
    CHECK(srtp_profile_get_master_key_length((srtp_profile_t)77) == 0);
    srtp_append_salt_to_key(key, 16, key_128 + 16, 14);
    CHECK(memcmp(key + 16, key_128 + 16, 14) == 0);
    CHECK(strstr(srtp_get_version_string(), "2.5.0") != NULL && srtp_get_version() >> 16 == 0x205);
    CHECK(srtp_install_event_handler(NULL) == 0);
}

int main(void)
{
    srtp_policy_t policy = policy_of(srtp_crypto_policy_set_rtp_default, key_128, ssrc_any_outbound, 0);
    srtp_t session;

    CHECK(srtp_init() == srtp_err_status_ok);
    packets_are_those_of_libsrtp();
    errors_have_the_numbers_of_libsrtp();
    absurd_calls_are_refused();
    streams_are_added_and_removed();
    streams_that_come_back_use_no_index_again();
    a_packet_may_be_repeated_where_the_policy_says_so();
    several_keys_are_named_by_mki();
    profiles_have_numbers();
    session = session_of(&policy);
    srtp_set_user_data(session, &policy);
    CHECK(srtp_get_user_data(session) == &policy);
    srtp_dealloc(session);
    CHECK(srtp_shutdown() == srtp_err_status_ok);
    return 0;
}
