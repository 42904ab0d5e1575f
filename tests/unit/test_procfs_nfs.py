"""The kernel's own NFS counters: the client's mountstats, the server's /proc/net/rpc/nfsd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ioh.layers.nfs_mounts import MountCounters, is_any_mounted
from ioh.procfs.mountstats import (
    ProcedureStats,
    parse_mountstats,
    read_mountstats,
    slots_limit,
)
from ioh.procfs.nfsd import PoolStats, read_nfsd, read_pool_stats

LINUX_5_10 = Path(__file__).parents[1] / "data/proc-5.10"
DEVICE = r"device srv:/a\040b mounted on /mnt/a\040b with fstype nfs4 statvers=1.1"


def one(*lines: str) -> str:
    return "\n".join([DEVICE, *lines]) + "\n"


def test_a_real_file() -> None:
    mounts = read_mountstats(LINUX_5_10)
    assert mounts is not None
    three, four = mounts
    assert (three.export, three.mount_point) == ("10.99.1.1:/srv/export", "/mnt/nfs-1")
    assert (three.server, three.options["vers"], three.options["hard"]) == ("10.99.1.1", "3", "")
    numbers = [three.option_number(name) for name in ("rsize", "wsize", "vers", "sec")]
    assert numbers == [131072, 524288, 3, None]
    assert (three.normal_read_bytes, three.direct_read_bytes) == (4194304, 1900544)
    assert (three.server_read_bytes, three.server_write_bytes) == (6094848, 10682368)
    assert (three.transports, three.slots_used) == (1, 8)
    assert (three.sent, three.replied) == (133, 133)
    assert (four.sent, four.replied) == (62 + 56, 62 + 56)
    assert three.procedures["READ"] == ProcedureStats(61, 61, 0, 6100, 6102656, 122, 322, 511, 0)
    assert (four.options["vers"], four.transports) == ("4.2", 2)
    assert len(three.procedures) == 22


@pytest.mark.parametrize(
    "line",
    [
        "\tREAD: 1 2 3 4 5 6 7 8",
        "\tREAD: 1 2 3 4 5 6 7 8 x",
        "\tREAD 1 2",
        "\tbytes: 1 2",
        "\txprt:",
    ],
)
def test_malformed_lines_are_left_out(line: str) -> None:
    (mount,) = parse_mountstats(one(line))
    assert (mount.export, mount.mount_point, mount.server) == ("srv:/a b", "/mnt/a b", "srv")
    assert (mount.procedures, mount.server_read_bytes, mount.transports) == ({}, 0, 0)


def test_other_file_systems_are_left_out() -> None:
    read = "\tREAD: " + " ".join(map(str, range(1, 12))) + "\n"  # lines may grow
    others = (
        "device /dev/sda1 mounted on / with fstype ext4",
        "device x mounted on",
        "device srv:/ mounted at /mnt with fstype nfs",
        "no device mounted on /x with fstype nfs",
    )
    text = "".join(f"{line}\n{read}" for line in (*others, DEVICE))
    (mount,) = parse_mountstats(text)
    assert mount.procedures["READ"] == ProcedureStats(*range(1, 10))


@pytest.mark.parametrize(
    ("line", "slots", "sent", "replied"),
    [
        ("xprt: tcp 665 1 2 0 9 133 130 0 214 0 8 63 62", 8, 133, 130),
        ("xprt: udp 665 1 133 130 0 214 0 8 63 62", 8, 133, 130),
        ("xprt: local 1 2 0 9 133 130 0 214 0 8 63 62", 8, 133, 130),
        ("xprt: rdma 0 0 1 0 24 42 41 0 0 0 0 0 0 0", None, 42, 41),
        ("xprt: tcp 665 1 2 0 9 133 130 2 214 0 8 63 62", 8, 133, 132),  # 2 callers were killed
        ("xprt: tcp 665 1 2 0 9 133 130", None, None, None),
        ("xprt: tcp 665 1 2 0 9 133 x 0 214 0 y 63 62", None, None, None),
        ("xprt: new 1 2 3 4 5 6 7 8 9 10 11 12", None, None, None),
    ],
)
def test_transports(line: str, slots: int | None, sent: int | None, replied: int | None) -> None:
    (mount,) = parse_mountstats(one(f"\t{line}"))
    assert (mount.transports, mount.slots_used) == (1, slots)
    assert (mount.sent, mount.replied) == (sent, replied)


@pytest.mark.parametrize(
    ("looks", "waits_s"),
    [
        ([(5, 5), (6, 5), (6, 5), (6, 5)], [0, 0, 10, 20]),  # one request, no reply
        ([(5, 5), (6, 5), (9, 5), (9, 8)], [0, 0, 10, 0]),  # more of them, then some replies
        ([(9, 5), (9, 5), (9, 5), (9, 5)], [0, 0, 0, 0]),  # given up before ioh was started
        ([(5, 5), (6, 5), *[(6, 5)] * 17], [0, *range(0, 151, 10), 0, 0]),  # given up
        ([(5, 5), (2, 1), (3, 1), (3, 1)], [0, 0, 0, 10]),  # mounted again
    ],
)
def test_how_long_a_request_waits_without_any_reply(
    looks: list[tuple[int, int]], waits_s: list[int]
) -> None:
    now_s = iter(range(0, 1000, 10))
    counters = MountCounters(Path("/nowhere"), clock=lambda: next(now_s))
    waited = []
    for sent, replied in looks:
        line = f"\txprt: tcp 665 1 2 0 9 {sent} {replied} 0 214 0 8 63 62"
        rows = counters.update(parse_mountstats(one(line)))["mount"]
        ((*_, unanswered, silent_s),) = rows.values()
        assert unanswered == sent - replied
        waited.append(silent_s)
    assert waited == waits_s


SETTINGS = {
    "sys/module/nfs/parameters/max_session_slots": "64",
    "proc/sys/sunrpc/tcp_max_slot_table_entries": "65536",
    "proc/sys/sunrpc/rdma_slot_table_entries": "128",
}


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ("vers=4.1,proto=rdma", 64),  # one session, whatever its connections
        ("vers=4.0,proto=tcp", 2 * 65536),
        ("vers=3,proto=tcp6", 2 * 65536),
        ("vers=3,proto=rdma", 2 * 128),
        ("vers=3,proto=udp", None),  # no such setting here
        ("vers=3", None),
    ],
)
def test_the_slots_that_this_host_allows(tmp_path: Path, options: str, limit: int | None) -> None:
    for name, value in SETTINGS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value + "\n")
    line = "\txprt: tcp 665 1 2 0 9 133 133 0 214 0 8 63 62"
    (mount,) = parse_mountstats(one(f"\topts: rw,{options}", line, line))
    assert slots_limit(mount, tmp_path) == limit
    assert slots_limit(mount, Path("/nowhere")) is None


@pytest.mark.parametrize(
    ("looks", "cached", "app"),
    [
        # 100, then 200 - 100, then read ahead, then mounted again.
        (((1000, 900), (1100, 900), (1300, 1000), (1310, 2000), (5, 1)), 200, 310),
        # Half is fetched a tick before it is read; only the last 500 came from the cache alone.
        (((0, 0), (500, 1000), (1000, 1000), (1500, 1000)), 500, 1500),
    ],
)
def test_bytes_read_but_not_fetched_came_from_the_cache(
    looks: tuple[tuple[int, int], ...], cached: int, app: int
) -> None:
    counters = MountCounters(Path("/nowhere"))
    for read, fetched in looks:
        counters.update(parse_mountstats(one(f"\tbytes: {read} 0 0 0 {fetched} 0 0 0")))
    assert (counters.cached_bytes, counters.app_bytes) == (cached, app)


@pytest.mark.parametrize(
    ("counts", "mounted"),
    [
        ({"nfs": "2", "nfsv3": "0", "nfsv4": "0"}, False),
        ({"nfs": "5", "nfsv3": "1"}, True),
        ({}, False),
        ({"nfs": None}, True),  # built into the kernel
    ],
)
def test_a_mount_in_any_namespace_holds_its_versions_module(
    tmp_path: Path, counts: dict[str, str | None], mounted: bool
) -> None:
    for name, count in counts.items():
        folder = tmp_path / "sys/module" / name
        folder.mkdir(parents=True)
        if count is not None:
            (folder / "refcnt").write_text(count + "\n")
    assert is_any_mounted(tmp_path) == mounted


def test_the_servers_counters() -> None:
    stats = read_nfsd(LINUX_5_10)
    assert stats is not None
    assert (stats.threads, stats.replayed) == (8, 0)
    assert (stats.read_bytes, stats.write_bytes) == (12189696, 17170432)
    assert len(stats.v3) == 1 + 22
    assert (stats.calls("READ"), stats.calls("COMMIT")) == (61 + 46, 2 + 1)


@pytest.mark.parametrize("text", ["", "io 1\nth x\nrc\n", "proc3 22 1 2\n"])
def test_counters_that_the_server_lacks_are_unknown(tmp_path: Path, text: str) -> None:
    assert (read_nfsd(tmp_path), read_mountstats(tmp_path)) == (None, None)  # without the module
    (tmp_path / "proc/net/rpc").mkdir(parents=True)
    (tmp_path / "proc/net/rpc/nfsd").write_text(text)
    stats = read_nfsd(tmp_path)
    assert stats is not None
    assert (stats.threads, stats.replayed, stats.write_bytes) == (None, None, None)
    assert stats.calls("WRITE") is None


def test_pool_stats_are_summed_over_the_pools(tmp_path: Path) -> None:
    assert read_pool_stats(tmp_path) == PoolStats()
    (tmp_path / "proc/fs/nfsd").mkdir(parents=True)
    titles = "# pool packets-arrived sockets-enqueued threads-woken threads-timedout"
    for text, stats in (
        (f"{titles}\n0 900 800 700 0\n1 90 80 70 0\n", PoolStats(880, 770)),
        ("0 900 -1 700 0\n1 2\n", PoolStats()),
    ):
        (tmp_path / "proc/fs/nfsd/pool_stats").write_text(text)
        assert read_pool_stats(tmp_path) == stats


def test_its_own_mountstats_show_what_was_mounted_meanwhile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "mountstats"
    file.write_text("")
    fd = os.open(file, os.O_RDONLY)
    monkeypatch.setattr("ioh.procfs.mountstats.open_own", lambda: fd)
    assert read_mountstats() == []
    file.write_text(one())
    for _ in range(2):  # a layer's own Path("/") works like the module's
        assert read_mountstats() == read_mountstats(Path("/")) == parse_mountstats(one())
    os.close(fd)
    assert read_mountstats() is None
