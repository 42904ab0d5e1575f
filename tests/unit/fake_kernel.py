"""A kernel of Python objects: its BTF as answers, its BPF maps as dictionaries."""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from ioh.bpf import maps
from ioh.bpf.btf import Btf
from ioh.bpf.host import HostFacts
from ioh.bpf.maps import Map, MapSpec
from ioh.bpf.totals import WORDS
from ioh.procfs.mountinfo import MountTable

# The likely reason if a layer that works on a real kernel is unavailable here.
HERE = "the kernel is tests/unit/fake_kernel.py: give it what the layer needs of a kernel"
CPUS = 3
_ARRAYS = {2, 6}

_MEMBERS = {
    "address_space": "host i_mmap",
    "bpf_trace_run_ctx": "bpf_cookie",
    "bio": "bi_opf bi_iter.bi_size bi_bdev bi_io_vec bi_next bi_private bi_status",
    "bio_vec": "bv_page",
    "block_device": "bd_disk",
    "dentry": "d_inode d_parent d_name.name d_name.hash d_sb d_u.d_alias",
    "fdtable": "max_fds fd",
    "file": "f_inode f_flags f_mode f_path.dentry f_pos",
    "fs_struct": "pwd.dentry",
    "files_struct": "fdt",
    "gendisk": "major first_minor disk_name",
    "inet_sock": "inet_sport",
    "inode": "i_mode i_flags i_sb i_ino i_size i_rdev i_dentry.first i_dentry",
    "css_set": "dfl_cgrp",
    "cgroup": "kn self.parent",
    "cgroup_subsys_state": "cgroup",
    "kernfs_node": "id",
    "io_kiocb": "opcode file flags cqe.fd cmd",
    "list_head": "next",
    "io_rw": "kiocb kiocb.ki_pos len flags",
    "mount": "mnt_id mnt.mnt_root mnt_next_for_sb",
    "net": "ns.inum",
    "nfs_commit_data": "inode",
    "nfs_inode": "fh vfs_inode",
    "nfs_pgio_args": "fh",
    "nfs_pgio_header": "inode args.count args.stable res.count res.eof res.verf",
    "nfs_writeverf": "committed",
    "nfsd3_writeargs": "stable",
    "nfsd4_compoundargs": "ops",
    "nfs_server": "client",
    "nfsd4_compoundres": "opcnt cstate.current_fh",
    "nfsd4_op": "u.write",
    "nfsd4_write": "wr_stable_how",
    "page": "flags compound_head mapping",
    "pt_regs": "di si dx r10 r9",
    "request": "cmd_flags rq_flags __data_len __sector bio start_time_ns io_start_time_ns q",
    "request_queue": "disk",
    "rpc_clnt": "cl_prog cl_vers",
    "rpc_procinfo": "p_name",
    "rpc_rqst": "rq_xtime rq_ntrans rq_xid rq_xprt",
    "rpc_task": "tk_start tk_action tk_status tk_rqstp tk_client tk_timeouts tk_owner "
    "tk_msg.rpc_proc tk_msg.rpc_argp",
    "sock": "sk_protocol",
    "sock_common": "skc_family skc_net skc_cookie skc_flags skc_dport skc_daddr skc_rcv_saddr"
    " skc_v6_daddr skc_v6_rcv_saddr",
    "btrfs_inode": "vfs_inode root",
    "btrfs_root": "root_key.objectid",
    "super_block": "s_dev s_fs_info s_flags s_magic s_bdev s_root s_mounts",
    "svc_fh": "fh_dentry",
    "svc_procedure": "pc_name",
    "rpc_xprt": "addr",
    "svc_rqst": "rq_addr rq_xid rq_stime rq_prog rq_vers rq_proc rq_procinfo rq_argp rq_resp",
    "task_struct": "pid tgid files fs thread_info flags group_leader comm cgroups nvcsw bio_list"
    " tgid real_parent se.prev_sum_exec_runtime se.sum_exec_runtime sched_info.last_arrival"
    " sched_info.run_delay",
    "tcp_sock": "bytes_received bytes_sent bytes_retrans total_retrans data_segs_in"
    " data_segs_out srtt_us write_seq rcv_nxt",
    "thread_info": "status flags",
    "trace_event_raw_io_uring_complete": "ent ctx req user_data res",
    "trace_event_raw_io_uring_submit_req": "ent ctx req",
    "trace_event_raw_sys_enter": "ent id args",
    "trace_event_raw_sys_exit": "ent id ret",
}
_REQ_OPS = {
    "REQ_OP_READ": 0,
    "REQ_OP_WRITE": 1,
    "REQ_OP_FLUSH": 2,
    "REQ_OP_DISCARD": 3,
    "REQ_OP_SECURE_ERASE": 5,
    "REQ_OP_ZONE_APPEND": 7,
    "REQ_OP_WRITE_ZEROES": 9,
}
_REQ_FLAGS = {"__REQ_META": 12, "__REQ_FUA": 17, "__REQ_PREFLUSH": 18}
_TRACEPOINTS: dict[str, tuple[str, ...]] = {
    "block_bio_backmerge": ("bio",),
    "block_bio_frontmerge": ("bio",),
    "block_bio_complete": ("request_queue", "bio"),
    "block_bio_queue": ("bio",),
    "block_getrq": ("bio",),
    "block_rq_complete": ("request", "", ""),
    "block_rq_issue": ("request",),
    "block_rq_requeue": ("request",),
    "block_split": ("bio", ""),
    "inet_sock_set_state": ("sock", "", ""),
    "nfs_commit_done": ("rpc_task", "nfs_commit_data"),
    "nfs_initiate_commit": ("nfs_commit_data",),
    "nfs_initiate_read": ("nfs_pgio_header",),
    "nfs_initiate_write": ("nfs_pgio_header",),
    "nfs_readpage_done": ("rpc_task", "nfs_pgio_header"),
    "nfs_writeback_done": ("rpc_task", "nfs_pgio_header"),
    "nfsd_compound_status": ("", "", "", ""),
    "nfsd_file_acquire": ("svc_rqst", "inode", "", "nfsd_file", ""),
    "nfsd_read_done": ("svc_rqst", "svc_fh", "", ""),
    "nfsd_read_start": ("svc_rqst", "svc_fh", "", ""),
    "nfsd_write_done": ("svc_rqst", "svc_fh", "", ""),
    "nfsd_write_start": ("svc_rqst", "svc_fh", "", ""),
    "rpc_stats_latency": ("rpc_task", "", "", ""),
    "svc_process": ("svc_rqst", ""),
    "svc_stats_latency": ("svc_rqst",),
    "sys_enter": ("pt_regs", ""),
    "sys_exit": ("pt_regs", ""),
}


@dataclass
class FakeBtf:
    """ioh.bpf.btf.Btf with answers from dictionaries that a test may change."""

    offsets: dict[tuple[str, str], int] = field(default_factory=dict)
    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    tracepoints: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def offset(self, owner: str, path: str) -> int | None:
        return self.offsets.get((owner, path))

    def size(self, name: str) -> int | None:
        sizes = [at for (owner, _), at in self.offsets.items() if owner == name]
        return max(sizes) + 8 if sizes else None

    def enumerators(self, name: str) -> dict[str, int]:
        return self.enums.get(name, {})

    def enumerator(self, name: str) -> int | None:
        return next((enum[name] for enum in self.enums.values() if name in enum), None)

    def tracepoint(self, name: str) -> tuple[str, ...] | None:
        return self.tracepoints.get(name)

    def struct_id(self, name: str) -> int | None:
        return 1 if name in _MEMBERS else None

    def drop(self, *members: str) -> None:
        """Remove members, each written ``struct.member``."""
        for member in members:
            owner, _, path = member.partition(".")
            del self.offsets[owner, path]

    def host(
        self,
        machine: str = "x86_64",
        *,
        trusted: bool = True,
        cpus: int = 4,
        preempted: bool = False,
        casts: bool = False,
        trace_events: bool = False,
    ) -> HostFacts:
        return HostFacts(
            cast("Btf", self),
            machine,
            cpus,
            trusted_loads=trusted,
            cast=1 if casts else None,
            alone=casts,
            preempted=preempted,
            trace_events=trace_events,
        )


def linux_6_18() -> FakeBtf:
    """A kernel that has everything."""
    return FakeBtf(
        {
            (owner, member): 8 * at
            for owner, members in _MEMBERS.items()
            for at, member in enumerate(members.split())
        },
        {
            "req_op": dict(_REQ_OPS),
            "req_flag_bits": dict(_REQ_FLAGS),
            "pageflags": {"PG_swapbacked": 17},
            "rqf_flags": {"__RQF_STARTED": 0, "__RQF_FLUSH_SEQ": 1},
            "sock_flags": {"SOCK_DEAD": 0, "SOCK_DONE": 1},
        },
        _TRACEPOINTS
        | {
            "io_uring_submit_req": ("io_kiocb",),
            "io_uring_complete": ("io_ring_ctx", "", "io_uring_cqe"),
            "io_uring_queue_async_work": ("io_kiocb", ""),
        },
    )


def linux_6_1() -> FakeBtf:
    """Debian 12: io_uring's tracepoints have their older names, RQF_ flags are still macros."""
    btf = linux_6_18()
    del btf.enums["rqf_flags"], btf.tracepoints["io_uring_submit_req"]
    btf.tracepoints["io_uring_submit_sqe"] = ("io_kiocb", "")
    btf.tracepoints["io_uring_complete"] = ("",) * 7
    return btf


def linux_5_19() -> FakeBtf:
    """io_uring: completions already name their request, but submissions begin with the ring."""
    btf = linux_6_1()
    btf.tracepoints["io_uring_submit_sqe"] = ("",) * 7
    return btf


def linux_5_15() -> FakeBtf:
    """Ubuntu 22.04: requests name their disk, io_uring's completions name only the ring."""
    btf = linux_5_19()
    btf.drop("request_queue.disk", "io_kiocb.cqe.fd")
    btf.offsets["request", "rq_disk"] = 64
    btf.enums["req_opf"] = btf.enums.pop("req_op")
    btf.tracepoints["io_uring_complete"] = ("",) * 4
    return btf


def linux_5_10() -> FakeBtf:
    """Debian 11: block tracepoints also pass the queue, io_uring's arguments are untyped."""
    btf = linux_5_15()
    btf.drop("bio.bi_bdev", "bpf_trace_run_ctx.bpf_cookie")
    btf.offsets["bio", "bi_disk"] = 8
    for name in ("queue", "backmerge", "frontmerge"):
        btf.tracepoints[f"block_bio_{name}"] = ("request_queue", "bio")
    btf.tracepoints |= {
        "block_getrq": ("request_queue", "bio", ""),
        "block_rq_issue": ("request_queue", "request"),
        "block_rq_requeue": ("request_queue", "request"),
        "block_split": ("request_queue", "bio", ""),
        "io_uring_submit_sqe": ("",) * 5,
        "io_uring_complete": ("",) * 3,
    }
    return btf


KERNELS = {
    "6.18": linux_6_18,
    "6.1": linux_6_1,
    "5.19": linux_5_19,
    "5.15": linux_5_15,
    "5.10": linux_5_10,
}


@dataclass
class FakeMap:
    """What the kernel holds behind one descriptor."""

    spec: MapSpec
    entries: dict[bytes, bytes] = field(default_factory=dict)
    per_bucket: int = 1

    @property
    def value_size(self) -> int:
        padded = (self.spec.value_size + 7) & ~7
        return padded * CPUS if self.spec.kind in {5, 6, 10, 21} else self.spec.value_size

    def get(self, key: bytes) -> bytes | None:
        if self.spec.kind not in _ARRAYS:
            return self.entries.get(key)
        in_range = int.from_bytes(key, "little") < self.spec.max_entries
        return self.entries.get(key, bytes(self.value_size)) if in_range else None


def refuse(code: int) -> int:
    ctypes.set_errno(code)
    return -1


def counted(words: Mapping[int, int]) -> bytes:
    """An entry of a totals map: words by index, all counted on the first CPU."""
    row = [words.get(at, 0) for at in range(WORDS)]
    return struct.pack(f"={WORDS}Q", *row) + bytes(8 * WORDS * (CPUS - 1))


def _bytes(pointer: Any, size: int) -> bytes:
    return bytes(pointer[:size]) if isinstance(pointer, bytes) else pointer.raw[:size]


class FakeLibbpf:
    """libbpf's map calls on dictionaries; a test can switch off calls that a kernel lacks."""

    def __init__(self, held: Mapping[int, FakeMap]) -> None:
        self.held = held
        self.batch_errno = 0
        self.take_errno = 0
        self.calls: list[str] = []

    def _asked(self, call: str, fd: int, key: Any) -> tuple[FakeMap, bytes]:
        self.calls.append(call)
        return self.held[fd], _bytes(key, self.held[fd].spec.key_size)

    def bpf_map_lookup_elem(self, fd: int, key: Any, value: Any) -> int:
        held, raw = self._asked("lookup", fd, key)
        found = held.get(raw)
        if found is None:
            return refuse(errno.ENOENT)
        ctypes.memmove(value, found, len(found))
        return 0

    def bpf_map_update_elem(self, fd: int, key: Any, value: Any, flags: int) -> int:
        held, raw = self._asked("update", fd, key)
        if flags == 1 and raw in held.entries:
            return refuse(errno.EEXIST)
        if raw not in held.entries and len(held.entries) >= held.spec.max_entries:
            return refuse(errno.E2BIG)
        held.entries[raw] = _bytes(value, held.value_size)
        return 0

    def bpf_map_delete_elem(self, fd: int, key: Any) -> int:
        held, raw = self._asked("delete", fd, key)
        return 0 if held.entries.pop(raw, None) is not None else refuse(errno.ENOENT)

    def bpf_map_lookup_and_delete_elem(self, fd: int, key: Any, value: Any) -> int:
        held, raw = self._asked("take", fd, key)
        if self.take_errno:
            return refuse(self.take_errno)
        found = held.entries.pop(raw, None)
        if found is None:
            return refuse(errno.ENOENT)
        ctypes.memmove(value, found, len(found))
        return 0

    def bpf_map_lookup_batch(
        self, fd: int, start: Any, cursor: Any, keys: Any, values: Any, count: Any, opts: Any
    ) -> int:
        """Return only whole hash buckets, as the kernel does; ENOSPC if not even one fits."""
        self.calls.append("batch")
        if self.batch_errno:
            return refuse(self.batch_errno)
        held = self.held[fd]
        room, count._obj.value = count._obj.value, 0
        if held.spec.kind in _ARRAYS:
            first = 0 if start is None else int.from_bytes(start, "little") + 1
            slots = range(first, min(first + room, held.spec.max_entries))
            found = b"".join(held.get(slot.to_bytes(4, "little")) or b"" for slot in slots)
            ctypes.memmove(values, found, len(found))
            count._obj.value = len(slots)
            return 0
        at = 0 if start is None else int.from_bytes(start.raw[:8], "little")
        present = list(held.entries.items())
        taken = present[at : at + room // held.per_bucket * held.per_bucket]
        if present[at:] and not taken:
            return refuse(errno.ENOSPC)
        count._obj.value = len(taken)
        ctypes.memmove(cursor, (at + len(taken)).to_bytes(8, "little"), 8)
        ctypes.memmove(keys, b"".join(key for key, _ in taken), held.spec.key_size * len(taken))
        ctypes.memmove(values, b"".join(v for _, v in taken), held.value_size * len(taken))
        return refuse(errno.ENOENT) if at + len(taken) >= len(present) else 0

    def bpf_map_lookup_and_delete_batch(
        self, fd: int, start: Any, cursor: Any, keys: Any, values: Any, count: Any, opts: Any
    ) -> int:
        """Like lookup_batch from the start, but delete what is returned."""
        del start
        failed = self.bpf_map_lookup_batch(fd, None, cursor, keys, values, count, opts)
        self.calls[-1] = "drain"
        if self.batch_errno:
            return failed
        held = self.held[fd]
        for key in list(held.entries)[: count._obj.value]:
            del held.entries[key]
        return failed


def notice_mounts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the mounts each time: unlike the kernel's list, a file does not signal changes."""
    monkeypatch.setattr(MountTable, "refresh", lambda table: table._read() or True)


def install(
    monkeypatch: pytest.MonkeyPatch, specs: Iterable[MapSpec]
) -> tuple[dict[str, Map], dict[str, FakeMap], FakeLibbpf]:
    """Return the maps as ioh reads them, what the kernel holds for each, and the fake libbpf."""
    held = {100 + at: FakeMap(spec) for at, spec in enumerate(specs)}
    lib = FakeLibbpf(held)
    monkeypatch.setattr(maps, "libbpf", lambda: lib)
    monkeypatch.setattr(maps, "possible_cpus", lambda: CPUS)
    opened = {fake.spec.name: Map(fake.spec, fd) for fd, fake in held.items()}
    return opened, {fake.spec.name: fake for fake in held.values()}, lib
