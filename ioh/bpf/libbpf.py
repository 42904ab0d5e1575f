"""libbpf by ctypes: the few calls that ioh needs, found under either of its sonames."""

from __future__ import annotations

import ctypes
from functools import cache

from ioh.model.limits import lack_behind

SONAMES = ("libbpf.so.1", "libbpf.so.0")


@cache
def libbpf() -> ctypes.CDLL | None:
    """The library that the distribution's bcc links, or None where there is none.

    Raises:
        OSError: There is too little memory for it, or too few descriptors.
    """
    for soname in SONAMES:
        try:
            lib = ctypes.CDLL(soname, use_errno=True)
        except OSError as error:
            if lack_behind(error) is not None:
                raise
            continue
        _declare(lib)
        return lib
    return None


def _declare(lib: ctypes.CDLL) -> None:
    for name in ("bpf_map_lookup_elem", "bpf_map_lookup_and_delete_elem"):
        getattr(lib, name).argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    lib.bpf_map_update_elem.argtypes = (
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint64,
    )
    lib.bpf_map_delete_elem.argtypes = (ctypes.c_int, ctypes.c_void_p)
    for name in ("bpf_map_lookup_batch", "bpf_map_lookup_and_delete_batch"):
        getattr(lib, name).argtypes = (
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_uint32),
            ctypes.c_void_p,
        )
    lib.btf__free.argtypes = (ctypes.c_void_p,)
    lib.btf__free.restype = None
    lib.btf__type_by_id.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
    lib.btf__type_by_id.restype = ctypes.c_void_p
    lib.btf__find_by_name_kind.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32)
    lib.btf__find_by_name_kind.restype = ctypes.c_int32
    lib.btf__name_by_offset.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
    lib.btf__name_by_offset.restype = ctypes.c_char_p
