/*
 * Follows the kernel's pointers: with a load if the kernel allows it, else with a helper call.  A
 * BTF-typed probe (-DTRUSTED) may follow its tracepoint's arguments, the current task and what they
 * point to; with -DCASTS also any address whose type the probe states.
 */

/* bcc turns dereferences of context values into helper calls; this hides them. */
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
 * The kernel's bpf_rdonly_cast(): the loader replaces CASTS, which is not a helper's number, with
 * its number, and the verifier turns the call into a plain move.  A wrong address reads as 0, as
 * with a helper.
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
