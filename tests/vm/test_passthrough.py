"""Commands that programs hand to a disk themselves, as smartd does: requests, but no losses."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct

from tests.kernel.part import part_of
from tests.kernel.rig import opened
from tests.vm.disks import NAMES, Disks
from tests.vm.nfs import watching

COMMANDS = 23
SG_IO = 0x2285
SG_DXFER_NONE = -1
# struct sg_io_hdr of scsi/sg.h: interface_id, dxfer_direction, cmd_len, mx_sb_len, iovec_count,
# dxfer_len, dxferp, cmdp, sbp, timeout, flags, pack_id, usr_ptr, status …
SG_IO_HDR = struct.Struct("@iiBBHIPPPIIiPBBBBHHiII0P")
STATUS_AT = 13


def is_ready(fd: int) -> None:
    """TEST UNIT READY."""
    command, sense = ctypes.create_string_buffer(6), ctypes.create_string_buffer(32)
    places = (ctypes.addressof(command), ctypes.addressof(sense))
    header = bytearray(
        SG_IO_HDR.pack(ord("S"), SG_DXFER_NONE, 6, 32, 0, 0, 0, *places, 5000, *12 * [0])
    )
    fcntl.ioctl(fd, SG_IO, header)
    assert SG_IO_HDR.unpack(header)[STATUS_AT] == 0


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
