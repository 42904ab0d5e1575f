/*
 * Which client used which file, and each file's name once.  Part of nfs_server.c.
 */
BPF_PERCPU_ARRAY(unlisted, u64, 1);
BPF_TABLE("percpu_hash", struct flow_key, struct flow, flows, FLOWS);

static inline void note_flow(const struct nfsd_call *call, const char *inode, u32 dev, u32 op,
			     u64 bytes, u64 ns)
{
	struct flow_key key = {.dev = dev, .op = op, .family = call->family, .port = call->port};
	struct flow *f, fresh = {.count = 1, .bytes = bytes, .ns = ns};
	const char *dentry = alias_of(inode);
	u32 zero = 0;
	u64 *full;

	READ(key.ino, FIELD(inode, inode_i_ino));
	key.name = name_hash_of(dentry);
	__builtin_memcpy(key.address, call->address, sizeof(key.address));
	f = flows.lookup(&key);
	if (f) {
		ADD(f->count, 1);
		ADD(f->bytes, bytes);
		ADD(f->ns, ns);
		return;
	}
	if (flows.update(&key, &fresh)) {
		full = unlisted.lookup(&zero);
		if (full)
			ADD(*full, 1);
		return;
	}
	if (dentry)
		keep_path(key.ino, dev, key.name, dentry);
}

/* Which client made so many metadata calls. */
static inline void note_metadata(const struct nfsd_call *call, u64 ns)
{
	struct flow_key key = {.op = OP_METADATA, .family = call->family, .port = call->port};
	struct flow *f, fresh = {.count = 1, .ns = ns};
	u32 zero = 0;
	u64 *full;

	__builtin_memcpy(key.address, call->address, sizeof(key.address));
	f = flows.lookup(&key);
	if (f) {
		ADD(f->count, 1);
		ADD(f->ns, ns);
	} else if (flows.update(&key, &fresh)) {
		full = unlisted.lookup(&zero);
		if (full)
			ADD(*full, 1);
	}
}
