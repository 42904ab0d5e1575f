"""Several machines as one stack: over ssh (``--host``), or from a joined recording."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ioh.commands.arguments import DATABASE_OPTIONS, FILTERS, IntervalOptions, ShowOptions
from ioh.commands.output import say
from ioh.commands.playback import PrintOptions, run_replay
from ioh.commands.run import Ending, run_live
from ioh.model.errors import ExitCode, IohError, refuse_if

if TYPE_CHECKING:
    from ioh.hosts.host import HostQuery
    from ioh.model.pairs import Round
    from ioh.model.player import Player


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


def print_intervals(options: IntervalOptions, form: PrintOptions) -> int:
    """Print intervals of this machine, of hosts or of a recording; return the exit status."""
    if options.hosts:
        return _run_hosts(options, form)
    return run_replay(options, form) if options.file else run_live(options, form.render)


def _run_hosts(options: IntervalOptions, form: PrintOptions) -> int:
    """Print the intervals of the ``--host`` hosts; return the exit status.

    IohError: a name or an option is wrong, or no host can be read.
    """
    query = _query(options)
    from ioh.hosts.stack import HostStack
    from ioh.pipeline import rounds

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

        for each in rounds(reported_rounds(), options.engine, options.run_s):
            ending.write(form.render(each))
            if ending.received is not None:
                break
    return ending.code


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
