"""Any function of any program as an operation of layer ``db``: each call is counted exactly."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kernel import rig
from tests.kernel.rig import START_S, Ioh, recording
from tests.kernel.talker import Talker, wait_until
from tests.kernel.test_lifecycle import PROG_GET_NEXT_ID, Traces, ids

# The interpreter exports it, but never calls it; it ignores its arguments.
FUNCTION = "PyFloat_GetMax"
# Begins with a push, as most functions do.  The kernel need not single-step a push after the trap;
# stepping takes many times as long in a virtual machine.  Each interpreter calls it as it begins.
QUICK = "Py_GetVersion"
# Each input line, "COUNT BYTES", asks for so many calls; the answer is the time they took.
CALLER = """\
import ctypes, sys, time
call = ctypes.pythonapi[sys.argv[1]]
call.restype = None
for line in sys.stdin:
    count, size = map(int, line.split())
    began = time.monotonic()
    for _ in range(count):
        call(ctypes.c_long(size))
    print(time.monotonic() - began, flush=True)
"""
# Begins operations that a second thread ends; the answer is how many bytes they had.
HANDED_ON = """\
import ctypes, sys, threading
begin, end = ctypes.pythonapi.PyFloat_GetMax, ctypes.pythonapi.PyFloat_GetMin
begin.restype = end.restype = None
sys.stdin.readline()
sizes = [-5 if at % 10 == 0 else 512 * at for at in range(100)]
of_each = [(ctypes.c_void_p((127 << 40) + 8 * at), size) for at, size in enumerate(sizes)]
def finish():
    for one, size in of_each:
        end(one, ctypes.c_int(size))
for one, _ in of_each:
    begin(one)
thread = threading.Thread(target=finish)
thread.start()
thread.join()
print(sum(max(0, size) for size in sizes), flush=True)
sys.stdin.readline()
"""
PROBE = f'[[probe]]\nop = "look"\nstart = "function:{FUNCTION}"\n'
PYTHON = str(Path(sys.executable).resolve())


class Caller(Talker):
    """A program that calls the function as often as asked."""

    def __init__(self, *prefix: str, program: str = PYTHON, function: str = FUNCTION) -> None:
        super().__init__(*prefix, program, "-I", "-S", "-c", CALLER, function)

    def call(self, count: int, size: int = 0) -> float:
        """Seconds that the calls took."""
        return float(self.ask(f"{count} {size}"))


@pytest.fixture
def caller() -> Iterator[Caller]:
    with Caller() as made:
        yield made


def servers_of(ioh: Ioh, name: str) -> set[str]:
    """Names of the servers counted so far, if they begin with ``name``."""
    layers = (interval["layers"]["db"] for interval in ioh.intervals_of("db"))
    names = {each for layer in layers for each in layer["parts"].get("server", ())}
    return {each for each in names if each.startswith(name)}


def wait_for_servers(ioh: Ioh, count: int) -> None:
    """Wait until ioh is attached: to so many servers, or (0) to a program given by path."""
    ioh.wait_for_lines(1)

    def is_attached() -> bool:
        ioh.settle()
        layer = ioh.intervals[-1]["layers"].get("db", {})
        is_known = layer.get("ops", {}).get("look", {}).get("count") is not None
        return is_known and layer["metrics"]["servers"] >= count

    wait_until(is_attached, START_S, why=lambda: ioh.raw[-2000:])


def functions_file(folder: Path, program: str, probes: str) -> Path:
    path = folder / "functions.toml"
    path.write_text(f'title = "a program"\nbinaries = ["{program}"]\n{probes}')
    return path


def test_each_call_counts_once(caller: Caller) -> None:
    with recording("--layers", "db", "--function", f"look={PYTHON}:{FUNCTION}") as ioh:
        wait_for_servers(ioh, 0)
        spent_s = 0.0
        for count in (*[100] * 12, 34):
            spent_s += (took_s := caller.call(count))
            time.sleep(took_s * 12)  # a pace: in a slow machine the traps would be too dear
    assert ioh.total("db", "look") == 1234
    assert 0 < ioh.latency_us("db", "look") < spent_s / 1234 * 1e6
    hist = [sum(map(sum, n["hist"]["counts"])) for n in ioh.ops("db", "look") if n["count"]]
    assert sum(hist) == 1234
    assert not ioh.lost("db")


def test_an_argument_gives_the_sizes(caller: Caller, tmp_path: Path) -> None:
    probe = f'[[probe]]\nop = "look"\nstart = "function:{FUNCTION}"\nbytes = 1\nscale = 512\n'
    path = functions_file(tmp_path, PYTHON, f'{probe}bytes_at = "start"\n')
    with recording("--layers", "db", "--functions", str(path)) as ioh:
        wait_for_servers(ioh, 0)
        caller.call(100, 8)
        caller.call(11, 256)
    assert ioh.total("db", "look") == 111
    assert ioh.total("db", "look", "bytes") == (100 * 8 + 11 * 256) * 512
    assert ioh.sizes("db", "look") == {4096: 100, 131072: 11}


def test_an_operation_may_begin_and_end_in_different_threads(tmp_path: Path) -> None:
    """Start and end share an address, as in asynchronous I/O; calls that only wait do not count."""
    path = functions_file(
        tmp_path,
        PYTHON,
        """[[probe]]
        op = "look"
        start = "function:PyFloat_GetMax"
        done = "function:PyFloat_GetMin"
        key = 1
        bytes = 2
        bytes_is_int = true
        [[probe]]
        op = "look"
        start = "function:PyFloat_GetMin"
        is_wait = true
        """,
    )
    with (
        Talker(PYTHON, "-I", "-S", "-c", HANDED_ON) as made,
        recording("--layers", "db", "--functions", str(path)) as ioh,
    ):
        wait_for_servers(ioh, 0)
        moved = int(made.ask())
        ioh.settle()
    assert ioh.total("db", "look") == 100
    assert ioh.total("db", "look", "bytes") == moved


def test_a_program_in_a_mount_namespace_of_its_own_is_counted(tmp_path: Path) -> None:
    """As in a container: the path does not exist outside."""
    hidden, name = tmp_path / "hidden", f"iohc{os.getpid()}"  # no other test's program
    hidden.mkdir()
    script = f'mount -t tmpfs none {hidden} && cp "$0" {hidden}/{name} && exec "$@"'
    prefix = ("unshare", "--mount", "--pid", "--fork", "sh", "-c", script, PYTHON)
    path = functions_file(tmp_path, name, PROBE)
    with recording("--layers", "db", "--functions", str(path)) as ioh:
        program = f"{hidden}/{name}"
        with Caller(*prefix, program=program) as first, Caller(*prefix, program=program) as second:
            while len(servers_of(ioh, name)) < 2:  # others of this machine may be watched, too
                for caller in (first, second):
                    caller.call(1)
                ioh.settle()
            before = ioh.total("db", "look")
            first.call(300)
            second.call(21)
    assert not (hidden / name).exists()
    assert ioh.total("db", "look") - before == 321
    assert len(servers_of(ioh, name)) == 2


@pytest.fixture
def sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `sudo ioh` of a user."""
    monkeypatch.setenv("SUDO_UID", "12345")


@pytest.mark.usefixtures("sudo")
def test_a_file_that_the_caller_cannot_read_is_not_opened(folder: Path) -> None:
    (folder / "roots").mkdir(mode=0o700)
    for name in ("program", "closed"):
        shutil.copy(PYTHON, folder / "roots" / name)
    closed = folder / "closed"
    shutil.move(folder / "roots" / "closed", closed)
    closed.chmod(0o711)
    fifo = folder / "fifo"
    os.mkfifo(fifo, 0o644)
    for path, why in (
        (folder / "roots" / "program", "Permission denied"),
        (closed, "Permission denied"),
        (fifo, "it is not a regular file"),
        (Path("/dev/loop-control"), "it is not a regular file"),
    ):
        file = functions_file(folder, str(path), PROBE)
        file.chmod(0o644)
        done = rig.ioh_ended("json", "-t", "1", "--layers", "db", "--functions", str(file))
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{path} cannot be watched: {why}. " in done.stderr


@pytest.mark.parametrize("mode", [0o755, 0o700])
@pytest.mark.usefixtures("sudo")
def test_a_program_known_by_name_is_watched_if_the_caller_can_read_it(
    folder: Path, mode: int
) -> None:
    name = f"iohn{os.getpid()}"
    (folder / "roots").mkdir(mode=mode)
    program = shutil.copy(PYTHON, folder / "roots" / name)
    path = functions_file(folder, name, PROBE)
    path.chmod(0o644)
    with (
        Caller(program=str(program)) as caller,
        recording("--layers", "db", "--functions", str(path)) as ioh,
    ):
        if mode == 0o755:
            wait_for_servers(ioh, 1)
            caller.call(300)
        else:
            wait_until(lambda: notes_of(ioh), START_S, why=lambda: ioh.raw[-2000:])
            caller.call(300)
    assert (ioh.total("db", "look") == 300) == (mode == 0o755)
    if mode != 0o755:
        why = f"a server is not counted: a program: the caller cannot read {program}"
        assert notes_of(ioh) == [why]


def test_a_killed_ioh_leaves_nothing_attached(caller: Caller) -> None:
    with Ioh("--layers", "db", "--function", f"look={PYTHON}:{FUNCTION}") as ioh:
        wait_for_servers(ioh, 0)
        traced_s = caller.call(20_000)
        traces = Traces(ioh.process.pid)
        assert traces.programs
        assert traces.programs <= ids(PROG_GET_NEXT_ID)
        os.kill(ioh.process.pid, signal.SIGKILL)
    traces.assert_gone()
    assert caller.call(20_000) < traced_s / 2  # no trap any more


@pytest.mark.parametrize(("dear", "cheap"), [(QUICK, FUNCTION), (FUNCTION, QUICK)])
@pytest.mark.parametrize("cycle_s", [0.1, 3.0])
def test_a_function_that_is_called_too_often_is_detached(
    tmp_path: Path, dear: str, cheap: str, cycle_s: float
) -> None:
    """Within two seconds, also in a long interval; the other function stays attached."""
    probes = "".join(
        f'[[probe]]\nop = "{op}"\nstart = "function:{function}"\n'
        for op, function in (("look", dear), ("see", cheap))
    )
    path = functions_file(tmp_path, PYTHON, probes)
    first = "nice", "-n", "-20"  # what the machine does besides takes no time of theirs
    with (
        Caller(*first, function=dear) as one,
        Caller(*first, function=dear) as other,
        ExitStack() as stack,
    ):
        free_s = min(one.call(10_000) for _ in range(20))
        options = "--layers", "db", "--functions", str(path)
        ioh = stack.enter_context(recording(*options, cycle_s=cycle_s))
        wait_for_servers(ioh, 0)
        began, taken_s = time.monotonic(), free_s * 3
        while taken_s >= free_s * 3:  # a call with a trap takes ten times as long
            assert time.monotonic() - began < START_S
            for caller in (one, other):
                caller.tell("10000 0")
            taken_s = min([float(caller.line()) for caller in (one, other)])
        lasted_s = time.monotonic() - began
        wait_until(lambda: notes_of(ioh), START_S, why=lambda: ioh.raw[-2000:])
        ioh.settle()
    assert lasted_s < 6 * slowness()  # on a busy machine
    (note,) = notes_of(ioh)
    said = r"look is not counted for 10 minutes: that takes (\d+)% of a CPU"
    found = re.fullmatch(said, note)
    assert found is not None, note
    assert int(found[1]) > 10
    counts = {op: [n["count"] for n in ioh.ops("db", op)][-1] for op in ("look", "see")}
    assert counts["look"] is None
    assert counts["see"] is not None


def costs(ioh: Ioh) -> list[float]:
    """The probes' share of a core in the intervals that know it."""
    shares = (interval["ioh"]["bpf_cpu_pct"] for interval in ioh.intervals)
    return [share for share in shares if share is not None]


def slowness() -> float:
    """How many times slower than a usual machine this one is: emulated ones are."""
    began = time.process_time()
    sum(range(3_000_000))
    return max(1.0, (time.process_time() - began) / 0.1)


def test_the_probes_cost_contains_the_traps(caller: Caller) -> None:
    """Of a function whose traps take less than is too much."""
    with recording("--layers", "db", "--function", f"look={PYTHON}:{FUNCTION}") as ioh:
        wait_for_servers(ioh, 0)
        began, count = time.monotonic(), 100
        # The cost is measured every ten seconds.
        while time.monotonic() - began < 13 or not (
            time.monotonic() - began > START_S or costs(ioh)
        ):
            spent_s = caller.call(count)
            count = max(1, round(count * 0.0025 / spent_s))  # about 5 % of the time, all in all
            time.sleep(0.05)
    shares = costs(ioh)
    assert max(shares) > 0.1


def notes_of(ioh: Ioh) -> list[str]:
    notes: list[str] = ioh.intervals[-1]["layers"].get("db", {"notes": []})["notes"]
    return notes
