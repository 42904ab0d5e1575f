"""A bench's results: the saved file, table, panels, comparison, and one safe page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ioh.bench.comparison import comparison_text
from ioh.bench.families import panels_text
from ioh.bench.files import write_file
from ioh.bench.grade import card_of, measured_of, read_bands
from ioh.bench.page import render_page
from ioh.bench.results import FILE_NAME, Results, load, save, to_json
from ioh.bench.table import layers_of, table_text
from ioh.commands import main
from ioh.model.errors import ExitCode, IohError
from tests.unit.bench_results import HOSTILE, results


def page(made: Results) -> str:
    return render_page(made, card_of(measured_of(made), read_bands("today"), "nvme"))


def test_the_table_has_the_layers_below_fio_and_the_histograms() -> None:
    lines = list(table_text(results()))
    at = next(i for i, line in enumerate(lines) if line.startswith("randread-8k-16u"))
    assert lines[at].split()[1:4] == ["read", "1,191.6", "0.110"]
    below = [line.split()[:3] for line in lines[at + 1 :] if not line.startswith(("  |", "  !"))]
    assert below[:2] == [["syscall", "read", "1,191.6"], ["block", "read", "1,191.6"]]
    assert below[2][0] == "randread-8k-32u"  # no line for the only device: it did all of it
    assert any(line.startswith("% of operations") and "us250" in line for line in lines)
    assert any(line.split()[:3] == ["randread-8k-16u", "read", "."] for line in lines)
    assert "memory         64.0 GiB" in lines


def test_panels_show_what_grows_with_the_users() -> None:
    text = "\n".join(panels_text(results()))
    assert "Random reads of 8K" in text
    assert "Synchronous writes of 1K" in text
    row = r"^ +16 +1,191\.6 .*█.*0\.110 +0\.220 +0\.440 +4\.400  ...█"
    assert re.search(row, text, re.MULTILINE)
    assert "not the storage" in text
    assert max(map(len, text.splitlines())) <= 110


def test_a_comparison_shows_change_spread_and_differing_conditions() -> None:
    a, b = results(runs=3), results(runs=3, slower=2.0)
    b = replace(b, conditions=replace(b.conditions, kernel="6.18"))
    b = replace(b, tests=b.tests[1:])
    lines = list(comparison_text(a, b))
    assert "!  only B: kernel 6.18 x86_64" in lines
    assert "randread-8k-16u               only in A" in lines
    row = next(line for line in lines if line.startswith("randread-8k-32u"))
    assert row.split() == [
        "randread-8k-32u", "IOPS", "228,571", "114,286", "-50.0", "%", "2.5", "%", "2.5", "%",
    ]  # fmt: skip
    other = replace(a.tests[1].spec, run_s=30.0)
    tests = (a.tests[0], replace(a.tests[1], spec=other))
    assert "randread-8k-32u               is a different test in B: run_s 10.0 and 30.0" in list(
        comparison_text(a, replace(a, tests=tests))
    )
    assert sum("is not the storage" in line for line in lines) == 2


def test_the_page_is_one_small_file_with_every_number() -> None:
    text = page(results())
    assert len(text.encode()) < 1_500_000
    assert "default-src 'none'" in text
    own = text.replace(
        text[text.index("/*!\n * Chart.js") : text.index("</script>", text.index("Chart.js"))], ""
    )
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", own)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    assert [cell["p95_ms"] for cell in data["cells"]] == pytest.approx([0.22, None, 0.12, 0.32])
    assert data["families"][0]["points"][0]["rate"] == pytest.approx(1191.563636, rel=1e-6)
    assert [layer["name"] for layer in data["stack"]] == ["Application", "Block"]
    for part in ("0.220", "1,191.6", "92 % of the bytes came from memory", "nr_requests 1023"):
        assert part in text


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_page_without_tests_or_results_is_complete(has_failed: bool) -> None:
    made = results()
    first = made.tests[0]
    failed = replace(first, runs=(replace(first.run, fio={}, layers=()),))
    made = replace(made, tests=(failed,) * has_failed)
    assert "</html>" in page(made)
    assert list(table_text(made))
    assert list(panels_text(made)) == []


def test_writing_the_page_follows_no_symbolic_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "report.html.new").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"):
        write_file(tmp_path / "report.html", "page", 0o644)
    assert precious.read_text() == "mine"


@pytest.fixture
def bench(tmp_path: Path) -> str:
    save(results(), str(tmp_path))
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    return str(tmp_path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("report",), "report card of db01: latency ?, scaling ?"),
        (("report", "--bands", "classic"), "bands classic: grade.r's"),
        (("report", "--csv"), "db01,randread,16,8K,1136.364,0.110"),
        (("report", "--json"), '"host": "db01"'),
        (("compare", "{}"), "change"),
    ],
)
def test_report_and_compare_print_the_results(
    words: tuple[str, ...], expected: str, bench: str, capfd: pytest.CaptureFixture[str]
) -> None:
    name, *rest = words
    assert main(["bench", name, bench, *(word.format(bench) for word in rest)]) == ExitCode.OK
    assert expected in capfd.readouterr().out


def test_report_html_writes_the_page(bench: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = Path(bench) / "page.html"
    assert main(["bench", "report", bench, "--html", str(path)]) == ExitCode.OK
    assert path.stat().st_mode & 0o777 == 0o644
    assert main(["bench", "report", bench, "--html", "/nowhere/x.html"]) == ExitCode.FAILED
    assert "cannot write /nowhere/x.html" in capfd.readouterr().err


def test_card_grades_a_bench_or_a_csv_file(
    bench: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "card", "--from", bench, "--csv"]) == ExitCode.OK
    lines = capfd.readouterr().out.splitlines()
    assert lines[1] == "db01,randread_8k_16u,avg,A-,B,0.1,0.3"
    data = Path(__file__).parents[1] / "data" / "report-card" / "results.csv"
    assert main(["bench", "card", "--from", str(data)]) == ExitCode.USAGE
    assert "Give --class: hdd" in capfd.readouterr().err
    assert main(["bench", "card", "--from", str(data), "--class", "sata_ssd"]) == ExitCode.OK
    assert "report card of ssd: latency D" in capfd.readouterr().out


def poisoned(value: Any, key: str = "") -> Any:
    """Add a hostile string to every text of a bench, and to every name that is a key."""
    if isinstance(value, dict):
        return {f"{k}{HOSTILE if key in {'fio', 'rival', 'limits'} else ''}": poisoned(v, k)
                for k, v in value.items()}  # fmt: skip
    if isinstance(value, list):
        return [poisoned(each, key) for each in value]
    return value + HOSTILE if isinstance(value, str) else value


def test_hostile_results_reach_terminal_and_page_only_escaped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(poisoned(json.loads(to_json(results(runs=2))))))
    for words in (["report"], ["report", "--csv"], ["compare", str(tmp_path)]):
        name, *rest = words
        assert main(["bench", name, str(tmp_path), *rest]) == ExitCode.OK
        assert "\x1b" not in capfd.readouterr().out
    for options in ([], ["--csv"]):
        assert main(["bench", "card", "--from", str(tmp_path), *options]) == ExitCode.OK
        assert "\x1b" not in capfd.readouterr().out
    text = page(load(str(tmp_path)))
    assert text.count("</script>") == 4
    assert "<img src=x" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"shown": 0', '"shown": 7'),
        ('"ops": 1000', '"ops": -1'),
        ('"block_bytes": 8192', '"block_bytes": -1'),
        ('"hist": [', '"hist": [5, '),
    ],
)
def test_impossible_numbers_are_refused(
    old: str, new: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = to_json(results())
    assert old in text
    (tmp_path / "results.json").write_text(text.replace(old, new))
    assert main(["bench", "report", str(tmp_path)]) == ExitCode.FAILED
    assert "cannot be read" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"version": 1, "planned": 3}'])
def test_a_damaged_results_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(IohError, match=r"results\.json cannot be read: ."):
        load(str(tmp_path))


def test_results_of_a_later_ioh_are_refused(tmp_path: Path) -> None:
    save(results(), str(tmp_path))
    file = tmp_path / FILE_NAME
    file.write_text(file.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(IohError, match="has version 9, this ioh reads 1"):
        load(str(tmp_path))


def test_the_table_leaves_out_only_ops_that_are_sums_of_others() -> None:
    """NFS has read and read_cached, and neither is part of the other."""
    test = results().tests[0]
    own = test.run.layers[0]
    ops = {"read": 1000, "read_cached": 40, "read_direct": 600, "read_buffered": 400}
    made = [
        replace(
            own, layer=layer, op=op, figures=replace(own.figures, ops=ops[op])
        )
        for layer, op in (
            ("nfs_client", "read"), ("nfs_client", "read_cached"),
            ("syscall", "read"), ("syscall", "read_direct"), ("syscall", "read_buffered"),
        )
    ]  # fmt: skip
    run = replace(test.run, layers=tuple(made))
    shown = [name for name, _ in layers_of(replace(test, runs=(run,)))]
    assert shown == [
        "nfs_client read", "nfs_client read_cached", "syscall read_direct", "syscall read_buffered",
    ]  # fmt: skip
