"""Finds the probes' C sources, in a checkout or inside the installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def probes_dir() -> Path:
    """The directory that holds ``<layer>.c``, ``ioh.h`` and ``include/``.

    Raises:
        FileNotFoundError: The installation is incomplete.
    """
    for candidate in (_PACKAGE.parent / "probes", _PACKAGE / "probes"):
        if (candidate / "ioh.h").is_file():
            return candidate
    msg = f"no probes directory beside or inside {_PACKAGE}"
    raise FileNotFoundError(msg)
