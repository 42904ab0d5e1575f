"""Several machines as one stack: read through ssh, joined, lost and found again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ioh.commands import build_parser, main
from ioh.commands.arguments import interval_options
from ioh.commands.hosts import handed_on
from ioh.model.errors import ExitCode
from tests.support import fake_ssh

ROOT = Path(__file__).parents[2]
CYCLE = ("-c", "0.2")


@pytest.fixture(autouse=True)
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ssh.install(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def ioh(*words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "ioh", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def hosts(*names: str) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("--host", name))


@pytest.fixture
def json_lines() -> Iterator[Any]:
    """Lines of ``ioh json`` with these hosts; ioh is ended after the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(*names: str) -> Iterator[dict[str, Any]]:
        running.append(ioh("json", *hosts(*names), *CYCLE))
        stdout = running[0].stdout
        assert stdout is not None
        for line in stdout:
            yield json.loads(line)

    yield begin
    running[0].send_signal(signal.SIGTERM)
    _, said = running[0].communicate(timeout=30)
    assert running[0].returncode == 0, said


def state_of(line: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [host for host in line["hosts"] if host["name"] == name]
    return dict(found)


def test_client_and_server_are_paired_and_who_adds_the_time_is_found(
    json_lines: Any,
) -> None:
    hostnames, together, found = {}, [], {}
    for line in islice(json_lines("db01", "root@nfs01:22"), 300):  # 20 s
        if line["host"]:
            hostnames[line["host"]["name"]] = line["host"]["hostname"]
            found = {finding["rule"]: finding["subject"] for finding in line["findings"]}
            if "network_adds" in found:
                break
        else:
            together += line["pairs"]
    assert line["host"]["name"] == "db01"
    assert found["network_adds"] == "db01 from root@nfs01:22"
    assert "nfs_latency" not in found
    assert hostnames == {"db01": "db01.example", "root@nfs01:22": "nfs01.example"}
    assert len(together) >= 4
    for pair in together:
        assert (pair["client"], pair["server"]) == ("db01", "root@nfs01:22")
        read = pair["ops"]["read"]
        assert read["client_calls"] == read["server_calls"] == fake_ssh.READS
        assert (read["rtt_us"], read["server_us"]) == (5000, 1000)
        assert (read["network_us"], read["network_pct"]) == (4000, 80)
        assert (read["matched_calls"], read["network_p50_us"]) == (8, 4096)
        assert read["network_p99_us"] is None  # too few
        assert read["network_hist"]["counts"][0] == 7
        assert read["network_hist"]["counts"][-1] == 1
        assert pair["retransmits_per_s"] > 0


def test_text_has_a_block_for_each_host_and_the_pairs(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["text", *hosts("db01", "nfs01"), *CYCLE, "-t", "0.8"]) == ExitCode.OK
    told = capfd.readouterr().out
    assert told.count("# MB = 1,000,000 bytes") == 1
    headings = re.findall("^==== (.+?) ==== ", told, re.MULTILINE)
    together = [at for at, each in enumerate(headings) if each == "nfs between hosts"]
    assert together  # a host may be missing in a round: its interval was late
    assert abs(headings.count("db01") - headings.count("nfs01")) <= 1
    assert told.count(" ====  clock ") == len(headings) - len(together)
    assert {tuple(headings[at - 2 : at]) for at in together} == {("db01", "nfs01")}
    assert "db01.example" in told
    table = told[told.index("==== nfs between hosts") :].splitlines()
    assert (
        table[1] == "                   |   calls|  served|  rtt_ms|  srv_ms|  dsk_ms|  net_ms|net%"
    )
    assert (
        table[2] == "R |db01 from nfs01:|      10|      10|   5.000|   1.000|       -|   4.000|  80"
    )
    assert table[3] == "  |db01 from nfs01: net of 8 single calls: p50 4.096, p99 - ms"
    assert table[4].startswith("  |db01 from nfs01: retransmits ")


def test_times_are_of_our_clock_whatever_a_hosts_clock_says(json_lines: Any) -> None:
    began_s, clocks = time.time(), {}
    for line in json_lines("ahead", "timeless", "db01"):
        assert began_s - 1 < line["time_unix_s"] < time.time() + 1
        if not line["host"]:
            clocks = {host["name"]: host for host in line["hosts"]}
            if clocks["ahead"]["clock_offset_s"]:
                break
    for name, offset_s in (("ahead", fake_ssh.AHEAD_S), ("db01", 0)):
        error_s = clocks[name]["clock_error_s"] + 0.001
        assert clocks[name]["clock_offset_s"] == pytest.approx(offset_s, abs=error_s)
    assert clocks["timeless"]["clock_offset_s"] is None


def test_a_lost_host_is_tried_again_and_the_others_go_on(json_lines: Any) -> None:
    seen, lost = 0, {}
    for line in json_lines("flaky", "db01"):
        if line["host"]:
            seen += line["host"]["name"] == "db01"
            continue
        flaky = state_of(line, "flaky")
        assert state_of(line, "db01")["is_here"]
        if not flaky["is_here"]:
            lost, seen = flaky, 0
        elif lost and seen:
            break
    assert "send disconnect: Broken pipe" in lost["why"]
    assert lost["lost_s"] >= 0


def test_a_host_that_cannot_be_read_does_not_stop_the_others(
    capfd: pytest.CaptureFixture[str],
) -> None:
    names = hosts("db01", "refused", "hostile", "nowhere")
    assert main(["text", *names, *CYCLE, "-t", "0.6"]) == ExitCode.OK
    told = capfd.readouterr()
    rounds = told.out.count("==== refused ====")
    assert told.out.count("==== db01 ====  clock ") == rounds > 0
    assert "==== refused ====  not connected: refused: root@refused: Permission denied" in told.out
    assert "==== nowhere ====  not connected: nowhere: ssh: Could not resolve hostname" in told.out
    assert "==== hostile ====  not connected: hostile: the stream is not a recording" in told.out
    assert told.err.count("Permission denied") == 1
    assert "\x1b" not in told.out + told.err


@pytest.mark.parametrize(
    ("name", "said", "code"),
    [
        ("refused", "Permission denied (publickey). Try: ssh -o BatchMode=yes refused true", 1),
        ("bare", "ioh is not on the PATH of bare. Run: ioh deploy bare;", 3),
        ("hostile", "the stream is not a recording of ioh", 1),
    ],
)
def test_it_is_an_error_if_no_host_can_be_read(
    capfd: pytest.CaptureFixture[str], name: str, said: str, code: int
) -> None:
    assert main(["text", *hosts(name)]) == code
    told = capfd.readouterr()
    assert told.out == ""
    assert said in told.err
    assert told.err.count("\n") == 1
    assert "\x1b" not in told.err


def test_the_remote_command_can_be_given(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["text", *hosts("bare"), "--remote-command", "/none/ioh -x"]
    assert main(words) == ExitCode.UNAVAILABLE
    assert "bare cannot run /none/ioh -x. Correct --remote-command" in capfd.readouterr().err
    real = f"env PYTHONPATH={ROOT} {sys.executable} -m ioh"
    words = ["json", *hosts("bare"), "--remote-command", real, "--proc", "--layers", "block"]
    assert main([*words, *CYCLE, "-t", "0.4"]) == ExitCode.OK
    told = json.loads(capfd.readouterr().out.splitlines()[0])
    assert list(told["layers"]) == ["block"]
    assert told["host"]["clock_error_s"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "-oProxyCommand=x"], "expected one argument"),
        (["--host=-oProxyCommand=x"], '"-oProxyCommand=x" is not a host name'),
        (["--host", "a\x1b"], '"a\\x1b" is not a host name'),
        (["--host", ""], '"" is not a host name'),
        ([*hosts("a", "b", "a")], "--host a is given twice"),
        ([*hosts(*"abcdefghi")], "9 hosts are too many. Give at most 8"),
        ([*hosts("a"), "x.ioh"], "a recording and --host exclude each other"),
        ([*hosts("a"), "--from", "1"], "--from and --to need a recording"),
        ([*hosts("a"), "--pg", "service=x"], "--pg works only on this machine, not with --host"),
        (["--remote-command", "ioh"], "--remote-command needs --host"),
    ],
)
def test_invalid_arguments_are_refused(
    capfd: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["json", *words]) == ExitCode.USAGE
    assert said in capfd.readouterr().err


def test_a_filter_that_looks_like_an_option_is_passed_on_as_a_value() -> None:
    words = ["--comm=-o/x", "--layers=tcp,block", "--no-layer=tcp", "--no-layer=-q"]
    asked = handed_on(
        interval_options(build_parser().parse_args(["json", "--host", "a", *words])), 2.0
    )
    there = build_parser().parse_args(list(asked))
    assert (there.comm, there.layers, there.no_layer) == ("-o/x", "tcp,block", ["tcp", "-q"])
    assert (there.output, there.cycle_s) == ("-", 1.0)


def test_a_host_with_an_older_ioh_is_read_and_reported() -> None:
    with ioh("text", *hosts("db01", "old"), *CYCLE, "-t", "60") as running:
        assert running.stdout is not None
        told: list[str] = []
        for line in running.stdout:
            told.append(line)
            if "==== old ====  clock " in line:
                break
        assert "==== old ====  clock " in told[-1]
        running.send_signal(signal.SIGTERM)
        rest, said = running.communicate(timeout=30)
    assert "nfs between hosts" not in "".join(told) + rest
    assert said.count("which does not report its addresses: no pairs with it") == 1


@pytest.mark.parametrize("command", ["replay", "record", "serve"])
def test_other_commands_do_not_accept_host(command: str) -> None:
    _, unknown = build_parser().parse_known_args([command, "x", "--host", "a"])
    assert "--host" in unknown
