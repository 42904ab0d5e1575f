"""Read findings.toml: disabled rules and changed thresholds."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ioh.findings.rule import Rule, all_rules
from ioh.model.errors import ExitCode, IohError
from ioh.rights.user import config_path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_NAME = "findings.toml"
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Config:
    """What the user has changed.

    Shape:
        ``off`` names of disabled rules; ``limits[rule][threshold]`` changed values.
    """

    off: frozenset[str] = frozenset()
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def limits_of(self, rule: Rule) -> dict[str, float]:
        """The rule's thresholds as configured."""
        return {**rule.defaults, **self.limits.get(rule.name, {})}


def read_config(path: str | None) -> Config:
    """Read the file at ``path``; None: the default file, if it exists.

    IohError: it cannot be read, is not TOML, or names an unknown rule or threshold.
    """
    try:
        file = config_path(FILE_NAME) if path is None else Path(path)
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if path is None and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return Config()
        reason = getattr(error, "strerror", None) or str(error)
        raise _wrong(str(path or file), f"cannot be read: {reason}") from None
    if len(raw) > MAX_BYTES:
        raise _wrong(str(file), "is larger than 1 MiB")
    try:
        parsed = tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong(str(file), f"is not TOML: {error}") from None
    return _checked(parsed, str(file))


def _checked(parsed: Mapping[str, object], where: str) -> Config:
    """Check the names and values of a parsed file."""
    rules = all_rules()
    off: set[str] = set()
    limits: dict[str, dict[str, float]] = {}
    for name, settings in parsed.items():
        rule = rules.get(name)
        if rule is None:
            raise _wrong(where, f'no rule "{name}"', "List the rules with: ioh explain")
        if not isinstance(settings, dict):
            raise _wrong(where, f"{name} is not a table", f"Write [{name}] above its settings")
        limits[name] = {}
        for key, value in settings.items():
            if key != "enabled":
                limits[name][key] = _number(rule, key, value, where)
            elif not isinstance(value, bool):
                raise _wrong(where, f"{name}.enabled is neither true nor false")
            elif not value:
                off.add(name)
    return Config(frozenset(off), limits)


def _number(rule: Rule, key: str, value: object, where: str) -> float:
    if key not in rule.defaults:
        names = ", ".join(["enabled", *rule.defaults])
        raise _wrong(where, f'{rule.name} has no "{key}"', f"It has: {names}")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e18:
        raise _wrong(where, f"{rule.name}.{key} is not a number of 0 or more")
    return float(value)


def _wrong(where: str, what: str, hint: str = "") -> IohError:
    return IohError(f"{where}: {what}", hint, ExitCode.USAGE)
