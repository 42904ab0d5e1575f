"""Calls on NFS files that leave as several READs or WRITEs because of rsize or wsize."""

from __future__ import annotations

import shlex

from ioh.findings.format_sentence import duration, per_s, size, times
from ioh.findings.nfs import MountRow, mounts
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.split_ratio import how
from ioh.findings.sums import sum_op
from ioh.findings.window import Stretch, metric_of
from ioh.model.finding import Evidence

SPAN_S = 10.0
_DIRECT = 0.9


@Rule(
    title="Fragmentation",
    layer="nfs_client",
    watches="How many READs and WRITEs the calls on each NFS mount become, and whether rsize or "
    "wsize has just that size.",
    sources="Calls by mount from the probe, READs and WRITEs and rsize, wsize from "
    "/proc/self/mountstats, the server's limit from /proc/fs/nfsd/max_block_size where it is "
    "this machine.",
    blind="Several mounts at one mount point; which sizes were requested at mount time.",
    false_alarm="Read-ahead and write-back merge small calls, so only calls larger than the "
    "limit are evaluated, by mean size.",
    wrong_if="READs and WRITEs (kB/op) are as large as the calls",
    check="nfsiostat 1 5",
    thresholds=(
        Threshold("ratio_min", 2.0, "fewer than two calls to the server cost little"),
        Threshold("piece_max_bytes", 262144, "from 256 KB on the payload outweighs the call"),
        Threshold("bytes_off_max_pct", 20.0, "otherwise the two layers moved different data"),
        Threshold("pieces_min_per_s", 5, "synchronous calls are slow because they are split"),
    ),
    needs=("nfs_client",),
    probed=("syscall",),
    span_s=SPAN_S,
    recent_s=10.0,
    may_be_short=True,
)
def nfs_fragmentation(recent: Stretch, limits: Limits) -> Verdicts:
    """Each mount and direction."""
    seconds = recent.seconds
    for op in ("read", "write"):
        for mount in mounts(recent, op):
            pieces = mount.pieces
            if pieces.pieces / seconds < limits["pieces_min_per_s"]:
                continue
            if pieces.per_call < limits["ratio_min"]:
                continue
            if pieces.piece_size > limits["piece_max_bytes"]:
                continue
            limit = mount.settings.get(f"{op[0]}size_bytes")
            off = limits["bytes_off_max_pct"] / 100
            if limit and pieces.is_cut_at(limit) and pieces.conserves(off, whole_calls=1):
                yield _verdict(recent, mount, op, limit)


def _verdict(recent: Stretch, mount: MountRow, op: str, limit: float) -> Verdict:
    pieces, setting, rpc = mount.pieces, f"{op[0]}size", op.upper()
    kinds = ("direct", "sync") if op == "write" else ("direct",)
    own = sum(sum_op(recent, "syscall", f"{op}_{kind}").bytes for kind in kinds)
    everything = sum_op(recent, "syscall", op).bytes
    is_own = bool(everything) and own >= _DIRECT * everything
    order = how(pieces) if is_own else ""
    measured = f", {order}" if order else ""
    if not is_own and op == "write":
        measured = "; buffered, so this is inferred from rates: the client sends them later"
    server_max = metric_of(recent[-1], "nfs_server", "max_block_bytes")
    offers = f" This server offers {size(server_max)}." if server_max else ""
    seconds, place = recent.seconds, shlex.quote(mount.point)
    return Verdict(
        subject=f"{op}s {mount.point}",
        confidence="high" if is_own else "medium",
        cause=f"{op.capitalize()}s of {size(pieces.call_size)} become {times(pieces.in_a_call)} "
        f"{rpc}s of {size(pieces.piece_size)}{measured}. {setting}={limit:.0f} on {mount.export}.",
        evidence=(
            Evidence(
                f"{per_s(pieces.calls / seconds)} {op} calls a second became "
                f"{per_s(pieces.pieces / seconds)} {rpc}s: {times(pieces.per_call)} a call",
                f"{op}s_per_s",
                pieces.per_call,
                source="probe of calls by mount; /proc/self/mountstats",
            ),
            Evidence(
                f"{setting} = {size(limit)}",
                f"{setting}_bytes",
                pieces.piece_size,
                limit,
                "/proc/self/mountstats",
            ),
            Evidence(
                f"a call takes {duration(pieces.above_us or 0)}, a {rpc} "
                f"{duration(pieces.below_us or 0)}",
                "latency_us",
                pieces.above_us,
            ),
        ),
        advice=f"Change {setting} to 1048576 in fstab, or wherever it is mounted from, then umount "
        "and mount: a remount does not change it. The server may offer less (its "
        f"/proc/fs/nfsd/max_block_size).{offers}",
        # Not a mount command: of the options that it has, a recording knows but a few.
        command=f"findmnt -o SOURCE,OPTIONS {place}   # keep these, with {setting}=1048576",
    )
