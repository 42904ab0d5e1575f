/*
 * Databases: statements, commits, reads, log syncs and waits, by server and by session, from the
 * servers' own probe points (USDT) and functions.
 *
 * Timed   from an operation's start to its end in one thread, the outermost if they nest; if
 *         another thread may end it, by the address of what describes it.
 * Within  the waits of a statement, a commit or a log sync: each operation that ends inside it, the
 *         CPU time of its thread, and its time in the run queue outside of those operations.
 * Exact   counts and bytes as the server's own statistics; a statement that fails by a jump past
 *         its end counts as an error when the server reports it (its "cancel" point).
 * Kernels 5.15 and later: a program can ask where it is attached (its cookie).
 * Cost    a trap per point, 1 to 2 µs, and the same again for a function's return.
 * Not     operations in progress when ioh attaches; servers with unknown probe points; the session
 *         of ioh's own login.
 */
/* Programs on user-space functions can be preempted, also by each other. */
#define IOH_ATOMIC
#include "ioh.h"
#include "part_totals.h"

#define REGISTERS 0x1ff
#define ANY_VALUE 0xffffffff /* in site.only: any but 0 */
#define COMM_BYTES 16

/* For a key that is not a thread. */
#define SHARED (1U << 31)

/* Kinds of waits: operations from OP_LOG_SYNC on, and the thread's own time on a CPU and for one.
 */
#define WAIT_CPU (WAITS - 2)
#define WAIT_QUEUE (WAITS - 1)
/* The operations whose waits are counted. */
#define HAS_WAITS(op) ((op) <= OP_LOG_SYNC)

BPF_ARRAY(sites, struct site, SITES);
BPF_HASH(open_ops, struct open_key, struct open_op, 16384);
/* By op: what a program's function costs its callers, even if the call does not count. */
BPF_PERCPU_ARRAY(traps, u64, OPS);
BPF_TABLE("percpu_hash", struct wait_key, struct wait, waits, 256);
BPF_HASH(sessions, struct session_key, struct session, 8192);
/* The thread that serves ioh's login. */
BPF_ARRAY(own_session, u32, 1);

/* bpf_get_attach_cookie(), missing in old headers of bcc */
static u64 (*const attach_cookie)(void *ctx) = (void *)174;

/*
 * A thread's CPU time, for differences: until the scheduler gave it the CPU, plus the time since.
 * The scheduler's own sum is only as recent as its last update.  Its clock differs from ours by a
 * constant; exec_start does not work, because its clock excludes each CPU's own interrupts.
 */
static inline u64 cpu_time_ns(u64 now)
{
	const char *task = (const char *)bpf_get_current_task();
	u64 ns = 0, since = 0;

	READ(ns, FIELD(task, task_struct_se_prev_sum_exec_runtime));
	READ(since, FIELD(task, task_struct_sched_info_last_arrival));
	return ns + now - since;
}

/* A thread's time in the run queue: exact while it runs. */
static inline u64 queue_time_ns(void)
{
	const char *task = (const char *)bpf_get_current_task();
	u64 ns = 0;

	READ(ns, FIELD(task, task_struct_sched_info_run_delay));
	return ns;
}

static inline u64 exec_time_ns(void)
{
	const char *task = (const char *)bpf_get_current_task();
	u64 ns = 0;

	READ(ns, FIELD(task, task_struct_se_sum_exec_runtime));
	return ns;
}

/* The server of a thread: its process, or the one that forked it for a session. */
static inline u32 server_of(const struct site *s)
{
	const char *task = (const char *)bpf_get_current_task(), *parent = NULL;
	u32 server = bpf_get_current_pid_tgid() >> 32;
	char own[COMM_BYTES] = {}, theirs[COMM_BYTES] = {};
	int i;

	if (s->owner != OWNER_PARENT)
		return server;
	READ(parent, FIELD(task, task_struct_real_parent));
	bpf_get_current_comm(own, sizeof(own));
	bpf_probe_read_kernel(theirs, sizeof(theirs), FIELD(parent, task_struct_comm));
#pragma unroll
	for (i = 0; i < COMM_BYTES; i++)
		if (own[i] != theirs[i])
			return server; /* the first one, whose parent is not a server */
	READ(server, FIELD(parent, task_struct_tgid));
	return server;
}

/* An operation's key: its thread, or an address in its server's shared memory. */
static inline u32 opener_of(const char *ctx, const struct site *s)
{
	u64 at = 0;

	if (!s->key_register)
		return bpf_get_current_pid_tgid();
	bpf_probe_read_kernel(&at, sizeof(at), ctx + ((s->key_register - 1) & REGISTERS));
	return SHARED | ((u32)(at >> 3) ^ server_of(s) * 0x9e3779b1U);
}

/* An argument, as its site describes it; a size is never below 0. */
static inline u64 size_at(const char *ctx, const struct site *s)
{
	u64 v = s->displacement, at = 0;

	if (s->size_kind == SIZE_NONE)
		return 0;
	if (s->size_kind != SIZE_CONSTANT) {
		bpf_probe_read_kernel(&at, sizeof(at), ctx + (s->size_register & REGISTERS));
		v += at;
	}
	if (s->size_kind == SIZE_MEMORY) {
		at = v;
		v = 0;
		bpf_probe_read_user(&v, sizeof(v), (const void *)at);
	}
	v <<= s->size_bits & 63;
	if (s->size_is_signed && (s64)v < 0)
		return 0;
	return (v >> (s->size_bits & 63)) * s->scale;
}

/* Waits count when their operation ends: many commits that begin turn out not to be one. */
static inline void add_waits(const struct open_op *o, u32 outer, u64 now, u64 delay_ns)
{
	struct wait_key key = {.server = o->server, .outer = outer};
	struct wait *w = waits.lookup(&key);
	s64 ns = now - o->start_ns, cpu_ns = cpu_time_ns(now) - o->cpu_ns;
	s64 queued_ns = o->waited.ns[WAIT_QUEUE] + delay_ns;
	u32 zero = 0;
	void *fresh;
	int i;

	if (!w) {
		fresh = blank.lookup(&zero);
		if (fresh)
			waits.insert(&key, fresh);
		w = waits.lookup(&key);
	}
	if (!w) {
		count_lost(LOST_MAP_FULL);
		return;
	}
	/* Most statements did not wait, and an atomic add of 0 costs as much as any. */
#pragma unroll
	for (i = 0; i < WAIT_CPU; i++) {
		if (!o->waited.count[i])
			continue;
		ADD(w->count[i], o->waited.count[i]);
		ADD(w->ns[i], o->waited.ns[i]);
	}
	ADD(w->count[WAIT_CPU], 1);
	/* The scheduler's clocks differ slightly from ours. */
	ADD(w->ns[WAIT_CPU], cpu_ns < 0 ? 0 : cpu_ns > ns ? ns : cpu_ns);
	if (queued_ns > 0) {
		ADD(w->count[WAIT_QUEUE], 1);
		ADD(w->ns[WAIT_QUEUE], queued_ns > ns ? ns : queued_ns);
	}
}

/* The operation that ends was a part of the current statement or commit; its delay is its own. */
static inline void add_within(u32 tid, u32 outer, u32 inner, u64 ns, u64 delay_ns)
{
	struct open_key key = {.tid = tid, .op = outer};
	struct open_op *o;
	u64 at = (u32)(inner - OP_LOG_SYNC);

	/* As in bump(). */
	asm volatile("" : "+r"(at));
	if (at >= WAIT_CPU)
		return;
	o = open_ops.lookup(&key);
	if (!o)
		return;
	o->waited.count[at] += 1;
	o->waited.ns[at] += ns;
	o->waited.ns[WAIT_QUEUE] -= delay_ns;
}

/* Whether a call counts. */
static inline int is_meant(const struct site *s, u64 v)
{
	if (!s->only[0] || s->size_kind == SIZE_NONE)
		return 1;
	if (s->only[0] == ANY_VALUE)
		return v != 0;
	return v == s->only[0] || v == s->only[1] || v == s->only[2] || v == s->only[3];
}

static inline void add_session(u32 server, u32 tid, u64 op, u64 ns)
{
	struct session_key key = {.server = server, .tid = tid};
	struct session *row = sessions.lookup(&key);
	u32 zero = 0;
	void *fresh;

	if (!row) {
		fresh = blank.lookup(&zero);
		if (fresh)
			sessions.insert(&key, fresh);
		row = sessions.lookup(&key);
	}
	if (!row) {
		count_lost(LOST_MAP_FULL);
		return;
	}
	asm volatile("" : "+r"(op));
	if (op >= SESSION_OPS)
		return;
	ADD_SHARED(row->count[op], 1);
	ADD_SHARED(row->ns[op], ns);
}

static inline void begin(const struct site *s, struct open_key *key, struct open_op *before,
			 u64 bytes)
{
	struct open_op fresh = {.way = s->way, .bytes = bytes, .is_wait = s->is_wait};

	if (before && before->way != s->way)
		return; /* inside the same op */
	fresh.server = server_of(s);
	if (before && s->only[0] && s->size_kind == SIZE_NONE && before->server == fresh.server) {
		before->depth++;
		return;
	}
	fresh.tid = bpf_get_current_pid_tgid();
	fresh.start_ns = bpf_ktime_get_ns();
	fresh.delay_ns = queue_time_ns();
	if (HAS_WAITS(key->op)) {
		fresh.cpu_ns = cpu_time_ns(fresh.start_ns);
		fresh.exec_ns = exec_time_ns();
	}
	if (open_ops.update(key, &fresh))
		count_lost(LOST_MAP_FULL);
}

/* A statement fails by a jump: what its thread waits for ends there, too, and has no end of its
 * own. */
static inline void end_waits(struct open_op *outer, u32 tid, u64 now)
{
	struct open_key key = {.tid = tid};
	struct op_totals *t;
	struct open_op *o;
	u32 i;

#pragma unroll
	for (i = 0; i < WAIT_CPU; i++) {
		key.op = OP_LOG_SYNC + i;
		o = open_ops.lookup(&key);
		if (!o || o->start_ns < outer->start_ns)
			continue;
		outer->waited.count[i] += 1;
		outer->waited.ns[i] += now - o->start_ns;
		t = o->is_wait ? NULL : totals_of(o->server, key.op);
		if (t) {
			ADD(t->errors, 1);
			ADD(t->failed_ns, now - o->start_ns);
		}
		open_ops.delete(&key);
	}
}

static inline void finish(const struct site *s, struct open_key *key, struct open_op *o, u64 bytes)
{
	u64 now = bpf_ktime_get_ns(), ns = now > o->start_ns ? now - o->start_ns : 0;
	u64 delay_ns = queue_time_ns() - o->delay_ns;
	struct op_totals *t = totals_of(o->server, key->op);
	u32 server = o->server, tid = o->tid, op = key->op;
	int failed = s->role == ROLE_CANCEL;

	if (!t)
		return;
	if (failed) {
		ADD(t->errors, 1);
		ADD(t->failed_ns, ns);
	} else if (!s->is_wait) {
		add_finished(t, ns, bytes);
	}
	if (!s->is_wait)
		ADD(t->started, 1); /* last: a larger number means ROLE_UNSEEN */
	if (failed && op == OP_STATEMENT)
		end_waits(o, tid, now);
	if (HAS_WAITS(op))
		add_waits(o, op, now, delay_ns);
	open_ops.delete(key);
	if (!s->key_register) { /* the thread waited for it and did nothing else */
		add_within(tid, OP_STATEMENT, op, ns, delay_ns);
		add_within(tid, OP_COMMIT, op, ns, delay_ns);
	}
	if (op < SESSION_OPS && !s->is_wait && !failed)
		add_session(server, tid, op, ns);
}

/*
 * Never filled.  Linux 6.13 and newer give a program of this type a per-CPU stack, assuming that
 * it never runs twice at a time there.  But a program at a uprobe can be preempted, the next
 * task's run on that CPU overwrites the stack, and the kernel crashes.  A program with tail calls
 * has no such stack.
 */
BPF_PROG_ARRAY(no_private_stack, 1);

/* All probe points and functions run this; the cookie identifies them. */
int on_site(struct bpf_raw_tracepoint_args *ctx)
{
	u32 at = attach_cookie(ctx);
	struct site *s = sites.lookup(&at);
	u32 zero = 0, tid = bpf_get_current_pid_tgid(), *own = own_session.lookup(&zero);
	struct open_key key = {};
	struct op_totals *t;
	struct open_op *o;
	u64 bytes, *trapped;
	int is_other;

	if (!s) {
		no_private_stack.call(ctx, 0);
		return 0;
	}
	if (own && *own == tid)
		return 0;
	key.tid = opener_of((const char *)ctx, s);
	key.op = s->op;
	trapped = traps.lookup(&key.op);
	if (trapped)
		ADD(*trapped, 1);
	o = open_ops.lookup(&key);
	bytes = size_at((const char *)ctx, s);
	is_other = !is_meant(s, bytes);
	if (s->only[0])
		bytes = 0;
	if (s->role == ROLE_UNSEEN) {
		t = is_other ? NULL : totals_of(server_of(s), key.op);
		if (t)
			ADD(t->started, 1); /* it never ends */
		return 0;
	}
	if (s->role == ROLE_FIRST && o)
		return 0;
	if (s->role == ROLE_START || s->role == ROLE_FIRST) {
		if (!is_other)
			begin(s, &key, o, bytes);
		return 0;
	}
	if (!o || (s->role == ROLE_DONE && o->way != s->way))
		return 0; /* it began before ioh attached, or is a part of another one */
	if (s->role == ROLE_DONE && o->depth) {
		o->depth--;
		return 0;
	}
	if (s->role == ROLE_CANCEL || (s->role == ROLE_DONE && !is_other))
		finish(s, &key, o, bytes ? bytes : o->bytes);
	else
		open_ops.delete(&key);
	return 0;
}
