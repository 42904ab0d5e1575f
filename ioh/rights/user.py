"""Whose rights ioh acts with: those of the user who called sudo, doas or pkexec.

The kernel does every check of a path: ioh takes that user's ids before it looks at any path that
was named to it, and takes root back only to fork what needs root.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import pwd
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from ioh.model.errors import ExitCode, IohError

SERVICE_NAMES = ("ioh", "nobody")  # who ioh becomes where root itself started it
# What makes the C library load code of others, and Python 3.11, with -I, too, take it for itself.
_LOADING = {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH"}
_LOADING |= {"PYTHONEXECUTABLE"}
_OVERFLOW_ID = 65534  # "nobody" where the system has no such line
_is_service = False
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class User:
    """A user with all groups; ``name`` for people."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str


def caller() -> User | None:
    """Who called sudo, doas or pkexec; None where nobody did, or root did, or ioh is not root.

    Raises IohError where they name different users: which one called last cannot be known.
    """
    if os.getuid() != 0:
        return None
    told = [value for name in ("SUDO_UID", "PKEXEC_UID") if (value := os.environ.get(name, ""))]
    found = {int(value) for value in told if value.isdecimal() and value.isascii()}
    doas = os.environ.get("DOAS_USER", "")
    if doas:
        with contextlib.suppress(KeyError):
            found.add(pwd.getpwnam(doas).pw_uid)
    if len(found) > 1:
        cause = "SUDO_UID, PKEXEC_UID and DOAS_USER name different users"
        hint = "Unset those that are left over from an earlier sudo, pkexec or doas"
        raise IohError(cause, hint, ExitCode.USAGE)
    uid = next(iter(found), 0)
    return _user(uid) if uid else None


def service_user() -> User:
    """Who ioh becomes where root itself started it: the system user ``ioh``, else nobody."""
    for name in SERVICE_NAMES:
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            if found.pw_uid:
                return User(found.pw_uid, found.pw_gid, (found.pw_gid,), name)
    return User(_OVERFLOW_ID, _OVERFLOW_ID, (_OVERFLOW_ID,), str(_OVERFLOW_ID))


def config_path(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """A file of the user's: in ``$XDG_CONFIG_HOME/ioh``, else in ``~/.config/ioh``.

    ``~`` is of the user whose rights ioh has by now, who is the one that called sudo: HOME may
    still be root's.  Raises RuntimeError where that user has no home directory.
    """
    folder = environment.get("XDG_CONFIG_HOME")
    if folder:
        return Path(folder) / "ioh" / name
    try:
        home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:  # a container's user without a line in passwd
        home = Path(environment.get("HOME") or "/" if os.geteuid() == os.getuid() else "/")
    return home / ".config" / "ioh" / name


def is_service() -> bool:
    """Whether this process is the service user in root's place."""
    return _is_service


def _user(uid: int) -> User:
    try:
        found = pwd.getpwuid(uid)
    except KeyError:  # of a directory service that does not answer
        gid = os.environ.get("SUDO_GID", "")
        own = int(gid) if gid.isdecimal() and gid.isascii() else _OVERFLOW_ID
        return User(uid, own, (own,), str(uid))
    groups = os.getgrouplist(found.pw_name, found.pw_gid)
    return User(uid, found.pw_gid, tuple(groups), found.pw_name)


def forget_foreign_libraries() -> None:
    """As root, restart without the variables that lead to code of others."""
    if os.geteuid() != 0:
        return
    python = os.readlink("/proc/self/exe")  # noqa: PTH115
    if not _LOADING & os.environ.keys():
        # Python has taken __PYVENV_LAUNCHER__ out of its environment.
        if os.path.realpath(sys.executable) != python:
            sys.executable = python
        return
    clean = {name: value for name, value in os.environ.items() if name not in _LOADING}
    os.execve(python, sys.orig_argv, clean)  # noqa: S606


def act_as_caller() -> None:
    """From here on paths are the caller's; the first thing that ``main`` does.

    Root is not lost by this, see own_rights().  Where root itself started ioh, it has named the
    paths, and its own rights are the right ones.  Raises IohError as caller() does.
    """
    if os.geteuid() != 0:
        return
    user = caller()
    if user is not None:
        _import_what_is_out_of_reach_of(user)
        os.setgroups(user.groups)
        os.setegid(user.gid)
        os.seteuid(user.uid)
        make_dumpable()


def give_root_up() -> None:
    """Be no more than the caller from now on; without a caller nothing changes."""
    user = caller()
    if user is not None:
        become(user)


def become(user: User) -> None:
    """Take a user's ids for good; OSError where the kernel refuses."""
    global _is_service  # noqa: PLW0603 (a process does this once)
    _is_service = caller() is None
    os.seteuid(0)
    _import_what_is_out_of_reach_of(user)
    os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    make_dumpable()


@contextlib.contextmanager
def own_rights() -> Iterator[None]:
    """Take root back for a moment, if it was lent by act_as_caller(); for no path of the caller."""
    uid, gid = os.geteuid(), os.getegid()
    is_lent = uid != 0 and 0 in os.getresuid()
    if not is_lent:
        yield
        return
    os.seteuid(0)
    os.setegid(0)
    try:
        yield
    finally:
        os.setegid(gid)
        os.seteuid(uid)
        make_dumpable()


def make_dumpable() -> None:
    """Let ioh read its own /proc/self again, which changing ids forbids.

    While a real or saved uid is root's, nobody but root can trace the process all the same.
    """
    import ctypes  # noqa: PLC0415 (an ordinary user's ioh does without)

    pr_set_dumpable = 4
    ctypes.CDLL(None).prctl(pr_set_dumpable, 1, 0, 0, 0)


def _can_read_ioh(user: User) -> bool:
    """Whether a user may read ioh and the libraries it imports later on."""
    needed = [_PACKAGE, _PACKAGE / "commands" / "__init__.py"]
    for name in ("msgspec", "numpy", "psutil", "pyroute2", "textual"):
        with contextlib.suppress(ImportError, ValueError):
            spec = PathFinder.find_spec(name)
            if spec is not None and spec.origin:
                needed.append(Path(spec.origin))
    own = os.getegid()
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        for path in needed:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.seteuid(0)
        os.setegid(own)
    return True


def _import_what_is_out_of_reach_of(user: User) -> None:
    """Import all of ioh now, where the user may not read its checkout, such as one below /root."""
    import ioh  # noqa: PLC0415

    if _can_read_ioh(user):
        return
    for found in pkgutil.walk_packages(ioh.__path__, "ioh."):
        if not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # a library is missing: said where it is needed
                importlib.import_module(found.name)
    for module, preload in (("ioh.tui.preload", "preload_screen"), ("ioh.bpf.maps", "preload")):
        with contextlib.suppress(ImportError):
            getattr(importlib.import_module(module), preload)()
