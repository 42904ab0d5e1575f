"""The README's table of rules and scenarios: ``python -m tests.scenarios.table``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ioh.findings.rule import all_rules
from tests.scenarios.catalogue import ANOMALIES, HEALTHY
from tests.scenarios.verdict import NFS_RECORDING, RECORDINGS, judge, judge_phases
from tests.vm.catalogue import VM_ANOMALIES, VM_HEALTHY

MADE_UP = "made-up samples only"
IN_VM = "(virtual machine)"


def render_table() -> str:
    """One line a rule, then the healthy ones; the same text for the same recordings."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    nfs = judge_phases(NFS_RECORDING)
    every = (*ANOMALIES, *HEALTHY, *VM_ANOMALIES, *VM_HEALTHY)
    outcomes = {s.name: judge(RECORDINGS / f"{s.name}.ioh") for s in every}
    yield "| Rule | Says | Caused by, and found after |"
    yield "|---|---|---|"
    for name, rule in all_rules().items():
        played = [
            f"{s.what}: {outcomes[s.name].after_s[name]:.0f} s" for s in ANOMALIES if s.rule == name
        ]
        played += [
            f"{s.what} {IN_VM}: {outcomes[s.name].after_s[name]:.0f} s"
            for s in VM_ANOMALIES
            if s.rule == name
        ]
        played += [
            f"{phase} {IN_VM}: {fired[name][0]:.0f} s"
            for phase, fired in nfs.items()
            if name in fired
        ]
        yield f"| `{name}` | {rule.title} | {'; '.join(played) or MADE_UP} |"
    healthy = (*HEALTHY, *VM_HEALTHY)
    silent = [s.what for s in healthy if not outcomes[s.name].after_s]
    yield ""
    yield f"Silent, all rules, in {len(silent)} of {len(healthy)} healthy recordings that look like"
    yield "some of these: " + "; ".join(silent) + "."


if __name__ == "__main__":
    sys.stdout.write(render_table())
