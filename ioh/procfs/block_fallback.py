"""The block layer from /proc/diskstats, for hosts where its probe cannot run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import add
from pathlib import Path

from ioh.model.in_progress import IN_PROGRESS
from ioh.model.metric import LayerSpec, TableSpec
from ioh.model.printable import printable
from ioh.model.sample import LayerSample, OpTotals, Row, Table, Unavailable, Value
from ioh.procfs.blockdev import BlockDevice, BlockDevices, disk_of_path
from ioh.procfs.diskstats import DiskStats, read_diskstats
from ioh.procfs.files import PAGE_BYTES, ROOT, path_under, read_numbers, read_pressure
from ioh.procfs.silent_devices import SilentDevices

_NS_PER_MS = 1_000_000
_WRAP_MS = 1 << 32  # ms columns are unsigned int in every kernel

_TOTALS = DiskStats._fields[3:]  # behind dev, name and inflight
_MS = frozenset(i for i, name in enumerate(_TOTALS) if name.endswith("_ms_total"))
_SLOT = {name: i for i, name in enumerate(_TOTALS)}

# Columns of each op: count, bytes, ms; flushes have no bytes.
_OPS = {
    "read": ("reads_total", "read_bytes_total", "read_ms_total"),
    "write": ("writes_total", "write_bytes_total", "write_ms_total"),
    "flush": ("flushes_total", "", "flush_ms_total"),
    "discard": ("discards_total", "discard_bytes_total", "discard_ms_total"),
}
# Columns that are fields of BlockDevice under the same names.
_SETTINGS = (
    "queue_depth_limit",
    "max_request_bytes",
    "max_hw_request_bytes",
    "max_segments",
    "read_ahead_bytes",
    "chunk_bytes",
)
# Not psutil.swap_memory(): it assumes 4 KiB pages.
_SWAP = {"pswpin": "swap_in_bytes_total", "pswpout": "swap_out_bytes_total"}
_MERGES = ("read_merges_total", "write_merges_total", "discard_merges_total")

_NOTES = (
    "counted by /proc/diskstats: no histograms, percentiles, maxima, errors, splits or processes",
    "times are sums in whole milliseconds: a mean over few requests is coarse",
    "write zeroes and zone appends count as writes",
)

Totals = tuple[int, ...]
_ZERO: Totals = (0,) * len(_TOTALS)


def increase(older: Totals, newer: Totals) -> Totals:
    """The growth of each total of a device.

    Returns all of ``newer`` if a count decreased: the number now belongs to another device.
    """
    growth = tuple(
        _grown_ms(a, b) if at in _MS else b - a
        for at, (a, b) in enumerate(zip(older, newer, strict=True))
    )
    return newer if min(growth) < 0 else growth


def _grown_ms(older: int, newer: int) -> int:
    if newer >= older:
        return newer - older
    # Much less: the 32-bit column wrapped.  A little less: per-CPU sums changed during the read.
    return newer - older + _WRAP_MS if older - newer > _WRAP_MS // 2 else 0


def add_totals(a: Totals, b: Totals) -> Totals:
    """Add two sets of totals column by column."""
    return tuple(map(add, a, b))


def ops_of(totals: Totals) -> dict[str, OpTotals]:
    """The totals by op."""
    return {
        op: OpTotals(
            count_total=totals[_SLOT[count]],
            bytes_total=totals[_SLOT[size]] if size else 0,
            latency_ns_total=totals[_SLOT[time]] * _NS_PER_MS,
        )
        for op, (count, size, time) in _OPS.items()
    }


@dataclass(slots=True)
class _Account:
    """One device's growth since ioh attached.

    ``last``: the last totals in diskstats.  ``read`` and ``device``: the sources of all other
    values.  ``row``: the row made of them, once it was needed.
    """

    key: tuple[str, str]
    last: Totals
    read: DiskStats
    device: BlockDevice | None
    grown: Totals = _ZERO
    is_active: bool = False
    ops: dict[str, OpTotals] = field(default_factory=dict)
    row: Row | None = None


class BlockFallback:
    """The block layer's totals from /proc/diskstats; call ``sample()`` once a tick.

    Totals start at 0 with the first sample and only grow.  They survive a device that goes away, a
    32-bit ms column that wraps, and a device number that gets another device.  As with the probe,
    the layer's ops sum all devices, except those whose I/O appears again on another one (dm, md,
    loop over a file on a disk).  With ``device``, a whole disk's
    dev_t, they are the ops of that disk.  ``devices``: as of the last sample.
    """

    def __init__(self, spec: LayerSpec, device: int | None = None, root: Path = ROOT) -> None:
        self._table = next(t for t in spec.tables if t.name == "device")
        self._device = device
        self._root = root
        self.devices = BlockDevices(root)
        self._accounts: dict[int, _Account] = {}
        self._sum: Totals | None = None
        self._bios = _ZERO
        self._silent = SilentDevices(root)

    def sample(self) -> LayerSample | Unavailable:
        """Read /proc/diskstats and sysfs.

        Returns parts and rows only of devices with I/O since the first sample.  Unavailable if the
        file cannot be read or the chosen device is gone.
        """
        read_ns = time.monotonic_ns()
        stats = read_diskstats(self._root)
        if stats is None:
            return Unavailable("/proc/diskstats cannot be read", "mount /proc")
        self.devices.refresh()
        disks = self._whole_disks(stats)
        if self._device is not None and not disks:
            return Unavailable("the device is not in /proc/diskstats", "check --device")
        is_first = self._sum is None
        total = self._sum or _ZERO
        for disk, device in disks:
            growth = self._advance(disk, device, is_first=is_first)
            is_all = self._device is not None  # that one device is all there is
            if growth is not None and (is_all or self.devices.is_counted(disk.dev)):
                total = add_totals(total, growth)
                if device is not None and not device.has_requests:
                    self._bios = add_totals(self._bios, growth)
        self._sum = total
        for dev in self._accounts.keys() - {disk.dev for disk, _ in disks}:
            del self._accounts[dev]
            self.devices.forget(dev)
        keys = ((disk, self._accounts[disk.dev].key) for disk, _ in disks)
        return self._as_sample(total, disks, self._silent.table(keys, read_ns))

    def activate(self, devs: Iterable[int]) -> Table:
        """Mark devices as active, because the probe saw their I/O.

        Returns the rows that the last sample would have had.
        """
        rows: dict[tuple[str, ...], Row] = {}
        for dev in devs:
            account = self._accounts.get(dev)
            if account is None or account.is_active:
                continue
            account.is_active = True
            rows[account.key] = _row(self._table, account)
        return rows

    @property
    def bios(self) -> dict[str, OpTotals]:
        """The part of the ops that no probe of requests sees: zram, pmem."""
        return {} if self._bios is _ZERO else ops_of(self._bios)

    @property
    def bio_parts(self) -> dict[str, dict[str, OpTotals]]:
        """The same by device, without the times: whole ticks are too coarse for memory."""
        return {
            account.key[0]: {
                name: replace(op, latency_ns_total=None) for name, op in account.ops.items()
            }
            for account in self._accounts.values()
            if account.is_active and (device := account.device) is not None
            if device.is_counted and not device.has_requests
        }

    def is_idle(self, dev: int) -> bool:
        """Whether a device had nothing in flight at the last sample."""
        account = self._accounts.get(dev)
        return account is not None and not account.read.inflight

    def _whole_disks(self, stats: list[DiskStats]) -> list[tuple[DiskStats, BlockDevice | None]]:
        names = {s.name for s in stats}
        disks = []
        for disk in self._chosen(stats):
            device = self.devices.get(disk.dev)
            if device and disk.name != device.name != printable(disk.name):
                # The number belongs to another disk since the last tick.
                self.devices.forget(disk.dev)
                device = self.devices.get(disk.dev)
            is_partition = (
                looks_like_partition(disk.name, names) if device is None else device.is_partition
            )
            if not is_partition:
                disks.append((disk, device))
        return disks

    def _chosen(self, stats: list[DiskStats]) -> list[DiskStats]:
        """The chosen disks, each with a unique number.

        For a multipath NVMe disk, its paths: the disk itself counts only since Linux 6.5, in bios.
        """
        each = [s if s.dev else s._replace(dev=self.devices.number_of(s.name)) for s in stats]
        for disk in each:
            if disk_of_path(disk.name):  # Linux 6.1 gives a path's number, which sysfs lacks
                self.devices.note_hidden(disk.dev, disk.name)
        if self._device is None:
            return each
        chosen = next((disk.name for disk in each if disk.dev == self._device), None)
        ways = [disk for disk in each if chosen and disk_of_path(disk.name) == chosen]
        return ways or [disk for disk in each if disk.dev == self._device]

    def _advance(
        self, disk: DiskStats, device: BlockDevice | None, *, is_first: bool
    ) -> Totals | None:
        """Enter one reading; return its growth, or None if there is none."""
        account = self._accounts.get(disk.dev)
        if account is not None and account.read is disk and account.device is device:
            return None
        name = printable(disk.name)
        key = (name, device.stack if device is not None else name)
        now = disk[3:]
        if account is None:
            # In the first sample everything is history; a device that appears later started at 0.
            account = _Account(key, now if is_first else _ZERO, disk, device)
            self._accounts[disk.dev] = account
        elif account.key != key:
            account.key, account.grown = key, _ZERO
            account.is_active, account.ops = False, {}
        account.read, account.device, account.row = disk, device, None
        if account.last == now:
            return None
        growth = increase(account.last, now)
        account.last = now
        account.grown = add_totals(account.grown, growth)
        account.is_active = True
        account.ops = ops_of(account.grown)
        return growth

    def _as_sample(
        self, total: Totals, disks: Sequence[tuple[DiskStats, BlockDevice | None]], silent: Table
    ) -> LayerSample:
        rows: dict[tuple[str, ...], Row] = {}
        parts: dict[str, dict[str, OpTotals]] = {}
        uncounted = []
        for disk, device in disks:
            account = self._accounts[disk.dev]
            if device is not None and device.has_requests and not device.counts_io:
                uncounted.append(device.name)
            if account.is_active:
                parts[account.key[0]] = account.ops
            if account.is_active or disk.inflight:
                rows[account.key] = _row(self._table, account)
        notes: tuple[str, ...] = _NOTES
        if uncounted:
            notes += (f"statistics are turned off (queue/iostats) for {', '.join(uncounted)}",)
        return LayerSample(
            source="proc",
            ops=ops_of(total),
            metrics={**{name: total[_SLOT[name]] for name in _MERGES}, **_read_swap(self._root)},
            tables={"device": rows, IN_PROGRESS: silent},
            parts=parts,
            notes=notes,
        )


def _row(table: TableSpec, account: _Account) -> Row:
    if account.row is not None:
        return account.row
    device = account.device
    values: dict[str, Value] = dict(zip(_TOTALS, account.grown, strict=True))
    for name in ("read", "write", "busy", "weighted"):
        values[f"{name}_ns_total"] = account.grown[_SLOT[f"{name}_ms_total"]] * _NS_PER_MS
    values["inflight"] = account.read.inflight
    if device is not None:
        for name in _SETTINGS:
            values[name] = getattr(device, name)
        values["rotational"] = None if device.rotational is None else int(device.rotational)
        values["stacked"] = int(device.is_stacked)
    account.row = tuple(values.get(column.name) for column in table.raw_columns)
    return account.row


def _read_swap(root: Path) -> dict[str, Value]:
    """Totals since boot; zram pages count uncompressed."""
    pages = read_numbers(path_under(root, "proc/vmstat"), _SWAP)
    found: dict[str, Value] = {_SWAP[name]: n * PAGE_BYTES for name, n in pages.items()}
    pressure = read_pressure(path_under(root, "proc/pressure/memory"))
    if "some" in pressure:
        found["memory_wait_us_total"] = pressure["some"]
    return found


def looks_like_partition(name: str, names: Iterable[str]) -> bool:
    """Whether ``name`` is a partition, judged by name only, for hosts without sysfs.

    ``sda1`` of ``sda``; ``nvme0n1p2`` of ``nvme0n1``: a ``p`` follows a disk name that ends in a
    digit.
    """
    disk = name.rstrip("0123456789")
    if disk == name:
        return False
    if disk in names and not disk[-1:].isdigit():
        return True
    return disk.endswith("p") and disk[-2:-1].isdigit() and disk[:-1] in names
