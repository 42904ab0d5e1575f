"""The rules over a recording of a real NFS server and its clients on one slow, busy machine.

Under emulation every call takes 10 to 90 ms and the CPUs are 70 to 90 % busy; only the phase
with 20 ms and 1 % loss on the way has anything wrong with it.
"""

from __future__ import annotations

from tests.scenarios.evidence import ANSWERED, WITHIN_S
from tests.scenarios.verdict import NFS_RECORDING, judge_phases

BAD_LINK = "v4.2: reads, 20 ms and 1 % loss on the way"


def test_only_the_bad_link_is_told_of_and_the_network_is_blamed_with_its_losses() -> None:
    phases = judge_phases(NFS_RECORDING, ANSWERED)
    assert set(phases) == {BAD_LINK}
    assert set(phases[BAD_LINK]) == {"nfs_latency", "tcp_retransmits"}
    after_s, finding = phases[BAD_LINK]["nfs_latency"]
    assert finding.cause.startswith("The network takes ")
    assert finding.confidence == "medium"
    # A round trip of 20 ms, and several of them for 64 KB; the server took 1 ms.
    assert 40e3 < (finding.evidence[0].value or 0.0) < 120e3
    assert after_s <= WITHIN_S

    _, finding = phases[BAD_LINK]["tcp_retransmits"]
    assert 0.5 < (finding.evidence[0].value or 0.0) < 5
