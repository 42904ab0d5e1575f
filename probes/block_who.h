/*
 * Who submitted what: bytes and requests by process.  Part of block.c.
 */
/* A single writer needs no atomic add: only on_submit writes counts and bytes. */
BPF_TABLE("percpu_hash", struct submitter, struct submitted, submitters, 4096);

/* The process' name, as in layer syscall: a thread may have another one. */
static inline void name_submitter(struct submitter *who, const char *task)
{
	const char *leader = FOLLOW(const char *, task, task_struct_group_leader);

#ifdef CASTS
	/* These kernels clear the rest of a longer name after the NUL (see syscall_filter.h). */
	*(u64 *)who->comm = FOLLOW(u64, leader, task_struct_comm);
	*(u64 *)(who->comm + 8) = FOLLOW(u64, leader + 8, task_struct_comm);
#else
	bpf_probe_read_kernel_str(who->comm, sizeof(who->comm), FIELD(leader, task_struct_comm));
#endif
}

/* Add a read or write to its submitter's sums; these tracepoints run in its context. */
static inline int add_submitted(const char *bio, u32 is_request)
{
	struct submitter who = {};
	struct submitted one = {}, *sum;
	const char *disk, *task;
	u32 op;

	if (!bio)
		return 0;
	op = op_of(FOLLOW(u32, bio, bio_bi_opf));
	if (op > OP_WRITE)
		return 0;
#ifdef FILTER_DEVICE
#ifdef OFF_bio_bi_disk
	/* Until 5.12 a bio names its disk. */
	disk = FOLLOW(const char *, bio, bio_bi_disk);
#else
	disk = FOLLOW(const char *, FOLLOW(const char *, bio, bio_bi_bdev), block_device_bd_disk);
#endif
	if (!is_asked_for(disk, device_of(disk)))
		return 0;
#endif
	one.count = is_request;
	if (is_request)
		one.bytes = FOLLOW(u32, bio, bio_bi_iter_bi_size);
	else
		one.merged_bytes = FOLLOW(u32, bio, bio_bi_iter_bi_size);
	task = CURRENT;
	who.tgid = PID_TGID(task) >> 32;
	who.write = op;
	name_submitter(&who, task);
	sum = submitters.lookup(&who);
	if (sum && is_request) {
		ADD(sum->count, 1);
		ADD(sum->bytes, one.bytes);
	} else if (sum) {
		ADD_SHARED(sum->merged_bytes, one.merged_bytes);
	} else if (submitters.update(&who, &one))
		count_lost(LOST_PROCESSES_FULL);
	return 0;
}

#ifdef ON_SUBMIT
/* block_getrq(struct bio *bio); until 5.11 (q, bio, rw): a request is made for it */
int on_submit(struct bpf_raw_tracepoint_args *ctx)
{
	add_submitted(hidden(ctx->args[BIO_ARG]), 1);
	after_submit.call(ctx, 0);
	return 0;
}
#endif

/* block_bio_backmerge, block_bio_frontmerge (struct bio *bio): part of an earlier request */
int on_merge(struct bpf_raw_tracepoint_args *ctx)
{
	return add_submitted(hidden(ctx->args[MERGE_BIO_ARG]), 0);
}
