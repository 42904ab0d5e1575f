"""What systemd says of the unit, and that ioh measures with no more than the unit leaves it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.kernel.rig import run
from tests.servers.prometheus import Serve

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "contrib" / "systemd" / "ioh.service"
MAX_EXPOSURE = 3.0  # of 10
UID = "64123"  # nobody's


def test_systemd_rates_it_three_or_better() -> None:
    told = run("systemd-analyze", "security", "--offline=true", "--no-pager", str(SHIPPED))
    found = re.search(r"exposure level for ioh\.service: ([\d.]+)", told)
    assert found is not None
    assert float(found[1]) <= MAX_EXPOSURE


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    text = SHIPPED.read_text().replace("/opt/ioh/.venv/bin/python", sys.executable)
    path = tmp_path / "ioh.service"
    path.write_text(text.replace("Documentation=man:ioh(8)\n", ""))
    told = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert "ioh.service" not in told.stderr


def test_it_measures_by_bpf_with_the_units_user_and_capabilities() -> None:
    (line,) = re.findall(r"^AmbientCapabilities=(.*)", SHIPPED.read_text(), re.MULTILINE)
    caps = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in line.split())
    sets = [f"--{which}=-all,{caps}" for which in ("inh-caps", "ambient-caps", "bounding-set")]
    user = ("setpriv", "--reuid", UID, "--regid", UID, "--clear-groups", "--no-new-privs", *sets)
    with Serve(words=user, environment={"PATH": "/usr/bin:/bin", "HOME": "/"}) as served:
        page = served.scrape()
        status = Path(f"/proc/{served.process.pid}/status").read_text()
    up = re.findall(r'^ioh_layer_up\{.*layer="(\w+)",source="bpf"\} 1\.0$', page, re.MULTILINE)
    assert {"syscall", "tcp", "block"} <= set(up)
    # Given away once the probes are attached.
    assert re.search(r"^CapEff:\s0+$", status, re.MULTILINE)
    assert re.search(r"^CapPrm:\s0+$", status, re.MULTILINE)
