/*
 * The operations below of calls and requests, from start to end.  Part of
 * syscall.c.
 */
static inline u32 parts(const struct lower *low)
{
	return low->requests ? low->requests : low->bios;
}

#ifdef OFF_xa_node_slots /* and the account */
/*
 * Direct reads without bios, all like the last one: either their file system reads through memory,
 * or no block has their data.  Returns how many were served from memory.
 */
static inline u32 charge_without_bios(struct charges *sum, const struct call *c, u32 reads)
{
	u64 bytes = reads * c->place.bytes, file = c->place.file;

	if (file)
		file = real_file(file);
	if (!file)
		return 0;
	if (is_direct_always(file) || !is_in_memory(file, c->place.page) ||
	    is_of_holes(file, c->place.ino)) {
		sum->read_direct_hole_bytes += bytes;
		return 0;
	}
	sum->read_direct_from_memory_bytes += bytes;
	return reads;
}
#else
#define charge_without_bios(sum, c, reads) 0
#endif

/* Requests of a batch look the same: each bio counts as one of them, first the direct ones. */
static inline void charge_reads(struct charges *sum, const struct call *c, u32 calls_made,
				const struct lower *low)
{
	u32 direct = c->direct < calls_made ? c->direct : calls_made;
	u32 fetched = low->bios > direct ? low->bios : direct;

	sum->read_calls += calls_made;
	if (fetched < calls_made)
		sum->read_cached += calls_made - fetched;
	if (low->bios < direct)
		sum->read_cached += charge_without_bios(sum, c, direct - low->bios);
	if (!(low->bios | low->requests)) /* most reads: writing zeros costs, too */
		return;
	sum->read_lower_ops += parts(low);
	sum->read_lower_bytes += low->bytes;
}

static inline void charge_writes(struct charges *sum, u64 calls_made, const struct lower *low)
{
	sum->write_calls += calls_made;
	sum->write_lower_ops += parts(low);
	sum->write_lower_bytes += low->bytes;
}

#ifdef OFF_task_struct_ioac_read_bytes
#define READ_ACCOUNT(task) FOLLOW(u64, task, task_struct_ioac_read_bytes)
#else
#define READ_ACCOUNT(task) 0
#endif
#ifdef OFF_task_struct_sched_info_run_delay
#define CPU_WAIT_NS(task) FOLLOW(u64, task, task_struct_sched_info_run_delay)
#else
#define CPU_WAIT_NS(task) 0
#endif
#define SLEEPS(task) ((u32)FOLLOW(u64, task, task_struct_nvcsw))

/*
 * If another task passes on a read's bios (a control group's limit delays them, dm-crypt's workers
 * decrypt them), the read is still in the thread's own account, which submit_bio() keeps.  Which
 * requests of a batch these are is unknown: count as many as the bytes allow.
 */
static inline void add_handed_on(const struct call *c, const char *task, u32 calls_made,
				 struct lower *low)
{
	u64 bytes = READ_ACCOUNT(task) - c->read_account, enough = calls_made;

	if (bytes <= low->bytes)
		return;
	low->bytes = bytes;
	if (c->largest)
		enough = (bytes + c->largest - 1) / c->largest;
	if (enough > calls_made)
		enough = calls_made;
	if (low->bios < enough)
		low->bios = enough;
}

/* Requests that begin at the end of their file: neither cache nor disk has data for them. */
static inline void charge_ends(struct charges *sum, const struct call *c, const struct lower *low)
{
	if (!c->at_end)
		return;
	if (!c->batch[0] && low->bios)
		charge_reads(sum, c, c->at_end, low);
	else
		sum->read_at_end += c->at_end;
}

static inline void settle_batch(struct charges *sum, const struct call *c, const char *task)
{
	struct lower reads = c->lower[0];

	if (c->batch[0]) {
		add_handed_on(c, task, c->batch[0], &reads);
		charge_reads(sum, c, c->batch[0], &reads);
	}
	charge_ends(sum, c, &reads);
	if (c->batch[1])
		charge_writes(sum, c->batch[1], &c->lower[1]);
}

/* Whether the reads belong to writes: a copy reads by itself. */
static inline int is_of_writes(const struct call *c, u32 op)
{
	if (op == CALL_SUBMIT)
		return c->batch[1] && !c->batch[0] && !c->at_end;
	return op >= OP_WRITE && op < OP_FSYNC && !c->target.is_opaque;
}

/*
 * Count a call's operations below at its end; for a batch, each direction separately.  Returns 1 if
 * there were any.  On an opaque file system they are invisible: there a call that slept had some.
 */
static inline int settle(struct call *c, const char *task, u32 op, s64 result)
{
	struct lower both = {};
	struct charges *sum;
	u64 wait_ns;
	u32 zero = 0, requests;

	sum = charges.lookup(&zero);
	if (!sum)
		return 0;
	if (op == CALL_SUBMIT) {
		if (!c->batch[0] && !c->batch[1] && !c->at_end)
			return 0; /* all its requests go to devices that are filtered out */
		settle_batch(sum, c, task);
	} else if (c->target.is_opaque) {
		both.bios = c->target.is_at_end != SLEEPS(task);
	} else {
		both.bios = c->lower[0].bios + c->lower[1].bios;
		both.requests = c->lower[0].requests + c->lower[1].requests;
		both.bytes = c->lower[0].bytes + c->lower[1].bytes;
		if (op <= OP_READ_DIRECT)
			add_handed_on(c, task, 1, &both);
		if (op == OP_READ_DIRECT)
			c->place.bytes = result;
		if (op == OP_READ && result > 0)
			look_for_holes(sum, c, result, both.bios);
		if (op == OP_WRITEBACK)
			return 0;
		if (op > OP_READ_DIRECT)
			charge_writes(sum, 1, &both);
		else if (result || both.bios) {
			charge_reads(sum, c, 1, &both);
			sum->read_followed_bytes += result;
		} else /* The end of the file: no cache has data for it. */
			sum->read_at_end += 1;
	}
	if (is_of_writes(c, op))
		sum->write_reads += parts(&c->lower[0]);
	requests = c->lower[0].requests + c->lower[1].requests;
	if (requests | c->splits) {
		sum->lower_requests += requests;
		sum->lower_splits += c->splits;
	}
	if (op == OP_READ && both.bios)
		op = OP_READ_MISSED;
	wait_ns = CPU_WAIT_NS(task) - c->cpu_wait_ns;
	if (wait_ns && op < OPS)
		sum->cpu_wait_ns[op] += wait_ns;
	return both.bios != 0;
}

static inline void forget_lower(struct call *c, const char *task)
{
	__builtin_memset(c->lower, 0, sizeof(c->lower));
	c->batch[0] = c->batch[1] = c->direct = c->at_end = 0;
	c->linked = c->splits = c->largest = c->request = 0;
	c->read_account = READ_ACCOUNT(task);
	c->cpu_wait_ns = CPU_WAIT_NS(task);
}

static inline void note_place(struct call *c, const struct target *of, u64 from, u64 bytes)
{
	c->place.file = of->file;
	c->place.ino = of->ino;
	c->place.page = from / PAGE_BYTES;
	c->place.bytes = bytes;
}

/* now: when the call entered, to include the probe's own time until here. */
static inline struct call *begin(struct target *to, const char *task, u64 pid_tgid, u64 now)
{
	u32 tid = pid_tgid;
	struct call *c = open_call(tid, now);

	if (!c)
		return NULL;
	c->target = *to;
	c->tgid = pid_tgid >> 32;
	if (to->is_opaque)
		c->target.is_at_end = SLEEPS(task);
	forget_lower(c, task);
	if (to->op < OPS)
		note_started(to->op);
	if (to->op == OP_READ_DIRECT) {
		c->direct = 1;
		c->place.file = 0;
	}
	c->start_ns = now;
	return c;
}

/* io_getevents: what its thread submits during the call is charged to nothing. */
static inline void begin_reap(u64 events, const char *task, u32 tid)
{
	struct call *c = open_call(tid, 0);

	if (!c)
		return;
	c->target.op = CALL_REAP;
	c->target.dev = 0;
	c->target.ino = events;
	c->target.file = FOLLOW(u64, task, task_struct_nvcsw);
}

/* The request completed before the program asked: part of its time is the program's. */
static inline void note_late(u32 op)
{
	u32 zero = 0;
	struct charges *sum = charges.lookup(&zero);

	if (!sum || op == OP_FSYNC)
		return;
	if (op >= OP_WRITE)
		sum->write_reaped_late += 1;
	else
		sum->read_reaped_late += 1;
}

#define EIO 5
/* More flags of an asynchronous read: counted in read_calls; not cached */
#define WATCHED (1U << 31)
#define FETCHED (1U << 30)
#ifdef CASTS
#define STAYS (1U << 29) /* its entry stays after its end, with a start_ns of 0 */
#else
#define STAYS 0 /* saves a branch in a loop for verifiers that follow each path to its end */
#endif

/*
 * An asynchronous read has ended: its kind.  It was in memory if it was followed and nothing was
 * submitted for it.
 */
static inline u32 kind_of_read(const struct target *of, u32 flags, s64 result)
{
	if (of->op != OP_READ)
		return of->op;
	if (result >= 0 && !of->is_opaque &&
	    (of->is_at_end || (flags & (WATCHED | FETCHED)) == WATCHED))
		return OP_READ_CACHED;
	return OP_READ_MISSED;
}

/*
 * The bytes of a followed asynchronous read.  If it has failed, it was counted when submitted, but
 * got data neither from cache nor from disk.
 */
static inline void note_result(const struct target *of, u32 flags, s64 result)
{
	u32 zero = 0;
	struct charges *sum;

	if (!(flags & WATCHED) || of->is_opaque || of->is_at_end || result == -EIO)
		return;
	sum = charges.lookup(&zero);
	if (!sum || of->op > OP_READ_DIRECT)
		return;
	if (result >= 0)
		sum->read_followed_bytes += result;
	else if (of->op == OP_READ && !(flags & FETCHED))
		sum->failed_cached += 1;
	else
		sum->failed_fetched += 1;
}

/*
 * A request in flight in io_uring or libaio.  Data for a whole batch is in the thread's struct
 * call, not in a per-CPU array: since 7.0 another thread's batch can begin on this CPU during this
 * one.
 */
BPF_HASH(asyncs, struct async_key, struct async, 65536);
/* How many of these stay; user space corrects it when it drops those of ended processes. */
BPF_ARRAY(async_places, u64, 1);
#define ASYNC_PLACES 16384

/*
 * Note a request in flight, in the entry of an earlier request at its address if there is one:
 * making and deleting a hash entry costs more than everything else.  Returns 0 if there is no room.
 */
static inline int note_async(const struct async_key *key, struct async *a, u32 unseen)
{
	struct async *before = asyncs.lookup(key);
	u32 zero = 0;
	u64 *places;

	if (before) {
		/* Still in flight: no event reported its end. */
		if (before->start_ns) {
			count_lost(unseen);
			if (before->target.file)
				withdraw(before->target.op);
		}
		a->rw_flags |= before->rw_flags & STAYS;
		*before = *a;
		return 1;
	}
	places = async_places.lookup(&zero);
	if (places && *places < ASYNC_PLACES) {
		__sync_fetch_and_add(places, 1);
		a->rw_flags |= STAYS;
	}
	if (!asyncs.update(key, a))
		return 1;
	count_lost(LOST_MAP_FULL);
	return 0;
}

/* A request has ended; its entry may wait for the next one at this address. */
static inline void end_async(struct async_key *key, struct async *ended)
{
	if (ended->rw_flags & STAYS)
		ended->start_ns = ended->target.file = 0;
	else
		asyncs.delete(key);
}

/* When a libaio context was destroyed: no call returns the requests then in flight. */
BPF_HASH(destroyed, struct async_key, u64, 1024);

static inline void note_destroyed(u64 context, u64 pid_tgid)
{
	struct async_key key = {.request = context, .tgid = pid_tgid >> 32};
	u64 now = bpf_ktime_get_ns();

	if (destroyed.update(&key, &now))
		count_lost(LOST_MAP_FULL);
}

static inline int has_fetched(const struct call *c, const char *task)
{
	return c->lower[0].bios || READ_ACCOUNT(task) != c->read_account;
}

/* The watched request has submitted its immediate operations: was it in memory? */
static inline void mark_fetched(const struct call *c, const char *task)
{
	struct async_key key = {.request = c->request};
	struct async *found;

	/* A direct one is never cached. */
	if (!c->request || c->direct || !has_fetched(c, task))
		return;
	found = asyncs.lookup(&key);
	if (found)
		found->rw_flags |= FETCHED;
}
