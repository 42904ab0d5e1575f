/*
 * Bytes that buffered reads fetch of compressed btrfs files, and their unpacked bytes.  Part of
 * syscall.c.
 */
#ifdef OFF_compressed_bio_bbio
static inline int is_on_btrfs(const struct target *of)
{
	const char *inode = NULL, *sb = NULL;
	u64 magic = 0;

	READ(inode, of->file + OFF_file_f_inode);
	READ(sb, FIELD(inode, inode_i_sb));
	READ(magic, FIELD(sb, super_block_s_magic));
	return magic == BTRFS_SUPER_MAGIC;
}

/* A bio of a call.  Pages that btrfs will unpack are its own, without a file. */
static inline void note_packed(const struct call *c, const char *bio)
{
	const char *packed = bio - OFF_btrfs_bio_bio - OFF_compressed_bio_bbio;
	u32 zero = 0, unpacked_bytes = 0, packed_bytes = 0;
	struct page_part page = {};
	struct charges *sum;

	if (c->target.op != OP_READ || c->target.dev >> 20 || !is_on_btrfs(&c->target))
		return;
	if (FOLLOW(u32, bio, bio_bi_opf) & (REQ_OP_MASK | REQ_META))
		return;
	read_page(&page, bio);
	sum = charges.lookup(&zero);
	if (PAGE_PART(page, mapping) || !sum)
		return;
	READ(unpacked_bytes, FIELD(packed, compressed_bio_len));
	READ(packed_bytes, FIELD(packed, compressed_bio_compressed_len));
	/* Others are parts of a bio that the file system split, or swap. */
	if (packed_bytes != bio_bytes(bio))
		return;
	sum->read_packed_bytes += packed_bytes;
	sum->read_unpacked_bytes += unpacked_bytes;
}
#else
#define note_packed(c, bio)
#endif
