"""ioh.sh run by root: what it leaves behind, and where else it writes if not into the checkout."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine import ROOT, Machine

OWNER = 12345  # any user but root; needs no entry in /etc/passwd


@pytest.fixture
def machine(folder: Path) -> Machine:
    folder.chmod(0o777)
    machine = Machine(folder)
    (machine.fakes / "setpriv").unlink()  # both are the real ones
    (machine.fakes / "id").write_text('#!/bin/sh\nexec /usr/bin/id "$@"\n')
    machine.log.touch()
    machine.log.chmod(0o666)
    return machine


def give_away(machine: Machine) -> None:
    """Make OWNER the owner of the whole checkout."""
    for path in [machine.checkout, *machine.checkout.rglob("*")]:
        os.chown(path, OWNER, OWNER)


def test_a_checkout_that_cannot_be_written_is_left_alone(machine: Machine) -> None:
    machine.checkout.chmod(0o755)
    status, said = machine.run("text", user=OWNER, UID=str(OWNER))
    assert status == 0
    assert ".local/share/ioh/venv-" in said[0]
    assert machine.run("text", user=OWNER, UID=str(OWNER)) == (0, [])
    assert machine.litter == []
    assert not (machine.checkout / ".venv").exists()


def everything(folder: Path) -> dict[Path, object]:
    """Everything below a folder: targets of links, contents of files."""

    def content(path: Path) -> object:
        if path.is_symlink():
            return path.readlink()
        return path.read_bytes() if path.is_file() else None

    return {path: content(path) for path in sorted(folder.rglob("*"))}


@pytest.fixture
def system(machine: Machine) -> Iterator[Path]:
    """Directories that --install may write to and other users may not; /tmp would be refused."""
    system = Path(tempfile.mkdtemp(dir="/var/lib"))
    system.chmod(0o755)
    for made in ("opt", "usr/local/bin", "usr/local/share/man"):
        (system / made).mkdir(parents=True)
    for name in ("contrib", "man"):
        ours = shutil.ignore_patterns("packages.sh")
        shutil.copytree(ROOT / name, machine.checkout / name, ignore=ours, dirs_exist_ok=True)
    for name in ("docs", "screenshots"):
        (machine.checkout / name).mkdir()
    for name in ("LICENSE", "README.md", "SECURITY.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, machine.checkout)
    (machine.checkout / "ioh" / "__init__.py").touch()
    (machine.checkout / "ioh" / "__pycache__").mkdir()
    machine.environment["IOH_LINKS"] = str(system / "usr/local")
    installer = machine.checkout / "contrib" / "install.sh"
    text = installer.read_text().replace("/var/cache/ioh", f"{system}/cache")
    text = text.replace("/etc/systemd/system", f"{system}/etc/systemd/system")
    run = machine.checkout.parent / "run"
    run.mkdir()
    text = text.replace("/run/", f"{run}/")
    for name in ("useradd", "userdel"):
        machine.add(name)
    installer.write_text(text)
    yield system
    shutil.rmtree(system)


def test_installed_files_belong_to_root_and_are_removed_to_the_last(
    machine: Machine, system: Path
) -> None:
    give_away(machine)
    for path in [machine.checkout, *machine.checkout.rglob("*")]:
        path.chmod(0o777)
    units = system / "etc/systemd/system"
    units.mkdir(parents=True)
    before, checkout = everything(system), everything(machine.checkout)
    prefix = system / "opt/ioh"
    status, said = machine.run("--install", str(prefix))
    assert (status, said[-1].split()[1]) == (0, "installed")
    assert everything(machine.checkout) == checkout
    for path in [prefix, *prefix.rglob("*")]:
        found = path.lstat()
        assert (found.st_uid, found.st_gid) == (0, 0), path
        assert path.is_symlink() or not found.st_mode & 0o022, path
    assert not (prefix / "ioh" / "__pycache__").exists()
    for link, target in (
        ("usr/local/share/man/man8/ioh.8", "man/ioh.8"),
        ("etc/fish/completions/ioh.fish", "contrib/completion/ioh.fish"),
    ):
        assert (system / link).resolve() == prefix / target
    for folder in ("functions", "grafana", "prometheus", "systemd"):  # examples to start from
        ours, theirs = ROOT / "contrib" / folder, prefix / "contrib" / folder
        assert {path.name for path in theirs.iterdir()} == {path.name for path in ours.iterdir()}
    (system / "cache").mkdir()
    (system / "cache" / "probe").touch()
    again, _ = machine.run("--install", str(prefix))
    assert again == 0
    assert sum("-m venv" in call for call in machine.calls) == 0
    (units / "ioh.service").write_text(
        f"[Service]\nExecStart={prefix}/.venv/bin/python -m ioh serve\n"
    )
    machine.checkout = prefix
    assert machine.run("--uninstall")[0] == 0
    assert everything(system) == before


def test_a_unit_of_another_ioh_stays(machine: Machine, system: Path) -> None:
    unit = system / "etc/systemd/system/ioh.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/opt/other/.venv/bin/python -m ioh serve\n")
    before, prefix = everything(system), system / "opt/ioh"
    assert machine.run("--install", str(prefix))[0] == 0
    machine.checkout = prefix
    assert machine.run("--uninstall")[0] == 0
    assert everything(system) == before


def test_a_failed_install_changes_nothing(machine: Machine, system: Path) -> None:
    before = everything(system)
    prefix = system / "opt/ioh"
    status, _ = machine.run("--install", str(prefix), PIP_ERROR="no route to host")
    assert status == 1
    assert everything(system) == before
    assert machine.run("--install", str(prefix))[0] == 0
    installed = everything(system)
    project = machine.checkout / "pyproject.toml"
    project.write_text(project.read_text().replace('"numpy>=1.23"', '"numpy>=9"'))
    status, _ = machine.run("--install", str(prefix), PIP_ERROR="no route to host")
    assert status == 1
    assert everything(system) == installed
    assert "numpy>=9" not in (prefix / "pyproject.toml").read_text()


def test_files_that_ioh_did_not_install_are_left_alone(machine: Machine, system: Path) -> None:
    before = everything(system)
    writable = system / "writable"
    writable.mkdir()
    writable.chmod(0o777)
    (system / "opt/theirs").mkdir()
    (system / "usr/local/bin/ioh").touch()
    for place, complaint in (
        ("relative/ioh", "absolute path"),
        (f"{system}/opt/../ioh", "absolute path"),
        (f"{system}/opt/theirs", "ioh.sh did not install"),
        (f"{system}/it's", "absolute path"),
        (f"{writable}/ioh", "other users can write"),
        ("/tmp/ioh", "other users can write"),
        (f"{system}/opt/ioh", "ioh.sh did not create it"),
    ):
        status, said = machine.run("--install", place)
        assert status == 1
        assert complaint in said[-1]
    for places, copy in (([], "/opt/ioh"), ([f"{system}/opt/theirs"], f"{system}/opt/theirs")):
        status, said = machine.run("--uninstall", *places)
        assert status == 1
        assert said[-1].endswith(f"removes itself: sudo {copy}/ioh.sh --uninstall")
    writable.rmdir()
    (system / "opt/theirs").rmdir()
    (system / "usr/local/bin/ioh").unlink()
    assert everything(system) == before


def test_a_users_checkout_is_set_up_as_that_user_and_ioh_warns(machine: Machine) -> None:
    """The real setpriv: pip and the rest of the set-up run as the owner, and only ioh as root."""
    give_away(machine)
    python = machine.fakes / "python3"
    python.write_text(python.read_text().replace('echo "$name $*"', 'echo "$(id -u) $name $*"'))
    status, said = machine.run("text")
    assert status == 0, said
    pip = [call for call in machine.calls if "pip install" in call]
    assert [call.split()[0] for call in pip] == [str(OWNER)]
    made = [machine.checkout / ".venv", *(machine.checkout / ".venv").rglob("*")]
    assert {path.lstat().st_uid for path in made} == {OWNER}
    assert machine.calls[-1] == "0 python -I -B -m ioh text"
    assert f"which others can change (user {OWNER})" in said[-1]
    assert "--install" in said[-1]
    status, said = machine.run("text")
    assert len(said) == 1
    machine.environment["SUDO_UID"] = str(OWNER)
    machine.environment["SUDO_GID"] = str(OWNER)
    machine.checkout.parent.chmod(0o755)
    assert machine.run("text") == (0, [])


def test_root_writes_nothing_into_a_users_checkout(machine: Machine) -> None:
    """A link in the place of .venv must not lead root to where only root may write."""
    give_away(machine)
    roots = machine.checkout.parent / "roots"
    roots.mkdir(mode=0o755)
    (machine.checkout / ".venv").symlink_to(roots)
    machine.run("text")
    assert list(roots.iterdir()) == []
