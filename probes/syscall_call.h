/*
 * A thread's open call, and the totals that it adds to at its end.  Part of
 * syscall.c.
 */
/* Further uses of a slot: calls with requests for several files. */
enum { CALL_SUBMIT = 0x80, CALL_REAP };

#define is_meta(op) ((op) >= OP_OPEN && (op) <= OP_CLOSE)

#define ALL_FILES_NAME 2 /* a sync, with inode 0; see SWAP_NAME */

/* sync_file_range that waits for the end is a sync; else it only starts write-back. */
#define SYNC_FILE_RANGE_WAIT_AFTER 4
#define kind_of_sync_range(flags) ((flags) & SYNC_FILE_RANGE_WAIT_AFTER ? OP_FSYNC : OP_WRITEBACK)

#define IN_HASH 0xffffffff
#define OTHER_FILES (~0ULL)

/*
 * A thread's open call; only that thread writes it.  crowd is the number of threads
 * that share this slot and use the hash instead; there it is IN_HASH.
 */
BPF_ARRAY(calls, struct call, CALL_SLOTS);

#define CALL_TICK(ns) ((u32)((ns) >> CALL_TICK_LOG2))

/* By group of slots, when a call last began: user space looks at those in use. */
struct call_groups {
	u32 ticks[CALL_SLOTS / CALL_GROUP];
};

BPF_ARRAY(call_groups, struct call_groups, 1);
BPF_HASH(crowded, u32, struct call, 4096);
BPF_ARRAY(blank_call, struct call, 1); /* a new call: too large for the stack */
BPF_PERCPU_ARRAY(totals, struct op_totals, OPS);
BPF_PERCPU_ARRAY(charges, struct charges, 1);
BPF_TABLE("percpu_hash", struct flow_key, struct flow, flows, FLOWS);

/* Failed operations, of which there are few; user space takes them out once a tick. */
BPF_HASH(failures, struct failure, struct failed, 1024);

/* The thread's open call; threads with colliding ids share a slot and fall back to a hash. */
static inline struct call *find_call(u32 tid)
{
	u32 index = tid & (CALL_SLOTS - 1);
	struct call *c = calls.lookup(&index);

	if (!c || c->tid == tid)
		return c;
	return c->crowd ? crowded.lookup(&tid) : NULL;
}

static inline void note_group(u32 index, u64 now)
{
	u32 zero = 0;
	struct call_groups *groups = call_groups.lookup(&zero);
	/* Hidden: bcc would write the tick with a helper, since the index comes from the task. */
	u64 group = (u64)hidden(index / CALL_GROUP) % (CALL_SLOTS / CALL_GROUP);

	if (groups)
		groups->ticks[group] = CALL_TICK(now);
}

/* now: when the call began; 0 for one that user space does not look for. */
static inline struct call *open_call(u32 tid, u64 now)
{
	u32 index = tid & (CALL_SLOTS - 1), zero = 0;
	struct call *c = calls.lookup(&index), *blank;

	if (!c)
		return NULL;
	if (c->tid == 0 || c->tid == tid) {
		c->tid = tid;
		/* Most calls follow another one in the same tick, which has noted the group. */
		if (now && CALL_TICK(c->start_ns) != CALL_TICK(now))
			note_group(index, now);
		return c;
	}
	if (now)
		note_group(index, now);
	blank = blank_call.lookup(&zero);
	if (!blank)
		return NULL;
	if (crowded.update(&tid, blank)) {
		count_lost(LOST_MAP_FULL);
		return NULL;
	}
	__sync_fetch_and_add(&c->crowd, 1);
	c = crowded.lookup(&tid);
	if (!c)
		return NULL;
	c->tid = tid;
	c->crowd = IN_HASH;
	return c;
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

	if (sum)
		bump(sum->withdrawn, op, OPS);
}

/* Entries made in this tick; user space needs a few ticks to drop idle ones. */
struct newcomers {
	u64 epoch;
	u64 count;
};

BPF_ARRAY(newcomers, struct newcomers, 1);

/*
 * Whether a new flow gets its own entry: the first ones of a tick always, later ones by chance,
 * which grows with bytes and time.  A flow with 1 MB or 16 ms in total nearly always gets one.
 */
static inline int is_welcome(u64 bytes, u64 ns)
{
	u32 zero = 0, chance;
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
	chance = bpf_get_prandom_u32();
	if (made->count >= FIRST_COMERS && (chance & 0x3ffff) >= bytes && chance >> 10 >= ns)
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

/*
 * Returns 1 for the first operation of its kind by this process on this file.  May change key to
 * another entry's.
 */
static inline int note_flow(struct flow_key *key, struct flow *f, u64 bytes, u64 ns)
{
	const char *leader;
	struct flow fresh = {};
	struct charges *sum;
	u32 zero = 0, is_named = 1;

	if (f) {
		add_to_flow(f, bytes, ns);
		return 0;
	}
	if (!is_welcome(bytes, ns)) {
		/* With all others of this process, to keep its sum complete. */
		is_named = 0;
		key->ino = OTHER_FILES;
		key->name = 0;
		f = flows.lookup(key);
		if (f) {
			add_to_flow(f, bytes, ns);
			return 0;
		}
	}
	fresh.count = 1;
	fresh.bytes = bytes;
	fresh.ns = ns;
	/* The process' name: a thread may have another one. */
	leader = FOLLOW(const char *, CURRENT, task_struct_group_leader);
	READ(fresh.comm, FIELD(leader, task_struct_comm));
	if (flows.update(key, &fresh)) {
		sum = charges.lookup(&zero);
		if (sum)
			sum->unlisted += 1;
	}
	return is_named;
}

static inline void note_failure(const struct target *of, u32 tgid, s64 result)
{
	struct failure key = {.tgid = tgid, .op = of->op, .dev = of->dev, .error = -result};
	struct failed fresh = {.count = 1}, *known = failures.lookup(&key);
	const char *leader;

	if (known) {
		__sync_fetch_and_add(&known->count, 1);
		return;
	}
	leader = FOLLOW(const char *, CURRENT, task_struct_group_leader);
	READ(fresh.comm, FIELD(leader, task_struct_comm));
	failures.update(&key, &fresh);
}

/*
 * ERESTARTSYS to ERESTART_RESTARTBLOCK: the kernel repeats the call after a signal.  EAGAIN: the
 * program repeats it when a full socket has room or a worker has read what was not cached.
 */
#define is_made_anew(result) (((result) <= -512 && (result) >= -516) || (result) == -11)

/* Whether this errno is an answer to a metadata call, such as ENOENT, and not a failure. */
static inline int is_answer(u32 op, s64 result)
{
	u64 error = -result;

	if (!is_meta(op) || is_made_anew(result))
		return 0;
	return error >= 128 || !((error < 64 ? TROUBLE_LOW : TROUBLE_HIGH) >> (error & 63) & 1);
}

/*
 * An operation has ended, now if end_ns is NULL; if it failed, it only counts as an error.
 */
static inline int finish(const struct target *of, u32 tgid, u64 start_ns, const u64 *end_ns,
			 s64 result)
{
	struct flow_key key = {
		.ino = of->ino, .dev = of->dev, .tgid = tgid, .op = of->op, .name = of->name};
	u32 op = of->op;
	struct op_totals *t = totals.lookup(&op);
	struct flow *f;
	u64 ns;

	if (!t)
		return 0;
	if (result < 0 && is_answer(op, result)) {
		note_failure(of, tgid, result);
	} else if (result < 0) {
		t->failed_ns += (end_ns ? *end_ns : bpf_ktime_get_ns()) - start_ns;
		if (is_made_anew(result)) {
			withdraw(op);
			return 0;
		}
		t->errors += 1;
		note_failure(of, tgid, result);
		return 0;
	}
	/* The caller also waits for the probe: look up first, then stop the clock. */
	f = flows.lookup(&key);
	ns = (end_ns ? *end_ns : bpf_ktime_get_ns()) - start_ns;
	if (op == OP_FSYNC || is_meta(op))
		result = 0;
	add_finished(t, ns, result);
	return note_flow(&key, f, result, ns);
}
