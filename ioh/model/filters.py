"""The user's filters: one process, control group, device or port instead of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ioh.model.printable import printable

_ONLY, _NOTHING_ELSE = "only ", ": nothing else is counted"


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters that the probes apply; None means everything.

    Shape:
        ``sample_calls`` is not a filter: it makes the NFS probes keep some calls, see
        probes/nfs_calls.h.

    Units:
        ``pid``: a process (thread group).  ``comm``: at most 15 bytes, as in the kernel; a
        character cut in two becomes surrogates.  ``cgroup_id``: in the v2 hierarchy.  ``device``:
        the kernel's dev_t (major << 20 | minor), shown as ``device_name``.  ``port``: local or
        remote.
    """

    pid: int | None = None
    comm: str | None = None
    cgroup_id: int | None = None
    device: int | None = None
    device_name: str | None = None
    port: int | None = None
    sample_calls: bool = False

    def given(self) -> dict[str, str]:
        """The given options by name, as typed: ``--pid 7``."""
        values = {
            "pid": self.pid,
            "comm": None if self.comm is None else printable(self.comm),
            "cgroup": None if self.cgroup_id is None else "",
            "device": self.device if self.device_name is None else self.device_name,
            "port": self.port,
        }
        return {name: f"--{name} {v}".rstrip() for name, v in values.items() if v is not None}

    def note(self, *options: str) -> tuple[str, ...]:
        """The note of a layer that applies these options, if any was given."""
        texts = [text for name, text in self.given().items() if name in options]
        return (f"{_ONLY}{' '.join(texts)}{_NOTHING_ELSE}",) if texts else ()


def notes_of_unfiltered(filters: Filters, what: str, *others: str) -> tuple[str, ...]:
    """The note of a layer that does not apply some given options: it shows ``what``.

    ``others``: options that it applies, or that do not concern it.
    """
    ignored = [f"--{name}" for name in filters.given() if name not in others]
    return (f"{', '.join(ignored)} not applied here: {what} are shown",) if ignored else ()


def applied_options(notes: Iterable[str]) -> tuple[str, ...]:
    """The notes of layers about options that they apply, each once: ``only --comm fio``."""
    texts = (n.removesuffix(_NOTHING_ELSE) for n in notes if n.endswith(_NOTHING_ELSE))
    return tuple(dict.fromkeys(text for text in texts if text.startswith(_ONLY)))
