/*
 * Who submitted what: bytes and requests by process.  Part of block.c.
 */
struct submitter {
	u32 tgid;
	u32 write;
	char comm[16];
};

struct submitted {
	u64 count;
	u64 bytes;
};

BPF_TABLE("percpu_hash", struct submitter, struct submitted, submitters, 4096);

/* Adds a read or write to its submitter's sums; these tracepoints run in his context. */
static inline int add_submitted(const char *bio, u32 requests)
{
	const char *disk = NULL, *bdev = NULL, *leader = NULL;
	struct submitter who = {};
	struct submitted one = {}, *sum;
	u32 flags = 0, size = 0, op;

	if (!bio)
		return 0;
	READ(flags, FIELD(bio, bio_bi_opf));
	op = op_of(flags);
	if (op > OP_WRITE)
		return 0;
#ifdef FILTER_DEVICE
#ifdef OFF_bio_bi_disk
	/* Until 5.12 a bio names its disk. */
	READ(disk, FIELD(bio, bio_bi_disk));
#else
	READ(bdev, FIELD(bio, bio_bi_bdev));
	READ(disk, FIELD(bdev, block_device_bd_disk));
#endif
	if (!is_asked_for(disk, device_of(disk)))
		return 0;
#endif
	READ(size, FIELD(bio, bio_bi_iter_bi_size));
	who.tgid = bpf_get_current_pid_tgid() >> 32;
	who.write = op;
	/* The process' name, as in layer syscall: a thread may have one of its own. */
	READ(leader, FIELD(bpf_get_current_task(), task_struct_group_leader));
	bpf_probe_read_kernel_str(who.comm, sizeof(who.comm), FIELD(leader, task_struct_comm));
	sum = submitters.lookup(&who);
	if (sum) {
		ADD(sum->count, requests);
		ADD(sum->bytes, size);
		return 0;
	}
	one.count = requests;
	one.bytes = size;
	if (submitters.update(&who, &one))
		count_lost(LOST_PROCESSES_FULL);
	return 0;
}

#ifdef ON_SUBMIT
/* block_getrq(struct bio *bio); until 5.11 (q, bio, rw): a request is made for it */
int on_submit(struct bpf_raw_tracepoint_args *ctx)
{
	return add_submitted((const char *)ctx->args[BIO_ARG], 1);
}
#endif

/* block_bio_backmerge, block_bio_frontmerge (struct bio *bio): part of an earlier request */
int on_merge(struct bpf_raw_tracepoint_args *ctx)
{
	return add_submitted((const char *)ctx->args[MERGE_BIO_ARG], 0);
}
