"""Records a database on NFS, all layers: ``python -m tests.vm.make_db_session``.

A virtual machine is database server, NFS client and NFS server at once.  Only PostgreSQL's system
calls are recorded, so that the file has no path of the machine that made it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.kernel.rig import ROOT, ioh_command, run
from tests.servers.postgres import Cluster
from tests.vm.make_session import main
from tests.vm.nfs import Server, mounted
from tests.vm.recorder import Recorder

SESSION = ROOT / "tests" / "data" / "db-session.ioh"
NOTE = "pgbench on PostgreSQL 15 on NFS v4.2, server and client in one virtual machine"
LAYERS = "db,syscall,nfs_client,tcp,nfs_server,block"
ATTACH_S = 12  # a server is seen within 6 s
PHASES = {
    "reads": ("-S", "-c", "4"),
    "reads and writes": ("-c", "4"),
    "a checkpoint meanwhile": ("-c", "4"),
}
PHASE_S = 20


def record(name: str, out: Path) -> None:
    """Inside the machine: run pgbench under ``ioh record``."""
    run("hostname", "db01")
    Server()
    with mounted("4.2", "rsize=131072", "wsize=131072") as place:
        place.chmod(0o755)
        cluster = Cluster(place, scale=8)
        local = Path("/tmp") / name
        words = ["--comm", "postgres", "--note", NOTE, "--layers", LAYERS]
        recorder = Recorder(local, words)
        time.sleep(ATTACH_S)
        for phase, options in PHASES.items():
            run(*ioh_command("mark", phase, "--file", str(local)))
            if "checkpoint" in phase:
                checkpoint = subprocess.Popen(cluster.psql("-c", "checkpoint"))
            cluster.pgbench(*options, "-T", str(PHASE_S))
        checkpoint.wait(60)
        recorder.end()
        cluster.close()
        shutil.copyfile(local, out / name)


if __name__ == "__main__":
    if os.environ.get("IOH_IN_VM"):
        record(sys.argv[1], Path(sys.argv[2]))
    else:
        main(SESSION, "tests.vm.make_db_session")
