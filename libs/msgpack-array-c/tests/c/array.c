/* What a C program sees of msgpack_array.h. Ends with status 0 if all of it is as the header says. */

#include "msgpack_array.h"

#include <math.h>
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

enum { CANARY = 0xa5 };

/* Encodes `values` with the function for their type, with every instruction set, and reads them back. */
#define ROUND_TRIP(name, number, type, ...)                                                                   \
    static void name##_round_trip(void)                                                                       \
    {                                                                                                         \
        const type values[] = {__VA_ARGS__};                                                                  \
        const size_t count = sizeof values / sizeof values[0];                                                \
        const size_t max = msgpack_array_max_encoded_len(number, sizeof values / sizeof values[0]);           \
        uint8_t *out = malloc(max + 1), *other = malloc(max);                                                 \
        type back[sizeof values / sizeof values[0] + 1];                                                      \
        msgpack_array_decoded decoded;                                                                        \
        size_t written = 0, other_written = 0;                                                                \
        uint32_t isa;                                                                                         \
                                                                                                              \
        CHECK(out != NULL && other != NULL);                                                                  \
        out[max] = CANARY;                                                                                    \
        memset(back, CANARY, sizeof back);                                                                    \
        CHECK(msgpack_array_encode_##name(values, count, out, max, &written) == MSGPACK_ARRAY_STATUS_OK);     \
        CHECK(written > count && written <= max && out[max] == CANARY && out[0] == (0x90 | count));           \
        CHECK(msgpack_array_decode_##name(out, written, back, count, &decoded) == MSGPACK_ARRAY_STATUS_OK);   \
        CHECK(decoded.count == count && decoded.bytes == written && decoded.index == 0);                      \
        CHECK(memcmp(back, values, sizeof values) == 0 && *(uint8_t *)&back[count] == CANARY);                \
        for (isa = MSGPACK_ARRAY_ISA_SCALAR; isa <= MSGPACK_ARRAY_ISA_NEON; isa++) {                          \
            msgpack_array_status status =                                                                     \
                msgpack_array_encode(isa, number, values, count, other, max, &other_written);                 \
            CHECK(status == (msgpack_array_isa_is_available(isa) ? MSGPACK_ARRAY_STATUS_OK                    \
                                                                 : MSGPACK_ARRAY_STATUS_ISA_NOT_AVAILABLE));  \
            if (status != MSGPACK_ARRAY_STATUS_OK) {                                                          \
                continue;                                                                                     \
            }                                                                                                 \
            CHECK(other_written == written && memcmp(out, other, written) == 0);                              \
            memset(back, 0, sizeof back);                                                                     \
            status = msgpack_array_decode(isa, number, out, written, back, count, &decoded);                  \
            CHECK(status == MSGPACK_ARRAY_STATUS_OK && memcmp(back, values, sizeof values) == 0);             \
        }                                                                                                     \
        free(out);                                                                                            \
        free(other);                                                                                          \
    }

ROUND_TRIP(bool, MSGPACK_ARRAY_TYPE_BOOL, bool, true, false, false, true)
ROUND_TRIP(i8, MSGPACK_ARRAY_TYPE_I8, int8_t, 0, 127, -1, -32, -33, -128)
ROUND_TRIP(i16, MSGPACK_ARRAY_TYPE_I16, int16_t, 0, 127, 128, 255, 256, 32767, -32768, -33)
ROUND_TRIP(i32, MSGPACK_ARRAY_TYPE_I32, int32_t, 0, 127, 128, 65535, 65536, INT32_MAX, INT32_MIN, -32769)
ROUND_TRIP(i64, MSGPACK_ARRAY_TYPE_I64, int64_t, 0, INT64_MAX, INT64_MIN, 4294967295, 4294967296, -2147483649)
ROUND_TRIP(u8, MSGPACK_ARRAY_TYPE_U8, uint8_t, 0, 127, 128, 255)
ROUND_TRIP(u16, MSGPACK_ARRAY_TYPE_U16, uint16_t, 0, 127, 128, 255, 256, 65535)
ROUND_TRIP(u32, MSGPACK_ARRAY_TYPE_U32, uint32_t, 0, 127, 128, 65535, 65536, UINT32_MAX)
ROUND_TRIP(u64, MSGPACK_ARRAY_TYPE_U64, uint64_t, 0, 127, 128, UINT32_MAX, 4294967296, UINT64_MAX)
ROUND_TRIP(f32, MSGPACK_ARRAY_TYPE_F32, float, 0.0F, -0.0F, 1.5F, INFINITY, -INFINITY, NAN)
ROUND_TRIP(f64, MSGPACK_ARRAY_TYPE_F64, double, 0.0, -0.0, 1.5, INFINITY, -INFINITY, NAN)

static void sizes_are_checked(void)
{
    const uint16_t values[] = {1, 300, 65535};
    const uint8_t expected[] = {0x93, 1, 0xcd, 1, 0x2c, 0xcd, 0xff, 0xff};
    uint8_t out[10];
    uint16_t back[3];
    msgpack_array_decoded decoded;
    size_t written = 99, size;

    /* The header takes 1 byte and each element 3 at most. */
    for (size = 0; size < sizeof out; size++) {
        memset(out, CANARY, sizeof out);
        CHECK(msgpack_array_encode_u16(values, 3, out, size, &written) == MSGPACK_ARRAY_STATUS_TOO_SMALL);
        CHECK(written == 0 && out[0] == CANARY);
    }
    CHECK(msgpack_array_encode_u16(values, 3, out, sizeof out, &written) == MSGPACK_ARRAY_STATUS_OK);
    CHECK(written == sizeof expected && memcmp(out, expected, written) == 0);

    for (size = 0; size < 3; size++) {
        CHECK(msgpack_array_decode_u16(out, written, back, size, &decoded) == MSGPACK_ARRAY_STATUS_TOO_SMALL);
        CHECK(decoded.count == 3 && decoded.bytes == 0);
    }
    CHECK(msgpack_array_decode_u16(out, written, NULL, 0, &decoded) == MSGPACK_ARRAY_STATUS_TOO_SMALL);
    CHECK(decoded.count == 3);
    for (size = 0; size < written; size++) {
        CHECK(msgpack_array_decode_u16(out, size, back, 3, &decoded) == MSGPACK_ARRAY_STATUS_TRUNCATED);
    }
    CHECK(msgpack_array_max_encoded_len(MSGPACK_ARRAY_TYPE_F64 + 1, 3) == 0);
    CHECK(msgpack_array_max_encoded_len(MSGPACK_ARRAY_TYPE_F64, SIZE_MAX) == SIZE_MAX);
    CHECK(msgpack_array_max_encoded_len(MSGPACK_ARRAY_TYPE_F64 + 1, SIZE_MAX) == 0);
#if SIZE_MAX > UINT32_MAX
    /* More elements than a header can say are in no array, however large a size_t is. */
    CHECK(msgpack_array_max_encoded_len(MSGPACK_ARRAY_TYPE_F64, UINT32_MAX) == 5 + (size_t)9 * UINT32_MAX);
    CHECK(msgpack_array_max_encoded_len(MSGPACK_ARRAY_TYPE_BOOL, UINT32_MAX) == 5 + (size_t)UINT32_MAX);
    CHECK(msgpack_array_max_encoded_len(MSGPACK_ARRAY_TYPE_BOOL, (size_t)UINT32_MAX + 1) == SIZE_MAX);
    CHECK(msgpack_array_max_encoded_len(MSGPACK_ARRAY_TYPE_I32, (size_t)1 << 33) == SIZE_MAX);
#endif
}

static void what_is_wrong_is_told(void)
{
    const uint8_t huge[] = {0xdd, 0xff, 0xff, 0xff, 0xff, 1, 2, 3};
    const uint8_t text[] = {0x93, 1, 2, 0xa1, 'x'};
    const uint8_t large[] = {0x92, 1, 0xcd, 1, 0};
    const uint8_t map[] = {0x80};
    const uint8_t empty[] = {0x90};
    uint8_t back[4];
    msgpack_array_decoded decoded;

    CHECK(msgpack_array_decode_u8(huge, sizeof huge, NULL, 0, &decoded) == MSGPACK_ARRAY_STATUS_TRUNCATED);
    CHECK(msgpack_array_decode_u8(text, sizeof text, back, 4, &decoded) == MSGPACK_ARRAY_STATUS_WRONG_TYPE);
    CHECK(decoded.index == 2 && decoded.count == 3 && decoded.bytes == 0);
    CHECK(msgpack_array_decode_u8(large, sizeof large, back, 4, &decoded) == MSGPACK_ARRAY_STATUS_OUT_OF_RANGE);
    CHECK(decoded.index == 1);
    CHECK(msgpack_array_decode_u8(map, sizeof map, back, 4, &decoded) == MSGPACK_ARRAY_STATUS_NOT_AN_ARRAY);
    CHECK(msgpack_array_decode_u8(empty, sizeof empty, NULL, 0, &decoded) == MSGPACK_ARRAY_STATUS_OK);
    CHECK(decoded.count == 0 && decoded.bytes == 1);
    CHECK(msgpack_array_decode_u8(NULL, 0, back, 4, NULL) == MSGPACK_ARRAY_STATUS_TRUNCATED);
    CHECK(msgpack_array_decode_u8(NULL, 1, back, 4, &decoded) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT);
    CHECK(msgpack_array_decode_u8(text, sizeof text, NULL, 4, &decoded) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT);
    CHECK(msgpack_array_decode(77, MSGPACK_ARRAY_TYPE_U8, empty, 1, back, 4, NULL) ==
          MSGPACK_ARRAY_STATUS_BAD_ARGUMENT);
    CHECK(msgpack_array_decode(0, 77, empty, 1, back, 4, NULL) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT);
    CHECK(msgpack_array_encode(0, 77, back, 4, back, 4, NULL) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT);
    CHECK(msgpack_array_encode_u8(NULL, 1, back, 4, NULL) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT);
    CHECK(msgpack_array_encode_u8(NULL, 0, back, 4, NULL) == MSGPACK_ARRAY_STATUS_OK && back[0] == 0x90);
}

static void headers_and_bins_stand_alone(void)
{
    const uint8_t payload[] = {1, 2, 3};
    const uint8_t *found = NULL;
    uint8_t out[16];
    msgpack_array_decoded decoded;
    size_t written;

    CHECK(msgpack_array_encode_header(16, out, 2, &written) == MSGPACK_ARRAY_STATUS_TOO_SMALL && written == 0);
    CHECK(msgpack_array_encode_header(16, out, 3, &written) == MSGPACK_ARRAY_STATUS_OK && written == 3);
    CHECK(out[0] == 0xdc && out[1] == 0 && out[2] == 16);
    CHECK(msgpack_array_decode_header(out, 3, &decoded) == MSGPACK_ARRAY_STATUS_OK);
    CHECK(decoded.count == 16 && decoded.bytes == 3);
    CHECK(msgpack_array_decode_header(out, 2, &decoded) == MSGPACK_ARRAY_STATUS_TRUNCATED && decoded.count == 0);

    CHECK(msgpack_array_encode_bin(payload, 3, out, 4, &written) == MSGPACK_ARRAY_STATUS_TOO_SMALL);
    CHECK(msgpack_array_encode_bin(payload, 3, out, 5, &written) == MSGPACK_ARRAY_STATUS_OK && written == 5);
    CHECK(out[0] == 0xc4 && out[1] == 3 && memcmp(out + 2, payload, 3) == 0);
    CHECK(msgpack_array_decode_bin(out, 5, &found, &decoded) == MSGPACK_ARRAY_STATUS_OK);
    CHECK(found == out + 2 && decoded.count == 3 && decoded.bytes == 5);
    CHECK(msgpack_array_decode_bin(out, 4, &found, &decoded) == MSGPACK_ARRAY_STATUS_TRUNCATED && found == NULL);
    CHECK(msgpack_array_decode_u8(out, 5, out + 8, 3, &decoded) == MSGPACK_ARRAY_STATUS_NOT_AN_ARRAY);

    /* What a refused call answers with is not left over from the call before. */
    found = out;
    decoded.count = decoded.bytes = written = 99;
    CHECK(msgpack_array_decode_bin(NULL, 5, &found, &decoded) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT);
    CHECK(found == NULL && decoded.count == 0 && decoded.bytes == 0);
    decoded.count = decoded.bytes = 99;
    CHECK(msgpack_array_decode_header(NULL, 5, &decoded) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT);
    CHECK(decoded.count == 0 && decoded.bytes == 0);
    CHECK(msgpack_array_encode_bin(NULL, 3, out, 5, &written) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT && written == 0);
    written = 99;
    CHECK(msgpack_array_encode_bin(payload, 3, NULL, 5, &written) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT && written == 0);
    written = 99;
    CHECK(msgpack_array_encode_header(16, NULL, 3, &written) == MSGPACK_ARRAY_STATUS_BAD_ARGUMENT && written == 0);
}

int main(void)
{
    CHECK(msgpack_array_isa_is_available(MSGPACK_ARRAY_ISA_SCALAR));
    CHECK(msgpack_array_isa_is_available(msgpack_array_isa_detect()));
    CHECK(!msgpack_array_isa_is_available(77));
    bool_round_trip();
    i8_round_trip();
    i16_round_trip();
    i32_round_trip();
    i64_round_trip();
    u8_round_trip();
    u16_round_trip();
    u32_round_trip();
    u64_round_trip();
    f32_round_trip();
    f64_round_trip();
    sizes_are_checked();
    what_is_wrong_is_told();
    headers_and_bins_stand_alone();
    return 0;
}
