"""Attaches a program that does nothing to sys_enter and sys_exit, until SIGINT."""

from __future__ import annotations

import os
import signal
from pathlib import Path

SOURCE = """
int on_enter(void *ctx) { return 0; }
int on_exit(void *ctx) { return 0; }
"""


def main() -> None:
    os.environ["BCC_KERNEL_SOURCE"] = str(Path(__file__).resolve().parents[2] / "probes")
    import bcc

    bpf = bcc.BPF(text=SOURCE)
    bpf.attach_raw_tracepoint("sys_enter", "on_enter")
    bpf.attach_raw_tracepoint("sys_exit", "on_exit")
    print("attached", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
