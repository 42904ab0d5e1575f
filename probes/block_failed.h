/*
 * Requests that have failed in part and are not over.  Part of block.c.
 */
BPF_HASH(failed_parts, u64, u64, 1024);
BPF_ARRAY(has_failed_parts, u32, 1); /* whether there ever was one: then each end looks */

/* Forget a request's failed parts; 1 if there were any. */
static inline int had_failed_part(u64 key)
{
	u32 zero = 0, *known = has_failed_parts.lookup(&zero);

	return known && *known && !failed_parts.delete(&key);
}

static inline void note_failed_part(u64 key)
{
	u32 zero = 0, *known = has_failed_parts.lookup(&zero);

	if (known)
		*known = 1;
	if (failed_parts.update(&key, &key))
		count_lost(LOST_MAP_FULL);
}
