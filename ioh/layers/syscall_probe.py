"""The ``-D`` constants of ``probes/syscall.c`` on a given kernel."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ioh.bpf.syscall_numbers import SYSCALL_NUMBERS
from ioh.bpf.totals import hist_defines
from ioh.layers.base import offset_defines
from ioh.layers.mount_roots import mount_root_defines
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from ioh.procfs.holders import numbers_on
from ioh.procfs.processes import are_pids_the_kernels

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf
    from ioh.bpf.host import HostFacts

CALL_SLOTS = 1 << 16  # threads whose ids differ by a multiple share a slot
_FLOWS_SMALL_HOST = 16384
_FLOWS_MOST_BYTES = 32 << 20
_FLOW_BYTES = 40
_TICKS_TO_STAY = 8  # an entry is dropped some four ticks after it was made, if it is idle
_COMM_BYTES = 15
DEVICES = 16  # on one disk that --device knows: volumes, arrays, btrfs file systems, partitions

_MEMBERS = [
    ("task_struct", "files"),
    ("task_struct", "group_leader"),
    ("task_struct", "comm"),
    ("task_struct", "nvcsw"),
    ("files_struct", "fdt"),
    ("fdtable", "max_fds"),
    ("fdtable", "fd"),
    ("file", "f_inode"),
    ("file", "f_flags"),
    ("file", "f_path.dentry"),
    ("file", "f_pos"),
    ("inode", "i_mode"),
    ("inode", "i_flags"),
    ("inode", "i_sb"),
    ("inode", "i_ino"),
    ("inode", "i_size"),
    ("inode", "i_rdev"),
    ("super_block", "s_dev"),
    ("super_block", "s_flags"),
    ("super_block", "s_magic"),
    ("dentry", "d_inode"),
    ("dentry", "d_parent"),
    ("dentry", "d_name.name"),
    ("dentry", "d_name.hash"),
    ("bio", "bi_opf"),
    ("bio", "bi_iter.bi_size"),
]
# Members that the probe reads by one call of a helper.
_SPANS = {
    "FILE": ("file", ("f_inode", "f_flags", "f_path_dentry")),
    "INODE": ("inode", ("i_mode", "i_flags", "i_sb", "i_ino")),
    "SUPER": ("super_block", ("s_dev", "s_flags", "s_magic")),
}
_X86_REGISTERS = [("pt_regs", name) for name in ("di", "si", "dx", "r10", "r9")]
_FILTER_MEMBERS = [
    ("super_block", "s_bdev"),
    ("block_device", "bd_disk"),
    ("gendisk", "major"),
]
_CGROUP_MEMBERS = [
    ("task_struct", "cgroups"),
    ("css_set", "dfl_cgrp"),
    ("cgroup", "kn"),
    ("cgroup", "self.parent"),
    ("cgroup_subsys_state", "cgroup"),
    ("kernfs_node", "id"),
]
_URING_MEMBERS = [
    ("io_kiocb", "opcode"),
    ("io_kiocb", "file"),
    ("io_kiocb", "flags"),
    ("io_kiocb", "cqe.fd"),
]


_ACCOUNT_MEMBERS = [("task_struct", "ioac.read_bytes")]  # CONFIG_TASK_IO_ACCOUNTING
_BTRFS_MEMBERS = [
    ("btrfs_inode", "vfs_inode"),
    ("btrfs_inode", "root"),
    ("btrfs_root", "root_key.objectid"),
]


def has_uring(btf: Btf) -> bool:
    """Whether io_uring's tracepoints name their request, and the request its descriptor.

    The arguments were (ring, user_data, res, cflags) until 5.17; 5.18 added the request, 5.19 put
    ``cqe`` into struct io_kiocb, and later kernels pass the completion entry itself.  Submissions
    began with the ring up to 5.19; since they begin with the request, they also have its type.
    """
    args = btf.tracepoint("io_uring_complete") or ()
    submits = any(
        (btf.tracepoint(name) or ("",))[0] == "io_kiocb" for name in URING_SUBMIT_TRACEPOINTS
    )
    names_request = args[-1:] == ("io_uring_cqe",) or len(args) >= _URING_ARGS_WITH_REQUEST
    return (
        submits
        and names_request
        and not isinstance(offset_defines(btf, _URING_MEMBERS), Unavailable)
    )


URING_SUBMIT_TRACEPOINTS = ("io_uring_submit_req", "io_uring_submit_sqe")  # now; in 6.1
_URING_ARGS_WITH_REQUEST = 5  # (ring, req, user_data, res, cflags …)


def syscall_defines(
    host: HostFacts, filters: Filters, ops: int, lost: int
) -> Mapping[str, int | str] | Unavailable:
    """Offsets, system call numbers, flags and filters."""
    numbers = SYSCALL_NUMBERS.get(host.machine)
    if numbers is None:
        return Unavailable(
            f"ioh does not know the system call numbers of {host.machine}",
            "x86_64 and aarch64 are known; please report your machine",
        )
    if filters.pid is not None and not are_pids_the_kernels():
        return Unavailable(
            "the kernel knows processes by the host's ids, and ioh runs in a PID namespace",
            "let the container share the host's (docker run --pid=host), or use --comm or --cgroup",
        )
    offsets = offset_defines(host.btf, _members(host, filters))
    if isinstance(offsets, Unavailable):
        return offsets
    spans: dict[str, int] = {}
    for name, (owner, members) in _SPANS.items():
        spans |= _span(offsets, name, owner, members)
    per_cpu = _FLOWS_MOST_BYTES // (_FLOW_BYTES * host.cpu_count)
    flows = max(1024, min(_FLOWS_SMALL_HOST, per_cpu))
    defines: dict[str, int | str] = {
        **hist_defines(),
        **offsets,
        **spans,
        **{f"SYS_{name}": number for name, number in numbers.items()},
        "OPS": ops,
        "LOST_REASONS": lost,
        "CALL_SLOTS": CALL_SLOTS,
        "FLOWS": flows,
        "NEWCOMERS": flows // _TICKS_TO_STAY,
        "O_DIRECT": os.O_DIRECT,
        "O_DSYNC": os.O_DSYNC,
        **_tracepoint_arguments(host.btf),
        **_known(host.btf, _BTRFS_MEMBERS),
        **_known(host.btf, _ACCOUNT_MEMBERS),
        **mount_root_defines(host.btf),
    }
    if has_uring(host.btf):
        defines |= _known(host.btf, _URING_MEMBERS) | _uring_arguments(host.btf)
        args = host.btf.tracepoint("io_uring_complete") or ()
        if args[-1] == "io_uring_cqe":  # 6.18 passes the entry, 6.1 its fields
            defines["URING_CQE"] = 1
    status = host.btf.offset("thread_info", "status")
    info = host.btf.offset("task_struct", "thread_info")
    if host.machine == "x86_64" and status is not None and info is not None:
        defines["OFF_thread_info_status"] = info + status
    return {**defines, **_filter_defines(filters)}


def _known(btf: Btf, members: list[tuple[str, str]]) -> dict[str, int]:
    """Offsets of members without which the probe does well enough; nothing if one is missing."""
    offsets = offset_defines(btf, members)
    return {} if isinstance(offsets, Unavailable) else offsets


def _members(host: HostFacts, filters: Filters) -> list[tuple[str, str]]:
    """Members of structs that the probe follows on this machine, for these filters."""
    members = list(_MEMBERS)
    if host.machine == "x86_64":
        members += _X86_REGISTERS
    if filters.device is not None:
        members += _FILTER_MEMBERS
    if filters.cgroup_id is not None:
        members += _CGROUP_MEMBERS
    return members


def _span(
    offsets: Mapping[str, int], name: str, owner: str, members: tuple[str, ...]
) -> dict[str, int]:
    """First byte and length of the stretch of a struct that holds all these members."""
    at = [offsets[f"OFF_{owner}_{member}"] for member in members]
    base = min(at)
    return {f"{name}_BASE": base, f"{name}_SPAN": max(at) + 8 - base}


def _tracepoint_arguments(btf: Btf) -> dict[str, int]:
    """Where the bio is: commits a54895fa057c and e8a676d61c07 (5.11) dropped the queue."""

    def position(tracepoint: str) -> int:
        args = btf.tracepoint(tracepoint) or ()
        return args.index("bio") if "bio" in args else 0

    return {
        "QUEUE_BIO_ARG": position("block_bio_queue"),
        "GETRQ_BIO_ARG": position("block_getrq"),
        "MERGE_BIO_ARG": position("block_bio_backmerge"),
    }


def _uring_arguments(btf: Btf) -> dict[str, int]:
    """Where the RWF_ flags and the position are: in what each opcode has for itself."""
    own, flags = btf.offset("io_kiocb", "cmd"), btf.offset("io_rw", "flags")
    position = btf.offset("io_rw", "kiocb.ki_pos")
    if own is None or flags is None or position is None:
        return {}
    return {"OFF_io_rw_flags": own + flags, "OFF_io_rw_position": own + position}


def _filter_defines(filters: Filters) -> dict[str, int | str]:
    defines: dict[str, int | str] = {}
    if filters.pid is not None:
        defines["FILTER_PID"] = filters.pid
    if filters.comm is not None:
        defines["FILTER_COMM"] = filters.comm[:_COMM_BYTES]
    if filters.cgroup_id is not None:
        defines["FILTER_CGROUP"] = filters.cgroup_id
    if filters.device is not None:
        defines["FILTER_DEVICE"] = filters.device
        # What is not used stands for the disk itself.
        above = (*numbers_on(filters.device), *[filters.device] * DEVICES)[:DEVICES]
        defines |= {f"FILTER_ABOVE_{at}": dev for at, dev in enumerate(above, 1)}
    return defines
