"""Columns of tables, as text, that the NFS client and the NFS server share."""

from __future__ import annotations

BY_BYTES = "read_bytes_per_s, write_bytes_per_s"

FLOW = """
reads_total       | r/s  | READs.
read_bytes_total  | rB/s | Bytes read.
read_ns_total     |      | Time of all READs.
read_latency_us = 1e-3 * read_ns_total / reads_total | r µs | Mean time of a READ.
writes_total      | w/s  | WRITEs.
write_bytes_total | wB/s | Bytes written.
write_ns_total    |      | Time of all WRITEs.
write_latency_us = 1e-3 * write_ns_total / writes_total | w µs | Mean time of a WRITE.
commits_total     | c/s  | COMMITs.
commit_ns_total   |      | Time of all COMMITs.
commit_latency_us = 1e-3 * commit_ns_total / commits_total | c µs |
    Mean time of a COMMIT.
"""
