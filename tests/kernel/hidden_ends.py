"""Ends of connections that the kernel hides from BPF (Witness): such a run proves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from tests.kernel.witness import PROBES, Fired

PROGRAM = b"""
BPF_ARRAY(ends, u64, 1);
int on_state(struct bpf_raw_tracepoint_args *ctx)
{
	int zero = 0;
	u64 *count = ends.lookup(&zero);

	if (count && (int)ctx->args[2] == 7)
		lock_xadd(count, 1);
	return 0;
}
"""
RUNS = 8
Result = TypeVar("Result")


def nothing_hidden(run: Callable[[], Result]) -> Result:
    """What a run returns during which BPF saw the end of each connection.

    How many it did not see in each run is printed, for where they are never none.
    """
    os.environ["BCC_KERNEL_SOURCE"] = str(PROBES)
    import bcc

    made = bcc.BPF(text=PROGRAM)
    made.attach_raw_tracepoint(tp=b"inet_sock_set_state", fn_name=b"on_state")
    try:
        for _ in range(RUNS):
            fired = Fired("sock/inet_sock_set_state", "newstate == 7")
            before = made[b"ends"][0].value
            try:
                result = run()
                hidden = fired.count - (made[b"ends"][0].value - before)
            finally:
                fired.close()
            print(f"ends of connections hidden from BPF: {hidden}")
            if not hidden:
                break
        return result
    finally:
        made.cleanup()
