/*
 * Requests of io_uring: words of their commands, and of metadata the kind and file system.  Part of
 * syscall.c.
 */
#ifdef OFF_io_kiocb_cmd
/* Of the request's command; a copy that stays in registers. */
static inline u32 command_word(const char *request, u32 offset)
{
	u32 word = 0;

	READ(word, FIELD(request, io_kiocb_cmd) + offset);
	return word;
}
#endif

#ifdef OFF_io_open_filename
static inline u32 kind_of_meta_request(u8 opcode)
{
	switch (opcode) {
	case 18: /* OPENAT */
	case 28: /* OPENAT2 */
		return OP_OPEN;
	case 21: /* STATX */
	case 43: /* FGETXATTR */
		return OP_STAT;
	case 36: /* UNLINKAT */
		return OP_UNLINK;
	case 35: /* RENAMEAT */
	case 37: /* MKDIRAT */
	case 38: /* SYMLINKAT */
	case 39: /* LINKAT */
		return OP_RENAME;
	case 17: /* FALLOCATE */
	case 41: /* FSETXATTR */
	case 55: /* FTRUNCATE */
		return OP_SETATTR;
	}
	return 0;
}

/* Fill in the file system of such a request; 0 if it does not count. */
static inline int aim_request(struct target *to, const char *task, const char *request, u8 opcode,
			      const char *file)
{
	const char *name = NULL;
	u32 folder, path;
	u64 start = 0;

	to->file = META_FILE;
	to->name = META_NAME;
	to->is_opaque = 1;
	switch (opcode) {
	case 18:
	case 28:
		folder = OFF_io_open_dfd;
		path = OFF_io_open_filename;
		/* A registered file is in no table of descriptors. */
		to->is_at_end = command_word(request, OFF_io_open_file_slot) != 0;
		break;
	case 21:
		folder = OFF_io_statx_dfd;
		path = OFF_io_statx_filename;
		break;
	case 36:
		folder = OFF_io_unlink_dfd;
		path = OFF_io_unlink_filename;
		break;
	case 35:
		folder = OFF_io_rename_old_dfd;
		path = OFF_io_rename_oldpath;
		break;
	case 37:
		folder = OFF_io_mkdir_dfd;
		path = OFF_io_mkdir_filename;
		break;
	case 38:
		folder = OFF_io_link_new_dfd;
		path = OFF_io_link_newpath;
		break;
	case 39:
		folder = OFF_io_link_old_dfd;
		path = OFF_io_link_oldpath;
		break;
	default:
		return aim_at_file(to, file);
	}
	READ(name, FIELD(request, io_kiocb_cmd) + path);
	READ(name, FIELD(name, filename_name));
	bpf_probe_read_kernel_str(&start, sizeof(start), name);
	return aim_at_path(to, task, command_word(request, folder), start);
}

/* At the end of such a request, whether it counts. */
static inline int has_place(struct target *of, int result)
{
	if (of->op == OP_OPEN && result >= 0 && !of->is_at_end &&
	    !aim_opened(of, file_of(CURRENT, result)))
		return 0;
#ifdef FILTER_DEVICE
	return of->dev != 0;
#else
	return 1;
#endif
}
#else
#define has_place(of, result) 0
#define kind_of_meta_request(opcode) 0
#define aim_request(to, task, request, opcode, file) 0
#endif
