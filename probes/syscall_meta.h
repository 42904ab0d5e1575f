/*
 * Calls on names and attributes of files, locks, and close: the kinds of metadata.  Part of
 * syscall.c.
 *
 * Each is a sum by process and file system, not by file: a walk through a directory would fill the
 * map.  The file system is that of the descriptor, of the opened file, or, for a path that does not
 * begin with '/', of the folder that it begins in.  For other paths it is unknown: dev is 0.
 */
#define OPENS                                                                                      \
	case SYS_open:                                                                             \
	case SYS_creat:                                                                            \
	case SYS_openat:                                                                           \
	case SYS_openat2:                                                                          \
	case SYS_open_by_handle_at
#define STATS                                                                                      \
	case SYS_stat:                                                                             \
	case SYS_lstat:                                                                            \
	case SYS_fstat:                                                                            \
	case SYS_newfstatat:                                                                       \
	case SYS_statx:                                                                            \
	case SYS_access:                                                                           \
	case SYS_faccessat:                                                                        \
	case SYS_faccessat2:                                                                       \
	case SYS_readlink:                                                                         \
	case SYS_readlinkat:                                                                       \
	case SYS_statfs:                                                                           \
	case SYS_fstatfs:                                                                          \
	case SYS_getxattr:                                                                         \
	case SYS_lgetxattr:                                                                        \
	case SYS_fgetxattr:                                                                        \
	case SYS_getxattrat:                                                                       \
	case SYS_listxattr:                                                                        \
	case SYS_llistxattr:                                                                       \
	case SYS_flistxattr:                                                                       \
	case SYS_listxattrat:                                                                      \
	case SYS_file_getattr
#define READDIRS                                                                                   \
	case SYS_getdents:                                                                         \
	case SYS_getdents64
#define UNLINKS                                                                                    \
	case SYS_unlink:                                                                           \
	case SYS_unlinkat:                                                                         \
	case SYS_rmdir
#define RENAMES                                                                                    \
	case SYS_rename:                                                                           \
	case SYS_renameat:                                                                         \
	case SYS_renameat2:                                                                        \
	case SYS_link:                                                                             \
	case SYS_linkat:                                                                           \
	case SYS_symlink:                                                                          \
	case SYS_symlinkat:                                                                        \
	case SYS_mkdir:                                                                            \
	case SYS_mkdirat:                                                                          \
	case SYS_mknod:                                                                            \
	case SYS_mknodat
#define SETATTRS                                                                                   \
	case SYS_chmod:                                                                            \
	case SYS_fchmod:                                                                           \
	case SYS_fchmodat:                                                                         \
	case SYS_fchmodat2:                                                                        \
	case SYS_chown:                                                                            \
	case SYS_fchown:                                                                           \
	case SYS_lchown:                                                                           \
	case SYS_fchownat:                                                                         \
	case SYS_truncate:                                                                         \
	case SYS_ftruncate:                                                                        \
	case SYS_fallocate:                                                                        \
	case SYS_utime:                                                                            \
	case SYS_utimes:                                                                           \
	case SYS_futimesat:                                                                        \
	case SYS_utimensat:                                                                        \
	case SYS_setxattr:                                                                         \
	case SYS_lsetxattr:                                                                        \
	case SYS_fsetxattr:                                                                        \
	case SYS_setxattrat:                                                                       \
	case SYS_removexattr:                                                                      \
	case SYS_lremovexattr:                                                                     \
	case SYS_fremovexattr:                                                                     \
	case SYS_removexattrat:                                                                    \
	case SYS_file_setattr
#define META_CALLS                                                                                 \
	OPENS:                                                                                     \
	STATS:                                                                                     \
	READDIRS:                                                                                  \
	UNLINKS:                                                                                   \
	RENAMES:                                                                                   \
	SETATTRS:                                                                                  \
	case SYS_flock:                                                                            \
	case SYS_fcntl:                                                                            \
	case SYS_close

/* Where the file is: by a descriptor, or a path; all others by a path from a folder. */
#define BY_DESCRIPTOR                                                                              \
	case SYS_fstat:                                                                            \
	case SYS_fstatfs:                                                                          \
	case SYS_fgetxattr:                                                                        \
	case SYS_flistxattr:                                                                       \
	case SYS_fchmod:                                                                           \
	case SYS_fchown:                                                                           \
	case SYS_ftruncate:                                                                        \
	case SYS_fallocate:                                                                        \
	case SYS_fsetxattr:                                                                        \
	case SYS_fremovexattr:                                                                     \
	case SYS_open_by_handle_at:                                                                \
	case SYS_getdents:                                                                         \
	case SYS_getdents64:                                                                       \
	case SYS_flock:                                                                            \
	case SYS_close
#define BY_PATH                                                                                    \
	case SYS_open:                                                                             \
	case SYS_creat:                                                                            \
	case SYS_stat:                                                                             \
	case SYS_lstat:                                                                            \
	case SYS_access:                                                                           \
	case SYS_readlink:                                                                         \
	case SYS_statfs:                                                                           \
	case SYS_getxattr:                                                                         \
	case SYS_lgetxattr:                                                                        \
	case SYS_listxattr:                                                                        \
	case SYS_llistxattr:                                                                       \
	case SYS_unlink:                                                                           \
	case SYS_rmdir:                                                                            \
	case SYS_rename:                                                                           \
	case SYS_link:                                                                             \
	case SYS_mkdir:                                                                            \
	case SYS_mknod:                                                                            \
	case SYS_chmod:                                                                            \
	case SYS_chown:                                                                            \
	case SYS_lchown:                                                                           \
	case SYS_truncate:                                                                         \
	case SYS_utime:                                                                            \
	case SYS_utimes:                                                                           \
	case SYS_setxattr:                                                                         \
	case SYS_lsetxattr:                                                                        \
	case SYS_removexattr:                                                                      \
	case SYS_lremovexattr

BPF_PROG_ARRAY(meta_step, 1);
BPF_PROG_ARRAY(meta_end_step, 1);

#define S_IFLNK 0120000
#define SB_KERNMOUNT (1 << 22) /* of pipes, sockets and memory files: no path leads there */
#define AT_FDCWD (-100)
#define F_SETLK 6
#define F_SETLKW 7
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#define FMODE_CREATED (1 << 20)
#define META_FILE 1 /* target.file of a call without its own file */

/* Fill in the file system; 0 if it is none with files of programs. */
static inline int aim_at_super(struct target *to, const char *sb, struct part *part)
{
	READ_PART(*part, SUPER, sb);
	to->dev = PART(u32, *part, SUPER, super_block_s_dev);
	if (to->dev >> 20 == 0 && (PART(u64, *part, SUPER, super_block_s_flags) & SB_KERNMOUNT ||
				   !is_real(PART(u64, *part, SUPER, super_block_s_magic))))
		return 0;
#ifdef FILTER_DEVICE
	if (other_device(sb, to->dev, 0))
		return 0;
#endif
	return 1;
}

static inline int aim_at_file(struct target *to, const char *file)
{
	const char *inode;
	struct part part;
	u32 kind;

	if (!file)
		return 0;
	READ_PART(part, FILE, file);
	inode = PART(const char *, part, FILE, file_f_inode);
	READ_PART(part, INODE, inode);
	kind = PART(u16, part, INODE, inode_i_mode) & S_IFMT;
	if (kind != S_IFREG && kind != S_IFDIR && kind != S_IFBLK && kind != S_IFLNK)
		return 0;
	return aim_at_super(to, PART(const char *, part, INODE, inode_i_sb), &part);
}

static inline int aim_at_folder(struct target *to, const char *task)
{
	struct part part;
	const char *fs = FOLLOW(const char *, task, task_struct_fs), *dentry;

	if (!fs)
		return 0;
	dentry = FOLLOW(const char *, fs, fs_struct_pwd_dentry);
	return aim_at_super(to, FOLLOW(const char *, dentry, dentry_d_sb), &part);
}

/* Whether the bytes begin with this folder, a part of its own; len: with the '/' at its start. */
#define BEGINS_WITH(bytes, name, len)                                                              \
	(((bytes) & ~(~0ULL << 8 * (len))) == (name) &&                                            \
	 (((bytes) >> 8 * (len) & 0xff) == '/' || !((bytes) >> 8 * (len) & 0xff)))
#define PROC_FOLDER 0x636f72702fULL /* "/proc" */
#define SYS_FOLDER 0x7379732fULL /* "/sys" */
#define DEV_FOLDER 0x7665642fULL /* "/dev" */
#define DEV_SHM 0x68732f7665642fULL /* "/dev/sh", of /dev/shm: seven bytes and a NUL are read */

static inline int is_pseudo_path(u64 start)
{
	if (BEGINS_WITH(start, PROC_FOLDER, 5) || BEGINS_WITH(start, SYS_FOLDER, 4))
		return 1;
	return BEGINS_WITH(start, DEV_FOLDER, 4) && start << 8 >> 8 != DEV_SHM;
}

/*
 * Fill in the file system of a path that begins with these bytes, from this folder's descriptor; 0
 * if the call does not count.  No bytes: the descriptor itself.
 */
static inline int aim_at_path(struct target *to, const char *task, int folder, u64 start)
{
	if ((start & 0xff) == '/') {
#ifdef FILTER_DEVICE
		if (to->op != OP_OPEN)
			return 0; /* nobody knows on which */
#endif
		return !is_pseudo_path(start);
	}
	if (folder == AT_FDCWD)
		return aim_at_folder(to, task);
	return aim_at_file(to, file_of(task, folder));
}

#define UNREAD 1 /* no path begins with this byte alone */

/* The first seven bytes of a path; UNREAD if its memory is not there before the call reads it. */
static inline u64 start_of(u64 path)
{
	u64 start = 0;

	if (path && bpf_probe_read_user_str(&start, sizeof(start), (void *)path) < 0)
		start = UNREAD;
	return start;
}

static inline u32 kind_of_meta(u64 call)
{
	switch (call) {
	OPENS:
		return OP_OPEN;
	STATS:
		return OP_STAT;
	READDIRS:
		return OP_READDIR;
	UNLINKS:
		return OP_UNLINK;
	RENAMES:
		return OP_RENAME;
	SETATTRS:
		return OP_SETATTR;
	case SYS_close:
		return OP_CLOSE;
	}
	return OP_LOCK;
}

/* Runs on sys_enter of these calls. */
int on_meta_step(struct bpf_raw_tracepoint_args *ctx)
{
	const char *regs = REGISTERS(ctx), *task;
	u64 pid_tgid, now = bpf_ktime_get_ns(), start = 0;
	struct target to = {.file = META_FILE, .name = META_NAME, .is_opaque = 1};
	struct arguments args = {};
	int folder = AT_FDCWD;
	u64 path = 0;
	struct call *c;

	task = CURRENT;
	pid_tgid = PID_TGID(task);
	if (is_filtered(pid_tgid >> 32) || is_compat(task))
		return 0;
	to.op = kind_of_meta(ctx->args[1]);
	read_arguments(&args, ctx, regs);
	switch (ctx->args[1]) {
	case SYS_fcntl:
		if (args.a[1] != F_SETLK && args.a[1] != F_SETLKW && args.a[1] != F_OFD_SETLK &&
		    args.a[1] != F_OFD_SETLKW)
			return 0;
		/* fall through */
	BY_DESCRIPTOR:
		folder = args.a[0];
		break;
	case SYS_symlink:
		path = args.a[1];
		break;
	case SYS_symlinkat:
		folder = args.a[1];
		path = args.a[2];
		break;
	BY_PATH:
		path = args.a[0];
		break;
	default:
		folder = args.a[0];
		path = args.a[1];
	}
	start = start_of(path);
	if (start != UNREAD && !aim_at_path(&to, task, folder, start))
		return 0;
	c = begin(&to, task, pid_tgid, now);
	if (c && start == UNREAD) {
		c->request = path;
		c->place.page = (u32)folder;
	}
	return 0;
}

/* A successful open: its file system, and whether it made the file.  0: it does not count. */
static inline int aim_opened(struct target *to, const char *file)
{
	u32 mode = 0;

	if (!file)
		return 1;
	if (!aim_at_file(to, file))
		return 0;
	READ(mode, FIELD(file, file_f_mode));
	if (mode & FMODE_CREATED) {
		withdraw(OP_OPEN);
		note_started(OP_CREATE);
		to->op = OP_CREATE;
	}
	return 1;
}

/* One has ended, now; what is trouble only counts as an error. */
static inline void finish_meta(const struct target *of, u32 tgid, u64 start_ns, u32 waited,
			       s64 result)
{
	struct flow_key key = {.dev = of->dev, .tgid = tgid, .op = of->op, .name = META_NAME};
	u32 op = of->op, zero = 0;
	struct op_totals *t = totals.lookup(&op);
	struct charges *sum;
	struct flow *f;
	u64 ns;

	if (!t)
		return;
	if (result < 0) {
		if (!is_answer(op, result)) {
			finish(of, tgid, start_ns, NULL, result);
			return;
		}
		note_failure(of, tgid, result);
	}
	if (waited)
		key.op |= META_WAITED;
	f = flows.lookup(&key);
	ns = bpf_ktime_get_ns() - start_ns;
	add_finished(t, ns, 0);
	note_flow(&key, f, 0, ns);
	if (!waited || op == OP_LOCK)
		return;
	sum = charges.lookup(&zero);
	if (sum) {
		sum->meta_waited += 1;
		sum->meta_waited_ns += ns;
	}
}

/* What the call used below, and whether it did or slept. */
static inline u32 settle_meta(const struct call *c, const char *task, s64 result)
{
	u32 zero = 0, op = c->target.op, waited;
	struct lower both = {
		.bios = c->lower[0].bios + c->lower[1].bios,
		.requests = c->lower[0].requests + c->lower[1].requests,
		.bytes = c->lower[0].bytes + c->lower[1].bytes,
	};
	u64 wait_ns = CPU_WAIT_NS(task) - c->cpu_wait_ns, index;
	struct charges *sum = charges.lookup(&zero);

	waited = both.bios || c->target.is_at_end != SLEEPS(task);
	if (!sum || !(waited || wait_ns))
		return waited;
	if (waited || (op != OP_LOCK && op != OP_CLOSE)) {
		index = op;
		asm volatile("" : "+r"(index)); /* as in bump() */
		if (index < OPS)
			sum->cpu_wait_ns[index] += wait_ns;
	}
	if (op == OP_LOCK || !waited)
		return waited;
	sum->meta_lower_ops += parts(&both);
	sum->meta_lower_bytes += both.bytes;
	if (result >= 0 || is_answer(op, result))
		sum->meta_waited_cpu_wait_ns += wait_ns;
	return waited;
}

/* Runs on sys_exit of these calls.  Locks and closes count only if they waited. */
int on_meta_end_step(struct bpf_raw_tracepoint_args *ctx)
{
	const char *task = CURRENT;
	u64 pid_tgid = PID_TGID(task);
	struct call *c = find_call(pid_tgid);
	s64 result = ctx->args[RESULT];
	u32 op, waited, counts;
	u64 start;

	if (!c)
		return 0;
	op = c->target.op;
	waited = settle_meta(c, task, result);
	counts = waited || (op != OP_LOCK && op != OP_CLOSE);
	if (c->request) {
		start = start_of(c->request);
		if (start == UNREAD)
			start = '/';
		counts = aim_at_path(&c->target, task, c->place.page, start);
	}
	if (op == OP_OPEN && result >= 0)
		counts = aim_opened(&c->target, file_of(task, result));
#ifdef FILTER_DEVICE
	if (!c->target.dev)
		counts = 0;
#endif
	if (counts)
		finish_meta(&c->target, pid_tgid >> 32, c->start_ns, waited, result);
	else
		withdraw(op);
	close_call(c, pid_tgid);
	return 0;
}
