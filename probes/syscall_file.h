/*
 * Which file an operation works on, and of which class it is; the file's name,
 * once.  Part of syscall.c.
 */
#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_SYNC 1 /* inode->i_flags */
#define RWF_SYNC_BITS 6 /* RWF_DSYNC | RWF_SYNC */

enum { LOST_MAP_FULL, LOST_AIO_UNSEEN, LOST_URING_UNSEEN };

/* Op numbers of ioh/layers/syscall.py. */
enum { OP_READ, OP_READ_DIRECT, OP_WRITE, OP_WRITE_DIRECT, OP_WRITE_SYNC, OP_FSYNC, OP_COPY };

/* The file an operation works on. */
struct target {
	u64 file;
	u64 ino;
	u32 dev;
	u32 op;
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
static inline int is_pseudo(const char *sb)
{
	u64 magic = 0;

	READ(magic, FIELD(sb, super_block_s_magic));
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

#ifdef FILTER_DEVICE
static inline int other_device(const char *sb, u32 dev, u32 rdev)
{
	const char *bdev = NULL, *disk = NULL;
	int number[2] = {};

	if (dev == FILTER_DEVICE || rdev == FILTER_DEVICE)
		return 0;
	/* btrfs: no superblock of its names a device; 0 is none, since nobody has that number. */
	if (dev && (dev == FILTER_SUPER_1 || dev == FILTER_SUPER_2 || dev == FILTER_SUPER_3))
		return 0;
	READ(bdev, FIELD(sb, super_block_s_bdev));
	if (!bdev)
		return 1;
	READ(disk, FIELD(bdev, block_device_bd_disk));
	READ(number, FIELD(disk, gendisk_major));
	return ((u32)number[0] << 20 | (u32)number[1]) != FILTER_DEVICE;
}
#endif

/*
 * Fill in which file this is and which class of op; 0 when it is none of ours.
 * op is OP_READ, OP_WRITE, OP_FSYNC or OP_COPY, call_flags an RWF_ mask.
 */
static inline int aim(struct target *to, const char *file, u32 op, u32 call_flags)
{
	struct inode_part inode = {};
	struct file_part part = {};
	const char *sb;
	u32 flags, rdev = 0;
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
	READ(to->dev, FIELD(sb, super_block_s_dev));
	if (to->dev >> 20 == 0 && is_pseudo(sb))
		return 0;
#ifdef FILTER_DEVICE
	if (kind == S_IFBLK)
		READ(rdev, FIELD(PART(const char *, part, FILE_BASE, file_f_inode), inode_i_rdev));
	if (other_device(sb, to->dev, rdev))
		return 0;
#endif
	flags = PART(u32, part, FILE_BASE, file_f_flags);
	if (op == OP_READ && flags & O_DIRECT)
		op = OP_READ_DIRECT;
	if (op == OP_WRITE) {
		if (flags & O_DSYNC || call_flags & RWF_SYNC_BITS ||
		    PART(u32, inode, INODE_BASE, inode_i_flags) & S_SYNC)
			op = OP_WRITE_SYNC;
		else if (flags & O_DIRECT)
			op = OP_WRITE_DIRECT;
	}
	to->ino = PART(u64, inode, INODE_BASE, inode_i_ino);
	to->file = (u64)file;
	to->op = op;
	return 1;
}

/* Keep the file's name for user space, which takes it out of the map. */
static inline void note_path(const struct target *of)
{
	const char *dentry = NULL, *inode = NULL;
	u64 ino = 0;

	if (!of->file)
		return;
	READ(dentry, of->file + OFF_file_f_path_dentry);
	/* The file may have been closed by another thread since: is it still the same one? */
	READ(inode, FIELD(dentry, dentry_d_inode));
	READ(ino, FIELD(inode, inode_i_ino));
	if (ino == of->ino)
		keep_path(of->ino, of->dev, dentry);
}
