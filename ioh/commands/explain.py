"""``ioh explain``: what a rule watches, its thresholds with reasons, its limits."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ioh.commands.output import write_stdout
from ioh.model.errors import ExitCode, IohError

if TYPE_CHECKING:
    from ioh.findings.rule import Rule

_WIDTH = 80


SUMMARY = "explain a rule: what it watches, its thresholds, possible false alarms"
EXAMPLES = """\
  ioh explain                     every rule, one line each
  ioh explain fragmentation       everything about one rule

Change a rule in ~/.config/ioh/findings.toml, or --findings-config FILE:
  [fragmentation]
  ratio_min = 4
  [caching]
  enabled = false"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    what = "name of the rule; without one, list all rules"
    add("rule", nargs="?", metavar="RULE", help=what)
    add("--findings-config", metavar="FILE", help="show the thresholds set in this file")


def run(args: argparse.Namespace) -> None:
    """Print the rules, or one rule."""
    from ioh.findings.config import read_config
    from ioh.findings.rule import all_rules

    rules, config = all_rules(), read_config(args.findings_config)
    if args.rule is None:
        width = max(map(len, rules))
        lines = [f"{name:{width}}  {rule.title}" for name, rule in rules.items()]
    elif (rule := rules.get(args.rule)) is None:
        cause = f'no rule "{args.rule}"'
        raise IohError(cause, "List the rules with: ioh explain", ExitCode.USAGE)
    else:
        limits = config.limits_of(rule)
        lines = list(render_rule(rule, limits, is_off=rule.name in config.off))
    write_stdout("\n".join(lines) + "\n")


def render_rule(rule: Rule, limits: dict[str, float], *, is_off: bool) -> Iterator[str]:
    """Lines that describe a rule, with the thresholds ``limits``."""
    yield f"{rule.name}: {rule.title}" + (" (disabled)" if is_off else "")
    yield ""
    for heading, text in facts(rule):
        yield from textwrap.wrap(
            text, _WIDTH, initial_indent=f"{heading:>12}  ", subsequent_indent=" " * 14
        )
    if rule.thresholds:
        yield ""
        yield "thresholds:"
    for name, (default, why) in rule.thresholds.items():
        value = limits[name]
        was = "" if value == default else f" (default {default:.12g})"
        yield from textwrap.wrap(
            f"{name} = {value:.12g}{was}: {why}",
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="      ",
            break_on_hyphens=False,
        )


def facts(rule: Rule) -> Iterator[tuple[str, str]]:
    """Heading and text of everything about a rule except its thresholds."""
    layers = dict.fromkeys((*rule.needs, *rule.probed))
    needs = ", ".join(f"{name} (BPF)" if name in rule.probed else name for name in layers)
    yield "watches", rule.watches
    yield "reads", rule.sources
    yield "needs", f"layers {needs}" if needs else "no particular layer"
    yield "cannot see", rule.blind
    yield "false alarm", rule.false_alarm
    yield "wrong if", f"{rule.wrong_if}: {rule.check}"
    yield "fires", f"after {rule.hold_s:g} s, clears {rule.release_s:g} s after recovery"
