"""Verdicts of ``ioh doctor``: all ok on a capable host, else one line for each problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioh.bpf.checkup import BpfFacts
from ioh.commands.doctor_verdicts import HostCheck, judge_bpf, judge_host, judge_layers
from ioh.layers import all_layers
from ioh.live.attached import COMPILING, AttachedLayer
from ioh.model.filters import Filters
from ioh.model.sample import HostSample

CAPABLE = BpfFacts(
    machine="x86_64",
    is_root=True,
    is_privileged=True,
    knows_machine=True,
    btf_bytes=6_100_000,
    has_libbpf=True,
    bcc="0.26.0",
    bcc_error="",
    lockdown="none",
)


def refusals(facts: BpfFacts) -> list[HostCheck]:
    return [verdict for verdict in judge_bpf(facts) if verdict.state == "no"]


def test_a_capable_host_is_all_ok() -> None:
    assert refusals(replace(CAPABLE, lockdown="integrity")) == []
    verdicts = judge_bpf(CAPABLE)
    assert {verdict.state for verdict in verdicts} == {"ok"}
    assert [v.subject for v in verdicts] == ["privilege", "bcc", "libbpf", "BTF"]
    assert all(verdict.detail and not verdict.fix for verdict in verdicts)


NO_BCC = "ModuleNotFoundError: No module named 'bcc'"
OTHER_BCC = "AttributeError: module 'bcc' has no attribute 'BPF'"


@pytest.mark.parametrize(
    ("lacking", "subject", "cause", "fix"),
    [
        ({"is_privileged": False, "is_root": False}, "privilege", "not root", "sudo ioh doctor"),
        ({"is_privileged": False}, "privilege", "a container?", "--privileged"),
        ({"bcc": None, "bcc_error": NO_BCC}, "bcc", NO_BCC, "apt-get install python3-bpfcc"),
        ({"bcc": None, "bcc_error": OTHER_BCC}, "bcc", "is another program", "pip uninstall bcc"),
        ({"has_libbpf": False}, "libbpf", "libbpf.so.1 not found", "apt-get install libbpf1"),
        ({"btf_bytes": None}, "BTF", "no /sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"),
        ({"machine": "riscv64", "knows_machine": False}, "machine", "calls of riscv64", ""),
        ({"lockdown": "confidentiality"}, "lockdown", "confidentiality", "lockdown=integrity"),
    ],
)
def test_each_missing_requirement_is_reported_in_one_line(
    lacking: dict[str, Any], subject: str, cause: str, fix: str
) -> None:
    (found,) = refusals(replace(CAPABLE, **lacking))
    assert (found.state, found.subject) == ("no", subject)
    assert cause in found.detail
    assert fix in found.fix


def attached(name: str = "block") -> AttachedLayer:
    found = AttachedLayer(all_layers()[name](Filters()))
    found.why_proc = found.hint = ""
    found.points = {"issue": "block_rq_issue", "complete": "block_rq_complete"}
    found.attach_seconds = 0.5
    return found


def test_an_attached_layer_is_ok() -> None:
    assert judge_layers([attached()]) == [
        HostCheck("ok", "layer block", "attached in 0.50 s: block_rq_complete, block_rq_issue")
    ]


def test_a_probe_that_is_still_being_compiled_is_no_fault() -> None:
    layer = attached()
    layer.why_proc = COMPILING
    (verdict,) = judge_layers([layer])
    assert (verdict.state, verdict.fix) == ("wait", "")
    assert verdict.detail.startswith(COMPILING)


def test_what_the_kernel_does_not_provide_is_a_note() -> None:
    layer = attached()
    layer.missing = {"split": "splits"}
    _, note = judge_layers([layer])
    assert note == HostCheck("note", "layer block", "this kernel does not provide splits (split)")


def test_a_layer_from_proc_says_why_and_how_to_fix_it() -> None:
    layer = attached("tcp")
    layer.why_proc, layer.hint = "bcc cannot be imported", "apt-get install python3-bpfcc"
    assert judge_layers([attached(), layer])[1] == HostCheck(
        "no",
        "layer tcp",
        "from /proc only: bcc cannot be imported",
        "apt-get install python3-bpfcc",
    )


def test_missing_pressure_stall_information_is_a_note() -> None:
    (known,) = judge_host(HostSample(psi_io_some_us_total=0))
    (unknown,) = judge_host(HostSample())
    assert (known.state, unknown.state) == ("ok", "note")
    assert unknown.fix == "boot with psi=1"
