/*
 * Requests that end in another call than the one that began them: libaio and
 * io_uring.  Part of syscall.c.
 */
/* REQ_F_ of io_uring, the same bits as IOSQE_ */
#define REQ_F_FIXED_FILE 1
#define REQ_F_LINKED 12 /* LINK, HARDLINK: the next one waits for it */
#define REQ_F_DEFERRED 18 /* IO_DRAIN, ASYNC: not begun by the submitting thread at once */
#define REQ_F_CQE_SKIP 64

/* A request handed to io_uring or libaio and not yet completed. */
struct async {
	u64 start_ns;
	struct target target;
	u32 tgid;
	u32 rw_flags;
};

struct async_key {
	u64 request;
	u64 tgid;
};

BPF_HASH(asyncs, struct async_key, struct async, 65536);

/*
 * Each round of the loop makes the verifier's work grow; the kernel follows up
 * to 33 tail calls, which makes 528 requests a batch.
 */
#define AIO_STEP 16
#define PAGE_BYTES 4096

/* Op of each IOCB_CMD_, a nibble each: 0 PREAD, 1 PWRITE, 2 FSYNC, 3 FDSYNC, 7 PREADV, 8 PWRITEV */
#define IOCB_OPS 0x20fff5520ULL

struct iocb_head {
	u64 data;
	u32 key;
	u32 rw_flags;
	u16 opcode;
	u16 prio;
	u32 fd;
	u64 buffer;
	u64 bytes;
	u64 offset;
};

/* Forget a request whose address stands for another one now: nothing told that it ended. */
static inline void give_up(const struct async_key *key, u32 reason)
{
	struct async *before = asyncs.lookup(key);

	if (!before)
		return;
	count_lost(reason);
	if (before->target.file)
		withdraw(before->target.op);
}

/* One iocb of io_submit; 0 when it is no I/O on a file. */
static inline void submit_iocb(struct call *c, u64 address, u32 tgid)
{
	struct async_key key = {.request = address, .tgid = tgid};
	struct async a = {.start_ns = c->start_ns, .tgid = tgid};
	struct iocb_head head = {};
	u32 op, pages;

	if (bpf_probe_read_user(&head, sizeof(head), (void *)address))
		return;
	if (head.opcode > 8)
		return;
	op = IOCB_OPS >> (head.opcode & 15) * 4 & 15;
	if (op > OP_FSYNC)
		return;
	if (!aim(&a.target, file_of(head.fd), op, head.rw_flags, head.offset))
		return;
	/* Still there: its completion was read from the ring without a system call. */
	give_up(&key, LOST_AIO_UNSEEN);
	if (asyncs.update(&key, &a)) {
		count_lost(LOST_MAP_FULL);
		return;
	}
	note_started(a.target.op);
	if (op == OP_FSYNC || a.target.is_opaque)
		return;
	if (a.target.is_at_end) {
		c->at_end += 1;
		return;
	}
	c->batch[op == OP_WRITE] += 1;
	c->direct += a.target.op == OP_READ_DIRECT;
	pages = (head.bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	if (op == OP_READ && pages > c->largest)
		c->largest = pages;
}

/* Runs on sys_enter of io_submit(ctx_id, nr, iocbpp); target.ino is the next iocb pointer. */
int on_submit_step(struct bpf_raw_tracepoint_args *ctx)
{
	const char *regs = hidden(ctx->args[0]);
	u64 pid_tgid = bpf_get_current_pid_tgid(), address = 0;
	struct call *c = find_call(pid_tgid);
	struct arguments args = {};
	u64 end;
	int i;

	if (!c)
		return 0;
	read_arguments(&args, regs);
	end = args.a[2] + args.a[1] * sizeof(u64);
	for (i = 0; i < AIO_STEP; i++) {
		if (c->target.ino >= end)
			return 0;
		if (bpf_probe_read_user(&address, sizeof(address), (void *)c->target.ino))
			return 0;
		c->target.ino += sizeof(u64);
		submit_iocb(c, address, pid_tgid >> 32);
	}
	submit_step.call(ctx, 0);
	return 0; /* What is left is counted as lost once it is known how many were taken. */
}

/* One iocb that was noted and that io_submit did not take. */
static inline void refuse_iocb(struct call *c, u64 address, u32 tgid)
{
	struct async_key key = {.request = address, .tgid = tgid};
	struct async *noted = asyncs.lookup(&key);
	u32 op, is_opaque, is_at_end;

	if (!noted || noted->start_ns != c->start_ns)
		return;
	op = noted->target.op;
	is_opaque = noted->target.is_opaque;
	is_at_end = noted->target.is_at_end;
	asyncs.delete(&key);
	withdraw(op);
	if (op == OP_FSYNC || is_opaque)
		return;
	if (is_at_end) {
		c->at_end -= 1;
		return;
	}
	c->batch[op >= OP_WRITE] -= 1;
	c->direct -= op == OP_READ_DIRECT;
}

/*
 * Runs on sys_exit of io_submit: those behind target.file were not taken, because the ring is
 * full or one of them is wrong.  The program may hand them over again.
 */
int on_refuse_step(struct bpf_raw_tracepoint_args *ctx)
{
	u64 pid_tgid = bpf_get_current_pid_tgid(), address = 0;
	struct call *c = find_call(pid_tgid);
	int i;

	if (!c)
		return 0;
	for (i = 0; i < AIO_STEP; i++) {
		if (c->target.ino <= c->target.file)
			break;
		c->target.ino -= sizeof(u64);
		if (!bpf_probe_read_user(&address, sizeof(address), (void *)c->target.ino))
			refuse_iocb(c, address, pid_tgid >> 32);
	}
	if (c->target.ino > c->target.file)
		refuse_step.call(ctx, 0);
	settle(c, CALL_SUBMIT, 0);
	close_call(c, pid_tgid);
	return 0;
}

struct aio_event {
	u64 data;
	u64 iocb;
	s64 result;
	s64 result2;
};

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

/*
 * Runs on sys_exit of io_getevents; target.ino is the next event in the caller's array, and
 * target.file how often the thread had gone to sleep when it came.
 */
int on_reap_step(struct bpf_raw_tracepoint_args *ctx)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct async_key key = {.tgid = pid_tgid >> 32};
	struct call *c = find_call(pid_tgid);
	struct target unnamed = {};
	struct async *found, a;
	struct aio_event event;
	int i, slept, at_end = 0;

	if (!c)
		return 0;
	slept = c->target.file != FOLLOW(u64, CURRENT, task_struct_nvcsw);
	for (i = 0; i < AIO_STEP; i++) {
		if (c->target.dev >= ctx->args[1] ||
		    bpf_probe_read_user(&event, sizeof(event), (void *)c->target.ino)) {
			at_end = 1;
			break;
		}
		c->target.dev += 1;
		c->target.ino += sizeof(event);
		key.request = event.iocb;
		found = asyncs.lookup(&key);
		if (!found)
			continue;
		a = *found;
		asyncs.delete(&key);
		if (finish(&a.target, a.tgid, a.start_ns, event.result))
			unnamed = a.target;
		if (!slept && event.result >= 0)
			note_late(a.target.op);
	}
	note_path(&unnamed); /* one a step; user space asks again for the others */
	/* More than one call can follow look like requests that the program saw in the ring. */
	if (!at_end)
		reap_step.call(ctx, 0);
	close_call(c, pid_tgid);
	return 0;
}

#ifdef ON_URING_SUBMIT
/*
 * Begin to watch what this request becomes below, if its thread begins with it before the next
 * one.  What waits for another request or for a worker, or is opaque, is not watched.
 */
static inline void watch_request(u64 pid_tgid, u32 op, const struct target *of, u32 flags)
{
	struct call *c = find_call(pid_tgid);
	u32 waits;

	if (!c || c->target.op != CALL_SUBMIT)
		return;
	waits = c->linked | (flags & (REQ_F_LINKED | REQ_F_DEFERRED)) | of->is_opaque;
	settle(c, CALL_SUBMIT, 0);
	forget_lower(c);
	c->linked = flags & REQ_F_LINKED;
	if (waits || op == OP_FSYNC)
		return;
	c->at_end = of->is_at_end;
	if (of->is_at_end)
		return;
	c->batch[op == OP_WRITE] = 1;
	c->direct = of->op == OP_READ_DIRECT;
}

/* Where a request begins: at the file's own position where it says -1. */
static inline u64 position_of(const char *request, u32 fd)
{
	u64 from = 0;

#ifdef OFF_io_rw_position
	READ(from, FIELD(request, io_rw_position));
	if (from == ~0ULL)
		READ(from, FIELD(file_of(fd), file_f_pos));
#endif
	return from;
}

/* io_uring_submit_req(struct io_kiocb *req); in 6.1 io_uring_submit_sqe */
int on_uring_submit(struct bpf_raw_tracepoint_args *ctx)
{
	const char *request = (const char *)ctx->args[0];
	struct async_key key = {.request = (u64)request};
	struct async a = {};
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u32 flags = 0, fd = 0, rw_flags = 0, op;
	u8 opcode = 0;

	READ(opcode, FIELD(request, io_kiocb_opcode));
	switch (opcode) {
	case 1: /* READV */
	case 4: /* READ_FIXED */
	case 22: /* READ */
	case 60: /* READV_FIXED */
		op = OP_READ;
		break;
	case 2: /* WRITEV */
	case 5: /* WRITE_FIXED */
	case 23: /* WRITE */
	case 61: /* WRITEV_FIXED */
		op = OP_WRITE;
#ifdef OFF_io_rw_flags
		READ(rw_flags, FIELD(request, io_rw_flags));
#endif
		break;
	case 3: /* FSYNC */
	case 8: /* SYNC_FILE_RANGE */
		op = OP_FSYNC;
		break;
	default:
		return 0;
	}
	a.tgid = pid_tgid >> 32;
	if (is_filtered(a.tgid))
		return 0;
	READ(flags, FIELD(request, io_kiocb_flags));
	a.target.op = op;
	a.rw_flags = rw_flags;
	if (!(flags & REQ_F_FIXED_FILE)) {
		READ(fd, FIELD(request, io_kiocb_cqe_fd));
		if (!aim(&a.target, file_of(fd), op, rw_flags, position_of(request, fd)))
			return 0;
	}
	watch_request(pid_tgid, op, &a.target, flags);
	/* Still there: its completion did not fit into the ring, or the program wanted none. */
	give_up(&key, LOST_URING_UNSEEN);
	if (flags & REQ_F_CQE_SKIP) {
		asyncs.delete(&key);
		count_lost(LOST_URING_UNSEEN);
		return 0;
	}
	a.start_ns = bpf_ktime_get_ns();
	if (asyncs.update(&key, &a))
		count_lost(LOST_MAP_FULL);
	else if (a.target.file)
		note_started(a.target.op);
	return 0;
}

/* io_uring_queue_async_work(struct io_kiocb *req, int rw): a worker carries out what was begun. */
int on_uring_worker(struct bpf_raw_tracepoint_args *ctx)
{
	struct call *c = find_call((u32)bpf_get_current_pid_tgid());

	if (c && c->target.op == CALL_SUBMIT)
		c->batch[0] = c->batch[1] = c->direct = c->at_end = 0;
	return 0;
}

/*
 * io_uring_complete(struct io_ring_ctx *ring, void *req, struct io_uring_cqe *cqe);
 * in 6.1 (ring, req, user_data, res, …).  The request still holds its file here.
 */
int on_uring_complete(struct bpf_raw_tracepoint_args *ctx)
{
	const char *request = (const char *)ctx->args[1], *file = NULL;
	struct async_key key = {.request = (u64)request};
	struct async *found, a;
	int result = 0;
	u32 op;

	if (!request)
		return 0;
	found = asyncs.lookup(&key);
	if (!found)
		return 0;
	a = *found;
	asyncs.delete(&key);
	if (!a.target.file) {
		/* A registered file, or one opened by a linked request before. */
		op = a.target.op;
		READ(file, FIELD(request, io_kiocb_file));
		if (!aim(&a.target, file, op, a.rw_flags, ANYWHERE))
			return 0;
		note_started(a.target.op);
	}
#ifdef URING_CQE
	READ(result, (const char *)ctx->args[2] + 8);
#else
	result = (int)ctx->args[3];
#endif
	if (finish(&a.target, a.tgid, a.start_ns, result))
		note_path(&a.target);
	return 0;
}
#endif
