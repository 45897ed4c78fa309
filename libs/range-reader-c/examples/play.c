/* Decodes a film and prints a line per frame: kind, time, size, checksum. What FFmpeg reads comes through range_reader, as
 * AVIO callbacks; a file name instead of a URL is read by FFmpeg itself, and prints the same lines.
 *
 *     play URL|FILE [SECONDS]      with SECONDS: 40 frames, then on from there
 *
 *     cc play.c $(pkg-config --cflags --libs range-reader-c libavformat libavcodec libavutil) -o play
 *
 * For FFmpeg 5.1 and newer. A player would show the frames; all else is as it would do it. */

#include "range_reader.h"

#include <inttypes.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libavutil/mem.h>
#include <libavutil/samplefmt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (32 << 10)

static void fail(const char *what, int error)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";

    av_strerror(error, text, sizeof text);
    fprintf(stderr, "play: %s: %s\n", what, text);
    exit(1);
}

/* FNV-1a, 64 bits. */
static uint64_t checksum(uint64_t sum, const uint8_t *bytes, size_t count)
{
    size_t at;

    for (at = 0; at < count; at++)
        sum = (sum ^ bytes[at]) * UINT64_C(0x100000001b3);
    return sum;
}

static void print_video(const AVFrame *frame)
{
    int bytes = av_image_get_buffer_size(frame->format, frame->width, frame->height, 1);
    uint8_t *image = bytes > 0 ? av_malloc((size_t)bytes) : NULL;

    if (!image)
        fail("frame", AVERROR(ENOMEM));
    /* Without what is between the lines. */
    av_image_copy_to_buffer(image, bytes, (const uint8_t *const *)frame->data, frame->linesize, frame->format,
                            frame->width, frame->height, 1);
    printf("video %" PRId64 " %dx%d %016" PRIx64 "\n", frame->pts, frame->width, frame->height,
           checksum(UINT64_C(0xcbf29ce484222325), image, (size_t)bytes));
    av_free(image);
}

static void print_audio(const AVFrame *frame)
{
    int planar = av_sample_fmt_is_planar(frame->format), channels = frame->ch_layout.nb_channels, plane;
    size_t bytes = (size_t)frame->nb_samples * (size_t)av_get_bytes_per_sample(frame->format);
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    for (plane = 0; plane < (planar ? channels : 1); plane++)
        sum = checksum(sum, frame->extended_data[plane], planar ? bytes : bytes * (size_t)channels);
    printf("audio %" PRId64 " %d %016" PRIx64 "\n", frame->pts, frame->nb_samples, sum);
}

/* Decodes a packet, or what is left in the decoder if it is NULL, and returns how many frames that gave. */
static int decode(AVCodecContext *decoder, const AVPacket *packet, AVFrame *frame)
{
    int frames = 0, result = avcodec_send_packet(decoder, packet);

    if (result < 0)
        fail("decoder", result);
    while ((result = avcodec_receive_frame(decoder, frame)) >= 0) {
        if (decoder->codec_type == AVMEDIA_TYPE_VIDEO)
            print_video(frame);
        else
            print_audio(frame);
        frames++;
    }
    if (result != AVERROR(EAGAIN) && result != AVERROR_EOF)
        fail("decoder", result);
    return frames;
}

static AVCodecContext *decoder_of(const AVStream *stream)
{
    const AVCodec *codec = avcodec_find_decoder(stream->codecpar->codec_id);
    AVCodecContext *decoder = codec ? avcodec_alloc_context3(codec) : NULL;
    int result;

    if (!decoder)
        return NULL;
    result = avcodec_parameters_to_context(decoder, stream->codecpar);
    if (result >= 0)
        result = avcodec_open2(decoder, codec, NULL);
    if (result < 0)
        fail("decoder", result);
    return decoder;
}

int main(int count, char **arguments)
{
    range_reader_options options = {0};
    range_reader *reader = NULL;
    range_reader_statistics cost;
    AVFormatContext *film = avformat_alloc_context();
    AVIOContext *io = NULL;
    AVCodecContext *decoders[8] = {NULL};
    AVPacket *packet = av_packet_alloc();
    AVFrame *frame = av_frame_alloc();
    char why[200];
    unsigned stream;
    int result, frames = 0, seeks = count > 2;

    if (count < 2 || !film || !packet || !frame) {
        fprintf(stderr, "usage: play URL|FILE [SECONDS]\n");
        return 2;
    }
    if (strncmp(arguments[1], "http", 4) == 0) {
        /* A person chose the URL: it may be on this machine, too. */
        options.any_address = true;
        options.proxies_of_environment = true;
        if (range_reader_open(arguments[1], &options, &reader, why, sizeof why) != 0) {
            fprintf(stderr, "play: %s\n", why);
            return 1;
        }
        io = avio_alloc_context(av_malloc(BUFFER_BYTES), BUFFER_BYTES, 0, reader, range_reader_avio_read, NULL,
                                range_reader_avio_seek);
        if (!io)
            fail("buffer", AVERROR(ENOMEM));
        film->pb = io;
    }
    result = avformat_open_input(&film, arguments[1], NULL, NULL);
    if (result < 0) {
        if (reader) {
            range_reader_error_text(reader, why, sizeof why);
            fprintf(stderr, "play: %s\n", why);
        }
        fail(arguments[1], result);
    }
    result = avformat_find_stream_info(film, NULL);
    if (result < 0)
        fail("streams", result);
    for (stream = 0; stream < film->nb_streams && stream < 8; stream++) {
        enum AVMediaType type = film->streams[stream]->codecpar->codec_type;
        if (type == AVMEDIA_TYPE_VIDEO || type == AVMEDIA_TYPE_AUDIO)
            decoders[stream] = decoder_of(film->streams[stream]);
    }

    while ((result = av_read_frame(film, packet)) >= 0) {
        if (packet->stream_index < 8 && decoders[packet->stream_index])
            frames += decode(decoders[packet->stream_index], packet, frame);
        av_packet_unref(packet);
        if (seeks && frames >= 40) {
            seeks = 0;
            result = av_seek_frame(film, -1, (int64_t)(atof(arguments[2]) * AV_TIME_BASE), AVSEEK_FLAG_BACKWARD);
            if (result < 0)
                fail("seek", result);
            for (stream = 0; stream < 8; stream++)
                if (decoders[stream])
                    avcodec_flush_buffers(decoders[stream]);
        }
    }
    if (result != AVERROR_EOF)
        fail("read", result);
    for (stream = 0; stream < 8; stream++) {
        if (decoders[stream])
            decode(decoders[stream], NULL, frame);
        avcodec_free_context(&decoders[stream]);
    }

    av_frame_free(&frame);
    av_packet_free(&packet);
    /* The I/O context is the caller's, and so is its buffer, which FFmpeg may have replaced. */
    avformat_close_input(&film);
    if (io)
        av_freep(&io->buffer);
    avio_context_free(&io);
    if (reader) {
        range_reader_statistics_of(reader, &cost);
        fprintf(stderr, "play: %" PRIu64 " requests, %" PRIu64 " connections, %" PRIu64 " bytes, %" PRIu64 " of them used\n",
                cost.requests, cost.connections, cost.bytes_received, cost.bytes_used);
        range_reader_close(reader);
    }
    return 0;
}
