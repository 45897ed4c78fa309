// SPDX-License-Identifier: MIT OR Apache-2.0
//
// One frame in, one frame out for each recipient of a group.
//
// Attached to the egress of the loopback device, where nothing but the group's own packet socket sends such frames.
// User space leaves what differs between the copies in `GROUPS`: for each recipient the first bytes of its frame (link,
// IP and UDP header, private bytes before the payload) and the last ones (private bytes after it), all checksums
// included. The program puts them around the payload and sends a clone to the real interface, and reports what became
// of it. It decides nothing.
//
// No headers: a plain clang has none for this target. Numbers are those of linux/bpf.h, which never change.
// `src/backend/tc_clone/replicator.rs` is the other side of `struct group` and of the constants.

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))

// struct __sk_buff as far as it is used.
struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark;
};

struct map_definition {
	u32 type, key_size, value_size, max_entries, flags;
};

enum { BPF_MAP_TYPE_ARRAY = 2, BPF_F_MMAPABLE = 1 << 10 };
enum { TCX_NEXT = -1, TCX_DROP = 2 };

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_skb_store_bytes)(struct __sk_buff *, u32 at, const void *from, u32 len, u64 flags) = (void *)9;
static long (*const bpf_clone_redirect)(struct __sk_buff *, u32 interface, u64 flags) = (void *)13;
static u64 (*const bpf_get_socket_cookie)(struct __sk_buff *) = (void *)46;
static long (*const bpf_loop)(u32 rounds, void *round, void *context, u64 flags) = (void *)181;

#define TRIGGER_MARK 0x67727073
#define COPIES_MAX 64
#define HEAD_MAX 384
#define TAIL_MAX 128
#define RECORD_MAX (HEAD_MAX + TAIL_MAX)

struct group {
	// The packet socket whose frames are replicated, and which of its frames: each `sequence` once.
	u64 cookie;
	u32 sequence;
	// Written here: the last sequence that was replicated.
	u32 done;
	u32 interface;
	u32 mark;
	// Length of the frame, and which of its bytes come from a record: the first `head`, and `tail` from `tail_at`.
	u32 frame_bytes;
	u32 head;
	u32 tail_at;
	u32 tail;
	// Bytes from one record to the next, and how many there are.
	u32 stride;
	u32 count;
	// Written here: 0, or what `dev_queue_xmit` (positive) or the helpers (negative errno) said of each copy.
	s32 results[COPIES_MAX];
	u8 records[COPIES_MAX * RECORD_MAX];
};

struct map_definition GROUPS SECTION("maps") = {
	.type = BPF_MAP_TYPE_ARRAY,
	.key_size = sizeof(u32),
	.value_size = sizeof(struct group),
	.max_entries = 1,
	.flags = BPF_F_MMAPABLE,
};

struct copying {
	struct __sk_buff *skb;
	struct group *group;
};

// One round of `bpf_loop`. A loop of the program's own would need CAP_PERFMON as well: for processes without it the
// verifier follows what the processor may guess, and that never leaves the loop.
static long copy(u64 i, struct copying *copying)
{
	struct __sk_buff *skb = copying->skb;
	struct group *group = copying->group;
	u64 head = group->head, tail = group->tail, at = i * group->stride;
	const u8 *record;
	long result;

	// Where each number is now it stays, so that the verifier sees what is compared below used below.
	asm volatile("" : "+r"(i), "+r"(at), "+r"(head), "+r"(tail));
	if (i >= COPIES_MAX || at > (COPIES_MAX - 1) * RECORD_MAX || head == 0 || head > HEAD_MAX || tail > TAIL_MAX)
		return 1;
	record = group->records + at;
	result = bpf_skb_store_bytes(skb, 0, record, head, 0);
	if (tail && !result)
		result = bpf_skb_store_bytes(skb, group->tail_at, record + head, tail, 0);
	if (!result)
		result = bpf_clone_redirect(skb, group->interface, 0);
	group->results[i] = result;
	return 0;
}

SECTION("classifier")
int clone_group(struct __sk_buff *skb)
{
	u32 first = 0;
	struct group *group;
	struct copying copying;

	// All that other packets of the device cost.
	if (skb->mark != TRIGGER_MARK)
		return TCX_NEXT;
	group = bpf_map_lookup_elem(&GROUPS, &first);
	if (!group || bpf_get_socket_cookie(skb) != group->cookie)
		return TCX_NEXT;
	// A frame that was repeated or delayed must not be sent with what is in the map by now.
	if (group->done == group->sequence || skb->len != group->frame_bytes)
		return TCX_DROP;
	skb->mark = group->mark;
	copying = (struct copying){ skb, group };
	bpf_loop(group->count, copy, &copying, 0);
	group->done = group->sequence;
	return TCX_DROP;
}

char terms[] SECTION("license") = "MIT";
