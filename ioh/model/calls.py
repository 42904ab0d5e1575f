"""A sample of NFS calls, the same at both ends, to find the network time of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ioh.model.hist import FINE_BUCKETS, LatencyHist, fine_index

CALL_OPS = ("read", "write", "commit")
CALL_NUMBERS = 4
KEPT_BATCHES = 8  # a reply can take this many samples
MOST_CALLS = 1024  # per batch; the size of the probes' map
_MOST_OF_SPAN = 16_384
_LAST_LEVEL = 31
_GOLDEN = 0x9E3779B1  # as in probes/nfs_calls.h


class CallBatch(NamedTuple):
    """The calls of one sample.

    Shape:
        ``peers``: addresses of the other ends, each once.  ``numbers``: CALL_NUMBERS for each call:
        XID, kind (index in CALL_OPS), index of its peer, and time; the time is 0 if the call came
        twice within the sample.

    Units:
        ``mono_ns``: when it was read; increases.  Times in ns: at the client from sending the call
        to the end of its reply, at the server from accepting the call to having the reply.
    """

    mono_ns: int
    peers: tuple[str, ...]
    numbers: tuple[int, ...]


Calls = tuple[CallBatch, ...]


def split_calls(older: Calls, newer: Calls) -> tuple[Calls, Calls]:
    """The calls in ``newer`` since ``older``, and the earlier ones."""
    begin_ns = older[-1].mono_ns if older else -1
    fresh = tuple(batch for batch in newer if batch.mono_ns > begin_ns)
    return fresh, newer[: len(newer) - len(fresh)]


class CallSpan:
    """The calls of several samples; thins them out if there are too many."""

    def __init__(self) -> None:
        self._batches: list[CallBatch] = []
        self._level = self._numbers = 0

    def add(self, newer: Calls) -> None:
        """Add the batches that are new."""
        for batch in split_calls(tuple(self._batches[-1:]), newer)[0]:
            self._batches.append(_thinned(batch, self._level))
            self._numbers += len(self._batches[-1].numbers)
        while self._numbers > _MOST_OF_SPAN * CALL_NUMBERS and self._level < _LAST_LEVEL:
            self._level += 1
            self._batches = [_thinned(batch, self._level) for batch in self._batches]
            self._numbers = sum(len(batch.numbers) for batch in self._batches)

    @property
    def calls(self) -> Calls:
        """All calls, oldest first."""
        return tuple(self._batches)


def _thinned(batch: CallBatch, level: int) -> CallBatch:
    """Keep one call of ``2 ** level``, chosen as in the probes, so both ends keep the same."""
    if not level:
        return batch
    calls = (call for call in _each(batch) if not (call[0] * _GOLDEN & 0xFFFFFFFF) >> (32 - level))
    return batch._replace(numbers=tuple(number for call in calls for number in call))


def _each(batch: CallBatch) -> Iterator[tuple[int, ...]]:
    return zip(*[iter(batch.numbers)] * CALL_NUMBERS, strict=False)


_Key = tuple[int, int]  # XID and kind


def network_hists(
    client: tuple[Calls, Calls],
    server: tuple[Calls, Calls],
    is_client: Callable[[str], bool],
    is_server: Callable[[str], bool],
) -> Mapping[str, LatencyHist]:
    """The network time of each call that both ends have, in the interval of the later one.

    ``client`` and ``server`` are from split_calls().  A call can end in a later interval at the
    client than at the server; it counts once.  Calls that either end has twice are left out: they
    are retransmissions or two different calls.
    """
    ours, fresh_ours = _by_key(client, is_server)
    theirs, fresh_theirs = _by_key(server, is_client)
    counts = {op: [0] * FINE_BUCKETS for op in CALL_OPS}
    for key in (fresh_ours & theirs.keys()) | (fresh_theirs & ours.keys()):
        rtt_ns, server_ns = ours[key], theirs[key]
        if 0 < server_ns <= rtt_ns:
            counts[CALL_OPS[key[1]]][fine_index(rtt_ns - server_ns)] += 1
    return {op: LatencyHist(tuple(each) if any(each) else ()) for op, each in counts.items()}


def _by_key(
    calls: tuple[Calls, Calls], is_peer: Callable[[str], bool]
) -> tuple[dict[_Key, int], set[_Key]]:
    """Times of the calls with that peer that came once, and the keys of this interval."""
    fresh, earlier = calls
    of_interval = list(_with(is_peer, fresh))
    every = [*of_interval, *_with(is_peer, earlier)]
    times = Counter(key for key, _ in every)
    ns_by_key = {key: ns for key, ns in every if times[key] == 1 and ns}
    return ns_by_key, {key for key, _ in of_interval} & ns_by_key.keys()


def _with(is_peer: Callable[[str], bool], calls: Calls) -> Iterator[tuple[_Key, int]]:
    for batch in calls:
        matches = [is_peer(peer) for peer in batch.peers]
        yield from (((xid, op), ns) for xid, op, peer, ns in _each(batch) if matches[peer])


def packed_calls(mono_ns: int, calls: Iterable[tuple[int, int, str, int]]) -> CallBatch:
    """Make a batch of (XID, kind, peer, ns)."""
    listed = sorted(calls)
    peers: Sequence[str] = tuple(dict.fromkeys(peer for _, _, peer, _ in listed))
    at = {peer: number for number, peer in enumerate(peers)}
    numbers = (n for xid, op, peer, ns in listed for n in (xid, op, at[peer], ns))
    return CallBatch(mono_ns, tuple(peers), tuple(numbers))
