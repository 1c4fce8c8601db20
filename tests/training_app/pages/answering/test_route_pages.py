"""The playground, the list of decisions, one decision: for ops, with and without a model, and what the browser sends wrong."""

import json
import uuid
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from agents_app import pools
from agents_app.models import Agent
from tests import page_cost
from tests.clients import signed_in
from tests.training_app.served import artifact, promoted
from training_app.answering import decisions, serving
from training_app.models import Artifact, Decision
from training_app.rollout import outcomes
from training_app.versions import registry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process"), pytest.mark.commits_for_others]

PLAYGROUND, DECISIONS = "/p/support/playground/", "/p/support/decisions/"
UNKNOWN = uuid.UUID(int=7)


def person(role: str) -> Client:
    user = User.objects.create_user(role, f"{role}@example.com", "secret", is_staff=True)
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    return signed_in(user)


@pytest.fixture
def ops(pool) -> Client:
    return person("ops")


@pytest.fixture
def kept(app, model) -> list[Decision]:
    """Three decisions, newest first."""
    for text in ("hello", "perhaps billing", "billing and shipping <b>now</b>"):
        assert app.route(text).status_code == 200
    decisions.buffer.write()
    for minutes, text in enumerate(("billing and shipping <b>now</b>", "perhaps billing", "hello")):
        Decision.objects.filter(text=text).update(at=timezone.now() - timedelta(minutes=minutes))
    return list(Decision.objects.all())


@pytest.mark.parametrize("path", [PLAYGROUND, DECISIONS, DECISIONS + str(UNKNOWN) + "/"])
def test_only_ops_and_admins_enter(client, model, path):
    assert client.get(path).status_code == 302
    assert person("labeler").get(path).status_code == 403
    assert person("reviewer").get(path).status_code == 403
    assert person("admin").get(path).status_code == (404 if str(UNKNOWN) in path else 200)


def test_an_unknown_pool(ops):
    assert ops.get("/p/nowhere/playground/").status_code == 404
    assert ops.get("/p/nowhere/decisions/").status_code == 404


# --- Playground ---------------------------------------------------------------------------------------------------


def test_playground_without_a_model_says_that_descriptions_answer(ops):
    page = ops.get(PLAYGROUND).content.decode()
    assert "This pool has no model yet." in page
    assert 'name="query"' in page


def test_playground_routes_and_explains(ops, model):
    new = pools.add_agent(model.pool, "Legal")
    page = ops.post(PLAYGROUND, {"query": "billing and shipping"}).content.decode()
    assert page.count('class="rw-heat-for rw-heat-chosen"') == 3, "two agents, then STOP"
    assert page.count("rw-heat-masked") == 1 + 2 + 1, "what was taken stands hatched in later rows; one is the legend's"
    assert "charged" in page
    assert "+1.25" in page
    assert new.name in page
    assert "Authorization: Bearer $ROUTERWEB_KEY" in page
    assert "&quot;agent_names&quot;" in page


def test_playground_keeps_nothing(ops, model):
    ops.post(PLAYGROUND, {"query": "billing"})
    assert len(decisions.buffer) == 0


def test_playground_fragment(ops, model):
    page = ops.post(PLAYGROUND, {"query": "billing"}, headers={"HX-Request": "true"}).content.decode()
    assert "Billing" in page
    assert "<html" not in page


def test_playground_says_none(ops, model):
    page = ops.post(PLAYGROUND, {"query": "hello"}).content.decode()
    assert 'name="none" value="1" aria-pressed="true">None of these agents' in page


@pytest.mark.parametrize(("query", "words"), [("  ", "query is blank"), ("x" * 20_001, "at most 20,000")])
def test_playground_says_what_is_wrong(ops, model, query, words):
    page = ops.post(PLAYGROUND, {"query": query})
    assert page.status_code == 200
    assert words in page.content.decode()


def test_playground_curl_survives_quotes(ops, model):
    page = ops.post(PLAYGROUND, {"query": 'it\'s <billing> "now"'})
    assert page.context["curl"].endswith("""-d '{"query": "it'"'"'s <billing> \\"now\\"", "pool": "support"}'""")
    assert "<billing>" not in page.content.decode()


# --- Decisions ----------------------------------------------------------------------------------------------------


def test_decisions_when_there_are_none(ops):
    assert "No decisions yet" in ops.get(DECISIONS).content.decode()


def test_decisions_newest_first_in_few_queries(ops, kept, django_assert_max_num_queries):
    ops.get(DECISIONS)
    with django_assert_max_num_queries(page_cost.queries(13)):
        page = ops.get(DECISIONS)
    assert [row.text for row, _ended, _agents in page.context["rows"]] == [row.text for row in kept]
    assert [[agent.name for agent in agents] for _row, _ended, agents in page.context["rows"]] == [
        ["Billing", "Shipping"], ["Billing"], [],
    ]  # fmt: skip
    assert "<b>now</b>" not in page.content.decode()


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("q=SHIPPING", ["billing and shipping <b>now</b>"]),
        ("agent=1", ["billing and shipping <b>now</b>"]),
        ("agent=0&reason=abstained", ["perhaps billing"]),
        ("reason=none", ["hello"]),
        ("model=1&q=hello", ["hello"]),
        ("model=2", []),
        ("agent=9", []),
        ("q=%00", []),
        ("agent=x&model=-1&reason=why&page=99", ["billing and shipping <b>now</b>", "perhaps billing", "hello"]),
    ],
)
def test_decisions_are_filtered(ops, kept, query, texts):
    page = ops.get(f"{DECISIONS}?{query}")
    assert [row.text for row, _ended, _agents in page.context["rows"]] == texts
    lines = b"".join(ops.get(f"{DECISIONS}?{query}&format=jsonl").streaming_content).splitlines()
    assert [json.loads(line)["text"] for line in reversed(lines)] == texts


def test_a_decision_is_found_by_its_id(ops, kept):
    page = ops.get(DECISIONS, {"q": f" {str(kept[1].pk).upper()} "})
    assert [row.pk for row, _ended, _agents in page.context["rows"]] == [kept[1].pk]
    assert ops.get(DECISIONS, {"q": str(UNKNOWN)}).context["rows"] == []


@pytest.mark.parametrize("text", ["", "\u200b"])
def test_a_decision_whose_text_cannot_be_seen_is_named_by_its_id(ops, kept, text):
    Decision.objects.filter(pk=kept[0].pk).update(text=text)
    assert f">{kept[0].pk}</a>" in ops.get(DECISIONS).content.decode()


def test_a_decision_shows_all_that_was_reported(ops, kept, model):
    report = outcomes.Report(kept[0].pk, False, agents_used=[2], rating=4, comment="billing <b>only</b>")
    outcomes.record(model.pool, None, report)
    page = ops.get(f"{DECISIONS}{kept[0].pk}/").content.decode()
    note = page[page.index("reported a failure") :].split("</p>")[0]
    assert "Rating: 4." in note
    assert "billing &lt;b&gt;only&lt;/b&gt;" in note
    assert Agent.objects.get(number=2).name in note
    outcomes.record(model.pool, None, outcomes.Report(kept[0].pk, True, agents_used=[]))
    page = ops.get(f"{DECISIONS}{kept[0].pk}/").content.decode()
    note = page[page.index("reported a success") :].split("</p>")[0]
    assert "none of the agents" in note
    assert "Rating" not in note


def test_decisions_of_another_pool_stay_there(ops, kept):
    pools.create_pool("Sales", "sales")
    assert ops.get("/p/sales/decisions/").context["rows"] == []
    assert ops.get(f"/p/sales/decisions/{kept[0].pk}/").status_code == 404


def test_a_decision_is_replayed(ops, kept):
    page = ops.get(f"{DECISIONS}{kept[0].pk}/").content.decode()
    assert "the identical answer" in page
    assert "&lt;b&gt;now&lt;/b&gt;" in page
    assert page.count('class="rw-heat-for rw-heat-chosen"') == 3


def test_a_decision_is_replayed_on_its_own_model_and_agents(ops, kept, model):
    pools.retire(Agent.objects.get(name="Shipping"), actor=None)
    promoted(model.pool, (0, "Billing"))
    page = ops.get(f"{DECISIONS}{kept[0].pk}/").content.decode()
    assert "Replayed on support-1: the identical answer" in page


def test_a_decision_made_while_an_agent_was_away_is_replayed_without_it(ops, app, model):
    agent = Agent.objects.get(name="Shipping")
    pools.set_available(agent, False, actor=None)
    app.route("billing and shipping")
    decisions.buffer.write()
    pools.set_available(agent, True, actor=None)
    assert "the identical answer" in ops.get(f"{DECISIONS}{Decision.objects.get().pk}/").content.decode()


def test_a_decision_says_what_its_request_limited(ops, app, model):
    assert app.route("billing and shipping", budget=0.05, max_agents=2, exclude=[1]).status_code == 200
    decisions.buffer.write()
    answer = ops.get(f"{DECISIONS}{Decision.objects.get().pk}/")
    text = " ".join(answer.content.decode().split())
    assert "The request set limits: most agents 2, budget 0.05." in text or "budget 0.05, most agents 2." in text
    assert [agent.id for agent in answer.context["barred"]] == [1]
    Decision.objects.update(detail={"ask": [0, 1]})
    asked = ops.get(f"{DECISIONS}{Decision.objects.get().pk}/")
    assert [agent.number for agent in asked.context["asked"]] == [0, 1]
    assert "The answer came with a question to the user" in asked.content.decode()


def test_a_decision_without_options_says_nothing_of_limits(ops, kept):
    page = ops.get(f"{DECISIONS}{kept[0].pk}/").content.decode()
    assert "The request set limits" not in page
    assert "Could not be chosen" not in page


def test_a_decision_that_comes_out_otherwise_says_so(ops, kept):
    Decision.objects.filter(pk=kept[0].pk).update(agents=[2])
    assert "the answer differs" in ops.get(f"{DECISIONS}{kept[0].pk}/").content.decode()


def test_a_decision_whose_model_is_broken(ops, kept, model):
    promoted(model.pool, (0, "Billing"))
    Artifact.objects.filter(model=model).update(content=b"broken")
    serving.forget()
    page = ops.get(f"{DECISIONS}{kept[0].pk}/")
    assert page.status_code == 200
    assert "It cannot be replayed." in page.content.decode()


@pytest.mark.parametrize("path", [DECISIONS, f"{DECISIONS}{UNKNOWN}/"])
def test_decisions_are_only_read(ops, path):
    assert ops.post(path).status_code == 405


def test_a_link_shows_the_route_of_its_query(ops, model):
    page = ops.get(PLAYGROUND, {"query": "billing, please"}).content.decode()
    assert ">billing, please</textarea>" in page
    assert "decision_id" in page
    assert "decision_id" not in ops.get(PLAYGROUND).content.decode()


# ---------------------------------------------------------------------------------------------------- other models


def test_a_model_is_tried_before_it_answers_and_two_are_compared(ops, pool, model):
    second = registry.register(None, pool, artifact((0, "Billing"), (1, "Shipping")), {})
    shown = ops.get(PLAYGROUND).content.decode()
    assert f'<option value="{second.version}">' in shown
    tried = ops.post(PLAYGROUND, {"query": "billing and technical", "model": second.version}).content.decode()
    assert f'<span class="rw-muted">{second.name}' in tried
    both = ops.post(PLAYGROUND, {"query": "billing and technical", "beside": second.version}).content.decode()
    assert "The other set" in both
    assert "It leaves out:" in both
    same = ops.post(PLAYGROUND, {"query": "billing", "beside": second.version}).content.decode()
    assert "Both choose the same set." in same
    for strange in ("x", "99", "-1"):
        assert ops.post(PLAYGROUND, {"query": "billing", "model": strange, "beside": strange}).status_code == 200


def test_before_the_first_promotion_the_newest_model_is_tried(ops, pool):
    made = registry.register(None, pool, artifact((0, "Billing")), {})
    shown = ops.post(PLAYGROUND, {"query": "billing"}).content.decode()
    assert f'<span class="rw-muted">{made.name}' in shown


def test_a_query_in_the_address_draws_no_messages(ops, model):
    """What was said before in a conversation is no message of the site's, though both are called so."""
    shown = ops.get(PLAYGROUND, {"query": "billing"})
    assert 'class="rw-note rw-note-' not in shown.content.decode()
