"""A public demo: strangers look and try, change nothing else, and each hour all is as it was."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import MiddlewareNotUsed
from django.test import Client

from agents_app import pools, public_demo
from agents_app.models import Agent, Pool
from datasets_app.models import Label, Query
from datasets_app.queries import adding


@pytest.fixture
def demo(db: None, settings) -> Pool:
    settings.DEMO = True
    pool = pools.create_pool("Support", "support", actor=None)
    for name in ("Billing", "Shipping"):
        pools.add_agent(pool, name)
    adding.send(pool, [adding.NewQuery("where is my parcel", {})], actor=None)
    public_demo.make_visitor()
    return pool


@pytest.mark.parametrize(
    "address", ["", "label/", "queries/", "agents/", "runs/", "models/", "playground/", "settings/keys/"]
)
def test_strangers_open_every_page(demo: Pool, address: str) -> None:
    answer = Client().get(f"/p/support/{address}")
    assert answer.status_code == 200
    assert "This is a public demo" in answer.content.decode()
    assert "/admin/agents_app/" not in answer.content.decode(), "no link leads to what is closed"


def test_strangers_label(demo: Pool) -> None:
    client = Client()
    assert "where is my parcel" in client.post("/p/support/label/", follow=True).content.decode()
    skipped = client.post(f"/p/support/label/{Query.objects.get().pk}/skip/")
    assert skipped.status_code == 400, "it reaches the queue, which misses the body"
    assert client.post("/p/support/label/release/1/").status_code == 403


@pytest.mark.parametrize(
    "address",
    ["/p/support/import/", "/p/support/agents/add/", "/p/support/settings/keys/", "/p/support/runs/new/", "/pools/new/", "/logout/",
     "/account/", "/people/"],
)  # fmt: skip
def test_strangers_change_nothing(demo: Pool, address: str) -> None:
    before = (
        Agent.objects.count(),
        Query.objects.count(),
        Label.objects.count(),
        Pool.objects.count(),
        User.objects.count(),
    )
    answer = Client().post(address, {"name": "Spam", "pasted": "spam", "dataset": "Spam"})
    assert answer.status_code == 403
    assert "public demo" in answer.content.decode()
    assert before == (
        Agent.objects.count(), Query.objects.count(), Label.objects.count(), Pool.objects.count(), User.objects.count()
    )  # fmt: skip


def test_people_and_their_data_stay_closed(demo: Pool) -> None:
    for address in ("/people/", "/account/", "/settings/llm/", "/audit/", "/admin/", "/admin/agents_app/pool/"):
        assert Client().get(address).status_code == 403, address
    assert Client().get("/admin/search/", {"s": "queries"}, headers={"HX-Request": "true"}).status_code == 200


def test_whoever_keeps_it_signs_in(demo: Pool) -> None:
    User.objects.create_superuser("ada@example.com", "ada@example.com", "a-long-password-1")
    client = Client()
    assert client.get("/login/").status_code == 200
    client.force_login(User.objects.get(username="ada@example.com"))
    client.post("/pools/new/", {"name": "Mine"})
    assert Pool.objects.filter(name="Mine").exists()


def test_without_the_setting_strangers_sign_in(db: None, settings) -> None:
    settings.DEMO = False
    with pytest.raises(MiddlewareNotUsed):
        public_demo.PublicDemo(lambda request: None)  # type: ignore[arg-type, return-value]
    assert public_demo.key() == ""
    assert Client().get("/").status_code == 302


@pytest.mark.at_length
def test_it_is_set_back_while_others_read_and_write(tmp_path: Path, settings) -> None:
    live = tmp_path / "live.sqlite3"
    settings.DATA_DIR, settings.DATABASES = tmp_path, {"default": {"NAME": str(live)}}
    with closing(sqlite3.connect(live, isolation_level=None, timeout=60)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE said (text)")
        database.execute("INSERT INTO said VALUES ('as it was')")
        public_demo.keep_copy()
        database.execute("INSERT INTO said VALUES ('by a visitor')")
        ended = threading.Event()

        def write() -> None:
            with closing(sqlite3.connect(live, isolation_level=None, timeout=60)) as other:
                while not ended.is_set():
                    other.execute("INSERT INTO said VALUES ('by a visitor')")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            public_demo.set_back()
        finally:
            ended.set()
            writer.join()
        public_demo.set_back()
        assert database.execute("SELECT text FROM said").fetchall() == [("as it was",)]
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
