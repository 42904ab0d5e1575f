"""``ioh serve``: running totals, histograms and findings over HTTP, for Prometheus."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ioh.commands.arguments import IntervalOptions, interval_options
from ioh.commands.databases import databases_from
from ioh.commands.garbage import few_collections
from ioh.commands.options import add_interval_arguments
from ioh.commands.output import agrees, say, write_stdout
from ioh.commands.progress import what_is_from_proc
from ioh.commands.run import Ending, live_source
from ioh.commands.sample import why_nothing
from ioh.model.errors import ExitCode, refuse_if
from ioh.pipeline import alone, rounds

if TYPE_CHECKING:
    from ioh.findings.engine import Engine
    from ioh.model.sample import Sample
    from ioh.serve.page import Page
    from ioh.serve.web_config import WebConfig

DEFAULT_LISTEN = "127.0.0.1:9877"
SUMMARY = "serve running totals, histograms and findings to Prometheus"
EXAMPLES = """\
  sudo ioh serve                        http://127.0.0.1:9877/metrics
  sudo ioh serve --listen :9877 --web-config web.yml     all addresses, TLS and users
  sudo ioh serve --no-layer syscall     without the most expensive probes
  sudo ioh serve --install-unit         as a service, with the other options given
  sudo ioh serve --top 10               also 10 rows per breakdown: many series

web.yml is the web configuration file of Prometheus exporters, see docs/fleet.md."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument_group("serve").add_argument
    what = f"address to listen on (default {DEFAULT_LISTEN}); :PORT listens on all addresses"
    add("--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, help=what)
    what = "TLS and users, in the web configuration format of Prometheus exporters"
    add("--web-config", metavar="FILE", help=what)
    what = "show a hardened systemd unit that serves with these options; root may install it"
    add("--install-unit", action="store_true", help=what)
    add_interval_arguments(parser, top=0, live=True, prints=False)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal or the end of ``-t``; return the exit status."""
    from ioh.serve.listening import listen

    options = interval_options(args)
    if args.install_unit:
        return _install_unit(options, args.listen, args.web_config, args.words)
    made: list[tuple[Engine | None, Page, WebConfig]] = []
    source = live_source(options, lambda: made.append(_prepare(options, args.web_config, args.top)))
    listening = listen(args.listen)
    with Ending() as ending, listening, source, few_collections(is_live=True):
        ending.stop = source.stop
        engine, page, config = made[0]
        source.attach()  # the first page has every layer
        from ioh.serve.listening import url_of
        from ioh.serve.server import Server

        samples = _published(source, page)
        first = next(samples, None)  # before it there is no page
        if first is None:
            return ending.code
        with Server(listening, page, config):
            say(f"serving {url_of(listening, tls=bool(config.tls))}")
            for line in () if options.measure.proc else what_is_from_proc(first):
                say(line)
            shown = rounds(alone(chain([first], samples)), lambda: engine, options.run_s)
            for number, each in enumerate(shown):
                page.judge(each.snapshot)
                if not number and (why := why_nothing(each.snapshot)):
                    say(f"nothing to measure on this machine ({why})")
    return ending.code


def _install_unit(
    options: IntervalOptions, listen: str, web_config: str | None, words: Sequence[str]
) -> int:
    from ioh.pg.login import hide_passwords
    from ioh.serve.listening import parse_address
    from ioh.serve.unit import NAME, UNIT_DIR, install_unit, refuse_another, unit_text

    parse_address(listen)
    options.measure.filters()
    options.layers_here()
    databases_from(options.measure)
    for option, file in (
        ("--web-config", web_config),
        ("--findings-config", options.findings_config),
    ):
        is_relative = file is not None and not os.path.isabs(file)  # noqa: PTH117 (it may be one of systemd's)
        cause = f"{option}: a service has no current directory"
        refuse_if(is_relative, cause, "Give an absolute path")
    pg = options.measure.pg or ""
    cause = "--pg may contain a password, and every user can read a unit"
    refuse_if(hide_passwords(pg) != pg, cause, "Put it into a service file: --pg service=NAME")
    text = unit_text([word for word in words if word != "--install-unit"])
    if os.geteuid():  # a rule that allows ioh does not allow a change of root's services
        write_stdout(text)
        command = shlex.join(("sudo", "ioh", "serve", *words))
        say(f"not installed, only root itself can. Run: {command} | sudo tee {UNIT_DIR / NAME}")
        return ExitCode.OK
    refuse_another(text)
    if not agrees(f"{text}\nInstall this in {UNIT_DIR}?"):
        say("not installed")
        return ExitCode.OK
    path = install_unit(text)
    say(f"installed {path}. Start it: systemctl enable --now ioh. Change it: systemctl edit ioh")
    return ExitCode.OK


def _prepare(
    options: IntervalOptions, web_config: str | None, top: int | None
) -> tuple[Engine | None, Page, WebConfig]:
    """Import and read what serving needs: after the loader is forked, before root is dropped."""
    import ioh.serve.server  # noqa: F401
    from ioh.serve.page import Page
    from ioh.serve.web_config import FOR_EVERYBODY, read_web_config

    engine = options.engine()
    config = FOR_EVERYBODY if web_config is None else read_web_config(web_config)
    return engine, Page(top, {} if engine is None else engine.rule_layers), config


def _published(source: Iterable[Sample], page: Page) -> Iterator[Sample]:
    for sample in source:
        page.publish(sample)
        yield sample
