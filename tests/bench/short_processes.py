"""Start ``cat`` a number of times a second, each time on the next few of the named files."""

from __future__ import annotations

import itertools
import os
import sys
import time


def main() -> None:
    per_s, files_each = int(sys.argv[1]), int(sys.argv[2])
    names = sys.argv[3:]
    due = time.monotonic()
    for start in itertools.cycle(range(0, len(names), files_each)):
        chosen = names[start : start + files_each]
        os.waitpid(os.posix_spawnp("cat", ["cat", *chosen], os.environ), 0)
        due = max(due + 1 / per_s, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
