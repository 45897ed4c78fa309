/* Remote files by HTTP ranges: open, read, seek, with few requests. Made by cbindgen from the crate range-reader-c; do
 * not edit.
 *
 * Link with librange_reader_c.a (on Linux also -lpthread -ldl -lm) or with -lrange_reader_c. What "Safety" asks for is
 * the caller's part: what is not so is undefined behaviour. A number below zero is a range_reader_error, and
 * range_reader_error_text has it in words; only the functions with avio in their name return numbers of FFmpeg.
 *
 * Any thread may call any function, and calls on one reader wait for each other: it has one position. What does not wait
 * for a call in another thread are range_reader_interrupt, range_reader_statistics_of and range_reader_error_text. Nothing
 * happens between calls, and there are no threads of the library's, except that names are resolved on one. A reader must
 * not be used in a child after fork. */

#ifndef RANGE_READER_H
#define RANGE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 Most ranges of one call of `range_reader_hint`.
 */
#define RANGE_READER_RANGES_MAX 131072

/*
 Why a call failed.
 */
typedef enum range_reader_error {
  /*
   A pointer that must not be NULL was, or a value makes no sense.
   */
  RANGE_READER_ERROR_INVALID_ARGUMENT = -1,
  /*
   There is no such file (404, 410).
   */
  RANGE_READER_ERROR_NOT_FOUND = -2,
  /*
   It may not be read (401, 403), or its scheme, address or redirect is not allowed.
   */
  RANGE_READER_ERROR_NOT_ALLOWED = -3,
  /*
   The server refuses with another status.
   */
  RANGE_READER_ERROR_REFUSED = -4,
  /*
   The server's responses contradict the requests or themselves.
   */
  RANGE_READER_ERROR_BAD_SERVER = -5,
  /*
   The file has changed on the server since it was opened; open it again.
   */
  RANGE_READER_ERROR_CHANGED = -6,
  /*
   No connection, no response in time, or a busy server, after several attempts. Try later.
   */
  RANGE_READER_ERROR_UNREACHABLE = -7,
  /*
   The server ends its responses too early, after several attempts. Try later.
   */
  RANGE_READER_ERROR_TRUNCATED = -8,
  /*
   The file, a redirect or a header is larger than allowed.
   */
  RANGE_READER_ERROR_TOO_LARGE = -9,
  /*
   Name, certificate or this machine: set up wrongly on this side or that one.
   */
  RANGE_READER_ERROR_SETUP = -10,
  /*
   The server does not say how long the file is.
   */
  RANGE_READER_ERROR_UNKNOWN_SIZE = -11,
  /*
   Stopped by `range_reader_interrupt`.
   */
  RANGE_READER_ERROR_INTERRUPTED = -12,
  /*
   A bug in the library; close the reader.
   */
  RANGE_READER_ERROR_BUG = -13,
} range_reader_error;

/*
 A remote file and a position in it.
 */
typedef struct range_reader range_reader;

/*
 How a file is read. All zero (or NULL instead of it) is the default.
 */
typedef struct range_reader_options {
  /*
   Header fields of each request, a line `name: value` for each, with a line feed between them:
   "authorization: Bearer key\nuser-agent: player". NULL for none. After a redirect to another
   host, credentials are not sent.
   */
  const char *headers;
  /*
   Certificates in PEM that are trusted besides the system's. NULL for none.
   */
  const char *roots_pem;
  /*
   Whether any address may be connected to. Otherwise public ones only, checked after names are
   resolved and at each redirect: no loopback, private or link-local ones. Set it if a person
   chose the URL, and leave it if the URL came from outside.
   */
  bool any_address;
  /*
   Whether the proxies of the environment are used (http_proxy, https_proxy, all_proxy,
   no_proxy). Otherwise none.
   */
  bool proxies_of_environment;
  /*
   Whether reads are left unlearned. Otherwise repeating patterns are detected and prefetched
   when there are no hints.
   */
  bool no_learning;
  /*
   Milliseconds that a connection, an answer, and silence within an answer may take; 0 for
   10,000, 20,000 and 20,000.
   */
  uint32_t timeout_ms;
  /*
   Bytes fetched ahead and kept in memory; 0 for 2 MiB. Up to 512 KiB more may come at once.
   */
  size_t window_bytes;
  /*
   Bytes already read that are kept for seeks back; 0 for 256 KiB.
   */
  size_t look_back_bytes;
  /*
   Longest file that is read, in bytes; 0 for any.
   */
  uint64_t file_bytes_max;
} range_reader_options;

/*
 A range of bytes.
 */
typedef struct range_reader_range {
  /*
   Position of the first byte.
   */
  uint64_t start;
  /*
   Position behind the last byte.
   */
  uint64_t end;
} range_reader_range;

/*
 What reading has cost since the reader was opened. Each byte received is one of used, skipped,
 wasted and buffered.
 */
typedef struct range_reader_statistics {
  /*
   Requests sent.
   */
  uint64_t requests;
  /*
   Connections opened.
   */
  uint64_t connections;
  /*
   Connections that broke or were refused and were tried again.
   */
  uint64_t retries;
  /*
   Bytes of responses received.
   */
  uint64_t bytes_received;
  /*
   Of those, bytes handed to the caller; reading them again from memory does not count again.
   */
  uint64_t bytes_used;
  /*
   Bytes received and dropped because they lay between two positions that were read.
   */
  uint64_t bytes_skipped;
  /*
   Wasted bytes: of cancelled responses, and prefetched but not read.
   */
  uint64_t bytes_wasted;
  /*
   Bytes in memory that have not been handed to the caller yet.
   */
  uint64_t bytes_buffered;
  /*
   Seeks to a position that was not in memory yet.
   */
  uint64_t seeks;
} range_reader_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens the file at `url` ("http://..." or "https://...") and stores the reader in `*opened`. Free
 it with `range_reader_close`. Nothing is sent before the first read or question for the size.

 Returns 0, or a negative number, and then `*opened` is NULL: INVALID_ARGUMENT if `url` or
 `opened` is NULL, no URL, or an option makes no sense; NOT_ALLOWED for other schemes; SETUP if
 there are no file descriptors. `why` may be NULL; otherwise up to `why_size` bytes of it become a
 text that explains the error, "" if there is none, which ends with a zero.

 # Safety
 `url` and the strings of `options` are NULL or end with a zero, `options` and `opened` are NULL or
 may be read and written to, `why` is NULL or `why_size` bytes there may be written to.
 */
int range_reader_open(const char *url,
                      const struct range_reader_options *options,
                      struct range_reader **opened,
                      char *why,
                      size_t why_size);

/*
 Reads up to `size` bytes at the position into `buffer`, and advances the position.

 Returns how many bytes it read, fewer than `size` often and more than 1 MiB never; 0 at the end of
 the file, or if `size` is 0; or a negative number. After UNREACHABLE, TRUNCATED or INTERRUPTED a
 later call may succeed and continues at the same position.

 # Safety
 `reader` is NULL or a reader that is not closed during the call; `buffer` is NULL or `size` bytes
 there may be written to.
 */
int64_t range_reader_read(const struct range_reader *reader, uint8_t *buffer, size_t size);

/*
 Moves the position by `offset` from the start (`whence` 0, SEEK_SET), from the position (1,
 SEEK_CUR) or from the end of the file (2, SEEK_END). Beyond the end is allowed; reads give 0 there.

 Returns the new position or a negative number: INVALID_ARGUMENT for a position before the start,
 UNKNOWN_SIZE from the end of a file whose size the server does not say. Only from the end may it
 wait for the server.

 # Safety
 `reader` is NULL or a reader that is not closed during the call.
 */
int64_t range_reader_seek(const struct range_reader *reader, int64_t offset, int whence);

/*
 Returns the size of the file in bytes, requested from the server if there was no response yet, or
 a negative number: UNKNOWN_SIZE if the server does not say it.

 # Safety
 `reader` is NULL or a reader that is not closed during the call.
 */
int64_t range_reader_size(const struct range_reader *reader);

/*
 Announces what will be read, in this order; replaces earlier hints. `count` 0 takes them back.

 Hinted ranges are requested together, as far as there is memory for them, with the next read.
 Hints may be wrong: that wastes bytes, up to the size of the window. Returns 0 or a negative
 number: INVALID_ARGUMENT if there are more than RANGE_READER_RANGES_MAX, or one ends before its
 start; then earlier hints stay.

 # Safety
 `reader` is NULL or a reader that is not closed during the call; `ranges` is NULL or `count` of
 them may be read.
 */
int range_reader_hint(const struct range_reader *reader,
                      const struct range_reader_range *ranges,
                      size_t count);

/*
 While `interrupted` is true, a call that waits for the server, and each later one that may, returns
 INTERRUPTED. Nothing is lost: reads continue where they were. For another thread, so that a player
 can stop or seek while a server is slow.

 # Safety
 `reader` is NULL or a reader that is not closed during the call.
 */
void range_reader_interrupt(const struct range_reader *reader, bool interrupted);

/*
 Stores in `*statistics` what reading has cost, as of the last call that has returned. Returns 0, or
 INVALID_ARGUMENT if a pointer is NULL.

 # Safety
 `reader` is NULL or a reader that is not closed during the call; `statistics` is NULL or may be
 written to.
 */
int range_reader_statistics_of(const struct range_reader *reader, struct range_reader_statistics *statistics);

/*
 Copies the text of the last error of this reader, whichever thread got it, into `text`: cut to
 `size` bytes with the zero at its end, "" if no call has failed. It names no path and no query of
 the URL, which may hold secrets.

 # Safety
 `reader` is NULL or a reader that is not closed during the call; `text` is NULL or `size` bytes
 there may be written to.
 */
void range_reader_error_text(const struct range_reader *reader, char *text, size_t size);

/*
 Closes the reader and its connections, without waiting for the server. NULL is allowed.

 # Safety
 `reader` is NULL or a reader that has not been closed, and no other call on it is running.
 */
void range_reader_close(struct range_reader *reader);

/*
 `range_reader_read` as FFmpeg's `avio_alloc_context` takes it, with the reader as `opaque`.

 Returns FFmpeg's numbers: AVERROR_EOF at the end, AVERROR_EXIT after an interruption, AVERROR() of
 an errno otherwise.

 # Safety
 As `range_reader_read`.
 */
int range_reader_avio_read(void *opaque, uint8_t *buffer, int size);

/*
 `range_reader_seek` as FFmpeg's `avio_alloc_context` takes it, with the reader as `opaque`. Knows
 AVSEEK_SIZE, and AVERROR(ENOSYS) is its answer if the size is unknown; AVSEEK_FORCE changes nothing.

 # Safety
 As `range_reader_seek`.
 */
int64_t range_reader_avio_seek(void *opaque, int64_t offset, int whence);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RANGE_READER_H */
