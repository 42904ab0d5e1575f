"""`ioh serve`: its port, slow and silent scrapers, users, TLS, signals."""

from __future__ import annotations

import base64
import gzip
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import Mock

import bcrypt
import pytest

from ioh.model.errors import ExitCode, IohError
from ioh.serve import server as server_module
from ioh.serve.listening import listen, parse_address, url_of
from ioh.serve.page import Page
from ioh.serve.server import MAX_CONNECTIONS, Server
from ioh.serve.web_config import FOR_EVERYBODY, WebConfig, read_web_config
from tests.support.sessions import Shown
from tests.unit.serve_samples import large_host

ANYWHERE = "127.0.0.1:0"
# The bcrypt hash of "tape", at cost 4 so that the tests are quick.
TAPE = "$2b$04$aX1VNITib5ad/NyvAIJM3uFCW6zZ7y./FpXAca3B/ukEtwHPdXI96"


@contextmanager
def serving(config: WebConfig = FOR_EVERYBODY) -> Iterator[tuple[str, int]]:
    page = Page(0, {})
    page.publish(large_host())
    listening = listen(ANYWHERE)
    with Server(listening, page, config):
        yield url_of(listening, tls=bool(config.tls)), listening.getsockname()[1]


def config_of_ada(folder: Path) -> WebConfig:
    """One user, whose password is "tape"."""
    path = folder / "web.yml"
    path.write_text(f"basic_auth_users: {{ada: {TAPE}}}\n")
    return read_web_config(str(path))


def get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_a_scrape_gets_the_format_that_it_requests() -> None:
    with serving() as (url, _):
        status, headers, body = get(url)
        assert status == 200
        assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert b'ioh_block_operations_total{host="db01",op="read"} ' in body
        zipped = get(url, Accept_Encoding="gzip")
        assert gzip.decompress(zipped[2]) == body
        opened = get(url, Accept="application/openmetrics-text; version=1.0.0")
        assert opened[2].endswith(b"# EOF\n")
        assert get(url.replace("/metrics", "/"))[0] == 200
        assert get(url.replace("/metrics", "/etc/passwd"))[0] == 404


def test_scrapers_that_never_read_or_send_do_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "DEADLINE_S", 3600.0)
    monkeypatch.setattr(server_module._Handler, "timeout", 3600.0)
    with serving() as (url, port), ExitStack() as opened:
        silent = []
        for number in range(3 * MAX_CONNECTIONS):
            made = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            if number % 2:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                made.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            silent.append(made)
        assert get(url)[0] == 200
        assert threading.active_count() <= 2 * MAX_CONNECTIONS + 4


def test_a_request_sent_byte_by_byte_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "DEADLINE_S", 0.3)
    with serving() as (_, port), socket.create_connection(("127.0.0.1", port)) as slow:
        slow.settimeout(0.05)
        for _ in range(1200):
            with suppress(TimeoutError):
                assert slow.recv(1) == b""
                return
            slow.sendall(b"G")
    pytest.fail("it may go on for ever")


NONSENSE = (
    b"\0" * 100_000,
    b"GET " + b"x" * 100_000,
    b"GET /metrics HTTP/9.9\r\n\r\n",
    b"GET //[::1 HTTP/1.0\r\n\r\n",
    b"BREW /metrics HTTP/1.0\r\n\r\n",
    b"GET /metrics HTTP/1.0\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
    b"GET /metrics HTTP/1.0\r\nAccept: \xff\r\nAuthorization: Basic \xff\r\n\r\n",
)


def test_malformed_requests_are_ignored_silently(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(config_of_ada(tmp_path)) as (url, port):
        for sent in NONSENSE:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as made:
                made.sendall(sent)
                assert b"ioh_" not in made.recv(65_536), sent
        assert get(url, Authorization=authorized("ada:tape"))[0] == 200
    assert capfd.readouterr().err == ""


def test_a_port_in_use_prints_one_line(refused: Shown) -> None:
    with listen(ANYWHERE) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = refused("serve", "--proc", "--listen", address, code=ExitCode.FAILED)
    assert told.startswith(f"ioh: cannot listen on {address}: Address already in use. See what")


@pytest.mark.parametrize("text", ["9877", "host:", "host:x", "::1:9877", "host:65536", ":²"])
def test_a_malformed_address_is_refused(text: str, refused: Shown) -> None:
    assert "is not an address with a port" in refused("serve", "--proc", "--listen", text)


def test_addresses() -> None:
    assert [parse_address(text) for text in ("[::1]:1", ":9877", "db:80")] == [
        ("::1", 1),
        ("", 9877),
        ("db", 80),
    ]


def test_it_listens_on_every_address_but_not_on_a_foreign_one() -> None:
    with listen(":0") as made:
        port = made.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
    with pytest.raises(IohError, match="cannot listen on 203"):
        listen("203.0.113.7:0")


def authorized(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_only_users_with_their_password_are_let_in(tmp_path: Path) -> None:
    with serving(config_of_ada(tmp_path)) as (url, _):
        status, headers, body = get(url)
        assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="ioh", charset="UTF-8"')
        assert body == b"Unauthorized\n"
        for wrong in ("ada:wrong", "eve:tape", "ada:tape\0", "ada", ":"):
            assert get(url, Authorization=authorized(wrong))[0] == 401
        for broken in ("Basic ???", "Bearer x", authorized("ada:tape")[6:]):
            assert get(url, Authorization=broken)[0] == 401
        for _ in range(2):
            assert get(url, Authorization=authorized("ada:tape"))[0] == 200


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """bcrypt's comparison, which takes long, with a count of its calls."""
    made = Mock(wraps=bcrypt.checkpw)
    monkeypatch.setattr(bcrypt, "checkpw", made)
    return made


def test_a_correct_password_is_remembered_whoever_guesses_meanwhile(
    tmp_path: Path, check: Mock
) -> None:
    users = config_of_ada(tmp_path).users
    assert users is not None
    check.reset_mock()
    for _ in range(5):
        assert users.know(authorized("ada:tape"))
    assert check.call_count == 1
    for number in range(100):
        assert not users.know(authorized(f"ada:{number}"))
    calls = check.call_count
    assert users.know(authorized("ada:tape"))
    assert check.call_count == calls


def test_an_unknown_name_takes_as_long_as_a_known_one(tmp_path: Path, check: Mock) -> None:
    users = config_of_ada(tmp_path).users
    assert users is not None
    check.reset_mock()
    assert not users.know(authorized("eve:tape"))
    check.assert_called_once_with(b"tape", TAPE.encode())


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A directory with a certificate made for these tests, valid for a hundred years."""
    shutil.copytree(Path(__file__).parents[1] / "data" / "tls", tmp_path / "tls")
    (tmp_path / "tls" / "web.yml").write_text(
        "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  min_version: TLS13\n"
    )
    return tmp_path / "tls"


def test_tls_works_despite_a_client_that_never_does_the_handshake(certificate: Path) -> None:
    config = read_web_config(str(certificate / "web.yml"))
    trusting = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with serving(config) as (url, port):
        assert url.startswith("https://")
        with socket.create_connection(("127.0.0.1", port)) as plain:
            for _ in range(2):
                with urllib.request.urlopen(url, context=trusting, timeout=10) as answer:
                    assert answer.status == 200
            plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert b"ioh_" not in plain.recv(65_536)


def test_a_client_certificate_can_be_required(certificate: Path) -> None:
    path = certificate / "mutual.yml"
    more = "  client_ca_file: cert.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
    path.write_text((certificate / "web.yml").read_text() + more)
    config = read_web_config(str(path))
    stranger = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with serving(config) as (url, _), pytest.raises((ssl.SSLError, OSError)):
        urllib.request.urlopen(url, context=stranger, timeout=10)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "not a YAML file"),
        ("- a", "Expected `object | null`, got `array`"),
        ("tls_server_config: [1]", "got `array` - at `$.tls_server_config`"),
        ("tls_server_config: {cert_file: a}", "cert_file and key_file are both needed"),
        ("tls_server_config: {cert_file: no.pem, key_file: no.pem}", "No such file"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: SSL3}", "min_version is one"),
        ("tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}", "need each other"),
        ("tls_server_config: {ciphers: x}", "unknown field `ciphers` - at `$.tls_server_config`"),
        ("basic_auth_users: {ada: tape}", "not every password is a bcrypt hash"),
    ],
)
def test_an_invalid_web_config_prints_one_line(
    text: str, why: str, tmp_path: Path, refused: Shown
) -> None:
    path = tmp_path / "web.yml"
    path.write_text(text)
    told = refused("serve", "--proc", "--listen", ANYWHERE, "--web-config", path)
    assert why in told


@pytest.mark.parametrize(
    ("library", "text"), [("yaml", "{}"), ("bcrypt", f"basic_auth_users: {{ada: {TAPE}}}")]
)
def test_a_missing_library_is_named(
    library: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "web.yml").write_text(text)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(IohError, match="needs the Python library") as told:
        read_web_config(str(tmp_path / "web.yml"))
    assert f"apt-get install python3-{library}" in told.value.hint
    assert told.value.code == ExitCode.UNAVAILABLE


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_and_closes_its_port(number: signal.Signals, code: int) -> None:
    words = [sys.executable, "-m", "ioh", "serve", "--proc", "--listen", ANYWHERE, "--top", "2"]
    # A background job ignores SIGINT.
    program = (
        "import signal, sys; signal.signal(2, signal.default_int_handler); sys.argv[1:] = {!r}"
    )
    program = f"{program.format(words[3:])}; from ioh.commands import main; sys.exit(main())"
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        url = process.stderr.readline().decode().split()[-1]
        status, _, body = get(url)
        assert status == 200
        assert b"ioh_layer_up{" in body
        process.send_signal(number)
        assert process.wait(timeout=30) == code
        assert process.stderr.read() == b""
    with pytest.raises(urllib.error.URLError):
        get(url)
