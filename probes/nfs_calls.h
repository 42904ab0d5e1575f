/*
 * A sample of calls with the time of each, if requested: client and server choose the same calls by
 * their XIDs, so user space can subtract one end's time from the other's.
 * Part of nfs_client.c and nfs_server.c.
 */
#define AF_INET 2

/* struct sockaddr_in: family, port, address; sockaddr_in6: the same, flow label first */
static inline void read_address(u16 *family, u16 *port, u8 *address, const char *from)
{
	READ(*family, from);
	READ(*port, from + 2);
	if (*family == AF_INET)
		bpf_probe_read_kernel(address, 4, from + 4);
	else
		bpf_probe_read_kernel(address, 16, from + 8);
}

#ifdef SAMPLED_CALLS
#define GOLDEN 0x9e3779b1U /* 2^32 / golden ratio: its multiples are evenly distributed */

/* Each level keeps half as many as the one before; user space sets it by their number. */
BPF_ARRAY(sample_level, u32, 1);
/* In ns; 0 if an XID came twice.  User space empties it; calls are left out while it is full. */
BPF_TABLE("hash", struct sampled_key, u64, sampled, SAMPLED_CALLS);

static inline void sample_call(const char *xid, const char *address, u32 op, u64 ns)
{
	struct sampled_key key = {.op = op};
	u32 zero = 0, *level = sample_level.lookup(&zero);
	u64 *before;
	u8 wire[4];

	READ(wire, xid); /* the other end's byte order may differ */
	key.xid = (u32)wire[0] << 24 | wire[1] << 16 | wire[2] << 8 | wire[3];
	if (!level || (u64)(key.xid * GOLDEN) >> (32 - (*level & 31)))
		return;
	read_address(&key.family, &key.port, key.address, address);
	before = sampled.lookup(&key);
	if (before)
		*before = 0;
	else
		sampled.update(&key, &ns);
}
#endif
