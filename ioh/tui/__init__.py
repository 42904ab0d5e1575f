"""The screen; it reads Snapshots, never the kernel, and is shown by ioh.terminal."""

from __future__ import annotations

import sys

# asyncio imports OpenSSL if it can: 5 MB that the screen does not need.
sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]
