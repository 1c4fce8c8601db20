"""Nothing is sent into our own network, by name, by number, by redirect or by a name that changes its mind; and no call outlasts its
deadline."""

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agents_app.outbound import guard
from tests.training_app.conftest import receiver  # noqa: F401

pytestmark = pytest.mark.any_database


@pytest.fixture(autouse=True)
def nothing_listed(settings: Any) -> None:
    settings.INTERNAL_HOSTS = ()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Makes every name lead to these addresses, the first look-up to the first list; returns the names that were asked for."""

    def lead(*lists: list[str]) -> list[str]:
        asked: list[str] = []

        def resolve(host: str, port: int, *_given: Any, **_more: Any) -> list:
            found = lists[min(len(asked), len(lists) - 1)]
            asked.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        return asked

    return lead


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1", "::1",
        "192.0.0.8", "192.88.99.1", "198.18.0.1", "240.0.0.1", "::", "::7f00:1", "::a00:1", "::1.1.1.1", "64:ff9b::a00:1",
        "64:ff9b:1::1", "2002:a00:1::", "2002:101:101::", "2001::1", "2001:db8::1", "fd00:ec2::254", "fec0::1", "ff02::1",
        "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "255.255.255.255",
    ],
)  # fmt: skip
def test_an_address_of_a_network_of_our_own_is_not_public(address: str) -> None:
    assert not guard.public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert guard.public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "https://", "https://user:secret@example.com/",
        "https://example.com:0/", "https://exa mple.com/", "https://example.com/\r\nX: y", "example.com", "https://[::1",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(guard.Refused):
        guard.check_url(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]"])
def test_this_machine_is_refused_however_it_is_spelled(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system reads a number as an address, and where it would not."""
    place = "::1" if ":" in host else "127.0.0.1"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (place, 1))])
    with pytest.raises(guard.Refused):
        guard.post(f"https://{host}:1/", b"{}", {})


def test_one_private_address_among_public_ones_is_enough(names: Any) -> None:
    names(["1.1.1.1", "10.0.0.1"])
    with pytest.raises(guard.Refused, match=r"example\.com is not on the internet") as refused:
        guard.addresses("example.com", 443)
    assert "10.0.0.1" not in str(refused.value), "names inside are not looked up for anybody"


def test_the_name_is_resolved_once_and_the_checked_address_is_connected_to(
    names: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, connected = names(["1.1.1.1"], ["127.0.0.1"]), []

    def connect(self: Any, host: str, port: int, *_more: Any) -> None:
        connected.append((host, port))
        raise httpcore.ConnectError("not today")

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    with pytest.raises(OSError, match="not today"):
        guard.post("https://example.com/hook", b"{}", {})
    assert asked == ["example.com"]
    assert connected == [("1.1.1.1", 443)]


def test_a_name_that_leads_inside_is_never_connected_to(names: Any) -> None:
    names(["127.0.0.1"])
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.settimeout(0)
        port = inside.getsockname()[1]
        with guard.client(plain=True) as client, pytest.raises(guard.Refused):
            client.get(f"http://harmless.example.com:{port}/")
        with pytest.raises(BlockingIOError):
            inside.accept()


def test_tls_and_the_host_header_keep_the_name(names: Any, settings: Any, tmp_path: Path) -> None:
    settings.INTERNAL_HOSTS = ("agent.example.com",)
    names(["127.0.0.1"])
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody.example.com")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    own = tmp_path / "own.pem"
    own.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    wanted: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: wanted.append(name)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError), server.accept()[0] as stream:
                context.wrap_socket(stream, server_side=True)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(ConnectionError, match="certificate"):
            guard.post(f"https://agent.example.com:{server.getsockname()[1]}/", b"{}", {})
        thread.join()
    assert wanted == ["agent.example.com"]


@pytest.mark.parametrize(
    ("entry", "host", "port", "is_listed"),
    [
        ("agents.local", "agents.local", 80, True), ("Agents.Local", "agents.local.", 80, True),
        ("agents.local", "x.agents.local", 80, False), ("agents.local:81", "agents.local", 81, True),
        ("agents.local:81", "agents.local", 80, False), ("10.0.0.0/8", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "11.1.2.3", 80, False), ("fd00::/8", "fd00::1", 80, True), ("[::1]:80", "::1", 80, True),
        ("127.0.0.1", "127.0.0.1", 9, True), ("127.0.0.1", "127.0.0.2", 9, False),
    ],
)  # fmt: skip
def test_what_the_setting_lists(settings: Any, entry: str, host: str, port: int, is_listed: bool) -> None:
    settings.INTERNAL_HOSTS = (entry,)
    assert guard.listed(host, port) is is_listed


def test_a_name_may_lead_into_a_network_that_is_listed(settings: Any, names: Any) -> None:
    settings.INTERNAL_HOSTS = ("10.0.0.0/8",)
    names(["10.1.2.3"])
    assert guard.addresses("agents.local", 443) == ["10.1.2.3"]


def test_the_server_of_the_settings_is_listed_with_its_port_alone(settings: Any) -> None:
    settings.LLM_BASE_URL = "http://llm.local:11434/v1"
    assert guard.listed("llm.local", 11434)
    assert not guard.listed("llm.local", 80)


def test_a_redirect_is_an_answer_and_not_followed(receiver: Any, settings: Any) -> None:  # noqa: F811
    settings.INTERNAL_HOSTS = ("localhost",)
    receiver.status, receiver.headers = 302, {"Location": "http://localhost:1/"}
    assert guard.post(receiver.url, b"{}", {})[0] == 302
    assert len(receiver.got) == 1


def test_an_internal_host_that_is_listed_is_posted_to_by_http(receiver: Any, settings: Any) -> None:  # noqa: F811
    settings.INTERNAL_HOSTS = ("localhost",)
    assert guard.post(receiver.url, b"{}", {"X-One": "1"}) == (200, "thank you")
    headers, body = receiver.got[0]
    assert (headers["X-One"], headers["path"], body) == ("1", "/hook?token=1", b"{}")


def test_what_a_server_says_that_nobody_listed_is_not_told(
    receiver: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "listed", lambda host, port, own_server=None: False)
    monkeypatch.setattr(guard, "public", lambda address: True)
    monkeypatch.setattr(guard, "check_url", lambda url, plain=False, own_server=None: guard.urlsplit(url))
    assert guard.post(receiver.url, b"{}", {}) == (200, "")


def test_an_answer_without_an_end_is_cut_off(receiver: Any, settings: Any) -> None:  # noqa: F811
    settings.INTERNAL_HOSTS = ("localhost",)
    receiver.body = b"x" * 100_000
    assert guard.post(receiver.url, b"{}", {})[1] == "x" * guard.READ


@pytest.fixture
def dripping() -> Iterator[Callable[[bytes, bytes], str]]:
    """A server that sends a beginning, and then the same drop again and again for as long as somebody listens."""
    over = threading.Event()
    servers: list[socket.socket] = []

    def start(begins: bytes, drop: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def serve() -> None:
            with contextlib.suppress(OSError), server.accept()[0] as stream:
                stream.recv(100_000)
                stream.sendall(begins)
                while not over.wait(0.02):
                    stream.sendall(drop)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/"

    yield start
    over.set()
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("begins", "drop"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\n", b"X-More: yes\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
    ],
)
def test_one_deadline_holds_for_the_whole_call(dripping: Any, settings: Any, begins: bytes, drop: bytes) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)
    with guard.client(0.3) as client, pytest.raises(httpx.TimeoutException):
        client.get(dripping(begins, drop))


def test_a_caller_may_leave_less_time(dripping: Any, settings: Any) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)
    with guard.client(3600) as client, pytest.raises(httpx.TimeoutException):
        client.get(dripping(b"", b""), extensions={"until": guard.time.monotonic() + 0.1})


def test_a_name_that_is_never_resolved_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_given, **_more: over.wait(60) and [])
    with guard.client(0.1) as client, pytest.raises(httpx.ConnectTimeout):
        client.get("https://example.com/")
    over.set()
