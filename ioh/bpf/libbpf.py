"""The few libbpf functions that ioh calls, by ctypes, under either soname."""

from __future__ import annotations

import ctypes
from functools import cache

from ioh.model.limits import lack_behind

SONAMES = ("libbpf.so.1", "libbpf.so.0")
_INT, _UINT, _POINTER = ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p
_BATCH = (_INT, *(_POINTER,) * 4, ctypes.POINTER(_UINT), _POINTER)
# Argument types of each function.
_TAKES = {
    "bpf_map_lookup_elem": (_INT, _POINTER, _POINTER),
    "bpf_map_lookup_and_delete_elem": (_INT, _POINTER, _POINTER),
    "bpf_map_update_elem": (_INT, _POINTER, _POINTER, ctypes.c_uint64),
    "bpf_map_delete_elem": (_INT, _POINTER),
    "bpf_map_lookup_batch": _BATCH,
    "bpf_map_lookup_and_delete_batch": _BATCH,
    "btf__type_by_id": (_POINTER, _UINT),
    "btf__find_by_name_kind": (_POINTER, ctypes.c_char_p, _UINT),
    "btf__name_by_offset": (_POINTER, _UINT),
}


@cache
def libbpf() -> ctypes.CDLL:
    """Load the library that the distribution's bcc links; OSError if this fails."""
    for soname in SONAMES:
        try:
            lib = ctypes.CDLL(soname, use_errno=True)
        except OSError as error:
            if lack_behind(error) is not None:
                raise
            continue
        for name, takes in _TAKES.items():
            getattr(lib, name).argtypes = takes
        lib.btf__type_by_id.restype = ctypes.c_void_p
        lib.btf__name_by_offset.restype = ctypes.c_char_p
        return lib
    msg = "libbpf.so.1 not found"
    raise OSError(msg)
