"""The example layer in docs/contributing.md works as printed, and breaks no other test."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("ioh", "probes", "tests", "docs", "man", "contrib", "screenshots")
# The tests that check every layer.
CONTRACTS = (
    "test_layer_contract.py",
    "test_layer_read.py",
    "test_attach_choice.py::test_the_probe_is_whole_on_this_kernel",
    "test_attach_choice.py::test_a_member_that_is_missing_is_named_or_not_needed",
    "test_demo.py",
    "test_manual.py",
    "test_docs.py::test_every_layer_has_its_page",
    "test_docs.py::test_every_document_is_reached_from_the_readme",
)
# Skip the tests of other layers, and whether the manual is current: it was just generated.
AFFECTED = "not (syscall or nfs_ or tcp or block or generated_is_current)"
SHOWN = """
import sys
from dataclasses import replace
from ioh.layers import all_layers
from ioh.model.intervals import interval
from ioh.model.sample import LayerSample, OpTotals
from ioh.sinks.json import JsonSink
from ioh.sinks.text import TextSink
from tests.support import fakes

def sample(tick, count):
    spec = all_layers()["fs"].spec
    ops, rows = {"fdatasync": OpTotals(count_total=count)}, {("7", "fio"): (count, 1000 * count)}
    layer = LayerSample("bpf", ops, tables={"process": rows})
    return replace(fakes.sample(tick, {}), specs={"fs": spec}, layers={"fs": layer})

snapshot = interval(sample(0, 0), sample(1, 23))
sys.stderr.write(TextSink().render(snapshot))
print(JsonSink(None).render(snapshot))
"""


def example() -> dict[str, str]:
    """The example's files, by their path in the checkout."""
    text = (ROOT / "docs" / "contributing.md").read_text("utf-8")
    return dict(re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```\n", text, re.DOTALL))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with the example's files in it."""
    made = tmp_path_factory.mktemp("checkout")
    for name in COPIED:
        shutil.copytree(ROOT / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, made)
    for name, text in example().items():
        (made / name).write_text(text, "utf-8")
    with (made / "docs/layers/README.md").open("a") as pages:
        pages.write("[fs](fs.md)\n")
    run(made, "-m", "tests.make_manual")
    return made


def run(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)


def test_the_example_is_two_files_of_code_a_test_and_a_page() -> None:
    code, test = ("probes/fs.c", "ioh/layers/fs.py"), "tests/kernel/test_fs.py"
    assert tuple(example()) == (*code, test, "docs/layers/fs.md")


def test_it_passes_ruff_mypy_and_clang_format(checkout: Path) -> None:
    code = ("ioh/layers/fs.py", "tests/kernel/test_fs.py")
    run(checkout, "-m", "ruff", "check", *code)
    run(checkout, "-m", "ruff", "format", "--check", *code)
    run(checkout, "-m", "mypy", "--strict", *code)
    formatter = Path(sys.executable).with_name("clang-format")
    subprocess.run([formatter, "--dry-run", "-Werror", "probes/fs.c"], cwd=checkout, check=True)


def test_text_and_json_show_it(checkout: Path) -> None:
    done = run(checkout, "-c", SHOWN)
    told = json.loads(done.stdout)
    assert told["layers"]["fs"]["ops"]["fdatasync"]["count"] == 23
    row = {"pid": "7", "comm": "fio", "calls_per_s": 23.0, "call_ns_per_s": 23e3, "call_us": 1.0}
    assert told["layers"]["fs"]["top"]["process"] == [row]
    assert re.search(r"fs fdatasync:.*\b23\b", done.stderr)


def test_the_tests_of_every_layer_pass_with_it(checkout: Path) -> None:
    files = [f"tests/unit/{name}" for name in CONTRACTS]
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", AFFECTED]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
