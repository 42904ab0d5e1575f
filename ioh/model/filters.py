"""What the user wants to see: one process, control group, device or port instead of all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filters:
    """Narrowing that the probes themselves apply; None means everything.

    Units:
        ``pid`` a process (thread group); ``comm`` at most 15 bytes, as the kernel keeps it;
        ``cgroup_id`` of the v2 hierarchy; ``device`` the kernel's dev_t
        (major << 20 | minor), with ``device_name`` for people; ``port`` local or remote.
    """

    pid: int | None = None
    comm: str | None = None
    cgroup_id: int | None = None
    device: int | None = None
    device_name: str | None = None
    port: int | None = None
