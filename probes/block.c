/*
 * Block requests: what each one cost, by device and op.
 *
 * Timed   accepted by the block layer (request->start_time_ns) -> issued to the
 *         driver (request->io_start_time_ns) -> completed (block_rq_complete).
 *         queue = issued - accepted, latency = completed - accepted; a flush that a
 *         write requests before itself (PREFLUSH) counts as service, not as queue.
 *         The request has both stamps, so no map is needed, and I/O that began
 *         before ioh attached is measured too.
 * Exact   counts and bytes as /proc/diskstats: an operation counts when the
 *         request ends outside its flush sequence, bytes at every completion
 *         (completions can be partial).  A request that fails, in whole or in part, counts
 *         as one error and nothing else; diskstats counts it like the others.
 * Kernels raw tracepoints, 5.10 and later.  If a queue does not stamp
 *         io_start_time_ns, user space sets need_issue and attaches block_rq_issue,
 *         which keeps the stamp in a map keyed by the request.  (device, sector) is not
 *         a key: every flush has sector 0, and merges change it.
 * Who     bytes are charged when a bio gets a request or joins one, so a process's
 *         sum is exactly what the devices move for it; its count is requests made.
 * Cost    one program per completion, one per request submitted and per bio that
 *         joins one (who did it).  Layer syscall's programs for completions and
 *         requests run inside these.
 * Not     bio-based devices (dm, md, zram, nvme multipath heads) have no
 *         requests; their I/O shows on the devices below, or (zram, pmem) user space
 *         takes it from /proc/diskstats.  A kernel can skip BPF
 *         programs on top of certain tasks without counting a miss: a sandbox's
 *         6.18 does so while a thread of the sandbox's own agent is interrupted
 *         (ftrace sees those completions).  User space compares with
 *         /proc/diskstats and shows the difference (lost: unseen).
 */
/*
 * Completions run in task context and in interrupts, on one CPU.  If the kernel never runs a
 * program on top of itself, there is only one writer.
 */
#ifndef ALONE
#define IOH_ATOMIC
#endif
#include "ioh.h"
#include "follow.h"

#define REQ_OP_MASK 0xff
#define SECTOR_SHIFT 9

struct disk_name {
	char text[DISK_NAME_BYTES];
};

BPF_TABLE("percpu_hash", struct dev_op, struct op_totals, totals, MAX_DEV_OPS);
BPF_PERCPU_ARRAY(blank, struct op_totals, 1);
/* By op, all devices that do not fit totals; those of stacked separately. */
BPF_PERCPU_ARRAY(others, struct op_totals, 2 * OPS);
/* Devices whose I/O also appears on others; user space fills it when room gets scarce. */
BPF_HASH(stacked, u32, u32, STACKED);
#define KEEP_NS 20000
BPF_HASH(recents, u32, struct recent, 256);
BPF_HASH(disk_names, u32, struct disk_name, 1024);
BPF_HASH(issued, u64, u64, 16384);
BPF_HASH(flush_bytes, u64, u64, 1024);
BPF_ARRAY(need_issue, u32, 1);
/* Another layer's programs for the same events: called here, they cost less than attached. */
BPF_PROG_ARRAY(after_complete, 1);
BPF_PROG_ARRAY(after_submit, 1);
/* 0 requeues, 1 splits */
BPF_PERCPU_ARRAY(events, u64, 2);

static inline const char *request_disk(const char *rq)
{
#ifdef OFF_request_rq_disk
	/* Until 5.17 the request itself names its disk. */
	return FOLLOW(const char *, rq, request_rq_disk);
#else
	return FOLLOW(const char *, FOLLOW(const char *, rq, request_q), request_queue_disk);
#endif
}

static inline u32 device_of(const char *disk)
{
	return FOLLOW(u32, disk, gendisk_major) << 20 | FOLLOW(u32, disk, gendisk_first_minor);
}

#ifdef FILTER_WAY_HEAD_1
#define DIGITS 4 /* of a controller's number */
#define CHAR(words, at) ((char)((words)[(at) / 8] >> (at) % 8 * 8))

/* A path to the requested NVMe disk, as nvme0c1n1 is one to nvme0n1. */
static inline int is_way(const char *disk)
{
	const u64 head[] = {FILTER_WAY_HEAD_1, FILTER_WAY_HEAD_2};
	const u64 tail[] = {FILTER_WAY_TAIL_1, FILTER_WAY_TAIL_2};
	struct disk_name name = {};
	int i, digits, is_end;

	READ(name, FIELD(disk, gendisk_disk_name));
#pragma unroll
	for (i = 0; i < WAY_HEAD_CHARS; i++)
		if (name.text[i] != CHAR(head, i))
			return 0;
#pragma unroll
	for (digits = 1; digits <= DIGITS; digits++) {
		is_end = 1;
#pragma unroll
		for (i = 0; i <= WAY_TAIL_CHARS; i++) /* and the NUL */
			is_end &= name.text[WAY_HEAD_CHARS + digits + i] == CHAR(tail, i);
		if (is_end)
			return 1;
	}
	return 0;
}
#define is_asked_for(disk, dev) is_way(disk)
#else
#ifdef FILTER_DEVICE
#define is_asked_for(disk, dev) ((dev) == FILTER_DEVICE)
#else
#define is_asked_for(disk, dev) 1
#endif
#endif

static inline u32 op_of(u32 cmd_flags)
{
	switch (cmd_flags & REQ_OP_MASK) {
	case REQ_OP_READ:
		return OP_READ;
	case REQ_OP_WRITE:
		return OP_WRITE;
	case REQ_OP_FLUSH:
		return OP_FLUSH;
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
		return OP_DISCARD;
	case REQ_OP_WRITE_ZEROES:
		return OP_WRITE_ZEROES;
	case REQ_OP_ZONE_APPEND:
		return OP_ZONE_APPEND;
	}
	return OP_OTHER;
}

/* sysfs does not show the number of a hidden disk: one of several paths to an NVMe disk. */
static inline void note_name(const char *disk, u32 dev)
{
	struct disk_name name = {};

	READ(name, FIELD(disk, gendisk_disk_name));
	disk_names.insert(&dev, &name);
}

static inline struct op_totals *totals_of(const char *disk, u32 dev, u32 op)
{
	struct dev_op key = {.dev = dev, .op = op};
	struct op_totals *t = totals.lookup(&key);
	u32 zero = 0;

	if (t)
		return t;
	t = blank.lookup(&zero);
	if (!t)
		return NULL;
	totals.insert(&key, t);
	t = totals.lookup(&key);
	if (!t) {
		if (stacked.lookup(&dev))
			op += OPS;
		return others.lookup(&op);
	}
	note_name(disk, dev);
	return t;
}

/*
 * All CPUs that use a device write its entry, so with many of them a write at each request would
 * cost more than all else here: at most one end in KEEP_NS is kept, and each is met once.
 */
static inline void judge_position(u32 dev, u64 sector, u32 bytes, u64 now)
{
	struct recent fresh = {}, *r = recents.lookup(&dev);
	u64 end = sector + (bytes >> SECTOR_SHIFT);
	int i;

	if (!r) {
		fresh.ends[0] = end;
		fresh.next = 1;
		fresh.kept_ns = now;
		recents.insert(&dev, &fresh);
		return;
	}
#pragma unroll
	for (i = 0; i < RECENT; i++) {
		if (sector && r->ends[i] == sector) {
			r->ends[i] = 0;
			ADD_SHARED(r->sequential, 1);
			break;
		}
	}
	if (now - r->kept_ns < KEEP_NS)
		return;
	r->kept_ns = now;
	r->ends[r->next & (RECENT - 1)] = end;
	ADD_SHARED(r->next, 1);
}

/* io_start_time_ns, else the stamp of on_issue, else 0. */
static inline u64 issue_time(u64 key, u64 stamped)
{
	u64 at = stamped, *kept;
	u32 zero = 0, *needed = need_issue.lookup(&zero);

	if (!needed || !*needed)
		return at;
	kept = issued.lookup(&key);
	if (kept) {
		if (!at)
			at = *kept;
		issued.delete(&key);
	}
	return at;
}

/*
 * Most kernels do not stamp commands that a program sends to a disk directly (smartd, hdparm) or
 * that ask whether there is a CD; no kernel counts them in diskstats.
 */
static inline int is_timed(const char *rq)
{
	return FOLLOW(u64, rq, request_start_time_ns) || FOLLOW(u64, rq, request_io_start_time_ns);
}

/* follows_flush: the device flushed its cache first; that is part of the service time. */
static inline void add_request(struct op_totals *t, const char *rq, u64 bytes, u64 counted,
			       u32 follows_flush, u64 now)
{
	u64 accepted = FOLLOW(u64, rq, request_start_time_ns);
	u64 at = issue_time((u64)rq, FOLLOW(u64, rq, request_io_start_time_ns));

	/* With a constant here, the verifier of 5.10 cannot follow the alignment. */
	asm volatile("" : "+r"(bytes));
	if (follows_flush)
		at = accepted;
	if (!accepted) {
		/* Reads and writes have no stamp only if their queue has iostats off. */
		if (at) {
			accepted = at;
		} else {
			count_lost(LOST_NO_START);
			ADD(t->count, 1);
			ADD(t->bytes, counted);
			return;
		}
	}
	if (now < accepted) {
		count_lost(LOST_NEGATIVE);
		now = accepted;
	}
	if (counted != bytes)
		ADD(t->bytes, counted - bytes);
	add_finished(t, now - accepted, bytes);
	if (at) {
		/* The plug's cached clock can set the start up to a tick after the issue. */
		ADD(t->queue_ns, at > accepted ? at - accepted : 0);
		ADD(t->queued, 1);
	}
}

#include "block_failed.h"

/* A request that failed has no time, and no bytes except those of its parts that arrived. */
static inline void count_error(struct op_totals *t, u64 key)
{
	ADD(t->errors, 1);
	issue_time(key, 0);
	flush_bytes.delete(&key);
}

/* A request, or a part of it with this many bytes, has ended. */
static inline void count_completion(const char *rq, u64 error, u64 done)
{
	u64 key = (u64)rq, bytes = done, now = bpf_ktime_get_ns(), *earlier;
	u32 bio_flags = 0, is_flush_step, dev, op;
	struct op_totals *t;
	const char *disk;

	disk = request_disk(rq);
	if (!disk) /* an NVMe controller's own queue, a tape drive … */
		return;
	dev = device_of(disk);
	if (!is_asked_for(disk, dev))
		return;
	op = op_of(FOLLOW(u32, rq, request_cmd_flags));
	if (op == OP_OTHER && !is_timed(rq))
		return;
	t = totals_of(disk, dev, op);
	if (!t) {
		count_lost(LOST_MAP_FULL);
		return;
	}
	if (done < FOLLOW(u32, rq, request___data_len)) {
		/* Part of a request: count its bytes now, the operation with the last part. */
		if (error)
			note_failed_part(key);
		else
			ADD(t->bytes, done);
		return;
	}
	if (!done && op != OP_FLUSH && op != OP_OTHER && !FOLLOW(const char *, rq, request_bio)) {
		/*
		 * Already completed: request-based dm (multipath) ends all bios with those of
		 * its clone (end_clone_bio), then ends the request.  A flush sequence gives an
		 * ended request its bio back before it ends it again; flushes and passthrough
		 * requests have none.
		 */
		return;
	}
	is_flush_step = FOLLOW(u32, rq, request_rq_flags) & RQF_FLUSH_SEQ;
	if (had_failed_part(key) || error) {
		/* The data step of a PREFLUSH or FUA write counts as its sequence ends. */
		if (is_flush_step && op != OP_FLUSH)
			note_failed_part(key);
		else
			count_error(t, key);
		return;
	}
	if (op <= OP_WRITE && done)
		judge_position(dev, FOLLOW(u64, rq, request___sector), done, now);
	if (is_flush_step) {
		if (op == OP_FLUSH) {
			add_request(t, rq, 0, 0, 0, now);
			return;
		}
		/*
		 * The data step of a PREFLUSH or FUA write; the request completes again,
		 * without bytes, when its whole flush sequence has ended.  The sequence
		 * removed the request's own flags at its start, but not the bio's.
		 */
		ADD(t->bytes, done);
		flush_bytes.update(&key, &done);
		return;
	}
	if (!done) {
		bio_flags = FOLLOW(u32, FOLLOW(const char *, rq, request_bio), bio_bi_opf);
		earlier = flush_bytes.lookup(&key);
		if (earlier) {
			bytes = *earlier;
			flush_bytes.delete(&key);
		}
	}
	add_request(t, rq, bytes, done, bio_flags & PREFLUSH, now);
}

/* block_rq_complete(struct request *rq, blk_status_t error, unsigned int nr_bytes) */
int on_complete(struct bpf_raw_tracepoint_args *ctx)
{
	count_completion(hidden(ctx->args[0]), ctx->args[1], (u32)ctx->args[2]);
	after_complete.call(ctx, 0);
	return 0;
}

/* block_rq_issue(struct request *rq); until 5.11 (struct request_queue *q, struct request *rq) */
int on_issue(struct bpf_raw_tracepoint_args *ctx)
{
	u64 key = ctx->args[ISSUE_ARG], now = bpf_ktime_get_ns();

	if (issued.update(&key, &now))
		count_lost(LOST_MAP_FULL);
	return 0;
}

#include "block_who.h"

static inline int count_event(u32 which)
{
	u64 *n = events.lookup(&which);

	if (n)
		ADD(*n, 1);
	return 0;
}

int on_requeue(struct bpf_raw_tracepoint_args *ctx)
{
	return count_event(0);
}

int on_split(struct bpf_raw_tracepoint_args *ctx)
{
	return count_event(1);
}
