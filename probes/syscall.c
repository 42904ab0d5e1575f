/*
 * Application I/O: the cost of each read, write and fsync-family call on a regular
 * file or block device, and its operations in the layers below.
 *
 * Timed   sys_enter -> sys_exit; io_uring: submission of the request -> its
 *         completion; libaio: io_submit -> the io_getevents that reaped it (there
 *         is no tracepoint in between).
 * Charged every bio, request, merge, split and NFS READ or WRITE that the thread
 *         submits between enter and exit belongs to the call: reads (with read-ahead), O_DIRECT
 *         and O_SYNC writes, fsync.  Write-back by kernel threads belongs to no
 *         call.  A read that submitted nothing was served from cache.
 * Faults  reads of files and swap that a thread submits outside any call, from
 *         block_bio_queue to block_bio_complete: see syscall_fault.h.
 * Kernels raw tracepoints, 5.10 and later.  io_uring: 6.0 and later; before, its
 *         completion tracepoint did not name the request.
 * Cost    sys_enter and sys_exit run for every system call of the machine; calls
 *         that are not I/O return after a few instructions.
 * Not     minor page faults, 32-bit programs' calls, pseudo file systems (proc,
 *         sysfs, cgroup …), libaio completions that the program reads from the
 *         ring itself (counted as lost: aio_unseen, once the iocb is reused), io_uring
 *         completions that are skipped or overflow (uring_unseen, once the request is reused).
 */
#include "ioh.h"
#include "follow.h"
#include "path.h"
#include "syscall_file.h"
#include "syscall_call.h"
#include "syscall_holes.h"
#include "syscall_below.h"
#include "syscall_filter.h"

struct arguments {
	u64 a[6];
};

#ifdef RECORDS
/*
 * Since 7.0 a program at a raw tracepoint can be preempted, and is then skipped for all other calls
 * on its CPU.  At a trace event it cannot.  There it gets a record: 8 bytes that it may not read,
 * the call's number, then all arguments, or the result.
 */
#define REGISTERS(ctx) NULL
#define FIRST_ARGUMENT ctx->args[2]
#define RESULT 2
#define ARGUMENT(n, register) args->a[n] = ctx->args[2 + (n)]
#else
#define REGISTERS(ctx) hidden((ctx)->args[0])
#define FIRST_ARGUMENT FOLLOW(u64, regs, FIRST)
#define RESULT 1
#ifdef OFF_pt_regs_di
#define FIRST pt_regs_di
#define ARGUMENT(n, register) args->a[n] = FOLLOW(u64, regs, pt_regs_##register)
#else
/* arm64: the arguments are regs[0..7], at the start of struct pt_regs. */
#define OFF_first 0
#define FIRST first
#endif
#endif

static inline void read_arguments(struct arguments *args, struct bpf_raw_tracepoint_args *ctx,
				  const char *regs)
{
#ifdef ARGUMENT
	ARGUMENT(0, di);
	ARGUMENT(1, si);
	ARGUMENT(2, dx);
	ARGUMENT(3, r10);
	ARGUMENT(5, r9);
#else
	bpf_probe_read_kernel(args->a, sizeof(args->a), regs);
#endif
}

static inline int is_compat(const char *task)
{
#ifdef COMPAT
	/* The number is another call in the 32-bit table. */
	return (FOLLOW(u32, task, thread_info_compat) & COMPAT) != 0;
#else
	return 0;
#endif
}

#include "syscall_fault.h"
#include "syscall_packed.h"
#include "syscall_meta.h"

/* Batches of libaio continue in separate programs, a few requests at a time. */
BPF_PROG_ARRAY(submit_step, 1);
BPF_PROG_ARRAY(revise_step, 1);
BPF_PROG_ARRAY(reap_step, 1);

#define FUSE_RDEV (10 << 20 | 229) /* of /dev/fuse */

/* By process: daemons that asked for a request of a FUSE file system since the last tick. */
BPF_HASH(fuse_daemons, u32, u64, 128);

static inline void note_daemon(const struct target *of, const char *file, u32 tgid)
{
	const char *inode = NULL;
	u64 asked = 1;
	u32 rdev = 0;

	if (of->op != S_IFCHR)
		return;
	READ(inode, FIELD(file, file_f_inode));
	READ(rdev, FIELD(inode, inode_i_rdev));
	if (rdev == FUSE_RDEV)
		fuse_daemons.update(&tgid, &asked);
}

/* Where a call reads: -1 is the file's own position. */
static inline u64 position(const struct target *of, u64 call, u64 from)
{
	if (call == SYS_read || call == SYS_readv || from == ~0ULL)
		READ(from, of->file + OFF_file_f_pos);
	return from;
}

/*
 * sys_enter(struct pt_regs *regs, long id).  fd is the file read or written;
 * sendfile, splice and copy_file_range have a second one, out_fd.
 */
int on_enter(struct bpf_raw_tracepoint_args *ctx)
{
	const char *regs = REGISTERS(ctx), *task;
	struct target to = {}, out = {};
	struct arguments args = {};
	struct call *c;
	u32 op = OP_READ, call_flags = 0;
	int fd = -1, out_fd = -1;
	u64 pid_tgid, now;

	switch (ctx->args[1]) {
	case SYS_read:
	case SYS_pread64:
	case SYS_readv:
	case SYS_preadv:
	case SYS_preadv2:
		break;
	case SYS_write:
	case SYS_pwrite64:
	case SYS_writev:
	case SYS_pwritev:
	case SYS_pwritev2:
		op = OP_WRITE;
		break;
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_syncfs:
	case SYS_sync_file_range:
#ifndef FILTER_DEVICE /* msync names an address, not a file, and sync is of all devices. */
	case SYS_msync:
	case SYS_sync:
#endif
		op = OP_FSYNC;
		break;
	case SYS_sendfile:
	case SYS_splice:
	case SYS_copy_file_range:
		op = OP_COPY;
		break;
	case SYS_io_submit:
	case SYS_io_uring_enter:
		op = CALL_SUBMIT;
		break;
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_io_destroy:
		op = CALL_REAP;
		break;
	META_CALLS:
		meta_step.call(ctx, 0);
		return 0;
	default:
		return 0;
	}
	/* A call that reaps is not timed; io_uring's requests each have their own time. */
	now = op == CALL_REAP || ctx->args[1] == SYS_io_uring_enter ? 0 : bpf_ktime_get_ns();
	task = CURRENT;
	pid_tgid = PID_TGID(task);
	if (is_filtered(pid_tgid >> 32) || is_compat(task))
		return 0;
	fd = FIRST_ARGUMENT;
	if (op > OP_WRITE || ctx->args[1] == SYS_pwritev2) {
		read_arguments(&args, ctx, regs);
		to.op = op;
		switch (ctx->args[1]) {
		case SYS_pwritev2:
			call_flags = args.a[5];
			break;
		case SYS_sync_file_range:
			op = kind_of_sync_range(args.a[3]);
			break;
		case SYS_sendfile:
			fd = args.a[1];
			out_fd = args.a[0];
			break;
		case SYS_splice:
		case SYS_copy_file_range:
			out_fd = args.a[2];
			break;
		case SYS_io_submit:
			to.file = to.ino = args.a[2];
			begin(&to, task, pid_tgid, now);
			submit_step.call(ctx, 0);
			return 0;
		case SYS_io_destroy:
			note_destroyed(args.a[0], pid_tgid);
			return 0;
		case SYS_io_getevents:
		case SYS_io_pgetevents:
			begin_reap(args.a[3], task, pid_tgid);
			return 0;
		case SYS_sync:
			to.name = ALL_FILES_NAME;
			/* fall through */
		case SYS_msync:
			to.is_at_end = FOLLOW(u64, task, task_struct_nvcsw);
			/* fall through */
		case SYS_io_uring_enter:
			begin(&to, task, pid_tgid, now);
			return 0;
		}
	}
	if (op != OP_COPY) {
		if (!aim(&to, file_of(task, fd), op, call_flags, ANYWHERE)) {
			note_daemon(&to, file_of(task, fd), pid_tgid >> 32);
			return 0;
		}
		c = begin(&to, task, pid_tgid, now);
		if (c && to.op == OP_READ_DIRECT) {
			read_arguments(&args, ctx, regs);
			note_place(c, &to, position(&to, ctx->args[1], args.a[3]), 0);
		}
		return 0;
	}
	/* A copy between files, or a read or a write of the only file. */
	if (!aim(&to, file_of(task, fd), OP_READ, 0, ANYWHERE)) {
		note_daemon(&to, file_of(task, fd), pid_tgid >> 32);
		to.file = 0;
	}
	if (aim(&out, file_of(task, out_fd), OP_WRITE, 0, ANYWHERE)) {
		if (to.file)
			out.op = OP_COPY;
		to = out;
	}
	if (to.file)
		begin(&to, task, pid_tgid, now);
	return 0;
}

/*
 * io_submit took this many: target.file becomes their end in the list of iocb pointers, which was
 * noted up to target.ino.
 */
static inline void note_taken(struct call *c, s64 result)
{
	u64 noted = (c->target.ino - c->target.file) / sizeof(u64), taken = result > 0 ? result : 0;

	if (taken > noted)
		count_losses(LOST_AIO_UNSEEN, taken - noted);
	c->target.file += taken * sizeof(u64);
}

/* msync of anonymous or clean memory: it submitted nothing and did not wait. */
static inline int is_idle_msync(const struct call *c)
{
	return c->target.op == OP_FSYNC && !c->target.file && !c->target.name &&
	       !(c->lower[0].bios | c->lower[1].bios) &&
	       c->target.is_at_end == (u32)FOLLOW(u64, CURRENT, task_struct_nvcsw);
}

/* sys_exit(struct pt_regs *regs, long ret) */
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	const char *task = CURRENT;
	u64 pid_tgid = PID_TGID(task);
	u32 tid = pid_tgid;
	struct call *c = find_call(tid);
	s64 result = ctx->args[RESULT];
	u32 op;

	if (!c)
		return 0;
	op = c->target.op;
	if (is_meta(op)) {
		meta_end_step.call(ctx, 0);
		return 0;
	}
	if (op == CALL_REAP) {
		if (result > 0)
			reap_step.call(ctx, 0);
		close_call(c, tid);
		return 0;
	}
	if (op == CALL_SUBMIT) {
		if (!c->target.file)
			mark_fetched(c, task);
		else {
			note_taken(c, result);
			add_handed_on(c, task, c->batch[0], &c->lower[0]);
			/* A direct read is never cached. */
			if (c->target.ino > c->target.file ||
			    (c->batch[0] > c->direct && c->lower[0].bios))
				revise_step.call(ctx, 0);
		}
		settle(c, task, op, result);
	} else if (is_idle_msync(c))
		withdraw(op);
	else if (result < 0) {
		if (op == OP_READ)
			c->target.op = OP_READ_MISSED;
		finish(&c->target, pid_tgid >> 32, c->start_ns, NULL, result);
	} else {
		if (settle(c, task, op, result) && op == OP_READ)
			c->target.op = OP_READ_MISSED;
		if (finish(&c->target, pid_tgid >> 32, c->start_ns, NULL, result))
			note_path(&c->target);
	}
	close_call(c, tid);
	return 0;
}

#include "syscall_request.h"
#include "syscall_async.h"

/*
 * The part of a thread's open call to charge this bio to: for a batch of asynchronous requests only
 * the direction matters.
 */
static inline struct lower *charged_to(struct call *c, const char *bio)
{
	if (!c)
		return NULL;
	return FOLLOW(u32, bio, bio_bi_opf) & 1 ? &c->lower[1] : &c->lower[0];
}

/* block_bio_queue(struct bio *bio); until 5.11 (struct request_queue *q, struct bio *bio) */
int on_bio(struct bpf_raw_tracepoint_args *ctx)
{
	const char *bio = hidden(ctx->args[QUEUE_BIO_ARG]);
	struct call *c = find_call((u32)bpf_get_current_pid_tgid());
	struct lower *low = charged_to(c, bio);

	if (!low) {
		note_fault(bio);
		return 0;
	}
	low->bios += 1;
	note_packed(c, bio);
	return 0;
}

/* block_getrq(struct bio *bio); until 5.11 (q, bio, rw) */
int on_request(struct bpf_raw_tracepoint_args *ctx)
{
	const char *bio = hidden(ctx->args[GETRQ_BIO_ARG]);
	struct call *c = find_call((u32)bpf_get_current_pid_tgid());
	struct lower *low = charged_to(c, bio);

	if (!low) {
		note_fault_request(bio, (u64)bio);
		return 0;
	}
	low->requests += 1;
	low->bytes += FOLLOW(u32, bio, bio_bi_iter_bi_size);
	return 0;
}

/* block_bio_backmerge, block_bio_frontmerge (struct bio *bio): part of an earlier request */
int on_merge(struct bpf_raw_tracepoint_args *ctx)
{
	const char *bio = hidden(ctx->args[MERGE_BIO_ARG]);
	struct call *c = find_call((u32)bpf_get_current_pid_tgid());
	struct lower *low = charged_to(c, bio);

	if (low)
		low->bytes += FOLLOW(u32, bio, bio_bi_iter_bi_size);
	return 0;
}

/* block_split(struct bio *bio, unsigned int new_sector); until 5.11 (q, bio, new_sector) */
int on_split(struct bpf_raw_tracepoint_args *ctx)
{
	struct call *c = find_call((u32)bpf_get_current_pid_tgid());
	const char *front = hidden(ctx->args[SPLIT_BIO_ARG]);
	u64 whole = 0;

	if (c) {
		c->splits += 1;
		return 0;
	}
	READ(whole, FIELD(front, bio_bi_private)); /* what ends with it */
	note_fault_request(front, whole);
	return 0;
}

/* Offset of args.count in struct nfs_pgio_header: set before the next two programs attach. */
BPF_ARRAY(demand_offsets, u32, 1);

/* For a call on an NFS file, a READ or WRITE of the NFS client counts as a request to a disk. */
static inline int charge_nfs(const char *hdr, u32 direction)
{
	struct call *c = find_call((u32)bpf_get_current_pid_tgid());
	u32 zero = 0, size = 0, *at = demand_offsets.lookup(&zero);
	struct lower *low;

	if (!c || !at)
		return 0;
	READ(size, hdr + *at);
	low = direction ? &c->lower[1] : &c->lower[0];
	low->bios += 1;
	low->requests += 1;
	low->bytes += size;
	return 0;
}

/* nfs_initiate_read(const struct nfs_pgio_header *hdr) */
int on_nfs_read(struct bpf_raw_tracepoint_args *ctx)
{
	return charge_nfs((const char *)ctx->args[0], 0);
}

/* nfs_initiate_write(const struct nfs_pgio_header *hdr) */
int on_nfs_write(struct bpf_raw_tracepoint_args *ctx)
{
	return charge_nfs((const char *)ctx->args[0], 1);
}
