/* What a C program sees of sendgroup.h. Ends with status 0 if all of it is as the header says. */

#define _POSIX_C_SOURCE 200809L

#include "sendgroup.h"

#include "listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTENERS = 7 };

static struct sendgroup_recipient recipient(const struct listener *listener)
{
    struct sendgroup_recipient recipient;

    memset(&recipient, 0, sizeof(recipient));
    recipient.destination = (const struct sockaddr *)&listener->address;
    recipient.destination_len = sizeof(listener->address);
    return recipient;
}

static int udp_socket(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    CHECK(fd >= 0);
    return fd;
}

static sendgroup_sender *open_sender(int fd, const char *backends)
{
    sendgroup_options options;
    sendgroup_sender *sender = NULL;
    char why[200];

    memset(&options, 0, sizeof(options));
    options.backends = backends;
    CHECK(sendgroup_open(fd, &options, &sender, why, sizeof(why)) == 0);
    CHECK(sender != NULL && why[0] == '\0');
    return sender;
}

/* Each recipient gets the shared packets between bytes of its own, in order. */
static void private_bytes_go_before_and_after(const char *backends)
{
    struct listener listeners[LISTENERS];
    sendgroup_recipient recipients[LISTENERS];
    struct iovec packets[3], before[LISTENERS], after[3];
    char names[LISTENERS][3], expected[32];
    static const char *const shared[3] = {"one", "two", "three"}, *const numbers[3] = {"-1", "-2", "-3"};
    int fd = udp_socket();
    sendgroup_sender *sender = open_sender(fd, backends);
    size_t i, k;

    close(fd); /* the sender has its own */
    for (k = 0; k < 3; k++) {
        packets[k] = piece(shared[k]);
        after[k] = piece(numbers[k]);
    }
    for (i = 0; i < LISTENERS; i++) {
        listeners[i] = listen_somewhere();
        recipients[i] = recipient(&listeners[i]);
        names[i][0] = (char)('A' + i);
        names[i][1] = ':';
        names[i][2] = '\0';
        before[i] = piece(names[i]);
        recipients[i].prepend = &before[i];
        recipients[i].prepend_len = 1;
        recipients[i].append = after;
        recipients[i].append_len = i % 2 == 0 ? 3 : 0;
    }
    CHECK(sendgroup_send(sender, packets, 3, recipients, LISTENERS) == LISTENERS);
    for (i = 0; i < LISTENERS; i++) {
        CHECK(recipients[i].sent == 3 && recipients[i].failed == 0 && recipients[i].error == 0);
        for (k = 0; k < 3; k++) {
            snprintf(expected, sizeof(expected), "%s%s%s", names[i], shared[k], i % 2 == 0 ? numbers[k] : "");
            expect(listeners[i].fd, expected);
        }
    }
    /* Again with the same slots: everything is sent already. */
    CHECK(sendgroup_send(sender, packets, 3, recipients, LISTENERS) == LISTENERS);
    for (i = 0; i < LISTENERS; i++) {
        expect_nothing(listeners[i].fd);
        close(listeners[i].fd);
    }
    sendgroup_close(sender);
}

static void opened_for_one_call(void)
{
    struct listener listener = listen_somewhere();
    sendgroup_recipient one = recipient(&listener);
    struct iovec packet = piece("now and then");
    int fd = udp_socket();

    CHECK(sendgroup_once(fd, &packet, 1, &one, 1) == 1);
    expect(listener.fd, "now and then");
    close(listener.fd);
    close(fd);
}

/* One is wrong in each way there is; those before and after get theirs. */
static void recipients_fail_alone(void)
{
    enum { WRONG = 10 };
    struct listener listener = listen_somewhere();
    struct sockaddr_in6 v6;
    struct sockaddr unknown;
    sendgroup_recipient recipients[WRONG + 2];
    struct iovec packets[3], nowhere, endless;
    static const int errors[WRONG] = {EFAULT, EINVAL,  EINVAL,   EAFNOSUPPORT, EAFNOSUPPORT,
                                      EINVAL, EFAULT, EMSGSIZE, EFAULT,       EINVAL};
    int fd = udp_socket();
    sendgroup_sender *sender = open_sender(fd, NULL);
    size_t i;

    packets[0] = piece("1");
    packets[1] = piece("2");
    packets[2] = piece("3");
    nowhere.iov_base = NULL;
    nowhere.iov_len = 5;
    endless.iov_base = &v6;
    endless.iov_len = SIZE_MAX;
    memset(&v6, 0, sizeof(v6));
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    v6.sin6_port = htons(9);
    memset(&unknown, 0, sizeof(unknown));
    unknown.sa_family = AF_UNIX;
    for (i = 0; i < WRONG + 2; i++) {
        recipients[i] = recipient(&listener);
    }
    recipients[1].destination = NULL;
    recipients[2].destination_len = 1;
    recipients[3].destination_len = sizeof(struct sockaddr_in) - 1;
    recipients[4].destination = &unknown;
    recipients[4].destination_len = sizeof(unknown);
    recipients[5].destination = (const struct sockaddr *)&v6; /* the socket is one of IPv4 */
    recipients[5].destination_len = sizeof(v6);
    recipients[6].prepend = packets; /* two for three packets */
    recipients[6].prepend_len = 2;
    recipients[7].append = NULL;
    recipients[7].append_len = 3;
    recipients[8].append = &endless;
    recipients[8].append_len = 1;
    recipients[9].prepend = &nowhere;
    recipients[9].prepend_len = 1;
    recipients[10].sent = 2; /* more than there is */
    recipients[10].failed = 2;

    CHECK(sendgroup_send(sender, packets, 3, recipients, WRONG + 2) == 2);
    for (i = 1; i <= WRONG; i++) {
        if (recipients[i].error != errors[i - 1]) {
            fprintf(stderr, "recipient %lu: error %d\n", (unsigned long)i, recipients[i].error);
        }
        CHECK(recipients[i].error == errors[i - 1]);
        CHECK(recipients[i].sent == (i == 10 ? 2u : 0u));
    }
    for (i = 0; i < 2; i++) {
        CHECK(recipients[i * (WRONG + 1)].sent == 3 && recipients[i * (WRONG + 1)].error == 0);
        expect(listener.fd, "1");
        expect(listener.fd, "2");
        expect(listener.fd, "3");
    }
    expect_nothing(listener.fd);
    close(listener.fd);
    close(fd);
    sendgroup_close(sender);
}

/* A datagram that is too long fails; the other packets of the recipient do not. */
static void packets_fail_alone(void)
{
    static char large[65000];
    struct listener listener = listen_somewhere();
    sendgroup_recipient one = recipient(&listener);
    struct iovec packets[3], before;
    int fd = udp_socket();
    sendgroup_sender *sender = open_sender(fd, NULL);

    packets[0] = piece("1");
    packets[1].iov_base = large;
    packets[1].iov_len = sizeof(large);
    packets[2] = piece("3");
    before.iov_base = large;
    before.iov_len = 1000;
    one.prepend = &before;
    one.prepend_len = 1;
    CHECK(sendgroup_send(sender, packets, 3, &one, 1) == 0);
    CHECK(one.sent == 2 && one.failed == 1 && one.error == EMSGSIZE);
    close(listener.fd);
    close(fd);
    sendgroup_close(sender);
}

static void room_for_all_comes_in_time(void)
{
    /* Nobody reads meanwhile and the sockets' buffers are small, so that packets are lost at the receiver, as UDP may;
     * the sender's account must be right all the same, and calls must end. */
    enum { MANY = 1000 };
    static sendgroup_recipient recipients[MANY];
    static char payload[1200];
    struct listener listener = listen_somewhere();
    struct iovec packets[4];
    struct pollfd writable = {0, POLLOUT, 0};
    int fd = udp_socket(), size = 1;
    sendgroup_sender *sender;
    ssize_t served;
    size_t i;

    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == 0);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    sender = open_sender(fd, NULL);
    for (i = 0; i < 4; i++) {
        packets[i].iov_base = payload;
        packets[i].iov_len = sizeof(payload);
    }
    for (i = 0; i < MANY; i++) {
        recipients[i] = recipient(&listener);
    }
    while ((served = sendgroup_send(sender, packets, 4, recipients, MANY)) < MANY) {
        CHECK(served >= 0 && recipients[MANY - 1].error == EAGAIN);
        writable.fd = fd;
        CHECK(poll(&writable, 1, 10000) == 1);
    }
    for (i = 0; i < MANY; i++) {
        CHECK(recipients[i].sent == 4 && recipients[i].failed == 0 && recipients[i].error == 0);
    }
    close(listener.fd);
    close(fd);
    sendgroup_close(sender);
}

static void absurd_calls_are_refused(void)
{
    struct listener listener = listen_somewhere();
    sendgroup_recipient one = recipient(&listener), before = one;
    struct iovec packet = piece("x"), nowhere, endless;
    int fd = udp_socket(), tcp = socket(AF_INET, SOCK_STREAM, 0), pipes[2];
    sendgroup_sender *sender = open_sender(fd, NULL), *other = sender;
    sendgroup_options options;
    char why[200], little[4];
    const char *reason = why;

    nowhere.iov_base = NULL;
    nowhere.iov_len = 1;
    endless.iov_base = &one;
    endless.iov_len = SIZE_MAX;
    CHECK(sendgroup_send(NULL, &packet, 1, &one, 1) == -EFAULT);
    CHECK(sendgroup_send(sender, NULL, 1, &one, 1) == -EFAULT);
    CHECK(sendgroup_send(sender, &packet, 1, NULL, 1) == -EFAULT);
    CHECK(sendgroup_send(sender, (struct iovec *)(void *)((char *)&packet + 1), 1, &one, 1) == -EFAULT);
    CHECK(sendgroup_send(sender, &packet, 1, (sendgroup_recipient *)(void *)((char *)&one + 1), 1) == -EFAULT);
    CHECK(sendgroup_send(sender, &nowhere, 1, &one, 1) == -EFAULT);
    CHECK(sendgroup_send(sender, &endless, 1, &one, 1) == -EMSGSIZE);
    CHECK(sendgroup_send(sender, &packet, SIZE_MAX, &one, 1) == -EINVAL);
    CHECK(sendgroup_send(sender, &packet, SENDGROUP_PACKETS_MAX + 1, &one, 1) == -EINVAL);
    CHECK(sendgroup_send(sender, &packet, 1, &one, SIZE_MAX) == -EINVAL);
    CHECK(sendgroup_send(sender, &packet, 1, &one, SENDGROUP_RECIPIENTS_MAX + 1) == -EINVAL);
    CHECK(sendgroup_send(sender, NULL, 0, NULL, 0) == 0);
    CHECK(sendgroup_send(sender, &packet, 1, NULL, 0) == 0);
    CHECK(memcmp(&one, &before, sizeof(one)) == 0);
    CHECK(sendgroup_once(-1, &packet, 1, &one, 1) == -EBADF);
    expect_nothing(listener.fd);

    CHECK(sendgroup_open(fd, NULL, NULL, why, sizeof(why)) == -EFAULT);
    CHECK(sendgroup_open(-1, NULL, &other, NULL, 0) == -EBADF && other == NULL);
    CHECK(sendgroup_open(1 << 20, NULL, &other, NULL, 0) == -EBADF);
    CHECK(tcp >= 0 && sendgroup_open(tcp, NULL, &other, why, sizeof(why)) == -EINVAL && why[0] != '\0');
    CHECK(pipe(pipes) == 0 && sendgroup_open(pipes[0], NULL, &other, NULL, 0) == -ENOTSOCK);
    memset(&options, 0, sizeof(options));
    options.backends = "sendmmsg,carrier_pigeon";
    CHECK(sendgroup_open(fd, &options, &other, why, sizeof(why)) == -EINVAL && strstr(why, "carrier_pigeon") != NULL);
    CHECK(sendgroup_open(fd, &options, &other, little, sizeof(little)) == -EINVAL && strlen(little) == 3);
    options.backends = "\xff\xfe";
    CHECK(sendgroup_open(fd, &options, &other, NULL, 0) == -EINVAL && other == NULL);

    CHECK(sendgroup_backend(NULL) == NULL);
    CHECK(sendgroup_not_chosen(NULL, 0, &reason) == NULL && reason == NULL);
    CHECK(sendgroup_not_chosen(sender, SIZE_MAX, NULL) == NULL);
    sendgroup_close(NULL);
    sendgroup_close(sender);
    close(pipes[0]);
    close(pipes[1]);
    close(tcp);
    close(fd);
    close(listener.fd);
}

static void back_ends_are_chosen_and_say_why_not(void)
{
    int fd = udp_socket();
    sendgroup_sender *sender = open_sender(fd, "sendmmsg");
    sendgroup_options options;
    char why[200];
    const char *reason = NULL;

    CHECK(strcmp(sendgroup_backend(sender), "sendmmsg") == 0);
    CHECK(sendgroup_not_chosen(sender, 0, &reason) == NULL && reason == NULL);
    sendgroup_close(sender);

    /* Without an interface that has this name it cannot be af_xdp, in no build and with no rights. */
    memset(&options, 0, sizeof(options));
    options.backends = "af_xdp, sendmsg";
    options.network_interface = "no-such-device0";
    CHECK(sendgroup_open(fd, &options, &sender, why, sizeof(why)) == 0);
    CHECK(strcmp(sendgroup_backend(sender), "sendmsg") == 0);
    CHECK(strcmp(sendgroup_not_chosen(sender, 0, &reason), "af_xdp") == 0 && strlen(reason) > 0);
    CHECK(sendgroup_not_chosen(sender, 0, NULL) != NULL);
    CHECK(sendgroup_not_chosen(sender, 1, &reason) == NULL && reason == NULL);
    sendgroup_close(sender);

    options.backends = "af_xdp";
    CHECK(sendgroup_open(fd, &options, &sender, why, sizeof(why)) == -EOPNOTSUPP && sender == NULL);
    CHECK(strstr(why, "af_xdp") != NULL);

    options.backends = "auto";
    CHECK(sendgroup_open(fd, &options, &sender, why, sizeof(why)) == 0);
    CHECK(strcmp(sendgroup_backend(sender), "gso") == 0);
    CHECK(strcmp(sendgroup_not_chosen(sender, 0, &reason), "tc_clone") == 0 && strlen(reason) > 0);
    CHECK(strcmp(sendgroup_not_chosen(sender, 1, &reason), "af_xdp") == 0 && strlen(reason) > 0);
    CHECK(sendgroup_not_chosen(sender, 2, NULL) == NULL);
    sendgroup_close(sender);
    close(fd);
}

int main(void)
{
    private_bytes_go_before_and_after(NULL);
    private_bytes_go_before_and_after("gso,sendmmsg");
    private_bytes_go_before_and_after("sendmmsg");
    private_bytes_go_before_and_after("sendmsg");
    opened_for_one_call();
    recipients_fail_alone();
    packets_fail_alone();
    room_for_all_comes_in_time();
    absurd_calls_are_refused();
    back_ends_are_chosen_and_say_why_not();
    return 0;
}
