"""ioh started as root: whose rights it uses, which user it becomes, and what it can do then."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ioh.recorder.marks import send_mark
from ioh.rights.user import service_user
from ioh.session.check import check
from tests.kernel.recordings import recording_of
from tests.kernel.rig import ROOT, START_S, ended
from tests.kernel.talker import Running, wait_until
from tests.kernel.test_screen import PROGRAMS, attached
from tests.support import fakes
from tests.support.pty_screen import ESC, LEFT, PtyScreen
from tests.support.sessions import recorded
from tests.unit.test_mark import blocked

IOH = [sys.executable, "-I", "-m", "ioh"]
CALLER = 12345  # any user but root; needs no entry in /etc/passwd
SUDO = {"SUDO_UID": str(CALLER), "SUDO_GID": str(CALLER)}
PROC = ["--proc", "-c", "0.1", "-t", "0.3"]
CLEAN = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm"}


def run(
    *arguments: str, env: Mapping[str, str] = SUDO, cwd: Path | str = "/", user: int | None = None
) -> subprocess.CompletedProcess[str]:
    return ended(*IOH, *arguments, env={**CLEAN, **env}, cwd=cwd, user=user)


@pytest.fixture
def callers(folder: Path) -> Path:
    made = folder / "callers"
    made.mkdir()
    os.chown(made, CALLER, CALLER)
    return made


@pytest.fixture
def secret(folder: Path) -> Path:
    """A recording of root's, behind a directory that nobody else may enter."""
    (folder / "roots").mkdir(mode=0o700)
    made = folder / "roots" / "secret.ioh"
    made.write_bytes(recorded(fakes.first(5)))
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("who", [SUDO, {"PKEXEC_UID": str(CALLER)}, {"DOAS_USER": "daemon"}])
@pytest.mark.parametrize("more", [[], ["--max-size", "64k", "--keep", "1"]])
def test_no_file_is_made_where_the_caller_may_not_write(
    folder: Path, who: dict[str, str], more: list[str]
) -> None:
    done = run("record", "-o", str(folder / "x.sh"), *PROC, *more, env=who)
    assert (done.returncode, names(folder)) == (1, [])
    assert "Permission denied" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_in_the_callers_directory_belongs_to_the_caller(callers: Path) -> None:
    done = run("record", *PROC, cwd=callers)
    assert done.returncode == 0, done.stderr
    (made,) = callers.iterdir()
    found = made.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (CALLER, CALLER, 0o600)
    assert check(str(made)).is_ended


def test_parts_that_the_caller_may_not_remove_stay(callers: Path) -> None:
    """The directory is root's and sticky: the caller may write there, not remove root's files."""
    callers.chmod(0o1777)
    os.chown(callers, 0, 0)
    for number in (1, 2):
        (callers / f"a-000{number}.ioh").write_bytes(recorded(fakes.first(3)))
    done = run("record", "-o", "a.ioh", "--max-size", "64k", "--keep", "1", *PROC, cwd=callers)
    assert done.returncode == 0, done.stderr
    assert names(callers) == ["a-0001.ioh", "a-0002.ioh", "a-0003.ioh"]


@pytest.mark.parametrize(
    "arguments",
    ["replay {} --no-tui", "text {}", "json {}", "report {}", "verify {}", "export {}",
     "compare {} {}"],
)  # fmt: skip
def test_roots_recordings_stay_closed_to_the_caller(secret: Path, arguments: str) -> None:
    command = arguments.replace("{}", str(secret)).split()
    done = run(*command)
    assert done.returncode != 0
    assert (done.stdout, "Permission denied" in done.stderr) == ("", True)
    assert run(*command, env={}).stdout


@pytest.mark.parametrize(
    "arguments", [["report", "sample", "--html"], ["export", "sample", "--format", "parquet"]]
)
def test_a_file_made_from_a_recording_belongs_to_the_caller(
    callers: Path, folder: Path, arguments: list[str]
) -> None:
    done = run(*arguments, "-o", "made", cwd=callers)
    assert (done.returncode, done.stderr) == (0, "")
    made = (callers / "made").stat()
    assert (made.st_uid, made.st_mode & 0o777, made.st_size > 10_000) == (CALLER, 0o600, True)
    done = run(*arguments, "-o", "made", cwd=folder)
    assert (done.returncode, "cannot create made: Permission denied" in done.stderr) == (1, True)
    assert names(folder) == ["callers"]


@pytest.mark.parametrize("command", ["report {}", "compare {} {}", "card --from {}", "{}"])
def test_a_bench_in_a_closed_directory_is_refused_in_one_line(secret: Path, command: str) -> None:
    done = run("bench", *command.replace("{}", str(secret.parent / "x")).split())
    assert done.returncode in {1, 2}
    assert "Permission denied" in done.stderr
    assert "Free some space" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_roots_configuration_is_not_shown_to_the_caller(secret: Path) -> None:
    secret.write_text("[hidden_password]\n")
    done = run("text", *PROC, "--findings-config", str(secret))
    assert (done.returncode, "hidden_password" in done.stderr) == (2, False)
    assert "Permission denied" in done.stderr


def test_several_callers_are_refused() -> None:
    done = run("demo", env={**SUDO, "DOAS_USER": "daemon"})
    assert done.returncode == 2
    assert "different users" in done.stderr


def status_of(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


@pytest.mark.parametrize("who", [SUDO, {}], ids=["sudo", "root"])
@pytest.mark.parametrize("source", ["bpf", "proc"])
def test_ioh_is_no_longer_root_while_it_measures(who: dict[str, str], source: str) -> None:
    command = [*IOH, "json", "-c", "0.2", "--layers", "block", *["--proc"] * (source == "proc")]
    with Running(command, env={**CLEAN, **who}) as ioh:
        ioh.output.wait_for(1, START_S)
        first = json.loads(ioh.output.lines[0])
        found = status_of(ioh.process.pid)
    assert first["layers"]["block"]["source"] == source
    uid = str(CALLER if who else service_user().uid)
    assert found["Uid"].split() == [uid] * 4
    assert found["Gid"].split().count("0") == found["Groups"].split().count("0") == 0
    assert int(found["CapPrm"], 16) == (1 << 19 | 1 << 2 if source == "proc" else 0)
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


# The capabilities that Docker gives a container, without those for BPF, tracing and reading all.
CONTAINER = (
    "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,"
    "sys_chroot,mknod,audit_write,setfcap"
)


def contained(*arguments: str) -> list[str]:
    only = "-all," + ",".join(f"+{name}" for name in CONTAINER.split(","))
    return ["setpriv", f"--bounding-set={only}", f"--inh-caps={only}", *IOH, *arguments]


@pytest.mark.parametrize("command", ["serve --listen 127.0.0.1:0", "json"])
def test_root_in_a_container_without_bpf_gives_root_up(command: str) -> None:
    with Running(contained(*command.split(), "-c", "0.2"), env=CLEAN) as ioh:
        (ioh.output if command == "json" else ioh.messages).wait_for(1, START_S)
        found = status_of(ioh.process.pid)
    assert found["Uid"].split() == [str(service_user().uid)] * 4
    assert int(found["CapPrm"], 16) == 0
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


def test_doctor_in_a_container_does_not_contradict_itself() -> None:
    done = ended(*contained("doctor"), env=CLEAN)
    assert "root without CAP_SYS_ADMIN or CAP_BPF: a container?" in done.stdout
    assert "ok    ioh keeps    no capability\n" in done.stdout
    assert f"ok    ioh runs as  user {service_user().name} (" in done.stdout
    assert "no capability, no_new_privs, seccomp filter" in done.stdout


def test_each_part_of_roots_recording_belongs_to_root(folder: Path) -> None:
    """The recorder runs as the service user in a directory of root's: only parts may be removed."""
    folder.chmod(0o700)
    (folder / "a-0001.ioh").write_bytes(recorded(fakes.first(3)))
    (folder / "a-0002.txt").touch()
    part = ["record", "-o", str(folder / "a.ioh"), "--max-size", "64k", "--keep", "2"]
    with Running([*IOH, *part, *PROC[:3]], env=CLEAN) as ioh:
        running = recording_of(ioh.process.pid)

        def is_enough() -> bool:
            text = base64.b85encode(os.urandom(800)).decode()  # fills the part
            assert send_mark(running, text) == ("", "")
            return (folder / "a-0004.ioh").exists()

        wait_until(is_enough, pause_s=0)
        found = status_of(ioh.process.pid)
    assert ioh.process.returncode == 0, ioh.messages.lines
    assert found["Uid"].split()[0] == str(service_user().uid)
    parts = sorted(folder.glob("*.ioh"))
    assert [path.name for path in parts] == ["a-0003.ioh", "a-0004.ioh"]
    assert (folder / "a-0002.txt").exists()
    assert {(p.stat().st_uid, p.stat().st_mode & 0o777) for p in parts} == {(0, 0o600)}
    assert all(check(str(path)).is_ended for path in parts)


@pytest.mark.parametrize(
    ("uid", "who", "is_heard"),
    [(0, {}, True), (0, SUDO, True), (CALLER, {}, False), (service_user().uid, {}, False)],
)
def test_roots_recording_takes_marks_from_root_only(
    folder: Path, uid: int, who: dict[str, str], is_heard: bool
) -> None:
    path = str(folder / "a.ioh")
    with Running([*IOH, "record", "-o", path, *PROC[:3]], env=CLEAN) as ioh:
        recording_of(ioh.process.pid)
        marked = run("mark", "now", "--file", path, env=who, user=uid)
    assert (marked.returncode == 0) == is_heard, marked.stderr


def test_another_users_sockets_do_not_stop_a_mark(folder: Path) -> None:
    """They have the names of recordings, and nobody takes what waits in their queues."""
    path = str(folder / "a.ioh")
    with (
        Running([*IOH, "record", "-o", path, *PROC[:3]], env=CLEAN) as ioh,
        blocked(450, ioh.process.pid, user=CALLER, cwd="/"),
    ):
        recording_of(ioh.process.pid)
        marked = run("mark", "now", "--file", path, env={})
    assert marked.returncode == 0, marked.stderr


@pytest.mark.parametrize("who", [SUDO, {}], ids=["sudo", "root"])
def test_files_that_keys_write_belong_to_who_started_the_screen(
    folder: Path, callers: Path, who: dict[str, str]
) -> None:
    here = callers if who else folder / "roots"
    here.mkdir(mode=0o700, exist_ok=True)
    with PtyScreen([*IOH, "--proc", "--layers", "block"], here, env={**CLEAN, **who}) as shown:
        shown.wait_for("block")
        shown.wait_until(lambda: status_of(shown.pid)["Uid"].split()[0] != "0")
        shown.press("R")
        shown.wait_until(lambda: any(here.glob("ioh-*.ioh")))
        shown.press("S")
        shown.wait_until(lambda: any(here.glob("ioh-*.txt")))
        shown.press("R", "q")
        assert shown.wait() == 0
    found = {(p.suffix, p.stat().st_uid, p.stat().st_mode & 0o777) for p in here.iterdir()}
    uid = CALLER if who else 0
    assert found == {(suffix, uid, 0o600) for suffix in (".ioh", ".svg", ".txt")}


@pytest.mark.parametrize("who", [SUDO, {}], ids=["sudo", "root"])
def test_doctor_shows_the_user_and_the_rights(who: dict[str, str]) -> None:
    said = run("doctor", env=who).stdout
    line = next(line for line in said.splitlines() if "ioh runs as" in line)
    assert f"({CALLER if who else service_user().uid}), no capability, no_new_privs" in line
    assert "seccomp filter" in line


def test_no_library_from_the_environment_is_loaded(folder: Path) -> None:
    """Nor from the current directory.  Here it would fail to load; elsewhere its code might run."""
    for name in ("libbpf.so.1", "libbpf.so.0", "libbcc.so.0"):
        (folder / name).write_text("no library")
    for name in ("bcc", "json", "msgspec", "numpy", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'mark')!r}, 'w')")
    env = {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": str(folder), "PYTHONINSPECT": "1"}
    done = run("doctor", env=env, cwd=folder)
    assert "libbpf       found" in done.stdout
    assert "ok    bcc" in done.stdout
    assert not (folder / "mark").exists()


def test_the_environment_cannot_replace_the_python_program(folder: Path) -> None:
    """Python 3.11 obeys these variables even if isolated; ioh, which starts it again, must not."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from ioh.rights import user; "
        "user.forget_foreign_libraries(); print(sys.executable)"
    )
    for name in ("PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__"):
        env = {**CLEAN, name: str(folder / "theirs")}
        done = ended(sys.executable, "-I", "-c", program, ROOT, env=env)
        assert Path(done.stdout.strip()).resolve() == Path(sys.executable).resolve()


# As the launcher starts it, but with the checkout's path as argument; else ioh.pth names it.
START = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
START += "runpy.run_module('ioh', run_name='__main__', alter_sys=True)"
NOBODY = {"SUDO_UID": "65534", "SUDO_GID": "65534"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir(mode=0o700)
    for name in ("ioh", "probes"):
        shutil.copytree(ROOT / name, made / name)
    return made


def ioh_of(checkout: Path) -> list[str]:
    return [sys.executable, "-I", "-c", START, str(checkout)]


@pytest.fixture
def elsewhere(folder: Path) -> Path:
    """A directory that everybody may use."""
    folder.chmod(0o777)
    return folder


def test_the_screen_runs_from_a_checkout_that_only_root_may_read(
    checkout: Path, elsewhere: Path
) -> None:
    env = {**NOBODY, "TMPDIR": str(elsewhere)}
    with PtyScreen(ioh_of(checkout), checkout, env=env) as shown:
        shown.wait_until(lambda: attached(shown) >= PROGRAMS)
        shown.wait_until(lambda: Path(f"/proc/{shown.pid}").stat().st_uid == 65534)
        shown.wait_for("iowait")  # the first interval: before it there is nothing to search
        shown.press("\x10")
        shown.wait_for("command: ")
        shown.press(ESC, "?", ESC, "2", ESC, "l", "g", "f", ESC, "S", "R")
        shown.wait_for("because the current directory is not writable")
        shown.press("R", "q")
        assert shown.wait() == 0
        assert LEFT in shown.shown
        assert "Traceback" not in shown.text
        assert "Error" not in shown.text


def test_record_runs_from_such_a_checkout_on_a_terminal(checkout: Path, elsewhere: Path) -> None:
    command = [*ioh_of(checkout), "record", "-o", str(elsewhere / "a.ioh"), "-t", "2"]
    command += ["--layers", "block"]
    with PtyScreen(command, checkout, env=NOBODY) as shown:
        shown.wait_for("block")
        assert shown.wait() == 0
        assert "REC 00:00:0" in shown.text
        assert "Traceback" not in shown.text


@pytest.mark.parametrize("arguments", ["text -d all", "json --db-all"])
def test_text_and_json_run_from_such_a_checkout(
    checkout: Path, elsewhere: Path, arguments: str
) -> None:
    env = {**os.environ, **NOBODY, "TMPDIR": str(elsewhere)}
    done = ended(*ioh_of(checkout), *arguments.split(), "-t", "2", cwd=checkout, env=env)
    assert (done.stderr, done.returncode) == ("", 0)
    if arguments.startswith("json"):
        sources = {
            layer["source"] for layer in json.loads(done.stdout.splitlines()[-1])["layers"].values()
        }
        assert "bpf" in sources
