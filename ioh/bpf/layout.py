"""C structs that a probe writes and Python reads: declared here once, for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

_CODES = {"u8": "B", "char": "s", "u16": "H", "u32": "I", "u64": "Q", "s64": "q"}


class Layout:
    """A struct: its C declaration for the compiler, its decoder for Python.

    Shape:
        ``Layout("flow", count="u64", comm="char[16]")``.  Members are in order; a type is one of
        _CODES, or the name of an ``inner`` layout.  ``unpack`` and its like, as those of a Struct,
        have a number for each number, and bytes for u8 and char arrays and for inner structs.

    Raises:
        ValueError: The compiler would leave a gap: reorder the members, or name the gap.
    """

    def __init__(self, name: str, /, *inner: Layout, **members: str) -> None:
        self.name, self.inner, self.size, self.align = name, inner, 0, 1
        self.members: dict[str, tuple[int, str]] = {}  # offset and format
        lines = [self._add(member, declared) for member, declared in members.items()]
        if self.size % self.align:
            msg = f"struct {name} has a gap at its end"
            raise ValueError(msg)
        self.text = f"struct {name} {{\n{''.join(lines)}}};\n"
        whole = self.reader(*members)
        self.pack, self.unpack = whole.pack, whole.unpack
        self.unpack_from, self.iter_unpack = whole.unpack_from, whole.iter_unpack

    def _add(self, member: str, declared: str) -> str:
        """Add a member; return its line in C."""
        kind, _, dimension = declared.rstrip("]").partition("[")
        count, kinds = int(dimension or 1), {each.name: each for each in self.inner}
        if layout := kinds.get(kind):
            size, align, code = layout.size, layout.align, f"{count * layout.size}s"
            if not dimension:
                for part, (at, form) in layout.members.items():
                    self.members[f"{member}.{part}"] = self.size + at, form
        else:
            size = align = Struct(f"={_CODES[kind]}").size
            is_text = kind == "char" or (kind == "u8" and dimension)
            code = f"{count}{'s' if is_text else _CODES[kind]}"
        if self.size % align:
            msg = f"struct {self.name} has a gap before {member}"
            raise ValueError(msg)
        self.members[member] = self.size, code
        self.size, self.align = self.size + count * size, max(self.align, align)
        array = f"[{dimension}]" if dimension else ""
        return f"\t{'struct ' if layout else ''}{kind} {member}{array};\n"

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
