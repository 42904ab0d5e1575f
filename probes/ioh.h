/*
 * Shared by all probes: the totals of one op, the bucket lookup, and losses.
 *
 * The kernel only adds; user space subtracts.  What both sides need is declared in Python alone:
 * numbers of ops and losses, bucket counts and edges are -D constants, and structs that user space
 * reads are made from a Layout (ioh/bpf/layout.py); op_totals from the one in ioh/bpf/totals.py.
 */
#ifndef IOH_H
#define IOH_H

/*
 * Before 7.0, tracepoint programs run with preemption off, so plain adds to per-CPU
 * values are exact unless an interrupt runs the same program on that CPU.  A probe
 * that runs in interrupts defines IOH_ATOMIC before it includes this file.
 */
#ifdef PREEMPTED
#define IOH_ATOMIC
#endif
/* For values with several writers.  Does nothing for a constant 0: clang would make an atomic "or",
 * which kernels before 5.12 reject. */
#define ADD_SHARED(counter, n)                                                                     \
	do {                                                                                       \
		u64 n_ = (n);                                                                      \
		if (!__builtin_constant_p(n_) || n_)                                               \
			__sync_fetch_and_add(&(counter), n_);                                      \
	} while (0)
#ifdef IOH_ATOMIC
#define ADD ADD_SHARED
#else
#define ADD(counter, n) ((counter) += (n))
#endif

/*
 * The value of a filter: the loader writes it into the compiled program (ioh/bpf/values.py), so the
 * compiler must not know it.
 */
#define PATCHED(marker)                                                                            \
	({                                                                                         \
		u64 value_;                                                                        \
		asm volatile("%0 = " #marker " ll" : "=r"(value_));                                \
		value_;                                                                            \
	})

#define READ(dst, src) bpf_probe_read_kernel(&(dst), sizeof(dst), (const void *)(src))
#define FIELD(base, member) ((const char *)(base) + OFF_##member)

BPF_ARRAY(epoch, u64, 1);
BPF_PERCPU_ARRAY(lost, u64, LOST_REASONS);

static inline void count_losses(u32 reason, u64 more)
{
	u64 *n = lost.lookup(&reason);

	if (n)
		ADD_SHARED(*n, more);
}

static inline void count_lost(u32 reason)
{
	count_losses(reason, 1);
}

#ifdef COPIES
/*
 * Since 7.0 (commits a46023d5616e, f7d327654b88) a probe can be preempted, and until it
 * continues, the kernel skips its program for all other events on that CPU.  So each program is
 * loaded COPIES times on the same tracepoint: if one is busy, the next one runs.  The first
 * one that runs takes the event; the others ignore it.
 */
struct turns {
	u64 runs;
	u64 taken;
};

BPF_TABLE("lru_hash", u64, u64, takers, TAKERS);
BPF_PERCPU_ARRAY(turns, struct turns, EVENTS);

/* Take an event unless another copy has taken it: 1 if it is ours. */
static inline int take_turn(u32 event, int taken)
{
	struct turns *t = turns.lookup(&event);

	if (t) {
		__sync_fetch_and_add(&t->runs, 1);
		if (!taken)
			__sync_fetch_and_add(&t->taken, 1);
	}
	return !taken;
}

/*
 * Whether no other copy has taken this event.  subject is the event's address, or a unique one
 * inside that object; stamp always differs at the next event of this kind with the same subject.
 */
static inline int is_first(u32 event, u64 subject, u64 stamp)
{
	u64 *before = takers.lookup(&subject);

	if (before && *before == stamp)
		return take_turn(event, 1);
	if (before)
		*before = stamp;
	else if (takers.update(&subject, &stamp))
		count_lost(LOST_MAP_FULL);
	return take_turn(event, 0);
}
#else
#define take_turn(event, taken) 1
#define is_first(event, subject, stamp) 1
#endif

/* 1 if v > limit, without a branch; the barrier keeps clang from adding one. */
static inline u64 above(u64 v, u64 limit)
{
	u64 difference = limit - v;

	asm volatile("" : "+r"(difference));
	return difference >> 63;
}

/*
 * Position of the highest bit.  Branches here would double the verifier's paths
 * six times, and again for each use in a loop.
 */
static inline u32 ioh_log2(u64 v)
{
	u64 r, step;

	r = above(v, 0xffffffffULL) << 5;
	v >>= r;
	step = above(v, 0xffff) << 4;
	v >>= step;
	r |= step;
	step = above(v, 0xff) << 3;
	v >>= step;
	r |= step;
	step = above(v, 0xf) << 2;
	v >>= step;
	r |= step;
	step = above(v, 3) << 1;
	v >>= step;
	return r | step | v >> 1;
}

/* The same, faster if the result is the same as before. */
static inline u32 log2_again(u64 v, u8 *before)
{
	u32 log2 = *before & 63;

	if (v >> log2 == 1)
		return log2;
	log2 = ioh_log2(v);
	*before = log2;
	return log2;
}

/* Same arithmetic as fine_index() in ioh/model/hist.py. */
static inline u32 fine_index(u64 ns, u8 *last_log2)
{
	u64 units;
	u32 log2;

	if (ns == 0)
		return 0;
	/* A 32-bit division by 125, as compilers for CPUs do it; clang for BPF does not. */
	if (ns < 1 << 28)
		units = (ns * 16 - 1) * 0x10624dd3ULL >> 35;
	else
		units = (ns * 16 - 1) / 125;
	if (units < 16)
		return units;
	log2 = log2_again(units, last_log2);
	if (log2 >= TOP_LOG2_UNITS)
		return FINE_BUCKETS - 1;
	return ((log2 - 3) << 4) + ((units >> (log2 - 4)) & 15);
}

/* Fine buckets up to 1 µs end at index 63: 1 µs is 128 units, octave 7 ends octave row 3. */
static inline u32 table_index(u32 fine)
{
	u32 row = fine < 64 ? 0 : (fine >> 4) - 3;

	return row < LATENCY_BUCKETS ? row : LATENCY_BUCKETS - 1;
}

static inline u32 size_index(u64 bytes, u8 *last_log2)
{
	u32 log2;

	if (bytes <= 1 << SIZE_MIN_LOG2)
		return 0;
	log2 = log2_again(bytes - 1, last_log2) + 1 - SIZE_MIN_LOG2;
	return log2 < SIZE_BUCKETS ? log2 : SIZE_BUCKETS - 1;
}

/* The barrier makes clang test the same register that becomes the index. */
static inline void bump(u64 *counters, u64 index, u64 size)
{
	asm volatile("" : "+r"(index));
	if (index < size)
		ADD(counters[index], 1);
}

/* Two slots: user space reads the last tick's, and advances the epoch once per tick. */
static inline void note_slowest(struct op_totals *t, u64 now_epoch, u64 ns, u64 bytes)
{
	struct slowest *s = now_epoch & 1 ? &t->slowest[1] : &t->slowest[0];

	if (s->epoch != now_epoch) {
		s->epoch = now_epoch;
		s->ns = ns;
		s->bytes = bytes;
	} else if (ns > s->ns) {
		s->ns = ns;
		s->bytes = bytes;
	}
}

/* Add one finished operation to this CPU's totals. */
static inline void add_finished(struct op_totals *t, u64 ns, u64 bytes)
{
	u32 zero = 0, fine = fine_index(ns, &t->last_log2[0]), cell;
	u64 *now_epoch = epoch.lookup(&zero);

	ADD(t->count, 1);
	ADD(t->bytes, bytes);
	ADD(t->latency_ns, ns);
	bump(t->latency, fine, FINE_BUCKETS);
	cell = size_index(bytes, &t->last_log2[1]) * LATENCY_BUCKETS + table_index(fine);
	bump(t->size_lat, cell, SIZE_BUCKETS * LATENCY_BUCKETS);
	if (now_epoch)
		note_slowest(t, *now_epoch, ns, bytes);
}

#endif
