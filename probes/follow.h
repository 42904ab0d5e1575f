/*
 * Following the kernel's pointers: by a load where it lets a program, else by a helper's call for
 * each.  A probe that is loaded BTF-typed (-DTRUSTED) gets its tracepoint's arguments and the
 * current task as pointers that may be followed, and what these point to; with -DCASTS every
 * address may be, too, once the probe has said what lies there.
 */

/* bcc turns dereferences of what comes from a context into helper calls; it cannot see this. */
static inline const char *hidden(u64 argument)
{
	const char *pointer;

	asm volatile("%0 = %1" : "=r"(pointer) : "r"(argument));
	return pointer;
}

#ifdef TRUSTED
#define FOLLOW(type, pointer, member) (*(type *)FIELD(pointer, member))
#define CURRENT ((const char *)bpf_get_current_task_btf())
#define PID_TGID(current)                                                                          \
	((u64)FOLLOW(u32, current, task_struct_tgid) << 32 | FOLLOW(u32, current, task_struct_pid))
#else
#define FOLLOW(type, pointer, member)                                                              \
	({                                                                                         \
		type followed = 0;                                                                 \
		READ(followed, FIELD(pointer, member));                                            \
		followed;                                                                          \
	})
#define CURRENT ((const char *)bpf_get_current_task())
#define PID_TGID(current) bpf_get_current_pid_tgid()
#endif

#ifdef CASTS
/*
 * The kernel's bpf_rdonly_cast(): the loader puts its number in the place of CASTS, which is no
 * helper's, and the verifier makes a plain move of the call.  What lies at a wrong address reads
 * as 0, as it does by a helper.
 */
static const char *(*cast)(const char *address, u64 type) = (void *)CASTS;

#define PEEK(type, pointer, kind, member) FOLLOW(type, cast(pointer, TYPE_##kind), member)
#else
#define PEEK(type, pointer, kind, member)                                                          \
	({                                                                                         \
		type peeked = 0;                                                                   \
		READ(peeked, FIELD(pointer, member));                                              \
		peeked;                                                                            \
	})
#endif
