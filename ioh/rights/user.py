"""Act with the rights of the user who called sudo, doas or pkexec.

The kernel checks all paths: ioh takes that user's ids before it opens any path given to it, and
takes root back only to fork what needs root.
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

SERVICE_NAMES = ("ioh", "nobody")  # the user that ioh becomes if root itself started it
# Variables that make the C library load other code, or Python 3.11 (even with -I) use another path.
_LOADING = {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "PYTHONEXECUTABLE"}
_OVERFLOW_ID = 65534  # nobody, if passwd has no such user
_is_service = False
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class User:
    """A user with all groups; ``name`` is for messages."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str


def caller() -> User | None:
    """The user who called sudo, doas or pkexec; None without one, if it is root, or ioh is not.

    IohError: they name different users, and the last caller is not known.
    """
    if os.getuid() != 0:
        return None
    ids = [value for name in ("SUDO_UID", "PKEXEC_UID") if (value := os.environ.get(name, ""))]
    uids = {int(value) for value in ids if value.isdecimal() and value.isascii()}
    doas = os.environ.get("DOAS_USER", "")
    if doas:
        with contextlib.suppress(KeyError):
            uids.add(pwd.getpwnam(doas).pw_uid)
    if len(uids) > 1:
        cause = "SUDO_UID, PKEXEC_UID and DOAS_USER name different users"
        hint = "Unset those left over from an earlier sudo, pkexec or doas"
        raise IohError(cause, hint, ExitCode.USAGE)
    uid = next(iter(uids), 0)
    return _user(uid) if uid else None


def service_user() -> User:
    """The user that ioh becomes if root itself started it: ``ioh``, else nobody."""
    for name in SERVICE_NAMES:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid:
                return User(entry.pw_uid, entry.pw_gid, (entry.pw_gid,), name)
    return User(_OVERFLOW_ID, _OVERFLOW_ID, (_OVERFLOW_ID,), str(_OVERFLOW_ID))


def config_path(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """A configuration file in ``$XDG_CONFIG_HOME/ioh``, else in ``~/.config/ioh``.

    ``~`` is the home of the user whose rights ioh has, the one who called sudo: HOME may be root's.
    """
    folder = environment.get("XDG_CONFIG_HOME")
    if folder:
        return Path(folder) / "ioh" / name
    try:
        home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:  # a user without a passwd entry, as in a container
        home = Path(environment.get("HOME") or "/" if os.geteuid() == os.getuid() else "/")
    return home / ".config" / "ioh" / name


def is_service() -> bool:
    """Whether root started this process, which is now the service user."""
    return _is_service


def _user(uid: int) -> User:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # such as of a directory service that does not answer
        gid = os.environ.get("SUDO_GID", "")
        own = int(gid) if gid.isdecimal() and gid.isascii() else _OVERFLOW_ID
        return User(uid, own, (own,), str(uid))
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return User(uid, entry.pw_gid, tuple(groups), entry.pw_name)


def forget_foreign_libraries() -> None:
    """As root, restart without the variables that load other code."""
    if os.geteuid() != 0:
        return
    python = os.readlink("/proc/self/exe")  # noqa: PTH115
    if not _LOADING & os.environ.keys():
        # Python has already removed __PYVENV_LAUNCHER__ from its environment.
        if os.path.realpath(sys.executable) != python:
            sys.executable = python
        return
    clean = {name: value for name, value in os.environ.items() if name not in _LOADING}
    os.execve(python, sys.orig_argv, clean)  # noqa: S606


def act_as_caller() -> None:
    """Use the caller's rights for all paths from now on; ``main`` calls this first.

    own_rights() can still take root back.  If root itself started ioh, root has named the paths,
    and keeps its own rights.  IohError as for caller().
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
    """Become the caller for good; without a caller, do nothing."""
    user = caller()
    if user is not None:
        become(user)


def become(user: User) -> None:
    """Take a user's ids for good.  OSError: the kernel refuses."""
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
    """Take root back for the block, after act_as_caller(); never use the caller's paths in it."""
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


@contextlib.contextmanager
def rights_of(user: User) -> Iterator[None]:
    """Take a user's rights for the block, as root; the groups stay those of the caller."""
    own = os.getegid()
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(own)


def make_dumpable() -> None:
    """Allow ioh to read its own /proc/self again, which changing ids forbids.

    While a real or saved uid is root's, still only root can trace the process.
    """
    import ctypes  # noqa: PLC0415 (not needed by an ordinary user's ioh)

    pr_set_dumpable = 4
    ctypes.CDLL(None).prctl(pr_set_dumpable, 1, 0, 0, 0)


def _can_read_ioh(user: User) -> bool:
    """Whether a user can read ioh and the libraries that it imports later."""
    needed = [_PACKAGE, _PACKAGE / "commands" / "__init__.py"]
    for name in ("msgspec", "numpy", "psutil", "pyroute2", "textual"):
        with contextlib.suppress(ImportError, ValueError):
            spec = PathFinder.find_spec(name)
            if spec is not None and spec.origin:
                needed.append(Path(spec.origin))
    try:
        with rights_of(user):
            for path in needed:
                os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _import_what_is_out_of_reach_of(user: User) -> None:
    """Import all of ioh now, if the user cannot read its checkout, such as one below /root."""
    import ioh  # noqa: PLC0415

    if _can_read_ioh(user):
        return
    for found in pkgutil.walk_packages(ioh.__path__, "ioh."):
        if not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # a missing library is reported when needed
                importlib.import_module(found.name)
    for module, preload in (("ioh.tui.preload", "preload_screen"), ("ioh.bpf.maps", "preload")):
        with contextlib.suppress(ImportError):
            getattr(importlib.import_module(module), preload)()
