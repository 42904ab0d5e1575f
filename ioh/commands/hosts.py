"""Several machines as one stack: over ssh (``--host``), or from a joined recording."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ioh.commands.databases import DATABASE_OPTIONS
from ioh.commands.options import engine_from
from ioh.commands.output import say
from ioh.commands.playback import (
    Faults,
    PrintOptions,
    Remarks,
    choose_layers,
    follows,
    intervals_from,
    refuse_live_options,
    run_replay,
    span_from,
)
from ioh.commands.run import Ending, refuse_span, run_live
from ioh.model.errors import refuse_if

if TYPE_CHECKING:
    from ioh.hosts.host import HostQuery
    from ioh.model.pairs import Round
    from ioh.player.player import BasePlayer
    from ioh.session.stream import Item
    from ioh.sinks.hosts import HostsSink

# Options that the ioh on the other host gets unchanged.
_HANDED_ON = ("pid", "comm", "cgroup", "device", "port", "layers")


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--host`` and ``--remote-command``."""
    add = parser.add_argument_group("other machines").add_argument
    what = (
        "measure this host over ssh instead: an ssh host, user@host or host:port;"
        " give it up to 8 times to show the hosts as one stack"
    )
    add("--host", dest="hosts", metavar="HOST", action="append", default=[], help=what)
    what = "command that runs ioh there (default: sudo -n ioh, ioh, or the copy of ioh deploy)"
    add("--remote-command", metavar="COMMAND", help=what)


def wants_hosts(args: argparse.Namespace) -> bool:
    """Whether ``--host`` was given.  IohError: ``--remote-command`` without it."""
    is_alone = args.remote_command is not None and not args.hosts
    refuse_if(is_alone, "--remote-command needs --host", "Give --host HOST too")
    return bool(args.hosts)


def print_intervals(
    args: argparse.Namespace,
    form: PrintOptions,
    make_hosts_sink: Callable[[], HostsSink],
    *,
    speed: float | None = None,
) -> int:
    """Print intervals of this machine, of other hosts, or of a recording; return the exit status.

    ``speed`` as for run_replay().
    """
    if "hosts" in args and wants_hosts(args):
        return _run_hosts(args, make_hosts_sink())
    if getattr(args, "file", None) is None:
        return run_live(args, form.make_sink)
    from ioh.session.recorded_file import hosts_of

    if names := hosts_of(args.file):
        return _run_joined(args, names, make_hosts_sink(), form.remarks, speed)
    return run_replay(args, form, speed)


def _run_hosts(args: argparse.Namespace, sink: HostsSink) -> int:
    """Print the intervals of the ``--host`` hosts; return the exit status.

    IohError: a name or an option is wrong, or no host can be read.
    """
    asked = _asked(args)
    from ioh.hosts.stack import HostStack

    reported = dict.fromkeys(args.hosts, "")  # host -> why it is lost, printed once per reason
    with Ending() as ending, HostStack(args.hosts, asked) as stack:
        ending.stop = stack.stop

        def reported_rounds() -> Iterator[Round]:
            for each in stack:
                for state in each.states:
                    if state.why and state.why != reported[state.name]:
                        say(state.why)
                    reported[state.name] = state.why
                yield each

        _write_rounds(args, reported_rounds(), sink, ending)
    return ending.code


def _write_rounds(
    args: argparse.Namespace,
    source: Iterable[Round],
    sink: HostsSink,
    ending: Ending,
    remarks: Callable[[], str] = str,
) -> bool:
    """Judge rounds and print them until ``-t`` is over; return whether there was any.

    ``remarks`` returns what to print before the next round.
    """
    from ioh.pipeline import rounds

    has_any = False
    for each in rounds(source, partial(engine_from, args), args.run_s):
        has_any = True
        ending.write(remarks() + sink.render(each))
        if ending.received is not None:
            break
    return has_any


def show_hosts(args: argparse.Namespace) -> int:
    """Show the screen for the ``--host`` hosts.  Status and errors as for _run_hosts()."""
    asked = _asked(args)
    from ioh.commands.screen import filters_text, show

    def make(stack: contextlib.ExitStack, _: object) -> BasePlayer:
        from ioh.hosts.stack import HostStack
        from ioh.player.live import LivePlayer

        player = LivePlayer(
            stack.enter_context(HostStack(args.hosts, asked)),
            hosts=args.hosts,
            cycle_s=asked.cycle_s,
            make_judge=lambda: engine_from(args),
            run_s=args.run_s,
        )
        return stack.enter_context(player)

    return show(args, "live", make, filters_text(args))


def _asked(args: argparse.Namespace) -> HostQuery:
    """What to request from each host.  IohError: a name or an option is wrong."""
    from ioh.hosts.host import HostQuery
    from ioh.hosts.ssh import check_host
    from ioh.model.rounds import MAX_HOSTS

    refuse_span(args)
    for name in args.hosts:
        is_twice = args.hosts.count(check_host(name)) > 1
        refuse_if(is_twice, f"--host {name} is given twice", "Give each host once")
    hint = f"Give at most {MAX_HOSTS}"
    refuse_if(len(args.hosts) > MAX_HOSTS, f"{len(args.hosts)} hosts are too many", hint)
    for name in DATABASE_OPTIONS:
        cause = f"--{name.replace('_', '-')} works only on this machine, not with --host"
        refuse_if(getattr(args, name), cause, "Leave it out")
    is_both = getattr(args, "file", None) is not None
    refuse_if(is_both, "a recording and --host exclude each other", "Give one of them")
    cycle_s = args.cycle_s or 1.0
    choose = partial(choose_layers, args)
    return HostQuery(handed_on(args, cycle_s), args.remote_command, choose, cycle_s)


def handed_on(args: argparse.Namespace, cycle_s: float) -> tuple[str, ...]:
    """Arguments of the ioh on the other host; it samples at least once a second."""
    words = ["record", "-o", "-", "-c", f"{cycle_s / math.ceil(cycle_s):.6g}"]
    given = [(name, value) for name in _HANDED_ON if (value := getattr(args, name)) is not None]
    given += [("no-layer", value) for value in args.no_layer]
    words += [f"--{name}={value}" for name, value in given]  # =: a value may begin with a dash
    return (*words, *(["--proc"] if args.proc else []))


def _run_joined(
    args: argparse.Namespace,
    names: Sequence[str],
    sink: HostsSink,
    remarks: Remarks,
    speed: float | None,
) -> int:
    refuse_live_options(args)
    from ioh.playback.joined import joined_rounds, path_of, spans_of
    from ioh.playback.replay import ReplaySource, no_interval
    from ioh.playback.time_range import sane_cycle_s

    span = span_from(args)
    faults = {name: Faults() for name in names}
    waiting: dict[str, None] = {}  # a mark that all hosts have is printed once

    def take(name: str, item: Item) -> None:
        faults[name].take(item)
        waiting[remarks(item)] = None

    def remarked() -> str:
        text = "".join(waiting)
        waiting.clear()
        return text

    with Ending() as ending, contextlib.ExitStack() as stack:
        sources = {
            name: stack.enter_context(
                ReplaySource(
                    path_of(args.file, name), part, speed=speed, on_wait=lambda: follows(args)
                )
            )
            for name, part in spans_of(args.file, names, span).items()
        }
        cycles_s = [sane_cycle_s(s.session.header.cycle_s) for s in sources.values() if s.session]
        cycle_s = args.cycle_s or max(cycles_s)
        source = joined_rounds(sources, partial(intervals_from, args), cycle_s, take)

        def stop() -> None:
            for each in sources.values():
                each.stop()

        ending.stop = stop
        has_any = _write_rounds(args, source, sink, ending, remarked)
        if not has_any and ending.received is None:
            raise no_interval(args.file, span)
        ending.write(remarked())
    for found in faults.values():
        found.report()
    return ending.code
