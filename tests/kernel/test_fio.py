"""fio against ioh: counts and bytes exact at both layers, merges too."""

from __future__ import annotations

import pytest

from tests.kernel.fio_truth import Load
from tests.kernel.part import WatchedVolume

# engine, direct, pattern, block size, jobs, depth, MiB for each job; each engine reads, writes and
# mixes both, with O_DIRECT and without.
LOADS = [
    Load("psync", 1, "read", "4k", 1, 1, 16),
    Load("psync", 1, "randrw", "4k", 16, 1, 2),
    Load("psync", 1, "randwrite", "1m", 3, 1, 24),
    Load("psync", 0, "randread", "128k", 16, 1, 8),
    Load("psync", 0, "write", "12k", 4, 1, 12),
    Load("psync", 0, "randrw", "192k", 8, 1, 12),
    Load("libaio", 1, "read", "1m", 1, 4, 64),
    Load("libaio", 1, "write", "128k", 16, 4, 4),
    Load("libaio", 1, "randread", "8k", 1, 7, 8),
    Load("libaio", 1, "randrw", "12k", 2, 16, 12),
    Load("libaio", 0, "read", "192k", 3, 4, 24),
    Load("libaio", 0, "randwrite", "4k", 1, 4, 16),
    Load("io_uring", 1, "read", "192k", 4, 4, 24),
    Load("io_uring", 1, "write", "12k", 16, 2, 3),
    Load("io_uring", 1, "randread", "16k", 1, 3, 16),
    Load("io_uring", 1, "randrw", "1m", 2, 4, 32),
    Load("io_uring", 0, "read", "4k", 4, 4, 16),
    Load("io_uring", 0, "randwrite", "128k", 8, 4, 8),
    Load("io_uring", 0, "randrw", "12k", 16, 8, 3),
]


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_counts_and_bytes_equal_fios(watched: WatchedVolume, load: Load) -> None:
    load.lay_out(watched.volume)
    with watched.part() as ioh:
        compare = load.run(watched.volume)
    compare(ioh)
