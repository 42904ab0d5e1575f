"""A database whose statements are slow while it writes a checkpoint."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, per_s, times
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.waits import data_writes_per_s, waits_by_server
from ioh.findings.window import Recall, Stretch, duration_s, seconds_of
from ioh.model.finding import Evidence

RECENT_S = 4.0
CALM_S = 8.0
SPAN_S = 90.0
_WRITER = "checkpointer"


@Rule(
    title="A checkpoint slows statements",
    layer="db",
    watches="The time of statements while the checkpointer writes pages, and while it does not.",
    sources="The database's own probe points, by session.",
    blind="Its syncs at the end, when it writes no more; a checkpoint that was under way already "
    "when ioh began.",
    false_alarm="Another load that began with the checkpoint.",
    wrong_if="statements are as slow when the checkpoint is over",
    check="ioh text --layers db -d top",
    thresholds=(
        Threshold("statements_min_per_s", 20, "without it; smaller loads are ignored"),
        Threshold("writes_min_per_s", 100, "pages; a spread checkpoint of 30 MB writes fewer"),
        Threshold("ratio_min", 2.0, "statements differ by less from minute to minute"),
        Threshold("added_min_ms", 1.0, "nobody feels less"),
    ),
    probed=("db",),
    hold_s=2.0,
    span_s=SPAN_S,
    recalls=(Recall("db", "wait"), Recall("db", "session")),
    recent_s=4.0,
)
def checkpoint_burst(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server's statements while its checkpointer writes, beside those when it did not."""
    window = recent.window
    for server, now in waits_by_server(recent, "statement").items():
        # On average: where the disk cannot follow, it writes nothing for seconds.
        pages = sum(data_writes_per_s(s, server, _WRITER) * seconds_of(s, "db") for s in recent)
        pages /= duration_s(recent)
        if pages < limits["writes_min_per_s"]:
            continue
        earlier = list(window)[: len(window) - len(recent)]
        calm = [s for s in earlier if not data_writes_per_s(s, server, _WRITER)]
        before = waits_by_server(calm, "statement").get(server)
        if before is None or duration_s(calm) < CALM_S * 0.95:
            continue
        added_us = now.mean_us - before.mean_us
        if (
            before.per_s < limits["statements_min_per_s"]
            or added_us < limits["added_min_ms"] * 1e3
            or now.mean_us < limits["ratio_min"] * before.mean_us
        ):
            continue
        ratio = now.mean_us / before.mean_us
        fewer = (
            f"; {per_s(now.per_s)} a second instead of {per_s(before.per_s)}"
            if now.per_s * limits["ratio_min"] < before.per_s
            else ""
        )
        yield Verdict(
            subject=server,
            confidence="high" if ratio >= 2 * limits["ratio_min"] else "medium",
            cause=f"{server}: statements take {duration(now.mean_us)} while a checkpoint writes "
            f"{per_s(pages)} pages a second, {duration(before.mean_us)} without it{fewer}.",
            evidence=(
                Evidence(
                    f"{times(ratio)} times as long as without a checkpoint",
                    "ratio",
                    ratio,
                    limits["ratio_min"],
                    "probe of the database",
                ),
                Evidence(
                    f"{per_s(pages)} pages a second are written by the checkpointer",
                    "data_writes_per_s",
                    pages,
                    limits["writes_min_per_s"],
                    "probe of the database",
                ),
            ),
            advice="Spread checkpoints: a larger max_wal_size, checkpoint_timeout of 15 min or "
            "more, checkpoint_completion_target = 0.9. Those that somebody asks for (CHECKPOINT, "
            "the start of a backup) write as fast as they can.",
            command="ioh text --layers db -d top",
        )
