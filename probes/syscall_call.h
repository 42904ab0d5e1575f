/*
 * A thread's call under way, what it became below, and the totals it adds to in
 * the end.  Part of syscall.c.
 */
/* What a slot is used for beyond the ops: calls that carry requests of several files. */
enum { CALL_SUBMIT = 0x80, CALL_REAP };

/* Counters of ioh/layers/syscall.py's metrics, in their order. */
struct charges {
	u64 read_calls;
	u64 read_cached;
	u64 read_at_end;
	u64 read_lower_ops;
	u64 read_lower_bytes;
	u64 write_calls;
	u64 write_lower_ops;
	u64 write_lower_bytes;
	u64 lower_splits;
	u64 lower_requests;
	u64 read_reaped_late;
	u64 write_reaped_late;
	u64 unlisted;
	/* Operations counted as started whose end will not be seen, or that never were. */
	u64 withdrawn[OPS];
};

/* What was submitted to the block layer in one direction while a call was open. */
struct lower {
	u32 bios;
	u32 requests;
	u64 bytes;
};

#define IN_HASH 0xffffffff
#define OTHER_FILES (~0ULL)

/*
 * One thread's call under way; only that thread writes it.  crowd counts the
 * threads that share this slot and live in the hash instead, where it is IN_HASH.
 */
struct call {
	u32 tid;
	u32 crowd;
	u64 start_ns;
	struct target target;
	struct lower lower[2]; /* reads, writes */
	u32 batch[2]; /* asynchronous reads and writes submitted and not yet settled */
	u32 direct; /* of these reads, those of O_DIRECT */
	u32 linked; /* the last request of io_uring has another one wait for it */
	u64 splits;
	u64 read_account; /* what the kernel had charged to the thread when the call began */
};

struct flow_key {
	u64 ino;
	u32 dev;
	u32 tgid;
	u32 op;
	u32 name;
};

struct flow {
	u64 count;
	u64 bytes;
	u64 ns;
	char comm[16];
};

BPF_ARRAY(calls, struct call, CALL_SLOTS);
BPF_HASH(crowded, u32, struct call, 4096);
BPF_PERCPU_ARRAY(totals, struct op_totals, OPS);
BPF_PERCPU_ARRAY(charges, struct charges, 1);
BPF_TABLE("percpu_hash", struct flow_key, struct flow, flows, FLOWS);

/* The thread's open call; threads whose ids collide share a slot and fall back to a hash. */
static inline struct call *find_call(u32 tid)
{
	u32 index = tid & (CALL_SLOTS - 1);
	struct call *c = calls.lookup(&index);

	if (!c || c->tid == tid)
		return c;
	return c->crowd ? crowded.lookup(&tid) : NULL;
}

static inline struct call *open_call(u32 tid)
{
	u32 index = tid & (CALL_SLOTS - 1);
	struct call *c = calls.lookup(&index), fresh = {};

	if (!c)
		return NULL;
	if (c->tid == 0 || c->tid == tid) {
		c->tid = tid;
		return c;
	}
	fresh.tid = tid;
	fresh.crowd = IN_HASH;
	if (crowded.update(&tid, &fresh)) {
		count_lost(LOST_MAP_FULL);
		return NULL;
	}
	__sync_fetch_and_add(&c->crowd, 1);
	return crowded.lookup(&tid);
}

static inline void close_call(struct call *c, u32 tid)
{
	u32 index = tid & (CALL_SLOTS - 1);

	if (c->crowd != IN_HASH) {
		c->tid = 0;
		return;
	}
	crowded.delete(&tid);
	c = calls.lookup(&index);
	if (c)
		__sync_fetch_and_add(&c->crowd, -1);
}

static inline void note_started(u32 op)
{
	struct op_totals *t = totals.lookup(&op);

	if (t)
		t->started += 1;
}

static inline void withdraw(u32 op)
{
	u32 zero = 0;
	struct charges *sum = charges.lookup(&zero);

	if (sum && op < OPS)
		sum->withdrawn[op] += 1;
}

/* How many entries this tick has made; user space needs a few ticks to drop those that are idle. */
struct newcomers {
	u64 epoch;
	u64 count;
};

BPF_ARRAY(newcomers, struct newcomers, 1);

static inline int is_welcome(void)
{
	u32 zero = 0;
	struct newcomers *made = newcomers.lookup(&zero);
	u64 *now_epoch = epoch.lookup(&zero);

	if (!made || !now_epoch)
		return 0;
	if (made->epoch != *now_epoch) {
		made->epoch = *now_epoch;
		made->count = 0;
	}
	if (made->count >= NEWCOMERS)
		return 0;
	__sync_fetch_and_add(&made->count, 1);
	return 1;
}

static inline void add_to_flow(struct flow *f, u64 bytes, u64 ns)
{
	f->count += 1;
	f->bytes += bytes;
	f->ns += ns;
}

/* Returns 1 when this is the first operation of its kind by this process on this file. */
static inline int note_flow(const struct flow_key *key, struct flow *f, u64 bytes, u64 ns)
{
	const char *leader;
	struct flow_key held = *key;
	struct flow fresh = {};
	struct charges *sum;
	u32 zero = 0, is_named = 1;

	if (f) {
		add_to_flow(f, bytes, ns);
		return 0;
	}
	if (!is_welcome()) {
		/* With all the others of this process, so that its sum is whole. */
		is_named = 0;
		held.ino = OTHER_FILES;
		held.name = 0;
		f = flows.lookup(&held);
		if (f) {
			add_to_flow(f, bytes, ns);
			return 0;
		}
	}
	fresh.count = 1;
	fresh.bytes = bytes;
	fresh.ns = ns;
	/* The process' name: a thread may have one of its own. */
	leader = FOLLOW(const char *, CURRENT, task_struct_group_leader);
	READ(fresh.comm, FIELD(leader, task_struct_comm));
	if (flows.update(&held, &fresh)) {
		sum = charges.lookup(&zero);
		if (sum)
			sum->unlisted += 1;
	}
	return is_named;
}

/*
 * ERESTARTSYS to ERESTART_RESTARTBLOCK: the kernel makes the call anew after a signal.  EAGAIN:
 * the program does, when a full socket has room or a worker has read what was not in the cache.
 */
#define is_made_anew(result) (((result) <= -512 && (result) >= -516) || (result) == -11)

/* One operation has ended: result < 0 is an error and counts as nothing else. */
static inline int finish(const struct target *of, u32 tgid, u64 start_ns, s64 result)
{
	struct flow_key key = {
		.ino = of->ino, .dev = of->dev, .tgid = tgid, .op = of->op, .name = of->name};
	u32 op = of->op;
	struct op_totals *t = totals.lookup(&op);
	struct flow *f;
	u64 ns;

	if (!t)
		return 0;
	if (is_made_anew(result)) {
		withdraw(op);
		return 0;
	}
	if (result < 0) {
		t->errors += 1;
		return 0;
	}
	/* Whoever waits for the call waits for the probe, too: look up first, then stop the clock.
	 */
	f = flows.lookup(&key);
	ns = bpf_ktime_get_ns() - start_ns;
	if (op == OP_FSYNC)
		result = 0;
	add_finished(t, ns, result);
	return note_flow(&key, f, result, ns);
}

/*
 * direct: how many of the calls were O_DIRECT.  They are no cache, even where the bio left the
 * caller's context because a control group's limit delayed it.
 */
static inline void charge_reads(struct charges *sum, u32 calls_made, u32 direct,
				const struct lower *low)
{
	/* Requests of a batch cannot be told apart: each bio is taken for one of them. */
	u32 fetched = low->bios > direct ? low->bios : direct;

	sum->read_calls += calls_made;
	if (fetched < calls_made)
		sum->read_cached += calls_made - fetched;
	sum->read_lower_ops += low->requests ? low->requests : fetched;
	sum->read_lower_bytes += low->bytes;
}

static inline void charge_writes(struct charges *sum, u64 calls_made, const struct lower *low)
{
	sum->write_calls += calls_made;
	sum->write_lower_ops += low->requests ? low->requests : low->bios;
	sum->write_lower_bytes += low->bytes;
}

#ifdef OFF_task_struct_ioac_read_bytes
#define READ_ACCOUNT() FOLLOW(u64, CURRENT, task_struct_ioac_read_bytes)
#else
#define READ_ACCOUNT() 0
#endif

/*
 * A read whose bios somebody else hands on (a control group's limit delays them, dm-crypt's
 * workers decrypt them) is in the thread's own account all the same: submit_bio() keeps it.
 */
static inline void add_handed_on(const struct call *c, struct lower *low)
{
	u64 bytes = READ_ACCOUNT() - c->read_account;

	if (low->requests || !bytes)
		return;
	low->bytes = bytes;
	if (!low->bios)
		low->bios = 1;
}

/* What a call became below, once it has ended; for a batch each direction apart. */
static inline void settle(const struct call *c, u32 op, s64 result)
{
	struct lower both = {};
	struct charges *sum;
	u32 zero = 0;

	sum = charges.lookup(&zero);
	if (!sum)
		return;
	if (op == CALL_SUBMIT) {
		if (!c->batch[0] && !c->batch[1])
			return; /* none of its requests is asked for: they go to another device */
		if (c->batch[0])
			charge_reads(sum, c->batch[0], c->direct, &c->lower[0]);
		if (c->batch[1])
			charge_writes(sum, c->batch[1], &c->lower[1]);
	} else if (!c->target.is_opaque) {
		both.bios = c->lower[0].bios + c->lower[1].bios;
		both.requests = c->lower[0].requests + c->lower[1].requests;
		both.bytes = c->lower[0].bytes + c->lower[1].bytes;
		if (op <= OP_READ_DIRECT)
			add_handed_on(c, &both);
		if (op > OP_READ_DIRECT)
			charge_writes(sum, 1, &both);
		else if (result || both.bios)
			charge_reads(sum, 1, op == OP_READ_DIRECT && result, &both);
		else /* The end of the file: no cache had anything for it. */
			sum->read_at_end += 1;
	}
	sum->lower_requests += c->lower[0].requests + c->lower[1].requests;
	sum->lower_splits += c->splits;
}

static inline void forget_lower(struct call *c)
{
	__builtin_memset(c->lower, 0, sizeof(c->lower));
	c->batch[0] = c->batch[1] = c->direct = c->linked = 0;
	c->splits = 0;
}

#ifdef FILTER_CGROUP
#define CGROUP_DEPTH 16

/* Whether the current process is in the control group that is asked for, or in one below it. */
static inline int is_in_cgroup(void)
{
	const char *set = NULL, *group = NULL, *node = NULL, *parent = NULL;
	u64 id = 0;
	int i;

	READ(set, FIELD(bpf_get_current_task(), task_struct_cgroups));
	READ(group, FIELD(set, css_set_dfl_cgrp));
	for (i = 0; i < CGROUP_DEPTH; i++) {
		READ(node, FIELD(group, cgroup_kn));
		READ(id, FIELD(node, kernfs_node_id));
		if (id == FILTER_CGROUP)
			return 1;
		READ(parent, FIELD(group, cgroup_self_parent));
		if (!parent)
			return 0;
		READ(group, FIELD(parent, cgroup_subsys_state_cgroup));
	}
	return 0;
}
#endif

static inline int is_filtered(u32 tgid)
{
#ifdef FILTER_PID
	if (tgid != FILTER_PID)
		return 1;
#endif
#ifdef FILTER_CGROUP
	if (!is_in_cgroup())
		return 1;
#endif
#ifdef FILTER_COMM
	const char *leader = FOLLOW(const char *, CURRENT, task_struct_group_leader);
	char comm[16] = {}, wanted[16] = FILTER_COMM;
	int i;

	/*
	 * The process' name: its threads have names of their own.  As a string: until 5.17
	 * __set_task_comm() left the end of a longer name standing behind the NUL.
	 */
	bpf_probe_read_kernel_str(comm, sizeof(comm), FIELD(leader, task_struct_comm));
#pragma unroll
	for (i = 0; i < 15; i++)
		if (comm[i] != wanted[i])
			return 1;
#endif
	return 0;
}

/* now: when the call entered, so that what the probe itself takes until here is not hidden. */
static inline void begin(struct target *to, u64 pid_tgid, u64 now)
{
	u32 tid = pid_tgid;
	struct call *c = open_call(tid);

	if (!c)
		return;
	c->target = *to;
	forget_lower(c);
	if (to->op < OPS)
		note_started(to->op);
	if (to->op <= OP_READ_DIRECT)
		c->read_account = READ_ACCOUNT();
	c->start_ns = now;
}
