"""Malicious recordings, for the tests of limits; and tools to forge them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec
import zstandard

from ioh.layers import all_layers
from ioh.session.frame import MARKER, MAX_PLAIN_BYTES, Frame, FrameScanner, Kind, make_frame
from ioh.session.packing import FOR_MEMORY, Packer, Unpacker
from tests.support.sessions import recorded, small

INF = float("inf")
WRONG: tuple[object, ...] = (None, "x", [], [[]], {"a": [1]}, 1e308)
UNIX_S = 2e9


def packed(record: object) -> bytes:
    """A record's payload."""
    return Packer(FOR_MEMORY).pack(msgspec.msgpack.encode(record))


def frames(data: bytes) -> list[Frame]:
    scanner = FrameScanner()
    scanner.feed(data)
    return [event for event in scanner.events(at_end=True) if isinstance(event, Frame)]


def begun(*records: tuple[int, bytes], number: int = 2) -> bytes:
    """A recording that begins well, followed by these records, all with the same number."""
    data = recorded(small(2))
    last = [frame for frame in frames(data) if frame.kind == Kind.DELTA][-1]
    return data[: last.end] + b"".join(make_frame(k, number, UNIX_S, raw) for k, raw in records)


def sample(is_whole: bool, changed: dict[str, object]) -> list[object]:
    """The fields of a sample in which nothing happens, some of them changed."""
    fields: dict[str, object] = {
        "mono_ns": 1 << 50, "layers": [], "removed": [], "added": [], "gaps": [], "incs": [],
        "set_gaps": [], "sets": [], "read_after": [],
        "start": [b"h", b"k", []] if is_whole else None,
    }  # fmt: skip
    return list((fields | changed).values())


def whole(**changed: object) -> tuple[int, bytes]:
    return Kind.WHOLE, packed(sample(True, changed))


def stream(
    count: int, start: dict[str, object] | None = None, **changed: object
) -> list[tuple[int, bytes]]:
    """A whole sample, empty unless ``start`` is given, and deltas that continue it."""
    packer = Packer(FOR_MEMORY)
    plain = msgspec.msgpack.encode(sample(False, changed))
    begin = packer.pack(msgspec.msgpack.encode(sample(True, start or {})))
    return [
        (Kind.WHOLE, begin),
        *((Kind.DELTA, packer.pack(plain, begins=False)) for _ in range(count)),
    ]


def numbered(records: list[tuple[int, bytes]], *before: tuple[int, bytes]) -> bytes:
    """begun() with the records ``before``, then ``records``, each with the next number."""
    return begun(*before) + b"".join(
        make_frame(kind, 2 + at, UNIX_S + at * 1e-6, raw) for at, (kind, raw) in enumerate(records)
    )


def layer(**changed: object) -> list[object]:
    """The shape of the layer that begun() has, with some fields changed."""
    fields: dict[str, object] = {
        "name": b"platter", "source": b"bpf", "reason": None, "hint": b"", "ops": [], "parts": [],
        "metrics": [], "lost": [], "gauge_hists": [], "notes": [], "is_idle": False,
    }  # fmt: skip
    return list((fields | changed).values())


def wide_layer() -> list[object]:
    """1,024 parts of 256 ops, each with both histograms."""
    ops = [[b"%d" % at, 2, 2] for at in range(256)]
    return layer(parts=[[b"%d" % at, ops] for at in range(1024)])


@cache
def zipped_zeros(size: int) -> bytes:
    near = zstandard.ZstdCompressionParameters.from_level(3, window_log=18, write_content_size=0)
    return zstandard.ZstdCompressor(compression_params=near).compress(bytes(size))


def index(entries: list[list[object]], offset: int, previous: int = -1) -> bytes:
    payload = packed([offset, previous, entries])
    return make_frame(Kind.INDEX, 2, UNIX_S, payload)


def equal_entries() -> bytes:
    """An index of 131,072 entries for the same offset, forty times."""
    data = begun()
    previous = -1
    for _ in range(40):
        at = len(data)
        data += index([[5, Kind.WHOLE, 0, 1.0]] * (1 << 17), at, previous)
        previous = at
    return data


def rising_entries() -> bytes:
    """Eight indexes, with an entry for each byte since the index before, up to 65,000."""
    data = begun()
    previous = -1
    for _ in range(8):
        at = len(data)
        data += bytes(60_000) + index([], 0)
        at = len(data)
        rising: list[list[object]] = [
            [previous + 1 + n, Kind.WHOLE, 0, 1.0] for n in range(min(65_000, at - previous - 1))
        ]
        data += index(rising, at, previous)
        previous = at
    return data


def spec(**changed: object) -> dict[str, object]:
    """A layer's description with some fields changed."""
    fields: dict[str, object] = {
        "name": "platter", "title": "T", "rank": 1, "ops": ["read"], "groups": {}, "metrics": [],
        "tables": [], "lost": [], "part": "", "gauge_hists": [],
    }  # fmt: skip
    return fields | changed


def with_spec(forged: dict[str, object], **changed: object) -> bytes:
    """A head with another description of the layer, and samples of that layer."""
    ops = [[b"read", 2, 2]]
    shape = layer(**{"ops": ops, "parts": [[b"sda", ops]], **changed})
    good = [
        head_of(forged),
        whole(layers=[[0, shape]]),
        whole(mono_ns=1 << 51, layers=[[0, shape]], gaps=[30], incs=[1]),
    ]
    data = begun()
    return data + b"".join(
        make_frame(kind, number, UNIX_S, raw)
        for number, (kind, raw) in zip((2, 2, 3), good, strict=True)
    )


def head_of(*specs: object) -> tuple[int, bytes]:
    """A head of these layers."""
    known = msgspec.msgpack.decode(Unpacker().unpack(frames(begun())[0].payload))
    return Kind.HEAD, packed([known[0], specs])


def of_block(count: int, parts: int, rows: int, table: str, **changed: object) -> bytes:
    """A recording of ioh's own block layer: parts with all histograms, and rows of a table."""
    spec = all_layers()["block"].spec
    ops = [[op.encode(), 2, 2] for op in spec.ops[:2]]
    shape = layer(name=b"block", ops=ops, parts=[[b"%d" % at, ops] for at in range(parts)])
    keys = len(next(found for found in spec.tables if found.name == table).keys)
    start: dict[str, object] = {
        "mono_ns": 1 << 50, "layers": [[0, shape]],
        "start": [b"h", b"k", [[0, table.encode()]]],
        "added": [[0, [b"%d" % at] * keys] for at in range(rows)],
    }  # fmt: skip
    return numbered(stream(count, start, **changed), head_of(spec))


def metric(name: str, kind: str, **changed: object) -> dict[str, object]:
    fields: dict[str, object] = {"name": name, "kind": kind, "help": "h"}
    return fields | changed


def many_heads() -> bytes:
    """200 heads, each of the largest size and with different content."""
    head = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompressobj().decompress(
        frames(begun())[0].payload
    ))  # fmt: skip
    specs = [spec(name=f"l{n}", ops=[f"op{i}" for i in range(256)]) for n in range(32)]
    heads = []
    for at in range(200):
        head[0]["note"] = b"%d" % at
        heads.append((int(Kind.HEAD), packed([head[0], specs])))
    return begun(*heads)


CASES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "random": lambda: bytes((i * i * 31 + i // 7) % 251 for i in range(2_000_000)),
    "markers": lambda: MARKER * 2_000_000,
    "markers behind a good beginning": lambda: begun() + MARKER * 2_000_000,
    "heads of huge records": lambda: begun()
    + make_frame(Kind.DELTA, 2, UNIX_S, b"x" * MAX_PLAIN_BYTES)[:40] * 50_000,
    "junk between frames": lambda: begun()
    + (b"junk" + make_frame(Kind.MARK, 2, UNIX_S, b"")) * 30_000,
    "tiny records": lambda: begun() + make_frame(ord("?"), 2, UNIX_S, b"") * 40_000,
    "bombs": lambda: begun(*[(Kind.WHOLE, zipped_zeros(256 << 20))] * 40),
    "wide lists": lambda: numbered(
        stream(30, gaps=[0] * 400_000, incs=[1] * 400_000, set_gaps=[0] * 400_000)
    ),
    "deep nesting": lambda: begun(
        *((kind, Packer(FOR_MEMORY).pack(b"\x91" * 1_000_000)) for kind in Kind)
    ),
    "a layer of a million ops": lambda: begun(whole(layers=[[0, wide_layer()]])),
    "many layers of many ops": lambda: begun(
        *[whole(layers=[[0, layer(parts=[[b"%d" % p, [[b"a", 2, 2], [b"b", 2, 2]]]
            for p in range(500)])]])] * 20
    ),
    "a layer that grows again and again": lambda: numbered(
        stream(60, layers=[[0, layer(ops=[[b"%d" % at, 2, 2] for at in range(200)])]])
    ),
    "many rows": lambda: begun(
        whole(
            layers=[[0, layer()]],
            start=[b"h", b"k", [[0, b"queue"]]],
            added=[[0, [b"%d" % at]] for at in range(20_001)],
        )
    ),
    "an index of equal entries": equal_entries,
    "indexes of every byte": rising_entries,
    "many heads": many_heads,
    "rows of jobs": lambda: of_block(12, 0, 10_000, "job", mono_ns=10**9),
    "every histogram changes every microsecond": lambda: of_block(
        60, 1000, 0, "job", mono_ns=1000, gaps=[19, *[949] * 2001], incs=[1] * 2002
    ),
    "every row changes every microsecond": lambda: of_block(
        60, 0, 4000, "process", mono_ns=1000, gaps=[1919, *[3] * 3999], incs=[1] * 4000
    ),
    "marks without end": lambda: begun(*[(Kind.MARK, packed([UNIX_S, b"m" * 1000]))] * 60_000),
    "marks that are bombs": lambda: begun(*[(Kind.MARK, zipped_zeros(4 << 20))] * 20_000),
    "no head": lambda: make_frame(Kind.WHOLE, 0, UNIX_S, packed(sample(True, {}))) * 20_000,
    "a chain without end": lambda: numbered(stream(20_000)),
    "wrong types": lambda: begun(*((kind, packed(bad)) for kind in Kind for bad in WRONG)),
    "marks beyond calendars": lambda: begun(
        *((Kind.MARK, packed([when, b"\x1b[2J"])) for when in (-1e18, 1e300, INF, float("nan")))
    ),
    "a host of infinities": lambda: begun(whole(set_gaps=[0, 0, 0], sets=[INF] * 3)),
    "layers out of order": lambda: begun(whole(layers=[[1, layer()]])),
    "counts that are none": lambda: begun(
        whole(layers=[[0, layer(ops=[[b"read", 2, 2]])]], set_gaps=[25], sets=[INF])
    ),
    "positions beyond the end": lambda: begun(whole(gaps=[1 << 40], incs=[1])),
    "rows that are none": lambda: begun(*stream(1, removed=[3]), number=2),
    "tables that are none": lambda: begun(whole(start=[b"h", b"k", [[9, b"queue"]]])),
    "groups of what is none": lambda: with_spec(spec(groups={"all": ["read", "nothing"]})),
    "groups of everything": lambda: with_spec(
        spec(
            ops=[f"op{at}" for at in range(256)],
            groups={f"g{at}": [f"op{n}" for n in range(256)] for at in range(256)},
        ),
        ops=[[b"op%d" % at, 2, 2] for at in range(256)],
    ),
    "ratios of what is none": lambda: with_spec(
        spec(metrics=[metric("x_pct", "ratio", numerator="nothing", denominator="neither")])
    ),
    "metrics that nothing describes": lambda: with_spec(spec(), metrics=[b"unknown_total"]),
    "a loss and a distribution that nothing describes": lambda: with_spec(
        spec(), lost=[b"why"], gauge_hists=[b"what"]
    ),
}  # fmt: skip
