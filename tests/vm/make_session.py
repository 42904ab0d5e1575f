"""Records NFS sessions: ``python -m tests.vm.make_session [demo]``.

Without an argument it makes the session that other tests replay, with ``demo`` the one that
``ioh demo`` plays.  A virtual machine is NFS server and client at once.  Each phase begins with a
mark.  Only fio's system calls are recorded, so that the file has no path of the machine that made
it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.kernel.rig import ROOT, ioh_command, run
from tests.vm.nfs import Server, mounted
from tests.vm.recorder import Recorder

SESSION = ROOT / "tests" / "data" / "nfs-session.ioh"
DEMO = ROOT / "ioh" / "data" / "demo.ioh"
KERNEL = "6.1"
PHASE_S = 8
NOTE = "fio on NFS mounts of v4.2 and v3, server and clients in one virtual machine"

JOBS = {
    "v4.2: random reads, O_DIRECT": ("4.2", {"rw": "randread", "bs": "8k", "direct": 1}),
    "v4.2: buffered writes, fsync every 1 MB": ("4.2", {"rw": "write", "bs": "64k", "fsync": 16}),
    "v3: writes, O_SYNC": ("3", {"rw": "randwrite", "bs": "16k", "sync": 1}),
    "v3: reads and writes, O_DIRECT": ("3", {"rw": "randrw", "bs": "32k", "direct": 1}),
    "v4.2: reads of the client's cache": ("4.2", {"rw": "randread", "bs": "4k", "rate_iops": 400}),
    "v4.2: reads, 20 ms and 1 % loss on the way": ("4.2", {"rw": "read", "bs": "64k", "direct": 1}),
}
BAD_LINK = "v4.2: reads, 20 ms and 1 % loss on the way"
DEMO_JOBS = {
    "random reads, 8 at once": (
        "4.2",
        {"rw": "randread", "bs": "8k", "direct": 1, "ioengine": "libaio", "iodepth": 8},
    ),
    "a scan": ("4.2", {"rw": "read", "bs": "1m", "direct": 1}),
    BAD_LINK: JOBS[BAD_LINK],  # the screen begins here, after 46 intervals
    "log writes": ("4.2", {"rw": "write", "bs": "16k", "fdatasync": 1}),
    "reads of the client's cache": ("4.2", {"rw": "randread", "bs": "8k", "rate_iops": 800}),
}
DEMO_PHASE_S = 32
DEMO_CYCLE_S = 2  # an emulated machine needs longer intervals to keep them equal


def main(session: Path, module: str = "tests.vm.make_session") -> None:
    """Outside the machine: keep what ``module`` recorded in it."""
    with tempfile.TemporaryDirectory() as out:
        boot(Path(out), 900, module, session.name)
        shutil.copyfile(Path(out) / session.name, session)
    session.chmod(0o644)
    print(f"{session}: {session.stat().st_size} bytes")


def boot(out: Path, limit_s: int, module: str, *words: str) -> None:
    """Run a module of the tests in a machine; the directory for its results follows ``words``."""
    kernel = run(ROOT / "tests/vm/kernel.sh", KERNEL, timeout_s=600).strip()
    inside = f"PYTHONDONTWRITEBYTECODE=1 {' '.join([sys.executable, '-m', module, *words])} {out}"
    environment = {**os.environ, "VM_OUT": str(out), "VM_TIMEOUT_S": str(limit_s)}
    command = [str(ROOT / "tests/vm/boot.sh"), kernel, inside]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def record(name: str, out: Path) -> None:
    """Inside the machine: run the workload under ``ioh record``."""
    is_demo = name == DEMO.name
    jobs, seconds = (DEMO_JOBS, DEMO_PHASE_S) if is_demo else (JOBS, PHASE_S)
    if is_demo:
        run("hostname", "demo")
    server = Server()
    with (
        mounted("4.2", "rsize=131072", "wsize=131072") as new,
        mounted("3", "rsize=65536", "wsize=65536", client=2) as old,
    ):
        places = {"4.2": new, "3": old}
        for place in places.values():
            fio(place, {"rw": "write", "bs": "1m", "end_fsync": 1, "time_based": 0})
        server.drop_caches()
        # On a local file system first: writing to the outer one costs a tick.
        local = Path("/tmp") / name
        cycle = ["-c", str(DEMO_CYCLE_S)] if is_demo else []
        recorder = Recorder(local, ["--comm", "fio", "--note", NOTE, *cycle])
        for phase, (version, options) in jobs.items():
            run(*ioh_command("mark", phase, "--file", str(local)))
            run_phase(server, phase, places[version], {"runtime": seconds, **options})
        run(*ioh_command("mark", "idle", "--file", str(local)))
        time.sleep(4)
        recorder.end()
        shutil.copyfile(local, out / name)


def run_phase(server: Server, name: str, place: Path, options: dict[str, object]) -> None:
    """Run one job for its time, in phase BAD_LINK over a bad link."""
    if name != BAD_LINK:
        fio(place, options)
        return
    with server.netem("srv1", "delay", "20ms", "loss", "1%"):
        fio(place, options)


def fio(place: Path, options: dict[str, object]) -> None:
    """Run fio in that directory, always on the same file."""
    words = {"time_based": 1, "runtime": PHASE_S, "size": "24m", "filename": "data", **options}
    given = [f"--{key}={value}" for key, value in words.items() if value != 0]
    run("fio", "--name=j", "--overwrite=1", f"--directory={place}", *given)


if __name__ == "__main__":
    if os.environ.get("IOH_IN_VM"):
        record(sys.argv[1], Path(sys.argv[2]))
    else:
        main(DEMO if sys.argv[1:] == ["demo"] else SESSION)
