"""Several machines as one stack: over ssh (``--host``), or from a joined recording."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ioh.commands.arguments import DATABASE_OPTIONS, FILTERS, IntervalOptions, ShowOptions
from ioh.commands.output import say
from ioh.commands.playback import Faults, PrintOptions, Remarks, run_replay
from ioh.commands.run import Ending, run_live
from ioh.model.errors import ExitCode, IohError, refuse_if

if TYPE_CHECKING:
    from ioh.hosts.host import HostQuery
    from ioh.model.pairs import Round
    from ioh.model.player import Player
    from ioh.session.stream import Item
    from ioh.sinks.hosts import HostsSink


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


def print_intervals(
    options: IntervalOptions, form: PrintOptions, make_hosts_sink: Callable[[], HostsSink]
) -> int:
    """Print intervals of this machine, of hosts or of a recording; return the exit status."""
    if options.hosts:
        return _run_hosts(options, make_hosts_sink())
    if not options.file:
        return run_live(options, form.make_sink)
    from ioh.session.recorded_file import hosts_of

    if names := hosts_of(options.file):
        return _run_joined(options, names, make_hosts_sink(), form.remarks)
    return run_replay(options, form)


def _run_hosts(options: IntervalOptions, sink: HostsSink) -> int:
    """Print the intervals of the ``--host`` hosts; return the exit status.

    IohError: a name or an option is wrong, or no host can be read.
    """
    query = _query(options)
    from ioh.hosts.stack import HostStack

    reported = dict.fromkeys(options.hosts, "")  # host -> why it is lost, printed once per reason
    with Ending() as ending, HostStack(options.hosts, query) as stack:
        ending.stop = stack.stop

        def reported_rounds() -> Iterator[Round]:
            for each in stack:
                for state in each.states:
                    if state.why and state.why != reported[state.name]:
                        say(state.why)
                    reported[state.name] = state.why
                yield each

        _write_rounds(options, reported_rounds(), sink, ending)
    return ending.code


def _write_rounds(
    options: IntervalOptions,
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
    for each in rounds(source, options.engine, options.run_s):
        has_any = True
        ending.write(remarks() + sink.render(each))
        if ending.received is not None:
            break
    return has_any


def show_hosts(options: IntervalOptions, how: ShowOptions) -> int:
    """Show the screen for the ``--host`` hosts.  Status and errors as for _run_hosts()."""
    query = _query(options)
    from ioh.commands.screen import show

    def make(stack: contextlib.ExitStack, _: object) -> Player:
        from ioh.hosts.stack import HostStack
        from ioh.player.live import LivePlayer

        player = LivePlayer(
            stack.enter_context(HostStack(options.hosts, query)),
            hosts=options.hosts,
            cycle_s=query.cycle_s,
            make_judge=options.engine,
            run_s=options.run_s,
        )
        return stack.enter_context(player)

    return show(options, how, "live", make)


def _query(options: IntervalOptions) -> HostQuery:
    """What to request from each host.  IohError: a name or an option is wrong."""
    from ioh.hosts.host import HostQuery
    from ioh.hosts.ssh import check_host
    from ioh.model.rounds import MAX_HOSTS

    for name in options.hosts:
        is_twice = options.hosts.count(check_host(name)) > 1
        refuse_if(is_twice, f"--host {name} is given twice", "Give each host once")
    hint = f"Give at most {MAX_HOSTS}"
    refuse_if(len(options.hosts) > MAX_HOSTS, f"{len(options.hosts)} hosts are too many", hint)
    for name in options.measure.given(DATABASE_OPTIONS):
        cause = f"--{name} works only on this machine, not with --host"
        raise IohError(cause, "Leave it out", ExitCode.USAGE)
    cycle_s = options.cycle_s or 1.0
    words = handed_on(options, cycle_s)
    return HostQuery(words, options.remote_command, options.layers_of, cycle_s)


def handed_on(options: IntervalOptions, cycle_s: float) -> tuple[str, ...]:
    """Arguments of the ioh on the other host; it samples at least once a second."""
    words = ["record", "-o", "-", "-c", f"{cycle_s / math.ceil(cycle_s):.6g}"]
    given = list(options.measure.given(FILTERS).items())
    given += [("layers", options.layers)] if options.layers is not None else []
    given += [("no-layer", value) for value in options.no_layer]
    words += [f"--{name}={value}" for name, value in given]  # =: a value may begin with a dash
    return (*words, *(["--proc"] if options.measure.proc else []))


def _run_joined(
    options: IntervalOptions, names: Sequence[str], sink: HostsSink, remarks: Remarks
) -> int:
    from ioh.playback.joined import joined_rounds, path_of, spans_of
    from ioh.playback.replay import ReplaySource, no_interval

    span = options.span
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
                    path_of(options.file, name),
                    part,
                    speed=options.speed,
                    on_wait=lambda: options.follows,
                )
            )
            for name, part in spans_of(options.file, names, span).items()
        }
        cycles_s = [s.session.header.cycle_s for s in sources.values() if s.session]
        cycle_s = options.cycle_s or max(cycles_s)
        source = joined_rounds(sources, options.intervals, cycle_s, take)

        def stop() -> None:
            for each in sources.values():
                each.stop()

        ending.stop = stop
        has_any = _write_rounds(options, source, sink, ending, remarked)
        if not has_any and ending.received is None:
            raise no_interval(options.file, span)
        ending.write(remarked())
    for found in faults.values():
        found.report()
    return ending.code
