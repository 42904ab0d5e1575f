"""Verdicts of ``ioh doctor``: pure functions from facts about the host to sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from ioh.live.attached import COMPILING
from ioh.model.sample import HostSample

if TYPE_CHECKING:
    from ioh.bpf.checkup import BpfFacts
    from ioh.live.attached import AttachedLayer

State = Literal["ok", "no", "wait", "note"]


@dataclass(frozen=True, slots=True)
class HostCheck:
    """One line of ``ioh doctor``: what was checked, the result, and how to fix it."""

    state: State
    subject: str
    detail: str
    fix: str = ""


_ok, _no, _note = (partial(HostCheck, state) for state in ("ok", "no", "note"))


def judge_bpf(facts: BpfFacts) -> list[HostCheck]:
    """What the BPF layers need, in the order in which to fix it."""
    verdicts = [_privilege(facts), _bcc(facts)]
    if facts.has_libbpf:
        verdicts.append(_ok("libbpf", "found"))
    else:
        verdicts.append(_no("libbpf", "libbpf.so.1 not found", "apt-get install libbpf1"))
    if facts.btf_bytes is None:
        kernel = "use a kernel built with CONFIG_DEBUG_INFO_BTF (Debian 11 and later have it)"
        verdicts.append(_no("BTF", "no /sys/kernel/btf/vmlinux", kernel))
    else:
        size = f"{facts.btf_bytes / 1e6:.1f} MB in /sys/kernel/btf/vmlinux; no headers needed"
        verdicts.append(_ok("BTF", size))
    if not facts.knows_machine:
        verdicts.append(_no("machine", f"ioh does not know the system calls of {facts.machine}"))
    if facts.lockdown == "confidentiality":
        why = "kernel lockdown 'confidentiality' does not let BPF read kernel memory"
        verdicts.append(_no("lockdown", why, "boot with lockdown=integrity"))
    return verdicts


def _privilege(facts: BpfFacts) -> HostCheck:
    if facts.is_privileged:
        return _ok("privilege", "may load BPF programs")
    if not facts.is_root:
        return _no("privilege", "not root", "sudo ioh doctor")
    why = "root without CAP_SYS_ADMIN or CAP_BPF: a container?"
    return _no("privilege", why, "run on the host, or with --privileged and the host's /sys")


def _bcc(facts: BpfFacts) -> HostCheck:
    if facts.bcc is not None:
        return _ok("bcc", f"version {facts.bcc}")
    if "has no attribute" in facts.bcc_error:
        why = "the Python module bcc is another program (PyPI's bcc)"
        return _no("bcc", why, "pip uninstall bcc; apt-get install python3-bpfcc")
    fix = "apt-get install python3-bpfcc (Fedora, SUSE: python3-bcc)"
    return _no("bcc", facts.bcc_error, fix)


def judge_layers(layers: Sequence[AttachedLayer]) -> list[HostCheck]:
    """How each layer is measured, and what is missing."""
    verdicts = []
    for attached in layers:
        name = f"layer {attached.layer.spec.name}"
        if not attached.is_wanted:
            detail = f"{attached.layer.idle}; ioh attaches its probes when that changes"
            verdicts.append(_note(name, detail))
        elif attached.why_proc == COMPILING:
            detail = f"{COMPILING}: this machine is slow or busy; measured from /proc until then"
            verdicts.append(HostCheck("wait", name, detail))
        elif attached.why_proc:
            verdicts.append(_no(name, f"from /proc only: {attached.why_proc}", attached.hint))
        else:
            points = ", ".join(sorted(set(attached.points.values())))
            events = points or "each server when it is found"
            took_s = attached.attach_seconds or 0.0
            verdicts.append(_ok(name, f"attached in {took_s:.2f} s: {events}"))
            for event, gives in attached.missing.items():
                verdicts.append(_note(name, f"this kernel does not provide {gives} ({event})"))
            if attached.on_demand.refusal:
                verdicts.append(_note(name, attached.on_demand.refusal))
    return verdicts


def judge_host(host: HostSample) -> list[HostCheck]:
    """Whether the kernel counts the I/O pressure that the screen's header shows."""
    if host.psi_io_some_us_total is None:
        return [_note("I/O pressure", "the kernel does not count it (PSI)", "boot with psi=1")]
    return [_ok("I/O pressure", "counted by the kernel (PSI)")]
