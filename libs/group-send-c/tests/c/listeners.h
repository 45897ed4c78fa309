/* What the C tests have in common: a check, sockets that listen, and what came there. */

#ifndef LISTENERS_H
#define LISTENERS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

struct listener {
    int fd;
    struct sockaddr_in address;
};

static struct listener listen_somewhere(void)
{
    struct listener listener;
    socklen_t len = sizeof(listener.address);

    memset(&listener, 0, sizeof(listener));
    listener.fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(listener.fd >= 0);
    listener.address.sin_family = AF_INET;
    listener.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(listener.fd, (struct sockaddr *)&listener.address, len) == 0);
    CHECK(getsockname(listener.fd, (struct sockaddr *)&listener.address, &len) == 0);
    return listener;
}

/* The next datagram is exactly this one. */
static void expect(int fd, const char *bytes)
{
    char buffer[2048];
    struct pollfd readable = {0, POLLIN, 0};
    ssize_t len;

    readable.fd = fd;
    CHECK(poll(&readable, 1, 10000) == 1);
    len = recv(fd, buffer, sizeof(buffer), 0);
    CHECK(len == (ssize_t)strlen(bytes));
    CHECK(memcmp(buffer, bytes, (size_t)len) == 0);
}

static void expect_nothing(int fd)
{
    char byte;

    CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) == -1 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

static struct iovec piece(const char *text)
{
    struct iovec piece;

    piece.iov_base = (void *)(size_t)text;
    piece.iov_len = text == NULL ? 0 : strlen(text);
    return piece;
}

#endif
