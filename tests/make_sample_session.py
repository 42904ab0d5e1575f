"""Record ioh/data/sample.ioh: a real fio run on a loop device; needs root, fio and mkfs.ext4.

Usage: sudo .venv/bin/python tests/make_sample_session.py

It runs in namespaces of its own, so that the recording shows nothing of the machine it was made
on: host name db01, no network but loopback, one disk, the programs started here.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
TARGET = REPO / "ioh" / "data" / "sample.ioh"
MAX_BYTES = 150_000
NOTE = "fio on a loop device: random reads, scans, log writes, cached reads. Bundled with ioh."
HOST = "db01"
SQL_PORT = 5432
DISK = Path("/srv/db")
IMAGE = Path("/srv/db.img")
# Name, fio's options, rate; rates are limited, so that the run looks the same on any machine.
PHASES = (
    (
        "random reads",
        ("--rw=randread", "--bs=8k", "--direct=1", "--ioengine=libaio", "--iodepth=8"),
        ("--rate_iops=4000",),
    ),
    ("scans", ("--rw=read", "--bs=1m", "--direct=1"), ("--rate_iops=300",)),
    ("log writes", ("--rw=write", "--bs=16k", "--fdatasync=1"), ("--rate_iops=400",)),
    ("cached reads", ("--rw=randread", "--bs=8k"), ("--rate_iops=9000", "--invalidate=0")),
)
PHASE_S = 17


def main() -> int:
    """Enter the namespaces first, then record."""
    if sys.argv[1:] == ["inside"]:
        return inside()
    command = ["unshare", "--net", "--uts", "--mount", "--propagation", "private"]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        env = os.environ | {"IOH_SAMPLE_DIRECTORY": directory}
        subprocess.run([*command, sys.executable, __file__, "inside"], check=True, env=env)
        made = Path(directory) / "sample.ioh"
        size = made.stat().st_size
        if size > MAX_BYTES:
            print(f"{size} bytes are more than {MAX_BYTES}", file=sys.stderr)
            return 1
        TARGET.parent.mkdir(exist_ok=True)
        shutil.copyfile(made, TARGET)
        TARGET.chmod(0o644)
    print(f"{TARGET}: {size} bytes")
    return 0


def inside() -> int:
    """Set up the namespaces and a disk, then record."""
    subprocess.run(["hostname", HOST], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "--bind", os.environ["IOH_SAMPLE_DIRECTORY"], "/srv"], check=True)
    with IMAGE.open("wb") as file:
        file.truncate(1 << 30)
    device = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=on", str(IMAGE)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    try:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        DISK.mkdir()
        subprocess.run(["mount", device, str(DISK)], check=True)
        try:
            record(device)
        finally:
            subprocess.run(["umount", str(DISK)], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    return 0


def record(device: str) -> None:
    """Make one recording of all phases; a mark begins each."""
    lay_out()
    talk()
    path = "/srv/sample.ioh"
    ioh = [sys.executable, "-m", "ioh"]
    seconds = str(PHASE_S * len(PHASES) + 4)
    options = ["--device", device, "-t", seconds, "--note", NOTE]
    recording = subprocess.Popen([*ioh, "record", "-o", path, *options], cwd=REPO)
    while not Path(path).exists() or not Path(path).stat().st_size:
        time.sleep(0.1)
    time.sleep(2)
    for name, load, rate in PHASES:
        subprocess.run([*ioh, "mark", name, "--file", path], cwd=REPO, check=True)
        fio(name, *load, *rate, "--time_based", f"--runtime={PHASE_S - 1}")
    if recording.wait() != 0:
        msg = "ioh record failed"
        raise RuntimeError(msg)


def fio(name: str, *options: str) -> None:
    """Run one job on the disk."""
    job = name.replace(" ", "-")
    command = ["fio", f"--name={job}", "--size=256m", f"--filename={DISK}/users01.dbf"]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)


def lay_out() -> None:
    """Write the file before anything is recorded."""
    fio("lay out", "--rw=write", "--bs=1m", "--end_fsync=1")


def talk() -> None:
    """Start three clients that query a made-up database, in threads that end with this program."""
    server = socket.create_server(("127.0.0.1", SQL_PORT))

    def serve(connection: socket.socket) -> None:
        while connection.recv(4096):
            connection.sendall(b"r" * 2_000)

    def ask() -> None:
        with socket.create_connection(("127.0.0.1", SQL_PORT)) as connection:
            while True:
                connection.sendall(b"q" * 180)
                connection.recv(4096)
                time.sleep(0.01)

    def accept() -> None:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    for _ in range(3):
        threading.Thread(target=ask, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
