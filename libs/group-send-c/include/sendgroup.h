/* k datagrams to N UDP recipients in one call. Made by cbindgen from src of the crate group-send-c; do not edit.
 *
 * Link with libgroup_send_c.a (on Linux also -lpthread -ldl -lm) or with -lgroup_send_c. What "Safety" asks for is the
 * caller's part: what is not so is undefined behaviour. Errors are numbers of errno.h, negative where a function returns
 * a count; only sendgroup, the call of 2008, returns -1 and sets errno. */

#ifndef SENDGROUP_H
#define SENDGROUP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 Most packets of one call.
 */
#define SENDGROUP_PACKETS_MAX 1024

/*
 Most recipients of one call.
 */
#define SENDGROUP_RECIPIENTS_MAX (1 << 20)

/*
 A socket opened for sending to groups. It remembers what the device has refused.

 One thread at a time may use it.
 */
typedef struct sendgroup_sender sendgroup_sender;

/*
 What a sender may use. All zero (or NULL instead of it) is the default.
 */
typedef struct sendgroup_options {
  /*
   Names of back ends with commas between them, the preferred one first: "gso", "sendmmsg",
   "sendmsg", "io_uring", "af_xdp", "tc_clone". The first that works here is used. NULL for
   "gso,sendmmsg,sendmsg", which works everywhere. "auto" for what costs least of all that this
   build, the process's rights and the device allow: "tc_clone,af_xdp,gso,sendmmsg,sendmsg".
   */
  const char *backends;
  /*
   For "af_xdp" and "tc_clone", the interface to send through: "eth0". With "auto" it may be NULL
   for the one that the socket is bound to, or the only Ethernet interface that is up. Otherwise
   NULL.
   */
  const char *network_interface;
  /*
   For "af_xdp", the interface's transmit queue, from 0.
   */
  uint32_t queue;
} sendgroup_options;

/*
 One recipient of a group: its address, its private bytes, and the result.

 Set it to zero and fill in the first members. Afterwards the last three hold the result; they
 are also read, so that a call with the same arguments continues where the previous one stopped.
 */
typedef struct sendgroup_recipient {
  /*
   Where to send: a sockaddr_in or a sockaddr_in6.
   */
  const struct sockaddr *destination;
  /*
   Its size in bytes.
   */
  socklen_t destination_len;
  /*
   Bytes before the shared payload: none if prepend_len is 0, the same before each packet if it
   is 1, or one for each packet.
   */
  const struct iovec *prepend;
  /*
   0, 1, or the number of packets.
   */
  size_t prepend_len;
  /*
   Bytes after the shared payload, in the same form.
   */
  const struct iovec *append;
  /*
   0, 1, or the number of packets.
   */
  size_t append_len;
  /*
   Packets handed to the network. Begin with 0.
   */
  uint32_t sent;
  /*
   Packets that failed for good. Begin with 0.
   */
  uint32_t failed;
  /*
   Why packets were not sent, as a number of errno.h, otherwise 0. EAGAIN for every recipient
   whose packets wait for room: call again when the socket is writable; with io_uring, af_xdp
   and tc_clone after a millisecond, since what is full there need not be the socket.
   Everything else is final: of the failed packets the latest.
   */
  int error;
} sendgroup_recipient;

/*
 A member of a group: its address, and the bytes that only it gets.
 */
typedef struct sendgroup_member {
  /*
   Where to send: a sockaddr_in or a sockaddr_in6.
   */
  const struct sockaddr *name;
  /*
   Its size in bytes.
   */
  socklen_t namelen;
  /*
   Bytes before the shared payload; none if iov_len is 0.
   */
  struct iovec prepend;
  /*
   Bytes after the shared payload; none if iov_len is 0.
   */
  struct iovec append;
} sendgroup_member;

/*
 What goes to a group: the bytes that all get, and the members.
 */
typedef struct sendgroup_vec {
  /*
   The shared payload: one datagram, gathered from these pieces as sendmsg() does.
   */
  const struct iovec *payload;
  /*
   Number of pieces, at most 1024.
   */
  size_t payload_len;
  /*
   The members of the group.
   */
  const struct sendgroup_member *members;
} sendgroup_vec;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens a UDP socket for sending to groups and stores the sender in `*opened`. Free it with
 `sendgroup_close`.

 The sender has a descriptor of its own for the socket: the caller's may be used as before, and
 closed. `options` may be NULL. Returns 0, or a negative errno value, and then `*opened` is NULL:
 -EFAULT if `opened` is NULL, -EBADF if `fd` is no descriptor, -EINVAL if it is no UDP socket, a
 name of a back end is unknown or a string is not UTF-8, -EOPNOTSUPP if none of the back ends
 works here. `why` may be NULL; otherwise up to `why_size` bytes of it become a text that
 explains the error, "" if there is none, which ends with a zero.

 # Safety
 `options` is NULL or points to options whose strings are NULL or end with a zero, `opened` is
 NULL or may be written to, `why` is NULL or `why_size` bytes there may be written to. `fd` stays
 open during the call.
 */
int sendgroup_open(int fd,
                   const struct sendgroup_options *options,
                   struct sendgroup_sender **opened,
                   char *why,
                   size_t why_size);

/*
 Sends each of `packets_len` packets to each of `recipients_len` recipients, with its private
 bytes around it. A recipient's failure does not affect the others. It never waits.

 Pass the packets of a whole video frame together: those of equal length for one recipient then
 cost little more than one. Returns the number of recipients fully served, by this call and those
 before it: all packets sent. If there are fewer than `recipients_len`, look at `sent`, `failed`
 and `error` of each. Or a negative errno value, and then nothing was sent and no recipient has
 changed: -EFAULT if a pointer that is needed is NULL or not aligned, -EINVAL if there are more
 packets or recipients than the limits say, -EMSGSIZE if a packet is longer than 65,535 bytes,
 -ENOTRECOVERABLE after a bug in the library; close the sender then.

 A recipient whose own pointers, lengths or counts are wrong fails alone, with EFAULT, EINVAL,
 EMSGSIZE or EAFNOSUPPORT.

 # Safety
 `sender` is NULL or a sender that is used nowhere else meanwhile. `packets` and `recipients`
 point to the stated number of elements, and what those point to may be read; none of it changes
 during the call.
 */
ssize_t sendgroup_send(struct sendgroup_sender *sender,
                       const struct iovec *packets,
                       size_t packets_len,
                       struct sendgroup_recipient *recipients,
                       size_t recipients_len);

/*
 As `sendgroup_send`, through a sender that is opened for this call only: for groups now and
 then. Opening costs some system calls, and what a device refuses is found out each time.

 Returns also what `sendgroup_open` returns when it fails.

 # Safety
 As `sendgroup_send`. `fd` stays open during the call.
 */
ssize_t sendgroup_once(int fd,
                       const struct iovec *packets,
                       size_t packets_len,
                       struct sendgroup_recipient *recipients,
                       size_t recipients_len);

/*
 Name of the back end in use; NULL if `sender` is NULL. The string is never freed.

 # Safety
 `sender` is NULL or a sender.
 */
const char *sendgroup_backend(const struct sendgroup_sender *sender);

/*
 Name of the `index`-th back end, from 0, that was preferred to the one in use; NULL if there are
 not as many. `*why` becomes the reason why it is not used, NULL if there is none; it belongs to
 the sender. `why` may be NULL.

 # Safety
 `sender` is NULL or a sender; `why` is NULL or may be written to.
 */
const char *sendgroup_not_chosen(const struct sendgroup_sender *sender, size_t index, const char **why);

/*
 Frees a sender. The caller's socket stays open. NULL is allowed and does nothing.

 # Safety
 `sender` is NULL or a sender that has not been closed, and is not used by anything else during
 the call or afterwards.
 */
void sendgroup_close(struct sendgroup_sender *sender);

/*
 Sends one datagram to each of `count` members: its own bytes before, the shared payload, its own
 bytes after. The call of 2008 (Lahav, Brecht, Karsten, Wang, Zhao, NOSSDAV). Linux.

 `flags`: MSG_DONTWAIT does not wait for room in the socket's buffer; without it the call waits as
 sendmsg() does, unless the socket is non-blocking (O_NONBLOCK), at most for SO_SNDTIMEO, and
 goes on after signals. MSG_CONFIRM tells the kernel that the members have answered lately.
 MSG_NOSIGNAL changes nothing.

 `errors` is NULL or has room for `count` numbers of errno.h: 0 for a member whose datagram was
 handed to the network, EAGAIN where there was no room for it, ECONNREFUSED, ENETUNREACH and
 others as sendmsg() has them; EFAULT, EINVAL, EMSGSIZE, EAFNOSUPPORT for members that are wrong
 in themselves. A member's error does not affect the others. Members may be others with each call.

 Returns the number of members without an error. Or -1 with `errno`, when the call as a whole is
 refused; then nothing was sent and `errors` is as it was: EBADF, ENOTSOCK, EINVAL if it is no UDP
 socket, or for a count below 0 or above 2^20 or more than 1024 pieces, EFAULT if a pointer that is
 needed is NULL or not aligned, EMSGSIZE for a payload above 65,535 bytes, EOPNOTSUPP for other
 flags, ENOTRECOVERABLE after a bug in the library.

 # Safety
 `vec` is NULL or may be read, and so may what it points to; `errors` is NULL or may be written
 to. Nothing of it changes during the call. No other thread closes `sd` meanwhile.
 */
int sendgroup(int sd, const struct sendgroup_vec *vec, int count, int flags, int *errors);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SENDGROUP_H */
