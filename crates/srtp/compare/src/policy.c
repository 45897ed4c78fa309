/*
 * Fills libsrtp's policy structures, so that Rust needs to know none of their layouts: the compiler that reads the
 * installed header does. Everything else of libsrtp is called from src/libsrtp.rs directly.
 */

#include <srtp2/srtp.h>

#include <stddef.h>
#include <string.h>

enum { KEYS_MAX = 16 };

static int set_crypto(srtp_policy_t *policy, int profile)
{
    switch (profile) {
    case 0:
        srtp_crypto_policy_set_aes_gcm_128_16_auth(&policy->rtp);
        srtp_crypto_policy_set_aes_gcm_128_16_auth(&policy->rtcp);
        return 1;
    case 1:
        srtp_crypto_policy_set_aes_gcm_256_16_auth(&policy->rtp);
        srtp_crypto_policy_set_aes_gcm_256_16_auth(&policy->rtcp);
        return 1;
    case 2:
        srtp_crypto_policy_set_aes_cm_128_hmac_sha1_80(&policy->rtp);
        srtp_crypto_policy_set_aes_cm_128_hmac_sha1_80(&policy->rtcp);
        return 1;
    case 3: /* the tag of SRTCP has 80 bits in this profile too: RFC 5764 section 4.1.2 */
        srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32(&policy->rtp);
        srtp_crypto_policy_set_aes_cm_128_hmac_sha1_80(&policy->rtcp);
        return 1;
    case 4:
        srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80(&policy->rtp);
        srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80(&policy->rtcp);
        return 1;
    case 5:
        srtp_crypto_policy_set_aes_cm_256_hmac_sha1_32(&policy->rtp);
        srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80(&policy->rtcp);
        return 1;
    default:
        return 0;
    }
}

/*
 * Makes the session if there is none yet, and gives it a stream.
 *
 * ssrc_type is one of srtp_ssrc_type_t. Each key is followed by its salt. libsrtp copies what it keeps. A session's
 * own length of an MKI is that of its keys; 0 means none.
 */
int srtp_compare_add_stream(srtp_t *session, int profile, int ssrc_type, unsigned ssrc, unsigned long window,
                            unsigned char *const *keys, unsigned char *const *mkis, unsigned mki_len, size_t count)
{
    srtp_policy_t policy;
    srtp_master_key_t master[KEYS_MAX];
    srtp_master_key_t *masters[KEYS_MAX];

    memset(&policy, 0, sizeof policy);
    if (count == 0 || count > KEYS_MAX || !set_crypto(&policy, profile))
        return srtp_err_status_bad_param;
    for (size_t i = 0; i < count; i++) {
        master[i].key = keys[i];
        master[i].mki_id = mki_len ? mkis[i] : NULL;
        master[i].mki_size = mki_len;
        masters[i] = &master[i];
    }
    policy.ssrc.type = (srtp_ssrc_type_t)ssrc_type;
    policy.ssrc.value = ssrc;
    policy.window_size = window;
    policy.keys = masters;
    policy.num_master_keys = count;
    return *session ? (int)srtp_add_stream(*session, &policy) : (int)srtp_create(session, &policy);
}
