"""Block requests by submitting process: totals that outlive the probe's entries."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.bpf.maps import MapSpec
from ioh.layers.submitter_table import SubmitterTable
from ioh.model.sample import Table
from tests.unit.fake_kernel import CPUS, install

SPEC = MapSpec("submitters", 5, 24, 24, 4096)
IDLE = 62  # ticks after which an entry is gone


class Probe:
    """The probe's side: what processes submit, on which CPU."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        maps, held, self.lib = install(patch, [SPEC])
        self.map, self.held = maps["submitters"], held["submitters"].entries
        self.table = SubmitterTable()
        self.added = [0, 0, 0, 0]

    def add(
        self,
        pid: int = 5,
        write: int = 0,
        count: int = 1,
        comm: bytes = b"fio",
        cpu: int = 0,
        joined: int = 0,
    ) -> None:
        """``count`` requests of 512 bytes, and ``joined`` bios of 512 bytes that joined one."""
        key = struct.pack("=II16s", pid, write, comm)
        words = list(struct.unpack(f"={3 * CPUS}Q", self.held.get(key, bytes(24 * CPUS))))
        words[3 * cpu] += count
        words[3 * cpu + 1] += 512 * count
        words[3 * cpu + 2] += 512 * joined
        self.held[key] = struct.pack(f"={3 * CPUS}Q", *words)
        self.added[2 * write] += count
        self.added[2 * write + 1] += 512 * (count + joined)

    def tick(self, times: int = 1) -> Table:
        for _ in range(times):
            found = self.table.read(self.map)
        return found


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    return Probe(monkeypatch)


def test_reads_and_writes_of_a_process_share_a_row(probe: Probe) -> None:
    probe.add(count=2)
    probe.add(write=1, count=3, cpu=2)
    for _ in range(2):
        assert probe.tick() == {("5", "fio"): (2, 1024, 3, 1536)}


def test_what_joins_a_request_adds_bytes_alone(probe: Probe) -> None:
    probe.add(count=2)
    probe.tick()
    probe.add(count=0, joined=3)
    assert probe.tick() == {("5", "fio"): (2, 2560, 0, 0)}


def test_idle_entries_make_room_soon_where_many_come(probe: Probe) -> None:
    """A host that starts 1,000 processes a second, each of which reads a little."""
    for pid in range(0, 9000, 1000):
        for each in range(pid, pid + 1000):
            probe.add(pid=each)
        assert len(probe.held) <= SPEC.max_entries - 100
        probe.tick()


def test_what_is_submitted_while_an_entry_is_dropped_counts(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.add()
    probe.tick(IDLE - 1)
    take = probe.lib.bpf_map_lookup_and_delete_elem

    def used_again(fd: int, key: bytes, value: object) -> int:
        probe.add(count=7)
        return take(fd, key, value)

    monkeypatch.setattr(probe.lib, "bpf_map_lookup_and_delete_elem", used_again)
    assert probe.tick() == {("5", "fio"): (8, 4096, 0, 0)}
    monkeypatch.setattr(probe.lib, "bpf_map_lookup_and_delete_elem", take)
    assert probe.held == {}  # it has made room
    assert probe.tick() == {("5", "fio"): (8, 4096, 0, 0)}
    probe.add()
    assert probe.tick() == {("5", "fio"): (9, 4608, 0, 0)}


ACTIONS = st.lists(
    st.tuples(st.sampled_from([5, 6]), st.integers(0, 1), st.integers(1, 9))
    | st.sampled_from([1, 2, IDLE - 1, IDLE, IDLE + 5]),
    max_size=25,
)


@settings(max_examples=40)
@given(ACTIONS)
def test_every_request_is_shown_once(actions: list[tuple[int, int, int] | int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        probe = Probe(patch)
        shown: Table = {}
        sums = [0, 0, 0, 0]
        for action in [*actions, 1]:
            if isinstance(action, tuple):
                probe.add(*action)
                continue
            for _ in range(action):
                table = probe.tick()
                for key, row in table.items():
                    for at, (now, then) in enumerate(
                        zip(row, shown.get(key, (0, 0, 0, 0)), strict=True)
                    ):
                        assert isinstance(now, int)
                        assert isinstance(then, int)
                        assert now >= then
                        sums[at] += now - then
                shown = table
        assert sums == probe.added
