/*
 * A file's name, for user space, which removes it from the map: each part from the
 * file up to the root of its file system.
 */

BPF_HASH(paths, struct file_key, struct file_path, 4096);
/* By thread, not by CPU: since 7.0 another probe can preempt this one on its CPU. */
BPF_HASH(drafts, u64, struct file_path, 128);
BPF_PERCPU_ARRAY(blank_path, struct file_path, 1);

#ifdef HAS_MOUNT_ROOTS
#define NFS_SUPER_MAGIC 0x6969
#define MOUNTS 128 /* of one file system; each round is work for the verifier */

/* By mount id, what a mount shows: mountinfo lacks the folder of an NFS server. */
BPF_HASH(mount_roots, u32, u64, 4096);

static inline void note_mounts(const char *sb)
{
	const char *at = NULL, *mount;
	u64 root = 0;
	u32 id = 0;
	int i;

	READ(at, FIELD(sb, super_block_s_mounts));
	for (i = 0; i < MOUNTS; i++) {
#ifdef OFF_mount_mnt_next_for_sb
		mount = at;
		if (!mount)
			return;
		READ(at, FIELD(mount, mount_mnt_next_for_sb));
#else
		/* Until 6.17 a list with its head in the superblock. */
		mount = at - OFF_mount_mnt_instance;
		if (!at || at == FIELD(sb, super_block_s_mounts))
			return;
		READ(at, at);
#endif
		READ(id, FIELD(mount, mount_mnt_id));
		READ(root, FIELD(mount, mount_mnt_mnt_root));
		mount_roots.update(&id, &root);
	}
}

/* Whether it is on NFS; if so, note its mounts. */
static inline int is_on_nfs(const char *dentry)
{
	const char *sb = NULL;
	u64 magic = 0;

	READ(sb, FIELD(dentry, dentry_d_sb));
	READ(magic, FIELD(sb, super_block_s_magic));
	if (magic != NFS_SUPER_MAGIC)
		return 0;
	note_mounts(sb);
	return 1;
}
/* A memory file is in no folder: its dentry is its own root and has its name. */
static inline void keep_own_name(struct file_path *p, const char *dentry)
{
	const char *parent = NULL, *sb = NULL, *root = NULL, *name = NULL;
	long n;

	READ(parent, FIELD(dentry, dentry_d_parent));
	READ(sb, FIELD(dentry, dentry_d_sb));
	READ(root, FIELD(sb, super_block_s_root));
	if (parent != dentry || root == dentry)
		return;
	READ(name, FIELD(dentry, dentry_d_name_name));
	n = bpf_probe_read_kernel_str(p->names, NAME_BYTES, name);
	if (n <= 0)
		return;
	p->length = n;
	p->complete = 2;
}
#else
#define is_on_nfs(dentry) 0
#define keep_own_name(p, dentry)
#endif

static inline void keep_path(u64 ino, u32 dev, u32 name_hash, const char *dentry)
{
	struct file_key key = {.ino = ino, .dev = dev, .name = name_hash};
	const char *parent = NULL, *name = NULL;
	u64 who = bpf_get_current_pid_tgid();
	u32 zero = 0, at = 0;
	struct file_path *p;
	long n;
	int i, on_nfs;

	if (paths.lookup(&key))
		return;
	p = blank_path.lookup(&zero);
	/* Refused: user space requests this name again. */
	if (!p || drafts.insert(&who, p))
		return;
	p = drafts.lookup(&who);
	if (!p)
		return;
	on_nfs = is_on_nfs(dentry);
	if (!on_nfs)
		keep_own_name(p, dentry);
	for (i = 0; i < PATH_PARTS; i++) {
#ifdef HAS_MOUNT_ROOTS
		if (on_nfs)
			p->dentries[i] = (u64)dentry;
#endif
		READ(parent, FIELD(dentry, dentry_d_parent));
		if (parent == dentry || !parent) {
#ifdef KNOWS_HANDLES
			/* A file known only by its handle is in no directory. */
			const char *sb = NULL, *root = NULL;

			READ(sb, FIELD(dentry, dentry_d_sb));
			READ(root, FIELD(sb, super_block_s_root));
			if (root != dentry)
				break;
#endif
			if (!p->complete)
				p->complete = 1;
			break;
		}
		READ(name, FIELD(dentry, dentry_d_name_name));
		if (at >= PATH_BYTES)
			break;
		n = bpf_probe_read_kernel_str(p->names + at, NAME_BYTES, name);
		if (n <= 0)
			break;
		at += n & (NAME_BYTES * 2 - 1);
		dentry = parent;
	}
	if (p->complete < 2)
		p->length = at;
	paths.update(&key, p);
	drafts.delete(&who);
}
