/*
 * Requests that begin in one call and end in another: libaio and io_uring.
 * Part of syscall.c.
 */
/* REQ_F_ of io_uring, the same bits as IOSQE_ */
#define REQ_F_FIXED_FILE 1
#define REQ_F_LINKED 12 /* LINK, HARDLINK: the next one waits for it */
#define REQ_F_DEFERRED 18 /* IO_DRAIN, ASYNC: the submitting thread does not begin it */
#define REQ_F_CQE_SKIP 64
#define OFF_io_uring_cqe_res 8

/*
 * Each round of the loop costs verifier time; the kernel allows up to 33 tail
 * calls, which makes 528 requests per batch.
 */
#define AIO_STEP 16

/* Op of each IOCB_CMD_, a nibble each: 0 PREAD, 1 PWRITE, 2 FSYNC, 3 FDSYNC, 7 PREADV, 8 PWRITEV */
#define IOCB_OPS 0x30fff6630ULL

/* The part of struct iocb that is needed: after aio_data. */
#define IOCB_BASE 8

struct iocb_part {
	u32 key;
	u32 rw_flags;
	u16 opcode;
	u16 prio;
	u32 fd;
	u64 buffer;
	u64 bytes;
	u64 offset;
};

/* One iocb of io_submit; ignored if it is not I/O on a file. */
static inline void submit_iocb(struct call *c, const char *task, u64 address, u32 tgid)
{
	struct async_key key = {.request = address, .tgid = tgid};
	struct async a = {
		.start_ns = c->start_ns, .tgid = tgid, .rw_flags = WATCHED, .context = c->request};
	struct iocb_part iocb;
	u32 op, pages;

	if (bpf_probe_read_user(&iocb, sizeof(iocb), (void *)(address + IOCB_BASE)))
		return;
	if (iocb.opcode > 8)
		return;
	op = IOCB_OPS >> (iocb.opcode & 15) * 4 & 15;
	if (op > OP_FSYNC)
		return;
	if (!aim(&a.target, file_of(task, iocb.fd), op, iocb.rw_flags, iocb.offset))
		return;
	/* Unseen: the program read its completion from the ring without a system call. */
	if (!note_async(&key, &a, LOST_AIO_UNSEEN))
		return;
	note_started(a.target.op);
	if (op == OP_FSYNC || a.target.is_opaque)
		return;
	if (a.target.is_at_end) {
		c->at_end += 1;
		return;
	}
	c->batch[op == OP_WRITE] += 1;
	c->direct += a.target.op == OP_READ_DIRECT;
	note_place(c, &a.target, iocb.offset, iocb.bytes);
	pages = (iocb.bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	if (op == OP_READ && pages > c->largest)
		c->largest = pages;
}

/* Runs on sys_enter of io_submit(ctx_id, nr, iocbpp); target.ino is the next iocb pointer. */
int on_submit_step(struct bpf_raw_tracepoint_args *ctx)
{
	const char *regs = REGISTERS(ctx), *task = CURRENT;
	u64 pid_tgid = PID_TGID(task), address = 0;
	struct call *c = find_call(pid_tgid);
	struct arguments args = {};
	u64 end;
	int i;

	if (!c)
		return 0;
	read_arguments(&args, ctx, regs);
	c->request = args.a[0];
	end = args.a[2] + args.a[1] * sizeof(u64);
	for (i = 0; i < AIO_STEP; i++) {
		if (c->target.ino >= end)
			return 0;
		if (bpf_probe_read_user(&address, sizeof(address), (void *)c->target.ino))
			return 0;
		c->target.ino += sizeof(u64);
		submit_iocb(c, task, address, pid_tgid >> 32);
	}
	submit_step.call(ctx, 0);
	return 0; /* The rest counts as lost once it is known how many were taken. */
}

/* A noted iocb: io_submit did not take it, or it became a bio. */
static inline void revise_iocb(struct call *c, u64 address, u32 tgid, u32 is_taken)
{
	struct async_key key = {.request = address, .tgid = tgid};
	struct async *noted = asyncs.lookup(&key);
	u32 op, is_opaque, is_at_end;

	if (!noted || noted->start_ns != c->start_ns)
		return;
	if (is_taken) {
		noted->rw_flags |= FETCHED;
		return;
	}
	op = noted->target.op;
	is_opaque = noted->target.is_opaque;
	is_at_end = noted->target.is_at_end;
	end_async(&key, noted);
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
 * Runs on sys_exit of io_submit: the iocbs after target.file were not taken, because the ring is
 * full or one of them is invalid.  The program may submit them again.  In a batch with buffered
 * reads, the first ones are assumed to have become the bios.
 */
int on_revise_step(struct bpf_raw_tracepoint_args *ctx)
{
	u64 pid_tgid = bpf_get_current_pid_tgid(), address = 0, fetched;
	struct call *c = find_call(pid_tgid);
	struct arguments args = {};
	int i;

	if (!c)
		return 0;
#ifdef RECORDS /* without arguments: back from where note_taken() went */
	args.a[2] = c->target.file;
	if ((s64)ctx->args[RESULT] > 0)
		args.a[2] -= ctx->args[RESULT] * sizeof(u64);
#else
	read_arguments(&args, ctx, REGISTERS(ctx));
#endif
	fetched = args.a[2] + (c->largest ? c->lower[0].bios * sizeof(u64) : 0);
	for (i = 0; i < AIO_STEP; i++) {
		if (c->target.ino <= c->target.file && c->target.ino > fetched)
			c->target.ino = fetched;
		if (c->target.ino <= args.a[2])
			break;
		c->target.ino -= sizeof(u64);
		if (!bpf_probe_read_user(&address, sizeof(address), (void *)c->target.ino))
			revise_iocb(c, address, pid_tgid >> 32, c->target.ino < c->target.file);
	}
	if (c->target.ino > args.a[2])
		revise_step.call(ctx, 0);
	settle(c, CURRENT, CALL_SUBMIT, 0);
	close_call(c, pid_tgid);
	return 0;
}

/* The part of struct io_event that is needed: after data. */
#define EVENT_BASE 8
#define EVENT_BYTES 32

struct event_part {
	u64 iocb;
	s64 result;
};

/*
 * Runs on sys_exit of io_getevents; target.ino is the next event in the caller's array, and
 * target.file the number of times that the thread had slept on entry.
 */
int on_reap_step(struct bpf_raw_tracepoint_args *ctx)
{
	const char *task = CURRENT;
	u64 pid_tgid = PID_TGID(task), next, now = bpf_ktime_get_ns(), is_late;
	struct async_key key = {.tgid = pid_tgid >> 32};
	struct call *c = find_call(pid_tgid);
	struct target unnamed = {};
	struct async *found;
	struct event_part event;
	u32 i, seen, at_end = 0;

	if (!c)
		return 0;
	is_late = 1 ^ differs(c->target.file, FOLLOW(u64, task, task_struct_nvcsw));
	seen = c->target.dev;
	next = c->target.ino;
	for (i = 0; i < AIO_STEP; i++) {
		if (seen >= ctx->args[RESULT] ||
		    bpf_probe_read_user(&event, sizeof(event), (void *)(next + EVENT_BASE))) {
			at_end = 1;
			break;
		}
		seen += 1;
		next += EVENT_BYTES;
		key.request = event.iocb;
		found = asyncs.lookup(&key);
		if (!found || !found->start_ns)
			continue;
		note_result(&found->target, found->rw_flags, event.result);
		/* In place: no other thread gets this event, so none ends it now. */
		found->target.op = kind_of_read(&found->target, found->rw_flags, event.result);
		if (finish(&found->target, found->tgid, found->start_ns, &now, event.result))
			unnamed = found->target;
		/* Not two conditions: the verifier would remember each in all later rounds. */
		if (is_late & ~((u64)event.result >> 63))
			note_late(found->target.op);
		end_async(&key, found);
	}
	note_path(&unnamed); /* one per step; user space requests the others again */
	/* Anew: it is in one of two maps, so the verifier would check each round twice. */
	c = find_call(pid_tgid);
	if (!c)
		return 0;
	c->target.dev = seen;
	c->target.ino = next;
	/* Too many for the tail calls look like requests that the program read from the ring. */
	if (!at_end)
		reap_step.call(ctx, 0);
	close_call(c, pid_tgid);
	return 0;
}

#ifdef ON_URING_SUBMIT
/* As at sys_enter, but the record has the request's address and its result. */
#ifdef URING_RECORDS
#define SUBMITTED (const char *)ctx->args[2]
#define COMPLETED (const char *)ctx->args[2]
#define COMPLETION_RESULT (int)ctx->args[4]
#define OF_SUBMITTED(type, request, member) PEEK(type, request, REQUEST, io_kiocb_##member)
#else
#define SUBMITTED hidden(ctx->args[0])
#define COMPLETED (const char *)ctx->args[1]
#ifdef URING_CQE
#define COMPLETION_RESULT FOLLOW(int, hidden(ctx->args[2]), io_uring_cqe_res)
#else
#define COMPLETION_RESULT (int)ctx->args[3]
#endif
#define OF_SUBMITTED(type, request, member) FOLLOW(type, request, io_kiocb_##member)
#endif

/* Where a request begins: -1 is the file's own position. */
static inline u64 position_of(const char *request, const char *file)
{
	u64 from = 0;

#ifdef OFF_io_rw_position
	from = PEEK(u64, FIELD(request, io_kiocb_cmd), RW, io_rw_position);
	if (from == ~0ULL)
		READ(from, FIELD(file, file_f_pos));
#endif
	return from;
}

/*
 * Begin to watch this request's operations below, if its thread begins it before the next one.
 * Requests that wait for another one or for a worker, or are opaque, are not watched.
 */
static inline u32 watch_request(const char *task, u64 pid_tgid, u32 op, const struct target *of,
				u32 flags, const char *request)
{
	struct call *c = find_call(pid_tgid);
	u32 waits;

	if (!c || c->target.op != CALL_SUBMIT)
		return 0;
	waits = c->linked | (flags & (REQ_F_LINKED | REQ_F_DEFERRED)) | of->is_opaque;
	mark_fetched(c, task);
	settle(c, task, CALL_SUBMIT, 0);
	forget_lower(c, task);
	c->linked = flags & REQ_F_LINKED;
	if (waits || op >= OP_FSYNC)
		return 0;
	c->at_end = of->is_at_end;
	if (of->is_at_end)
		return 0;
	c->batch[op == OP_WRITE] = 1;
	c->direct = of->op == OP_READ_DIRECT;
	c->request = (u64)request;
#ifdef OFF_io_rw_len
	if (c->direct)
		note_place(c, of, position_of(request, (const char *)of->file),
			   PEEK(u32, FIELD(request, io_kiocb_cmd), RW, io_rw_len));
#endif
	return WATCHED;
}

#ifdef OFF_io_splice_splice_fd_in
#define SPLICE_F_FD_IN_FIXED (1U << 31)
#define S_IFIFO 0010000

static inline int is_pipe(const char *file)
{
	const char *inode = NULL;
	u16 mode = 0;

	READ(inode, FIELD(file, file_f_inode));
	READ(mode, FIELD(inode, inode_i_mode));
	return (mode & S_IFMT) == S_IFIFO;
}
#endif

/* io_uring_submit_req(struct io_kiocb *req); in 6.1 io_uring_submit_sqe */
int on_uring_submit(struct bpf_raw_tracepoint_args *ctx)
{
	const char *request = SUBMITTED, *task = CURRENT, *file;
#ifdef OFF_io_splice_splice_fd_in
	const char *source;
#endif
	struct async_key key = {.request = (u64)request};
	struct async a = {}, *noted;
	u64 pid_tgid = PID_TGID(task);
	u32 flags, rw_flags = 0, op;
	u64 from = ANYWHERE;
	u8 opcode = OF_SUBMITTED(u8, request, opcode);

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
		rw_flags = PEEK(u32, FIELD(request, io_kiocb_cmd), RW, io_rw_flags);
#endif
		break;
	case 8: /* SYNC_FILE_RANGE */
#ifdef OFF_io_sync_flags
		op = kind_of_sync_range(command_word(request, OFF_io_sync_flags));
		break;
#endif
	case 3: /* FSYNC */
		op = OP_FSYNC;
		break;
#ifdef OFF_io_splice_splice_fd_in
	case 30: /* SPLICE: from or to a pipe */
		op = OP_COPY;
		break;
#endif
	default:
		op = kind_of_meta_request(opcode);
		if (!op)
			return 0;
	}
	a.tgid = pid_tgid >> 32;
	if (is_filtered(a.tgid))
		return 0;
	flags = OF_SUBMITTED(u32, request, flags);
	a.target.op = op;
	a.rw_flags = rw_flags;
	file = file_of(task, OF_SUBMITTED(u32, request, cqe_fd));
	if (op == OP_READ)
		from = position_of(request, file);
#ifdef OFF_io_splice_splice_fd_in
	if (op == OP_COPY) {
		if (command_word(request, OFF_io_splice_flags) & SPLICE_F_FD_IN_FIXED) {
			count_lost(LOST_URING_UNSEEN);
			return 0;
		}
		source = file_of(task, command_word(request, OFF_io_splice_splice_fd_in));
		op = OP_WRITE;
		if (!is_pipe(source)) {
			op = OP_READ;
			file = source;
			flags &= ~REQ_F_FIXED_FILE;
		}
		a.target.op = op;
	}
#endif
	if (is_meta(op)) {
		if (flags & REQ_F_FIXED_FILE)
			return 0;
		if (!aim_request(&a.target, task, request, opcode, file))
			return 0;
	} else if (!(flags & REQ_F_FIXED_FILE)) {
		if (!aim(&a.target, file, op, rw_flags, from))
			return 0;
	}
	a.rw_flags |= watch_request(task, pid_tgid, op, &a.target, flags, request);
	a.start_ns = bpf_ktime_get_ns();
	/* Unseen: its completion did not fit the ring, or the program did not want one. */
	if (!note_async(&key, &a, LOST_URING_UNSEEN))
		return 0;
	if (flags & REQ_F_CQE_SKIP) {
		noted = asyncs.lookup(&key);
		if (noted)
			end_async(&key, noted);
		count_lost(LOST_URING_UNSEEN);
	} else if (a.target.file)
		note_started(a.target.op);
	return 0;
}

/* io_uring_queue_async_work(struct io_kiocb *req, int rw): a worker continues the request. */
int on_uring_worker(struct bpf_raw_tracepoint_args *ctx)
{
	struct call *c = find_call((u32)bpf_get_current_pid_tgid());
	struct async_key key = {.request = ctx->args[0]};
	struct async *found = asyncs.lookup(&key);

	if (found)
		found->rw_flags &= ~WATCHED;
	if (c && c->target.op == CALL_SUBMIT)
		c->batch[0] = c->batch[1] = c->direct = c->at_end = 0;
	return 0;
}

/* The flags of a request that ends while its thread submits it; a failed one is not counted yet. */
static inline u32 flags_at_once(u64 request, u32 flags, int result)
{
	struct call *c = find_call((u32)bpf_get_current_pid_tgid());

	if (!c || c->request != request || c->target.op != CALL_SUBMIT)
		return flags;
	if (result < 0 && result != -EIO) {
		c->batch[0] = c->batch[1] = c->direct = 0;
		return flags & ~WATCHED;
	}
	return has_fetched(c, CURRENT) ? flags | FETCHED : flags;
}

/*
 * io_uring_complete(struct io_ring_ctx *ring, void *req, struct io_uring_cqe *cqe);
 * in 6.1 (ring, req, user_data, res, …).  The request still holds its file here.
 */
int on_uring_complete(struct bpf_raw_tracepoint_args *ctx)
{
	const char *request = COMPLETED, *file;
	struct async_key key = {.request = (u64)request};
	struct async *found, a;
	int result;
	u32 op;

	if (!request)
		return 0;
	found = asyncs.lookup(&key);
	if (!found || !found->start_ns)
		return 0;
	a = *found;
	end_async(&key, found);
	if (!a.target.file) {
		/* A registered file, or one opened by an earlier linked request. */
		op = a.target.op;
		file = PEEK(const char *, request, REQUEST, io_kiocb_file);
		if (!aim(&a.target, file, op, a.rw_flags & ~WATCHED, ANYWHERE))
			return 0;
		note_started(a.target.op);
	}
	result = COMPLETION_RESULT;
	a.rw_flags = flags_at_once(key.request, a.rw_flags, result);
	note_result(&a.target, a.rw_flags, result);
	a.target.op = kind_of_read(&a.target, a.rw_flags, result);
	if (is_meta(a.target.op) && !has_place(&a.target, result)) {
		withdraw(a.target.op);
		return 0;
	}
	if (finish(&a.target, a.tgid, a.start_ns, NULL, result))
		note_path(&a.target);
	return 0;
}
#endif
