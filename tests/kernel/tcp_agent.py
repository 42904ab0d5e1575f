"""Runs ioh's tcp layer in this process' network namespace; one JSON reading for each input line."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from ioh.bpf.loader import start_loader
from ioh.layers import find_probe, tcp
from ioh.live.attached import AttachedLayer
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample


def main() -> None:
    options = json.loads(sys.argv[1])
    tcp.MAX_CLOSED = options.get("max_closed", tcp.MAX_CLOSED)
    filters = Filters(port=options.get("port"))
    layer = tcp.Tcp(filters)
    attached = AttachedLayer(layer)
    loader = start_loader(find_probe, filters)
    if not options.get("proc"):
        loader.request({"verb": "attach", "layer": "tcp"})
        while (answer := loader.answer(30)) is not None and "compiling" in answer[0]:
            pass
        assert answer is not None
        attached.adopt(*answer)
        assert not attached.why_proc, attached.why_proc
    for _ in sys.stdin:
        began_s = time.perf_counter()
        began_cpu_s = time.process_time()
        sample = attached.read()
        reading: dict[str, Any] = {
            "ms": (time.perf_counter() - began_s) * 1000,
            "cpu_ms": (time.process_time() - began_cpu_s) * 1000,
        }
        assert isinstance(sample, LayerSample), sample
        reading |= {
            "source": sample.source,
            "in_bytes": sample.ops["in"].bytes_total,
            "out_bytes": sample.ops["out"].bytes_total,
            "metrics": dict(sample.metrics),
            # The sum over the sockets; the metric of this name is the kernel's own counter.
            "socket_retrans_segs": layer._ledger.totals.retrans_segs,
            "tables": {
                name: [[*key, *row] for key, row in table.items()]
                for name, table in sample.tables.items()
            },
            "lost": dict(sample.lost),
            "rtt": sum(sample.gauge_hists["srtt_us"]),
            "notes": list(sample.notes),
        }
        print(json.dumps(reading), flush=True)
    attached.close()
    loader.close()


main()
