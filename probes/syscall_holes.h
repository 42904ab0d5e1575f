/*
 * Whether buffered reads get data that is in no block of their file: holes.
 * Part of syscall.c.
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
static inline int is_of_holes(const struct target *of)
{
	const char *inode = NULL, *mapping = NULL;
	u64 ino = 0, sectors, pages = 0;
	u32 marks = 0;

	READ(inode, of->file + OFF_file_f_inode);
	READ(ino, FIELD(inode, inode_i_ino));
	sectors = sectors_of(inode);
	if (sectors == ~0ULL)
		return 0;
	/* Another thread may have closed the file. */
	if ((ino ^ of->ino) << (64 - SUBVOLUME_SHIFT))
		return 0;
	READ(mapping, FIELD(inode, inode_i_mapping));
	READ(marks, FIELD(mapping, address_space_i_pages_xa_flags));
	/* The highest bits show whether pages are dirty or being written; their place varies. */
	if (marks >> 20)
		return 0;
	READ(pages, FIELD(mapping, address_space_nrpages));
	return pages * SECTORS_IN_PAGE > 2 * sectors + FEW_SECTORS;
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
	if (!bios && is_of_holes(&c->target))
		sum->read_hole_bytes += bytes;
#endif
}
