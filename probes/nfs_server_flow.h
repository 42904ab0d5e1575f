/*
 * Which client used which file, and the file's name, once.  Part of nfs_server.c.
 */
#define AF_INET 2

struct flow_key {
	u64 ino;
	u32 dev;
	u32 op;
	u16 family;
	u16 port;
	u32 name;
	u8 address[16];
};

BPF_PERCPU_ARRAY(unlisted, u64, 1);
BPF_TABLE("percpu_hash", struct flow_key, struct flow, flows, FLOWS);

static inline void name_client(struct flow_key *key, const char *rqst)
{
	const char *address = FIELD(rqst, svc_rqst_rq_addr);

	/* struct sockaddr_in: family, port, address; sockaddr_in6: the same, flow label first */
	READ(key->family, address);
	READ(key->port, address + 2);
	if (key->family == AF_INET)
		bpf_probe_read_kernel(key->address, 4, address + 4);
	else
		READ(key->address, address + 8);
}

static inline void note_flow(const char *rqst, const char *inode, u32 dev, u32 op, u64 bytes,
			     u64 ns)
{
	struct flow_key key = {.dev = dev, .op = op};
	struct flow *f, fresh = {.count = 1, .bytes = bytes, .ns = ns};
	const char *dentry = alias_of(inode);
	u32 zero = 0;
	u64 *full;

	READ(key.ino, FIELD(inode, inode_i_ino));
	key.name = name_hash_of(dentry);
	name_client(&key, rqst);
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
