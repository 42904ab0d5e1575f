/*
 * Which processes are measured: --pid, --comm, --cgroup.  Part of syscall.c.  With one of them, the
 * others' values are 0 for any; the verifier knows all values and drops the code that tests those.
 */
#ifdef FILTER_CGROUP
#define CGROUP_DEPTH 16

/* Whether the current process is in the requested control group, or in one below it. */
static inline int is_in_cgroup(void)
{
	const char *set = NULL, *group = NULL, *node = NULL, *parent = NULL;
	u64 id = 0, wanted = FILTER_CGROUP;
	int i;

	READ(set, FIELD(bpf_get_current_task(), task_struct_cgroups));
	READ(group, FIELD(set, css_set_dfl_cgrp));
	for (i = 0; i < CGROUP_DEPTH; i++) {
		READ(node, FIELD(group, cgroup_kn));
		READ(id, FIELD(node, kernfs_node_id));
		if (id == wanted)
			return 1;
		READ(parent, FIELD(group, cgroup_self_parent));
		if (!parent)
			return 0;
		READ(group, FIELD(parent, cgroup_subsys_state_cgroup));
	}
	return 0;
}
#endif

static inline int is_filtered(u32 tgid)
{
#ifdef FILTER_PID
	u64 pid = FILTER_PID, name = FILTER_COMM_1;

	if (pid && tgid != pid)
		return 1;
#ifdef FILTER_CGROUP
	if (FILTER_CGROUP && !is_in_cgroup())
		return 1;
#endif
	if (name) {
		const char *leader = FOLLOW(const char *, CURRENT, task_struct_group_leader);
		u64 comm[2] = {};

		/*
		 * The process' name: its threads may have other names.  As a string: until 5.17
		 * __set_task_comm() left the end of a longer name after the NUL.
		 */
		bpf_probe_read_kernel_str(comm, sizeof(comm), FIELD(leader, task_struct_comm));
		if (comm[0] != name || comm[1] != FILTER_COMM_2)
			return 1;
	}
#endif
	return 0;
}
