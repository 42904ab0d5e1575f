"""Kernel tests are collected only with IOH_KERNEL_TESTS=1: left out, never skipped and green.

Those in ``tests/vm`` are collected only inside the virtual machine that they need.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# What a terminal can show, and how Python writes to one, are the same in every test run: pictures
# are compared byte by byte, and a stream that is not buffered hides what is left in the buffer.
os.environ.update(TERM="xterm", LANG="C.UTF-8", LC_ALL="C.UTF-8")
os.environ["XDG_CONFIG_HOME"] = "/proc/none"  # nobody's settings are read, none can be written
for name in ("COLORTERM", "NO_COLOR", "COLUMNS", "LINES", "PYTHONUNBUFFERED"):
    os.environ.pop(name, None)

# A background job of a shell and nohup ignore these, and each program started here would, too.
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
    """A handler that a test leaves behind is every later test's, and of the programs it starts."""
    before = [signal.getsignal(number) for number in _SIGNALS]
    yield
    after = [signal.getsignal(number) for number in _SIGNALS]
    for number, handler in zip(_SIGNALS, before, strict=True):
        signal.signal(number, handler)
    assert after == before


# How long an example takes is a matter for tests/bench: a busy machine is no fault.
settings.register_profile("untimed", deadline=None, max_examples=50)
settings.load_profile("untimed")

# They compare for the tests: say what differs, as a test does.
pytest.register_assert_rewrite("tests.kernel.rig", "tests.kernel.fio_truth", "tests.kernel.direct")

KERNEL_TESTS = (Path(__file__).parent / "kernel", Path(__file__).parent / "scenarios")
VM_TESTS = Path(__file__).parent / "vm"
ASKED_FOR = os.environ.get("IOH_KERNEL_TESTS") == "1"
IN_VM = os.environ.get("IOH_IN_VM") == "1"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave ``tests/kernel`` and ``tests/scenarios`` out; None lets other rules decide."""
    if not ASKED_FOR and any(map(collection_path.is_relative_to, KERNEL_TESTS)):
        return True
    # They make the scratch disk of the virtual machine a file system of theirs.
    if not IN_VM and collection_path.is_relative_to(VM_TESTS):
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A kernel test named on the command line is an error without the variable, not a no-op."""
    needs_root = any(item.path.is_relative_to(folder) for item in items for folder in KERNEL_TESTS)
    if not ASKED_FOR and needs_root:
        msg = "kernel tests need root and IOH_KERNEL_TESTS=1"
        raise pytest.UsageError(msg)
    if not IN_VM and any(item.path.is_relative_to(VM_TESTS) for item in items):
        msg = "these tests run in a virtual machine only: ./ioh.sh --test-vm"
        raise pytest.UsageError(msg)
