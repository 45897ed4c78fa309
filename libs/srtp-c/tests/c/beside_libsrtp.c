/* Ours and Debian's libsrtp2 in one process: same policies, same packets, same bytes and numbers. libsrtp2 is loaded at
 * run time, with the structures of our header; that they are laid out alike is a part of what is tested. */

#define _GNU_SOURCE

#include <srtp2/srtp.h>

#include <dlfcn.h>
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

typedef srtp_err_status_t (*create_t)(srtp_t *, const srtp_policy_t *);
typedef srtp_err_status_t (*packet_t)(srtp_t, void *, int *);
typedef srtp_err_status_t (*plain_t)(void);
typedef srtp_err_status_t (*dealloc_t)(srtp_t);
typedef void (*set_t)(srtp_crypto_policy_t *);

static struct side {
    create_t create;
    packet_t protect, unprotect, protect_rtcp, unprotect_rtcp;
    dealloc_t dealloc;
} ours = {srtp_create, srtp_protect, srtp_unprotect, srtp_protect_rtcp, srtp_unprotect_rtcp, srtp_dealloc}, theirs;

static void *library;

static void find(void *to, const char *name)
{
    void *symbol = dlsym(library, name);

    CHECK(symbol != NULL);
    memcpy(to, &symbol, sizeof(symbol));
}

static unsigned long long state = 88172645463325252ull;

static unsigned below(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % limit;
}

static const char *const setters[] = {
    "srtp_crypto_policy_set_rtp_default",
    "srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32",
    "srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80",
    "srtp_crypto_policy_set_aes_cm_256_hmac_sha1_32",
    "srtp_crypto_policy_set_aes_gcm_128_16_auth",
    "srtp_crypto_policy_set_aes_gcm_256_16_auth",
};
static const set_t our_setters[] = {
    srtp_crypto_policy_set_rtp_default,
    srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32,
    srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80,
    srtp_crypto_policy_set_aes_cm_256_hmac_sha1_32,
    srtp_crypto_policy_set_aes_gcm_128_16_auth,
    srtp_crypto_policy_set_aes_gcm_256_16_auth,
};
static const set_t our_rtcp_setters[] = {
    srtp_crypto_policy_set_rtcp_default,
    srtp_crypto_policy_set_rtcp_default,
    srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80,
    srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80,
    srtp_crypto_policy_set_aes_gcm_128_16_auth,
    srtp_crypto_policy_set_aes_gcm_256_16_auth,
};

/* A packet of a few streams around a sequence number that wanders, at times damaged. */
static int make(unsigned char *packet, int is_rtcp, unsigned sequence)
{
    int len = is_rtcp ? 8 + 4 * (int)below(40) : 12 + (int)below(1200), i;

    for (i = 0; i < len; i++) {
        packet[i] = (unsigned char)below(256);
    }
    packet[0] = 0x80;
    packet[1] = is_rtcp ? 200 : 96;
    packet[2] = (unsigned char)(is_rtcp ? 0 : sequence >> 8);
    packet[3] = (unsigned char)(is_rtcp ? (len - 4) / 4 : (int)sequence);
    memset(packet + (is_rtcp ? 4 : 8), 0, 4);
    packet[is_rtcp ? 7 : 11] = (unsigned char)below(3);
    return len;
}

static unsigned long packets, refused;

/* Both do the same to a copy of the packet each. */
static void both(packet_t our, srtp_t our_session, packet_t their, srtp_t their_session, const unsigned char *packet,
                 int *len, unsigned char *out)
{
    static unsigned char one[2048], other[2048];
    int our_len = *len, their_len = *len;
    srtp_err_status_t our_status, their_status;

    memcpy(one, packet, (size_t)*len);
    memcpy(other, packet, (size_t)*len);
    our_status = our(our_session, one, &our_len);
    their_status = their(their_session, other, &their_len);
    if (our_status != their_status) {
        fprintf(stderr, "packet %lu: status %d, libsrtp %d\n", packets, our_status, their_status);
        exit(1);
    }
    packets++;
    if (our_status == srtp_err_status_ok) {
        CHECK(our_len == their_len && memcmp(one, other, (size_t)our_len) == 0);
    } else {
        refused++;
        *len = 0;
        return;
    }
    memcpy(out, one, (size_t)our_len);
    *len = our_len;
}

static void alike(size_t profile, unsigned rounds)
{
    static unsigned char key[46], packet[2048], protected[2048], plain[2048], kept[64][2048];
    static int kept_len[64];
    srtp_policy_t policy;
    srtp_crypto_policy_t their_policy;
    srtp_t our_sender, their_sender, our_receiver, their_receiver;
    set_t set;
    unsigned i, sequence = 65000;
    int len, was;

    memset(kept_len, 0, sizeof(kept_len));
    for (i = 0; i < sizeof(key); i++) {
        key[i] = (unsigned char)below(256);
    }
    memset(&policy, 0, sizeof(policy));
    our_setters[profile](&policy.rtp);
    our_rtcp_setters[profile](&policy.rtcp);
    find(&set, setters[profile]);
    memset(&their_policy, 0, sizeof(their_policy));
    set(&their_policy);
    CHECK(memcmp(&their_policy, &policy.rtp, sizeof(their_policy)) == 0);
    policy.key = key;
    policy.window_size = 128;
    policy.ssrc.type = ssrc_any_outbound;
    CHECK(ours.create(&our_sender, &policy) == 0 && theirs.create(&their_sender, &policy) == 0);
    policy.ssrc.type = ssrc_any_inbound;
    CHECK(ours.create(&our_receiver, &policy) == 0 && theirs.create(&their_receiver, &policy) == 0);
    for (i = 0; i < rounds; i++) {
        int is_rtcp = below(8) == 0;

        sequence += 1 + (below(50) == 0 ? below(300) : 0);
        len = make(packet, is_rtcp, sequence & 0xffff);
        if (!is_rtcp && below(20) == 0 && i > 100) { /* an index again, or one from before */
            unsigned earlier = sequence - below(400);
            packet[2] = (unsigned char)(earlier >> 8);
            packet[3] = (unsigned char)earlier;
        }
        both(is_rtcp ? ours.protect_rtcp : ours.protect, our_sender, is_rtcp ? theirs.protect_rtcp : theirs.protect,
             their_sender, packet, &len, protected);
        if (len == 0) {
            continue;
        }
        was = len;
        if (below(10) == 0) {
            protected[12 + below((unsigned)len - 12)] ^= (unsigned char)(1 << below(8));
        }
        if (below(10) != 0) { /* else it is lost */
            both(is_rtcp ? ours.unprotect_rtcp : ours.unprotect, our_receiver,
                 is_rtcp ? theirs.unprotect_rtcp : theirs.unprotect, their_receiver, protected, &len, plain);
        }
        if (!is_rtcp) {
            memcpy(kept[i % 64], protected, (size_t)was);
            kept_len[i % 64] = was;
        }
        if (below(4) == 0 && kept_len[was % 64] > 0) { /* late, or a second time */
            len = kept_len[was % 64];
            both(ours.unprotect, our_receiver, theirs.unprotect, their_receiver, kept[was % 64], &len, plain);
        }
    }
    CHECK(ours.dealloc(our_sender) == 0 && theirs.dealloc(their_sender) == 0);
    CHECK(ours.dealloc(our_receiver) == 0 && theirs.dealloc(their_receiver) == 0);
}

/* The argument is how many packets of each profile are sent: fewer in valgrind. */
int main(int count, char **arguments)
{
    unsigned rounds = count > 1 ? (unsigned)atoi(arguments[1]) : 3000;
    plain_t init;
    size_t i;

    library = dlopen("libsrtp2.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("SKIPPED: %s\n", dlerror());
        return 0;
    }
    find(&init, "srtp_init");
    find(&theirs.create, "srtp_create");
    find(&theirs.protect, "srtp_protect");
    find(&theirs.unprotect, "srtp_unprotect");
    find(&theirs.protect_rtcp, "srtp_protect_rtcp");
    find(&theirs.unprotect_rtcp, "srtp_unprotect_rtcp");
    find(&theirs.dealloc, "srtp_dealloc");
    CHECK(init() == srtp_err_status_ok && theirs.create != ours.create);
    for (i = 0; i < 6; i++) {
        alike(i, rounds);
    }
    printf("%lu packets alike, %lu of them refused\n", packets, refused);
    return 0;
}
