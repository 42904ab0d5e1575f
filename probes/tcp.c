/*
 * TCP connections that end: their last counters, which no dump shows.
 *
 * Counted  user space reads every open connection from sock_diag once per tick.
 *          The rest, after a connection's last dump, or everything if it
 *          opened and closed between two dumps, is read here when it leaves
 *          the kernel's table: inet_sock_set_state with the new state CLOSE.
 *          This is before tcp_destroy_sock, which waits until the program
 *          closes its descriptor and is never called for a socket that
 *          connect(AF_UNSPEC) empties and reuses.
 * Exact    payload bytes.  The kernel counts a received FIN as one byte of
 *          bytes_received; it is subtracted (SOCK_DONE: FIN received).
 * Kernels  raw tracepoint inet_sock_set_state, 5.10 and later.
 * Cost     a program per change of state (about six per connection), which
 *          returns immediately unless the new state is CLOSE; then about 15
 *          reads and one map entry.  0.5 µs per connection, measured on 6.18.
 *          Nothing per segment.
 * Not      connections of other network namespaces; bytes acknowledged by a
 *          half-open connection (it has none), and its repeated SYN-ACKs
 *          unless it opens.  A socket that ends in SYN_RECV without a byte
 *          never was a connection: if two CPUs end one handshake at the same
 *          time, each makes a socket with the same count of repeated SYN-ACKs,
 *          and the kernel (inet_ehash_nolisten) drops one of them.  Since 6.1
 *          the kernel skips a program that interrupts itself on the same CPU,
 *          and since 7.0 one that was preempted there: such a connection
 *          counts up to its last dump, and in lost[no_close].  To make this
 *          rare, 7.0 has several copies of the program (COPIES in ioh.h).
 */
/* Runs in task context and from softirqs, on one CPU. */
#define IOH_ATOMIC
#include "ioh.h"

#define STATE_ESTABLISHED 1
#define STATE_SYN_SENT 2
#define STATE_SYN_RECV 3
#define STATE_CLOSE 7
#define STATE_LISTEN 10
#define PROTOCOL_TCP 6
#define FAMILY_IPV4 2
#define FAMILY_IPV6 10

/* A socket closes only once, but its memory is reused soon. */
BPF_HASH(closed, struct ending, struct connection, MAX_CLOSED);

/* Connections without an entry: opened, with --port, and ended without any bytes. */
BPF_PERCPU_ARRAY(lives, struct lives, 1);

/* Whether this is a TCP connection (not a listener) of our network namespace. */
static inline bool is_ours(const char *sk)
{
	const char *net = NULL;
	u16 protocol = 0;
	u32 inum = 0;

	READ(protocol, FIELD(sk, sock_sk_protocol));
	if (protocol != PROTOCOL_TCP)
		return false;
	READ(net, FIELD(sk, sock_common_skc_net));
	READ(inum, FIELD(net, net_ns_inum));
	return inum == NETNS_INUM;
}

static inline void read_addresses(const char *sk, struct connection *c)
{
	u16 family = 0;

	READ(family, FIELD(sk, sock_common_skc_family));
	c->family = family;
	/* Not skc_num: it is already 0 if the kernel chose the port. */
	READ(c->ends.local_port, FIELD(sk, inet_sock_inet_sport));
	READ(c->ends.remote_port, FIELD(sk, sock_common_skc_dport));
	if (family == FAMILY_IPV4) {
		bpf_probe_read_kernel(c->ends.local, 4, FIELD(sk, sock_common_skc_rcv_saddr));
		bpf_probe_read_kernel(c->ends.remote, 4, FIELD(sk, sock_common_skc_daddr));
	}
#ifdef OFF_sock_common_skc_v6_daddr
	if (family == FAMILY_IPV6) {
		READ(c->ends.local, FIELD(sk, sock_common_skc_v6_rcv_saddr));
		READ(c->ends.remote, FIELD(sk, sock_common_skc_v6_daddr));
	}
#endif
}

static inline void read_counters(const char *sk, struct connection *c)
{
	unsigned long flags = 0;

	/* 0 until somebody, usually ioh's own dump, asks sock_diag for this socket. */
	READ(c->cookie, FIELD(sk, sock_common_skc_cookie));
	READ(c->bytes_received, FIELD(sk, tcp_sock_bytes_received));
	READ(c->bytes_sent, FIELD(sk, tcp_sock_bytes_sent));
	READ(c->bytes_retrans, FIELD(sk, tcp_sock_bytes_retrans));
	READ(c->total_retrans, FIELD(sk, tcp_sock_total_retrans));
	READ(c->data_segs_in, FIELD(sk, tcp_sock_data_segs_in));
	READ(c->data_segs_out, FIELD(sk, tcp_sock_data_segs_out));
	READ(c->srtt_us, FIELD(sk, tcp_sock_srtt_us));
	c->srtt_us >>= 3;
	READ(flags, FIELD(sk, sock_common_skc_flags));
	if ((flags >> SOCK_DONE & 1) && c->bytes_received)
		c->bytes_received--;
}

#ifdef COPIES
/* Always different at the socket's next change: sequence numbers start at random. */
static inline u64 change_of(const char *sk, u32 state)
{
	u32 written = 0, received = 0;

	READ(written, FIELD(sk, tcp_sock_write_seq));
	READ(received, FIELD(sk, tcp_sock_rcv_nxt));
	return (u64)written << 32 | (received & ~15U) | (state & 15);
}
#endif

#ifdef PORT
#define IS_PORT_KNOWN 1
#else
#define IS_PORT_KNOWN 0 /* the kernel counts opened ones, but of all ports */
#endif

/* inet_sock_set_state(const struct sock *sk, int oldstate, int newstate) */
int on_inet_sock_set_state(struct bpf_raw_tracepoint_args *ctx)
{
	const char *sk = (const char *)ctx->args[0];
	int before = ctx->args[1], after = ctx->args[2], is_opened, zero = 0;
	struct connection c = {};
	struct ending key = {};
	struct lives *sum;

	if (!is_first(AT_CLOSE, (u64)sk, change_of(sk, ctx->args[2])))
		return 0;
	is_opened = IS_PORT_KNOWN && after == STATE_ESTABLISHED;
	if ((after != STATE_CLOSE && !is_opened) || before == STATE_LISTEN ||
	    before == STATE_CLOSE || !is_ours(sk))
		return 0;
	read_addresses(sk, &c);
#ifdef PORT
	const u16 port = PORT;

	if (c.ends.local_port != port && c.ends.remote_port != port)
		return 0;
#endif
	sum = lives.lookup(&zero);
	if (is_opened) {
		if (sum)
			__sync_fetch_and_add(&sum->opened, 1);
		return 0;
	}
	read_counters(sk, &c);
	if (!c.cookie && !c.bytes_received && !c.bytes_sent &&
	    (!c.total_retrans || before == STATE_SYN_RECV)) {
		if (sum && before != STATE_SYN_SENT && before != STATE_SYN_RECV)
			__sync_fetch_and_add(&sum->ended, 1);
		return 0;
	}
	key.sock = (u64)sk;
	key.ns = bpf_ktime_get_ns();
	if (closed.update(&key, &c))
		count_lost(LOST_MAP_FULL);
	return 0;
}
