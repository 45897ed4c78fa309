/* The call of 2008 as a C program sees it. Ends with status 0 if all of it is as the header says. */

#define _GNU_SOURCE

#include "sendgroup.h"

#include "listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS = 9 };

/* What the library gives the kernel comes by here. */
static int flags_seen, calls_seen, opens_seen;

ssize_t sendto(int fd, const void *bytes, size_t len, int flags, __CONST_SOCKADDR_ARG name, socklen_t namelen)
{
    flags_seen = flags;
    __atomic_add_fetch(&calls_seen, 1, __ATOMIC_RELAXED);
    return syscall(SYS_sendto, fd, bytes, len, flags, name.__sockaddr__, namelen);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    if (count == 0) {
        opens_seen++; /* the question whether the kernel has it, when a sender is made */
    } else {
        flags_seen = flags;
        __atomic_add_fetch(&calls_seen, 1, __ATOMIC_RELAXED);
    }
    return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static struct sendgroup_member member(const struct listener *listener)
{
    struct sendgroup_member member;

    memset(&member, 0, sizeof(member));
    member.name = (const struct sockaddr *)&listener->address;
    member.namelen = sizeof(listener->address);
    return member;
}

static struct sendgroup_vec group(const struct iovec *payload, size_t pieces, const struct sendgroup_member *members)
{
    struct sendgroup_vec vec;

    vec.payload = payload;
    vec.payload_len = pieces;
    vec.members = members;
    return vec;
}

static int udp_socket(int family)
{
    int fd = socket(family, SOCK_DGRAM, 0);

    CHECK(fd >= 0);
    return fd;
}

/* errno after a call that must fail, with no error slot touched. */
static int refusal(int sd, const struct sendgroup_vec *vec, int count, int flags)
{
    int slot = 4711;

    errno = 0;
    CHECK(sendgroup(sd, vec, count, flags, count == 1 ? &slot : NULL) == -1);
    CHECK(slot == 4711);
    return errno;
}

static void each_gets_the_payload_between_its_own_bytes(void)
{
    struct listener listeners[MEMBERS];
    struct sendgroup_member members[MEMBERS];
    struct iovec payload[3];
    struct sendgroup_vec vec;
    int errors[MEMBERS], i, pieces, fd = udp_socket(AF_INET);
    char names[MEMBERS][3], expected[32];
    static const char *const whole[3] = {"one", "onetwo", "onetwothree"};

    payload[0] = piece("one");
    payload[1] = piece("two");
    payload[2] = piece("three");
    for (i = 0; i < MEMBERS; i++) {
        listeners[i] = listen_somewhere();
        members[i] = member(&listeners[i]);
        sprintf(names[i], "%d:", i);
        if (i % 2 == 0) {
            members[i].prepend = piece(names[i]);
        }
        if (i % 3 == 0) {
            members[i].append = piece("!");
        }
    }
    for (pieces = 1; pieces <= 3; pieces++) {
        vec = group(payload, (size_t)pieces, members);
        memset(errors, 0x55, sizeof(errors));
        CHECK(sendgroup(fd, &vec, MEMBERS, 0, errors) == MEMBERS);
        for (i = 0; i < MEMBERS; i++) {
            CHECK(errors[i] == 0);
            sprintf(expected, "%s%s%s", i % 2 == 0 ? names[i] : "", whole[pieces - 1], i % 3 == 0 ? "!" : "");
            expect(listeners[i].fd, expected);
        }
    }
    CHECK(sendgroup(fd, &vec, MEMBERS, 0, NULL) == MEMBERS);
    vec = group(NULL, 0, members); /* a datagram of private bytes only */
    CHECK(sendgroup(fd, &vec, 1, 0, errors) == 1 && errors[0] == 0);
    expect(listeners[0].fd, "0:onetwothree!");
    expect(listeners[0].fd, "0:!");
    CHECK(sendgroup(fd, &vec, 0, 0, errors) == 0);
    for (i = 0; i < MEMBERS; i++) {
        close(listeners[i].fd);
    }
    close(fd);
}

static void flags_reach_the_kernel(void)
{
    struct listener listener = listen_somewhere();
    struct sendgroup_member members[MEMBERS];
    struct iovec payload = piece("x");
    struct sendgroup_vec vec = group(&payload, 1, members);
    int i, count, fd = udp_socket(AF_INET);
    static const int unknown[] = {MSG_OOB, MSG_MORE, MSG_DONTROUTE, INT_MIN, 1 << 30};

    for (i = 0; i < MEMBERS; i++) {
        members[i] = member(&listener);
    }
    for (count = 1; count <= MEMBERS; count += MEMBERS - 1) { /* by sendto, and by sendmmsg */
        CHECK(sendgroup(fd, &vec, count, MSG_DONTWAIT, NULL) == count && (flags_seen & MSG_CONFIRM) == 0);
        CHECK(sendgroup(fd, &vec, count, MSG_CONFIRM, NULL) == count && (flags_seen & MSG_CONFIRM) != 0);
        CHECK(sendgroup(fd, &vec, count, MSG_CONFIRM | MSG_DONTWAIT | MSG_NOSIGNAL, NULL) == count);
        CHECK((flags_seen & MSG_CONFIRM) != 0);
        CHECK(sendgroup(fd, &vec, count, 0, NULL) == count && (flags_seen & MSG_CONFIRM) == 0);
    }
    for (i = 0; i < (int)(sizeof(unknown) / sizeof(unknown[0])); i++) {
        CHECK(refusal(fd, &vec, 1, unknown[i]) == EOPNOTSUPP);
    }
    close(listener.fd);
    close(fd);
}

/* One is wrong in each way there is; those before and after get theirs. */
static void members_fail_alone(void)
{
    enum { WRONG = 9 };
    struct listener listener = listen_somewhere();
    struct sockaddr_in6 v6;
    struct sockaddr unknown;
    struct sockaddr_in port_0;
    struct sendgroup_member members[WRONG + 2];
    struct iovec payload = piece("shared");
    struct sendgroup_vec vec = group(&payload, 1, members);
    static char large[65000];
    static const int expected[WRONG] = {EFAULT, EINVAL, EINVAL, EAFNOSUPPORT, EAFNOSUPPORT,
                                        EFAULT, EMSGSIZE, EMSGSIZE, EINVAL};
    int errors[WRONG + 2], i, fd = udp_socket(AF_INET);

    memset(&v6, 0, sizeof(v6));
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    v6.sin6_port = htons(9);
    memset(&unknown, 0, sizeof(unknown));
    unknown.sa_family = AF_UNIX;
    port_0 = listener.address;
    port_0.sin_port = 0;
    for (i = 0; i < WRONG + 2; i++) {
        members[i] = member(&listener);
    }
    members[1].name = NULL;
    members[2].namelen = 1;
    members[3].namelen = sizeof(struct sockaddr_in) - 1;
    members[4].name = &unknown;
    members[4].namelen = sizeof(unknown);
    members[5].name = (const struct sockaddr *)&v6; /* the socket is one of IPv4 */
    members[5].namelen = sizeof(v6);
    members[6].prepend.iov_len = 5; /* at NULL */
    members[7].append.iov_base = &v6;
    members[7].append.iov_len = SIZE_MAX;
    members[8].prepend.iov_base = members[8].append.iov_base = large; /* together longer than UDP allows */
    members[8].prepend.iov_len = members[8].append.iov_len = sizeof(large);
    members[9].name = (const struct sockaddr *)&port_0;

    CHECK(sendgroup(fd, &vec, WRONG + 2, 0, errors) == 2);
    for (i = 1; i <= WRONG; i++) {
        if (errors[i] != expected[i - 1]) {
            fprintf(stderr, "member %d: error %d\n", i, errors[i]);
        }
        CHECK(errors[i] == expected[i - 1]);
    }
    CHECK(errors[0] == 0 && errors[WRONG + 1] == 0);
    expect(listener.fd, "shared");
    expect(listener.fd, "shared");
    expect_nothing(listener.fd);
    /* All of them wrong is no error of the call. */
    vec.members = members + 1;
    CHECK(sendgroup(fd, &vec, WRONG, 0, errors) == 0);
    close(listener.fd);
    close(fd);
}

static void absurd_calls_are_refused(void)
{
    struct listener listener = listen_somewhere();
    struct sendgroup_member one = member(&listener);
    struct iovec payload[1025];
    struct sendgroup_vec vec;
    static char large[40000];
    int i, pipes[2], closed, fd = udp_socket(AF_INET), tcp = socket(AF_INET, SOCK_STREAM, 0);
    char *unaligned = (char *)&vec + 1;

    for (i = 0; i < 1025; i++) {
        payload[i] = piece("x");
    }
    vec = group(payload, 1, &one);
    CHECK(pipe(pipes) == 0 && tcp >= 0);
    closed = dup(fd);
    close(closed);
    CHECK(refusal(-1, &vec, 1, 0) == EBADF);
    CHECK(refusal(INT_MIN, &vec, 1, 0) == EBADF);
    CHECK(refusal(INT_MAX, &vec, 1, 0) == EBADF);
    CHECK(refusal(closed, &vec, 1, 0) == EBADF);
    CHECK(refusal(pipes[0], &vec, 1, 0) == ENOTSOCK);
    CHECK(refusal(tcp, &vec, 1, 0) == EINVAL);
    CHECK(refusal(fd, NULL, 1, 0) == EFAULT);
    CHECK(refusal(fd, (const struct sendgroup_vec *)(const void *)unaligned, 1, 0) == EFAULT);
    CHECK(refusal(fd, &vec, -1, 0) == EINVAL);
    CHECK(refusal(fd, &vec, INT_MIN, 0) == EINVAL);
    CHECK(refusal(fd, &vec, INT_MAX, 0) == EINVAL);
    CHECK(refusal(fd, &vec, (1 << 20) + 1, 0) == EINVAL);
    errno = 0;
    CHECK(sendgroup(fd, &vec, 1, 0, (int *)(void *)unaligned) == -1 && errno == EFAULT);
    vec = group(payload, 1, NULL);
    CHECK(refusal(fd, &vec, 1, 0) == EFAULT);
    CHECK(sendgroup(fd, &vec, 0, 0, NULL) == 0);
    vec = group(NULL, 1, &one);
    CHECK(refusal(fd, &vec, 1, 0) == EFAULT);
    vec = group(payload, 1025, &one);
    CHECK(refusal(fd, &vec, 1, 0) == EINVAL);
    vec = group(payload, SIZE_MAX, &one);
    CHECK(refusal(fd, &vec, 1, 0) == EINVAL);
    vec = group(payload, 2, &one);
    payload[0].iov_len = SIZE_MAX;
    CHECK(refusal(fd, &vec, 1, 0) == EMSGSIZE);
    payload[0].iov_base = payload[1].iov_base = large;
    payload[0].iov_len = payload[1].iov_len = sizeof(large);
    CHECK(refusal(fd, &vec, 1, 0) == EMSGSIZE);
    expect_nothing(listener.fd);
    close(pipes[0]);
    close(pipes[1]);
    close(tcp);
    close(fd);
    close(listener.fd);
}

/* Descriptors are numbers that are used again: closing a socket frees its port at once, and another socket behind the
 * same number is treated as what it is. */
static void a_number_that_is_used_again_is_another_socket(void)
{
    struct listener listener = listen_somewhere(), v6_listener;
    struct sockaddr_in6 v6;
    struct sockaddr_in local;
    struct sendgroup_member to_v4 = member(&listener), to_v6;
    struct iovec payload = piece("hello");
    struct sendgroup_vec vec = group(&payload, 1, &to_v4);
    socklen_t len = sizeof(v6);
    int error, fd, again, tcp;

    memset(&v6, 0, sizeof(v6));
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    v6_listener.fd = udp_socket(AF_INET6);
    CHECK(bind(v6_listener.fd, (struct sockaddr *)&v6, len) == 0);
    CHECK(getsockname(v6_listener.fd, (struct sockaddr *)&v6, &len) == 0);
    to_v6 = to_v4;
    to_v6.name = (const struct sockaddr *)&v6;
    to_v6.namelen = sizeof(v6);

    fd = udp_socket(AF_INET);
    CHECK(sendgroup(fd, &vec, 1, 0, &error) == 1);
    expect(listener.fd, "hello");
    len = sizeof(local);
    CHECK(getsockname(fd, (struct sockaddr *)&local, &len) == 0);
    close(fd);
    CHECK(refusal(fd, &vec, 1, 0) == EBADF);
    /* The same number, the same port. */
    again = udp_socket(AF_INET);
    CHECK(again == fd);
    CHECK(bind(again, (struct sockaddr *)&local, sizeof(local)) == 0);
    CHECK(sendgroup(again, &vec, 1, 0, &error) == 1);
    expect(listener.fd, "hello");
    close(again);
    /* The same number, another family. */
    again = udp_socket(AF_INET6);
    CHECK(again == fd);
    vec.members = &to_v6;
    CHECK(sendgroup(again, &vec, 1, 0, &error) == 1 && error == 0);
    expect(v6_listener.fd, "hello");
    close(again);
    /* The same number, no socket for datagrams, and none at all. */
    tcp = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(tcp == fd);
    CHECK(refusal(tcp, &vec, 1, 0) == EINVAL);
    close(tcp);
    again = open("/dev/null", O_WRONLY);
    CHECK(again == fd);
    CHECK(refusal(again, &vec, 1, 0) == ENOTSOCK);
    close(again);
    close(listener.fd);
    close(v6_listener.fd);
}

/* Once for each socket, also when more are used than are remembered. */
static void senders_are_kept(void)
{
    enum { SOCKETS = 20 };
    struct listener listener = listen_somewhere();
    struct sendgroup_member one = member(&listener);
    struct iovec payload = piece("x");
    struct sendgroup_vec vec = group(&payload, 1, &one);
    int i, round, sockets[SOCKETS], before, duplicate;

    for (i = 0; i < SOCKETS; i++) {
        sockets[i] = udp_socket(AF_INET);
    }
    before = opens_seen;
    for (i = 0; i < 100; i++) {
        CHECK(sendgroup(sockets[i % 4], &vec, 1, 0, NULL) == 1);
    }
    CHECK(opens_seen - before == 4);
    duplicate = dup(sockets[3]); /* another number of the same socket */
    CHECK(sendgroup(duplicate, &vec, 1, 0, NULL) == 1 && opens_seen - before == 4);
    close(duplicate);
    for (round = 0; round < 3; round++) {
        for (i = 0; i < SOCKETS; i++) {
            CHECK(sendgroup(sockets[i], &vec, 1, 0, NULL) == 1);
        }
    }
    for (i = 0; i < SOCKETS; i++) {
        close(sockets[i]);
    }
    while (recv(listener.fd, &i, sizeof(i), MSG_DONTWAIT) >= 0) {
    }
    close(listener.fd);
}

static void on_alarm(int number)
{
    (void)number;
}

/* Nothing reads and the socket's buffer is as small as can be. With MSG_DONTWAIT and with O_NONBLOCK those for whom there
 * is no room say EAGAIN; otherwise the call waits, also through signals. */
static void a_full_socket_waits_or_not(void)
{
    enum { MANY = 3000 };
    static struct sendgroup_member members[MANY];
    static int errors[MANY];
    static char bytes[1400];
    struct listener listener = listen_somewhere();
    struct iovec payload = piece("");
    struct sendgroup_vec vec = group(&payload, 1, members);
    struct sigaction action;
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    int i, sent, flags, fd = udp_socket(AF_INET), small = 1;

    payload.iov_base = bytes;
    payload.iov_len = sizeof(bytes);
    for (i = 0; i < MANY; i++) {
        members[i] = member(&listener);
    }
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every_ms, NULL) == 0);
    CHECK(sendgroup(fd, &vec, MANY, 0, errors) == MANY);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    for (flags = 0; flags < 2; flags++) { /* by flag, and by the socket's own state */
        if (flags == 1) {
            CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
        }
        sent = sendgroup(fd, &vec, MANY, flags == 0 ? MSG_DONTWAIT : 0, errors);
        CHECK(sent >= 0 && sent <= MANY);
        for (i = 0; i < MANY; i++) {
            CHECK(errors[i] == 0 || errors[i] == EAGAIN);
            sent -= errors[i] == 0;
        }
        CHECK(sent == 0);
    }
    close(fd);
    close(listener.fd);
}

/* Members of on-demand streams come and go between the calls; the call knows of no group. */
static void members_come_and_go(void)
{
    struct listener listeners[MEMBERS];
    static struct sendgroup_member members[MEMBERS];
    struct iovec payload = piece("");
    struct sendgroup_vec vec = group(&payload, 1, members);
    int fd = udp_socket(AF_INET), turn, i, count;
    char text[16];

    for (i = 0; i < MEMBERS; i++) {
        listeners[i] = listen_somewhere();
    }
    for (turn = 0; turn < 50; turn++) {
        sprintf(text, "turn %d", turn);
        payload = piece(text);
        count = 0;
        for (i = MEMBERS - 1; i >= 0; i--) {
            if ((turn + i) % 4 != 0) {
                members[count++] = member(&listeners[i]);
            }
        }
        CHECK(sendgroup(fd, &vec, count, MSG_DONTWAIT, NULL) == count);
        for (i = 0; i < MEMBERS; i++) {
            if ((turn + i) % 4 != 0) {
                expect(listeners[i].fd, text);
            } else {
                expect_nothing(listeners[i].fd);
            }
        }
    }
    for (i = 0; i < MEMBERS; i++) {
        close(listeners[i].fd);
    }
    close(fd);
}

static struct listener shared_listener;

static void *send_many(void *fd)
{
    struct sendgroup_member members[MEMBERS];
    struct iovec payload = piece("thread");
    struct sendgroup_vec vec = group(&payload, 1, members);
    int i, own;

    for (i = 0; i < MEMBERS; i++) {
        members[i] = member(&shared_listener);
    }
    for (i = 0; i < 200; i++) {
        CHECK(sendgroup(*(int *)fd, &vec, MEMBERS, 0, NULL) == MEMBERS);
        own = udp_socket(AF_INET); /* numbers that others have just closed */
        CHECK(sendgroup(own, &vec, 1, 0, NULL) == 1);
        close(own);
    }
    return NULL;
}

/* A system call may be used by all threads of a process, and after fork(). */
static void threads_and_children_may_call(void)
{
    pthread_t threads[4];
    int i, status, fd = udp_socket(AF_INET);
    pid_t child;

    shared_listener = listen_somewhere();
    for (i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, send_many, &fd) == 0);
    }
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        send_many(&fd);
        _exit(0);
    }
    for (i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(fd);
    close(shared_listener.fd);
}

int main(void)
{
    each_gets_the_payload_between_its_own_bytes();
    flags_reach_the_kernel();
    members_fail_alone();
    absurd_calls_are_refused();
    a_number_that_is_used_again_is_another_socket();
    senders_are_kept();
    a_full_socket_waits_or_not();
    members_come_and_go();
    threads_and_children_may_call();
    printf("%d calls of the kernel\n", calls_seen);
    return 0;
}
