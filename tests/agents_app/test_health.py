"""Health checks: what an answer means, when an agent is paused and comes back, and which addresses are never asked."""

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agents_app import health, pools
from agents_app.models import Agent, AuditEntry, HealthCheck, Pool, Stamp
from agents_app.pools import PoolError

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def agents_live_here(settings) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1", "agent.example.com")


class Served(BaseHTTPRequestHandler):
    """Answers with the status that its path names; /slow waits until the test ends, /drip never ends its headers."""

    asked: list[tuple[str, str]] = []
    over = threading.Event()

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Host"]))
        if self.path == "/slow":
            self.over.wait(30)
            return
        if self.path == "/drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.over.wait(0.05):
                self.wfile.write(b"X-More: yes\r\n")
            return
        status = int(self.path.strip("/"))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "/500")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    Served.asked, Served.over = [], threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Served.over.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def agent(pool: Pool) -> Agent:
    return pool.agents.first()


@pytest.fixture
def look(agent: Agent, address: str) -> Callable[[str], Agent]:
    """One round of the schedule while the agent's address answers with a status."""

    def once(path: str) -> Agent:
        HealthCheck.objects.update(url=address + path)
        health.check_all()
        agent.refresh_from_db()
        return agent

    health.set_url(agent, address + "/200", actor=None)
    return once


@pytest.mark.parametrize(
    ("path", "ok", "said"),
    [("/200", True, "HTTP 200"), ("/204", True, "HTTP 204"), ("/302", True, "HTTP 302"), ("/404", False, "HTTP 404"),
     ("/503", False, "HTTP 503")],
)  # fmt: skip
def test_what_an_answer_means(address: str, path: str, ok: bool, said: str) -> None:
    assert health.probe(address + path) == (ok, said)
    assert Served.asked == [(path, address.removeprefix("http://"))], "no redirect is followed"


def test_no_answer_in_time_is_a_failure(address: str, settings) -> None:
    settings.HEALTH_TIMEOUT = 0.2
    assert health.probe(address + "/slow") == (False, "no answer within 0.2 seconds")


@pytest.mark.at_length
def test_who_never_ends_an_answer_does_not_hold_up_the_others(address: str, settings) -> None:
    settings.HEALTH_TIMEOUT = 5.0  # in which the other one answers on a busy machine too
    assert health.look([address + "/drip", address + "/200"]) == [
        (False, "no answer within 5 seconds"),
        (True, "HTTP 200"),
    ]


def test_nobody_there_is_a_failure() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = health.probe(f"http://127.0.0.1:{port}/")
    assert found == (False, "no connection: Connection refused")


def test_a_name_that_nobody_has_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_arguments: object, **_options: object) -> list:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert health.probe("http://nowhere.example.com/") == (False, "no connection: Name or service not known")


def test_failures_in_a_row_pause_it_and_a_success_brings_it_back(look, settings) -> None:
    settings.HEALTH_FAILURES = 2
    assert look("/503").available
    assert look("/200").available
    assert look("/503").available
    stamp = Stamp.current()
    paused = look("/503")
    assert not paused.available
    assert (paused.unavailable_why, paused.paused_by_check) == ("HTTP 503, 2 times in a row", True)
    assert paused.unavailable_since is not None
    assert Stamp.current() > stamp
    stamp = Stamp.current()
    assert not look("/503").available
    assert Stamp.current() == stamp, "what does not change tells nobody"
    back = look("/200")
    assert (back.available, back.unavailable_why, back.unavailable_since, back.paused_by_check) == (
        True,
        "",
        None,
        False,
    )
    assert list(AuditEntry.objects.filter(actor_name="health check").values_list("action", flat=True)) == [
        "agent.available",
        "agent.unavailable",
    ]


def test_what_a_person_paused_no_check_brings_back(look, agent: Agent) -> None:
    pools.set_available(agent, False, actor=None, why="moving")
    found = look("/200")
    assert (found.available, found.unavailable_why) == (False, "moving")
    assert HealthCheck.objects.get().ok is True


def test_what_a_person_brings_back_gets_all_its_chances_again(look, agent: Agent, settings) -> None:
    settings.HEALTH_FAILURES = 2
    look("/503")
    assert not look("/503").available
    pools.set_available(agent, True, actor=None)
    assert look("/503").available
    assert not look("/503").available


def test_a_check_that_goes_leaves_its_agent_available(look, agent: Agent, settings) -> None:
    settings.HEALTH_FAILURES = 1
    assert not look("/503").available
    health.set_url(agent, "", actor=None)
    agent.refresh_from_db()
    assert agent.available
    assert not HealthCheck.objects.exists()


def test_an_answer_to_an_address_that_was_changed_meanwhile_counts_for_nothing(agent: Agent, settings) -> None:
    settings.HEALTH_FAILURES = 1
    health.set_url(agent, "http://127.0.0.1:1/", actor=None)
    asked = HealthCheck.objects.select_related("agent__pool").get()
    health.set_url(agent, "http://127.0.0.1:2/", actor=None)
    assert health.record(asked, health.Probe(False, "HTTP 503")) is False
    agent.refresh_from_db()
    assert agent.available


def test_a_retired_agent_is_not_asked(look, agent: Agent) -> None:
    pools.retire(agent, actor=None)
    look("/503")
    assert Served.asked == []


@pytest.mark.parametrize(
    "url",
    ["ftp://agent.example.com/", "file:///etc/passwd", "agent.example.com/health", "http://", "http://ann:secret@agent/",
     "http://agent.example.com:port/", "javascript:alert(1)", "http://a b/", "https://x/" + "y" * 500],
)  # fmt: skip
def test_an_address_that_would_not_be_asked_is_refused(agent: Agent, url: str) -> None:
    with pytest.raises(PoolError) as refused:
        health.set_url(agent, url, actor=None)
    assert refused.value.field == "url"
    assert not HealthCheck.objects.exists()


@pytest.mark.parametrize("number", ["169.254.169.254", "10.0.0.1", "127.0.0.1", "::1", "fd00:ec2::254"])
def test_an_address_inside_that_nobody_listed_is_not_asked_and_pauses_nobody(
    look, agent: Agent, settings, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    """Also where only one of a name's addresses leads there."""
    settings.HEALTH_FAILURES = 1
    entries = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in ("1.1.1.1", number)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: entries)
    HealthCheck.objects.update(url="http://harmless.example.com/latest/meta-data")
    health.check_all()
    agent.refresh_from_db()
    assert agent.available
    check = HealthCheck.objects.get()
    assert (check.ok, check.failures) == (None, 0)
    assert "harmless.example.com is not on the internet" in check.said
    with pytest.raises(PoolError, match="INTERNAL_HOSTS"):
        health.set_url(agent, "http://harmless.example.com/", actor=None)


def test_the_address_that_was_looked_at_is_the_one_that_is_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(address.rpartition(":")[2])
    seen = []

    def resolve(host: str, *_arguments: object, **_options: object) -> list:
        if host in seen:  # a second look leads elsewhere, as a name does whose owner means harm
            raise socket.gaierror(-2, "Name or service not known")
        seen.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert health.probe(f"http://agent.example.com:{port}/200").ok
    assert Served.asked == [("/200", f"agent.example.com:{port}")]
    assert "agent.example.com" in seen
