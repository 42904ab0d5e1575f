"""Read TLS and users from Prometheus exporters' common file, their --web.config.file."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable

_TLS_KEYS = {"cert_file", "key_file", "client_ca_file", "client_auth_type", "min_version"}
_CLIENT_AUTH = {"NoClientCert": ssl.CERT_NONE, "RequireAndVerifyClientCert": ssl.CERT_REQUIRED}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_MAX_KNOWN = 64
_WAIT_S = 2.0
_MAX_PASSWORD_BYTES = 72  # bcrypt ignores the rest
_HINT = "See docs/fleet.md"
_HASH_HINT = "Make the hash with: htpasswd -nBC 10 NAME"


class Refused(Exception):  # noqa: N818 (its text is for the user)
    """The file is wrong."""


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Settings of the server: ``tls`` None for plain HTTP, ``users`` None for everybody."""

    tls: ssl.SSLContext | None = None
    users: Users | None = None

    def allows(self, authorization: str) -> bool:
        """Whether a request with this header is answered."""
        return self.users is None or self.users.know(authorization)


FOR_EVERYBODY = WebConfig()


class Users:
    """Names and bcrypt hashes; remembers correct passwords, since bcrypt is slow on purpose.

    IohError: there is no bcrypt.  Refused: a hash is invalid.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        try:
            import bcrypt  # noqa: PLC0415 (only where there are users)
        except ImportError:
            what = "basic_auth_users of --web-config"
            raise _lack(what, "bcrypt", "python3-bcrypt") from None
        self._check = bcrypt.checkpw
        self._hashes = {name: text.encode() for name, text in hashes.items()}
        self._any = next(iter(self._hashes.values()))
        try:
            for hashed in self._hashes.values():
                self._check(b"", hashed)
        except ValueError:
            msg = f"basic_auth_users: not every password is a bcrypt hash. {_HASH_HINT}"
            raise Refused(msg) from None
        self._key = secrets.token_bytes(32)
        self._known: set[bytes] = set()  # only correct ones: guesses do not displace them
        self._lock = threading.Lock()

    def know(self, authorization: str) -> bool:
        """Whether the header holds a known name and its password."""
        scheme, _, told = authorization.partition(" ")
        try:
            pair = base64.b64decode(told.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        name, colon, password = pair.partition(b":")
        if scheme.lower() != "basic" or not colon or b"\0" in password:
            return False
        digest = hmac.digest(self._key, pair, hashlib.sha256)
        if digest in self._known:
            return True
        # One at a time: guessing uses one core at most, and known users do not wait for it.
        if not self._lock.acquire(timeout=_WAIT_S):
            return False
        try:
            hashed = self._hashes.get(name.decode(errors="replace"))
            # For an unknown name, check another hash, so that it takes as long.
            is_right = self._check(password[:_MAX_PASSWORD_BYTES], hashed or self._any)
            if hashed is None or not is_right:
                return False
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known.add(digest)
        finally:
            self._lock.release()
        return True


def read_web_config(path: str) -> WebConfig:
    """Read the file, its certificate and key; their paths are relative to it.

    IohError: it cannot be read, or has settings that ioh does not support.
    """
    try:
        told = _mapping(_read(path), {"tls_server_config", "basic_auth_users"}, "the file")
        tls, users = told.get("tls_server_config"), told.get("basic_auth_users")
        return WebConfig(
            _tls(_mapping(tls, _TLS_KEYS, "tls_server_config"), Path(path).parent) if tls else None,
            Users(_mapping(users, set(), "basic_auth_users")) if users else None,
        )
    except Refused as why:
        cause = f"--web-config {printable(path)}: {printable(str(why))}"
        raise IohError(cause, _HINT, ExitCode.USAGE) from why


def _read(path: str) -> object:
    try:
        import yaml  # noqa: PLC0415 (only with --web-config)
    except ImportError:
        what = "--web-config"
        raise _lack(what, "PyYAML", "python3-yaml") from None
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(error.strerror) from error
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        msg = "not a YAML file"
        raise Refused(msg) from error


def _mapping(told: object, known: set[str], what: str) -> dict[str, Any]:
    """Check a mapping's keys and, except in the outer one, values: texts; else Refused.

    Without ``known``, any name is accepted.
    """
    if told is None:
        return {}
    msg = f"{what} must map names to values"
    if not isinstance(told, dict) or not all(isinstance(name, str) for name in told):
        raise Refused(msg)
    if what != "the file" and not all(isinstance(value, str) for value in told.values()):
        raise Refused(msg)
    for name in told if known else ():
        if name not in known:
            msg = f"ioh does not support {name} in {what}"
            raise Refused(msg)
    return told


def _tls(told: dict[str, str], folder: Path) -> ssl.SSLContext:
    version = _VERSIONS.get(told.get("min_version", "TLS12"))
    client = _CLIENT_AUTH.get(told.get("client_auth_type", "NoClientCert"))
    msg = ""
    if not {"cert_file", "key_file"} <= told.keys():
        msg = "tls_server_config: cert_file and key_file are both needed"
    elif version is None or client is None:
        msg = f"min_version is one of {[*_VERSIONS]}, client_auth_type of {[*_CLIENT_AUTH]}"
    elif (client is ssl.CERT_REQUIRED) != ("client_ca_file" in told):
        msg = "RequireAndVerifyClientCert and client_ca_file need each other"
    if msg or version is None or client is None:
        raise Refused(msg)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.verify_mode = version, client
    at = "cert_file or key_file"
    try:
        # Never prompt for a password: there may be no terminal.
        context.load_cert_chain(folder / told["cert_file"], folder / told["key_file"], lambda: b"")
        if client is ssl.CERT_REQUIRED:
            at = "client_ca_file"
            context.load_verify_locations(folder / told["client_ca_file"])
    except OSError as error:
        msg = f"tls_server_config: {at}: {error.strerror or error}"
        raise Refused(msg) from error
    return context


def _lack(what: str, library: str, package: str) -> IohError:
    hint = f"Install it: apt-get install {package} (Debian, Ubuntu), or {library} for ioh's Python"
    return IohError(f"{what} needs the Python library {library}", hint, ExitCode.UNAVAILABLE)
