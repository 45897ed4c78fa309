/* What a C programmer would write: a group as messages of one sendmmsg(2) a chunk, and with segmentation offload all
 * packets of a recipient in one message. Nothing else: no fallback, no record of which recipient got what. It says what this kernel
 * gives on this machine, for the library to be compared with.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { MESSAGES = 256, SEGMENTS = 64, PARTS_OF_MESSAGE = 3 * SEGMENTS, PARTS = 16 * PARTS_OF_MESSAGE, BYTES = 65507 };

struct member {
    const void *address;
    socklen_t address_len;
    /* One for each packet, or null. */
    const struct iovec *before;
    const struct iovec *after;
};

union control {
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr aligned;
};

static struct mmsghdr messages[MESSAGES];
static struct iovec parts[PARTS];
static union control controls[MESSAGES];

static int hand_over(int fd, unsigned count)
{
    for (unsigned sent = 0; sent < count;) {
        int taken = sendmmsg(fd, messages + sent, count - sent, 0);
        if (taken <= 0)
            return -1;
        sent += taken;
    }
    return 0;
}

static void set_segment_size(struct msghdr *header, union control *control, uint16_t size)
{
    header->msg_control = control->bytes;
    header->msg_controllen = sizeof control->bytes;
    struct cmsghdr *message = CMSG_FIRSTHDR(header);
    message->cmsg_level = SOL_UDP;
    message->cmsg_type = UDP_SEGMENT;
    message->cmsg_len = CMSG_LEN(sizeof size);
    memcpy(CMSG_DATA(message), &size, sizeof size);
}

/* Sends each of `k` payloads to each of `n` members, datagrams of `datagram_bytes`; with `segments` a member's packets
 * share messages. 0, or -1 with errno.
 */
int naive_send(int fd, int segments, size_t datagram_bytes, const struct iovec *payloads, size_t k,
               const struct member *members, size_t n)
{
    size_t run_max = segments && datagram_bytes ? BYTES / datagram_bytes : 1;
    if (run_max > SEGMENTS)
        run_max = SEGMENTS;
    unsigned count = 0, used = 0;
    for (const struct member *member = members; member < members + n; member++) {
        for (size_t packet = 0; packet < k;) {
            if (count == MESSAGES || used + PARTS_OF_MESSAGE > PARTS) {
                if (hand_over(fd, count))
                    return -1;
                count = used = 0;
            }
            size_t run = k - packet < run_max ? k - packet : run_max;
            struct msghdr *header = &messages[count].msg_hdr;
            memset(header, 0, sizeof *header);
            header->msg_name = (void *)member->address;
            header->msg_namelen = member->address_len;
            header->msg_iov = parts + used;
            for (size_t end = packet + run; packet < end; packet++) {
                if (member->before)
                    parts[used++] = member->before[packet];
                parts[used++] = payloads[packet];
                if (member->after)
                    parts[used++] = member->after[packet];
            }
            header->msg_iovlen = parts + used - header->msg_iov;
            if (run > 1)
                set_segment_size(header, &controls[count], datagram_bytes);
            count++;
        }
    }
    return count ? hand_over(fd, count) : 0;
}
