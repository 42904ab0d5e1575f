/*
 * NFS client: the cost of each READ, WRITE and COMMIT, by mount, file and process, of each
 * metadata call by mount and process, and the parts of every remote procedure call.
 *
 * Timed   nfs_initiate_* (the client decides to send it) -> nfs_*_done (its last answer
 *         was processed); this includes the RPC's queue, its round trip and, after a
 *         delay or a lost session, its retries.  rpc_stats_latency has queue, round trip
 *         and execution of every attempt, as /proc/self/mountstats adds them; it is all
 *         that times a metadata call.
 * Exact   counts and bytes as mountstats: the key is the request's own address
 *         (struct nfs_pgio_header, nfs_commit_data).  (device, file, offset) is not a
 *         key: with four readers of one offset half were mixed up, and COMMIT has
 *         offset 0.
 * Kernels raw tracepoints with BTF of the modules nfs and sunrpc, 5.11 and later.
 * Cost    three programs per READ or WRITE, one per other procedure; none for I/O that
 *         the page cache serves.
 * Not     pNFS block and LOCALIO, which bypass READ and WRITE; COPY, CLONE and
 *         ALLOCATE, counted only as procedures.  Kernel threads submit COMMIT and
 *         write-back: the writer of the data is then unknown.  The file of a metadata
 *         call; how many of them are in flight.
 */
/* Callers may be preempted; kernels of 2026 no longer rule it out. */
#define IOH_ATOMIC
#include "ioh.h"
#include "path.h"
#include "part_totals.h"
#include "nfs.h"
#include "nfs_calls.h"

/* Requests in flight. */
BPF_HASH(pendings, u64, struct pending, 65536);
BPF_PERCPU_ARRAY(answers, struct answers, 1);
BPF_TABLE("percpu_hash", struct flow_key, struct flow, flows, FLOWS);

/* By RPC client: the device of its superblock. */
BPF_TABLE("lru_hash", u64, u32, devices, 1024);

static inline struct answers *answers_here(void)
{
	u32 zero = 0;

	return answers.lookup(&zero);
}

static inline u32 write_op(u32 stable)
{
	return stable < STABLE_HOWS ? OP_WRITE_UNSTABLE + stable : OP_WRITE_UNSTABLE;
}

/* Read-ahead and O_DIRECT run in the program's context, write-back in a kernel thread's. */
static inline void name_requester(struct pending *p)
{
	const char *task = (const char *)bpf_get_current_task();
	u32 flags = 0;

	READ(flags, FIELD(task, task_struct_flags));
	if (flags & PF_KTHREAD) {
		__builtin_memcpy(p->comm, "(write-back)", 13);
		return;
	}
	p->tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(&p->comm, sizeof(p->comm));
}

/* A request has no stamp yet: if it is pending, another copy of this began it. */
static inline void begin(u32 event, const char *request, const char *inode, u32 op)
{
	u64 key = (u64)request;
	struct pending p = {.op = op, .dev = device_of(inode)};
	struct op_totals *t;

	if (!take_turn(event, pendings.lookup(&key) != NULL))
		return;
	t = totals_of(p.dev, op);
	if (t)
		ADD(t->started, 1);
	name_requester(&p);
	READ(p.ino, FIELD(inode, inode_i_ino));
	p.name = name_hash_of(alias_of(inode));
	p.start_ns = bpf_ktime_get_ns();
	if (pendings.update(&key, &p))
		count_lost(LOST_MAP_FULL);
}

/* nfs_initiate_read(const struct nfs_pgio_header *hdr) */
int on_read_start(struct bpf_raw_tracepoint_args *ctx)
{
	const char *hdr = (const char *)ctx->args[0], *inode = NULL;

	READ(inode, FIELD(hdr, nfs_pgio_header_inode));
	begin(AT_READ_START, hdr, inode, OP_READ);
	return 0;
}

/* nfs_initiate_write(const struct nfs_pgio_header *hdr) */
int on_write_start(struct bpf_raw_tracepoint_args *ctx)
{
	const char *hdr = (const char *)ctx->args[0], *inode = NULL;
	u32 stable = 0;

	READ(inode, FIELD(hdr, nfs_pgio_header_inode));
	READ(stable, FIELD(hdr, nfs_pgio_header_args_stable));
	begin(AT_WRITE_START, hdr, inode, write_op(stable));
	return 0;
}

/* nfs_initiate_commit(const struct nfs_commit_data *data) */
int on_commit_start(struct bpf_raw_tracepoint_args *ctx)
{
	const char *data = (const char *)ctx->args[0], *inode = NULL;

	READ(inode, FIELD(data, nfs_commit_data_inode));
	begin(AT_COMMIT_START, data, inode, OP_COMMIT);
	return 0;
}

static inline void note_flow(const char *inode, u32 dev, const struct pending *p, u64 bytes, u64 ns)
{
	struct flow_key key = {.dev = dev, .tgid = p->tgid, .op = p->op};
	const char *dentry = alias_of(inode);
	struct answers *sum = answers_here();
	struct flow *f, fresh = {};

	READ(key.ino, FIELD(inode, inode_i_ino));
	key.name = name_hash_of(dentry);
	f = flows.lookup(&key);
	if (f) {
		ADD(f->count, 1);
		ADD(f->bytes, bytes);
		ADD(f->ns, ns);
		return;
	}
	fresh.count = 1;
	fresh.bytes = bytes;
	fresh.ns = ns;
	__builtin_memcpy(fresh.comm, p->comm, sizeof(fresh.comm));
	if (flows.update(&key, &fresh)) {
		if (sum)
			ADD(sum->unlisted, 1);
		return;
	}
	if (dentry)
		keep_path(key.ino, dev, key.name, dentry);
}

/* Not for retransmitted calls: each of several answers has another server time. */
static inline void sample_answer(const char *rqst, u32 op, u64 ns)
{
#ifdef SAMPLED_CALLS
	const char *xprt = NULL;
	int sends = 0;

	READ(sends, FIELD(rqst, rpc_rqst_rq_ntrans));
	READ(xprt, FIELD(rqst, rpc_rqst_rq_xprt));
	if (sends == 1 && xprt)
		sample_call(FIELD(rqst, rpc_rqst_rq_xid), FIELD(xprt, rpc_xprt_addr), op, ns);
#endif
}

/* When this attempt of the call began: different for all attempts of a task. */
static inline u64 began_at(const char *task)
{
	u64 began = 0;

	READ(began, FIELD(task, rpc_task_tk_start));
	return began;
}

/*
 * An answer has arrived.  again: it moved only a part, and the client sends the same request
 * again for the rest, without another nfs_initiate_*.
 */
static inline void finish(const char *request, const char *task, const char *inode, u32 op,
			  u64 bytes, int again)
{
	u64 key = (u64)request, now = bpf_ktime_get_ns(), sent = 0;
	struct pending *found = pendings.lookup(&key), p = {.op = op};
	u32 dev = device_of(inode);
	struct op_totals *t = totals_of(dev, op);
	const char *rqst = NULL;
	int status = 0;

	/* With a constant here, the verifier of 6.1 cannot follow the alignment. */
	asm volatile("" : "+r"(bytes));
	READ(rqst, FIELD(task, rpc_task_tk_rqstp));
	READ(status, FIELD(task, rpc_task_tk_status));
	if (found) {
		p = *found;
		if (again)
			found->start_ns = now;
		else
			pendings.delete(&key);
	} else {
		/* Begun before ioh attached: timed from the RPC's start. */
		count_lost(LOST_NO_START);
		p.start_ns = began_at(task);
		__builtin_memcpy(p.comm, "(before)", 9);
	}
	if (!t)
		return;
	if (!found || again)
		ADD(t->started, 1);
	if (now < p.start_ns)
		now = p.start_ns;
	if (status < 0) {
		ADD(t->errors, 1);
		ADD(t->failed_ns, now - p.start_ns);
		return;
	}
	add_finished(t, now - p.start_ns, bytes);
	if (rqst) {
		READ(sent, FIELD(rqst, rpc_rqst_rq_xtime));
		if (sent >= p.start_ns) {
			ADD(t->queue_ns, sent - p.start_ns);
			ADD(t->queued, 1);
			sample_answer(rqst, op, now - sent);
		}
	}
	note_flow(inode, dev, &p, bytes, now - p.start_ns);
}

/* nfs_readpage_done(const struct rpc_task *task, const struct nfs_pgio_header *hdr) */
int on_read_done(struct bpf_raw_tracepoint_args *ctx)
{
	const char *task = (const char *)ctx->args[0], *hdr = (const char *)ctx->args[1];
	const char *inode = NULL;
	struct answers *sum = answers_here();
	u32 asked = 0, eof = 0;
	u64 got = 0;

	if (!is_first(AT_READ_DONE, (u64)hdr, began_at(task)))
		return 0;
	READ(inode, FIELD(hdr, nfs_pgio_header_inode));
	READ(asked, FIELD(hdr, nfs_pgio_header_args_count));
	READ(got, FIELD(hdr, nfs_pgio_header_res_count));
	READ(eof, FIELD(hdr, nfs_pgio_header_res_eof));
	got = (u32)got;
	if (sum && got < asked) {
		if (eof)
			ADD(sum->eof_reads, 1);
		else
			ADD(sum->short_reads, 1);
	}
	finish(hdr, task, inode, OP_READ, got, got && got < asked && !eof);
	return 0;
}

/* nfs_writeback_done(const struct rpc_task *task, const struct nfs_pgio_header *hdr) */
int on_write_done(struct bpf_raw_tracepoint_args *ctx)
{
	const char *task = (const char *)ctx->args[0], *hdr = (const char *)ctx->args[1];
	const char *inode = NULL, *verifier = NULL;
	struct answers *sum = answers_here();
	u32 asked = 0, stable = 0, granted = STABLE_HOWS;
	u64 got = 0;

	if (!is_first(AT_WRITE_DONE, (u64)hdr, began_at(task)))
		return 0;
	READ(inode, FIELD(hdr, nfs_pgio_header_inode));
	READ(asked, FIELD(hdr, nfs_pgio_header_args_count));
	READ(stable, FIELD(hdr, nfs_pgio_header_args_stable));
	READ(got, FIELD(hdr, nfs_pgio_header_res_count));
	READ(verifier, FIELD(hdr, nfs_pgio_header_res_verf));
	got = (u32)got;
	if (verifier)
		READ(granted, FIELD(verifier, nfs_writeverf_committed));
	if (sum) {
		bump(sum->granted, granted, STABLE_HOWS);
		if (got < asked)
			ADD(sum->short_writes, 1);
	}
	finish(hdr, task, inode, write_op(stable), got, got && got < asked);
	return 0;
}

/* nfs_commit_done(const struct rpc_task *task, const struct nfs_commit_data *data) */
int on_commit_done(struct bpf_raw_tracepoint_args *ctx)
{
	const char *task = (const char *)ctx->args[0], *data = (const char *)ctx->args[1];
	const char *inode = NULL, *next = NULL;

	/* Not data: that is also the address of the task, its first member, which on_rpc() uses. */
	if (!is_first(AT_COMMIT_DONE, (u64)data + 1, began_at(task)))
		return 0;
	/* Unlike those of READ and WRITE, this one also runs for attempts that are repeated. */
	READ(next, FIELD(task, rpc_task_tk_action));
	if (next)
		return 0;
	READ(inode, FIELD(data, nfs_commit_data_inode));
	finish(data, task, inode, OP_COMMIT, 0, 0);
	return 0;
}

/* The device of the superblock whose inode has this file handle, if its calls use clnt; else 0. */
static inline u32 device_by_handle(const char *handle, const char *clnt)
{
	const char *inode = handle - OFF_nfs_inode_fh + OFF_nfs_inode_vfs_inode;
	const char *sb = NULL, *server = NULL, *client = NULL;

	READ(sb, FIELD(inode, inode_i_sb));
	READ(server, FIELD(sb, super_block_s_fs_info));
	READ(client, FIELD(server, nfs_server_client));
	return client == clnt ? device_of(inode) : 0;
}

/*
 * The device of a call's mount.  A superblock has an RPC client of its own, but that does not lead
 * back to it.  The arguments of most procedures begin with a file handle, which is inside an
 * inode; those of v4, and of some of v3, have the session's arguments before it.
 */
static inline u32 device_of_call(const char *task, const char *clnt, u32 version)
{
	const char *arguments = NULL, *handle = NULL;
	u64 key = (u64)clnt;
	u32 dev = 0, *known = devices.lookup(&key);

	READ(arguments, FIELD(task, rpc_task_tk_msg_rpc_argp));
	if (version < 4) {
		READ(handle, arguments);
		dev = device_by_handle(handle, clnt);
		if (!dev)
			dev = device_by_handle(arguments, clnt); /* GETATTR */
	}
	if (!dev) {
		READ(handle, FIELD(arguments, nfs_pgio_args_fh));
		dev = device_by_handle(handle, clnt);
	}
	if (!dev)
		return known ? *known : OTHER_PARTS;
	if (!known)
		devices.update(&key, &dev);
	else if (*known != dev)
		*known = dev; /* another mount's client at the same address */
	return dev;
}

/* The process that made the call: tasks often end in a kernel thread. */
static inline void note_caller(const char *task, u64 ns)
{
	struct flow_key key = {.op = OP_METADATA};
	struct answers *sum = answers_here();
	struct flow *f, fresh = {.count = 1, .ns = ns};
	int is_here;

	READ(key.tgid, FIELD(task, rpc_task_tk_owner));
	is_here = bpf_get_current_pid_tgid() >> 32 == key.tgid;
	f = flows.lookup(&key);
	if (f) {
		ADD(f->count, 1);
		ADD(f->ns, ns);
		if (is_here && !f->comm[0])
			bpf_get_current_comm(&f->comm, sizeof(f->comm));
		return;
	}
	if (is_here)
		bpf_get_current_comm(&fresh.comm, sizeof(fresh.comm));
	if (flows.update(&key, &fresh) && sum)
		ADD(sum->unlisted, 1);
}

static inline void add_metadata(const char *task, u32 dev, u32 op, const struct procedure *one,
				int status)
{
	struct op_totals *t = totals_of(dev, op);
	u64 bytes = 0;

	if (!t)
		return;
	ADD(t->started, 1);
	if (status < 0 && is_trouble(-status)) {
		ADD(t->errors, 1);
		ADD(t->failed_ns, one->execute_ns);
		return;
	}
	asm volatile("" : "+r"(bytes)); /* as in finish() */
	add_finished(t, one->execute_ns, bytes);
	ADD(t->queue_ns, one->queue_ns);
	ADD(t->queued, 1);
	note_caller(task, one->execute_ns);
}

/* rpc_stats_latency(task, ktime_t backlog, ktime_t rtt, ktime_t execute): an attempt has ended */
int on_rpc(struct bpf_raw_tracepoint_args *ctx)
{
	const char *task = (const char *)ctx->args[0], *clnt = NULL, *proc = NULL, *rqst = NULL;
	const char *name = NULL;
	struct procedure one = {.calls = 1};
	struct proc_key key = {};
	u32 program = 0, sends = 0, *op;
	u16 timeouts = 0;
	int status = 0;

	if (!is_first(AT_RPC, (u64)task, began_at(task)))
		return 0;
	READ(clnt, FIELD(task, rpc_task_tk_client));
	READ(program, FIELD(clnt, rpc_clnt_cl_prog));
	if (program != NFS_PROGRAM)
		return 0;
	READ(key.version, FIELD(clnt, rpc_clnt_cl_vers));
	READ(proc, FIELD(task, rpc_task_tk_msg_rpc_proc));
	READ(name, FIELD(proc, rpc_procinfo_p_name));
	bpf_probe_read_kernel_str(key.name, sizeof(key.name), name);
	READ(status, FIELD(task, rpc_task_tk_status));
	READ(timeouts, FIELD(task, rpc_task_tk_timeouts));
	READ(rqst, FIELD(task, rpc_task_tk_rqstp));
	if (rqst)
		READ(sends, FIELD(rqst, rpc_rqst_rq_ntrans));
	one.errors = status < 0;
	one.queue_ns = ctx->args[1];
	one.rtt_ns = ctx->args[2];
	one.execute_ns = ctx->args[3];
	one.retransmits = sends > 1 ? sends - 1 : 0;
	one.timeouts = timeouts;
	add_procedure(&key, &one);
	op = metadata_ops.lookup(&key);
	if (op)
		add_metadata(task, device_of_call(task, clnt, key.version), *op, &one, status);
	return 0;
}
