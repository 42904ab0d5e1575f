/*
 * Shared by nfs_client.c and nfs_server.c: totals of one op by file system, files by
 * user, and procedures by name.
 */
#define NFS_PROGRAM 100003
#define STABLE_HOWS 3

BPF_TABLE("percpu_hash", struct proc_key, struct procedure, procedures, 512);
/* The op of each metadata procedure: ioh fills it (ioh/layers/nfs_procedures.py). */
BPF_HASH(metadata_ops, struct proc_key, u32, 512);
/* Flows of all metadata have this op, and no file. */
#define OP_METADATA OP_GETATTR

/* Whether a call failed, and was not only answered, such as by ENOENT.  From 128: NFS's own. */
static inline int is_trouble(u32 status)
{
	u64 bits = status < 64 ? TROUBLE_LOW : TROUBLE_HIGH;

	return status >= 128 || bits >> (status & 63) & 1;
}

static inline void add_procedure(struct proc_key *key, const struct procedure *one)
{
	struct procedure *sum = procedures.lookup(key), fresh = {};

	if (!sum) {
		procedures.insert(key, &fresh);
		sum = procedures.lookup(key);
	}
	if (!sum) {
		count_lost(LOST_MAP_FULL);
		return;
	}
	ADD(sum->calls, one->calls);
	ADD(sum->errors, one->errors);
	ADD(sum->queue_ns, one->queue_ns);
	ADD(sum->rtt_ns, one->rtt_ns);
	ADD(sum->execute_ns, one->execute_ns);
	ADD(sum->retransmits, one->retransmits);
	ADD(sum->timeouts, one->timeouts);
}

static inline u32 device_of(const char *inode)
{
	const char *sb = NULL;
	u32 dev = 0;

	READ(sb, FIELD(inode, inode_i_sb));
	READ(dev, FIELD(sb, super_block_s_dev));
	return dev;
}

/* A file's name: of several names the one looked up last; NULL if unknown. */
static inline const char *alias_of(const char *inode)
{
	const char *alias = NULL;

	READ(alias, FIELD(inode, inode_i_dentry_first));
	return alias ? alias - OFF_dentry_alias : NULL;
}

static inline u32 name_hash_of(const char *dentry)
{
	u32 hash = 0;

	if (dentry)
		READ(hash, FIELD(dentry, dentry_d_name_hash));
	return hash;
}
