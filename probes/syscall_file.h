/*
 * The file of an operation and its class; the file's name, once.  Part of
 * syscall.c.
 */
#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_IFCHR 0020000
#define S_SYNC 1 /* inode->i_flags */
#define SB_SYNCHRONOUS 16 /* super_block->s_flags: mounted with sync, or NFS with noac */
#define RWF_SYNC_BITS 6 /* RWF_DSYNC | RWF_SYNC */

/* Buffered reads and writes; a read's kind is known at its end. */
#define OP_READ OP_READ_CACHED
#define OP_WRITE OP_WRITE_BUFFERED

static inline const char *file_of(const char *task, u32 fd)
{
	const char *files, *fdt, *array, *file = NULL;

	files = FOLLOW(const char *, task, task_struct_files);
	if (!files)
		return NULL;
	fdt = FOLLOW(const char *, files, files_struct_fdt);
	if (!fdt || fd >= FOLLOW(u32, fdt, fdtable_max_fds))
		return NULL;
	array = FOLLOW(const char *, fdt, fdtable_fd) + fd * sizeof(void *);
#ifdef CASTS
	file = *(const char **)cast(array, TYPE_POINTER);
#else
	READ(file, array);
#endif
	return file;
}

/*
 * The members that every call needs of a file, its inode and its superblock.  Helpers read each
 * struct as a whole: a helper call costs more than the bytes.  Not all three at the same time: they
 * would take half of a program's stack.
 */
#ifdef CASTS
struct part {
	const char *at;
};

#define READ_PART(part, kind, address) ((part).at = cast(address, TYPE_##kind))
#define PART(type, part, kind, member) FOLLOW(type, (part).at, member)
#else
struct part {
	u64 words[PART_SPAN / 8];
};

#define READ_PART(part, kind, address)                                                             \
	bpf_probe_read_kernel(&(part), kind##_SPAN, (address) + kind##_BASE)
#define PART(type, part, kind, member)                                                             \
	(*(type *)((char *)(part).words + OFF_##member - kind##_BASE))
#endif

/* 1 if they differ.  Not the opposite: clang would make a branch for equality. */
static inline u64 differs(u64 a, u64 b)
{
	return above(a ^ b, 0);
}

/*
 * Whether it is a real file system: pseudo file systems have regular files too, but no real I/O.
 * One product instead of a switch: aim() is in a loop, where each branch is a path for the
 * verifier.
 */
static inline int is_real(u64 magic)
{
	return differs(magic, 0x9fa0) /* proc */
	       & differs(magic, 0x62656572) /* sysfs */
	       & differs(magic, 0x63677270) /* cgroup2 */
	       & differs(magic, 0x27e0eb) /* cgroup */
	       & differs(magic, 0x64626720) /* debugfs */
	       & differs(magic, 0x74726163) /* tracefs */
	       & differs(magic, 0x73636673) /* securityfs */
	       & differs(magic, 0xcafe4a11) /* bpf */
	       & differs(magic, 0x6e667364) /* nfsd */
	       & differs(magic, 0x67596969) /* rpc_pipefs */
	       & differs(magic, 0x42494e4d) /* binfmt_misc */
	       & differs(magic, 0x62656570) /* configfs */
	       & differs(magic, 0x65735543) /* fusectl */
	       & differs(magic, 0xf97cff8c) /* selinuxfs */
	       & differs(magic, 0x5a3c69f0) /* apparmorfs */
	       & differs(magic, 0xde5e81e4) /* efivarfs */
	       & differs(magic, 0x6165676c) /* pstore */
	       & differs(magic, 0x07655821) /* resctrl */
	       & differs(magic, 0x09041934) /* anon_inode: regular files since 6.16 */;
}

#define FUSE_SUPER_MAGIC 0x65735546 /* also fuseblk, which has a block device */
#define TMPFS_MAGIC 0x01021994 /* accepts O_DIRECT since 6.6, but still copies from memory */
#define BTRFS_SUPER_MAGIC 0x9123683e

/*
 * Whether something invisible serves the reads of a file system without its own block device: FUSE,
 * CIFS, Ceph, 9p, ZFS …  Reads of others can be charged: nothing if in memory, else bios or NFS
 * READs in the caller's context.
 */
static inline int is_answered_elsewhere(u64 magic)
{
	return differs(magic, TMPFS_MAGIC) & differs(magic, 0x858458f6) /* ramfs */
	       & differs(magic, 0x958458f6) /* hugetlbfs */
	       & differs(magic, BTRFS_SUPER_MAGIC) & differs(magic, 0xca451a4e) /* bcachefs */
	       & differs(magic, 0x6969) /* nfs */
	       & differs(magic, 0x794c7630) /* overlay */
	       & differs(magic, 0xf15f) /* ecryptfs */;
}

#define SUBVOLUME_SHIFT 40

#ifdef OFF_btrfs_inode_root
/*
 * Subvolumes share s_dev; each numbers its files from 257 on, a snapshot as its source.
 */
static inline u64 subvolume_of(const char *inode)
{
	const char *root = NULL;
	u64 id = 0;

	READ(root, inode - OFF_btrfs_inode_vfs_inode + OFF_btrfs_inode_root);
	READ(id, FIELD(root, btrfs_root_root_key_objectid));
	return id << SUBVOLUME_SHIFT;
}
#endif

#ifdef FILTER_DEVICE
/*
 * The requested disk, or something on it: a volume, an array, a btrfs (its superblock names no
 * disk), or a partition.  A product for the same reason as above.
 */
static inline int is_off_disk(u32 dev)
{
	return differs(dev, FILTER_DEVICE) & differs(dev, FILTER_ABOVE_1) &
	       differs(dev, FILTER_ABOVE_2) & differs(dev, FILTER_ABOVE_3) &
	       differs(dev, FILTER_ABOVE_4) & differs(dev, FILTER_ABOVE_5) &
	       differs(dev, FILTER_ABOVE_6) & differs(dev, FILTER_ABOVE_7) &
	       differs(dev, FILTER_ABOVE_8) & differs(dev, FILTER_ABOVE_9) &
	       differs(dev, FILTER_ABOVE_10) & differs(dev, FILTER_ABOVE_11) &
	       differs(dev, FILTER_ABOVE_12) & differs(dev, FILTER_ABOVE_13) &
	       differs(dev, FILTER_ABOVE_14) & differs(dev, FILTER_ABOVE_15) &
	       differs(dev, FILTER_ABOVE_16);
}

static inline int is_off_disk_of(const char *bdev)
{
	const char *disk = NULL;
	int number[2] = {};

	READ(disk, FIELD(bdev, block_device_bd_disk));
	READ(number, FIELD(disk, gendisk_major));
	return is_off_disk((u32)number[0] << 20 | (u32)number[1]);
}

/* dev is the superblock's; rdev is that of a block device's node, else 0. */
static inline int other_device(const char *sb, u32 dev, u32 rdev)
{
	const char *bdev = NULL;

	if (!is_off_disk(rdev ? rdev : dev))
		return 0;
	if (rdev)
		return 1;
	READ(bdev, FIELD(sb, super_block_s_bdev));
	if (!bdev)
		return 1;
	/* A partition, also a volume's, that was made after ioh checked. */
	return is_off_disk_of(bdev);
}
#endif

#define ANYWHERE (~1ULL)

/*
 * Fill in the file and the class of op; 0 if ioh does not count it, maybe with the file's kind as
 * class.  op is OP_READ,
 * OP_WRITE, OP_FSYNC or OP_COPY, call_flags an RWF_ mask; from is where in the file an
 * asynchronous read begins, ANYWHERE for others.
 */
static inline int aim(struct target *to, const char *file, u32 op, u32 call_flags, u64 from)
{
	const char *inode, *dentry, *sb;
	struct part part;
	u32 flags, is_sync, rdev = 0;
	u64 magic, is_opaque, size;
	u16 kind;

	if (!file)
		return 0;
	READ_PART(part, FILE, file);
	inode = PART(const char *, part, FILE, file_f_inode);
	dentry = PART(const char *, part, FILE, file_f_path_dentry);
	flags = PART(u32, part, FILE, file_f_flags);
	READ_PART(part, INODE, inode);
	kind = PART(u16, part, INODE, inode_i_mode) & S_IFMT;
	/* Databases fsync a directory to make its changes durable. */
	if (kind != S_IFREG && kind != S_IFBLK && (kind != S_IFDIR || op != OP_FSYNC)) {
		to->op = kind;
		return 0;
	}
	to->file = (u64)file;
	to->ino = PART(u64, part, INODE, inode_i_ino);
	sb = PART(const char *, part, INODE, inode_i_sb);
	/* The inode's and the mount's flags, as IS_SYNC() checks them; not dirsync. */
	is_sync = (flags & O_DSYNC) | (call_flags & RWF_SYNC_BITS);
	is_sync |= PART(u32, part, INODE, inode_i_flags) & S_SYNC;
	READ_PART(part, SUPER, sb);
	to->dev = PART(u32, part, SUPER, super_block_s_dev);
	is_sync |= PART(u32, part, SUPER, super_block_s_flags) & SB_SYNCHRONOUS;
	magic = PART(u64, part, SUPER, super_block_s_magic);
	is_opaque = !differs(magic, FUSE_SUPER_MAGIC);
	if (to->dev >> 20 == 0) {
		if (!is_real(magic))
			return 0;
		is_opaque = is_answered_elsewhere(magic);
		/* A device's node is also on one. */
		flags &= ~((kind & S_IFREG) / S_IFREG * O_DIRECT *
			   (1 ^ differs(magic, TMPFS_MAGIC)));
#ifdef OFF_btrfs_inode_root
		if (magic == BTRFS_SUPER_MAGIC)
			to->ino ^= subvolume_of(inode);
#endif
	}
#ifdef FILTER_DEVICE
	if (kind == S_IFBLK)
		READ(rdev, FIELD(inode, inode_i_rdev));
	if (other_device(sb, to->dev, rdev))
		return 0;
#endif
	to->is_opaque = to->is_at_end = 0;
	if (op == OP_READ) {
		to->is_opaque = is_opaque;
		/* A device's node has no size. */
		if (from != ANYWHERE && kind == S_IFREG) {
			size = PEEK(u64, inode, INODE, inode_i_size);
			to->is_at_end = from >= size;
		}
		if (flags & O_DIRECT)
			op = OP_READ_DIRECT;
	}
	if (op == OP_WRITE) {
		if (is_sync)
			op = OP_WRITE_SYNC;
		else if (flags & O_DIRECT)
			op = OP_WRITE_DIRECT;
	}
	to->name = PEEK(u32, dentry, DENTRY, dentry_d_name_hash);
	to->op = op;
	return 1;
}

/* Keep the file's name for user space, which removes it from the map. */
static inline void note_path(const struct target *of)
{
	const char *dentry = NULL, *inode = NULL;
	u64 ino = 0;
	u32 name = 0;

	if (!of->file)
		return;
	READ(dentry, of->file + OFF_file_f_path_dentry);
	/* Another thread may have closed the file: is it still the same one? */
	READ(inode, FIELD(dentry, dentry_d_inode));
	READ(ino, FIELD(inode, inode_i_ino));
	READ(name, FIELD(dentry, dentry_d_name_hash));
	if ((ino ^ of->ino) << (64 - SUBVOLUME_SHIFT) == 0 && name == of->name)
		keep_path(of->ino, of->dev, name, dentry);
}
