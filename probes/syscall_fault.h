/*
 * Reads that a thread submits to the block layer outside any call: page faults of mappings,
 * swap-in, exec, requested read-ahead.  Part of syscall.c.
 */
static inline u32 bio_bytes(const char *bio)
{
	return FOLLOW(u32, bio, bio_bi_iter_bi_size);
}

#ifdef OFF_page_mapping
#define PF_IO_WORKER 0x10
#define PF_KTHREAD 0x200000
#define REQ_OP_MASK 0xff
#define HEAD_MASKS 0xffffffffc0000000ULL /* larger than any address of a struct page */
#define MERGED 32 /* bios of one request */
#define SWAP_NAME 1 /* with inode 0: not in a file */

/* Those in flight, each found by its bio, which is not reused before its end. */
BPF_HASH(faults, u64, struct fault, 16384);
BPF_ARRAY(faults_under_way, u64, 1);

/* The members needed of a struct page: read together, because a helper call costs most. */
struct page_part {
	u64 words[4];
};

#define PAGE_PART(part, member) ((part).words[OFF_page_##member / 8])

/* The first page of a bio; a page inside a folio has no mapping. */
static inline void read_page(struct page_part *part, const char *bio)
{
	const char *vector = FOLLOW(const char *, bio, bio_bi_io_vec);
	const char *page = NULL; /* with a helper: the code below calculates with the address */
	u64 head;

	READ(page, FIELD(vector, bio_vec_bv_page));
	READ(*part, page);
	head = PAGE_PART(*part, compound_head);
	if (!(head & 1))
		return;
	/* Since 7.1 it can be a mask of the address. */
	head = head > HEAD_MASKS ? (u64)page & head : head - 1;
	READ(*part, head);
}

/* The page's mapping; NULL for a direct read's memory, and for io_uring's later reads. */
static inline const char *inode_of(const char *bio, const char *mapping)
{
	const char *inode = NULL;
	u64 mapped = 1;

	if (!mapping) {
#ifdef OFF_btrfs_bio_inode
		/* Compressed: these pages are its own. */
		READ(inode, bio - OFF_btrfs_bio_bio + OFF_btrfs_bio_inode);
		inode += OFF_btrfs_inode_vfs_inode;
#endif
		return inode;
	}
#ifdef OFF_task_struct_io_uring
	/* io_uring continues its reads after their call; reads of a mapped file count as faults. */
	if (FOLLOW(u64, CURRENT, task_struct_io_uring))
		mapped = PEEK(u64, mapping, MAPPING, address_space_i_mmap);
#endif
	if (mapped && !((u64)mapping & 3))
		inode = PEEK(const char *, mapping, MAPPING, address_space_host);
	return inode;
}

/* Fill in a regular file on a disk; returns a dentry of it, or NULL. */
static inline const char *aim_inode(struct target *to, const char *inode, const char *mapping)
{
	const char *sb, *dentry = NULL;
	struct part part = {};
	u64 is_btrfs;

	READ_PART(part, INODE, inode);
	if ((PART(u16, part, INODE, inode_i_mode) & S_IFMT) != S_IFREG)
		return NULL;
	to->ino = PART(u64, part, INODE, inode_i_ino);
	sb = PART(const char *, part, INODE, inode_i_sb);
	READ_PART(part, SUPER, sb);
	to->dev = PART(u32, part, SUPER, super_block_s_dev);
	is_btrfs = !differs(PART(u64, part, SUPER, super_block_s_magic), BTRFS_SUPER_MAGIC);
	/* A direct read's memory can be a tmpfs file. */
	if (!is_btrfs && (!mapping || to->dev >> 20 == 0))
		return NULL;
#ifdef OFF_btrfs_inode_root
	if (is_btrfs)
		to->ino ^= subvolume_of(inode);
#endif
#ifdef FILTER_DEVICE
	if (other_device(sb, to->dev, 0))
		return NULL;
#endif
	READ(dentry, FIELD(inode, inode_i_dentry));
	if (!dentry)
		return NULL;
	dentry -= OFF_dentry_d_alias;
	to->name = PEEK(u32, dentry, DENTRY, dentry_d_name_hash);
	return dentry;
}

#ifdef FILTER_DEVICE
static inline int reads_from_disk(const char *bio)
{
	const char *bdev = NULL;

#ifdef OFF_bio_bi_bdev /* since 5.12 */
	READ(bdev, FIELD(bio, bio_bi_bdev));
#endif
	return bdev && !is_off_disk_of(bdev);
}
#endif

/* Whether this bio reads file data or swap, not metadata. */
static inline int aim_fault(struct target *to, const char *bio, const char **dentry)
{
	struct page_part page = {};
	const char *mapping;

	if (FOLLOW(u32, bio, bio_bi_opf) & (REQ_OP_MASK | REQ_META))
		return 0;
	read_page(&page, bio);
	mapping = (const char *)PAGE_PART(page, mapping);
	if (!mapping && PAGE_PART(page, flags) >> PG_swapbacked & 1) {
		to->name = SWAP_NAME;
#ifdef FILTER_DEVICE
		return reads_from_disk(bio);
#else
		return 1;
#endif
	}
	*dentry = aim_inode(to, inode_of(bio, mapping), mapping);
	return *dentry != NULL;
}

/* A bio of a thread without an open call: block_bio_queue. */
static inline void note_fault(const char *bio)
{
	struct fault fault = {.key.op = OP_FAULT_READ}, *before;
	u64 id = (u64)bio, *under_way;
	const char *task = CURRENT, *dentry = NULL;
	struct target to = {};
	struct op_totals *t;
	u32 zero = 0;

	/* A volume submits its own bios while its submission of the first one is in progress. */
	if (FOLLOW(u32, task, task_struct_flags) & (PF_KTHREAD | PF_IO_WORKER) ||
	    FOLLOW(u64, task, task_struct_bio_list) || is_compat(task))
		return;
	fault.key.tgid = bpf_get_current_pid_tgid() >> 32;
	if (is_filtered(fault.key.tgid) || !aim_fault(&to, bio, &dentry))
		return;
	t = totals.lookup(&fault.key.op);
	under_way = faults_under_way.lookup(&zero);
	if (!t || !under_way)
		return;
	fault.bytes = bio_bytes(bio);
	fault.key.ino = to.ino;
	fault.key.dev = to.dev;
	fault.key.name = to.name;
	if (note_flow(&fault.key, flows.lookup(&fault.key), fault.bytes, 0) && dentry)
		keep_path(to.ino, to.dev, to.name, dentry);
	fault.start_ns = bpf_ktime_get_ns();
	if (!faults.insert(&id, &fault)) {
		t->started += 1;
		__sync_fetch_and_add(under_way, 1);
		return;
	}
	before = faults.lookup(&id);
	if (!before) {
		count_lost(LOST_MAP_FULL);
		return;
	}
	/* Still there: the probe missed its end, so it has no time. */
	t->started += 1;
	t->count += 1;
	t->bytes += before->bytes;
	*before = fault;
}

/*
 * block_getrq, block_split: a fault's bio, or its front, becomes a request.  Not for a write at the
 * address of a read whose end was missed, nor for kernel threads.
 */
static inline void note_fault_request(const char *bio, u64 id)
{
	u32 zero = 0;
	u64 *under_way = faults_under_way.lookup(&zero);
	struct charges *sum;

	if (!under_way || !*under_way || FOLLOW(u32, bio, bio_bi_opf) & REQ_OP_MASK ||
	    FOLLOW(u32, CURRENT, task_struct_flags) & PF_KTHREAD || !faults.lookup(&id))
		return;
	sum = charges.lookup(&zero);
	if (sum)
		sum->fault_requests += 1;
}

static inline void end_fault(struct op_totals *t, u64 *under_way, u64 id, u32 has_failed)
{
	struct fault *found = faults.lookup(&id), fault;
	struct flow *f;
	u64 ns;

	if (!found)
		return;
	fault = *found;
	faults.delete(&id);
	__sync_fetch_and_add(under_way, -1);
	ns = bpf_ktime_get_ns() - fault.start_ns;
	if (has_failed) {
		t->errors += 1;
		t->failed_ns += ns;
		return;
	}
	add_finished(t, ns, fault.bytes);
	f = flows.lookup(&fault.key);
	if (f)
		f->ns += ns;
}

/* block_rq_complete(struct request *rq, blk_status_t error, unsigned int nr_bytes) */
int on_request_end(struct bpf_raw_tracepoint_args *ctx)
{
	u32 zero = 0, op = OP_FAULT_READ, left = ctx->args[2], has_failed = (u8)ctx->args[1];
	u64 *under_way = faults_under_way.lookup(&zero);
	struct op_totals *t;
	const char *bio;
	u32 size;
	int i;

	if (!under_way || !*under_way)
		return 0;
	t = totals.lookup(&op);
	if (!t)
		return 0;
	bio = FOLLOW(const char *, hidden(ctx->args[0]), request_bio);
	for (i = 0; i < MERGED && bio; i++) {
		size = bio_bytes(bio);
		if (size > left)
			break;
		left -= size;
		end_fault(t, under_way, (u64)bio, has_failed);
		bio = FOLLOW(const char *, bio, bio_bi_next);
	}
	return 0;
}

/* block_bio_complete(struct request_queue *q, struct bio *bio): where there are no requests */
int on_bio_end(struct bpf_raw_tracepoint_args *ctx)
{
	u32 zero = 0, op = OP_FAULT_READ;
	u64 *under_way = faults_under_way.lookup(&zero);
	struct op_totals *t;
	u8 status = 0;

	if (!under_way || !*under_way)
		return 0;
	t = totals.lookup(&op);
	if (!t)
		return 0;
	READ(status, FIELD((const char *)ctx->args[1], bio_bi_status));
	end_fault(t, under_way, ctx->args[1], status);
	return 0;
}
#else
#define note_fault(bio)
#define note_fault_request(bio, id)
#endif
