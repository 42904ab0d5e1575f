"""Collect kernel tests only with IOH_KERNEL_TESTS=1: they are left out, never skipped and green.

Tests in ``tests/vm`` are collected only inside the virtual machine that they need.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from ioh.model.finding import Failed

# Every run has the same terminal capabilities and the same output buffering: pictures are compared
# byte by byte, and an unbuffered stream would hide output that is left in a buffer.
os.environ.update(TERM="xterm", LANG="C.UTF-8", LC_ALL="C.UTF-8")
os.environ["XDG_CONFIG_HOME"] = "/proc/none"  # no user's settings are read, none can be written
for name in ("COLORTERM", "NO_COLOR", "COLUMNS", "LINES", "PYTHONUNBUFFERED"):
    os.environ.pop(name, None)

# Background jobs and nohup ignore these signals; programs started here would inherit that.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:
        is_interrupt = number == signal.SIGINT
        signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)

_SIGNALS = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGTERM,
    signal.SIGALRM,
    signal.SIGPIPE,
)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Restore signal handlers, and fail a test that leaves one behind.

    Later tests, and the programs they start, would inherit it.
    """
    before = [signal.getsignal(number) for number in _SIGNALS]
    yield
    after = [signal.getsignal(number) for number in _SIGNALS]
    for number, handler in zip(_SIGNALS, before, strict=True):
        signal.signal(number, handler)
    assert after == before


@pytest.fixture(autouse=True)
def no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails in a rule or a path fails the test; users get a note and the rest."""

    def fail(error: Exception, *_: str) -> Failed:
        raise error

    monkeypatch.setattr(Failed, "by", fail)


# Examples have no deadline: a busy machine is no failure, and tests/bench measures time.
settings.register_profile("untimed", deadline=None, max_examples=50)
settings.load_profile("untimed")

# Their asserts work on behalf of tests, and must show what differs, as a test does.
pytest.register_assert_rewrite("tests.kernel.rig", "tests.kernel.fio_truth", "tests.kernel.direct")

KERNEL_TESTS = (Path(__file__).parent / "kernel", Path(__file__).parent / "scenarios")
VM_TESTS = Path(__file__).parent / "vm"
ASKED_FOR = os.environ.get("IOH_KERNEL_TESTS") == "1"
IN_VM = os.environ.get("IOH_IN_VM") == "1"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out kernel tests, scenarios and VM tests; None lets other rules decide."""
    if not ASKED_FOR and any(map(collection_path.is_relative_to, KERNEL_TESTS)):
        return True
    # They format the scratch disk of the virtual machine.
    if not IN_VM and collection_path.is_relative_to(VM_TESTS):
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a kernel test named on the command line without the variable; do not ignore it."""
    needs_root = any(item.path.is_relative_to(folder) for item in items for folder in KERNEL_TESTS)
    if not ASKED_FOR and needs_root:
        msg = "kernel tests need root and IOH_KERNEL_TESTS=1"
        raise pytest.UsageError(msg)
    if not IN_VM and any(item.path.is_relative_to(VM_TESTS) for item in items):
        msg = "these tests run in a virtual machine only: ./ioh.sh --test-vm"
        raise pytest.UsageError(msg)
