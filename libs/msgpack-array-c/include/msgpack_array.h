/* MessagePack arrays of numbers at memory speed. Made by cbindgen from the crate msgpack-array-c; do not edit.
 *
 * Link with libmsgpack_array_c.a (on Linux also -lpthread -ldl -lm) or with -lmsgpack_array_c. Any function may be called
 * from any thread. What "Safety" asks for is the caller's part: what is not so is undefined behaviour. A bug in the library
 * ends the process; nothing else does.
 */

#ifndef MSGPACK_ARRAY_H
#define MSGPACK_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 What came of a call.
 */
typedef enum {
  /*
   It was done.
   */
  MSGPACK_ARRAY_STATUS_OK = 0,
  /*
   A pointer that must not be NULL was, or a number stands for no type or no instruction set;
   nothing has been written.
   */
  MSGPACK_ARRAY_STATUS_BAD_ARGUMENT = 1,
  /*
   The output is too small; nothing has been written to it.
   */
  MSGPACK_ARRAY_STATUS_TOO_SMALL = 2,
  /*
   More than 2^32 - 1 elements or bytes, which MessagePack cannot count; nothing has been written.
   */
  MSGPACK_ARRAY_STATUS_TOO_MANY = 3,
  /*
   This machine does not have the instruction set; nothing has been written.
   */
  MSGPACK_ARRAY_STATUS_ISA_NOT_AVAILABLE = 4,
  /*
   The input ends before the array does.
   */
  MSGPACK_ARRAY_STATUS_TRUNCATED = 5,
  /*
   The input begins with something else than an array, or than a `bin` where one was asked for.
   */
  MSGPACK_ARRAY_STATUS_NOT_AN_ARRAY = 6,
  /*
   An element is of another type: text in an array of numbers, a float in an array of integers.
   */
  MSGPACK_ARRAY_STATUS_WRONG_TYPE = 7,
  /*
   An element has a value that the type cannot hold exactly.
   */
  MSGPACK_ARRAY_STATUS_OUT_OF_RANGE = 8,
} msgpack_array_status;

/*
 The types of elements, for the functions that take any.
 */
typedef enum {
  /*
   `bool`, each 0 or 1
   */
  MSGPACK_ARRAY_TYPE_BOOL = 0,
  /*
   `int8_t`
   */
  MSGPACK_ARRAY_TYPE_I8 = 1,
  /*
   `int16_t`
   */
  MSGPACK_ARRAY_TYPE_I16 = 2,
  /*
   `int32_t`
   */
  MSGPACK_ARRAY_TYPE_I32 = 3,
  /*
   `int64_t`
   */
  MSGPACK_ARRAY_TYPE_I64 = 4,
  /*
   `uint8_t`
   */
  MSGPACK_ARRAY_TYPE_U8 = 5,
  /*
   `uint16_t`
   */
  MSGPACK_ARRAY_TYPE_U16 = 6,
  /*
   `uint32_t`
   */
  MSGPACK_ARRAY_TYPE_U32 = 7,
  /*
   `uint64_t`
   */
  MSGPACK_ARRAY_TYPE_U64 = 8,
  /*
   `float`
   */
  MSGPACK_ARRAY_TYPE_F32 = 9,
  /*
   `double`
   */
  MSGPACK_ARRAY_TYPE_F64 = 10,
} msgpack_array_type;

/*
 Instruction sets there is code for.
 */
typedef enum {
  /*
   No vectors; every machine has it.
   */
  MSGPACK_ARRAY_ISA_SCALAR = 0,
  /*
   x86-64: SSSE3 and SSE4.1
   */
  MSGPACK_ARRAY_ISA_SSE = 1,
  /*
   x86-64: AVX2
   */
  MSGPACK_ARRAY_ISA_AVX2 = 2,
  /*
   x86-64: AVX-512 with VBMI2
   */
  MSGPACK_ARRAY_ISA_AVX512 = 3,
  /*
   64-bit ARM
   */
  MSGPACK_ARRAY_ISA_NEON = 4,
} msgpack_array_isa;

/*
 What has been read.
 */
typedef struct {
  /*
   Elements of the array, or bytes of the `bin`, as its header says; 0 if that could not be
   read. With the status TOO_SMALL the input has at least as many bytes behind the header, so
   that one may allocate as many elements.
   */
  size_t count;
  /*
   Bytes that the array took, header included. 0 with every other status than OK.
   */
  size_t bytes;
  /*
   With the status WRONG_TYPE or OUT_OF_RANGE: the element at fault, from 0. Else 0.
   */
  size_t index;
} msgpack_array_decoded;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Maximum bytes of an array of `count` elements of a `msgpack_array_type`, header included; 0 if
 there is no such type, SIZE_MAX if there is no such array: above 2^32 - 1 elements, or if the
 length does not fit into a size_t.
 */
size_t msgpack_array_max_encoded_len(uint32_t element_type, size_t count);

/*
 The best instruction set of this machine, which the functions without one in their arguments
 use: a `msgpack_array_isa`.
 */
uint32_t msgpack_array_isa_detect(void);

/*
 Whether this machine has a `msgpack_array_isa`.
 */
bool msgpack_array_isa_is_available(uint32_t isa);

/*
 As `msgpack_array_encode_i32` for elements of a `msgpack_array_type`, with a
 `msgpack_array_isa`: for tests and measurements.

 # Safety
 As for that function; `values` are aligned as their type needs.
 */
msgpack_array_status msgpack_array_encode(uint32_t isa,
                                          uint32_t element_type,
                                          const void *values,
                                          size_t count,
                                          uint8_t *out,
                                          size_t out_size,
                                          size_t *written);

/*
 As `msgpack_array_decode_i32` for elements of a `msgpack_array_type`, with a
 `msgpack_array_isa`: for tests and measurements.

 # Safety
 As for that function; `out` is aligned as its type needs.
 */
msgpack_array_status msgpack_array_decode(uint32_t isa,
                                          uint32_t element_type,
                                          const uint8_t *input,
                                          size_t input_size,
                                          void *out,
                                          size_t capacity,
                                          msgpack_array_decoded *decoded);

/*
 Writes the header of an array of `count` elements to `out`, of which it takes 5 bytes at most,
 and how many it took to `*written`. Any MessagePack values may follow as its elements.

 Returns BAD_ARGUMENT, TOO_SMALL or OK.

 # Safety
 `out` may be written to for `out_size` bytes; `written` is NULL or may be written to.
 */
msgpack_array_status msgpack_array_encode_header(uint32_t count,
                                                 uint8_t *out,
                                                 size_t out_size,
                                                 size_t *written);

/*
 Reads the header of an array: its elements go to `decoded->count`, and the bytes of the header
 alone to `decoded->bytes`. What the header says may be a lie: do not allocate by it before there
 are as many bytes.

 Returns BAD_ARGUMENT, TRUNCATED, NOT_AN_ARRAY or OK.

 # Safety
 `input` may be read for `input_size` bytes; `decoded` is NULL or may be written to.
 */
msgpack_array_status msgpack_array_decode_header(const uint8_t *input,
                                                 size_t input_size,
                                                 msgpack_array_decoded *decoded);

/*
 Writes `count` bytes as a MessagePack `bin`, which most readers take for a string of bytes and
 not for an array. It takes 5 bytes more at most.

 Returns BAD_ARGUMENT, TOO_SMALL, TOO_MANY or OK.

 # Safety
 As for `msgpack_array_encode_u8`.
 */
msgpack_array_status msgpack_array_encode_bin(const uint8_t *bytes,
                                              size_t count,
                                              uint8_t *out,
                                              size_t out_size,
                                              size_t *written);

/*
 Finds the bytes of a MessagePack `bin`: `*payload` becomes where in `input` they begin, NULL
 with every other status than OK, and `decoded->count` how many they are.

 Returns BAD_ARGUMENT, TRUNCATED, NOT_AN_ARRAY or OK.

 # Safety
 `input` may be read for `input_size` bytes; `payload` and `decoded` are NULL or may be written to.
 */
msgpack_array_status msgpack_array_decode_bin(const uint8_t *input,
                                              size_t input_size,
                                              const uint8_t **payload,
                                              msgpack_array_decoded *decoded);

/*
 Writes `count` values to `out` as one MessagePack array, each in its shortest form, and the
 bytes that took to `*written`, 0 if it was not done. `out_size` must be at least the length of
 the header, which is 1 for up to 15 elements, 3 for up to 65535 and 5 for more, and 5 bytes for
 each element; `msgpack_array_max_encoded_len` is always enough. Bytes behind those written,
 within `out_size`, may change.

 Returns BAD_ARGUMENT, TOO_SMALL, TOO_MANY or OK. `values` may be NULL if `count` is 0.

 # Safety
 `values` may be read for `count` elements and `out` written to for `out_size` bytes, and do not
 overlap; `written` is NULL or may be written to.
 */
msgpack_array_status msgpack_array_encode_i32(const int32_t *values,
                                              size_t count,
                                              uint8_t *out,
                                              size_t out_size,
                                              size_t *written);

/*
 As `msgpack_array_encode_i32`, for 1 byte an element. Every value must be 0 or 1.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_bool(const bool *values,
                                               size_t count,
                                               uint8_t *out,
                                               size_t out_size,
                                               size_t *written);

/*
 As `msgpack_array_encode_i32`, for 2 bytes an element.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_i8(const int8_t *values,
                                             size_t count,
                                             uint8_t *out,
                                             size_t out_size,
                                             size_t *written);

/*
 As `msgpack_array_encode_i32`, for 3 bytes an element.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_i16(const int16_t *values,
                                              size_t count,
                                              uint8_t *out,
                                              size_t out_size,
                                              size_t *written);

/*
 As `msgpack_array_encode_i32`, for 9 bytes an element.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_i64(const int64_t *values,
                                              size_t count,
                                              uint8_t *out,
                                              size_t out_size,
                                              size_t *written);

/*
 As `msgpack_array_encode_i32`, for 2 bytes an element.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_u8(const uint8_t *values,
                                             size_t count,
                                             uint8_t *out,
                                             size_t out_size,
                                             size_t *written);

/*
 As `msgpack_array_encode_i32`, for 3 bytes an element.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_u16(const uint16_t *values,
                                              size_t count,
                                              uint8_t *out,
                                              size_t out_size,
                                              size_t *written);

/*
 As `msgpack_array_encode_i32`, for 5 bytes an element.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_u32(const uint32_t *values,
                                              size_t count,
                                              uint8_t *out,
                                              size_t out_size,
                                              size_t *written);

/*
 As `msgpack_array_encode_i32`, for 9 bytes an element.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_u64(const uint64_t *values,
                                              size_t count,
                                              uint8_t *out,
                                              size_t out_size,
                                              size_t *written);

/*
 As `msgpack_array_encode_i32`, for 5 bytes an element. Floats are not shortened.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_f32(const float *values,
                                              size_t count,
                                              uint8_t *out,
                                              size_t out_size,
                                              size_t *written);

/*
 As `msgpack_array_encode_i32`, for 9 bytes an element. Floats are not shortened.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_encode_f64(const double *values,
                                              size_t count,
                                              uint8_t *out,
                                              size_t out_size,
                                              size_t *written);

/*
 Reads the MessagePack array at the beginning of `input` to `out`, which has room for `capacity`
 elements. They may have any width in the input, as long as the values fit. Of `out`, the first
 `decoded->count` elements are written with the status OK, and any may have changed with another.

 Returns BAD_ARGUMENT, TOO_SMALL, TRUNCATED, NOT_AN_ARRAY, WRONG_TYPE, OUT_OF_RANGE or OK. `out`
 may be NULL if `capacity` is 0: `decoded->count` then holds the required capacity, with the
 status TOO_SMALL or, for an empty array, OK.

 # Safety
 `input` may be read for `input_size` bytes and `out` written to for `capacity` elements, and do
 not overlap; `decoded` is NULL or may be written to.
 */
msgpack_array_status msgpack_array_decode_i32(const uint8_t *input,
                                              size_t input_size,
                                              int32_t *out,
                                              size_t capacity,
                                              msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`. Numbers are not accepted as booleans.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_bool(const uint8_t *input,
                                               size_t input_size,
                                               bool *out,
                                               size_t capacity,
                                               msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_i8(const uint8_t *input,
                                             size_t input_size,
                                             int8_t *out,
                                             size_t capacity,
                                             msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_i16(const uint8_t *input,
                                              size_t input_size,
                                              int16_t *out,
                                              size_t capacity,
                                              msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_i64(const uint8_t *input,
                                              size_t input_size,
                                              int64_t *out,
                                              size_t capacity,
                                              msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_u8(const uint8_t *input,
                                             size_t input_size,
                                             uint8_t *out,
                                             size_t capacity,
                                             msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_u16(const uint8_t *input,
                                              size_t input_size,
                                              uint16_t *out,
                                              size_t capacity,
                                              msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_u32(const uint8_t *input,
                                              size_t input_size,
                                              uint32_t *out,
                                              size_t capacity,
                                              msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_u64(const uint8_t *input,
                                              size_t input_size,
                                              uint64_t *out,
                                              size_t capacity,
                                              msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`. Doubles and integers are taken if a float holds them exactly.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_f32(const uint8_t *input,
                                              size_t input_size,
                                              float *out,
                                              size_t capacity,
                                              msgpack_array_decoded *decoded);

/*
 As `msgpack_array_decode_i32`. Floats are taken, and integers that a double holds exactly.

 # Safety
 As for that function.
 */
msgpack_array_status msgpack_array_decode_f64(const uint8_t *input,
                                              size_t input_size,
                                              double *out,
                                              size_t capacity,
                                              msgpack_array_decoded *decoded);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MSGPACK_ARRAY_H */
