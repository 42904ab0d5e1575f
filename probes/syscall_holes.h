/*
 * Whether reads get data that is in no block of their file: holes.  Whether direct reads get it
 * from memory.  Part of syscall.c.
 */
#define LOOK_NS 1000000 /* one read per millisecond and CPU: a few reads of kernel memory */
#define EXT4_SUPER_MAGIC 0xef53
#define XFS_SUPER_MAGIC 0x58465342
#define SECTOR_BITS 9
#define SECTORS_IN_PAGE 8
#define FEW_SECTORS 128 /* small files are in their inode */

#ifdef OFF_address_space_nrpages
/* The file's sectors; ~0 if the inode does not have them, or the probe cannot know. */
static inline u64 sectors_of(const char *inode)
{
	const char *sb = NULL;
	u64 magic = 0, blocks = ~0ULL;

	READ(sb, FIELD(inode, inode_i_sb));
	READ(magic, FIELD(sb, super_block_s_magic));
	if (magic == EXT4_SUPER_MAGIC || magic == BTRFS_SUPER_MAGIC)
		READ(blocks, FIELD(inode, inode_i_blocks));
#ifdef OFF_xfs_inode_i_nblocks
	if (magic == XFS_SUPER_MAGIC) {
		u8 block_bits = 0;

		READ(block_bits, FIELD(sb, super_block_s_blocksize_bits));
		READ(blocks, inode - OFF_xfs_inode_i_vnode + OFF_xfs_inode_i_nblocks);
		blocks <<= (block_bits - SECTOR_BITS) & 31;
	}
#endif
	return blocks;
}

/*
 * Whether most cached pages of the file have no block: clean pages, more than twice as many as the
 * file has blocks.  Dirty pages may have no block yet.
 */
static inline int is_of_holes(u64 file, u64 its_ino)
{
	const char *inode = NULL, *mapping = NULL;
	u64 ino = 0, sectors, pages = 0;
	u32 marks = 0;

	READ(inode, file + OFF_file_f_inode);
	READ(ino, FIELD(inode, inode_i_ino));
	sectors = sectors_of(inode);
	if (sectors == ~0ULL)
		return 0;
	/* Another thread may have closed the file. */
	if ((ino ^ its_ino) << (64 - SUBVOLUME_SHIFT))
		return 0;
	READ(mapping, FIELD(inode, inode_i_mapping));
	READ(marks, FIELD(mapping, address_space_i_pages_xa_flags));
	/* The highest bits show whether pages are dirty or being written; their place varies. */
	if (marks >> 20)
		return 0;
	READ(pages, FIELD(mapping, address_space_nrpages));
	return pages * SECTORS_IN_PAGE > 2 * sectors + FEW_SECTORS;
}
#else
#define is_of_holes(file, ino) 0
#endif

#ifdef OFF_xa_node_slots
#define XA_LEVELS 8
#define XA_BITS 6
#define XA_SLOTS (1 << XA_BITS)

/* An entry of an XArray that points to a node; small ones point to a neighbour in their node. */
#define is_xa_node(entry) (((entry) & 3) == 2 && (entry) > 4096)

#define OVERLAYFS_SUPER_MAGIC 0x794c7630

/* The file that has the pages: an overlay's is below.  0 if that is not known. */
static inline u64 real_file(u64 file)
{
	const char *inode = NULL, *sb = NULL, *mapping = NULL, *own = NULL;
	u64 magic = 0;

	READ(inode, file + OFF_file_f_inode);
	READ(sb, FIELD(inode, inode_i_sb));
	READ(magic, FIELD(sb, super_block_s_magic));
	READ(own, FIELD(inode, inode_i_mapping));
	READ(mapping, file + OFF_file_f_mapping);
	if (magic != OVERLAYFS_SUPER_MAGIC || mapping != own)
		return file;
#ifdef OFF_ovl_file_realfile /* since 6.13; before, f_mapping is that of the file below */
	READ(file, file + OFF_file_private_data);
	READ(file, file + OFF_ovl_file_realfile);
	return file;
#else
	return 0;
#endif
}

/* XFS never reads an O_DIRECT file through memory: without a bio, no block has the data. */
static inline int is_direct_always(u64 file)
{
	const char *inode = NULL, *sb = NULL;
	u64 magic = 0;

	READ(inode, file + OFF_file_f_inode);
	READ(sb, FIELD(inode, inode_i_sb));
	READ(magic, FIELD(sb, super_block_s_magic));
	return magic == XFS_SUPER_MAGIC;
}

/* Whether the page with this number is in memory: the kernel's xa_load(). */
static inline int is_in_memory(u64 file, u64 page)
{
	const char *mapping = NULL;
	u64 entry = 0, at = ~0ULL;
	u8 shift = 0;
	int i;

	READ(mapping, file + OFF_file_f_mapping);
	READ(entry, FIELD(mapping, address_space_i_pages_xa_head));
	if (!is_xa_node(entry))
		return entry && !(entry & 1) && !page;
	for (i = 0; i < XA_LEVELS && is_xa_node(entry); i++) {
		READ(shift, entry - 2 + OFF_xa_node_shift);
		at = page >> (shift & 63);
		if (i == 0 && at >= XA_SLOTS)
			return 0;
		READ(entry, entry - 2 + OFF_xa_node_slots + at % XA_SLOTS * sizeof(entry));
	}
	return entry && !(entry & 1); /* an odd one is only the shadow of an evicted page */
}

#endif

/* A buffered read that submitted this many bios has ended. */
static inline void look_for_holes(struct charges *sum, const struct call *c, u64 bytes, u32 bios)
{
#ifdef OFF_address_space_nrpages
	if (c->start_ns - sum->looked_ns < LOOK_NS)
		return;
	sum->looked_ns = c->start_ns;
	sum->read_looked_bytes += bytes;
	if (!bios && is_of_holes(c->target.file, c->target.ino))
		sum->read_hole_bytes += bytes;
#endif
}
