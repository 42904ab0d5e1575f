"""``ioh json``: one JSON object for each interval."""

from __future__ import annotations

import argparse
from functools import partial

from ioh.commands.hosts import JsonHosts, add_host_arguments, refuse_remote_command, run_hosts
from ioh.commands.options import add_file_arguments
from ioh.commands.run import run_live
from ioh.commands.sample import tell_nothing
from ioh.sinks.json import JsonSink


class JsonCommand:
    """``ioh json``."""

    name = "json"
    summary = "print each interval as one JSON object on a line"
    examples = """\
  ioh json | jq '.layers.block.ops.read.p99_us'
  ioh json -t 60 --top all > minute.jsonl
  ioh json FILE > recording.jsonl
  ioh json --host db01 --host nfs01 | jq -c 'select(.pairs) | .pairs[]'
  ioh json --layers block,tcp | jq -c '[.time_unix_s, .layers.tcp.ops.in.bytes_per_s]'

null is "not known", 0 is "measured none". An operation that occurred has `hist`:
  for size, counts in zip(hist["size_edges_bytes"], hist["counts"]):
      for latency_us, n in zip(hist["latency_edges_us"], counts):
          print(f"{n} operations of at most {size} bytes and {latency_us} us")
An edge of null stands for "larger"; a bucket reaches down to half of its edge."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        add_file_arguments(parser, top=10)
        add_host_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print JSON until asked to end, or a whole recording."""
        refuse_remote_command(args)
        if args.hosts:
            return run_hosts(args, lambda: JsonHosts(args.top))
        if args.file is not None:
            from ioh.commands.joined import run_joined
            from ioh.commands.playback import run_replay
            from ioh.session.reader import hosts_of

            if names := hosts_of(args.file):
                return run_joined(args, names, lambda: JsonHosts(args.top), speed=None)
            return run_replay(args, lambda: JsonSink(args.top), speed=None)
        sink = partial(JsonSink, args.top)
        return run_live(args, sink, lambda why: tell_nothing(why, asks=False))
