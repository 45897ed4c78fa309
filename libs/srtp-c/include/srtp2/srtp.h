/* SRTP and SRTCP behind the calls of libsrtp 2: names, numbers and layouts are those of its 2.5 interface, so that a C
 * program is compiled against either header and linked with either library. See README.md for what differs.
 *
 * Link with libsrtp_c.a (on Linux also -lpthread -ldl -lm) or with -lsrtp_c. NULL where something is needed is
 * srtp_err_status_bad_param, and a bug in the library is srtp_err_status_fail; neither ends the process. One thread at a
 * time may use a session; different sessions may be used by different threads. */

#ifndef SRTP_SRTP_H
#define SRTP_SRTP_H

#include "crypto_types.h"

#include <stdint.h>

#define SRTP_MASTER_KEY_LEN 30
#define SRTP_MAX_KEY_LEN 64
#define SRTP_MAX_TAG_LEN 16
#define SRTP_MAX_MKI_LEN 128
#define SRTP_MAX_TRAILER_LEN (SRTP_MAX_TAG_LEN + SRTP_MAX_MKI_LEN)
#define SRTP_MAX_NUM_MASTER_KEYS 16
#define SRTP_SALT_LEN 14
#define SRTP_AEAD_SALT_LEN 12
#define SRTP_AES_128_KEY_LEN 16
#define SRTP_AES_256_KEY_LEN 32
#define SRTP_AES_ICM_128_KEY_LEN_WSALT (SRTP_SALT_LEN + SRTP_AES_128_KEY_LEN)
#define SRTP_AES_ICM_256_KEY_LEN_WSALT (SRTP_SALT_LEN + SRTP_AES_256_KEY_LEN)
#define SRTP_AES_GCM_128_KEY_LEN_WSALT (SRTP_AEAD_SALT_LEN + SRTP_AES_128_KEY_LEN)
#define SRTP_AES_GCM_256_KEY_LEN_WSALT (SRTP_AEAD_SALT_LEN + SRTP_AES_256_KEY_LEN)

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t srtp_cipher_type_id_t;
typedef uint32_t srtp_auth_type_id_t;

/* Why a call failed. Those without a remark are never returned here. */
typedef enum {
    srtp_err_status_ok = 0,
    srtp_err_status_fail = 1,       /* a bug in this library */
    srtp_err_status_bad_param = 2,  /* a pointer, length or policy that makes no sense, or is not supported */
    srtp_err_status_alloc_fail = 3, /* a session has 65,536 streams */
    srtp_err_status_dealloc_fail = 4,
    srtp_err_status_init_fail = 5,
    srtp_err_status_terminus = 6,
    srtp_err_status_auth_fail = 7, /* the tag is wrong: the packet is as it was, and so is the session */
    srtp_err_status_cipher_fail = 8,
    srtp_err_status_replay_fail = 9, /* the index was used before */
    srtp_err_status_replay_old = 10, /* the index lies before the window */
    srtp_err_status_algo_fail = 11,
    srtp_err_status_no_such_op = 12,
    srtp_err_status_no_ctx = 13,     /* no stream has this SSRC, and there is no wildcard in this direction */
    srtp_err_status_cant_check = 14, /* an SRTCP packet that is not encrypted */
    srtp_err_status_key_expired = 15,
    srtp_err_status_socket_err = 16,
    srtp_err_status_signal_err = 17,
    srtp_err_status_nonce_bad = 18,
    srtp_err_status_read_fail = 19,
    srtp_err_status_write_fail = 20,
    srtp_err_status_parse_err = 21, /* no RTP or RTCP header */
    srtp_err_status_encode_err = 22,
    srtp_err_status_semaphore_err = 23,
    srtp_err_status_pfkey_err = 24,
    srtp_err_status_bad_mki = 25,
    srtp_err_status_pkt_idx_old = 26,
    srtp_err_status_pkt_idx_adv = 27
} srtp_err_status_t;

typedef enum {
    sec_serv_none = 0,
    sec_serv_conf = 1,
    sec_serv_auth = 2,
    sec_serv_conf_and_auth = 3 /* the only one that is supported */
} srtp_sec_serv_t;

/* How packets of one kind are protected. Filled by one of the srtp_crypto_policy_set functions. */
typedef struct srtp_crypto_policy_t {
    srtp_cipher_type_id_t cipher_type;
    int cipher_key_len; /* with the salt, in bytes */
    srtp_auth_type_id_t auth_type;
    int auth_key_len;
    int auth_tag_len;
    srtp_sec_serv_t sec_serv;
} srtp_crypto_policy_t;

typedef enum {
    ssrc_undefined = 0,
    ssrc_specific = 1,
    ssrc_any_inbound = 2, /* each SSRC that a valid packet has */
    ssrc_any_outbound = 3 /* each SSRC that is sent */
} srtp_ssrc_type_t;

typedef struct {
    srtp_ssrc_type_t type;
    unsigned int value;
} srtp_ssrc_t;

typedef struct srtp_master_key_t {
    unsigned char *key; /* key and salt, as long as the policy says */
    unsigned char *mki_id;
    unsigned int mki_size;
} srtp_master_key_t;

/* A stream, or all of one direction, and its keys. Set it to zero first. */
typedef struct srtp_policy_t {
    srtp_ssrc_t ssrc;
    srtp_crypto_policy_t rtp;
    srtp_crypto_policy_t rtcp;      /* of the same cipher as rtp, with a tag of 10 (counter mode) or 16 bytes */
    unsigned char *key;             /* key and salt, or NULL if there are several */
    srtp_master_key_t **keys;       /* several, with MKIs of one length */
    unsigned long num_master_keys;  /* at most SRTP_MAX_NUM_MASTER_KEYS */
    void *deprecated_ekt;           /* not used */
    unsigned long window_size;      /* 0 for 128, else 64 to 32,768; that of a session's first policy counts */
    int allow_repeat_tx;            /* the same packet may be protected again, and gets the same bytes */
    int *enc_xtn_hdr;               /* not supported */
    int enc_xtn_hdr_count;          /* 0 */
    struct srtp_policy_t *next;     /* NULL for the last */
} srtp_policy_t;

typedef struct srtp_ctx_t_ srtp_ctx_t;
typedef srtp_ctx_t *srtp_t;

/* Nothing needs to be prepared or cleaned up; both return srtp_err_status_ok. */
srtp_err_status_t srtp_init(void);
srtp_err_status_t srtp_shutdown(void);

/* A session with the streams of a list of policies, or none for NULL. Keys are copied. Free it with srtp_dealloc. */
srtp_err_status_t srtp_create(srtp_t *session, const srtp_policy_t *policy);
srtp_err_status_t srtp_dealloc(srtp_t session);

/* One more stream, or the wildcard if there is none. */
srtp_err_status_t srtp_add_stream(srtp_t session, const srtp_policy_t *policy);
/* Only streams of their own policy. One that comes back with a key that it had goes on where it was: its indices are
 * used. With other keys alone it begins again, and its earlier keys are srtp_err_status_bad_param from then on. */
srtp_err_status_t srtp_remove_stream(srtp_t session, unsigned int ssrc);
/* Other keys for streams that run; their indices continue. */
srtp_err_status_t srtp_update(srtp_t session, const srtp_policy_t *policy);
srtp_err_status_t srtp_update_stream(srtp_t session, const srtp_policy_t *policy);

/* In place: *len is the packet's length before and after. Protecting needs room for what
 * srtp_get_protect_trailer_length says behind the packet. No alignment is needed. */
srtp_err_status_t srtp_protect(srtp_t session, void *rtp_hdr, int *len);
srtp_err_status_t srtp_protect_mki(srtp_t session, void *rtp_hdr, int *len, unsigned int use_mki, unsigned int mki_index);
srtp_err_status_t srtp_unprotect(srtp_t session, void *srtp_hdr, int *len);
srtp_err_status_t srtp_unprotect_mki(srtp_t session, void *srtp_hdr, int *len, unsigned int use_mki);
srtp_err_status_t srtp_protect_rtcp(srtp_t session, void *rtcp_hdr, int *len);
srtp_err_status_t srtp_protect_rtcp_mki(srtp_t session, void *rtcp_hdr, int *len, unsigned int use_mki,
                                        unsigned int mki_index);
srtp_err_status_t srtp_unprotect_rtcp(srtp_t session, void *srtcp_hdr, int *len);
srtp_err_status_t srtp_unprotect_rtcp_mki(srtp_t session, void *srtcp_hdr, int *len, unsigned int use_mki);

srtp_err_status_t srtp_get_protect_trailer_length(srtp_t session, uint32_t use_mki, uint32_t mki_index,
                                                  uint32_t *length);
srtp_err_status_t srtp_get_protect_rtcp_trailer_length(srtp_t session, uint32_t use_mki, uint32_t mki_index,
                                                       uint32_t *length);

/* Rollover counters never go back: srtp_err_status_bad_param. */
srtp_err_status_t srtp_set_stream_roc(srtp_t session, uint32_t ssrc, uint32_t roc);
srtp_err_status_t srtp_get_stream_roc(srtp_t session, uint32_t ssrc, uint32_t *roc);

void srtp_set_user_data(srtp_t session, void *data);
void *srtp_get_user_data(srtp_t session);

void srtp_crypto_policy_set_rtp_default(srtp_crypto_policy_t *p);
void srtp_crypto_policy_set_rtcp_default(srtp_crypto_policy_t *p);
#define srtp_crypto_policy_set_aes_cm_128_hmac_sha1_80(p) srtp_crypto_policy_set_rtp_default(p)
void srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32(srtp_crypto_policy_t *p);
void srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80(srtp_crypto_policy_t *p);
void srtp_crypto_policy_set_aes_cm_256_hmac_sha1_32(srtp_crypto_policy_t *p);
void srtp_crypto_policy_set_aes_gcm_128_16_auth(srtp_crypto_policy_t *p);
void srtp_crypto_policy_set_aes_gcm_256_16_auth(srtp_crypto_policy_t *p);

/* Numbers of DTLS-SRTP (RFC 5764, RFC 7714). The two without encryption are not supported. */
typedef enum {
    srtp_profile_reserved = 0,
    srtp_profile_aes128_cm_sha1_80 = 1,
    srtp_profile_aes128_cm_sha1_32 = 2,
    srtp_profile_null_sha1_80 = 5,
    srtp_profile_null_sha1_32 = 6,
    srtp_profile_aead_aes_128_gcm = 7,
    srtp_profile_aead_aes_256_gcm = 8
} srtp_profile_t;

srtp_err_status_t srtp_crypto_policy_set_from_profile_for_rtp(srtp_crypto_policy_t *policy, srtp_profile_t profile);
srtp_err_status_t srtp_crypto_policy_set_from_profile_for_rtcp(srtp_crypto_policy_t *policy, srtp_profile_t profile);
unsigned int srtp_profile_get_master_key_length(srtp_profile_t profile);
unsigned int srtp_profile_get_master_salt_length(srtp_profile_t profile);
/* Writes the salt behind the key. */
void srtp_append_salt_to_key(unsigned char *key, unsigned int bytes_in_key, unsigned char *salt,
                             unsigned int bytes_in_salt);

typedef enum {
    event_ssrc_collision,
    event_key_soft_limit,
    event_key_hard_limit, /* the only one that is reported: a packet was refused with srtp_err_status_key_expired */
    event_packet_index_limit
} srtp_event_t;

typedef struct srtp_event_data_t {
    srtp_t session;
    uint32_t ssrc;
    srtp_event_t event;
} srtp_event_data_t;

/* Called during the call that met the event, for sessions of the whole process. It must return. NULL for none. */
typedef void(srtp_event_handler_func_t)(srtp_event_data_t *data);
srtp_err_status_t srtp_install_event_handler(srtp_event_handler_func_t func);

/* The version of the interface: major, minor and micro in the upper three of four bytes as libsrtp puts them. */
const char *srtp_get_version_string(void);
unsigned int srtp_get_version(void);

#ifdef __cplusplus
}
#endif

#endif
