"""Metadata of the NFS layers: which procedure counts as what, by process, client and mount."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from socket import htons

import pytest

from ioh.bpf.totals import COUNT, ERRORS, LATENCY_NS, QUEUE_NS, QUEUED, STARTED
from ioh.layers import nfs_client, nfs_server
from ioh.layers.flows import FLOW_KEY
from ioh.layers.nfs_client import NfsClient
from ioh.layers.nfs_mounts import proc_ops
from ioh.layers.nfs_procedures import METADATA, METADATA_NAMES, PROCEDURE_KEY
from ioh.layers.nfs_server import _FLOW_KEY, NfsServer
from ioh.layers.part_totals import OTHER_PARTS, PART_OP
from ioh.model.derive import derive
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample, OpTotals
from ioh.model.snapshot import LayerSnapshot
from ioh.procfs.diskstats import make_dev
from ioh.procfs.mountstats import NO_CALLS, NfsMount
from ioh.procfs.nfsd import V3, V4
from tests.unit.fake_kernel import CPUS, counted, install
from tests.unit.probe_text import text_of
from tests.unit.test_layer_read import in_a_sample

# The client's own names, of no procedure or operation of the protocol.
CLIENT_ONLY = {"OPEN_NOATTR", "GETACL", "SETACL", "STATFS", "ZERO_RANGE"}
MOUNTSTATS = """device srv:/home mounted on /home with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,proto=tcp
\tage:\t3600
\tbytes:\t0 0 0 0 0 0 0 0
\tGETATTR: {calls} {calls} 0 0 0 5 20 {ms} 0
\tLOOKUP: {calls} {calls} 0 0 0 0 9 10 {calls}
\tEXCHANGE_ID: {calls} {calls} 0 0 0 0 9 10 0

"""


def test_every_name_is_one_of_the_protocol_or_the_clients() -> None:
    assert set(METADATA_NAMES) - {*V3.split(), *V4.split()} == CLIENT_ONLY
    assert len(METADATA_NAMES) == len(set(METADATA_NAMES))
    assert not {"READ", "READ_PLUS", "WRITE", "COMMIT", "COPY", "CLONE"} & set(METADATA_NAMES)
    assert [V3.split().index(name) for name in ("READ", "COMMIT")] == [6, 21]
    assert [V4.split().index(name) for name in ("READ", "READ_PLUS", "REMOVEXATTR")] == [25, 68, 75]


def test_metadata_of_a_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("40 26 0:53 / /home rw - nfs4 srv:/home rw\n")
    maps, held, _ = install(monkeypatch, text_of("nfs_client").maps())
    words = {STARTED: 9, COUNT: 7, ERRORS: 2, LATENCY_NS: 700, QUEUE_NS: 70, QUEUED: 7}
    at = nfs_client.SPEC.ops.index
    held["totals"].entries[PART_OP.pack(make_dev(0, 53), at("lookup"))] = counted(words)
    held["totals"].entries[PART_OP.pack(OTHER_PARTS, at("create"))] = counted(words)
    flow = struct.pack("=QQQ16s", 14, 0, 1400, b"ls") + bytes(40 * (CPUS - 1))
    held["flows"].entries[FLOW_KEY.pack(0, 0, 4711, at("getattr"), 0)] = flow
    layer = NfsClient(Filters(), tmp_path)
    sample = layer.read(maps)
    told = held["metadata_ops"].entries
    assert told[PROCEDURE_KEY.pack(3, b"RMDIR")] == struct.pack("=I", at("remove"))
    assert told[PROCEDURE_KEY.pack(4, b"OPEN_NOATTR")] == struct.pack("=I", at("open"))
    assert PROCEDURE_KEY.pack(3, b"READ") not in told
    ops = sample.ops
    lookup = ops["lookup"]
    assert (lookup.count_total, lookup.errors_total, lookup.queue_ns_total) == (7, 2, 70)
    # Only the ends of these calls are seen.
    assert {ops[op].inflight for op in METADATA} == {ops[op].started_total for op in METADATA}
    assert lookup.inflight is None
    assert ops["read"].inflight == 0
    assert {name: set(parts) for name, parts in sample.parts.items()} == {
        "srv:/home on /home": {"lookup"},
        "(others)": {"create"},
    }
    (row,) = sample.tables["process"].items()
    assert row == (("4711", "ls"), (0, 0, 0, 0, 0, 0, 0, 0, 14, 1400))
    assert sample.tables["file"] == {}


def test_metadata_of_a_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    maps, held, _ = install(monkeypatch, text_of("nfs_server").maps())
    at = nfs_server.SPEC.ops.index
    held["totals"].entries[PART_OP.pack(OTHER_PARTS, at("access"))] = counted(
        {STARTED: 3, COUNT: 3}
    )
    key = _FLOW_KEY.pack(
        0, 0, at("getattr"), 2, htons(713), 0, bytes([10, 0, 0, 7]).ljust(16, b"\0")
    )
    held["flows"].entries[key] = struct.pack("=QQQ16s", 3, 0, 30, b"") + bytes(40 * (CPUS - 1))
    sample = NfsServer(Filters(), tmp_path).read(maps)
    told = held["metadata_ops"].entries
    assert told[PROCEDURE_KEY.pack(4, b"OP_LOCKU")] == struct.pack("=I", at("lock"))
    assert told[PROCEDURE_KEY.pack(3, b"LOOKUP")] == struct.pack("=I", at("lookup"))
    assert (sample.ops["access"].count_total, sample.ops["access"].inflight) == (3, None)
    assert sample.tables["client"] == {("10.0.0.7:713",): (0, 0, 0, 0, 0, 0, 0, 0, 3, 30)}
    assert sample.tables["file"] == sample.tables["export"] == {}


def test_metadata_from_mountstats(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("40 26 0:53 / /home rw - nfs4 srv:/home rw\n")
    layer, at = NfsClient(Filters(), tmp_path), tmp_path / "proc/self/mountstats"
    at.write_text(MOUNTSTATS.format(calls=2, ms=30))
    older = layer.read_proc()
    at.write_text(MOUNTSTATS.format(calls=5, ms=90))
    newer = layer.read_proc()
    pair = in_a_sample(0, layer, older), in_a_sample(1, layer, newer)
    found = derive(*pair).layers["nfs_client"]
    assert isinstance(found, LayerSnapshot)
    assert found.ops["getattr"].count == 3
    assert found.ops["getattr"].latency_us == 20_000
    # Whether a failed one is only the answer that there is no such file is not known.
    assert (found.ops["lookup"].count, found.ops["lookup"].errors_per_s) == (3, None)
    assert (found.ops["rename"].count, found.ops["meta"].count) == (0, 6)
    assert found.ops["meta"].p99_us is None
    (row,) = found.tables["mount"]
    assert (row.values["metas_per_s"], row.values["meta_latency_us"]) == (6, 10_000)
    assert found.metrics["rpc_metas_per_s"] == 6


def test_a_failed_metadata_call_is_in_the_mean_of_all() -> None:
    """Nine of ten LOOKUPs that find nothing take as long as the tenth."""
    stats = NO_CALLS._replace(calls=10, errors=9, execute_ms=50)
    lookup = proc_ops(replace(NfsMount("", ""), procedures={"LOOKUP": stats}))["lookup"]
    assert (lookup.count_total, lookup.latency_ns_total) == (10, 50_000_000)


def test_metadata_that_nfsd_counted(tmp_path: Path) -> None:
    (tmp_path / "proc/net/rpc").mkdir(parents=True)
    v3, v4 = ([10 * n for n in range(len(names.split()))] for names in (V3, V4))
    lines = (
        f"proc3 {len(v3)} {' '.join(map(str, v3))}",
        f"proc4ops {len(v4)} {' '.join(map(str, v4))}",
    )
    (tmp_path / "proc/net/rpc/nfsd").write_text("\n".join(lines))
    sample = NfsServer(Filters(), tmp_path).read_proc()
    assert isinstance(sample, LayerSample)
    assert sample.ops["access"] == OpTotals(40 + 30, 0)
    assert sample.ops["remove"] == OpTotals(120 + 130 + 280, 0)
    assert sample.ops["read"].count_total == 60 + 250 + 680
