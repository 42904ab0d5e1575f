"""Samples as OpenMetrics text with timestamps, for ``promtool tsdb create-blocks-from``.

The lines of a family must be contiguous, and in it those of each set of labels.  So each family
is collected separately; what is long goes to one temporary file.
"""

from __future__ import annotations

import io
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import IO

from ioh.model.closing import Closing
from ioh.model.pairs import Round
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.sinks.series import Detail, Family, Labels, series_of

# Bytes of one metric to collect in memory before they go to the file.
_HELD_BYTES = 4096


class _Lines:
    """The lines of one family, grouped by labels."""

    def __init__(self, head: str, file: IO[bytes]) -> None:
        self._head = head
        self._lines: dict[str, io.StringIO] = defaultdict(io.StringIO)
        self._places: dict[str, list[tuple[int, int]]] = defaultdict(list)  # (offset, size)
        self._file = file

    def add(self, metric: str, line: str) -> None:
        lines = self._lines[metric]
        lines.write(line)
        if lines.tell() >= _HELD_BYTES:
            data = lines.getvalue().encode()
            self._places[metric].append((self._file.tell(), len(data)))
            self._file.write(data)
            lines.seek(0)
            lines.truncate()

    def render(self) -> Iterator[str]:
        yield self._head
        for metric, lines in self._lines.items():
            for at, size in self._places[metric]:
                self._file.seek(at)
                yield self._file.read(size).decode()
            yield lines.getvalue()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


@lru_cache(maxsize=4096)
def _text(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


class OpenMetrics(Closing):
    """Collects Samples as series_of() renders them; a context manager that removes its file."""

    def __init__(self) -> None:
        self._families: dict[str, _Lines] = {}
        self._newest: Sample | None = None
        # A file only if it is needed.
        self._file = tempfile.SpooledTemporaryFile(max_size=_HELD_BYTES)  # noqa: SIM115

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()

    def add(self, each: Round) -> str:
        """Add the new samples of a round of one machine; "": the text comes at the end."""
        for sample in each.intervals[0].samples or ():
            if sample is not self._newest:
                self.take(sample)
        return ""

    def take(self, sample: Sample) -> None:
        """Add one sample."""
        self._newest = sample
        now = f"{sample.time_unix_s:.3f}"
        for family, suffix, labels, value, le in series_of(sample, Detail()):
            lines = self._families.get(family.name)
            if lines is None:
                lines = self._families[family.name] = _Lines(_head(family), self._file)
            metric = _text(labels)
            bucket = f',le="{le}"' if le else ""
            line = f"{family.name}{suffix}{{{metric}{bucket}}} {value} {now}\n"
            lines.add(metric, line)

    def render(self) -> Iterator[str]:
        """The whole text in pieces, with the end mark."""
        for lines in self._families.values():
            yield from lines.render()
        yield "# EOF\n"


def _head(family: Family) -> str:
    name, kind, unit, text = family
    unit = f"# UNIT {name} {unit}\n" if unit else ""
    return f"# TYPE {name} {kind}\n{unit}# HELP {name} {_escaped(printable(text))}\n"
