"""The ``-D`` constants of ``probes/syscall.c`` on a given kernel."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ioh.bpf.defines import (
    argument_at,
    dentry_alias,
    errno_of,
    known_offsets,
    offset_defines,
    trouble_defines,
)
from ioh.bpf.syscall_numbers import SYSCALL_NUMBERS
from ioh.bpf.values import FilterValue, text_values
from ioh.layers.flows import FLOW, META_NAME, WAITED
from ioh.layers.mount_roots import PATH_DEFINES, mount_root_defines
from ioh.layers.open_calls import CALL_GROUP, CALL_TICK_LOG2
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from ioh.procfs.devices import numbers_on
from ioh.procfs.files import PAGE_BYTES
from ioh.procfs.processes import are_cpu_waits_timed, are_pids_the_kernels

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf
    from ioh.bpf.host import HostFacts

CALL_SLOTS = 1 << 16  # threads whose ids differ by a multiple of it share a slot
_FLOWS_SMALL_HOST = 16384
_FLOWS_MOST_BYTES = 32 << 20
_TICKS_TO_STAY = 8  # an idle entry is dropped about four ticks after it was made
_FIRST_COMERS = 128  # per tick; user space names half as many, the busiest
DEVICES = 16  # known with --device: volumes, arrays, btrfs, partitions on the disk

_MEMBERS = (
    "task_struct pid tgid files fs group_leader comm nvcsw",
    "files_struct fdt",
    "fdtable max_fds fd",
    "fs_struct pwd.dentry",
    "file f_inode f_flags f_mode f_path.dentry f_pos",
    "inode i_mode i_flags i_sb i_ino i_size i_rdev",
    "super_block s_dev s_flags s_magic",
    "dentry d_inode d_parent d_sb d_name.name d_name.hash",
    "bio bi_opf bi_iter.bi_size bi_private",
)
# Members that the probe reads with one helper call.
_SPANS = {
    "FILE": ("file", ("f_inode", "f_flags", "f_path_dentry")),
    "INODE": ("inode", ("i_mode", "i_flags", "i_sb", "i_ino")),
    "SUPER": ("super_block", ("s_dev", "s_flags", "s_magic")),
}
# By the probe's names; a list_head begins with a pointer.
CAST_TYPES = {
    "FILE": "file",
    "INODE": "inode",
    "SUPER": "super_block",
    "DENTRY": "dentry",
    "MAPPING": "address_space",
    "POINTER": "list_head",
    "REQUEST": "io_kiocb",
    "RW": "io_rw",
}
_X86_REGISTERS = "pt_regs di si dx r10 r9"
# TS_COMPAT, TIF_32BIT: a call's number is one of the 32-bit table.
_COMPAT = {"x86_64": ("status", 1 << 1), "aarch64": ("flags", 1 << 22)}
_FILTER_MEMBERS = ("super_block s_bdev", "block_device bd_disk", "gendisk major")
_CGROUP_MEMBERS = (
    "task_struct cgroups",
    "css_set dfl_cgrp",
    "cgroup kn self.parent",
    "cgroup_subsys_state cgroup",
    "kernfs_node id",
)
_URING_MEMBERS = "io_kiocb opcode file flags cqe.fd"
_URING_PATHS = (
    "io_open dfd filename file_slot",
    "io_statx dfd filename",
    "io_unlink dfd filename",
    "io_rename old_dfd oldpath",
    "io_mkdir dfd filename",
    "io_link old_dfd oldpath new_dfd newpath",
    "filename name",
)
# Optional members; each line is independent.
_OPTIONAL = (
    ("btrfs_inode vfs_inode root", "btrfs_root root_key.objectid"),
    ("task_struct ioac.read_bytes",),  # CONFIG_TASK_IO_ACCOUNTING
    ("inode i_mapping i_blocks", "address_space i_pages.xa_flags nrpages"),
    (
        "file f_mapping",
        "inode i_mapping",
        "address_space i_pages.xa_head",
        "xa_node shift slots",
        "task_struct ioac.read_bytes",  # without it, a read without bios may be a delayed one
    ),
    ("file private_data", "ovl_file realfile"),
    ("xfs_inode i_vnode i_nblocks", "super_block s_blocksize_bits"),
)
_CPU_WAIT = ("task_struct sched_info.run_delay",)  # CONFIG_SCHED_INFO
_FAULT_MEMBERS = (
    "task_struct flags bio_list",
    "bio bi_io_vec bi_next bi_status",
    "bio_vec bv_page",
    "request bio",
    "page flags mapping",
    "address_space host i_mmap",
    "inode i_dentry",
)
_FAULT_OPTIONAL = (
    ("task_struct io_uring",),
    ("bio bi_bdev",),
    ("btrfs_bio bio inode",),
    ("btrfs_bio bio", "compressed_bio bbio len compressed_len"),
)


def _optional(btf: Btf, lines: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    return {name: at for structs in lines for name, at in known_offsets(btf, *structs).items()}


def has_uring(btf: Btf) -> bool:
    """Whether io_uring's tracepoints have the request, and the request its descriptor.

    The completion's arguments were (ring, user_data, res, cflags) until 5.17.  5.18 added the
    request, 5.19 put ``cqe`` into struct io_kiocb, and later kernels pass the completion entry
    itself.  Submissions had the ring as first argument up to 5.19, then the request, with its type.
    """
    args = btf.tracepoint("io_uring_complete") or ()
    submits = any(
        (btf.tracepoint(name) or ("",))[0] == "io_kiocb" for name in URING_SUBMIT_TRACEPOINTS
    )
    names_request = args[-1:] == ("io_uring_cqe",) or len(args) >= _URING_ARGS_WITH_REQUEST
    return submits and names_request and bool(known_offsets(btf, _URING_MEMBERS))


def _fault_defines(btf: Btf) -> dict[str, int]:
    offsets = known_offsets(btf, *_FAULT_MEMBERS)
    head = btf.offset("page", "compound_head") or btf.offset("page", "compound_info")  # since 7.1
    alias = dentry_alias(btf)
    backed = btf.enumerators("pageflags").get("PG_swapbacked")
    meta = btf.enumerators("req_flag_bits").get("__REQ_META")
    if not offsets or head is None or alias is None or backed is None or meta is None:
        return {}
    return {
        **offsets,
        "OFF_page_compound_head": head,
        "OFF_dentry_d_alias": alias,
        "PG_swapbacked": backed,
        "REQ_META": 1 << meta,
        **_optional(btf, _FAULT_OPTIONAL),
    }


def sees_faults(btf: Btf) -> bool:
    """Whether this kernel's structs tell which file a bio reads."""
    return bool(_fault_defines(btf))


URING_SUBMIT_TRACEPOINTS = ("io_uring_submit_req", "io_uring_submit_sqe")  # now; in 6.1
_URING_ARGS_WITH_REQUEST = 5  # (ring, req, user_data, res, cflags …)


def syscall_defines(host: HostFacts, filters: Filters) -> Mapping[str, int] | Unavailable:
    """Offsets, system call numbers, flags and filters."""
    numbers = SYSCALL_NUMBERS.get(host.machine)
    if numbers is None:
        return Unavailable(
            f"ioh does not know the system call numbers of {host.machine}",
            "x86_64 and aarch64 are supported; please report your machine",
        )
    if filters.pid is not None and not are_pids_the_kernels():
        return Unavailable(
            "--pid does not work here: ioh runs in a PID namespace, the probe sees the host's ids",
            "share the host's PID namespace (docker run --pid=host), or use --comm or --cgroup",
        )
    offsets = offset_defines(host.btf, *_members(host, filters))
    if isinstance(offsets, Unavailable):
        return offsets
    of_filters = _filter_defines(host.btf, filters)
    if isinstance(of_filters, Unavailable):
        return of_filters
    spans = _spans(offsets)
    longest = max(spans[f"{name}_SPAN"] for name in _SPANS)
    per_cpu = _FLOWS_MOST_BYTES // (FLOW.size * host.cpu_count)
    flows = max(1024, min(_FLOWS_SMALL_HOST, per_cpu))
    defines: dict[str, int] = {
        **offsets,
        **spans,
        "PART_SPAN": longest,
        **{f"SYS_{name}": number for name, number in numbers.items()},
        "CALL_SLOTS": CALL_SLOTS,
        "CALL_GROUP": CALL_GROUP,
        "CALL_TICK_LOG2": CALL_TICK_LOG2,
        "FLOWS": flows,
        "NEWCOMERS": flows // _TICKS_TO_STAY,
        "FIRST_COMERS": _FIRST_COMERS,
        "O_DIRECT": os.O_DIRECT,
        "O_DSYNC": os.O_DSYNC,
        "PAGE_BYTES": PAGE_BYTES,
        **trouble_defines(errno_of),
        "META_NAME": META_NAME,
        "META_WAITED": WAITED,
        **_tracepoint_arguments(host.btf),
        **_optional(host.btf, (*_OPTIONAL, *([_CPU_WAIT] if are_cpu_waits_timed() else []))),
        **_fault_defines(host.btf),
        **mount_root_defines(host.btf),
        **PATH_DEFINES,
    }
    if has_uring(host.btf):
        defines |= known_offsets(host.btf, _URING_MEMBERS) | _uring_arguments(host.btf)
        args = host.btf.tracepoint("io_uring_complete") or ()
        if args[-1] == "io_uring_cqe":  # 6.18 passes the entry, 6.1 its fields
            defines["URING_CQE"] = 1
    return {**defines, **_compat_defines(host), **of_filters}


def _compat_defines(host: HostFacts) -> dict[str, int]:
    member, bit = _COMPAT[host.machine]
    at, info = host.btf.offset("thread_info", member), host.btf.offset("task_struct", "thread_info")
    if at is None or info is None:
        return {}
    return {"OFF_thread_info_compat": info + at, "COMPAT": bit}


def _members(host: HostFacts, filters: Filters) -> list[str]:
    """Struct members that the probe reads on this machine with these filters."""
    return [
        *_MEMBERS,
        *([_X86_REGISTERS] if host.machine == "x86_64" else []),
        *(_FILTER_MEMBERS if filters.device is not None else []),
    ]


def _spans(offsets: Mapping[str, int]) -> dict[str, int]:
    """First byte and length of the 8-byte words that hold all these members, for each struct."""
    spans: dict[str, int] = {}
    for name, (owner, members) in _SPANS.items():
        at = [offsets[f"OFF_{owner}_{member}"] & ~7 for member in members]
        spans |= {f"{name}_BASE": min(at), f"{name}_SPAN": max(at) + 8 - min(at)}
    return spans


def _tracepoint_arguments(btf: Btf) -> dict[str, int]:
    """Where the bio is: commits a54895fa057c and e8a676d61c07 (5.11) dropped the queue."""
    return {
        "QUEUE_BIO_ARG": argument_at(btf, "block_bio_queue", "bio"),
        "GETRQ_BIO_ARG": argument_at(btf, "block_getrq", "bio"),
        "MERGE_BIO_ARG": argument_at(btf, "block_bio_backmerge", "bio"),
        "SPLIT_BIO_ARG": argument_at(btf, "block_split", "bio"),
    }


def _uring_arguments(btf: Btf) -> dict[str, int]:
    """Where the RWF_ flags and the position are: in the part of each opcode."""
    own, flags = btf.offset("io_kiocb", "cmd"), btf.offset("io_rw", "flags")
    position, length = btf.offset("io_rw", "kiocb.ki_pos"), btf.offset("io_rw", "len")
    if own is None or flags is None or position is None or length is None:
        return {}
    return {
        **_optional(btf, (("io_sync flags",), ("io_splice splice_fd_in flags",), _URING_PATHS)),
        "OFF_io_kiocb_cmd": own,
        "OFF_io_rw_flags": flags,
        "OFF_io_rw_position": position,
        "OFF_io_rw_len": length,
    }


def _filter_defines(btf: Btf, filters: Filters) -> Mapping[str, int] | Unavailable:
    """All filters by process if one is given, so that one compiled probe is for any of them."""
    pid, comm, cgroup_id = filters.pid, filters.comm, filters.cgroup_id
    defines: dict[str, int] = {}
    if pid is not None or comm is not None or cgroup_id is not None:
        defines |= text_values("FILTER_COMM", comm or "", 2) | {"FILTER_PID": FilterValue(pid or 0)}
        members = offset_defines(btf, *_CGROUP_MEMBERS)
        if not isinstance(members, Unavailable):
            defines |= members | {"FILTER_CGROUP": FilterValue(cgroup_id or 0)}
        elif cgroup_id is not None:
            return members
    if filters.device is not None:
        # Unused entries repeat the disk itself.
        above = (*numbers_on(filters.device), *[filters.device] * DEVICES)[:DEVICES]
        of_device = {f"FILTER_ABOVE_{at}": dev for at, dev in enumerate(above, 1)}
        of_device["FILTER_DEVICE"] = filters.device
        defines |= {name: FilterValue(dev) for name, dev in of_device.items()}
    return defines
