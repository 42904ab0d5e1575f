"""The screen: the only package that knows textual; it sees Snapshots, never the kernel."""

from __future__ import annotations

import sys

# asyncio imports OpenSSL where it can, 5 MB that a screen has no use for.
sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]
