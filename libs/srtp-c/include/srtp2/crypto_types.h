#ifndef SRTP_CRYPTO_TYPES_H
#define SRTP_CRYPTO_TYPES_H

/* Types of ciphers and of authentication. A policy with any other is refused when a session is made. */
#define SRTP_NULL_CIPHER 0
#define SRTP_AES_ICM_128 1
#define SRTP_AES_ICM_256 5
#define SRTP_AES_GCM_128 6
#define SRTP_AES_GCM_256 7
#define SRTP_NULL_AUTH 0
#define SRTP_HMAC_SHA1 3

#endif
