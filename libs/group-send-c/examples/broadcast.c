/* A live broadcast as programs of 2008 wrote it: one group, one call for each packet, an error for each client. With a
 * kernel that had the system call only the include differs.
 *
 *     broadcast [clients] [packets]
 *
 * Two clients listen on the loopback device; the others are addresses of nobody.
 */

#include "sendgroup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAYLOAD_BYTES = 1000, HEADER_BYTES = 12 };

struct client {
    struct sockaddr_in address;
    unsigned char header[HEADER_BYTES]; /* of RTP: its own sequence number and SSRC */
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int listen_here(struct sockaddr_in *address)
{
    socklen_t len = sizeof(*address);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)address, &len) != 0) {
        fail("listen");
    }
    return fd;
}

static int heard(int fd)
{
    char packet[2048];
    int packets = 0;

    while (recv(fd, packet, sizeof(packet), MSG_DONTWAIT) == HEADER_BYTES + PAYLOAD_BYTES) {
        packets++;
    }
    return packets;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1000, packets = argc > 2 ? atoi(argv[2]) : 100;
    int sd = socket(AF_INET, SOCK_DGRAM, 0), first, last, first_heard = 0, last_heard = 0, i, n;
    struct client *clients;
    struct sendgroup_member *members;
    struct sendgroup_vec vec;
    struct iovec payload;
    static unsigned char bytes[PAYLOAD_BYTES];
    int *errors;
    unsigned long sent = 0, lost = 0;

    if (count < 2 || count > 100000 || packets < 0) {
        fprintf(stderr, "broadcast [clients: 2 to 100000] [packets]\n");
        return 1;
    }
    clients = calloc((size_t)count, sizeof(*clients));
    members = calloc((size_t)count, sizeof(*members));
    errors = calloc((size_t)count, sizeof(*errors));
    if (sd < 0 || clients == NULL || members == NULL || errors == NULL) {
        fail("start");
    }
    for (i = 0; i < count; i++) {
        clients[i].address.sin_family = AF_INET;
        clients[i].address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (i % (count - 1) == 0 ? 0 : 1 + (unsigned)i));
        clients[i].address.sin_port = htons(i % (count - 1) == 0 ? 0 : 5004);
        members[i].name = (struct sockaddr *)&clients[i].address;
        members[i].namelen = sizeof(clients[i].address);
        members[i].prepend.iov_base = clients[i].header;
        members[i].prepend.iov_len = HEADER_BYTES;
    }
    first = listen_here(&clients[0].address);
    last = listen_here(&clients[count - 1].address);

    payload.iov_base = bytes;
    payload.iov_len = sizeof(bytes);
    vec.payload = &payload;
    vec.payload_len = 1;
    vec.members = members;
    for (n = 0; n < packets; n++) {
        for (i = 0; i < count; i++) {
            clients[i].header[0] = 0x80;
            clients[i].header[2] = (unsigned char)(n >> 8);
            clients[i].header[3] = (unsigned char)n;
        }
        i = sendgroup(sd, &vec, count, MSG_DONTWAIT | MSG_CONFIRM, errors);
        if (i < 0) {
            fail("sendgroup");
        }
        sent += (unsigned long)i;
        for (i = 0; i < count; i++) {
            lost += errors[i] == EAGAIN; /* live: the next packet is worth more than this one */
            if (errors[i] != 0 && errors[i] != EAGAIN) {
                fprintf(stderr, "client %d: %s\n", i, strerror(errors[i]));
            }
        }
        first_heard += heard(first);
        last_heard += heard(last);
    }
    printf("%d packets to %d clients: %lu sent, %lu without room; first client received %d, last client %d\n", packets,
           count, sent, lost, first_heard, last_heard);
    close(first);
    close(last);
    close(sd);
    free(clients);
    free(members);
    free(errors);
    return 0;
}
