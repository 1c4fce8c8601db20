"""A web process with a real router: it routes, explains and draws its pages without torch, scikit-learn or scipy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents_app import pools
from agents_app.models import Agent, Pool
from tests import migrated
from tests.training_app import trained
from tests.training_app.served import application
from training_app.answering import decisions, replays, serving
from training_app.engine.routing.router import Router
from training_app.models import Decision
from training_app.versions import registry

ROOT = Path(__file__).parents[3]

SCRIPT = """
import json, sys
import django
django.setup()
from django.conf import settings
settings.ALLOWED_HOSTS.append("testserver")
from django.contrib.auth.models import User
from django.test import Client
from agents_app import keys, pools
from training_app.answering import decisions
from training_app.versions import registry
import routerweb.wsgi
pool = pools.create_pool("Support", "support")
for name in ("Billing", "Shipping", "Technical"):
    pools.add_agent(pool, name)
model = registry.register(None, pool, open("model.zip", "rb").read(), json.load(open("scorecard.json")))
registry.promote(model, actor=None)
key, secret = keys.create_key("test", [pool], ["route"])
from training_app.answering import serving
serving.watch_once()
browser = Client()
browser.force_login(User.objects.create_superuser("admin", "admin@example.com", "secret"))
headers = {"Authorization": "Bearer " + secret}
def post(path, body):
    return browser.post(path, json.dumps(body), content_type="application/json", headers=headers)
answer = post("/api/route/", {"query": "refund the invoice and the app crashes", "explain": True})
batch = post("/api/route/batch/", {"queries": ["the parcel is late", "tell me a joke"]})
decisions.buffer.write()
seen = {}
paths = ["agents/", "decisions/", "import/", "label/", "models/", "models/1/", "playground/", "runs/"]
paths.append("decisions/" + answer.json()["decision_id"] + "/")
for path in ("/", "/admin/", *("/p/support/" + path for path in paths)):
    seen[path] = browser.get(path, follow=True).status_code
seen["playground"] = browser.post("/p/support/playground/", {"query": "the parcel is late"}).status_code
heavy = sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "sklearn", "scipy", "transformers"})
print(json.dumps({"answer": answer.json(), "batch": batch.json(), "pages": seen, "heavy": heavy}))
"""


@pytest.mark.at_length
@pytest.mark.process
@pytest.mark.any_database
def test_a_web_process_imports_neither_torch_nor_scikit_learn(tmp_path, migrated_sqlite):
    migrated.copy(migrated_sqlite, tmp_path / "web.sqlite3")
    (tmp_path / "model.zip").write_bytes(trained.result().artifact)
    (tmp_path / "scorecard.json").write_text(json.dumps(trained.result().scorecard))
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": str(tmp_path),
        "PLAIN_HTTP": "1", "DATABASE_URL": f"sqlite:///{tmp_path / 'web.sqlite3'}", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        env=environment, capture_output=True, text=True, timeout=180, cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["heavy"] == []
    assert set(found["answer"]["agents"]) == {0, 2}
    assert [set(answer["agents"]) for answer in found["batch"]["results"]] == [{1}, set()]
    assert {path: status for path, status in found["pages"].items() if status != 200} == {}


LEAN = """
import json, sys
import routerweb.wsgi as wsgi
def call(path):
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_HOST": "127.0.0.1", "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "80"}
    environ |= {"wsgi.input": sys.stdin.buffer, "wsgi.url_scheme": "http"}
    seen = []
    b"".join(wsgi.application(environ, lambda status, headers, *_: seen.append(status[:3])))
    return seen[0]
health = call("/api/health/")
pages = {"routerweb.urls", "unfold.admin", "agents_app.admin", "datasets_app.admin"}
large = {"requests", "psycopg", "cryptography", "rich", "jsonschema"}
lean = sorted((pages | large) & set(sys.modules))
print(json.dumps({"health": health, "lean": lean, "login": call("/login/"), "full": "agents_app.admin" in sys.modules}))
"""


@pytest.mark.at_length
@pytest.mark.process
@pytest.mark.any_database
def test_a_web_process_loads_the_pages_when_the_first_is_asked_for(tmp_path, migrated_sqlite):
    migrated.copy(migrated_sqlite, tmp_path / "web.sqlite3")
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": str(tmp_path),
        "PLAIN_HTTP": "1", "DATABASE_URL": f"sqlite:///{tmp_path / 'web.sqlite3'}", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LEAN],
        env=environment, capture_output=True, text=True, timeout=180, cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {"health": "200", "lean": [], "login": "200", "full": True}


@pytest.mark.django_db
class TestARealRouter:
    """What the API promises, with a router that was trained, not scripted."""

    @pytest.fixture
    def app(self, monkeypatch, db):
        monkeypatch.setattr("training_app.engine.routing.router.Router", Router)
        pool = pools.create_pool("Support", "support")
        pools.load_agents(pool, trained.AGENTS)
        registry.promote(registry.register(None, pool, trained.result().artifact, {}), actor=None)
        return application(pool)

    @pytest.mark.at_length
    def test_one_and_a_batch_agree(self, app):
        texts = ["urgent, refund the invoice and the parcel is late", "tell me a joke", "the app crashes"]
        several = [answer["agents"] for answer in app.batch(*texts).json()["results"]]
        assert [app.route(text).json()["agents"] for text in texts] == several
        assert [set(agents) for agents in several] == [{0, 1}, set(), {2}]

    def test_a_retired_agent_is_masked_and_a_new_one_not_covered(self, app):
        pools.retire(Agent.objects.get(name="Billing"), actor=None)
        new = pools.add_agent(Pool.objects.get(), "Legal")
        answer = app.route("refund the invoice and the parcel is late", explain=True).json()
        assert answer["agents"] == [1]
        assert set(answer["scores"]) == {"1", "2"}
        assert answer["not_covered"] == [new.number]
        assert all(0 in step["masked"] for step in answer["explanation"]["steps"])

    def test_all_agents_retired(self, app):
        for agent in Agent.objects.all():
            pools.retire(agent, actor=None)
        answer = app.route("refund the invoice", explain=True).json()
        assert (answer["agents"], answer["scores"]) == ([], {})
        assert app.batch("refund the invoice").json()["results"][0]["agents"] == []

    @pytest.mark.parametrize("text", ["?", "x" * 20_000, "🙂", "ﷺ", "­", "a" + "́" * 500, "‮"])
    def test_any_text_is_answered(self, app, text):
        response = app.route(text, explain=True)
        assert response.status_code == 200
        json.loads(response.content, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    def test_decisions_replay_to_the_identical_answer(self, app):
        for text in ("refund the invoice and the app crashes", "hello", "the parcel is late"):
            app.route(text)
        decisions.buffer.write()
        assert Decision.objects.count() == 3
        for kept in Decision.objects.select_related("model__pool"):
            assert replays.replay(kept, serving.router_of(kept.model)).identical
