"""Nothing is posted into our own network, by name, by number, by redirect or by a name that changes its mind."""

import socket
from typing import Any

import pytest

from training_app import outbound

pytestmark = pytest.mark.any_database


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1", "::1",
        "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "255.255.255.255",
    ],
)  # fmt: skip
def test_an_address_of_a_network_of_our_own_is_not_public(address: str) -> None:
    assert not outbound.public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert outbound.public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "https://", "https://user:secret@example.com/",
        "https://example.com:0/", "https://exa mple.com/", "https://example.com/\r\nX: y", "example.com", "https://[::1",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(outbound.Refused):
        outbound.check_url(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]"])
def test_this_machine_is_refused_however_it_is_spelled(host: str) -> None:
    with pytest.raises((outbound.Refused, OSError)) as refused:
        outbound.post(f"https://{host}:1/", b"{}", {})
    assert isinstance(refused.value, outbound.Refused) or "Name or service" in str(refused.value)


def test_one_private_address_among_public_ones_is_enough(monkeypatch: Any) -> None:
    found = [(0, 0, 0, "", (address, 443)) for address in ("1.1.1.1", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: found)
    with pytest.raises(outbound.Refused, match=r"10\.0\.0\.1"):
        outbound.addresses("example.com", 443)


def test_the_name_is_resolved_once_and_the_checked_address_is_connected_to(monkeypatch: Any) -> None:
    asked, connected = [], []

    def resolve(*given: Any, **_more: Any) -> list:
        asked.append(given[0])
        return [(0, 0, 0, "", ("1.1.1.1" if len(asked) == 1 else "127.0.0.1", 443))]

    def connect(address: tuple, timeout: float) -> None:
        connected.append(address)
        raise OSError("not today")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(OSError, match="not today"):
        outbound.post("https://example.com/hook", b"{}", {})
    assert asked == ["example.com"]
    assert connected == [("1.1.1.1", 443)]


def test_a_redirect_is_an_answer_and_not_followed(receiver: Any) -> None:
    receiver.status, receiver.headers = 302, {"Location": "http://localhost:1/"}
    assert outbound.post(receiver.url, b"{}", {})[0] == 302
    assert len(receiver.got) == 1


def test_an_internal_host_that_is_listed_is_posted_to_by_http(receiver: Any) -> None:
    assert outbound.post(receiver.url, b"{}", {"X-One": "1"}) == (200, "thank you")
    headers, body = receiver.got[0]
    assert (headers["X-One"], headers["path"], body) == ("1", "/hook?token=1", b"{}")


def test_an_answer_without_an_end_is_cut_off(receiver: Any) -> None:
    receiver.body = b"x" * 100_000
    assert outbound.post(receiver.url, b"{}", {})[1] == "x" * outbound.READ


def test_a_server_that_never_answers_is_hung_up_on(monkeypatch: Any, settings: Any) -> None:
    monkeypatch.setattr(outbound, "SECONDS", 0.2)
    settings.WEBHOOK_INTERNAL_HOSTS = ("127.0.0.1",)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(OSError):  # noqa: PT011
        outbound.post(f"http://127.0.0.1:{silent.getsockname()[1]}/", b"{}", {})
