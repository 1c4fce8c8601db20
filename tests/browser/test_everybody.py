"""Every page that has a name, with something on it: no serious or critical finding of axe-core, in light at a desk; where everything
is tested, in light and dark on a phone too, and nothing wider than the window. `make test` looks at every third."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import NoReverseMatch, URLPattern, get_resolver, reverse

from agents_app import keys
from agents_app.models import Agent, Pool
from datasets_app.labels import labels, snapshots
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash
from tests.browser.axe import findings, on_a_phone
from tests.browser.test_review import worked  # noqa: F401
from tests.clients import signed_in
from tests.thorough import EVERYTHING
from tests.training_app import trained
from training_app.answering import decisions
from training_app.engine.routing.router import Router
from training_app.models import Run
from training_app.versions import registry

#: Seen elsewhere, or nothing to see: what signs out, and what leads away.
#: `api_docs` is drawn by a package, in its own colours; tests/browser/test_api_docs.py walks it.
ELSEWHERE = {"account_logout", "api_docs", "openid_connect_login", "openid_connect_callback"}


@pytest.fixture
def trained_pool(transactional_db: None) -> Pool:
    """A pool "support" whose model is really trained, with its run, snapshot, scorecard and a decision."""
    pool = Pool.objects.create(slug="support", name="Support", next_agent_number=3)
    for agent in trained.AGENTS:
        Agent.objects.create(pool=pool, number=agent.id, code=agent.code, key=agent.name.lower(), name=agent.name)
    dataset = Dataset.objects.create(pool=pool, name="Tickets")
    for example in trained.examples()[:8]:
        group = SplitGroup.objects.create(pool=pool, key=group_hash(example.text))
        query = Query.objects.create(dataset=dataset, text=example.text, text_hash=text_hash(example.text), group=group)
        labels.record(labels.NewLabel(query.pk, source="import", required=example.required, asked=range(3)))
    result = trained.result()
    run = Run.objects.create(
        pool=pool, snapshot=snapshots.take(pool), config={}, status=Run.Status.DONE, total=400, step=400
    )
    model = registry.register(run, pool, result.artifact, result.scorecard)
    registry.promote(model, actor=None)
    route = Router.load(result.artifact).route("refund the invoice")
    number = decisions.new_id(1_700_000_000.0)
    decisions.insert(
        [decisions.Pending(number, pool.pk, model.pk, None, "refund the invoice", route, dict(route.scores), 90, 1_700_000_000.0)]
    )  # fmt: skip
    pool.decision = uuid.UUID(int=number)
    return pool


def named() -> Iterator[tuple[str, list[str], bool]]:
    """Every address of the product that has a name, with its parts, and whether it is about training and answering."""
    for entry in get_resolver().url_patterns:
        if getattr(entry, "app_name", None) == "admin":
            continue
        for pattern in [entry] if isinstance(entry, URLPattern) else entry.url_patterns:
            for one in [pattern] if isinstance(pattern, URLPattern) else pattern.url_patterns:
                if one.name and one.name not in ELSEWHERE:
                    yield (
                        one.name,
                        list(one.pattern.converters),
                        one.callback.__module__.startswith(("training_app", "orchestration_app")),
                    )


def pages(user: User, fills: dict[str, dict[str, Any]]) -> list[str]:
    """The addresses of whole pages among them, each in the pool that has what it shows."""
    client = signed_in(user)
    found = []
    addresses = list(named())
    assert len(addresses) > 60
    for name, parts, answers in addresses if EVERYTHING else addresses[::3]:
        for fill in sorted(fills.values(), key=lambda fill: (fill["slug"] == "support") != answers):
            if any(part not in fill for part in parts):
                continue
            try:
                path = reverse(name, kwargs={part: fill[part] for part in parts})
            except NoReverseMatch:
                continue
            answer = client.get(path)
            if answer.status_code == 200 and b"<html" in getattr(answer, "content", b""):
                found.append(path)
                break
    return found


@pytest.fixture
def everything(worked: Pool, trained_pool: Pool, person) -> tuple[User, list[str]]:  # noqa: F811
    """An admin, and every page."""
    admin = person("adam", "admin")
    key, _secret = keys.create_key("Shop", [worked, trained_pool], ["route"])
    common = {"key_id": key.pk, "user_id": person("zoe").pk}
    fills: dict[str, dict[str, Any]] = {
        "support": {
            "slug": "support", "number": 1, "version": 1, "run_id": trained_pool.runs.get().pk,
            "decision_id": trained_pool.decision, **common,
        },
        "big": {
            "slug": "big", "number": 3, "query_id": Query.objects.filter(dataset__pool=worked).first().pk,
            "job_id": worked.prelabel_jobs.get().pk, **common,
        },
    }  # fmt: skip
    return admin, pages(admin, fills)


@pytest.mark.any_database
@pytest.mark.at_length
def test_every_page_with_a_name_can_be_used_by_everybody(sign_in, everything):
    admin, paths = everything
    assert len(paths) > (40 if EVERYTHING else 8)
    page = sign_in(admin).new_page()
    wrong: dict[str, list[str]] = {}
    for path in paths:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(path)
        found = findings(page) + (on_a_phone(page) if EVERYTHING else [])
        if found:
            wrong[path] = found
    assert wrong == {}
