"""One layer of a live run: attached by the loader, or read from /proc."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ioh.bpf.calls import program_counts
from ioh.bpf.channel import close_all
from ioh.bpf.maps import Map, MapSpec
from ioh.live.probe_cost import OF_PROGRAM, TOTAL, ProbeCost, with_cost
from ioh.live.servers import ServerProbes
from ioh.model.sample import ATTACHING, READ_STEP_US, LayerSample, Unavailable

if TYPE_CHECKING:
    from ioh.layers.base import Layer

COMPILING = "its probe is still being compiled"


class ModuleProbe:
    """The on-demand part of an attached probe, which runs only while its layer wants it.

    ``refusal``: why it is not available, ``""`` if it is, or is not wanted.
    """

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._part = layer.probe.on_demand if layer.probe is not None else None
        self._links: list[int] = []
        self._is_asked = False
        self.refusal = ""

    def is_due(self) -> bool:
        """Whether to request it now: once each time that the layer starts to want it.

        Detaches it, and so releases its module, when it is no longer wanted.
        """
        if self._part is None or not self._layer.attaches_on_demand():
            self.close()
            return False
        is_due = not self._is_asked
        self._is_asked = True
        return is_due

    @property
    def is_pending(self) -> bool:
        """Whether the loader still owes an answer."""
        return self._is_asked and not (self._links or self.refusal)

    def take(self, links: list[int], reason: str) -> None:
        """Take the loader's answer; close links that came too late."""
        if not self._is_asked or self._links:
            close_all(links)
            return
        self._links = links
        self.refuse(reason)

    def refuse(self, reason: str) -> None:
        """Note why it is not available, or "" if it is."""
        if self._part is not None:
            self.refusal = f"{self._part.without}: {reason}" if reason else ""

    def close(self) -> None:
        """Detach it."""
        close_all(self._links)
        self._links, self._is_asked, self.refusal = [], False, ""


class AttachedLayer:
    """One layer with its source: BPF or /proc.

    With BPF, it holds the probe's descriptors; closing them detaches the probe.  ``why_proc``: why
    the source is /proc, ``""`` with BPF.  ``is_wanted``: the host has something for it to measure.
    ``is_awaited``: its probe is being attached; until then /proc's numbers are not shown, so that
    nobody takes them for the probe's.  ``is_new``: the cache did not have the probe.
    ``has_on_demand``: the attached probe has an on-demand part.  ``spec``: the layer's, with what
    its probe costs.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.maps: dict[str, Map] = {}
        self.program_fds: list[int] = []
        self.link_fds: list[int] = []
        self.why_proc = "BPF is not used"
        self.hint = ""
        self.copies = 1
        self._skipped = 0
        self.points: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.attach_seconds: float | None = None
        self.broken = ""
        self.is_wanted = True
        self._was_wanted = False
        self.is_awaited = self.is_new = False
        self.on_demand = ModuleProbe(layer)
        self.servers = ServerProbes(layer)
        self.has_on_demand = False
        self._is_warm = False
        self.cost = ProbeCost()
        self.spec = layer.spec if layer.probe is None else with_cost(layer.spec)

    def is_shown(self) -> bool:
        """Whether to show it; a layer that has been shown stays."""
        self._was_wanted |= self.is_wanted
        return self._was_wanted or not self.layer.is_rare

    def restart(self, why_proc: str) -> None:
        """Detach and reset; the layer starts from zero when it is wanted again."""
        self.close()
        self.layer = type(self.layer)(self.layer.filters, self.layer.root)
        self.servers = ServerProbes(self.layer)
        self.is_awaited = False
        self.cost = ProbeCost()
        self.why_proc = why_proc

    def adopt(self, answer: dict[str, Any], fds: list[int]) -> None:
        """Take the loader's answer: descriptors, or a reason."""
        self.is_awaited = False
        if "maps" not in answer:
            self.why_proc = str(answer.get("reason", "the loader failed"))
            self.hint = str(answer.get("hint", ""))
            close_all(fds)
            return
        specs = [MapSpec(**spec) for spec in answer["maps"]]
        self.maps = {spec.name: Map(spec, fd) for spec, fd in zip(specs, fds, strict=False)}
        first_link = len(specs) + int(answer["programs"])
        self.program_fds = fds[len(specs) : first_link]
        self.has_on_demand = bool(answer["has_on_demand"])
        self.link_fds = fds[first_link:]
        self.copies, self._skipped = int(answer["copies"]), 0
        self._is_warm = False
        self.points, self.missing = answer["points"], answer["missing"]
        self.attach_seconds = answer["seconds"]
        self.why_proc = self.hint = ""

    def warm_up(self) -> None:
        """Read a new probe once without using the result, because the first reading is slow.

        A layer's time is the start of its reading.  A slow first reading reaches the probe's counts
        late, and that time would be missing in the first interval.
        """
        if self.maps and not self._is_warm:
            self._is_warm = True
            self.read()

    def read(self, since_ns: int | None = None) -> LayerSample | Unavailable:
        """Read the layer; if it fails, it stays unavailable and the other layers continue.

        ``since_ns``: when the reading of all layers started, on the monotonic clock.
        """
        passed_us = 0 if since_ns is None else (time.monotonic_ns() - since_ns) // 1000
        sample = self._read()
        if not isinstance(sample, LayerSample):
            return sample
        after_us = (passed_us + sample.read_after_us) // READ_STEP_US * READ_STEP_US
        return replace(sample, read_after_us=after_us) if after_us else sample

    def _read(self) -> LayerSample | Unavailable:
        if self.broken:
            return Unavailable(self.broken, "please report this")
        if not self.is_wanted:
            return Unavailable(self.layer.idle, is_idle=True)
        if self.is_awaited:
            doing = f"compiled, once for Linux {os.uname().release}" if self.is_new else "attached"
            return Unavailable(f"its probe is being {doing}", ATTACHING)
        try:
            if self.maps:
                sample = self.layer.read(self.maps)
                self.drop_overload()
                return self._with_misses(sample)
            return self._with_reason(self.layer.read_proc())
        except Exception as error:  # noqa: BLE001 (last guard of a tick: keep the other layers)
            self.broken = f"reading failed: {type(error).__name__}: {error}"
            return Unavailable(self.broken, "please report this")

    def drop_overload(self) -> bool:
        """Stop counting ops whose traps cost too much; False if there is nothing to check."""
        if not (self.maps and self.servers.attached):
            return False
        for op, why in self.layer.overload(self.maps).items():
            self.servers.drop(op, why)
        return True

    def _with_misses(self, sample: LayerSample) -> LayerSample:
        """Add events skipped because their program was active, and notes about missing parts."""
        from ioh.bpf.totals import skipped_events

        misses = [misses for _, misses in program_counts(self.program_fds)]
        skipped = skipped_events(misses, self.maps.get("turns"), self.copies)
        self._skipped = max(self._skipped, skipped)
        notes = sample.notes
        if self.missing:
            notes += (
                f"this kernel does not provide {', '.join(dict.fromkeys(self.missing.values()))}.",
            )
        if self.on_demand.refusal:
            notes += (self.on_demand.refusal,)
        notes += self.servers.notes
        total_ns, program_pct = self.cost.total_ns(time.monotonic_ns()), self.cost.program_pct
        metrics = {**sample.metrics, TOTAL: total_ns, OF_PROGRAM: program_pct}
        lost = {**sample.lost, "recursion": self._skipped}
        return replace(sample, metrics=metrics, lost=lost, notes=notes)

    def _with_reason(self, sample: LayerSample | Unavailable) -> LayerSample | Unavailable:
        if not self.why_proc:
            return sample
        if isinstance(sample, LayerSample):
            return replace(sample, notes=(f"from /proc: {self.why_proc}", *sample.notes))
        if self.why_proc == COMPILING:
            return Unavailable(COMPILING, ATTACHING)
        reason = f"{self.why_proc}; {sample.reason}"
        return replace(sample, reason=reason, hint=self.hint or sample.hint)

    def run_time_ns(self) -> int:
        """CPU time of the probe's programs, counted while statistics are on, and of its traps."""
        traps_ns = self.layer.trap_ns(self.maps) if self.maps else 0
        return sum(ns for ns, _ in program_counts(self.program_fds)) + traps_ns

    def give_back(self) -> None:
        """Free what was needed for the largest reading so far."""
        for bpf_map in self.maps.values():
            bpf_map.give_back()

    def close(self) -> None:
        """Detach the probe and close the layer."""
        self.layer.close()
        self.on_demand.close()
        self.servers.close()
        for bpf_map in self.maps.values():
            bpf_map.close()
        close_all((*self.link_fds, *self.program_fds))
        self.maps, self.program_fds, self.link_fds, self.has_on_demand = {}, [], [], False
