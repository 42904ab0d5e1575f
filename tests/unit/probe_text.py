"""A probe's C source as far as tests need it: preprocessed, its maps, its undefined constants.

This needs no compiler, so the tests run where there is none.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ioh.bpf.compiler import probe_source
from ioh.bpf.maps import MapSpec
from ioh.bpf.program import all_defines, choose_points
from ioh.layers import find_probe
from ioh.model.filters import Filters
from ioh.model.sample import Unavailable
from tests.unit.fake_kernel import HERE, linux_6_18

_TYPES: dict[str, Any] = {
    "u8": ctypes.c_uint8,
    "char": ctypes.c_char,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "s64": ctypes.c_int64,
}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# Names that the compiler and bcc's own helpers define.
_FOREIGN = re.compile(r"NULL|BPF_[A-Z_]+")


class ProbeText:
    """One probe's source, preprocessed with the given ``-D`` constants."""

    def __init__(self, name: str, defines: Mapping[str, int]) -> None:
        self.defines = dict(defines)
        self.macros: dict[str, str] = {}
        self.functions: dict[str, str] = {}  # macros with arguments
        self.code = self._preprocess(probe_source(find_probe(name)))

    def _preprocess(self, source: str) -> str:
        source = re.sub(r"/\*.*?\*/", " ", source, flags=re.DOTALL).replace("\\\n", " ")
        kept: list[str] = []
        taken: list[bool] = []
        for line in source.split("\n"):
            words = line.split(None, 2)
            if not words or not words[0].startswith("#"):
                if all(taken):
                    kept.append(line)
            elif words[0] in {"#ifdef", "#ifndef"}:
                known = words[1] in self.defines or words[1] in self.macros
                taken.append(known == (words[0] == "#ifdef"))
            elif words[0] == "#else":
                taken[-1] = not taken[-1]
            elif words[0] == "#endif":
                taken.pop()
            elif words[0] == "#define" and all(taken):
                self._define(line)
            elif all(taken):
                assert words[0] == "#pragma", line
        assert taken == []
        return "\n".join(kept)

    def _define(self, line: str) -> None:
        match = re.match(r"\s*#define\s+(\w+)(\([^)]*\))?\s*(.*)", line)
        assert match, line
        (self.functions if match[2] else self.macros)[match[1]] = match[3]

    def number(self, text: str) -> int:
        """Evaluate a constant expression."""
        while names := _IDENTIFIER.findall(re.sub(r"0x[0-9a-fA-F]+", "0", text)):
            for name in names:
                value = self.defines.get(name, self.macros.get(name))
                assert value is not None, f"{name} is no constant"
                text = re.sub(rf"\b{name}\b", f"({value})", text)
        return int(eval(text))

    def _type(self, kind: str) -> Any:
        """A C type as ctypes lays it out."""
        if kind in _TYPES:
            return _TYPES[kind]
        body = re.search(rf"\b{kind} \{{([^}}]*)\}};", self.code)
        assert body, f"no {kind}"
        fields = []
        for of, names in re.findall(r"(struct \w+|\w+) ([^;]+);", body[1]):
            for member, count in re.findall(r"(\w+)(?:\[([^\]]+)\])?", names):
                inner = self._type(of)
                fields.append((member, inner * self.number(count) if count else inner))
        return type(kind, (ctypes.Structure,), {"_fields_": fields})

    def maps(self) -> list[MapSpec]:
        """Every map that the probe declares, as the loader would report it."""
        kinds = {"BPF_HASH": 1, "BPF_ARRAY": 2, "BPF_PROG_ARRAY": 3, "BPF_PERCPU_ARRAY": 6}
        found = []
        for macro, inside in re.findall(r"(?m)^(BPF_[A-Z_]+)\((.*)\);$", self.code):
            args = [arg.strip() for arg in inside.split(",")]
            if macro == "BPF_TABLE":
                kind = {'"percpu_hash"': 5, '"lru_hash"': 9}[args[0]]
                key, value, name = args[1:4]
            elif macro == "BPF_HASH":
                kind, name, key, value = 1, args[0], args[1], args[2]
            else:
                kind, name, key = kinds[macro], args[0], "u32"
                value = "u32" if macro == "BPF_PROG_ARRAY" else args[1]
            key_size, value_size = (ctypes.sizeof(self._type(each)) for each in (key, value))
            found.append(MapSpec(name, kind, key_size, value_size, self.number(args[-1])))
        return found

    def has_function(self, name: str) -> bool:
        """Whether this program exists with the given constants."""
        pattern = rf"(?m)^int {name}\(struct bpf_raw_tracepoint_args \*ctx\)$"
        return re.search(pattern, self.code) is not None

    def undefined(self) -> set[str]:
        """Constants that the remaining code uses but nobody has defined."""
        used = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", self.code))
        used |= set(re.findall(r"\b(?:OFF|SYS|FILTER)_\w+", self.code))
        for macro, prefix in (
            ("FIELD", "OFF_"),
            ("FOLLOW", "OFF_"),
            ("PART", "OFF_"),
            ("ARGUMENT", "OFF_pt_regs_"),
        ):
            for args in self._uses_of(macro):
                used.add(prefix + self.macros.get(args[-1], args[-1]))
        for macro, place in (("PART", 2), ("READ_PART", 1), ("PEEK", 2)):
            for args in self._uses_of(macro):
                used.discard(args[place])
                used |= self._names_of_kind(macro, args[place])
        enums = " ".join(re.findall(r"\benum \{([^}]*)\}", self.code))
        known = (
            set(_IDENTIFIER.findall(enums))
            | self.defines.keys()
            | self.macros.keys()
            | self.functions.keys()
        )
        return {name for name in used - known if not _FOREIGN.fullmatch(name)}

    def _names_of_kind(self, macro: str, kind: str) -> set[str]:
        """The names that a macro makes from the kind of struct that it is given."""
        if "CASTS" in self.defines:
            return {f"TYPE_{kind}"}
        return set() if macro == "PEEK" else {f"{kind}_BASE", f"{kind}_SPAN"}

    def _uses_of(self, macro: str) -> Iterator[list[str]]:
        """The arguments of each use of a macro."""
        for match in re.finditer(rf"\b{macro}\(", self.code):
            depth, args = 1, [""]
            for char in self.code[match.end() :]:
                depth += (char == "(") - (char == ")")
                if depth == 0:
                    break
                if char == "," and depth == 1:
                    args.append("")
                else:
                    args[-1] += char
            yield [arg.strip() for arg in args]


def text_of(name: str, cpus: int = 4) -> ProbeText:
    """A layer's probe as compiled for a kernel that has everything."""
    probe, host = find_probe(name), linux_6_18().host(cpus=cpus)
    chosen = choose_points(probe.events, host)
    assert not isinstance(chosen, Unavailable), f"{chosen.reason}; {HERE}"
    defines = all_defines(probe, host, Filters(), chosen)
    assert not isinstance(defines, Unavailable), f"{defines.reason}; {HERE}"
    return ProbeText(name, defines)
