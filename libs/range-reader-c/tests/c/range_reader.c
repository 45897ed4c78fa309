/* What the calls do with a file, with servers that have none, and with arguments that make no sense. Takes the URL of the
 * tests' server, without a path; without one only what needs no server is tested. Ends with status 0 if all is well. */

#define _POSIX_C_SOURCE 200809L

#include "range_reader.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);   \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

#define FILE_BYTES 3000000

static const char *server;

static uint8_t byte_at(uint32_t at)
{
    return (uint8_t)(at * 31 + at / 256);
}

/* The reader of a path of the server, which is on loopback. */
static range_reader *opened(const char *path, const range_reader_options *options)
{
    range_reader_options any = {0};
    range_reader *reader = NULL;
    char url[200], why[200];

    if (options)
        any = *options;
    any.any_address = true;
    snprintf(url, sizeof url, "%s%s", server, path);
    if (range_reader_open(url, &any, &reader, why, sizeof why) != 0) {
        fprintf(stderr, "%s: %s\n", url, why);
        exit(1);
    }
    CHECK(why[0] == 0);
    return reader;
}

static void read_exactly(range_reader *reader, uint32_t position, size_t bytes)
{
    static uint8_t buffer[400000];
    size_t done = 0;

    CHECK(bytes <= sizeof buffer);
    while (done < bytes) {
        int64_t count = range_reader_read(reader, buffer + done, bytes - done);
        CHECK(count > 0);
        done += (size_t)count;
    }
    for (done = 0; done < bytes; done++)
        CHECK(buffer[done] == byte_at(position + (uint32_t)done));
}

static void read_fails(const char *path, int64_t error, const char *words)
{
    range_reader_options options = {0};
    range_reader *reader;
    uint8_t buffer[100];
    char text[300];

    options.timeout_ms = 2000;
    reader = opened(path, &options);
    range_reader_error_text(reader, text, sizeof text);
    CHECK(text[0] == 0);
    CHECK(range_reader_read(reader, buffer, sizeof buffer) == error);
    range_reader_error_text(reader, text, sizeof text);
    if (!strstr(text, words)) {
        fprintf(stderr, "%s: %s\n", path, text);
        exit(1);
    }
    range_reader_error_text(reader, text, 4);
    CHECK(strlen(text) == 3);
    range_reader_error_text(reader, text, 0);
    range_reader_error_text(reader, NULL, 9);
    range_reader_close(reader);
}

static void arguments_are_checked(void)
{
    range_reader_options options = {0};
    range_reader_statistics statistics;
    range_reader_range range = {5, 4};
    range_reader *reader = (range_reader *)&range;
    uint8_t buffer[10];
    char why[100], small[5];

    CHECK(range_reader_open(NULL, NULL, &reader, why, sizeof why) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(reader == NULL && strcmp(why, "url is NULL") == 0);
    CHECK(range_reader_open("http://127.0.0.1/", NULL, NULL, NULL, 0) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_open("no url", NULL, &reader, small, sizeof small) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(reader == NULL && strcmp(small, "url:") == 0);
    CHECK(range_reader_open("\xff\xfe", NULL, &reader, why, sizeof why) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_open("file:///etc/passwd", NULL, &reader, why, sizeof why) == RANGE_READER_ERROR_NOT_ALLOWED);
    options.headers = "authorization Bearer secret";
    CHECK(range_reader_open("http://a.test/", &options, &reader, why, sizeof why) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(reader == NULL && !strstr(why, "secret"));
    options.headers = "range: bytes=0-1";
    CHECK(range_reader_open("http://a.test/", &options, &reader, why, sizeof why) < 0 && reader == NULL);

    CHECK(range_reader_read(NULL, buffer, sizeof buffer) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_seek(NULL, 0, SEEK_SET) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_size(NULL) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_hint(NULL, &range, 1) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_statistics_of(NULL, &statistics) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    range_reader_error_text(NULL, why, sizeof why);
    CHECK(strcmp(why, "reader is NULL") == 0);
    range_reader_interrupt(NULL, true);
    range_reader_close(NULL);
    CHECK(range_reader_avio_read(NULL, buffer, 10) < 0);
    CHECK(range_reader_avio_seek(NULL, 0, SEEK_SET) < 0);

    /* Nothing is asked of the network for these. */
    CHECK(range_reader_open("http://127.0.0.1:1/film", NULL, &reader, why, sizeof why) == 0);
    CHECK(range_reader_read(reader, NULL, 10) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_read(reader, buffer, SIZE_MAX) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_read(reader, buffer, 0) == 0);
    CHECK(range_reader_read(reader, NULL, 0) == 0);
    CHECK(range_reader_seek(reader, -1, SEEK_SET) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_seek(reader, -1, SEEK_CUR) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_seek(reader, 0, 77) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_seek(reader, INT64_MAX, SEEK_SET) == INT64_MAX);
    CHECK(range_reader_seek(reader, 1, SEEK_CUR) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_seek(reader, 0, SEEK_CUR) == INT64_MAX);
    CHECK(range_reader_seek(reader, INT64_MIN, SEEK_CUR) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_hint(reader, NULL, 1) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_hint(reader, &range, 1) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_hint(reader, &range, SIZE_MAX) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_hint(reader, NULL, 0) == 0);
    CHECK(range_reader_statistics_of(reader, NULL) == RANGE_READER_ERROR_INVALID_ARGUMENT);
    CHECK(range_reader_avio_read(reader, buffer, -1) < 0);
    CHECK(range_reader_avio_read(reader, buffer, 0) == 0);
    CHECK(range_reader_statistics_of(reader, &statistics) == 0 && statistics.requests == 0);

    /* Loopback is no public address. */
    CHECK(range_reader_seek(reader, 0, SEEK_SET) == 0);
    CHECK(range_reader_read(reader, buffer, 10) == RANGE_READER_ERROR_NOT_ALLOWED);
    range_reader_error_text(reader, why, sizeof why);
    CHECK(strstr(why, "127.0.0.1"));
    range_reader_close(reader);
}

static void file_is_read_at_any_position(void)
{
    range_reader *reader = opened("/film", NULL);
    range_reader_statistics statistics;
    uint8_t buffer[10];

    CHECK(range_reader_seek(reader, 0, SEEK_CUR) == 0);
    read_exactly(reader, 0, 1000);
    CHECK(range_reader_size(reader) == FILE_BYTES);
    CHECK(range_reader_seek(reader, 500, SEEK_SET) == 500);
    read_exactly(reader, 500, 10);
    CHECK(range_reader_seek(reader, 100000, SEEK_CUR) == 100510);
    read_exactly(reader, 100510, 300000);
    CHECK(range_reader_seek(reader, -20, SEEK_END) == FILE_BYTES - 20);
    read_exactly(reader, FILE_BYTES - 20, 20);
    CHECK(range_reader_read(reader, buffer, sizeof buffer) == 0);
    CHECK(range_reader_seek(reader, 10, SEEK_END) == FILE_BYTES + 10);
    CHECK(range_reader_read(reader, buffer, sizeof buffer) == 0);

    CHECK(range_reader_statistics_of(reader, &statistics) == 0);
    CHECK(statistics.requests >= 1 && statistics.requests <= 4 && statistics.connections >= 1);
    CHECK(statistics.bytes_received == statistics.bytes_used + statistics.bytes_skipped + statistics.bytes_wasted +
                                           statistics.bytes_buffered);
    CHECK(statistics.bytes_used >= 301020 && statistics.retries == 0);
    range_reader_close(reader);
}

static void hints_are_taken(void)
{
    const range_reader_range ranges[] = {{2000000, 2100000}, {0, 0}, {10, 1000}};
    range_reader *reader = opened("/hinted", NULL);
    range_reader_statistics statistics;

    CHECK(range_reader_hint(reader, ranges, 3) == 0);
    CHECK(range_reader_seek(reader, 2000000, SEEK_SET) == 2000000);
    read_exactly(reader, 2000000, 100000);
    CHECK(range_reader_seek(reader, 10, SEEK_SET) == 10);
    read_exactly(reader, 10, 990);
    CHECK(range_reader_statistics_of(reader, &statistics) == 0);
    CHECK(statistics.bytes_used == 100990);
    range_reader_close(reader);
}

static void avio_callbacks_speak_as_ffmpeg_does(void)
{
    range_reader *reader = opened("/avio", NULL);
    uint8_t buffer[64];
    int at;

    CHECK(range_reader_avio_seek(reader, 0, 0x10000) == FILE_BYTES);
    CHECK(range_reader_avio_seek(reader, 7, SEEK_SET | 0x20000) == 7);
    CHECK(range_reader_avio_read(reader, buffer, 1) == 1 && buffer[0] == byte_at(7));
    CHECK(range_reader_avio_seek(reader, -1, SEEK_END) == FILE_BYTES - 1);
    CHECK(range_reader_avio_read(reader, buffer, 64) == 1);
    for (at = 0; at < 3; at++)
        CHECK(range_reader_avio_read(reader, buffer, 64) == -541478725); /* AVERROR_EOF */
    range_reader_interrupt(reader, true);
    CHECK(range_reader_avio_seek(reader, 0, SEEK_SET) == -1414092869); /* AVERROR_EXIT */
    CHECK(range_reader_avio_read(reader, buffer, 64) == -1414092869);
    range_reader_interrupt(reader, false);
    CHECK(range_reader_avio_seek(reader, 0, SEEK_SET) == 0);
    CHECK(range_reader_avio_read(reader, buffer, 64) > 0 && buffer[0] == 0);
    range_reader_close(reader);

    reader = opened("/missing", NULL);
    CHECK(range_reader_avio_read(reader, buffer, 64) == -2); /* AVERROR(ENOENT) */
    range_reader_close(reader);

    reader = opened("/unsaid", NULL);
    CHECK(range_reader_avio_seek(reader, 0, 0x10000) < 0);
    CHECK(range_reader_size(reader) == RANGE_READER_ERROR_UNKNOWN_SIZE);
    CHECK(range_reader_seek(reader, 0, SEEK_END) == RANGE_READER_ERROR_UNKNOWN_SIZE);
    read_exactly(reader, 0, 1000);
    range_reader_close(reader);
}

static void *read_silence(void *reader)
{
    static int64_t result;
    uint8_t buffer[100];

    result = range_reader_read(reader, buffer, sizeof buffer);
    return &result;
}

static void another_thread_interrupts_a_read(void)
{
    range_reader *reader = opened("/silent", NULL);
    range_reader_statistics statistics;
    pthread_t thread;
    void *result;

    /* Before or while it waits: either way it ends. */
    CHECK(pthread_create(&thread, NULL, read_silence, reader) == 0);
    CHECK(range_reader_statistics_of(reader, &statistics) == 0);
    range_reader_interrupt(reader, true);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(*(int64_t *)result == RANGE_READER_ERROR_INTERRUPTED);
    CHECK(range_reader_size(reader) == RANGE_READER_ERROR_INTERRUPTED);
    range_reader_close(reader);
}

static void *read_parts(void *reader)
{
    uint8_t buffer[3001];
    int64_t bytes = 0, count;

    while ((count = range_reader_read(reader, buffer, sizeof buffer)) > 0)
        bytes += count;
    CHECK(count == 0);
    return (void *)(intptr_t)bytes;
}

static void threads_share_one_position(void)
{
    range_reader *reader = opened("/shared", NULL);
    pthread_t threads[3];
    intptr_t bytes = 0;
    int at;

    for (at = 0; at < 3; at++)
        CHECK(pthread_create(&threads[at], NULL, read_parts, reader) == 0);
    for (at = 0; at < 3; at++) {
        void *result;
        CHECK(pthread_join(threads[at], &result) == 0);
        bytes += (intptr_t)result;
    }
    CHECK(bytes == FILE_BYTES);
    range_reader_close(reader);
}

int main(int count, char **arguments)
{
    arguments_are_checked();
    if (count < 2)
        return 0;
    server = arguments[1];
    file_is_read_at_any_position();
    hints_are_taken();
    avio_callbacks_speak_as_ffmpeg_does();
    another_thread_interrupts_a_read();
    threads_share_one_position();
    read_fails("/missing", RANGE_READER_ERROR_NOT_FOUND, "404");
    read_fails("/forbidden", RANGE_READER_ERROR_NOT_ALLOWED, "403");
    return 0;
}
