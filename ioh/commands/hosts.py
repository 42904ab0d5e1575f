"""``--host``: the screen, text and JSON of several machines as one, each read through ssh."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ioh.commands.databases import DATABASE_OPTIONS
from ioh.commands.intervals import choose_layers
from ioh.commands.options import engine_from
from ioh.commands.output import say
from ioh.commands.run import Ending, Signalled, refuse_span
from ioh.model.errors import ExitCode, IohError
from ioh.model.pairs import HostState, Round, pairs
from ioh.model.printable import printable
from ioh.model.rounds import MAX_HOSTS
from ioh.sinks.hosts import host_to_json, pair_to_json, render_heading, render_pairs
from ioh.sinks.json import JsonSink
from ioh.sinks.text import TextOptions, TextSink

if TYPE_CHECKING:
    from ioh.feeds.hosts_feed import HostsFeed
    from ioh.findings.engine import Engine
    from ioh.hosts.host import Asked
    from ioh.model.snapshot import Pair, Snapshot

# What the other ioh is asked for in the words of this one.
_HANDED_ON = ("pid", "comm", "cgroup", "device", "port", "layers")


class HostsSink(Protocol):
    """Turns rounds of several hosts into text, host by host."""

    def host(self, state: HostState, snapshot: Snapshot | None) -> str:
        """One host's part of a round; ``snapshot`` None where it has given none."""
        ...

    def pairs(
        self, time_unix_s: float, states: tuple[HostState, ...], found: tuple[Pair, ...]
    ) -> str:
        """What is known of the hosts together."""
        ...


class TextHosts:
    """Each host's block of text below its name, then the pairs."""

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._sinks: dict[str, TextSink] = {}

    def host(self, state: HostState, snapshot: Snapshot | None) -> str:
        """A heading and the block."""
        if snapshot is None:
            return "" if state.is_here else render_heading(state)
        made = TextSink(self._options, with_legend=not self._sinks)
        return render_heading(state) + self._sinks.setdefault(state.name, made).render(snapshot)

    def pairs(
        self, time_unix_s: float, states: tuple[HostState, ...], found: tuple[Pair, ...]
    ) -> str:
        """The table of pairs."""
        del time_unix_s, states
        return render_pairs(found)


class JsonHosts:
    """A line for each host, its name in ``host``; one of the hosts together, ``host`` null."""

    def __init__(self, top: int | None) -> None:
        self._sink = JsonSink(top)

    def host(self, state: HostState, snapshot: Snapshot | None) -> str:
        """The interval as of one machine, and how the host stands."""
        if snapshot is None:
            return ""
        made = self._sink.to_json(snapshot)
        host = made["host"]
        made["host"] = host_to_json(state) | (host if isinstance(host, dict) else {})
        return _line(made)

    def pairs(
        self, time_unix_s: float, states: tuple[HostState, ...], found: tuple[Pair, ...]
    ) -> str:
        """How the hosts stand, and the pairs."""
        return _line(
            {
                "time_unix_s": round(time_unix_s, 6),
                "host": None,
                "hosts": [host_to_json(state) for state in states],
                "pairs": [pair_to_json(pair) for pair in found],
            }
        )


def _line(made: object) -> str:
    return json.dumps(made, allow_nan=False, separators=(",", ":")) + "\n"


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--host`` and ``--remote-command``."""
    group = parser.add_argument_group("other machines")
    group.add_argument(
        "--host",
        dest="hosts",
        metavar="HOST",
        action="append",
        default=[],
        help="this machine instead, through ssh: a name for ssh, user@name, name:port;"
        " up to 8, as one stack",
    )
    group.add_argument(
        "--remote-command",
        metavar="COMMAND",
        help="how ioh is called there (default: sudo -n ioh, ioh, or the copy of ioh deploy)",
    )


def refuse_remote_command(args: argparse.Namespace) -> None:
    """It means nothing here.

    Raises:
        IohError: It was given without a host.
    """
    if args.remote_command is not None and not args.hosts:
        cause = "--remote-command is for --host"
        raise IohError(cause, "Give --host HOST too", ExitCode.USAGE)


def run_hosts(args: argparse.Namespace, make_sink: Callable[[], HostsSink]) -> int:
    """Read the hosts asked for and print their intervals to stdout.

    Returns:
        The exit status.

    Raises:
        IohError: A name or an option is wrong, or no host can be read.
        ReaderGoneError: stdout's reader went away.
    """
    asked = _asked(args)
    from ioh.hosts.stack import HostStack

    told = dict.fromkeys(args.hosts, "")
    with Ending() as ending, contextlib.suppress(Signalled), HostStack(args.hosts, asked) as stack:
        ending.stop = stack.stop

        def rounds() -> Iterator[Round]:
            for each in stack:
                _tell_lost(each.states, told)
                yield each

        write_rounds(args, rounds(), make_sink(), ending, cycle_s=asked.cycle_s)
    return ending.code


def write_rounds(  # noqa: PLR0913
    args: argparse.Namespace,
    rounds: Iterable[Round],
    sink: HostsSink,
    ending: Ending,
    *,
    cycle_s: float,
    remarks: Callable[[], str] = str,
) -> bool:
    """Judge rounds and print them to stdout, as long as ``args`` ask.

    Args:
        args: What the command takes.
        rounds: From any source.
        sink: Turns them into text.
        ending: Says when a signal came.
        cycle_s: How long an interval is.
        remarks: What to print before the next one.

    Returns:
        Whether there was any.
    """
    from ioh.playback.joined import with_own_pairs

    engines: dict[str, Engine | None] = {}
    first_s: float | None = None
    known: set[tuple[str, str]] = set()
    for each in rounds:
        found = pairs(each.intervals, known)
        given = {p.name: with_own_pairs(p.snapshot, found, p.name) for p in each.intervals}
        for name, snapshot in given.items():
            if name not in engines:
                engines[name] = engine_from(args)
            if (engine := engines[name]) is not None:
                given[name] = engine.judge(snapshot)
        text = [remarks(), *(sink.host(state, given.get(state.name)) for state in each.states)]
        text.append(sink.pairs(each.time_unix_s, each.states, found))
        ending.write("".join(text))
        first_s = each.time_unix_s if first_s is None else first_s
        seen_s = each.time_unix_s - first_s + cycle_s
        if ending.received or (args.run_s and seen_s >= args.run_s - cycle_s / 10):
            break
    return first_s is not None


def show_hosts(args: argparse.Namespace) -> int:
    """The screen over the hosts asked for; returns the exit status.

    Raises:
        IohError: A name or an option is wrong, or no host can be read.
    """
    asked = _asked(args)
    from ioh.commands.screen import filters_text, show

    def make(stack: contextlib.ExitStack, _: object) -> HostsFeed:
        from ioh.feeds.hosts_feed import HostsFeed
        from ioh.hosts.stack import HostStack

        feed = HostsFeed(
            stack.enter_context(HostStack(args.hosts, asked)),
            args.hosts,
            cycle_s=asked.cycle_s,
            make_judge=lambda: engine_from(args),
            run_s=args.run_s,
        )
        return stack.enter_context(feed)

    return show(args, "live", make, filters_text(args))


def _asked(args: argparse.Namespace) -> Asked:
    """What is asked of each host.

    Raises:
        IohError: A name or an option is wrong.
    """
    _check(args)
    from ioh.hosts.host import Asked

    cycle_s = args.cycle_s or 1.0
    choose = partial(choose_layers, args)
    return Asked(handed_on(args, cycle_s), args.remote_command, choose, cycle_s)


def _check(args: argparse.Namespace) -> None:
    from ioh.hosts.ssh import check_host

    refuse_span(args)
    cause, hint = "", "Give each host once"
    if getattr(args, "file", None) is not None:
        cause, hint = "a recording and --host do not go together", "Give one of them"
    for name in DATABASE_OPTIONS:
        if getattr(args, name):
            cause = f"--{name.replace('_', '-')} is for this machine, not for --host"
            hint = "Leave it out"
    if len(args.hosts) > MAX_HOSTS:
        cause, hint = f"{len(args.hosts)} hosts", f"Give {MAX_HOSTS} at most"
    for name in args.hosts:
        if args.hosts.count(check_host(name)) > 1:
            cause = f"--host {printable(name)} is there twice"
    if cause:
        raise IohError(cause, hint, ExitCode.USAGE)


def handed_on(args: argparse.Namespace, cycle_s: float) -> tuple[str, ...]:
    """What the other ioh is asked for: a sample at least every second."""
    words = ["record", "-o", "-", "-c", f"{cycle_s / math.ceil(cycle_s):.6g}"]
    given = [(name, value) for name in _HANDED_ON if (value := getattr(args, name)) is not None]
    given += [("no-layer", value) for value in args.no_layer]
    words += [f"--{name}={value}" for name, value in given]  # a value may begin as an option does
    return (*words, *(["--proc"] if args.proc else []))


def _tell_lost(states: tuple[HostState, ...], told: dict[str, str]) -> None:
    """Say on stderr why a host is lost, once for each reason."""
    for state in states:
        if state.why != told[state.name]:
            told[state.name] = state.why
            if state.why:
                say(state.why)
