"""Attach a program that does nothing to each raw tracepoint named, until SIGINT or SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

SOURCE = "int do_nothing(void *ctx) { return 0; }"


def main() -> None:
    os.environ["BCC_KERNEL_SOURCE"] = str(Path(__file__).resolve().parents[2] / "probes")
    import bcc

    bpf = bcc.BPF(text=SOURCE)
    for tracepoint in sys.argv[1:]:
        bpf.attach_raw_tracepoint(tracepoint, "do_nothing")
    print("attached", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
