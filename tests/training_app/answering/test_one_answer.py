"""One way to an answer: API, playground and command give the same one, with canary and cold agents; only the API keeps it."""

import json
import re
from html import unescape

import pytest
from django.core.management import call_command

from agents_app import pools
from tests.clients import signed_in
from tests.training_app.answering.test_finishing import ASKS_LEGAL, LEGAL
from training_app.answering import answer, decisions, serving, shadowing
from training_app.answering.answered import answer_as_json
from training_app.rollout import trials

pytestmark = pytest.mark.django_db
TEXTS = [f"billing {number}, and {ASKS_LEGAL}" for number in range(8)]


def in_the_playground(ops, text: str) -> dict:
    browser = signed_in(ops)
    page = browser.post("/p/support/playground/", {"query": text}).content.decode()
    shown = re.findall(r'<pre class="rw-log" tabindex="0">(\{.*?\})</pre>', page, re.DOTALL)
    return json.loads(unescape(shown[-1]))


def on_the_command_line(capsys, text: str) -> list[str]:
    call_command("route", text)
    return capsys.readouterr().out.splitlines()


def test_api_playground_and_command_answer_alike(app, ops, model, live, canary, capsys) -> None:
    pools.add_agent(model.pool, "Legal", **LEGAL)
    settings = live(cold=True)
    settings.salt = "both sides"  # by which some of these texts meet the canary and some do not; else the lot decides
    settings.save()
    canary(0.5)
    met = set()
    for text in TEXTS:
        given = app.route(text).json()
        met.add(given["model"])
        assert given["agent_names"] == ["Billing", "Legal"]
        assert in_the_playground(ops, text) == given | {"decision_id": None}
        lines = on_the_command_line(capsys, text)
        assert lines[0] == "Billing, Legal"
        assert lines[1].startswith(f"{given['model']}{' (canary)' if given.get('canary') else ''}, confidence 0.91")
        assert "  *     Legal" in "\n".join(lines)
    assert met == {"support-1", "support-2"}


def test_the_command_keeps_a_sticky_key_on_its_side(app, model, canary, capsys) -> None:
    canary(0.5)
    for key in ("ana", "ben", "cora", "dora"):
        call_command("route", "billing", "--sticky-key", key)
        named = capsys.readouterr().out.splitlines()[1].split(",")[0].split()[0]
        assert named == app.route("billing", sticky_key=key).json()["model"]


@pytest.mark.at_length
def test_whoever_only_looks_leaves_no_trace(app, ops, model, live, candidate, capsys) -> None:
    live(exploration=0.1)
    trials.start_shadow(candidate, actor=None)
    serving.forget()
    for _ in range(30):
        assert "explored" not in in_the_playground(ops, "billing")
        assert on_the_command_line(capsys, "billing")[0] == "Billing"
    assert (shadowing.waiting(), len(decisions.buffer)) == (0, 0)
    app.route("billing")
    assert (shadowing.waiting(), len(decisions.buffer)) == (1, 1)


def test_many_are_answered_as_each_alone(app, model, live, canary) -> None:
    pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True)
    canary(0.5)
    pool = serving.current("support")
    alone = [answer_as_json(answer.answer(pool, text), kept=False) for text in TEXTS]
    assert [answer_as_json(one, kept=False) for one in answer.answers(pool, TEXTS)] == alone
