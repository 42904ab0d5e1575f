"""The README's table of rules and scenarios: ``python -m tests.scenarios.table``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from textwrap import wrap

from ioh.findings.rule import all_rules
from tests.scenarios.catalogue import ANOMALIES, HEALTHY
from tests.scenarios.evidence import ANSWERED, Sign
from tests.scenarios.verdict import NFS_RECORDING, RECORDINGS, judge, judge_phases
from tests.vm.catalogue import VM_ANOMALIES, VM_HEALTHY

LINE = 104
MADE_UP = "made-up samples only"
IN_VM = " (virtual machine)"


def render_table() -> str:
    """One line a rule, then the healthy ones; the same text for the same recordings."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    nfs = judge_phases(NFS_RECORDING, ANSWERED)
    every = (*ANOMALIES, *HEALTHY, *VM_ANOMALIES, *VM_HEALTHY)
    outcomes = {s.name: judge(RECORDINGS / f"{s.name}.ioh", s.sign) for s in every}
    yield "| Rule | Says | Caused by, and found after |"
    yield "|---|---|---|"
    for name, rule in all_rules().items():
        played = [
            _played(s.what + where, outcomes[s.name].after_s[name], s.sign)
            for scenarios, where in ((ANOMALIES, ""), (VM_ANOMALIES, IN_VM))
            for s in scenarios
            if s.rule == name
        ]
        played += [
            _played(phase + IN_VM, fired[name][0], ANSWERED)
            for phase, fired in nfs.items()
            if name in fired
        ]
        yield f"| `{name}` | {rule.title} | {'; '.join(played) or MADE_UP} |"
    healthy = (*HEALTHY, *VM_HEALTHY)
    silent = [s.what for s in healthy if not outcomes[s.name].after_s]
    yield ""
    count = f"{len(silent)} of {len(healthy)}"
    said = f"Silent, all rules, in {count} healthy recordings that look like some of these: "
    yield from wrap(said + "; ".join(silent) + ".", LINE, break_on_hyphens=False)


def _played(what: str, after_s: float, sign: Sign | None) -> str:
    return f"{what}: {after_s:.0f} s" + (f" after {sign.what}" if sign is not None else "")


if __name__ == "__main__":
    sys.stdout.write(render_table())
