/*
 * NFS server: the cost of each READ, WRITE and COMMIT, by exported file system, file and
 * client, and of metadata by client.
 *
 * Timed   nfsd_read_start, nfsd_write_start -> …_done, and COMMIT from the end of the
 *         previous operation in its compound (NFSv3: from svc_process) to its own end.
 *         One nfsd thread serves a call from start to end, so its id is the key.
 *         Metadata as COMMIT, from v4 each operation of a compound by itself.
 * Cached  a READ during which its thread submitted nothing to a block device.
 * Exact   bytes as the io line of /proc/net/rpc/nfsd, counts as the clients' mountstats;
 *         a call that a client sent twice is served, and counted, twice.
 * Kernels raw tracepoints with BTF of the modules nfsd and sunrpc, 5.11 and later.
 *         The stability that a WRITE requests (stable_how) is read from the decoded
 *         call: no tracepoint has it.
 * Cost    four programs per call, one per operation of a compound; one look-up per bio
 *         of the machine.
 * Not     files read by the server's own programs; pNFS layouts; a READ looks cached if
 *         an earlier one's read-ahead had already begun to fetch it.  The file system of
 *         metadata in v3: the handle is already released.
 */
#define IOH_ATOMIC
#define KNOWS_HANDLES

#include "ioh.h"
#include "path.h"
#include "part_totals.h"
#include "nfs.h"
#include "nfs_calls.h"
#include "nfs_server_flow.h"

#define NFSERR_DENIED 10010 /* another one has the lock: at the client EAGAIN */

#define NOTHING 0xff
#define V3_COMMIT 21

/* The call that an nfsd thread serves. */
struct serving {
	struct nfsd_call call;
	u64 step_ns; /* the last operation of the compound ended */
	u64 request; /* struct svc_rqst */
	u64 inode; /* of the file opened last */
	u32 dev;
	u32 bios;
	u32 done; /* operations of the compound */
	u32 served; /* the call's op, if it is timed */
#ifdef COPIES
	u32 seen[EVENTS]; /* by event: the last operation at which a copy took it, plus 1 */
#endif
};

BPF_HASH(servings, u32, struct serving, 8192);

static inline struct serving *serving_here(void)
{
	u32 tid = bpf_get_current_pid_tgid();

	return servings.lookup(&tid);
}

/* The client's callback service runs the same code; its calls never get a rq_stime. */
static inline int is_nfs(const char *rqst)
{
	u32 program = 0;

	READ(program, FIELD(rqst, svc_rqst_rq_prog));
	return program == NFS_PROGRAM;
}

/* When the call arrived: different for all calls of a thread. */
static inline u64 came_at(const char *rqst)
{
	u64 came = 0;

	READ(came, FIELD(rqst, svc_rqst_rq_stime));
	return came;
}

/* Whether no other copy of this program has taken this event of a call. */
#define IS_OUR_CALL(event, rqst) is_first(event, (u64)(rqst) + (event), came_at(rqst))

/* The same for an event of each operation of a compound. */
static inline int is_our_part(u32 event, struct serving *s, const char *rqst)
{
#ifdef COPIES
	int taken = s && s->seen[event] == s->done + 1;

	if (!s)
		return IS_OUR_CALL(event, rqst);
	s->seen[event] = s->done + 1;
	return take_turn(event, taken);
#else
	return 1;
#endif
}

/* svc_process(const struct svc_rqst *rqst, const char *name): a call has been decoded */
int on_call(struct bpf_raw_tracepoint_args *ctx)
{
	const char *rqst = (const char *)ctx->args[0];
	u32 tid = bpf_get_current_pid_tgid();
	struct serving s = {.served = NOTHING, .request = (u64)rqst};

	if (!is_nfs(rqst) || !IS_OUR_CALL(AT_CALL, rqst))
		return 0;
	s.call.op = NOTHING;
	s.call.came_ns = s.step_ns = bpf_ktime_get_ns();
	if (servings.update(&tid, &s))
		count_lost(LOST_MAP_FULL);
	return 0;
}

/* Note the client: at the first operation, so that a call that does not end has one, too. */
static inline void note_client(struct serving *s)
{
	struct nfsd_call *call = &s->call;

	if (!call->family)
		read_address(&call->family, &call->port, call->address,
			     FIELD((const char *)s->request, svc_rqst_rq_addr));
}

static inline const char *inode_of(const char *handle)
{
	const char *dentry = NULL, *inode = NULL;

	READ(dentry, FIELD(handle, svc_fh_fh_dentry));
	if (dentry)
		READ(inode, FIELD(dentry, dentry_d_inode));
	return inode;
}

static inline void finish(struct serving *s, const char *inode, u32 op, u64 start_ns, u64 bytes)
{
	u64 now = bpf_ktime_get_ns(), ns = now > start_ns ? now - start_ns : 0;
	struct op_totals *t;
	u32 dev;

	/* With a constant here, the verifier of 6.1 cannot follow the alignment. */
	asm volatile("" : "+r"(bytes));
	if (!inode) {
		count_lost(LOST_NO_START);
		return;
	}
	dev = device_of(inode);
	t = totals_of(dev, op);
	if (!t)
		return;
	ADD(t->started, 1);
	add_finished(t, ns, bytes);
	s->served = op;
	note_client(s);
	note_flow(&s->call, inode, dev, op, bytes, ns);
}

static inline void finish_metadata(struct serving *s, const char *inode, const struct proc_key *key,
				   u32 status, u64 ns)
{
	u32 *op = metadata_ops.lookup(key);
	struct op_totals *t;
	u64 bytes = 0;

	if (!op)
		return;
	t = totals_of(inode ? device_of(inode) : OTHER_PARTS, *op);
	if (!t)
		return;
	ADD(t->started, 1);
	status = __builtin_bswap32(status);
	if (status && status != NFSERR_DENIED && is_trouble(status)) {
		ADD(t->errors, 1);
		ADD(t->failed_ns, ns);
		return;
	}
	asm volatile("" : "+r"(bytes)); /* as in finish() */
	add_finished(t, ns, bytes);
	note_client(s);
	note_metadata(&s->call, ns);
}

/* An operation without an end has failed. */
static inline void give_up(struct serving *s)
{
	struct op_totals *t;

	if (s->call.op == NOTHING)
		return;
	t = totals_of(s->dev, s->call.op);
	if (t) {
		ADD(t->started, 1);
		ADD(t->errors, 1);
	}
	s->call.op = NOTHING;
}

static inline void start(struct serving *s, u32 op)
{
	if (!s)
		return;
	give_up(s);
	s->call.op = op;
	s->dev = 0;
	s->bios = 0;
	s->call.start_ns = bpf_ktime_get_ns();
	note_client(s);
}

/* nfsd_read_start(rqstp, fhp, u64 offset, u32 len): len is the size requested */
int on_read_start(struct bpf_raw_tracepoint_args *ctx)
{
	struct serving *s = serving_here();

	if (is_our_part(AT_READ_START, s, (const char *)ctx->args[0]))
		start(s, OP_READ_DISK);
	return 0;
}

/* nfsd_read_done(rqstp, fhp, u64 offset, u32 len): len is the size read */
int on_read_done(struct bpf_raw_tracepoint_args *ctx)
{
	struct serving *s = serving_here();
	u32 op;

	if (!is_our_part(AT_READ_DONE, s, (const char *)ctx->args[0]))
		return 0;
	if (!s || s->call.op != OP_READ_DISK) {
		count_lost(LOST_NO_START);
		return 0;
	}
	op = s->bios ? OP_READ_DISK : OP_READ_CACHED;
	s->call.op = NOTHING;
	finish(s, inode_of((const char *)ctx->args[1]), op, s->call.start_ns, (u32)ctx->args[3]);
	return 0;
}

/* stable_how of the current WRITE, from its decoded arguments. */
static inline u32 stable_of(const char *rqst)
{
	const char *arguments = NULL, *results = NULL, *ops = NULL;
	u32 version = 0, stable = 0, at = 0;

	READ(version, FIELD(rqst, svc_rqst_rq_vers));
	READ(arguments, FIELD(rqst, svc_rqst_rq_argp));
	if (version == 3) {
		READ(stable, FIELD(arguments, nfsd3_writeargs_stable));
	} else if (version == 4) {
		/* The compound's results are one ahead: the current operation is the last one. */
		READ(results, FIELD(rqst, svc_rqst_rq_resp));
		READ(at, FIELD(results, nfsd4_compoundres_opcnt));
		READ(ops, FIELD(arguments, nfsd4_compoundargs_ops));
		if (at && ops)
			READ(stable, ops + (u64)(at - 1) * NFSD4_OP_BYTES + OFF_write_stable_how);
	} else {
		stable = STABLE_HOWS - 1; /* NFSv2 has nothing else */
	}
	return stable < STABLE_HOWS ? stable : 0;
}

/* nfsd_write_start(rqstp, fhp, u64 offset, u32 len) */
int on_write_start(struct bpf_raw_tracepoint_args *ctx)
{
	const char *rqst = (const char *)ctx->args[0];
	struct serving *s = serving_here();

	if (is_our_part(AT_WRITE_START, s, rqst))
		start(s, OP_WRITE_UNSTABLE + stable_of(rqst));
	return 0;
}

/* nfsd_write_done(rqstp, fhp, u64 offset, u32 len): len is the size written */
int on_write_done(struct bpf_raw_tracepoint_args *ctx)
{
	struct serving *s = serving_here();
	u32 op;

	if (!is_our_part(AT_WRITE_DONE, s, (const char *)ctx->args[0]))
		return 0;
	if (!s || s->call.op < OP_WRITE_UNSTABLE || s->call.op > OP_WRITE_FILE_SYNC) {
		count_lost(LOST_NO_START);
		return 0;
	}
	op = s->call.op;
	s->call.op = NOTHING;
	finish(s, inode_of((const char *)ctx->args[1]), op, s->call.start_ns, (u32)ctx->args[3]);
	return 0;
}

/*
 * nfsd_file_acquire(rqstp, struct inode *inode, ...): the file of the call has been opened.
 * Several copies may run it: the result is the same.  A COMMIT without it is lost (no_start).
 */
int on_file(struct bpf_raw_tracepoint_args *ctx)
{
	struct serving *s = serving_here();

	if (!s)
		return 0;
	s->inode = ctx->args[FILE_INODE_ARG];
	note_client(s); /* a COMMIT has nothing earlier */
	return 0;
}

/*
 * Runs for every bio of the machine, in its submitter's context.  Several copies may run it: only
 * whether there was a bio matters.
 */
int on_bio(struct bpf_raw_tracepoint_args *ctx)
{
	struct serving *s = serving_here();

	if (s)
		s->bios += 1;
	return 0;
}

static inline int is_commit(const struct proc_key *key)
{
	const char wanted[] = "OP_COMMIT";
	int i;

#pragma unroll
	for (i = 0; i < (int)sizeof(wanted); i++)
		if (key->name[i] != wanted[i])
			return 0;
	return 1;
}

/* nfsd_compound_status(u32 args_opcnt, u32 resp_opcnt, __be32 status, const char *name) */
int on_compound_op(struct bpf_raw_tracepoint_args *ctx)
{
	struct procedure one = {.calls = 1};
	struct serving *s = serving_here();
	struct proc_key key = {.version = 4};
	const char *results = NULL, *inode;
	u64 now;

	if (!s || !take_turn(AT_COMPOUND, s->done == (u32)ctx->args[1]))
		return 0;
	s->done = ctx->args[1];
	now = bpf_ktime_get_ns();
	bpf_probe_read_kernel_str(key.name, sizeof(key.name), (const void *)ctx->args[3]);
	one.errors = (u32)ctx->args[2] != 0;
	one.execute_ns = now - s->step_ns;
	add_procedure(&key, &one);
	READ(results, FIELD((const char *)s->request, svc_rqst_rq_resp));
	inode = inode_of(FIELD(results, nfsd4_compoundres_cstate_current_fh));
	if (!one.errors && is_commit(&key))
		finish(s, inode, OP_COMMIT, s->step_ns, 0);
	finish_metadata(s, inode, &key, (u32)ctx->args[2], one.execute_ns);
	s->step_ns = now;
	return 0;
}

/* svc_stats_latency(const struct svc_rqst *rqst): the reply is about to be sent */
int on_reply(struct bpf_raw_tracepoint_args *ctx)
{
	const char *rqst = (const char *)ctx->args[0], *proc = NULL, *name = NULL, *results = NULL;
	struct procedure one = {.calls = 1};
	u32 tid = bpf_get_current_pid_tgid(), number = 0, status = 0;
	struct serving *s = serving_here();
	struct proc_key key = {};

	if (!is_nfs(rqst) || !IS_OUR_CALL(AT_REPLY, rqst) || !s)
		return 0;
	give_up(s);
	READ(key.version, FIELD(rqst, svc_rqst_rq_vers));
	if (key.version != 4) {
		READ(number, FIELD(rqst, svc_rqst_rq_proc));
		READ(proc, FIELD(rqst, svc_rqst_rq_procinfo));
		READ(name, FIELD(proc, svc_procedure_pc_name));
		bpf_probe_read_kernel_str(key.name, sizeof(key.name), name);
		one.execute_ns = bpf_ktime_get_ns() - s->call.came_ns;
		add_procedure(&key, &one);
		/* The handle is already released. */
		if (key.version == 3 && number == V3_COMMIT)
			finish(s, (const char *)s->inode, OP_COMMIT, s->call.came_ns, 0);
		READ(results, FIELD(rqst, svc_rqst_rq_resp));
		READ(status, results); /* the first member of each result */
		finish_metadata(s, NULL, &key, status, one.execute_ns);
	}
#ifdef SAMPLED_CALLS
	if (s->served != NOTHING)
		sample_call(FIELD(rqst, svc_rqst_rq_xid), FIELD(rqst, svc_rqst_rq_addr), s->served,
			    bpf_ktime_get_ns() - s->call.came_ns);
#endif
	servings.delete(&tid);
	return 0;
}
