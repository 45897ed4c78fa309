/* What does one call cost when the program has only a descriptor? Nanoseconds of CPU time for each datagram on the
 * loopback device, to a socket that never reads, by a loop of sendmsg, by the call of 2008, which remembers the socket, by
 * sendgroup_once, which opens a sender for each call, and by a sender that stays.
 *
 *     cost [milliseconds for each figure]
 */

#define _GNU_SOURCE

#include "sendgroup.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MEMBERS_MAX = 1000, PAYLOAD_BYTES = 1000, HEADER_BYTES = 12, ROUNDS = 5 };

static struct sockaddr_in addresses[MEMBERS_MAX];
static struct sendgroup_member members[MEMBERS_MAX];
static struct sendgroup_recipient recipients[MEMBERS_MAX];
static unsigned char headers[MEMBERS_MAX][HEADER_BYTES], payload_bytes[PAYLOAD_BYTES];
static struct iovec payload = {payload_bytes, PAYLOAD_BYTES};
static struct sendgroup_vec vec = {&payload, 1, members};
static struct sendgroup_sender *sender;
static int sd;

static int by_loop(int count)
{
    struct iovec pieces[2];
    struct msghdr message;
    int i, sent = 0;

    for (i = 0; i < count; i++) {
        pieces[0] = members[i].prepend;
        pieces[1] = payload;
        memset(&message, 0, sizeof(message));
        message.msg_name = &addresses[i];
        message.msg_namelen = sizeof(addresses[i]);
        message.msg_iov = pieces;
        message.msg_iovlen = 2;
        sent += sendmsg(sd, &message, 0) > 0;
    }
    return sent;
}

static int by_2008(int count)
{
    return sendgroup(sd, &vec, count, 0, NULL);
}

static void fresh(int count)
{
    int i;

    for (i = 0; i < count; i++) {
        recipients[i].sent = recipients[i].failed = 0;
        recipients[i].error = 0;
    }
}

static int by_once(int count)
{
    fresh(count);
    return (int)sendgroup_once(sd, &payload, 1, recipients, (size_t)count);
}

static int by_sender(int count)
{
    fresh(count);
    return (int)sendgroup_send(sender, &payload, 1, recipients, (size_t)count);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double measure(int (*send)(int), int count, double ns)
{
    double start = now(), end;
    long datagrams = 0;

    do {
        if (send(count) != count) {
            fprintf(stderr, "not all were sent\n");
            exit(1);
        }
        datagrams += count;
    } while ((end = now()) - start < ns);
    return (end - start) / (double)datagrams;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*send)(int);
    } contenders[] = {{"loop", by_loop}, {"sendgroup", by_2008}, {"sendgroup_once", by_once}, {"sender", by_sender}};
    static const int counts[] = {1, 10, 100, 1000};
    double ns = (argc > 1 ? atof(argv[1]) : 200) * 1e6 / ROUNDS, best[4], figure;
    size_t i, k, round;

    struct sockaddr_in any = {0};
    socklen_t len = sizeof(any);
    int sink = socket(AF_INET, SOCK_DGRAM, 0);

    any.sin_family = AF_INET;
    if (bind(sink, (struct sockaddr *)&any, len) != 0 || getsockname(sink, (struct sockaddr *)&any, &len) != 0) {
        perror("bind");
        return 1;
    }
    sd = socket(AF_INET, SOCK_DGRAM, 0);
    for (i = 0; i < MEMBERS_MAX; i++) {
        addresses[i].sin_family = AF_INET;
        addresses[i].sin_addr.s_addr = htonl(0x7f010000 + (unsigned)i);
        addresses[i].sin_port = any.sin_port;
        members[i].name = (struct sockaddr *)&addresses[i];
        members[i].namelen = sizeof(addresses[i]);
        members[i].prepend.iov_base = headers[i];
        members[i].prepend.iov_len = HEADER_BYTES;
        recipients[i].destination = members[i].name;
        recipients[i].destination_len = members[i].namelen;
        recipients[i].prepend = &members[i].prepend;
        recipients[i].prepend_len = 1;
    }
    if (sd < 0 || sendgroup_open(sd, NULL, &sender, NULL, 0) != 0) {
        perror("socket");
        return 1;
    }
    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (round = 0; round < ROUNDS; round++) { /* in turn, the best of each: others use the machine too */
            for (k = 0; k < 4; k++) {
                figure = measure(contenders[k].send, counts[i], ns);
                best[k] = round == 0 || figure < best[k] ? figure : best[k];
            }
        }
        for (k = 0; k < 4; k++) {
            printf("RESULT sendgroup-cost members=%d contender=%s ns_per_datagram=%.0f vs_loop=%.2f\n", counts[i],
                   contenders[k].name, best[k], best[0] / best[k]);
        }
    }
    sendgroup_close(sender);
    close(sd);
    close(sink);
    return 0;
}
