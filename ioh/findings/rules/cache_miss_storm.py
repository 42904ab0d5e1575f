"""A database that suddenly reads from its files what it had in its own cache."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, per_s, percent, times
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.waits import Waits, waits_by_server
from ioh.findings.window import Recall, Stretch, duration_s
from ioh.model.finding import Evidence

RECENT_S = 4.0
CALM_S = 8.0
SPAN_S = 90.0


@Rule(
    title="The server's cache misses",
    layer="db",
    watches="Reads of data pages for each statement, now and in the minute before.",
    sources="The database's own probe points.",
    blind="What the server's cache holds; a storm that had begun before ioh did.",
    false_alarm="Reports and backups that read what nobody else does.",
    wrong_if="the server's own statistics (blks_hit beside blks_read) are as before",
    check="ioh text --layers db -d top",
    thresholds=(
        Threshold("statements_min_per_s", 20, "smaller loads are ignored"),
        Threshold("reads_min", 0.5, "pages for a statement; fewer are everyday misses"),
        Threshold("ratio_min", 4.0, "times as many as before: the mix of statements changes, too"),
        Threshold("share_min", 0.3, "of the statements' time; less is not felt"),
        Threshold("cached_max_us", 50, "for one read; the kernel's page cache has them then"),
    ),
    probed=("db",),
    hold_s=2.0,
    span_s=SPAN_S,
    recalls=(Recall("db", "wait"),),
    recent_s=4.0,
)
def cache_miss_storm(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server's reads for a statement now, beside the least of the time before."""
    window = recent.window
    before = list(window)[: len(window) - len(window.recent(2 * RECENT_S))]
    if duration_s(before) < CALM_S * 0.95:
        return
    calm = waits_by_server(before, "statement")
    for server, now in waits_by_server(recent, "statement").items():
        reads = now.by_wait.get("data_read")
        if reads is None or server not in calm:
            continue
        share, each = reads.spent_ns / now.whole_ns, _reads_of_one(now)
        usual = _reads_of_one(calm[server])
        if (
            min(now.per_s, calm[server].per_s) < limits["statements_min_per_s"]
            or share < limits["share_min"]
            or each < limits["reads_min"]
            or each < limits["ratio_min"] * usual
        ):
            continue
        yield Verdict(
            subject=server,
            severity="info" if reads.mean_us < limits["cached_max_us"] else "warning",
            confidence="medium",
            cause=f"{server}: a statement reads {times(each)} pages that the server's cache does "
            f"not hold, {times(usual)} before: {duration(reads.mean_us)} each, {percent(share)} "
            f"of the statements' time, {per_s(reads.count / now.seconds)} a second.",
            evidence=(
                Evidence(
                    f"{times(each)} reads for a statement",
                    "reads_per_statement",
                    each,
                    max(limits["reads_min"], limits["ratio_min"] * usual),
                    "probe of the database",
                ),
                Evidence(
                    f"{percent(share)} of the statements' time",
                    "share_pct",
                    share * 100,
                    limits["share_min"] * 100,
                    "probe of the database",
                ),
            ),
            advice="Look for what began: a statement that reads a whole table (ioh --pg names it), "
            "a plan that changed, a restart after which the cache is cold (pg_prewarm fills it). "
            "Where it lasts, the data in use have outgrown shared_buffers.",
            command="ioh text --layers db -d top",
        )


def _reads_of_one(waits: Waits) -> float:
    reads = waits.by_wait.get("data_read")
    count = waits.per_s * waits.seconds
    return reads.count / count if reads is not None and count else 0.0
