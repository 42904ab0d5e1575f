"""What the facts of a host mean for ioh: pure functions from facts to sentences."""

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
    """One line of ``ioh doctor``: what was looked at, how it is, and how to mend it."""

    state: State
    subject: str
    detail: str
    mend: str = ""


_ok, _no, _note = (partial(HostCheck, state) for state in ("ok", "no", "note"))


def judge_bpf(facts: BpfFacts) -> list[HostCheck]:
    """Each thing that BPF layers need, in the order in which one would mend them."""
    verdicts = [_privilege(facts), _bcc(facts)]
    if facts.has_libbpf:
        verdicts.append(_ok("libbpf", "found"))
    else:
        verdicts.append(_no("libbpf", "libbpf.so.1 not found", "apt-get install libbpf1"))
    if facts.btf_bytes is None:
        kernel = "use a kernel built with CONFIG_DEBUG_INFO_BTF (Debian 11 and later have it)"
        verdicts.append(_no("BTF", "no /sys/kernel/btf/vmlinux", kernel))
    else:
        size = f"{facts.btf_bytes / 1e6:.1f} MB at /sys/kernel/btf/vmlinux; no headers needed"
        verdicts.append(_ok("BTF", size))
    if not facts.knows_machine:
        verdicts.append(_no("machine", f"{facts.machine}: system call numbers unknown to ioh"))
    if facts.lockdown == "confidentiality":
        why = "kernel lockdown 'confidentiality' keeps BPF from reading kernel memory"
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
        why = "the module called bcc is another program (PyPI's bcc)"
        return _no("bcc", why, "pip uninstall bcc; apt-get install python3-bpfcc")
    mend = "apt-get install python3-bpfcc (Fedora, SUSE: python3-bcc)"
    return _no("bcc", facts.bcc_error, mend)


def judge_layers(layers: Sequence[AttachedLayer]) -> list[HostCheck]:
    """How each layer was attached, and what it lacks."""
    verdicts = []
    for attached in layers:
        name = f"layer {attached.layer.spec.name}"
        if not attached.is_wanted:
            verdicts.append(_note(name, f"{attached.layer.idle}; attached when that changes"))
        elif attached.why_proc == COMPILING:
            detail = f"{COMPILING}: this machine is slow, or busy; /proc until then"
            verdicts.append(HostCheck("wait", name, detail))
        elif attached.why_proc:
            verdicts.append(_no(name, f"from /proc only: {attached.why_proc}", attached.hint))
        else:
            points = ", ".join(sorted(set(attached.points.values())))
            events = points or "servers, as they are found"
            took_s = attached.attach_seconds or 0.0
            verdicts.append(_ok(name, f"attached in {took_s:.2f} s: {events}"))
            for event, gives in attached.missing.items():
                verdicts.append(_note(name, f"this kernel does not give {gives} ({event})"))
            if attached.late.refusal:
                verdicts.append(_note(name, attached.late.refusal))
    return verdicts


def judge_host(host: HostSample) -> list[HostCheck]:
    """What the screen's header can show."""
    if host.psi_io_some_us_total is None:
        return [_note("I/O pressure", "the kernel does not count it (PSI)", "boot with psi=1")]
    return [_ok("I/O pressure", "counted by the kernel (PSI)")]
