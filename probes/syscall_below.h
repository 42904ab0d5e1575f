/*
 * What calls and requests became below, from their begin to their end.  Part of
 * syscall.c.
 */
/*
 * direct: how many of the calls were O_DIRECT.  They are no cache, even where the bio left the
 * caller's context because a control group's limit delayed it.
 */
static inline void charge_reads(struct charges *sum, u32 calls_made, u32 direct,
				const struct lower *low)
{
	/* Requests of a batch cannot be told apart: each bio is taken for one of them. */
	u32 fetched = low->bios > direct ? low->bios : direct;

	sum->read_calls += calls_made;
	if (fetched < calls_made)
		sum->read_cached += calls_made - fetched;
	sum->read_lower_ops += low->requests ? low->requests : fetched;
	sum->read_lower_bytes += low->bytes;
}

static inline void charge_writes(struct charges *sum, u64 calls_made, const struct lower *low)
{
	sum->write_calls += calls_made;
	sum->write_lower_ops += low->requests ? low->requests : low->bios;
	sum->write_lower_bytes += low->bytes;
}

#ifdef OFF_task_struct_ioac_read_bytes
#define READ_ACCOUNT() FOLLOW(u64, CURRENT, task_struct_ioac_read_bytes)
#else
#define READ_ACCOUNT() 0
#endif

/*
 * A read whose bios somebody else hands on (a control group's limit delays them, dm-crypt's
 * workers decrypt them) is in the thread's own account all the same: submit_bio() keeps it.
 * Which ones of a batch these are is not known: as many as the bytes are enough for.
 */
static inline void add_handed_on(const struct call *c, u32 calls_made, struct lower *low)
{
	u64 bytes = READ_ACCOUNT() - c->read_account, enough = calls_made;

	if (bytes <= low->bytes)
		return;
	low->bytes = bytes;
	if (c->largest)
		enough = (bytes + c->largest - 1) / c->largest;
	if (enough > calls_made)
		enough = calls_made;
	if (low->bios < enough)
		low->bios = enough;
}

/* Requests that begin at the end of their file: no cache has anything for them, nor has a disk. */
static inline void charge_ends(struct charges *sum, const struct call *c, const struct lower *low)
{
	if (!c->at_end)
		return;
	if (!c->batch[0] && low->bios)
		charge_reads(sum, c->at_end, 0, low);
	else
		sum->read_at_end += c->at_end;
}

static inline void settle_batch(struct charges *sum, const struct call *c)
{
	struct lower reads = c->lower[0];

	if (c->batch[0]) {
		add_handed_on(c, c->batch[0], &reads);
		charge_reads(sum, c->batch[0], c->direct, &reads);
	}
	charge_ends(sum, c, &reads);
	if (c->batch[1])
		charge_writes(sum, c->batch[1], &c->lower[1]);
}

/* What a call became below, once it has ended; for a batch each direction apart. */
static inline void settle(const struct call *c, u32 op, s64 result)
{
	struct lower both = {};
	struct charges *sum;
	u32 zero = 0;

	sum = charges.lookup(&zero);
	if (!sum)
		return;
	if (op == CALL_SUBMIT) {
		if (!c->batch[0] && !c->batch[1] && !c->at_end)
			return; /* none of its requests is asked for: they go to another device */
		settle_batch(sum, c);
	} else if (!c->target.is_opaque) {
		both.bios = c->lower[0].bios + c->lower[1].bios;
		both.requests = c->lower[0].requests + c->lower[1].requests;
		both.bytes = c->lower[0].bytes + c->lower[1].bytes;
		if (op <= OP_READ_DIRECT)
			add_handed_on(c, 1, &both);
		if (op > OP_READ_DIRECT)
			charge_writes(sum, 1, &both);
		else if (result || both.bios)
			charge_reads(sum, 1, op == OP_READ_DIRECT && result, &both);
		else /* The end of the file: no cache had anything for it. */
			sum->read_at_end += 1;
	}
	sum->lower_requests += c->lower[0].requests + c->lower[1].requests;
	sum->lower_splits += c->splits;
}

static inline void forget_lower(struct call *c)
{
	__builtin_memset(c->lower, 0, sizeof(c->lower));
	c->batch[0] = c->batch[1] = c->direct = c->at_end = 0;
	c->linked = c->splits = c->largest = 0;
	c->read_account = READ_ACCOUNT();
}

/* now: when the call entered, so that what the probe itself takes until here is not hidden. */
static inline void begin(struct target *to, u64 pid_tgid, u64 now)
{
	u32 tid = pid_tgid;
	struct call *c = open_call(tid);

	if (!c)
		return;
	c->target = *to;
	forget_lower(c);
	if (to->op < OPS)
		note_started(to->op);
	c->start_ns = now;
}
