/* Prints sizes, offsets and numbers of the interface: compiled against our header and against libsrtp's. */

#include <srtp2/crypto_types.h>
#include <srtp2/srtp.h>

#include <stddef.h>
#include <stdio.h>

#define SIZE(type) printf("sizeof " #type " %lu\n", (unsigned long)sizeof(type))
#define AT(type, member) printf("offsetof " #type " " #member " %lu\n", (unsigned long)offsetof(type, member))
#define IS(name) printf(#name " %ld\n", (long)(name))

int main(void)
{
    SIZE(srtp_crypto_policy_t);
    SIZE(srtp_ssrc_t);
    SIZE(srtp_master_key_t);
    SIZE(srtp_policy_t);
    SIZE(srtp_event_data_t);
    AT(srtp_crypto_policy_t, cipher_type);
    AT(srtp_crypto_policy_t, cipher_key_len);
    AT(srtp_crypto_policy_t, auth_type);
    AT(srtp_crypto_policy_t, auth_key_len);
    AT(srtp_crypto_policy_t, auth_tag_len);
    AT(srtp_crypto_policy_t, sec_serv);
    AT(srtp_ssrc_t, type);
    AT(srtp_ssrc_t, value);
    AT(srtp_master_key_t, key);
    AT(srtp_master_key_t, mki_id);
    AT(srtp_master_key_t, mki_size);
    AT(srtp_policy_t, ssrc);
    AT(srtp_policy_t, rtp);
    AT(srtp_policy_t, rtcp);
    AT(srtp_policy_t, key);
    AT(srtp_policy_t, keys);
    AT(srtp_policy_t, num_master_keys);
    AT(srtp_policy_t, deprecated_ekt);
    AT(srtp_policy_t, window_size);
    AT(srtp_policy_t, allow_repeat_tx);
    AT(srtp_policy_t, enc_xtn_hdr);
    AT(srtp_policy_t, enc_xtn_hdr_count);
    AT(srtp_policy_t, next);
    AT(srtp_event_data_t, session);
    AT(srtp_event_data_t, ssrc);
    AT(srtp_event_data_t, event);
    IS(srtp_err_status_fail);
    IS(srtp_err_status_bad_param);
    IS(srtp_err_status_alloc_fail);
    IS(srtp_err_status_auth_fail);
    IS(srtp_err_status_replay_fail);
    IS(srtp_err_status_replay_old);
    IS(srtp_err_status_no_ctx);
    IS(srtp_err_status_cant_check);
    IS(srtp_err_status_key_expired);
    IS(srtp_err_status_parse_err);
    IS(srtp_err_status_bad_mki);
    IS(srtp_err_status_pkt_idx_adv);
    IS(sec_serv_conf_and_auth);
    IS(ssrc_specific);
    IS(ssrc_any_inbound);
    IS(ssrc_any_outbound);
    IS(srtp_profile_aes128_cm_sha1_32);
    IS(srtp_profile_aead_aes_256_gcm);
    IS(event_key_hard_limit);
    IS(SRTP_MAX_TRAILER_LEN);
    IS(SRTP_MAX_NUM_MASTER_KEYS);
    IS(SRTP_AES_ICM_128);
    IS(SRTP_AES_ICM_256);
    IS(SRTP_AES_GCM_128);
    IS(SRTP_AES_GCM_256);
    IS(SRTP_HMAC_SHA1);
    return 0;
}
