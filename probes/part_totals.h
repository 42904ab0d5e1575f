/*
 * Totals by op and part of a layer: a file system, a database server.
 */
BPF_TABLE("percpu_hash", struct part_op, struct op_totals, totals, MAX_PART_OPS);
BPF_PERCPU_ARRAY(blank, struct op_totals, 1);

static inline struct op_totals *totals_of(u32 part, u32 op)
{
	struct part_op key = {.part = part, .op = op};
	struct op_totals *t = totals.lookup(&key);
	u32 zero = 0;

	if (t)
		return t;
	t = blank.lookup(&zero);
	if (!t)
		return NULL;
	totals.insert(&key, t);
	t = totals.lookup(&key);
	if (t)
		return t;
	/* The table is full: use the ops of OTHER_PARTS, which ioh makes at its start. */
	key.part = OTHER_PARTS;
	t = totals.lookup(&key);
	if (!t)
		count_lost(LOST_MAP_FULL);
	return t;
}
