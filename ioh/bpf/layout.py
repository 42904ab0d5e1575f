"""C structs that a probe writes and Python reads: declared here once, for both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from struct import Struct

_CODES = {"u8": "B", "char": "s", "u16": "H", "u32": "I", "u64": "Q", "s64": "q"}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_MEMBER = re.compile(r"(\w+)(?:\[(\d+)\])?")


class Layout:
    """A struct: its C declaration for the compiler, its decoder for Python.

    Shape:
        ``Layout("flow", "u64 count, ns; char comm[16];")``: its members in C.  Types are those in
        _CODES and the structs of ``inner``.  ``unpack`` and its like, as those of a Struct, have a
        number for each number, and bytes for u8 and char arrays and for inner structs.

    Raises:
        ValueError: The compiler would leave a gap: reorder the members, or name the gap.
    """

    def __init__(self, name: str, body: str, *inner: Layout) -> None:
        self.name, self.inner, self.size, self.align = name, inner, 0, 1
        self.text = f"struct {name} {{{body}}};\n"
        self.members: dict[str, tuple[int, str]] = {}  # offset and format
        for line in _COMMENT.sub("", body).replace("struct ", "").split(";")[:-1]:
            kind, names = line.split(None, 1)
            for each in names.split(","):
                self._add(kind, each.strip())
        if self.size % self.align:
            msg = f"struct {name} has a gap at its end"
            raise ValueError(msg)
        whole = self.reader(*(each for each in self.members if "." not in each))
        self.pack, self.unpack = whole.pack, whole.unpack
        self.unpack_from, self.iter_unpack = whole.unpack_from, whole.iter_unpack

    def _add(self, kind: str, declared: str) -> None:
        if not (found := _MEMBER.fullmatch(declared)):
            msg = f"struct {self.name}: {declared}"
            raise ValueError(msg)
        member, count = found[1], int(found[2] or 1)
        if layout := {each.name: each for each in self.inner}.get(kind):
            size, align, code = layout.size, layout.align, f"{count * layout.size}s"
            for part, (at, form) in () if found[2] else layout.members.items():
                self.members[f"{member}.{part}"] = self.size + at, form
        else:
            size = align = Struct(f"={_CODES[kind]}").size
            code = f"{count}{'s' if kind == 'u8' and found[2] else _CODES[kind]}"
        if self.size % align:
            msg = f"struct {self.name} has a gap before {member}"
            raise ValueError(msg)
        self.members[member] = self.size, code
        self.size, self.align = self.size + count * size, max(self.align, align)

    @property
    def words(self) -> int:
        """Its size in 64-bit words, of a struct of counters."""
        return self.size // 8

    def offset(self, member: str) -> int:
        """Where a member begins, in bytes; of an inner struct's ``outer.inner``."""
        return self.members[member][0]

    def word(self, member: str) -> int:
        """Where a member begins, in 64-bit words."""
        return self.offset(member) // 8

    def reader(self, *members: str) -> Struct:
        """The decoder of some members only, named in order as for offset()."""
        form, end = "=", 0
        for at, code in map(self.members.__getitem__, members):
            form += f"{at - end}x{code}"
            end = at + Struct(f"={code}").size
        return Struct(f"{form}{self.size - end}x")


def declarations(layouts: Iterable[Layout]) -> str:
    """The C declarations of structs, each after its inner ones and once."""
    return "".join(dict.fromkeys(each.text for each in _with_inner(layouts)))


def _with_inner(layouts: Iterable[Layout]) -> Iterator[Layout]:
    for layout in layouts:
        yield from _with_inner(layout.inner)
        yield layout
