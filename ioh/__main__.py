"""``python -m ioh``."""

from __future__ import annotations

import sys

from ioh.commands import main
from ioh.rights.process import name_process

if __name__ == "__main__":
    name_process()
    sys.exit(main())
