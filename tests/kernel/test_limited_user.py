"""The sudo rule in docs/security.md lets its user watch, not become root or remove a file."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.kernel.limited_user import NAME, Host
from tests.kernel.talker import wait_until

PROGRAM = "/usr/local/bin/ioh"
SHORT = ["json", "--layers", "block", "-c", "0.1", "-t", "0.3"]
REFUSED = f"ioh.sh: sudo does not run {PROGRAM} without a password: ioh has only /proc\n"
VERBS = ["--setup", "--setup yes", "--lint", "--test", "--test-vm", "--test-programs", "--soak",
         "--test-servers", "--test-distros", "--bench", "--fuzz"]  # fmt: skip


@pytest.fixture
def host(folder: Path) -> Iterator[Host]:
    with closing(Host(folder)) as made:
        yield made


@pytest.fixture
def installed(host: Host) -> Host:
    install(host)
    return host


@pytest.fixture(scope="module")
def standing() -> Iterator[Host]:
    """An installed host whose system no test changes; homes may be."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    with closing(Host(folder)) as made:
        install(made)
        yield made
    shutil.rmtree(folder)


def install(host: Host) -> None:
    done = host.launcher("--install")
    assert done.returncode == 0, done.stderr


def changed(host: Host, changes: Sequence[str]) -> Iterator[str]:
    """Make each change in the installed copy, one after the other; none is left at the next."""
    host.run("cp", "-a", "/opt/ioh", "/opt/kept")
    for change in changes:
        host.run("sh", "-ec", f"rm -rf /opt/ioh; cp -a /opt/kept /opt/ioh; cd /opt/ioh; {change}")
        yield change


def sources(output: str) -> set[str]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {line["layers"]["block"]["source"] for line in lines if "layers" in line}


def everything(host: Host) -> list[str]:
    return host.tree("/opt", "/usr/local", "/etc", "/var/cache", str(host.folder))


def at_terminal(host: Host, *words: str) -> str:
    """What the user sees who starts this at a terminal, and answers a question with ^D."""
    ours, theirs = pty.openpty()
    command = [*host.inside(user=True), "setsid", "--ctty", "--wait", *words]
    with subprocess.Popen(
        command, env=host.environment(), stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, b"\4")
        said = b""
        while chunk := _read(ours):
            said += chunk
        os.close(ours)
        process.wait(timeout=60)
    return said.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # EIO: nobody has the other end open
        return b""


def test_with_the_documented_rule_a_plain_ioh_measures_without_a_password(standing: Host) -> None:
    done = standing.run("ioh", *SHORT, user=True)
    assert (sources(done.stdout), done.stderr) == ({"bpf"}, "")
    said = at_terminal(standing, "ioh", *SHORT)
    assert sources(said) == {"bpf"}
    assert "password" not in said
    done = standing.run("sh", "/opt/ioh/ioh.sh", *SHORT, user=True)
    assert (sources(done.stdout), done.stderr) == ({"bpf"}, "")
    done = standing.run("ioh", "text", "-t", "1", user=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_if_sudo_refuses_ioh_says_so_and_reads_proc(installed: Host) -> None:
    rule = Path("etc/sudoers.d/ioh")
    other = f"{NAME} ALL=(root) NOPASSWD: /bin/true"
    for text, is_asked in ((other, False), (f"{NAME} ALL=(root) {PROGRAM}", True), ("", True)):
        installed.run("sh", "-c", f"echo '{text}' >/{rule}")
        done = installed.run("ioh", *SHORT, user=True)
        assert (sources(done.stdout), done.stderr) == ({"proc"}, REFUSED), text
        said = at_terminal(installed, "ioh", *SHORT)
        assert (f"password for {NAME}" in said, sources(said)) == (
            (True, set()) if is_asked else (False, {"proc"})
        ), text


def test_a_users_display_settings_pass_the_rule(standing: Host) -> None:
    words = ["text", "-d", "hist", *SHORT[1:]]
    done = standing.run("ioh", *words, user=True, PAD="<a b>", CWIDTH="9")
    assert done.returncode == 0, done.stderr
    assert "<a b>" in done.stdout
    done = standing.run("sudo", "-n", PROGRAM, "LD_PRELOAD=/x", *words, user=True)
    assert done.returncode == 2
    assert "LD_PRELOAD=/x" in done.stderr


def test_no_verb_of_the_launcher_is_reached_by_the_rule(installed: Host) -> None:
    """Neither with a forged record, nor through a link, nor for the installed copy itself."""
    host = installed
    victim = host.folder / "victim"
    (victim / "empty").mkdir(parents=True)
    forged = forge(host)
    (forged / "installed.txt").write_text(f"/nowhere\n{victim}\n{victim}/empty\n/var/cache/ioh\n")
    (host.home / "link").symlink_to(host.home)
    places = ["", "/opt/ioh", str(forged), str(host.home / "link" / "forged")]
    verbs = [f"{verb} {place}" for verb in ("--install", "--uninstall") for place in places]
    verbs += [*VERBS, "NO_COLOR=1 --uninstall", "--run --uninstall"]
    before = everything(host)
    for verb in verbs:
        done = host.run("sudo", "-n", "ioh", *verb.split(), user=True)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("ioh: unrecognized arguments: "), done.stderr
        assert everything(host) == before
        done = host.run("sudo", "-n", "/opt/ioh/ioh.sh", *verb.split(), user=True)
        assert (done.returncode, "password is required" in done.stderr) == (1, True)


def test_a_link_to_the_launcher_only_runs_ioh(installed: Host) -> None:
    """As README.md describes it for a checkout, and as older versions installed it."""
    installed.run("ln", "-sf", "/opt/ioh/ioh.sh", PROGRAM)
    before = everything(installed)
    done = installed.run("sudo", "-n", "ioh", "--uninstall", user=True)
    assert (done.returncode, done.stderr.startswith("ioh: unrecognized")) == (2, True)
    assert everything(installed) == before
    assert sources(installed.run("ioh", *SHORT, user=True).stdout) == {"bpf"}


def test_the_program_installs_nothing_for_its_caller(installed: Host) -> None:
    """If the environment no longer fits, and neither a place from the caller's environment."""
    installed.run("sh", "-c", "echo old >/opt/ioh/.venv/ioh.stamp")
    before = everything(installed)
    for words in (["sudo", "-n", PROGRAM], ["ioh"]):
        done = installed.run(*words, "text", user=True, XDG_DATA_HOME=str(installed.home))
        assert done.returncode == 1
        assert done.stderr.endswith("run sudo /opt/ioh/ioh.sh --setup\n"), done.stderr
    assert everything(installed) == before


def forge(host: Host) -> Path:
    """A directory of the user's that looks installed, with a Python that takes notes."""
    made = host.home / "forged"
    (made / ".venv" / "bin").mkdir(parents=True)
    (made / "installed.txt").write_text("/usr/local\n")
    notes = f"#!/bin/sh\nid >>{host.home}/notes\n"
    (made / ".venv" / "bin" / "python").write_text(notes)
    (made / ".venv" / "bin" / "python").chmod(0o755)
    host.run("chown", "-R", NAME, str(made))
    return made


def test_root_installs_nothing_where_a_user_can_change_it(installed: Host) -> None:
    forge(installed)
    (installed.home / "link").symlink_to(installed.home)
    (installed.home / "roots").mkdir()  # root's, but the user can put another in its place
    before = everything(installed)
    for place in ("forged", "new", "link/forged", "roots"):
        done = installed.launcher("--install", str(installed.home / place))
        assert (done.returncode, everything(installed)) == (1, before), place
        assert "give a place that root alone can change" in done.stderr


def test_links_that_change_meanwhile_lead_root_nowhere(installed: Host) -> None:
    """The user swaps a directory and a link to root's files while root acts on the path."""
    host = installed
    (host.folder / "srv" / "victim").mkdir(parents=True)
    forge(host).rename(host.home / "victim")
    script = "while :; do ln -sfnT $1 l.new; mv -fT l.new l; ln -sfnT . l.new; mv -fT l.new l; done"
    words = [*host.inside(user=True), "sh", "-c", f"cd ~; {script}", "sh", str(host.folder / "srv")]
    before = host.tree("/opt", "/usr/local", str(host.folder / "srv"))
    with subprocess.Popen(words, env=host.environment()) as swapper:
        wait_until((host.home / "l").is_symlink)
        for _ in range(10):
            done = host.launcher("--install", f"{host.home}/l/victim")
            assert done.returncode == 1
            done = host.launcher("--install", IOH_LINKS=f"{host.home}/l/victim")
            assert done.returncode == 1
            for root in (f"{host.home}/l/victim", "/opt/ioh"):
                done = host.run("sh", "/opt/ioh/ioh.sh", "--uninstall", root)
                assert done.returncode == 1
        swapper.kill()
    assert host.tree("/opt", "/usr/local", str(host.folder / "srv")) == before
    assert not (host.home / "notes").exists()


def test_a_copy_that_others_could_change_is_neither_replaced_nor_removed(installed: Host) -> None:
    for change in changed(
        installed,
        [f"chown {NAME} .", "chmod g+w .", f"chown {NAME} installed.txt", "chmod o+w installed.txt",
         "cp installed.txt other; ln -sf other installed.txt"],
    ):  # fmt: skip
        before = everything(installed)
        for done in (
            installed.launcher("--install"),
            installed.run("sh", "/opt/ioh/ioh.sh", "--uninstall"),
        ):
            assert done.returncode == 1, change
            assert everything(installed) == before, change


def test_an_environment_is_kept_only_if_root_owns_all_of_it(installed: Host) -> None:
    for change in changed(
        installed,
        [
            "true",
            f"chown {NAME} .venv/bin/python",
            "chmod o+w .venv/lib",
            "cp -p .venv/bin/python ~/python; ln -sf ~/python .venv/bin/python",
            "mv .venv ~/venv; ln -s ~/venv .venv",
        ],
    ):
        installed.run("chown", "-R", NAME, str(installed.home))
        for each in installed.home.rglob("python"):
            each.write_text(f"#!/bin/sh\nid >>{installed.home}/notes\n")
        done = installed.launcher("--install")
        assert done.returncode == 0, done.stderr
        assert ("creating /opt/ioh/.venv" not in done.stderr) == (change == "true"), change
        assert not (installed.home / "notes").exists(), change
        assert sources(installed.run("ioh", *SHORT, user=True).stdout) == {"bpf"}, change


def test_an_older_installation_is_upgraded(installed: Host) -> None:
    """It had a link to the launcher, and no user in its record."""
    installed.run("ln", "-sf", "/opt/ioh/ioh.sh", PROGRAM)
    installed.run("sed", "-i", "/user/d", "/opt/ioh/installed.txt")
    done = installed.launcher("--install")
    assert done.returncode == 0, done.stderr
    assert "exec /bin/sh '/opt/ioh/ioh.sh' --run" in installed.run("cat", PROGRAM).stdout
    assert installed.run("stat", "-c", "%u %a %F", PROGRAM).stdout == "0 755 regular file\n"
    assert installed.run("sh", "/opt/ioh/ioh.sh", "--uninstall").returncode == 0
    assert installed.run("id", "ioh").returncode == 0  # it may be somebody else's
    assert installed.run("find", "/opt", "/usr/local", "-name", "*ioh*").stdout == ""


@pytest.mark.parametrize("is_theirs", [False, True])
def test_the_user_ioh_is_removed_only_if_install_made_it(host: Host, is_theirs: bool) -> None:
    if is_theirs:
        host.run("useradd", "--system", "ioh")
    for _ in range(2):
        assert host.launcher("--install").returncode == 0
        found = host.run("getent", "passwd", "ioh").stdout.strip().split(":")
        assert int(found[2]) < 1000
        assert is_theirs or found[6] == "/usr/sbin/nologin"
    done = host.run("sh", "/opt/ioh/ioh.sh", "--uninstall")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert host.run("id", "ioh").returncode == (0 if is_theirs else 1)


def test_a_killed_install_is_repaired_by_the_next(host: Host) -> None:
    before = host.tree("/opt", "/usr/local")
    (host.folder / "slow").touch()
    words = [*host.inside(), "sh", str(Path(__file__).parents[2] / "ioh.sh"), "--install"]
    begun = {""}

    def begins() -> bool:
        found = host.run("find", "/opt/ioh", "-name", "python").stdout
        return found not in begun and not begun.add(found)  # type: ignore[func-returns-value]

    for _ in range(2):  # the second replaces what the first has left
        with subprocess.Popen(words, env=host.environment(), start_new_session=True) as process:
            wait_until(begins)
            again = host.launcher("--install")
            assert "another --install is at work" in again.stderr
            os.killpg(process.pid, signal.SIGKILL)
    (host.folder / "slow").unlink()
    for left in ("true", "mv /opt/ioh /opt/ioh.replaced", "cp -r /opt/ioh /opt/ioh.installing"):
        host.run("sh", "-c", left)
        done = host.launcher("--install")
        assert done.returncode == 0, done.stderr
    assert host.run("ls", "/opt").stdout == "ioh\n"
    assert host.run("sh", "/opt/ioh/ioh.sh", "--uninstall").returncode == 0
    assert [line.rpartition(" ")[0] for line in host.tree("/opt", "/usr/local")] == [
        line.rpartition(" ")[0] for line in before
    ]
