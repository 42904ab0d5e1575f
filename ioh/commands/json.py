"""``ioh json``: one JSON object for each interval."""

from __future__ import annotations

import argparse

from ioh.commands.arguments import interval_options
from ioh.commands.hosts import add_host_arguments, print_intervals
from ioh.commands.options import add_interval_arguments
from ioh.commands.playback import PrintOptions
from ioh.sinks.hosts import JsonHosts

SUMMARY = "print each interval as one JSON object on a line"
EXAMPLES = """\
  ioh json | jq '.layers.block.ops.read.p99_us'
  ioh json -t 60 --top all > minute.jsonl
  ioh json FILE > recording.jsonl
  ioh json --host db01 --host nfs01 | jq -c 'select(.pairs) | .pairs[]'
  ioh json --layers block,tcp | jq -c '[.time_unix_s, .layers.tcp.ops.in.bytes_per_s]'

null means "not known", 0 means "measured none". An operation with a count above 0 has `hist`:
  for size, counts in zip(hist["size_edges_bytes"], hist["counts"]):
      for latency_us, n in zip(hist["latency_edges_us"], counts):
          print(f"{n} operations of at most {size} bytes and {latency_us} us")
An edge of null means "larger". A bucket covers the values from half of its edge to its edge."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_interval_arguments(parser, top=10, live=True, recorded=True, prints=False)
    add_host_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print JSON; status and errors as for print_intervals()."""
    form = PrintOptions(JsonHosts(args.top).render, has_hosts=True)
    return print_intervals(interval_options(args), form)
