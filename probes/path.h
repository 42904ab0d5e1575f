/*
 * A file's name, kept for user space, which takes it out of the map: each part from
 * the file up to the root of its file system's tree.
 */
#define PATH_BYTES 1024
#define PATH_PARTS 16
#define NAME_BYTES 256

/* An inode number is used again once its file is deleted: name is its name's hash, or 0. */
struct file_key {
	u64 ino;
	u32 dev;
	u32 name;
};

/* Names from the file up to its mount's root, each ended by a NUL. */
struct file_path {
	u32 length;
	u32 complete;
	char names[PATH_BYTES + NAME_BYTES];
};

BPF_HASH(paths, struct file_key, struct file_path, 4096);
/* By thread, not by CPU: since 7.0 a probe can be preempted by another one on its CPU. */
BPF_HASH(drafts, u64, struct file_path, 128);
BPF_PERCPU_ARRAY(blank_path, struct file_path, 1);

static inline void keep_path(u64 ino, u32 dev, u32 name_hash, const char *dentry)
{
	struct file_key key = {.ino = ino, .dev = dev, .name = name_hash};
	const char *parent = NULL, *name = NULL;
	u64 who = bpf_get_current_pid_tgid();
	u32 zero = 0, at = 0;
	struct file_path *p;
	long n;
	int i;

	if (paths.lookup(&key))
		return;
	p = blank_path.lookup(&zero);
	/* Refused: user space asks for this name once more. */
	if (!p || drafts.insert(&who, p))
		return;
	p = drafts.lookup(&who);
	if (!p)
		return;
	for (i = 0; i < PATH_PARTS; i++) {
		READ(parent, FIELD(dentry, dentry_d_parent));
		if (parent == dentry || !parent) {
#ifdef OFF_dentry_d_sb
			/* A file known by its handle alone hangs below no directory. */
			const char *sb = NULL, *root = NULL;

			READ(sb, FIELD(dentry, dentry_d_sb));
			READ(root, FIELD(sb, super_block_s_root));
			if (root != dentry)
				break;
#endif
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
	p->length = at;
	paths.update(&key, p);
	drafts.delete(&who);
}
