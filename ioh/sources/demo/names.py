"""The made-up machine: programs, files, mounts, devices, addresses, and who shares in what.

The NFS server runs on the same machine, in a network namespace of its own: so all five layers
are seen, and ``tcp`` shows the client's end of the connections alone.
"""

from __future__ import annotations

from ioh.sources.demo.counts import Share, shared

HOSTNAME = "DEMO (made-up load)"
KERNEL = "6.12.0-demo"

Key = tuple[str, ...]

WORKERS: tuple[Key, ...] = tuple((str(pid), "dbserver") for pid in range(4121, 4125))
DB_WRITER: Key = ("4110", "dbwriter")
LOG_WRITER: Key = ("4111", "logwriter")
SCANNER: Key = ("5210", "dbscan")
REPORT: Key = ("5333", "report")
SEARCH: Key = ("1980", "search")
JOURNAL: Key = ("312", "journald")
ARCHIVER: Key = ("6021", "archiver")
KWORKER: Key = ("88", "kworker/u16:2")
WRITE_BACK: Key = ("0", "(write-back)")
NFSD: tuple[Key, ...] = tuple((str(pid), "nfsd") for pid in range(801, 805))
SHARES_OF_FOUR = (0.36, 0.3, 0.2, 0.14)

SERVER = "10.0.0.5"
MOUNT_DB, MOUNT_LOG, MOUNT_ROOT = "/mnt/db", "/mnt/log", "/"
FS_DB, FS_LOG = "/export/db", "/export/log"
# As the client's layer names its parts: by what is mounted where.
PART_DB = f"{SERVER}:{FS_DB} on {MOUNT_DB}"
PART_LOG = f"{SERVER}:{FS_LOG} on {MOUNT_LOG}"
FSTYPES = {MOUNT_DB: "nfs4", MOUNT_LOG: "nfs4", MOUNT_ROOT: "ext4", FS_DB: "xfs", FS_LOG: "xfs"}
DISK_DB, DISK_LOG, DISK_ROOT = "nvme0n1", "nvme1n1", "sda"

# nconnect=2: to the server, this client is two addresses.
PORTS = (713, 871)
CLIENTS = tuple(f"10.0.0.7:{port}" for port in PORTS)
OTHER_CLIENT = "10.0.0.21:902"
CONNECTION_SHARES = (0.53, 0.47)

_DATA = tuple(f"users{number:02}.dbf" for number in range(1, 7))


def _flow(process: Key, path: str, mount: str) -> tuple[Key, ...]:
    return process, (path,), (mount, FSTYPES[mount])


# Of calls: process, file, mount.
CALLS_RANDOM = shared(
    *(
        (weight * part, _flow(process, f"{MOUNT_DB}/{name}", MOUNT_DB))
        for weight, process in zip(SHARES_OF_FOUR, WORKERS, strict=True)
        for part, name in ((0.7, _DATA[int(process[0]) % 4]), (0.3, _DATA[4]))
    )
)
CALLS_SCAN = shared(
    (0.8, _flow(SCANNER, f"{MOUNT_DB}/orders.dbf", MOUNT_DB)),
    (0.2, _flow(SCANNER, f"{MOUNT_DB}/orders_idx.dbf", MOUNT_DB)),
)
CALLS_HITS = shared(
    (0.75, _flow(REPORT, f"{MOUNT_DB}/summary.dbf", MOUNT_DB)),
    (0.25, _flow(WORKERS[0], f"{MOUNT_DB}/summary.dbf", MOUNT_DB)),
)
CALLS_DIRTY = shared(
    *((1 / len(_DATA), _flow(DB_WRITER, f"{MOUNT_DB}/{name}", MOUNT_DB)) for name in _DATA)
)
CALLS_LOG = shared((1, _flow(LOG_WRITER, f"{MOUNT_LOG}/redo01.log", MOUNT_LOG)))
CALLS_SEARCH = shared((1, _flow(SEARCH, "/var/lib/search/index", MOUNT_ROOT)))
CALLS_JOURNAL = shared((1, _flow(JOURNAL, "/var/log/journal/system.journal", MOUNT_ROOT)))
CALLS_COPY = shared((1, _flow(ARCHIVER, "/var/archive/redo00.log", MOUNT_ROOT)))


def _sent(calls: Share, process: Key | None = None) -> Share:
    """Of RPCs: process, file; by the program itself or by write-back."""
    return Share(tuple((process or keys[0], keys[1]) for keys in calls.keys), calls.upto)


RPCS_RANDOM = _sent(CALLS_RANDOM)
RPCS_SCAN = _sent(CALLS_SCAN)
RPCS_HITS = _sent(CALLS_HITS)
RPCS_DIRECT = _sent(CALLS_DIRTY)
RPCS_DIRTY = _sent(CALLS_DIRTY, WRITE_BACK)
RPCS_LOG = _sent(CALLS_LOG)


def _served(calls: Share) -> Share:
    """Of served calls: (file, client), client, (file system, type); both connections share."""
    weighted = []
    before = 0.0
    for keys, upto in zip(calls.keys, calls.upto, strict=True):
        mount = keys[2][0]
        export = FS_DB if mount == MOUNT_DB else FS_LOG
        path = export + keys[1][0].removeprefix(mount)
        for share, client in zip(CONNECTION_SHARES, CLIENTS, strict=True):
            served = (path, client), (client,), (export, FSTYPES[export])
            weighted.append(((upto - before) * share, served))
        before = upto
    return shared(*weighted)


SERVED_RANDOM = _served(CALLS_RANDOM)
SERVED_SCAN = _served(CALLS_SCAN)
SERVED_HITS = _served(CALLS_HITS)
SERVED_DIRTY = _served(CALLS_DIRTY)
SERVED_LOG = _served(CALLS_LOG)
SERVED_OTHER = shared(
    (1, ((f"{FS_DB}/images.tar", OTHER_CLIENT), (OTHER_CLIENT,), (FS_DB, FSTYPES[FS_DB])))
)

# Of requests: the process that submitted them.
SUBMITTED_NFSD = shared(
    *((weight, (process,)) for weight, process in zip(SHARES_OF_FOUR, NFSD, strict=True))
)
SUBMITTED_SEARCH = shared((1, (SEARCH,)))
SUBMITTED_JOURNAL = shared((1, (JOURNAL,)))
SUBMITTED_KWORKER = shared((1, (KWORKER,)))
