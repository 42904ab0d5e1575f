"""Make a test's job file for fio, with everything that affects the result."""

from __future__ import annotations

import msgspec

from ioh.bench.results import TestSpec

DATA = "ioh-bench.data"
FILES = "ioh-bench.files"
LOG_BYTES = 1 << 30
# Threads of one process: killing it leaves nothing behind.
_GLOBAL = """\
[global]
thread=1
group_reporting=1
lat_percentiles=1
clat_percentiles=1
percentile_list=50:95:99:99.5:99.9:99.95:99.99
"""
_OURS = """\
randrepeat=0
norandommap=1
refill_buffers=1
fallocate=none
allow_file_create=1
"""
# Streams of 1 MiB, 8 at a time; four readers at random.
_RIVALS = {
    "stream": "rw=read\nbs=1m\nioengine=libaio\niodepth=8\nnumjobs=1\n",
    "reader": "rw=randread\nbs=8k\nioengine=psync\niodepth=1\nnumjobs=4\n",
}


def job_file(spec: TestSpec, targets: tuple[str, ...], run_s: float) -> str:
    """Make the job file; ``targets`` are raw devices, without them it uses the work file.

    Of metadata tests, the job of small_files.py.
    """
    if spec.kind == "metadata":
        return small_files_job(spec, spec.rw, run_s)
    if spec.job:
        return f"{_GLOBAL}\n{spec.job}"
    lines = [_GLOBAL + _OURS, _time(spec, run_s)]
    lines.append(f"[{spec.name}]\n{_what(spec)}{_where(spec, targets)}{_sync(spec)}")
    if spec.rival:
        half = spec.size_bytes // 2 // (1 << 20) * (1 << 20)
        where = f"direct=1\nfilename={_names(targets)}\noffset={half}\nsize={half}\n"
        lines.append(f"[rival]\nnew_group=1\n{_RIVALS[spec.rival]}{where}")
    return "\n".join(lines)


def small_files_job(spec: TestSpec, op: str, run_s: float = 0.0) -> str:
    """Make a job for small_files.py."""
    job = {
        "op": op,
        "users": spec.users,
        "files": spec.files,
        "most_bytes": spec.block_bytes,
        "run_s": run_s,
        "is_durable": bool(spec.sync),
        "name": spec.name,
    }
    return msgspec.json.encode(job).decode()


def _time(spec: TestSpec, run_s: float) -> str:
    if spec.files:
        return ""
    ramp = f"ramp_time={spec.ramp_s:g}\n" if spec.ramp_s else ""
    return f"time_based=1\nruntime={run_s:g}\n{ramp}"


def _what(spec: TestSpec) -> str:
    rw, engine = spec.rw, spec.engine
    if spec.files:
        rw = {"append": "write", "delete": "write"}.get(rw, rw)
        engine = "filedelete" if spec.rw == "delete" else engine
    text = (
        f"rw={rw}\nbs={spec.block_bytes}\nioengine={engine}\niodepth={spec.depth}\n"
        f"direct={int(spec.direct)}\nnumjobs={spec.users}\n"
    )
    if spec.mix_read_pct is not None:
        text += f"rwmixread={spec.mix_read_pct}\n"
    if spec.compress_pct:
        text += f"buffer_compress_percentage={spec.compress_pct}\n"
    if spec.rate_iops:
        text += f"rate_iops={spec.rate_iops}\n"
    return text


def _sync(spec: TestSpec) -> str:
    if spec.sync in {"fsync", "fdatasync"}:
        return f"{spec.sync}={spec.sync_every}\n"
    return f"sync={spec.sync}\n" if spec.sync else ""


def _where(spec: TestSpec, targets: tuple[str, ...]) -> str:
    if spec.files:
        text = f"directory={FILES}\nfilename_format=f.$jobnum.$filenum\nnrfiles={spec.files}\n"
        # fio's file size includes the appended part.
        file_bytes = spec.block_bytes * (1 + (spec.rw == "append"))
        text += f"filesize={file_bytes}\nopenfiles=1\nfile_service_type=sequential\n"
        if spec.rw in {"write", "append"}:
            text += "file_append=1\n" if spec.rw == "append" else "create_on_open=1\n"
            text += "end_fsync=1\n"
        return text
    if spec.kind == "commit" and not targets:
        size_bytes = min(LOG_BYTES, spec.size_bytes) // spec.users
        return f"filename_format={FILES}/log.$jobnum\nfile_append=1\nsize={size_bytes}\n"
    size_bytes = spec.size_bytes // 2 if spec.rival else spec.size_bytes
    if spec.own_files and not targets:
        return f"filename_format={DATA}.$jobnum\nsize={size_bytes}\n"
    text = f"filename={_names(targets)}\n"
    if spec.rw.startswith("rand"):
        return f"{text}size={size_bytes * max(1, len(targets))}\n"
    # Each user streams through its own part: users that start at one place share read-ahead.
    part = size_bytes // spec.users // spec.block_bytes * spec.block_bytes
    return f"{text}size={part * max(1, len(targets))}\noffset_increment={part}\n"


def _names(targets: tuple[str, ...]) -> str:
    """Join file names by colons, and escape colons in them."""
    return ":".join(each.replace(":", "\\:") for each in targets) or DATA


def fill_file(name: str, size_bytes: int, *, direct: bool) -> str:
    """Make the job that fills a work file with incompressible, unique data."""
    return (
        f"[global]\nthread=1\nrefill_buffers=1\nrandrepeat=0\nfallocate=none\nend_fsync=1\n"
        f"rw=write\nbs=1m\nioengine=psync\ndirect={int(direct)}\n"
        f"[fill]\nfilename={name}\nsize={size_bytes}\n"
    )
