"""Pools without a model: descriptions answer from the first minute, in the API, in batches, in the playground, on the command line
and in searches; decisions are kept and can be replayed."""

import pytest
from django.core.management import call_command

from agents_app import pools
from agents_app.models import Agent, AgentSource, Stamp
from tests.clients import signed_in
from training_app.answering import decisions, replays, serving
from training_app.models import Artifact, Decision

pytestmark = pytest.mark.django_db
DESCRIBED = {
    "Billing": "Charges, invoices, payment methods and refunds",
    "Shipping": "Parcels: tracking, delivery dates and addresses",
    "Technical": "Devices and the app: errors, wifi, updates",
}


@pytest.fixture(autouse=True)
def described(pool) -> None:
    for name, said in DESCRIBED.items():
        Agent.objects.filter(name=name).update(description=said)


@pytest.mark.parametrize(
    ("text", "agents"),
    [
        ("Where is my parcel? The tracking shows nothing", [1]),
        ("Warum wurde mir zweimal Geld abgebucht?", [0]),
        ("good morning", []),
    ],
)
def test_descriptions_answer_where_there_is_no_model(app, text, agents) -> None:
    answer = app.route(text).json()
    assert (answer["agents"], answer["model"]) == (agents, "descriptions")
    assert set(answer["scores"]) == {"0", "1", "2"}
    assert 0 < answer["confidence"] < 1
    assert answer["not_covered"] == []


def test_the_examples_of_an_approved_card_are_read(app, pool) -> None:
    text = "the wheels of my bicycle squeak"
    assert app.route(text).json()["agents"] == []
    shipping = Agent.objects.get(name="Shipping")
    AgentSource.objects.create(
        pool=pool,
        agent=shipping,
        address="card.json",
        examples=["My bicycle squeaks", "A wheel of my bicycle is loose"],
    )
    Stamp.bump()
    assert app.route(text).json()["agents"] == [1]


def test_batches_and_options_work(app) -> None:
    answers = app.batch("where is my parcel", "send me an invoice").json()
    assert answers["model"] == "descriptions"
    assert [one["agents"] for one in answers["results"]] == [[1], [0]]
    assert app.route("where is my parcel", exclude=[1]).json()["agents"] != [1]
    assert "1" not in app.route("where is my parcel", exclude=[1]).json()["scores"]
    assert app.route("where is my parcel", explain=True).json()["explanation"]["rule"] == "bayes"


def test_a_paused_agent_is_not_chosen_and_a_retired_one_is_gone(app) -> None:
    pools.set_available(Agent.objects.get(name="Shipping"), False, actor=None)
    assert 1 not in app.route("where is my parcel").json()["agents"]
    pools.retire(Agent.objects.get(name="Billing"), actor=None)
    assert set(app.route("where is my parcel").json()["scores"]) == {"2"}


def test_a_decision_is_kept_listed_and_replayed(app, ops) -> None:
    answer = app.route("where is my parcel").json()
    decisions.buffer.write()
    kept = Decision.objects.get(pk=answer["decision_id"])
    assert (kept.model, kept.answered_by, kept.agents) == (None, "descriptions", [1])
    assert replays.replay(kept, replays.router_of(kept)).identical
    browser = signed_in(ops)
    assert "descriptions" in browser.get("/p/support/decisions/").content.decode()
    page = browser.get(f"/p/support/decisions/{kept.pk}/")
    assert page.status_code == 200
    assert "By descriptions, without a model" in page.content.decode()
    assert b'"descriptions"' in browser.get("/p/support/decisions/?format=jsonl").getvalue()


def test_a_replay_after_the_agents_changed_says_so(app, pool, ops) -> None:
    answer = app.route("where is my parcel").json()
    decisions.buffer.write()
    pools.add_agent(pool, "Lost parcels", "Where is my parcel? Parcels that were lost", actor=None)
    serving.forget()
    page = signed_in(ops).get(f"/p/support/decisions/{answer['decision_id']}/").content.decode()
    assert "Agents or their descriptions have changed since." in page
    assert "Another version of the program" not in page


def test_the_playground_answers_and_says_that_descriptions_do(ops) -> None:
    browser = signed_in(ops)
    assert "This pool has no model yet" in browser.get("/p/support/playground/").content.decode()
    page = browser.post("/p/support/playground/", {"query": "where is my parcel"}).content.decode()
    assert "&quot;descriptions&quot;" in page


def test_the_command_line_answers(capsys) -> None:
    call_command("route", "where is my parcel")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Shipping"
    assert lines[1].startswith("descriptions, confidence ")


def test_a_broken_model_is_not_hidden(app, model) -> None:
    Artifact.objects.update(content=b"broken")
    answer = app.route("where is my parcel")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_model")


def test_a_model_answers_once_it_is_promoted(app, model) -> None:
    assert app.route("billing").json()["model"] == "support-1"


def test_a_pool_without_agents_says_so(app) -> None:
    Agent.objects.update(state=Agent.State.RETIRED)
    serving.forget()
    answer = app.route("where is my parcel")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_model")
