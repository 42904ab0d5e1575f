"""What the loader knows of servers' files: nothing is attached to twice, what has gone may come."""

from __future__ import annotations

import pytest

from ioh.bpf import server_ledger
from ioh.bpf.calls import Object
from ioh.bpf.server_ledger import SITES, FileId, ServerLedger

FILE, OTHER = (8, 1), (8, 2)


class Kernel:
    """Which links somebody holds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.held: set[Object] = set()
        self.ledger = ServerLedger()
        patch.setattr(server_ledger, "is_gone", lambda made: made not in self.held)

    def attach(self, file: FileId, *ops: str) -> list[Object]:
        """As a child does: to the first free places."""
        free = self.ledger.request(1).free_sites[: len(ops)]
        links: list[Object] = [("link", 1000 * file[1] + at + len(self.held)) for at in free]
        self.held |= set(links)
        self.ledger.note([(*file, at) for at in free], ops, links)
        return links

    @property
    def known(self) -> dict[FileId, set[str]]:
        return {file: set(ops) for file, ops in self.ledger.request(1).known.items()}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def test_a_file_that_has_all_of_its_probes_lacks_none(kernel: Kernel) -> None:
    assert kernel.known == {}
    kernel.attach(FILE, "statement", "statement", "commit")
    assert kernel.known == {FILE: set()}


def test_what_was_let_go_of_is_lacking_until_it_comes_again(kernel: Kernel) -> None:
    first, second, commit = kernel.attach(FILE, "statement", "statement", "commit")
    kernel.held.remove(first)
    assert kernel.known == {FILE: set()}  # half of it is still there
    kernel.held -= {second, commit}
    kernel.attach(OTHER, "sort")
    assert kernel.known == {OTHER: set()}  # nobody holds anything of the first file
    kernel.attach(FILE, "statement", "commit")
    for _ in range(3):
        (commit,) = [made for _, made in kernel.ledger.files[FILE]["commit"]]
        kernel.held.remove(commit)
        assert kernel.known == {FILE: {"commit"}, OTHER: set()}
        kernel.attach(FILE, "commit")
        assert kernel.known == {FILE: set(), OTHER: set()}


def test_two_ops_that_were_let_go_of_come_one_by_one(kernel: Kernel) -> None:
    kernel.held -= set(kernel.attach(FILE, "statement", "commit", "sort")[:2])
    assert kernel.known == {FILE: {"statement", "commit"}}
    kernel.attach(FILE, "commit")
    assert kernel.known == {FILE: {"statement"}}


def test_places_are_used_again_once_they_are_free(kernel: Kernel) -> None:
    kernel.attach(OTHER, "sort")
    for _ in range(3):
        links = kernel.attach(FILE, *["commit"] * 100)
        free = kernel.ledger.request(1).free_sites
        assert len(free) == SITES - 101
        assert free[0] == 101
        kernel.held -= set(links)


def test_a_link_may_have_several_places(kernel: Kernel) -> None:
    made: Object = ("link", 1)
    kernel.held.add(made)
    kernel.ledger.note([(*FILE, 0, 1, 5)], ["commit"], [made])
    assert kernel.ledger.request(1).free_sites[:4] == [2, 3, 4, 6]
    kernel.held.clear()
    assert len(kernel.ledger.request(1).free_sites) == SITES
