"""Fuzz the reading of recordings: nonsense with valid checksums.

Usage: ./ioh.sh --fuzz [SECONDS [SEED]], or ``make fuzz``

Each input is a good recording changed in a few places, at the level of records and their contents.
ioh must end with an error of its own or with harmless output, within LIMIT_S and LIMIT_BYTES.
A recording that breaks this is kept in tests/data/fuzz, which the unit tests read again.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ioh.commands import main
from ioh.model.errors import IohError
from ioh.session.frame import MAX_PLAIN_BYTES, Kind, make_frame
from ioh.session.packing import FOR_MEMORY, Packer, Unpacker
from ioh.session.reader import Session
from tests.support import demo_samples, fakes
from tests.support.hostile_recordings import frames
from tests.support.sessions import recorded, small

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests/data/fuzz"
LIMIT_S, LIMIT_BYTES = 2.0, 150 << 20
_MOST_BYTES = 100 << 20  # of a recording: the limits hold up to this size
_OWN_BYTES = 45 << 20  # of Python and ioh's modules, before a byte is read
_EXAMPLES = 50
Record = tuple[int, int, float, object]  # kind, number, time, content
_VALUES: tuple[object, ...] = (
    0, 1, -1, 2, 25, 127, 255, 65_535, 1 << 20, (1 << 31) - 1, 1 << 40, (1 << 63) - 1,
    (1 << 64) - 1, -(1 << 63), None, True, 0.5, 1e308, float("inf"), float("nan"), b"", b"x",
    b"\xff\xfe", "", "x", "\x1b[31m", b"y" * 9000, [], {}, [[]], [0] * 3000, [[0, b"a"]] * 300,
)  # fmt: skip


def _decoded(plain: bytes) -> object:
    return msgspec.msgpack.decode(plain) if plain else None


@cache
def bases() -> list[list[Record]]:
    """Good recordings, split into records."""
    found = []
    records: list[Record]
    for data in (
        recorded(small(8), note="n"),
        recorded(fakes.first(4)),
        recorded(demo_samples.samples()[:3]),
    ):
        unpacker, records = Unpacker(), []
        for frame in frames(data):
            own = unpacker if frame.kind in {Kind.WHOLE, Kind.DELTA} else Unpacker()
            plain = own.unpack(frame.payload, begins=frame.kind != Kind.DELTA)
            records.append((frame.kind, frame.number, frame.time_unix_s, _decoded(plain)))
        found.append(records)
    return found


def _places(found: object) -> list[tuple[object, object]]:
    """Every list and map in an object, with each of its keys."""
    places: list[tuple[object, object]] = []
    if isinstance(found, list):
        places += [(found, at) for at in range(len(found))]
    elif isinstance(found, dict):
        places += [(found, key) for key in found]
    for inner, key in list(places):
        places += _places(inner[key])  # type: ignore[index]
    return places


def _change_content(content: object, random: Random) -> object:
    places = _places(content)
    if not places or random.random() < 0.05:
        return copy.deepcopy(random.choice(_VALUES))
    holder, key = random.choice(places)
    what = random.randrange(6)
    if what <= 2:
        holder[key] = copy.deepcopy(random.choice(_VALUES))  # type: ignore[index]
    elif isinstance(holder, list):
        assert isinstance(key, int)
        if what == 3:
            del holder[key]
        elif what == 4:
            times = random.choice((1, 2, 40, 1000))
            holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(times)]
        else:
            holder[key] = copy.deepcopy(holder[random.randrange(len(holder))])
    elif isinstance(holder, dict):
        holder.pop(key) if what == 3 else holder.update({random.choice(("x", key)): 0})
    return content


def _changed(records: list[Record], random: Random) -> list[Record]:
    made = copy.deepcopy(records)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        at = random.randrange(len(made))
        kind, number, when, content = made[at]
        what = random.random()
        if what < 0.7:
            content = _change_content(content, random)
        elif what < 0.76:
            number = random.choice((0, 1, number + 1, number + 5, -1)) % 2**32
        elif what < 0.8:
            when = random.choice((0.0, 1e9, 2e11, float("nan"), -1.0))
        elif what < 0.85:
            kind = random.choice(made)[0]
        elif what < 0.9:
            made[at:at] = [made[at]] * random.choice((1, 3, 200))
            continue
        elif what < 0.95 and len(made) > 1:
            del made[at]
            continue
        made[at] = (kind, number, when, content)
    return made


def _encoded(content: object) -> bytes:
    with contextlib.suppress(OverflowError, TypeError, ValueError):
        plain = msgspec.msgpack.encode(content)
        return plain if len(plain) <= MAX_PLAIN_BYTES else b""
    return b""


def _joined(records: list[Record]) -> bytes:
    stream, data = Packer(FOR_MEMORY), bytearray()
    for kind, number, when, content in records:
        packer = stream if kind in {Kind.WHOLE, Kind.DELTA} else Packer(FOR_MEMORY)
        payload = packer.pack(_encoded(content), begins=kind != Kind.DELTA)
        data += make_frame(kind, number, when, payload)
    return bytes(data)


def _with_bytes_changed(data: bytes, random: Random) -> bytes:
    hurt = bytearray(data)
    for _ in range(random.randrange(1, 4)):
        at, size = random.randrange(len(hurt) + 1), random.choice((1, 1, 16, 4096))
        junk = random.choice((bytes(size), random.randbytes(size), b"\xf6IOH" * (size // 4)))
        what = random.randrange(4)
        end = at + (size if what < 2 else 0)
        hurt[at:end] = junk if what else b""
    return bytes(hurt)


def made(random: Random) -> bytes:
    """One malicious recording."""
    data = _joined(_changed(random.choice(bases()), random))[:_MOST_BYTES]
    return _with_bytes_changed(data, random) if random.random() < 0.2 else data


def _look_around(path: str) -> None:
    with contextlib.suppress(IohError), Session(path) as session:
        for tick in (0, len(session) // 2, len(session) - 1):
            session.sample_at(tick)
        session.tick_at(session.end_unix_s)
        session.marks()
        session.gaps()


def assert_harmless(data: bytes) -> None:
    """Read a recording in every way: each must end cleanly, soon, and within available memory."""
    with tempfile.TemporaryDirectory(prefix="ioh-fuzz-") as folder:
        path, new = f"{folder}/x.ioh", f"{folder}/new.ioh"
        Path(path).write_bytes(data)
        uses: list[Callable[[], object]] = [
            lambda: _look_around(path),
            lambda: main(["text", path, "-d", "all"]),
            lambda: main(["json", path]),
            lambda: main(["report", path]),
            lambda: main(["verify", path, "--repair", new]),
            lambda: _from_pipe(path),
        ]
        for use in uses:
            out = io.StringIO()
            began = time.process_time()
            with _quiet(), contextlib.redirect_stderr(out):
                use()
            spent_s = time.process_time() - began
            assert spent_s < LIMIT_S, f"{spent_s:.1f} s"
            assert "Traceback" not in out.getvalue()


def _from_pipe(path: str) -> None:
    stdin = os.dup(0)
    try:
        with Path(path).open("rb") as fed:
            os.dup2(fed.fileno(), 0)
        main(["text", "-"])
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)


@contextlib.contextmanager
def _quiet():  # type: ignore[no-untyped-def]  # noqa: ANN202
    """Redirect descriptor 1 to /dev/null."""
    kept = os.dup(1)
    nowhere = os.open("/dev/null", os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _assert_harmless_in_child(data: bytes) -> None:
    """Call assert_harmless() in a child process that cannot exceed LIMIT_BYTES of memory."""
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(30)
            _limit_memory()
            assert_harmless(data)
            status = 0
        except BaseException:  # noqa: BLE001 (printed, and reported by the status)
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"status {status}"


def _limit_memory() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = size + LIMIT_BYTES - _OWN_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run(seconds: float, number: int) -> None:
    """Fuzz for this many seconds; keep the first recording that fails, and raise."""
    sys.stdout.write(f"fuzz: {seconds:.0f} s, seed {number}\n")
    bases()  # built before the limit
    assert_harmless(_joined(bases()[0]))  # imports modules that are imported late
    until, tried = time.monotonic() + seconds, 0
    last = [b""]

    def use(chosen: int) -> None:
        last[0] = made(Random(chosen))
        _assert_harmless_in_child(last[0])

    limits = settings(
        max_examples=_EXAMPLES, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate,),
    )  # fmt: skip
    while time.monotonic() < until:
        try:
            seed(number)(limits(given(st.integers(0, (1 << 64) - 1))(use)))()
        except BaseException:
            CORPUS.mkdir(parents=True, exist_ok=True)
            kept = CORPUS / f"{hashlib.sha256(last[0]).hexdigest()[:12]}.ioh"
            kept.write_bytes(last[0])
            sys.stdout.write(f"fuzz: after {tried} or so, {kept} failed, seed {number}\n")
            raise
        tried += _EXAMPLES
        number += 1
    sys.stdout.write(f"fuzz: {tried} recordings, none did harm\n")


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *["3600", str(time.time_ns() % 1_000_000)][len(sys.argv) - 1 :]]
    run(float(arguments[0]), int(arguments[1]))
