/* A server of libsrt's own: a transport stream that comes by UDP goes to all callers.
 *
 * usage: fan_out UDP_PORT SRT_PORT LATENCY_MS
 *
 * One thread of ours sends, as a media server with this library would: non-blocking sockets, one message for
 * each datagram and caller. The library has threads of its own below that. A caller whose queue is full
 * misses a message, and one that fails is closed. Prints a line when it listens. Ends when it is killed.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <srt/srt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define CALLERS_MAX 4096
#define DATAGRAM_MAX 1500
/* How long a datagram is waited for before new callers are looked for. */
#define WAIT_MS 2

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, srt_getlasterror_str());
    exit(1);
}

static struct sockaddr_in loopback(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static SRTSOCKET listener(const char *port, int latency_ms)
{
    struct sockaddr_in address = loopback(port);
    int no = 0;
    SRTSOCKET socket = srt_create_socket();
    if (socket == SRT_INVALID_SOCK)
        fail("no socket of libsrt");
    /* Accepted sockets have these too. */
    if (srt_setsockflag(socket, SRTO_RCVSYN, &no, sizeof no) == SRT_ERROR
        || srt_setsockflag(socket, SRTO_SNDSYN, &no, sizeof no) == SRT_ERROR
        || srt_setsockflag(socket, SRTO_LATENCY, &latency_ms, sizeof latency_ms) == SRT_ERROR)
        fail("an option");
    if (srt_bind(socket, (struct sockaddr *)&address, sizeof address) == SRT_ERROR)
        fail("bind");
    if (srt_listen(socket, 1024) == SRT_ERROR)
        fail("listen");
    return socket;
}

static int source(const char *port)
{
    struct sockaddr_in address = loopback(port);
    int buffer = 4 << 20;
    int udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (udp < 0 || bind(udp, (struct sockaddr *)&address, sizeof address) < 0) {
        perror("the source's port");
        exit(1);
    }
    setsockopt(udp, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    return udp;
}

/* Whether a caller stays. */
static int sent(SRTSOCKET caller, const char *message, int length)
{
    if (srt_sendmsg2(caller, message, length, NULL) != SRT_ERROR)
        return 1;
    return srt_getlasterror(NULL) == SRT_EASYNCSND;
}

int main(int count, char **words)
{
    static SRTSOCKET callers[CALLERS_MAX];
    int known = 0;
    if (count != 4) {
        fprintf(stderr, "usage: fan_out UDP_PORT SRT_PORT LATENCY_MS\n");
        return 2;
    }
    if (srt_startup() < 0)
        fail("startup");
    SRTSOCKET listening = listener(words[2], atoi(words[3]));
    struct pollfd udp = {.fd = source(words[1]), .events = POLLIN};
    printf("listens\n");
    fflush(stdout);
    for (;;) {
        char datagram[DATAGRAM_MAX];
        ssize_t length;
        SRTSOCKET caller;
        poll(&udp, 1, WAIT_MS);
        while (known < CALLERS_MAX && (caller = srt_accept(listening, NULL, NULL)) != SRT_INVALID_SOCK)
            callers[known++] = caller;
        while ((length = recv(udp.fd, datagram, sizeof datagram, 0)) > 0) {
            for (int at = 0; at < known;) {
                if (sent(callers[at], datagram, (int)length)) {
                    at++;
                } else {
                    srt_close(callers[at]);
                    callers[at] = callers[--known];
                }
            }
        }
    }
}
