"""Commands that programs hand to a disk themselves, as smartd does: requests, but no losses."""

from __future__ import annotations

import ctypes
import fcntl
import os

from tests.kernel.part import part_of
from tests.kernel.rig import opened
from tests.vm.disks import NAMES, Disks
from tests.vm.nfs import watching

COMMANDS = 23
SG_IO = 0x2285
SG_DXFER_NONE = -1


class SgIo(ctypes.Structure):
    """struct sg_io_hdr of scsi/sg.h."""

    _fields_ = [
        ("interface_id", ctypes.c_int),
        ("dxfer_direction", ctypes.c_int),
        ("cmd_len", ctypes.c_ubyte),
        ("mx_sb_len", ctypes.c_ubyte),
        ("iovec_count", ctypes.c_ushort),
        ("dxfer_len", ctypes.c_uint),
        ("dxferp", ctypes.c_void_p),
        ("cmdp", ctypes.c_void_p),
        ("sbp", ctypes.c_void_p),
        ("timeout", ctypes.c_uint),
        ("flags", ctypes.c_uint),
        ("pack_id", ctypes.c_int),
        ("usr_ptr", ctypes.c_void_p),
        ("status", ctypes.c_ubyte),
        ("masked_status", ctypes.c_ubyte),
        ("msg_status", ctypes.c_ubyte),
        ("sb_len_wr", ctypes.c_ubyte),
        ("host_status", ctypes.c_ushort),
        ("driver_status", ctypes.c_ushort),
        ("resid", ctypes.c_int),
        ("duration", ctypes.c_uint),
        ("info", ctypes.c_uint),
    ]


def is_ready(fd: int) -> None:
    """TEST UNIT READY."""
    command, sense = ctypes.create_string_buffer(6), ctypes.create_string_buffer(32)
    header = SgIo(
        interface_id=ord("S"),
        dxfer_direction=SG_DXFER_NONE,
        cmd_len=6,
        mx_sb_len=32,
        cmdp=ctypes.addressof(command),
        sbp=ctypes.addressof(sense),
        timeout=5000,
    )
    fcntl.ioctl(fd, SG_IO, header)
    assert header.status == 0


def test_commands_are_not_lost() -> None:
    """Most kernels give them no times: those are left out, as by diskstats."""
    Disks().answer_after(0)
    with (
        watching("block") as ioh,
        part_of(ioh) as part,
        opened(f"/dev/{NAMES[0]}", os.O_RDONLY) as fd,
    ):
        for _ in range(COMMANDS):
            is_ready(fd)
        os.pread(fd, 4096, 0)
    assert part.lost("block") == {}
    assert part.total("block", "read") >= 1
    assert sum(part.sizes("block", "other").values()) == part.total("block", "other")
