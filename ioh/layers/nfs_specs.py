"""Columns and metrics that the NFS client's and the NFS server's tables share."""

from __future__ import annotations

from ioh.model.metric import MetricSpec, TableSpec, counter, mean_us

BY_BYTES = ("read_bytes_per_s", "write_bytes_per_s")


FLOW: tuple[MetricSpec, ...] = (
    counter("reads_total", "READs.", "r/s"),
    counter("read_bytes_total", "Bytes read.", "rB/s"),
    counter("read_ns_total", "Time of all READs.", ""),
    mean_us("read_latency_us", "read_ns_total", "reads_total", "Mean time of a READ.", "r µs"),
    counter("writes_total", "WRITEs.", "w/s"),
    counter("write_bytes_total", "Bytes written.", "wB/s"),
    counter("write_ns_total", "Time of all WRITEs.", ""),
    mean_us("write_latency_us", "write_ns_total", "writes_total", "Mean time of a WRITE.", "w µs"),
    counter("commits_total", "COMMITs.", "c/s"),
    counter("commit_ns_total", "Time of all COMMITs.", ""),
    mean_us(
        "commit_latency_us", "commit_ns_total", "commits_total", "Mean time of a COMMIT.", "c µs"
    ),
)

# In the order of struct procedure in probes/nfs.h.
PROCEDURE_COUNTERS: tuple[MetricSpec, ...] = (
    counter("calls_total", "Calls, each attempt counted.", "calls/s"),
    counter("errors_total", "Calls that failed; ENOENT is normal for LOOKUP.", "err/s"),
    counter("queue_ns_total", "Time spent waiting to be sent.", ""),
    counter("rtt_ns_total", "Time from sending to the reply.", ""),
    counter("execute_ns_total", "Time of whole calls.", ""),
    counter("retransmits_total", "Requests sent again.", "retrans/s"),
    counter("timeouts_total", "Times that the client gave up waiting for a reply.", "timeo/s"),
)

CLIENT_PROCEDURES = TableSpec(
    "procedure",
    "procedures",
    ("version", "procedure"),
    (
        *PROCEDURE_COUNTERS,
        mean_us(
            "queue_us", "queue_ns_total", "calls_total", "Mean wait before sending.", "queue µs"
        ),
        mean_us("rtt_us", "rtt_ns_total", "calls_total", "Mean time to the reply.", "rtt µs"),
        mean_us("execute_us", "execute_ns_total", "calls_total", "Mean time in all.", "exe µs"),
    ),
    ("calls_per_s",),
)

SERVER_PROCEDURES = TableSpec(
    "procedure",
    "procedures",
    ("version", "procedure"),
    (
        *(PROCEDURE_COUNTERS[at] for at in (0, 1, 4)),
        mean_us(
            "execute_us", "execute_ns_total", "calls_total", "Mean time to serve one.", "exe µs"
        ),
    ),
    ("calls_per_s",),
)
