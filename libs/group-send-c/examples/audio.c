/* Live audio to N listeners on the loopback device: every 20 ms one frame of 160 bytes, shared by all, behind an RTP
 * header of 12 bytes that is each listener's own (RFC 3550 section 5.1). Two sockets listen; the other addresses are
 * those of nobody.
 *
 *     audio [listeners] [milliseconds]
 */

#define _POSIX_C_SOURCE 200809L

#include "sendgroup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_MS = 20, FRAME_BYTES = 160, HEADER_BYTES = 12, LISTENERS_MAX = 100000 };

struct listener {
    struct sockaddr_in address;
    unsigned char header[HEADER_BYTES];
    struct iovec prepend;
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* A socket on the loopback device, and its address. */
static int listen_here(struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t len = sizeof(*address);

    if (fd < 0 || bind(fd, (struct sockaddr *)address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)address, &len) != 0) {
        fail("listener");
    }
    return fd;
}

static void write_header(unsigned char *header, unsigned frame, unsigned ssrc)
{
    unsigned timestamp = frame * FRAME_BYTES; /* 8000 samples a second, a byte each: payload type 0 (RFC 3551) */

    header[0] = 0x80;
    header[1] = 0;
    header[2] = (unsigned char)(frame >> 8);
    header[3] = (unsigned char)frame;
    timestamp = htonl(timestamp);
    memcpy(header + 4, &timestamp, 4);
    ssrc = htonl(ssrc);
    memcpy(header + 8, &ssrc, 4);
}

/* Packets that wait in a listener's socket. */
static unsigned received(int fd)
{
    unsigned char packet[FRAME_BYTES + HEADER_BYTES + 1];
    unsigned packets = 0;

    while (recv(fd, packet, sizeof(packet), MSG_DONTWAIT) == FRAME_BYTES + HEADER_BYTES) {
        packets++;
    }
    return packets;
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 1000, i;
    unsigned frames = (argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 2000) / FRAME_MS, frame;
    unsigned char payload[FRAME_BYTES] = {0xff}; /* silence in G.711 */
    struct listener *listeners;
    sendgroup_recipient *recipients;
    sendgroup_sender *sender;
    unsigned long served = 0, first_heard = 0, last_heard = 0;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), first, last, buffer = 4 << 20;
    char why[400];
    const char *name, *reason;
    struct timespec next;

    if (n < 2 || n > LISTENERS_MAX || frames > 100000) {
        fprintf(stderr, "audio [listeners: 2 to %d] [milliseconds]\n", LISTENERS_MAX);
        return 1;
    }
    listeners = calloc(n, sizeof(*listeners));
    recipients = calloc(n, sizeof(*recipients));
    if (fd < 0 || listeners == NULL || recipients == NULL) {
        fail("start");
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
    for (i = 0; i < n; i++) {
        struct listener *listener = &listeners[i];
        listener->address.sin_family = AF_INET;
        /* 127.1.0.0 and up: addresses of this host on which nobody listens */
        listener->address.sin_addr.s_addr = htonl(i == 0 || i == n - 1 ? INADDR_LOOPBACK : 0x7f010000 + (unsigned)i);
        listener->address.sin_port = htons(5004);
        listener->prepend.iov_base = listener->header;
        listener->prepend.iov_len = HEADER_BYTES;
        recipients[i].destination = (const struct sockaddr *)&listener->address;
        recipients[i].destination_len = sizeof(listener->address);
        recipients[i].prepend = &listener->prepend;
        recipients[i].prepend_len = 1;
    }
    listeners[0].address.sin_port = listeners[n - 1].address.sin_port = 0;
    first = listen_here(&listeners[0].address);
    last = listen_here(&listeners[n - 1].address);

    if (sendgroup_open(fd, NULL, &sender, why, sizeof(why)) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    printf("back end %s\n", sendgroup_backend(sender));
    for (i = 0; (name = sendgroup_not_chosen(sender, i, &reason)) != NULL; i++) {
        printf("not %s: %s\n", name, reason);
    }

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (frame = 0; frame < frames; frame++) {
        struct iovec packet;
        struct pollfd writable;
        ssize_t complete;

        packet.iov_base = payload;
        packet.iov_len = FRAME_BYTES;
        for (i = 0; i < n; i++) {
            write_header(listeners[i].header, frame, 1000 + (unsigned)i);
            recipients[i].sent = recipients[i].failed = 0;
            recipients[i].error = 0;
        }
        /* Go on where the socket's buffer was full, but not into the next frame's time. */
        writable.fd = fd;
        writable.events = POLLOUT;
        while ((complete = sendgroup_send(sender, &packet, 1, recipients, n)) >= 0 && recipients[n - 1].error == EAGAIN) {
            if (poll(&writable, 1, FRAME_MS) != 1) {
                break;
            }
        }
        if (complete < 0) {
            fprintf(stderr, "sendgroup_send: %s\n", strerror((int)-complete));
            return 1;
        }
        served += (unsigned long)complete;
        first_heard += received(first);
        last_heard += received(last);

        next.tv_nsec += FRAME_MS * 1000000L;
        if (next.tv_nsec >= 1000000000L) {
            next.tv_nsec -= 1000000000L;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    first_heard += received(first);
    last_heard += received(last);
    printf("%u frames to %lu listeners: %lu packets sent; first listener received %lu packets, last listener %lu\n",
           frames, (unsigned long)n, served, first_heard, last_heard);
    sendgroup_close(sender);
    close(first);
    close(last);
    close(fd);
    free(listeners);
    free(recipients);
    return 0;
}
