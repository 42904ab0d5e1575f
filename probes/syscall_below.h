/*
 * What calls and requests became below, from their begin to their end.  Part of
 * syscall.c.
 */
/*
 * direct: how many of the calls were O_DIRECT.  They are no cache, even where the bio left the
 * caller's context because a control group's limit delayed it.
 */
static inline void charge_reads(struct charges *sum, u32 calls_made, u32 direct,
				const struct lower *low)
{
	/* Requests of a batch look alike: each bio is taken for one of them. */
	u32 fetched = low->bios > direct ? low->bios : direct;

	sum->read_calls += calls_made;
	if (fetched < calls_made)
		sum->read_cached += calls_made - fetched;
	sum->read_lower_ops += low->requests ? low->requests : fetched;
	sum->read_lower_bytes += low->bytes;
}

static inline u32 parts(const struct lower *low)
{
	return low->requests ? low->requests : low->bios;
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

/*
 * A read whose bios somebody else hands on (a control group's limit delays them, dm-crypt's
 * workers decrypt them) is in the thread's own account all the same: submit_bio() keeps it.
 * Which ones of a batch these are is not known: as many as the bytes are enough for.
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

/* Requests that begin at the end of their file: no cache has anything for them, nor has a disk. */
static inline void charge_ends(struct charges *sum, const struct call *c, const struct lower *low)
{
	if (!c->at_end)
		return;
	if (!c->batch[0] && low->bios)
		charge_reads(sum, c->at_end, 0, low);
	else
		sum->read_at_end += c->at_end;
}

static inline void settle_batch(struct charges *sum, const struct call *c, const char *task)
{
	struct lower reads = c->lower[0];

	if (c->batch[0]) {
		add_handed_on(c, task, c->batch[0], &reads);
		charge_reads(sum, c->batch[0], c->direct, &reads);
	}
	charge_ends(sum, c, &reads);
	if (c->batch[1])
		charge_writes(sum, c->batch[1], &c->lower[1]);
}

/* Only writes have submitted what was read meanwhile: a copy reads by itself. */
static inline int is_of_writes(const struct call *c, u32 op)
{
	if (op == CALL_SUBMIT)
		return c->batch[1] && !c->batch[0] && !c->at_end;
	return op >= OP_WRITE && op < OP_FSYNC && !c->target.is_opaque;
}

/* What a call became below, once it has ended; for a batch each direction apart. */
static inline void settle(const struct call *c, const char *task, u32 op, s64 result)
{
	struct lower both = {};
	struct charges *sum;
	u32 zero = 0;

	sum = charges.lookup(&zero);
	if (!sum)
		return;
	if (op == CALL_SUBMIT) {
		if (!c->batch[0] && !c->batch[1] && !c->at_end)
			return; /* none of its requests is asked for: they go to another device */
		settle_batch(sum, c, task);
	} else if (!c->target.is_opaque) {
		both.bios = c->lower[0].bios + c->lower[1].bios;
		both.requests = c->lower[0].requests + c->lower[1].requests;
		both.bytes = c->lower[0].bytes + c->lower[1].bytes;
		if (op <= OP_READ_DIRECT)
			add_handed_on(c, task, 1, &both);
		if (op == OP_READ && result > 0)
			look_for_holes(sum, c, result, both.bios);
		if (op > OP_READ_DIRECT)
			charge_writes(sum, 1, &both);
		else if (result || both.bios)
			charge_reads(sum, 1, op == OP_READ_DIRECT && result, &both);
		else /* The end of the file: no cache had anything for it. */
			sum->read_at_end += 1;
	}
	if (is_of_writes(c, op))
		sum->write_reads += parts(&c->lower[0]);
	sum->lower_requests += c->lower[0].requests + c->lower[1].requests;
	sum->lower_splits += c->splits;
}

static inline void forget_lower(struct call *c, const char *task)
{
	__builtin_memset(c->lower, 0, sizeof(c->lower));
	c->batch[0] = c->batch[1] = c->direct = c->at_end = 0;
	c->linked = c->splits = c->largest = c->request = 0;
	c->read_account = READ_ACCOUNT(task);
}

/* now: when the call entered, so that what the probe itself takes until here is not hidden. */
static inline void begin(struct target *to, const char *task, u64 pid_tgid, u64 now)
{
	u32 tid = pid_tgid;
	struct call *c = open_call(tid);

	if (!c)
		return;
	c->target = *to;
	forget_lower(c, task);
	if (to->op < OPS)
		note_started(to->op);
	c->start_ns = now;
}

/* io_getevents: what its thread submits meanwhile is charged to nothing. */
static inline void begin_reap(u64 events, const char *task, u32 tid)
{
	struct call *c = open_call(tid);

	if (!c)
		return;
	c->target.op = CALL_REAP;
	c->target.dev = 0;
	c->target.ino = events;
	c->target.file = FOLLOW(u64, task, task_struct_nvcsw);
}

/* A completion that was there before the program asked: part of its time is the program's. */
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
/* Beside the flags of an asynchronous read: among read_calls; and none of those that were cached */
#define WATCHED (1U << 31)
#define FETCHED (1U << 30)
#ifdef CASTS
#define STAYS (1U << 29) /* its entry stays when it has ended, with a start_ns of 0 */
#else
#define STAYS 0 /* one branch more in a loop, for a verifier that follows each path to its end */
#endif

/* A read that was counted when it was submitted, and that no cache and no disk has answered. */
static inline void note_failed(const struct target *of, u32 flags, s64 result)
{
	u32 zero = 0;
	struct charges *sum;

	if (result >= 0 || result == -EIO || !(flags & WATCHED) || of->is_opaque || of->is_at_end)
		return;
	sum = charges.lookup(&zero);
	if (!sum)
		return;
	if (of->op == OP_READ && !(flags & FETCHED))
		sum->failed_cached += 1;
	else if (of->op <= OP_READ_DIRECT)
		sum->failed_fetched += 1;
}

/*
 * A request handed to io_uring or libaio and not yet completed.  What a batch of them needs beyond
 * one round is in the thread's struct call, not in a per-CPU array: since 7.0 another thread's
 * batch can begin on this CPU amid this one.
 */
struct async {
	u64 start_ns;
	struct target target;
	u32 tgid;
	u32 rw_flags; /* and WATCHED, of one whose reads count among read_calls */
	u64 context; /* libaio's, from io_setup */
};

struct async_key {
	u64 request;
	u64 tgid;
};

BPF_HASH(asyncs, struct async_key, struct async, 65536);
/* How many of these stay; user space corrects it when it drops those of the dead. */
BPF_ARRAY(async_places, u64, 1);
#define ASYNC_PLACES 16384

/*
 * Note a request as under way, in the place of the one that had its address before where that is
 * still there: a hash's entry costs more to make and to delete than all the rest.  Returns 0 when
 * there is no room.
 */
static inline int note_async(const struct async_key *key, struct async *a, u32 unseen)
{
	struct async *before = asyncs.lookup(key);
	u32 zero = 0;
	u64 *places;

	if (before) {
		/* Under way still: no event said that it ended. */
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

/* It has ended; its place waits for the next one of this address. */
static inline void end_async(struct async_key *key, struct async *ended)
{
	if (ended->rw_flags & STAYS)
		ended->start_ns = ended->target.file = 0;
	else
		asyncs.delete(key);
}

/* When a context of libaio was given back: what was under way then, no call returns any more. */
BPF_HASH(destroyed, struct async_key, u64, 1024);

static inline void note_destroyed(u64 context, u64 pid_tgid)
{
	struct async_key key = {.request = context, .tgid = pid_tgid >> 32};
	u64 now = bpf_ktime_get_ns();

	if (destroyed.update(&key, &now))
		count_lost(LOST_MAP_FULL);
}

/* The request that was watched until now has submitted what it does at once: was it in memory? */
static inline void mark_fetched(const struct call *c)
{
	struct async_key key = {.request = c->request};
	struct async *found;

	/* A direct one was in no cache anyway. */
	if (!c->request || c->direct || !c->lower[0].bios)
		return;
	found = asyncs.lookup(&key);
	if (found)
		found->rw_flags |= FETCHED;
}
