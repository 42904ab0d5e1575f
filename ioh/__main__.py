"""``python -m ioh``."""

from __future__ import annotations

import sys

from ioh.commands import main

if __name__ == "__main__":
    sys.exit(main())
