"""Files that define a server's probes, and the loader's record of servers' files."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from ioh.bpf import server_ledger
from ioh.bpf.calls import Object
from ioh.bpf.server_files import (
    UsersServer,
    file_id,
    open_named,
    open_regular,
    parse_function,
    read_server,
    read_servers,
)
from ioh.bpf.server_ledger import SITES, FileId, ServerLedger
from ioh.bpf.trap_cost import TrapCost
from ioh.model.errors import ExitCode, IohError

CONTRIBUTED = Path(__file__).parents[2] / "contrib" / "functions"
GOOD = """
title = "App"
binaries = ["app"]
[[probe]]
op = "commit"
start = "function:begin"
done = "usdt:app:end"
bytes = 2
scale = 8192
[[probe]]
op = "row"
start = "function:row"
dear = true
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_users_servers_follow_those_of_ioh(tmp_path: Path) -> None:
    """Without expensive probes, unless they are requested."""
    path = str(written(tmp_path / "app.toml", GOOD))
    known = [server.title for server in read_servers()]
    assert "PostgreSQL" in known
    assert [server.title for server in read_servers([path])] == [*known, "App"]
    assert [probe.op for probe in read_servers([path])[-1].probes] == ["commit"]
    assert [probe.op for probe in read_servers([path], dear=True)[-1].probes] == ["commit", "row"]
    written(tmp_path / "app.toml", GOOD.replace("8192", "8192\ndear = true"))
    assert [server.title for server in read_servers([path])] == known


def test_a_file_defines_each_probe(tmp_path: Path) -> None:
    server = read_server(written(tmp_path / "app.toml", GOOD))
    commit, row = server.probes
    assert (commit.start, commit.done, commit.bytes, commit.scale, commit.bytes_at) == (
        "function:begin", "usdt:app:end", 2, 8192, "done",
    )  # fmt: skip
    assert (row.start, row.done, row.bytes, row.scale) == ("function:row", "", 0, 1)
    assert server.owner == "process"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("title", "name"),
        ('op = "commit"', 'op = "commit\\u001b[2J"'),
        ("function:begin", "begin"),
        ("usdt:app:end", "usdt:end"),
        ("function:row", "usdt:app:row"),  # without anything that ends it
        ("bytes = 2", "bytes = 99"),
        ("scale = 8192", "scale = 0"),
        ('binaries = ["app"]', ""),
        ("dear = true", "dear = 1"),
        ("title =", "title = ="),
    ],
)
def test_a_mistake_gives_one_line_that_names_the_file(
    tmp_path: Path, before: str, after: str
) -> None:
    path = written(tmp_path / "app.toml", GOOD.replace(before, after))
    with pytest.raises(IohError) as raised:
        read_server(path)
    said = str(raised.value)
    assert said.startswith(f"{path}: ")
    assert said.isprintable()
    assert said.endswith("docs/layers/db.md describes the file format")
    assert raised.value.code == ExitCode.USAGE


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 100_000, b"\0", b"a = 1\n" * 300_000])
def test_invalid_toml_gives_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "app.toml"
    path.write_bytes(data)
    with pytest.raises(IohError) as raised:
        read_server(path)
    assert str(raised.value).isprintable()
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(IohError, match=r"directory"):
            read_server(path)


def test_a_function_on_the_command_line(tmp_path: Path) -> None:
    """Symbolic links to the program are followed."""
    (tmp_path / "app-2").touch()
    (tmp_path / "app").symlink_to("app-2")
    server = parse_function(f"flush={tmp_path}/app:_ZN3app5flushEv")
    assert server.binaries == (f"{tmp_path}/app-2",)
    assert [(p.op, p.start, p.done) for p in server.probes] == [
        ("flush", "function:_ZN3app5flushEv", "")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", "flush=app:flush", "Flush=/app:flush", "flush=/app", "flush=/app:", "flush=/app:f g",
        f"{'x' * 25}=/app:f", "_x=/app:f", "f=/a\x1b[2J:f", "f=/app:f\n",
    ],
)  # fmt: skip
def test_a_malformed_function_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(IohError) as raised:
        parse_function(text)
    assert str(raised.value).isprintable()
    assert raised.value.code == ExitCode.USAGE


def test_a_known_library_is_watched_only_on_request() -> None:
    assert all(server.binaries for server in read_servers())
    assert [s.title for s in read_servers(["sqlite"]) if s.libraries] == ["SQLite"]
    assert len(read_servers(["mariadb"])) == len(read_servers())


@pytest.mark.parametrize(
    "path", sorted(CONTRIBUTED.glob("*.toml")), ids=lambda path: str(path.stem)
)
def test_the_shipped_examples_are_valid(path: Path) -> None:
    server = read_server(path)
    assert server.title in (path.parents[2] / "docs" / "layers" / "db.md").read_text()
    assert len({probe.op for probe in server.probes}) == len(server.probes)


FILE, OTHER = (8, 1, 0), (8, 2, 0)


class Kernel:
    """The links that are open, as the ledger sees them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.held: set[Object] = set()
        self.ledger = ServerLedger()
        patch.setattr(server_ledger, "is_gone", lambda made: made not in self.held)

    def attach(self, file: FileId, *ops: str) -> list[Object]:
        """Attach to the first free places, as the loader's child does."""
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


def test_a_closed_op_is_missing_until_it_is_attached_again(kernel: Kernel) -> None:
    assert kernel.known == {}
    first, second, commit = kernel.attach(FILE, "statement", "statement", "commit")
    assert kernel.known == {FILE: set()}
    kernel.held.remove(first)
    assert kernel.known == {FILE: set()}  # one of two links is still open
    kernel.held -= {second, commit}
    kernel.attach(OTHER, "sort")
    assert kernel.known == {OTHER: set()}  # the first file has no open link
    kernel.attach(FILE, "statement", "commit")
    for _ in range(3):
        (commit,) = [x.made for x in kernel.ledger.links if (x.file, x.op) == (FILE, "commit")]
        kernel.held.remove(commit)
        assert kernel.known == {FILE: {"commit"}, OTHER: set()}
        kernel.attach(FILE, "commit")
        assert kernel.known == {FILE: set(), OTHER: set()}
    kernel.held.clear()
    kernel.held -= set(kernel.attach(FILE, "statement", "commit", "sort")[:2])
    assert kernel.known == {FILE: {"statement", "commit"}}
    kernel.attach(FILE, "commit")
    assert kernel.known == {FILE: {"statement"}}


def test_places_are_reused_once_they_are_free(kernel: Kernel) -> None:
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


def test_only_a_regular_file_is_opened_and_only_the_same_one(tmp_path: Path) -> None:
    """A fifo would wait, and to open a device can have effects."""
    path, other, fifo = tmp_path / "a", tmp_path / "b", tmp_path / "fifo"
    path.write_bytes(b"a")
    other.write_bytes(b"b")
    os.mkfifo(fifo)
    with open_regular(str(path)) as file:
        own = file_id(file.fileno())
    for refused in (str(fifo), "/dev/zero", str(tmp_path)):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(refused)
    with open_regular(str(path), own) as file:
        assert file.read() == b"a"
    path.unlink()
    path.symlink_to(other)
    with pytest.raises(OSError, match="replaced"):
        open_regular(str(path), own)


def test_files_that_a_server_names_are_opened_if_they_exist(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(b"")
    names = [str(tmp_path / "app"), str(tmp_path / "none"), "app"]
    probe = {"op": "look", "start": "function:f"}
    server = msgspec.convert({"title": "t", "binaries": names, "probe": [probe]}, UsersServer)
    (named,) = open_named(server)
    with named.file:
        found = (tmp_path / "app").stat()
        assert named[:3] == (str(tmp_path / "app"), (found.st_dev, found.st_ino), server)


def test_servers_of_a_users_file_are_known_as_such(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text('title = "t"\nbinaries = ["t"]\n[[probe]]\nop = "x"\nstart = "function:f"\n')
    *known, own = read_servers([str(path)])
    assert isinstance(own, UsersServer)
    assert not any(isinstance(each, UsersServer) for each in known)
    assert isinstance(parse_function("x=/bin/true:main"), UsersServer)


@pytest.mark.parametrize(
    ("code", "machine", "cost_ns"),
    [
        ("90000000", "x86_64", 1),  # nop
        ("55488900", "x86_64", 1),  # push
        ("41544889", "x86_64", 1),  # push, of a new register
        ("e8000000", "x86_64", 1),  # call
        ("f30f1efa", "x86_64", 9),  # endbr64
        ("488d3500", "x86_64", 9),
        ("41890000", "x86_64", 9),
        ("", "x86_64", 9),
        ("1f2003d5", "aarch64", 1),  # nop
        ("fd7bbfa9", "aarch64", 9),
    ],
)
def test_a_trap_costs_more_where_the_kernel_must_single_step(
    code: str, machine: str, cost_ns: int
) -> None:
    assert TrapCost(1, 9, 0).of(bytes.fromhex(code), machine) == cost_ns
