"""An NFS server and its clients inside one machine, and what the kernel itself counted."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import sub
from pathlib import Path
from typing import Any

from ioh.procfs.mountstats import NfsMount, ProcedureStats, read_mountstats
from tests.kernel.direct import read_directly
from tests.kernel.part import part_of, remarks
from tests.kernel.rig import MIB, Ioh, about, run
from tests.kernel.talker import wait_until

EXPORT = Path("/srv/export")
DISK = "/dev/vda"
LEASE_S = 10
ATTACHED_S = 600  # under emulation on a busy machine; half a second on a real one


def shell(command: str) -> str:
    return run("sh", "-ec", command)


@contextlib.contextmanager
def watching(
    *layers: str, cycle_s: float = 0.5, options: Sequence[str] = (), within: Sequence[str] = ()
) -> Iterator[Ioh]:
    """Run `ioh json` from the first interval that the probes measured; needs mount and server."""
    with Ioh("--layers", ",".join(layers), *options, cycle_s=cycle_s, within=within) as ioh:
        wait_for_source(ioh, "bpf", *layers)
        yield ioh


def wait_for_source(ioh: Ioh, source: str | None, *layers: str) -> None:
    """Wait until all these layers have that source; None: until they are not shown."""

    def is_so() -> bool:
        ioh.wait_for_lines(len(ioh.output.lines) + 1, ATTACHED_S)
        return all(source_of(ioh, layer) == source for layer in layers)

    wait_until(is_so, ATTACHED_S, pause_s=0, why=lambda: (remarks(ioh), ioh.messages.lines))


def source_of(ioh: Ioh, layer: str) -> str | None:
    """A layer's source in the last interval; None if the layer was not shown."""
    if not ioh.output.lines:
        return None
    source: str | None = ioh.intervals[-1]["layers"].get(layer, {}).get("source")
    return source


class Server:
    """ext4 on the scratch disk, exported by the kernel's own server to three clients.

    Each client is a network namespace at the end of a pair of virtual interfaces.
    """

    def __init__(self) -> None:
        if EXPORT.is_mount():  # an earlier run of pytest in this machine has made it
            return
        run("modprobe", "-a", "ext4", "veth", "sch_netem", "nfsd")
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", DISK)
        EXPORT.mkdir(parents=True)
        run("mount", "-o", "noatime", DISK, EXPORT)
        EXPORT.chmod(0o1777)
        for number in (1, 2, 3):
            self._add_client(number)
        self._start_daemons()

    @staticmethod
    def _add_client(number: int) -> None:
        shell(
            f"""
            ip netns add cli{number}
            ip link add srv{number} type veth peer name cli netns cli{number}
            ip addr add 10.99.{number}.1/24 dev srv{number}
            ip link set srv{number} up
            ip -n cli{number} addr add 10.99.{number}.2/24 dev cli
            ip -n cli{number} link set cli up
            ip -n cli{number} link set lo up
            """
        )

    def _start_daemons(self) -> None:
        shell(
            """
            mkdir -p /var/lib/nfs/v4recovery /run/rpcbind /var/lib/nfs/nfsdcld
            mkdir -p /var/lib/nfs/rpc_pipefs /run/sendsigs.omit.d
            mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
            mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs
            rpcbind
            nfsdcld
            """
        )
        options = "rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0"
        run("exportfs", "-o", options, f"*:{EXPORT}")
        run("rpc.mountd")
        self.start()

    @staticmethod
    def start() -> None:
        run("rpc.nfsd", "--lease-time", str(LEASE_S), "--grace-time", str(LEASE_S), "8")

    @staticmethod
    @contextlib.contextmanager
    def threads(count: int) -> Iterator[None]:
        """Serve by so many threads."""
        setting = Path("/proc/fs/nfsd/threads")
        before = setting.read_text()
        setting.write_text(str(count))
        try:
            yield
        finally:
            setting.write_text(before)

    @staticmethod
    def stop() -> None:
        run("rpc.nfsd", "0")

    @staticmethod
    @contextlib.contextmanager
    def netem(where: str, *settings: str) -> Iterator[None]:
        """Make one interface lose or delay what it sends: ``srv1``, or ``cli1`` for the client."""
        within = [] if where.startswith("srv") else ["ip", "netns", "exec", where]
        device = where if not within else "cli"
        run(*within, "tc", "qdisc", "add", "dev", device, "root", "netem", *settings)
        try:
            yield
        finally:
            run(*within, "tc", "qdisc", "del", "dev", device, "root")

    @staticmethod
    def drop_caches() -> None:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")


@contextlib.contextmanager
def mounted(
    version: str,
    *options: str,
    client: int = 1,
    place: str = "/mnt/nfs",
    host_name: str | None = None,
    folder: str = "",
) -> Iterator[Path]:
    """The export, or a folder of it, as one client sees it.

    Since NFSv4.1 the server knows a client by its host name.  It takes two clients of one name for
    one machine that restarted: each takes the other's session away, at every renewal.
    """
    where = Path(f"{place}-{client}")
    where.mkdir(exist_ok=True)
    source = "/" if version.startswith("4") else str(EXPORT)
    words = [f"vers={version}", "proto=tcp", *options]
    if version == "3":
        words.append("nolock")
    # Not `ip netns exec`, which would mount in a mount namespace of its own.
    enter = ["nsenter", f"--net=/run/netns/cli{client}", "unshare", "--uts", "sh", "-ec"]
    mount = 'echo "$0" >/proc/sys/kernel/hostname; exec "$@"'
    remote = f"10.99.{client}.1:{Path(source, folder)}"
    name = host_name or f"client{client}"
    run(*enter, mount, name, "mount", "-t", "nfs", "-o", ",".join(words), remote, where)
    try:
        yield where
    finally:
        unmount(where)


def unmount(place: Path) -> None:
    for _ in range(20):
        if subprocess.run(["umount", place], check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.25)
    run("umount", "--lazy", place)


@dataclass(frozen=True)
class ClientCounts:
    """What mountstats says of one mount, or the difference of two readings."""

    read: ProcedureStats
    write: ProcedureStats
    commit: ProcedureStats
    read_bytes: int
    write_bytes: int
    transmissions: dict[str, int]  # beyond one per call, by procedure

    @property
    def sent_again(self) -> dict[str, int]:
        return {name: count for name, count in self.transmissions.items() if count}

    @property
    def ops(self) -> dict[str, ProcedureStats]:
        return {"read": self.read, "write": self.write, "commit": self.commit}

    def __sub__(self, older: ClientCounts) -> ClientCounts:
        return ClientCounts(
            minus(self.read, older.read),
            minus(self.write, older.write),
            minus(self.commit, older.commit),
            self.read_bytes - older.read_bytes,
            self.write_bytes - older.write_bytes,
            {
                name: count - older.transmissions.get(name, 0)
                for name, count in self.transmissions.items()
            },
        )


def minus(newer: ProcedureStats, older: ProcedureStats) -> ProcedureStats:
    return ProcedureStats(*map(sub, newer, older))


def mount_of(place: Path) -> NfsMount:
    (mount,) = [m for m in read_mountstats() or [] if m.mount_point == str(place)]
    return mount


def client_counts(place: Path) -> ClientCounts:
    mount = mount_of(place)
    return ClientCounts(
        mount.stats_of("READ"),
        mount.stats_of("WRITE"),
        mount.stats_of("COMMIT"),
        mount.server_read_bytes,
        mount.server_write_bytes,
        {name: s.transmissions - s.calls for name, s in mount.procedures.items()},
    )


def check_that_one_superblock_counts_once(ioh: Ioh, one: Path) -> None:
    """Read in one folder of the export, mount another folder beside it, read in both.

    The kernel gives both mounts one superblock, whose counters mountstats prints for each.
    """
    (one / "file").write_bytes(os.urandom(MIB))
    Server.drop_caches()
    version = mount_of(one).options["vers"]
    with part_of(ioh) as part:
        before = client_counts(one)
        read_directly(one / "file", 31, 8192)
        ioh.settle()
        halfway = client_counts(one)
        with mounted(version, place="/mnt/two", folder="shared-two") as two:
            assert one.stat().st_dev == two.stat().st_dev
            (two / "file").write_bytes(os.urandom(MIB))
            read_directly(one / "file", 23, 8192)
            read_directly(two / "file", 11, 8192)
            ioh.settle()
            told, told_again = (client_counts(place) for place in (one, two))
    assert told == told_again
    told, told_later = told - before, told - halfway
    assert (told.read_bytes, told_later.read_bytes) == (65 * 8192, 34 * 8192)
    assert told.write_bytes == MIB
    for op, stats in told.ops.items():
        assert part.metric("nfs_client", f"rpc_{op}s") == stats.calls, op
        failed = stats.errors or 0
        assert part.total("nfs_client", op) == stats.calls - failed, (op, failed)
    assert part.total("nfs_client", "read", "bytes") == told.read_bytes
    assert part.total("nfs_client", "write", "bytes") == told.write_bytes
    assert rows_of(part, "server")[mount_of(one).server,] == row_of(told)
    assert rows_of(part, "mount")[str(one),] == row_of(told)
    assert rows_of(part, "mount")[str(two),] == row_of(told_later)  # since it was mounted
    assert busy_parts(part) == {f"{mount_of(one).export} on {one}"}


def row_of(told: ClientCounts) -> tuple[Any, ...]:
    return told.read.calls, about(told.read_bytes), about(told.write_bytes)


def rows_of(ioh: Ioh, table: str) -> dict[tuple[str, ...], tuple[int, ...]]:
    """READs, their bytes, and bytes written of each mount or server."""
    return {
        key: tuple(row[column] for column in ("reads", "read_bytes", "write_bytes"))
        for key, row in ioh.table("nfs_client", table, table).items()
    }


def busy_parts(ioh: Ioh) -> set[str]:
    return {
        name
        for interval in ioh.intervals_of("nfs_client")
        for name, ops in interval["layers"]["nfs_client"]["parts"]["mount"].items()
        if "read" in ops and ops["read"]["count"]
    }


def assert_each_once(ioh: Ioh, told: ClientCounts, *layers: str) -> None:
    """Every operation counts once; a failed attempt, which NFSv4 repeats, does not count."""
    for layer in layers:
        assert ioh.lost(layer) == {}
        for op, stats in told.ops.items():
            assert ioh.total(layer, op) == stats.calls - (stats.errors or 0), (layer, op, stats)


@dataclass(frozen=True)
class ServerCounts:
    """The ``io`` line of /proc/net/rpc/nfsd, or the difference of two: bytes read, written."""

    read_bytes: int
    write_bytes: int

    def __sub__(self, older: ServerCounts) -> ServerCounts:
        return ServerCounts(
            self.read_bytes - older.read_bytes, self.write_bytes - older.write_bytes
        )


def server_counts() -> ServerCounts:
    for line in Path("/proc/net/rpc/nfsd").read_text().splitlines():
        words = line.split()
        if words[0] == "io":
            return ServerCounts(int(words[1]), int(words[2]))
    msg = "no io line in /proc/net/rpc/nfsd"
    raise AssertionError(msg)
