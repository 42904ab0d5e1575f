/*
 * Which file an operation works on, and of which class it is; the file's name,
 * once.  Part of syscall.c.
 */
#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_SYNC 1 /* inode->i_flags */
#define SB_SYNCHRONOUS 16 /* super_block->s_flags: mounted with sync, or noac of NFS */
#define RWF_SYNC_BITS 6 /* RWF_DSYNC | RWF_SYNC */

enum { LOST_MAP_FULL, LOST_AIO_UNSEEN, LOST_URING_UNSEEN };

/* Op numbers of ioh/layers/syscall.py. */
enum { OP_READ, OP_READ_DIRECT, OP_WRITE, OP_WRITE_DIRECT, OP_WRITE_SYNC, OP_FSYNC, OP_COPY };

/* The file an operation works on; of btrfs ino has the subvolume in it, too. */
struct target {
	u64 file;
	u64 ino;
	u32 dev;
	u16 op;
	u16 is_opaque; /* a read of which nobody sees what it becomes */
	u32 name; /* hash of what it is called in its folder; another one: another file or name */
	u32 is_at_end; /* a read that begins where its file ends, or behind */
};

/* bcc turns dereferences of what comes from a context into helper calls; it cannot see this. */
static inline const char *hidden(u64 argument)
{
	const char *pointer;

	asm volatile("%0 = %1" : "=r"(pointer) : "r"(argument));
	return pointer;
}

#ifdef TRUSTED
/* BTF-typed programs may follow the kernel's pointers; a load costs no helper call. */
#define FOLLOW(type, pointer, member) (*(type *)FIELD(pointer, member))
#define CURRENT ((const char *)bpf_get_current_task_btf())
#else
#define FOLLOW(type, pointer, member)                                                              \
	({                                                                                         \
		type followed = 0;                                                                 \
		READ(followed, FIELD(pointer, member));                                            \
		followed;                                                                          \
	})
#define CURRENT ((const char *)bpf_get_current_task())
#endif

static inline const char *file_of(u32 fd)
{
	const char *files, *fdt, *array, *file = NULL;

	files = FOLLOW(const char *, CURRENT, task_struct_files);
	if (!files)
		return NULL;
	fdt = FOLLOW(const char *, files, files_struct_fdt);
	if (!fdt || fd >= FOLLOW(u32, fdt, fdtable_max_fds))
		return NULL;
	array = FOLLOW(const char *, fdt, fdtable_fd);
	READ(file, array + fd * sizeof(void *));
	return file;
}

/* The members that every call needs, read together: a helper call costs more than the bytes. */
struct file_part {
	char raw[FILE_SPAN];
};

struct inode_part {
	char raw[INODE_SPAN];
};

struct super_part {
	char raw[SUPER_SPAN];
};

#define PART(type, part, base, member) (*(type *)((part).raw + OFF_##member - (base)))

static inline u64 same(u64 a, u64 b)
{
	return 1 ^ above(a ^ b, 0);
}

/*
 * Pseudo file systems have regular files too, but no I/O worth the name.  One
 * sum instead of a switch: aim() stands in a loop, where each branch is a path
 * for the verifier.
 */
static inline int is_pseudo(u64 magic)
{
	return same(magic, 0x9fa0) /* proc */
	       + same(magic, 0x62656572) /* sysfs */
	       + same(magic, 0x63677270) /* cgroup2 */
	       + same(magic, 0x27e0eb) /* cgroup */
	       + same(magic, 0x64626720) /* debugfs */
	       + same(magic, 0x74726163) /* tracefs */
	       + same(magic, 0x73636673) /* securityfs */
	       + same(magic, 0xcafe4a11) /* bpf */
	       + same(magic, 0x6e667364) /* nfsd */
	       + same(magic, 0x67596969) /* rpc_pipefs */
	       + same(magic, 0x42494e4d) /* binfmt_misc */
	       + same(magic, 0x62656570) /* configfs */
	       + same(magic, 0x65735543) /* fusectl */
	       + same(magic, 0xf97cff8c) /* selinuxfs */
	       + same(magic, 0x5a3c69f0) /* apparmorfs */
	       + same(magic, 0xde5e81e4) /* efivarfs */
	       + same(magic, 0x6165676c) /* pstore */
	       + same(magic, 0x07655821) /* resctrl */
	       + same(magic, 0x09041934) /* anon_inode: regular files since 6.16 */;
}

#define FUSE_SUPER_MAGIC 0x65735546 /* fuseblk, too, which has a block device */
#define BTRFS_SUPER_MAGIC 0x9123683e

/*
 * Whether reads of a file system without a block device of its own become what can be charged to
 * them: nothing in memory, else bios or NFS READs in the caller's context.  FUSE, CIFS, Ceph, 9p,
 * ZFS … have them answered by somebody else.
 */
static inline int is_followed(u64 magic)
{
	return same(magic, 0x01021994) /* tmpfs */
	       + same(magic, 0x858458f6) /* ramfs */
	       + same(magic, 0x958458f6) /* hugetlbfs */
	       + same(magic, BTRFS_SUPER_MAGIC) + same(magic, 0xca451a4e) /* bcachefs */
	       + same(magic, 0x6969) /* nfs */
	       + same(magic, 0x794c7630) /* overlay */
	       + same(magic, 0xf15f) /* ecryptfs */;
}

#define SUBVOLUME_SHIFT 40

#ifdef OFF_btrfs_inode_root
/*
 * Subvolumes share s_dev and number their files each from 257 on, a snapshot as what it was made
 * of.
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
 * The disk that is asked for, or something that lies on it: a volume, an array, a btrfs, whose
 * superblock names no disk, or a partition.  A sum for the same reason as above.
 */
static inline int is_on_disk(u32 dev)
{
	return same(dev, FILTER_DEVICE) + same(dev, FILTER_ABOVE_1) + same(dev, FILTER_ABOVE_2) +
	       same(dev, FILTER_ABOVE_3) + same(dev, FILTER_ABOVE_4) + same(dev, FILTER_ABOVE_5) +
	       same(dev, FILTER_ABOVE_6) + same(dev, FILTER_ABOVE_7) + same(dev, FILTER_ABOVE_8) +
	       same(dev, FILTER_ABOVE_9) + same(dev, FILTER_ABOVE_10) + same(dev, FILTER_ABOVE_11) +
	       same(dev, FILTER_ABOVE_12) + same(dev, FILTER_ABOVE_13) +
	       same(dev, FILTER_ABOVE_14) + same(dev, FILTER_ABOVE_15) + same(dev, FILTER_ABOVE_16);
}

/* dev is that of the file's superblock; of a block device's node rdev is its own, else 0. */
static inline int other_device(const char *sb, u32 dev, u32 rdev)
{
	const char *bdev = NULL, *disk = NULL;
	int number[2] = {};

	if (is_on_disk(rdev ? rdev : dev))
		return 0;
	if (rdev)
		return 1;
	READ(bdev, FIELD(sb, super_block_s_bdev));
	if (!bdev)
		return 1;
	/* A partition that was made, or a volume's, after ioh had looked. */
	READ(disk, FIELD(bdev, block_device_bd_disk));
	READ(number, FIELD(disk, gendisk_major));
	return !is_on_disk((u32)number[0] << 20 | (u32)number[1]);
}
#endif

#define ANYWHERE (~1ULL)

/*
 * Fill in which file this is and which class of op; 0 when it is none of ours.
 * op is OP_READ, OP_WRITE, OP_FSYNC or OP_COPY, call_flags an RWF_ mask; from is where in the file
 * an asynchronous read begins, ANYWHERE of others.
 */
static inline int aim(struct target *to, const char *file, u32 op, u32 call_flags, u64 from)
{
	struct inode_part inode = {};
	struct file_part part = {};
	struct super_part super = {};
	const char *sb, *dentry;
	u32 flags, rdev = 0;
	u64 magic, is_opaque, subvolume = 0, size = 0;
	u16 kind;

	if (!file)
		return 0;
	READ(part, file + FILE_BASE);
	READ(inode, PART(const char *, part, FILE_BASE, file_f_inode) + INODE_BASE);
	kind = PART(u16, inode, INODE_BASE, inode_i_mode) & S_IFMT;
	/* Databases make what they did to a directory last by an fsync of it. */
	if (kind != S_IFREG && kind != S_IFBLK && (kind != S_IFDIR || op != OP_FSYNC))
		return 0;
	sb = PART(const char *, inode, INODE_BASE, inode_i_sb);
	READ(super, sb + SUPER_BASE);
	to->dev = PART(u32, super, SUPER_BASE, super_block_s_dev);
	magic = PART(u64, super, SUPER_BASE, super_block_s_magic);
	is_opaque = same(magic, FUSE_SUPER_MAGIC);
	if (to->dev >> 20 == 0) {
		if (is_pseudo(magic))
			return 0;
		is_opaque = 1 ^ is_followed(magic);
#ifdef OFF_btrfs_inode_root
		if (magic == BTRFS_SUPER_MAGIC)
			subvolume = subvolume_of(PART(const char *, part, FILE_BASE, file_f_inode));
#endif
	}
#ifdef FILTER_DEVICE
	if (kind == S_IFBLK)
		READ(rdev, FIELD(PART(const char *, part, FILE_BASE, file_f_inode), inode_i_rdev));
	if (other_device(sb, to->dev, rdev))
		return 0;
#endif
	flags = PART(u32, part, FILE_BASE, file_f_flags);
	to->is_opaque = to->is_at_end = 0;
	if (op == OP_READ) {
		to->is_opaque = is_opaque;
		/* A device's node has no size. */
		if (from != ANYWHERE && kind == S_IFREG) {
			READ(size, FIELD(PART(const char *, part, FILE_BASE, file_f_inode),
					 inode_i_size));
			to->is_at_end = from >= size;
		}
		if (flags & O_DIRECT)
			op = OP_READ_DIRECT;
	}
	if (op == OP_WRITE) {
		/* The inode's and the mount's part are what IS_SYNC() asks; dirsync is neither. */
		if (flags & O_DSYNC || call_flags & RWF_SYNC_BITS ||
		    PART(u32, inode, INODE_BASE, inode_i_flags) & S_SYNC ||
		    PART(u32, super, SUPER_BASE, super_block_s_flags) & SB_SYNCHRONOUS)
			op = OP_WRITE_SYNC;
		else if (flags & O_DIRECT)
			op = OP_WRITE_DIRECT;
	}
	to->ino = PART(u64, inode, INODE_BASE, inode_i_ino) ^ subvolume;
	dentry = PART(const char *, part, FILE_BASE, file_f_path_dentry);
	READ(to->name, FIELD(dentry, dentry_d_name_hash));
	to->file = (u64)file;
	to->op = op;
	return 1;
}

/* Keep the file's name for user space, which takes it out of the map. */
static inline void note_path(const struct target *of)
{
	const char *dentry = NULL, *inode = NULL;
	u64 ino = 0;
	u32 name = 0;

	if (!of->file)
		return;
	READ(dentry, of->file + OFF_file_f_path_dentry);
	/* The file may have been closed by another thread since: is it still the same one? */
	READ(inode, FIELD(dentry, dentry_d_inode));
	READ(ino, FIELD(inode, inode_i_ino));
	READ(name, FIELD(dentry, dentry_d_name_hash));
	if ((ino ^ of->ino) << (64 - SUBVOLUME_SHIFT) == 0 && name == of->name)
		keep_path(of->ino, of->dev, name, dentry);
}
