"""Plans: what they may contain, the fio jobs made from them, and the figures in fio's output."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from ioh.bench.fio import figures_of, read_json, run_s_of
from ioh.bench.jobs import job_file
from ioh.bench.plans import BUILT_IN, PlanChanges, read_plan, specs_of
from ioh.bench.results import TestSpec
from ioh.commands import main
from ioh.model.errors import IohError

TEST = '[[test]]\nkind = "randread"\nblock = "8k"\n'
HEAD = 'summary = "x"\nsize = "1g"\nrun_s = 5\n'


def plan_file(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def spec_of(folder: Path, text: str) -> TestSpec:
    return specs_of(read_plan(plan_file(folder, HEAD + text))[0], PlanChanges())[0]


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_tests_of_each_built_in_plan_have_unique_names(name: str) -> None:
    plan, text = read_plan(name)
    specs = specs_of(plan, PlanChanges())
    assert text.startswith("summary")
    assert len({spec.name for spec in specs}) == len(specs) > 0
    for spec in specs:
        job = job_file(spec, (), spec.run_s)
        if spec.kind == "metadata":
            continue
        assert "thread=1" in job
        assert ("time_based" in job) == (not spec.files)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "missing required field `summary`"),
        ("size = ", "not a TOML file"),
        (HEAD + "test = []", "the plan has 0 tests"),
        (
            HEAD + '[[test]]\nkind = "odd"\nblock = "8k"',
            "invalid enum value 'odd' (kind of test 1)",
        ),
        (HEAD + TEST + "odd = 3", "unknown field `odd`"),
        (HEAD + '[[test]]\nkind = "randread"\nblock = "8q"', '"8q" is not a size such as 8k'),
        (HEAD + TEST + "users = 0", "users must be 1 to 4096"),
        (HEAD + TEST + 'sync = "sync"', "tests that write"),
        (HEAD + TEST + 'label = "a b"', "label must be"),
        (HEAD + '[[test]]\nkind = "files"\nblock = "4k"', "kinds files and metadata need files"),
        (HEAD + '[[test]]\nkind = "write"\nblock = "8k"\nmix_read_pct = 5', "mix_read_pct is for"),
        (HEAD + TEST + 'depth = 4\nengine = "psync"', "psync has no depth"),
        (
            HEAD + '[[test]]\nkind = "seqread"\nblock = "64m"\nusers = 32',
            "size is too small: each user needs a block",
        ),
    ],
)
def test_an_invalid_plan_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(IohError) as caught:
        read_plan(plan_file(tmp_path, text))
    assert said in str(caught.value)
    assert "mine.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nope", "./nope.toml", "a\0b.toml"])
def test_a_missing_plan_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(IohError, match=r"no plan|cannot be read|null byte"):
        read_plan(name)


def test_the_command_line_changes_a_plan() -> None:
    plan, _ = read_plan("database")
    specs = specs_of(
        plan,
        PlanChanges(
            ("randread", "seqread"), run_s=7, size_bytes=1 << 28, users=4, own_files=True, runs=3
        ),
    )
    assert [spec.name for spec in specs] == [
        "randread-8k-4u",
        *(f"seqread-{size}-4u" for size in ("8k", "32k", "128k", "1m")),
    ]
    assert {(spec.run_s, spec.size_bytes, spec.own_files, spec.runs) for spec in specs} == {
        (7, 1 << 28, True, 3)
    }
    (only,) = specs_of(plan, PlanChanges(rate_iops=50))
    assert "rate_iops=50" in job_file(only, (), 1)
    with pytest.raises(IohError, match='has no tests "nope"'):
        specs_of(plan, PlanChanges(("nope",)))


def test_each_user_reads_its_own_part_of_the_file(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, '[[test]]\nkind = "seqread"\nblock = "1m"\nusers = 3\n')
    job = job_file(spec, (), 5)
    part = 1024 // 3 << 20
    assert f"size={part}\noffset_increment={part}\n" in job
    assert "filename=ioh-bench.data\n" in job


def test_devices_with_colons_in_their_names_are_escaped(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, TEST)
    job = job_file(spec, ("/dev/disk/by-path/pci-0:1", "/dev/sdb"), 5)
    assert "filename=/dev/disk/by-path/pci-0\\:1:/dev/sdb\nsize=2147483648\n" in job


def test_a_rival_gets_half_of_the_file_and_its_own_group(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, TEST + 'rival = "stream"\n')
    _, own, rival = re.split(r"\[(?:randread|rival)[^]]*\]\n", job_file(spec, (), 5))
    assert "size=536870912\n" in own
    assert "offset=536870912\nsize=536870912\n" in rival
    assert "new_group=1" in rival


def test_the_plans_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--plans"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(BUILT_IN)
    assert lines[1].split()[1:4] == ["26", "26", "8g"]


def test_a_users_own_job_is_not_changed(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(spec_of(tmp_path, TEST), job="[x]\nrw=read\n")
    assert job_file(spec, (), 5).endswith("\n\n[x]\nrw=read\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give a directory on the storage"),
        (["/tmp", "--span", "1", "2"], "--span needs --like"),
        (["/tmp", "--like", "x", "--job", "y"], "--job, --like and --resume exclude each other"),
        (["/tmp", "-u", "0"], "must be a number above 0"),
        (["/tmp", "-u", "\u0663"], "must be a number above 0"),
        (["/tmp", "-l", "8q"], "is not a size"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["bench", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


RECORDED = Path(__file__).parents[1] / "data" / "fio" / "commit-and-reader.json"


def test_figures_equal_those_in_fios_json() -> None:
    commit, rival = read_json(RECORDED)
    found = figures_of([commit])
    assert sorted(found) == ["sync", "write"]
    raw, write = commit["write"], found["write"]
    assert (write.ops, write.bytes) == (raw["total_ios"], raw["io_bytes"])
    assert (write.iops, write.bytes_per_s) == (raw["iops"], raw["bw_bytes"])
    latency = raw["lat_ns"]
    told = latency["percentile"]
    assert write.mean_us == pytest.approx(latency["mean"] / 1000)
    assert (write.min_us, write.max_us) == (latency["min"] / 1000, latency["max"] / 1000)
    assert write.std_us == latency["stddev"] / 1000
    assert (write.p50_us, write.p99_us) == (told["50.000000"] / 1000, told["99.000000"] / 1000)
    assert write.p999_us == told["99.900000"] / 1000
    assert write.p9999_us is None  # too few operations: some thousands
    assert sum(write.hist) == write.ops
    sync = commit["sync"]["lat_ns"]
    assert (found["sync"].ops, found["sync"].max_us) == (sync["N"], sync["max"] / 1000)
    assert found["sync"].iops == pytest.approx(sync["N"] / run_s_of(commit))
    assert list(figures_of([rival])) == ["read"]


def test_several_jobs_are_combined_from_their_histogram_bins() -> None:
    _, rival = read_json(RECORDED)
    one, two = figures_of([rival])["read"], figures_of([rival, rival])["read"]
    assert one.ops is not None
    assert (two.ops, two.hist) == (2 * one.ops, tuple(2 * count for count in one.hist))
    for name in ("mean_us", "std_us", "p50_us", "p95_us", "p99_us", "p999_us", "min_us", "max_us"):
        assert getattr(two, name) == pytest.approx(getattr(one, name)), name


@pytest.mark.parametrize("text", ["", "{", "{}", '{"jobs": 3}', "fio: odd\n"])
def test_output_that_is_not_fios_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(IohError, match="is not its JSON"):
        read_json(tmp_path / "x.json")
