"""Start a bench: check plan and target, create the directory, and run the tests."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from ioh import __version__
from ioh.bench import conditions
from ioh.bench.files import read_file
from ioh.bench.fio import fio_version
from ioh.bench.jobs import DATA
from ioh.bench.like import job_like
from ioh.bench.plans import PlanChanges, is_writing, read_plan, specs_of
from ioh.bench.price import blind_remarks, measured, spec_for_price
from ioh.bench.raw import check_devices, claim_for_writing
from ioh.bench.recorders import Recorders
from ioh.bench.results import VERSION, Conditions, Results, TestSpec, WatchName, load, save
from ioh.bench.runner import Callbacks, Runner
from ioh.bench.work import Need, WorkFolder, need_of
from ioh.findings.config import read_config
from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable
from ioh.rights.user import give_root_up

_LIKE_BYTES, _LIKE_S = 4 << 30, 60.0
_NO_ROOT = "without root: measured from /proc only, without percentiles"


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The command line.

    ``target`` is a directory, "" with ``raw`` devices; ``job`` a user's fio job file; ``like`` a
    recording with the begin and end of its part ("": all of it); ``resume`` the directory of an
    earlier bench, which provides all else.  ``watch`` names a Watch, "" is what costs little.
    """

    target: str = ""
    raw: tuple[str, ...] = ()
    plan: str = "database"
    job: str = ""
    like: tuple[str, str, str] | None = None
    changes: PlanChanges = field(default_factory=PlanChanges)
    keep: bool = False
    anew: bool = False
    destroy: tuple[str, ...] = ()
    output: str = ""
    resume: str = ""
    watch: WatchName = ""
    command: str = ""


def run_bench(options: BenchOptions, callbacks: Callbacks) -> Path:
    """Run a bench; return the directory of its results.

    Raises IohError if it cannot start or continue, StoppedError if the user ended it: finished
    tests are saved.
    """
    version, has_root = fio_version(), 0 in os.getresuid()
    earlier = _earlier(options.resume) if options.resume else None
    specs, plan_text = (earlier.planned, "") if earlier else _specs(options)
    target = earlier.conditions.target if earlier else options.target
    is_raw = earlier is not None and earlier.conditions.file_system == "raw"
    raw = tuple(shlex.split(target)) if is_raw else options.raw
    with contextlib.ExitStack() as stack:
        folder = None
        need = need_of(specs)
        if raw:
            size_bytes = check_devices(raw)
            specs = tuple(_within(spec, size_bytes) for spec in specs)
            need = need_of(specs)
            if options.anew or any(is_writing(spec) for spec in specs):
                for fd in claim_for_writing(raw, options.destroy):
                    stack.callback(os.close, fd)
            below = conditions.below_devices(raw)
        else:
            target = os.path.realpath(target or ".")
            folder = WorkFolder(target)
            folder.check(need, direct=any(spec.direct for spec in specs))
            below = conditions.below_directory(_place_of(specs, target))
        config = read_config(None)
        directory = Path(options.resume) if options.resume else _new_directory(options.output)
        name = f"run-{len(earlier.recordings) + 1}.ioh" if earlier else "run.ioh"
        chosen = earlier.conditions.watch if earlier else options.watch
        for_price = spec_for_price(specs) if has_root and not chosen else None
        chosen = chosen or ("" if for_price else "all")
        recorders = Recorders(directory, name, chosen, callbacks.is_stopped)
        stack.callback(recorders.close)
        give_root_up()  # fio and everything below runs with the caller's rights
        if earlier:
            results = msgspec.structs.replace(earlier, recordings=(*earlier.recordings, name))
        else:
            circumstances = _conditions(options, below, version, specs, plan_text, need)
            remarks = (
                *circumstances.remarks,
                *((_NO_ROOT,) if not has_root else blind_remarks(chosen)),
            )
            circumstances = msgspec.structs.replace(circumstances, remarks=remarks, watch=chosen)
            results = Results(
                VERSION, circumstances, specs, begin_unix_s=time.time(), recordings=(name,)
            )
        save(results, str(directory))
        for remark in results.conditions.remarks:
            callbacks.say(remark)
        callbacks.began(results, directory)
        runner = Runner(directory, results, below, folder, raw, callbacks, config)
        stack.enter_context(_cleaned(folder, need, keep=options.keep))
        if for_price is None:
            recorder = recorders.begin(chosen)
            runner.fill(need, anew=options.anew)
        else:
            runner.fill(need, anew=options.anew)
            recorder = recorders.begin(_cheap_watch(runner, recorders, for_price))
        runner.run(recorder)
    return directory


def _cheap_watch(runner: Runner, recorders: Recorders, spec: TestSpec) -> WatchName:
    """Measure by a test what watching costs, and note it; return what to watch."""
    chosen, remarks = measured(partial(runner.rate, spec), recorders.short)
    runner.note(chosen, remarks)
    return chosen


def _earlier(directory: str) -> Results:
    """Load this user's bench; another user's could run any job as this user."""
    results = load(directory)
    if Path(directory).stat().st_uid != os.geteuid():
        cause = f"{directory} is not yours"
        raise IohError(cause, "Resume it as the user who started it")
    return results


@contextlib.contextmanager
def _cleaned(folder: WorkFolder | None, need: Need, *, keep: bool) -> Iterator[None]:
    try:
        yield
    finally:
        if folder is not None:
            with contextlib.suppress(OSError, IohError):
                folder.remove_small_files()
                for name in () if keep else need.names:
                    folder.remove(name)


def _specs(options: BenchOptions) -> tuple[tuple[TestSpec, ...], str]:
    """The tests, and the text of their plan or job."""
    if options.like is not None:
        return _like(options.like, options.changes)
    if not options.job:
        plan, text = read_plan(options.plan)
        return specs_of(plan, options.changes), text
    text = _job_text(options.job)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(options.job).stem).strip("-.")[:60] or "job"
    runs = options.changes.runs or 1
    spec = TestSpec(name, "job", engine="", direct=False, runs=runs, job=text)
    for path in re.findall(r"^\s*filename\s*=\s*(/dev/\S+)", text, re.MULTILINE):
        if re.search(r"^\s*(rw|readwrite)\s*=\s*\S*(w|trim)", text, re.MULTILINE):
            claim = claim_for_writing((path.replace("\\:", ":"),), options.destroy)
            os.close(claim[0])
    return (spec,), text


def _like(like: tuple[str, str, str], changes: PlanChanges) -> tuple[tuple[TestSpec, ...], str]:
    size_bytes, run_s = changes.size_bytes or _LIKE_BYTES, changes.run_s or _LIKE_S
    text = job_like(*like, size_bytes, run_s)
    spec = TestSpec(
        "like-recording", "like", engine="psync", direct=False, size_bytes=size_bytes,
        run_s=run_s, runs=changes.runs or 1, job=text,
    )  # fmt: skip
    return (spec,), text


def _job_text(path: str) -> str:
    def wrong(what: str) -> IohError:
        cause = f"{path} {what}"
        hint = "Give a fio job file; it has sections such as [test]"
        return IohError(cause, hint, ExitCode.USAGE)

    raw = read_file(Path(path), 1, wrong)
    if b"[" not in raw:
        what = "is not a fio job file"
        raise wrong(what)
    return raw.decode("utf-8", "surrogateescape")


def _place_of(specs: tuple[TestSpec, ...], target: str) -> str:
    """The path of the I/O: a user's job may name another directory or file."""
    for name in ("filename", "directory") if specs[0].kind == "job" else ():
        match = re.search(rf"^\s*{name}\s*=\s*(/\S+)", specs[0].job, re.MULTILINE)
        if match:
            return match[1]
    return target


def _within(spec: TestSpec, size_bytes: int) -> TestSpec:
    """Limit a test to the size of a device, in whole MiB, so that every block size fits.

    IohError: it needs a file system.
    """
    cause = f"{spec.name} needs a directory, not a raw device"
    refuse_if(bool(spec.files), cause, "Give a directory of a file system on it")
    most = size_bytes >> 20 << 20
    return msgspec.structs.replace(spec, size_bytes=min(spec.size_bytes, most), own_files=False)


def _new_directory(output: str) -> Path:
    """Create ``output``, or ``bench-HOST-DATE`` in the current directory."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", os.uname().nodename)[:64]
    name = output or f"bench-{host}-{time.strftime('%Y-%m-%d-%H%M%S')}"
    try:
        Path(name).mkdir(mode=0o700)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        cause = f"cannot create the directory {name}: {reason}"
        raise IohError(cause, "Give another one: -o DIRECTORY") from None
    return Path(name).absolute()


def _conditions(  # noqa: PLR0913, PLR0917
    options: BenchOptions,
    below: conditions.DevicesBelow,
    version: str,
    specs: tuple[TestSpec, ...],
    plan_text: str,
    need: Need,
) -> Conditions:
    machine = os.uname()
    memory = conditions.memory_bytes()
    size_bytes = need.file_bytes * max(1, len(need.names))
    limits = conditions.own_limits(below.carriers)
    remarks = []
    if need.names and not options.raw:
        than = "smaller than" if size_bytes < memory else "larger than"
        remarks.append(
            f"{DATA}: {size_bytes >> 20:,} MiB, {than} this machine's memory ({memory >> 20:,} MiB)"
        )
    return Conditions(
        host=printable(machine.nodename),
        kernel=printable(machine.release),
        machine=platform.machine(),
        cpu=conditions.cpu_model(),
        cpus=os.cpu_count() or 1,
        memory_bytes=memory,
        cache_bytes=conditions.cache_bytes(),
        target=shlex.join(options.raw) if options.raw else os.path.realpath(options.target or "."),
        file_system=below.file_system,
        mount_options=below.mount_options,
        source=below.source,
        devices=below.devices,
        governor=conditions.governors(),
        io_limits=tuple(f"{name}: {words}" for name, (words, _) in limits.items()),
        fio_version=version,
        ioh_version=__version__,
        plan=options.like[0] if options.like else options.job or options.plan,
        plan_text=plan_text,
        command=printable(options.command),
        size_bytes=size_bytes or max(spec.size_bytes for spec in specs),
        remarks=tuple(remarks),
    )
