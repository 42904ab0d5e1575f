"""A made-up machine for tests of ioh.sh: every program it would run or install with is a fake."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

# One fake for every program: it logs the call, then does what its name stands for.
FAKE = """#!/bin/sh
name=${0##*/}
echo "$name $*" >>"$FAKE_LOG"
for last; do :; done
case "$name $*" in
"stat -c %u:%g"*) echo 0:0 ;; # where the tests' own user is not root
"id -u") echo "${FAKE_UID:-0}" ;;
python3.12*version_info*) echo 3.12 ;;
*version_info*) echo "${FAKE_PYTHON:-3.11}" ;;
*"import ensurepip"*) [ -z "${FAKE_NO_VENV-}" ] ;;
*bcc.__file__*) [ -e "$FAKE_BCC" ] && echo "$FAKE_BCC" ;;
*"-m venv"*)
    sleep "${FAKE_SLEEP:-0}"
    mkdir -p "$last/bin" "$last/lib/python3.11/site-packages"
    cp "$0" "$last/bin/python"
    printf '#!%s/bin/python\\n' "$last" >"$last/bin/script"
    : >"$last/pyvenv.cfg"
    ;;
*"pip install"*) [ -z "${FAKE_PIP_ERROR-}" ] || { echo "$FAKE_PIP_ERROR" >&2; exit 1; } ;;
"apt-get "*install*)
    [ -z "${FAKE_APT_ERROR-}" ] || { echo "$FAKE_APT_ERROR" >&2; exit 100; }
    case " $* " in *" python3-bpfcc "*) : >"$FAKE_BCC" ;; esac
    case " $* " in *" python3 "*) cp "$0" "${0%/*}/python3" ;; esac
    ;;
"dnf "*install*)
    : >"$FAKE_BCC"
    case " $* " in *" python3.12 "*) cp "$0" "${0%/*}/python3.12" ;; esac
    ;;
apt-cache*) echo "Version: ${FAKE_APT_PYTHON:-3.11.2-1}" ;;
setpriv*)
    FAKE_UID=$2
    export FAKE_UID
    shift 6
    "$@"
    ;;
"sudo -n true") [ -n "${FAKE_SUDO-}" ] ;;
sudo*) shift; "$@" ;;
*can_bpf.py) [ -z "${FAKE_NO_BPF-}" ] || { echo "$FAKE_NO_BPF"; exit 1; } ;;
*"-m pytest"*) exit "${FAKE_PYTEST:-0}" ;;
"ruff check"*) exit "${FAKE_RUFF:-0}" ;;
esac
"""
PROGRAMS = ["id", "setpriv", "apt-get", "apt-cache", "sudo", "python3"]
BASICS = ["cat", "chown", "cksum", "cp", "cut", "dirname", "env", "find", "flock", "grep", "mkdir"]
BASICS += ["mktemp", "mv", "readlink", "rm", "sed", "sh", "sleep", "stat", "tail"]
TOOLS = ["ruff", "mypy", "lint-imports", "clang-format", "codespell", "fio", "nft", "ip", "tc"]
TOOLS += ["losetup", "mkfs.ext4", "mkfs.btrfs", "mkfs.xfs", "mandoc", "strace"]


class Machine:
    """A checkout with little more than the launcher, and a PATH that begins with the fakes."""

    def __init__(self, where: Path) -> None:
        self.checkout = where / "check out"
        self.log = where / "log"
        self.fakes = where / "fakes"
        self.bcc = where / "bcc.py"
        self.environment: dict[str, str] = {}
        self.fakes.mkdir()
        self.bcc.touch()
        for name in PROGRAMS + TOOLS + ["stat"] * (os.getuid() != 0):
            self.add(name)
        (self.checkout / "tests").mkdir(parents=True)
        (self.checkout / "ioh").mkdir()
        (self.checkout / "probes").mkdir()
        shutil.copy(ROOT / "pyproject.toml", self.checkout)
        shutil.copy(ROOT / "requirements.lock", self.checkout)
        shutil.copy(ROOT / "tests" / "run.sh", self.checkout / "tests")
        (self.checkout / "contrib").mkdir()
        packages = (ROOT / "contrib" / "packages.sh").read_text()
        packages = packages.replace("/var/lib/apt", str(where / "apt"))
        (self.checkout / "contrib" / "packages.sh").write_text(packages)
        launcher = (ROOT / "ioh.sh").read_text()
        launcher = launcher.replace("/usr/bin/python3", str(self.fakes / "python3"))
        launcher = launcher.replace("/usr/local/bin/python3", "/nonexistent/python3")
        self.launcher = launcher
        self.trust(f"{self.fakes}:{os.environ['PATH']}")
        self.environment |= {
            "HOME": str(where),
            "TMPDIR": str(where),
            "FAKE_LOG": str(self.log),
            "SUDO_UID": str(os.getuid()),
            "FAKE_BCC": str(self.bcc),
        }

    def hide_the_rest(self) -> None:
        """Leave only the fakes and what a shell script needs on the PATH."""
        programs = self.fakes.with_name("programs")
        programs.mkdir()
        for name in BASICS:
            target = shutil.which(name)
            assert target, name
            (programs / name).symlink_to(target)
        self.trust(f"{self.fakes}:{programs}")

    def trust(self, path: str) -> None:
        """Make this the PATH, and the launcher's ``system_path``."""
        launcher = re.sub(r"(?m)^system_path=.*", f"system_path='{path}'", self.launcher)
        (self.checkout / "ioh.sh").write_text(launcher)
        self.environment["PATH"] = path

    def add(self, name: str) -> None:
        (self.fakes / name).write_text(FAKE)
        (self.fakes / name).chmod(0o755)

    def start(self, *arguments: str, user: int | None = None, **fake: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", str(self.checkout / "ioh.sh"), *arguments],
            env=self.environment | {f"FAKE_{name}": value for name, value in fake.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=user,
        )

    def run(self, *arguments: str, user: int | None = None, **fake: str) -> tuple[int, list[str]]:
        """Run the launcher; its exit status and the lines that it wrote to stderr."""
        self.log.write_text("")
        with self.start(*arguments, user=user, **fake) as process:
            _, messages = process.communicate(timeout=30)
        return process.returncode, messages.splitlines()

    @property
    def calls(self) -> list[str]:
        """The logged calls, without those that only query."""
        asks = ("id ", "stat ", "apt-cache ", "sudo -n")
        lines = [line.rstrip() for line in self.log.read_text().splitlines()]
        return [line for line in lines if not line.startswith(asks) and " -I -c " not in line]

    @property
    def litter(self) -> list[str]:
        kept = {
            "ioh.sh",
            "pyproject.toml",
            "requirements.lock",
            "contrib",
            "tests",
            "ioh",
            "probes",
        }
        kept.add(".venv")
        return [p.name for p in self.checkout.iterdir() if p.name not in kept] + [
            p.name for p in self.checkout.parent.glob("tmp.*")
        ]
