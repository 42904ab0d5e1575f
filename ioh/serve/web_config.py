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

import msgspec

from ioh.model.errors import ExitCode, IohError

_CLIENT_AUTH = {"NoClientCert": ssl.CERT_NONE, "RequireAndVerifyClientCert": ssl.CERT_REQUIRED}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_MAX_KNOWN = 64
_WAIT_S = 2.0
_MAX_PASSWORD_BYTES = 72  # bcrypt ignores the rest
_HINT = "See docs/fleet.md"
_HASH_HINT = "Make the hash with: htpasswd -nBC 10 NAME"


# Not set differs from any value: a file that sets one of these must not result in plain HTTP.
_Text = str | msgspec.UnsetType


class _Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cert_file: _Text = msgspec.UNSET
    key_file: _Text = msgspec.UNSET
    client_ca_file: _Text = msgspec.UNSET
    client_auth_type: _Text = msgspec.UNSET
    min_version: _Text = msgspec.UNSET


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tls_server_config: _Tls | None = None
    basic_auth_users: dict[str, str] | None = None


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
        self._digests: set[bytes] = set()  # only correct ones: guesses do not displace them
        self._lock = threading.Lock()

    def know(self, authorization: str) -> bool:
        """Whether the header holds a known name and its password."""
        scheme, _, credentials = authorization.partition(" ")
        try:
            pair = base64.b64decode(credentials.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        name, colon, password = pair.partition(b":")
        if scheme.lower() != "basic" or not colon or b"\0" in password:
            return False
        digest = hmac.digest(self._key, pair, hashlib.sha256)
        if digest in self._digests:
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
            if len(self._digests) >= _MAX_KNOWN:
                self._digests.clear()
            self._digests.add(digest)
        finally:
            self._lock.release()
        return True


def read_web_config(path: str) -> WebConfig:
    """Read the file, its certificate and key; their paths are relative to it.

    IohError: it cannot be read, or has settings that ioh does not support.
    """
    try:
        config = _read(path)
        tls, users = config.tls_server_config, config.basic_auth_users
        return WebConfig(
            _context(tls, Path(path).parent) if tls not in {None, _Tls()} else None,
            Users(users) if users else None,
        )
    except Refused as why:
        cause = f"--web-config {path}: {why}"
        raise IohError(cause, _HINT, ExitCode.USAGE) from why


def _read(path: str) -> _File:
    try:
        raw = Path(path).read_bytes()
        return msgspec.yaml.decode(raw, type=_File | None) or _File()
    except ImportError:
        what = "--web-config"
        raise _lack(what, "PyYAML", "python3-yaml") from None
    except OSError as error:
        raise Refused(error.strerror) from error
    except msgspec.ValidationError as error:
        raise Refused(str(error)) from error
    except (ValueError, RecursionError) as error:
        msg = "not a YAML file"
        raise Refused(msg) from error


def _context(config: _Tls, folder: Path) -> ssl.SSLContext:
    version = _VERSIONS.get(config.min_version or "TLS12")
    client = _CLIENT_AUTH.get(config.client_auth_type or "NoClientCert")
    cert, key, ca = config.cert_file or "", config.key_file or "", config.client_ca_file or ""
    msg = ""
    if not (cert and key):
        msg = "tls_server_config: cert_file and key_file are both needed"
    elif version is None or client is None:
        msg = f"min_version is one of {[*_VERSIONS]}, client_auth_type of {[*_CLIENT_AUTH]}"
    elif (client is ssl.CERT_REQUIRED) != bool(ca):
        msg = "RequireAndVerifyClientCert and client_ca_file need each other"
    if msg or version is None or client is None:
        raise Refused(msg)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.verify_mode = version, client
    at = "cert_file or key_file"
    try:
        # Never prompt for a password: there may be no terminal.
        context.load_cert_chain(folder / cert, folder / key, lambda: b"")
        if client is ssl.CERT_REQUIRED:
            at = "client_ca_file"
            context.load_verify_locations(folder / ca)
    except OSError as error:
        msg = f"tls_server_config: {at}: {error.strerror or error}"
        raise Refused(msg) from error
    return context


def _lack(what: str, library: str, package: str) -> IohError:
    hint = f"Install it: apt-get install {package} (Debian, Ubuntu), or {library} for ioh's Python"
    return IohError(f"{what} needs the Python library {library}", hint, ExitCode.UNAVAILABLE)
