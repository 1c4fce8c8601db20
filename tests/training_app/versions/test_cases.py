"""Must-pass cases: made, changed, erased; run against a model; and no way of promotion leads past a broken one."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from agents_app import allowed_sets, pools
from agents_app.accounts import personal
from agents_app.models import AuditEntry, Pool
from agents_app.texts import personal_data
from agents_app.texts.matching import Terms
from datasets_app.labels import erased_queries
from datasets_app.models import Query
from tests.training_app.served import Application, application
from tests.training_app.words import PERFECT, WEAK, card
from training_app.answering import serving
from training_app.engine.routing.allowed import Rules
from training_app.models import LaunchRule, MustPassCase, Promotion, PromotionRequest, RouterModel, RunEvent
from training_app.rollout import trials
from training_app.training import rules, runs
from training_app.versions import cases, gate, registry

Make = Callable[..., RouterModel]
TEXT = "the invoice of my parcel, again"
BILLING, SHIPPING, TECHNICAL = 0, 1, 2


@pytest.fixture(autouse=True)
def forgotten_keys() -> None:
    """What this process knows of keys is of another test's database."""
    serving.forget()


def words_of(agent: int) -> str:
    return next(word for word, number in PERFECT.items() if number == agent)


@pytest.fixture
def active(word_model: Make) -> RouterModel:
    """The model in use; it knows nothing of technical matters."""
    model = word_model(WEAK)
    gate.promote(model, actor=None)
    return model


@pytest.fixture
def better(active: RouterModel, word_model: Make) -> RouterModel:
    """A candidate that passes the gate."""
    model = word_model(PERFECT)
    assert gate.judge(model).passed
    return model


def add(pool: Pool, text: str, required: list[int], reason: str = "the law says so") -> MustPassCase:
    return cases.add(pool, text, required, owner=None, reason=reason)


@pytest.fixture
def broken(active: RouterModel) -> MustPassCase:
    """The model in use holds it, a perfect one breaks it."""
    case = add(active.pool, f"{words_of(TECHNICAL)} and {words_of(BILLING)}", [BILLING])
    assert cases.broken(cases.check(active)) == []
    return case


def names(text: str) -> bool:
    """Whether it names the broken case, what it must be and what the model says."""
    return "must go to Billing; this model says Billing, Technical" in text


# ---------------------------------------------------------------------------------------------- making and running


def test_a_case_holds_where_the_whole_set_is_the_same(active: RouterModel) -> None:
    one, other = words_of(BILLING), words_of(SHIPPING)
    expected = {one: [BILLING], f"{one} {other}": [BILLING, SHIPPING], "good morning": []}
    for text, required in expected.items():
        add(active.pool, text, required)
    assert [found.holds for found in cases.check(active)] == [True, True, True]
    add(active.pool, one, [BILLING, SHIPPING])
    assert [found.holds for found in cases.check(active)] == [False, True, True]
    assert "1 of 3 must-pass cases is broken" in cases.summary(cases.check(active))


def test_a_case_of_the_same_text_is_replaced(active: RouterModel) -> None:
    first, second = add(active.pool, "Good  morning", []), add(active.pool, "good morning", [BILLING], "we greet now")
    assert first.pk == second.pk
    case = MustPassCase.objects.get()
    assert (case.required, case.reason) == ([BILLING], "we greet now")
    actions = AuditEntry.objects.filter(action__startswith="case.").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["case.added", "case.changed"]


@pytest.mark.parametrize(
    ("text", "required", "reason", "field"),
    [
        ("", [BILLING], "why", "text"),
        ("x\0", [BILLING], "why", "text"),
        ("good morning", [17], "why", "required"),
        ("good morning", [BILLING], "  ", "reason"),
    ],
)
def test_what_cannot_be_a_case_is_refused(pool: Pool, text: str, required: list, reason: str, field: str) -> None:
    with pytest.raises(cases.CaseError) as refused:
        add(pool, text, required, reason)
    assert refused.value.field == field
    assert not MustPassCase.objects.exists()


def test_a_pool_has_so_many_cases_at_most(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "MOST_CASES", 1)
    add(pool, "one", [])
    add(pool, "one", [BILLING])  # changes the one that there is
    with pytest.raises(cases.CaseError):
        add(pool, "two", [])


def test_a_merged_agent_stands_for_the_one_that_took_over(active: RouterModel) -> None:
    text = f"{words_of(BILLING)} {words_of(SHIPPING)}"
    add(active.pool, text, [BILLING, SHIPPING])
    agents = {agent.number: agent for agent in active.pool.agents.all()}
    pools.merge(agents[SHIPPING], agents[BILLING], None)
    assert [found.holds for found in cases.check(active)] == [True]


def test_a_case_of_a_retired_agent_says_so(active: RouterModel) -> None:
    add(active.pool, words_of(BILLING), [BILLING])
    pools.retire(active.pool.agents.get(number=BILLING), actor=None)
    (found,) = cases.check(active)
    assert not found.holds
    assert "Billing, which is retired: change the case" in found.sentence()


def test_who_does_not_know_breaks_the_case(fresh_process: None, model: RouterModel) -> None:
    add(model.pool, "perhaps billing", [BILLING])
    (found,) = cases.check(model)
    assert not found.holds
    assert found.sentence().endswith("this model does not know.")


def test_a_case_is_answered_within_the_sets_that_the_pool_allows(active: RouterModel, ops: User) -> None:
    case = add(active.pool, f"{words_of(BILLING)} {words_of(SHIPPING)}", [BILLING, SHIPPING])
    assert [one.holds for one in cases.check(active, [case])] == [True]
    allowed_sets.set_rules(active.pool, Rules(excludes=((BILLING, SHIPPING),)), actor=ops)
    (checked,) = cases.check(active, [case])
    assert not checked.holds
    assert len(checked.answered) == 1


def test_an_artifact_is_read_once(active: RouterModel, monkeypatch: pytest.MonkeyPatch) -> None:
    add(active.pool, words_of(BILLING), [BILLING])
    cases.check(active)
    monkeypatch.setattr(registry, "load_model", lambda _model: pytest.fail("it was loaded again"))
    assert [found.holds for found in cases.check(active)] == [True]


# ------------------------------------------------------------------------------------------- every way of promotion


def test_the_page_refuses_and_names_it(better: RouterModel, broken: MustPassCase, browser: Client) -> None:
    address = reverse("model_promote", args=["support", better.version])
    shown = browser.post(address, follow=True).content.decode()
    assert names(shown.replace("&quot;", '"'))
    assert registry.active(better.pool) != better
    browser.post(address, {"override": "the case is wrong"})
    assert registry.active(better.pool) == better
    assert AuditEntry.objects.filter(action="gate.overridden").get().detail["reason"] == "the case is wrong"


def test_the_command_refuses_and_names_it(better: RouterModel, broken: MustPassCase) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("promote", better.name)
    assert names(str(refused.value))


def test_the_api_refuses_and_names_it(better: RouterModel, broken: MustPassCase) -> None:
    app = application(better.pool, scopes=("ops",))
    answer = app.post(f"/api/models/{better.name}/promote/", {})
    assert answer.status_code == 409
    (finding,) = [one for one in answer.json()["error"]["findings"] if one["passed"] is False]
    assert finding["check"] == "cases"
    assert names(finding["text"])


def test_the_first_model_is_refused_too(word_model: Make) -> None:
    model = word_model(PERFECT)
    add(model.pool, words_of(BILLING), [])
    with pytest.raises(gate.GateRefused):
        gate.promote(model, actor=None)


def test_a_rule_does_not_promote_it(active: RouterModel, broken: MustPassCase) -> None:
    rule = LaunchRule.objects.create(pool=active.pool, name="nightly", promote=True)
    run = rules.fire(rule, "it is night", rule.created_at)
    assert run
    attempt = runs.claim(run.pk)
    assert attempt
    runs.finish(run.pk, attempt, json.dumps(PERFECT).encode(), card())
    assert registry.active(active.pool) == active
    assert names(RunEvent.objects.filter(run=run).order_by("-pk").first().message)


def test_a_canary_does_not_begin(better: RouterModel, broken: MustPassCase) -> None:
    with pytest.raises(gate.GateRefused) as refused:
        trials.start_canary(better, 0.1, actor=None)
    assert names(str(refused.value))


def test_a_canary_that_ends_well_is_not_promoted(better: RouterModel, active: RouterModel, browser: Client) -> None:
    trials.start_canary(better, 0.1, actor=None)
    add(active.pool, f"{words_of(TECHNICAL)} and {words_of(BILLING)}", [BILLING])
    shown = browser.post(reverse("model_promote", args=["support", better.version]), follow=True).content.decode()
    assert names(shown)
    assert trials.canary_of(active.pool) is not None


def test_an_approval_looks_at_the_cases_of_now(better: RouterModel, ops: User, person: Callable[..., User]) -> None:
    Pool.objects.update(four_eyes=True)
    asked = gate.promote(better, actor=ops)
    assert isinstance(asked, PromotionRequest)
    add(better.pool, words_of(TECHNICAL), [])
    with pytest.raises(gate.GateRefused):
        trials.approve(asked, actor=person("admin"))


@pytest.fixture
def rolled_forward(better: RouterModel, active: RouterModel) -> MustPassCase:
    """The better model answers, and the one before breaks a case that was made since."""
    gate.promote(better, actor=None)
    return add(active.pool, words_of(TECHNICAL), [TECHNICAL])


BROKEN_BEFORE = "must go to Technical; this model says no agent"


def test_going_back_by_page_takes_a_reason(rolled_forward: MustPassCase, active: RouterModel, browser: Client) -> None:
    assert BROKEN_BEFORE in browser.get(reverse("models", args=["support"])).content.decode()
    address = reverse("model_rollback", args=["support"])
    assert BROKEN_BEFORE in browser.post(address, follow=True).content.decode()
    assert registry.active(active.pool) != active
    browser.post(address, {"override": "the new one is down"})
    assert registry.active(active.pool) == active
    assert Promotion.objects.filter(kind="rollback").get().reason == "the new one is down"


def test_going_back_by_command_takes_a_reason(rolled_forward: MustPassCase, active: RouterModel) -> None:
    with pytest.raises(CommandError, match=BROKEN_BEFORE):
        call_command("rollback", pool="support")
    call_command("rollback", pool="support", override="it is down", stdout=StringIO())
    assert registry.active(active.pool) == active


def test_going_back_by_api_takes_a_reason(rolled_forward: MustPassCase, active: RouterModel) -> None:
    app = application(active.pool, scopes=("ops",))
    answer = app.post("/api/rollback/", {})
    assert answer.json()["error"]["code"] == "gate_refused"
    assert BROKEN_BEFORE in answer.json()["error"]["message"]
    assert app.post("/api/rollback/", {"override": "it is down"}).json()["kind"] == "rollback"


# --------------------------------------------------------------------------------------------------- pages, API, CI


def test_a_case_is_made_from_a_query(active: RouterModel, browser: Client) -> None:
    query = Query.objects.filter(text__contains=words_of(TECHNICAL)).first()
    assert query
    address = reverse("case_new", args=["support"])
    assert f"{address}?query={query.pk}" in browser.get(reverse("query", args=["support", query.pk])).content.decode()
    assert query.text in browser.get(address, {"query": query.pk}).content.decode()
    told = browser.post(address, {"query": query.pk, "agent": "2", "reason": "sworn to"}, follow=True)
    case = MustPassCase.objects.get()
    assert (case.text, case.required, case.source, case.owner_name) == (query.text, [2], "query", "ops-person")
    shown = told.content.decode()
    assert "The model in use breaks it now." in shown
    assert reverse("case_remove", args=["support", case.pk]) in shown  # undo
    browser.post(reverse("case_remove", args=["support", case.pk]))
    assert not MustPassCase.objects.exists()


def test_neither_agents_nor_none_is_asked_again(active: RouterModel, browser: Client) -> None:
    sent = {"text": "good morning", "reason": "we greet"}
    for more in ({}, {"agent": "0", "none": "1"}):
        answer = browser.post(reverse("case_new", args=["support"]), sent | more)
        assert answer.status_code == 422
        assert "we greet" in answer.content.decode()
    assert not MustPassCase.objects.exists()


def test_the_list_checks_the_model_that_is_asked_for(
    better: RouterModel, broken: MustPassCase, browser: Client
) -> None:
    address = reverse("cases", args=["support"])
    assert "All of them hold" in browser.get(address).content.decode()
    shown = browser.get(address, {"model": better.version}).content.decode()
    assert "1 of 1 is broken" in shown
    assert broken.reason in shown
    assert browser.get(address, {"model": 99}).status_code == 404


def test_the_api_makes_lists_checks_and_removes(better: RouterModel) -> None:
    app: Application = application(better.pool, scopes=("ops",))
    sent = {"query": words_of(TECHNICAL), "agents": [], "reason": "nobody handles it"}
    made = app.post("/api/cases/", sent)
    assert made.status_code == 201
    assert app.get("/api/cases/").json()["cases"] == [made.json()]
    found = app.get(f"/api/models/{better.name}/cases/").json()
    assert (found["cases"], found["broken"]) == (1, 1)
    assert found["results"][0]["answered"] == [TECHNICAL]
    assert app.post("/api/cases/", sent | {"agents": [99]}).json()["error"]["field"] == "agents"
    assert app.post("/api/cases/", sent | {"reason": ""}).json()["error"]["field"] == "reason"
    assert app.post(f"/api/cases/{made.json()['id']}/delete/", {}).status_code == 200
    assert app.post(f"/api/cases/{made.json()['id']}/delete/", {}).status_code == 404
    assert app.get(f"/api/models/{better.name}/cases/").json()["broken"] == 0


def test_the_command_names_what_is_broken(better: RouterModel, broken: MustPassCase) -> None:
    out = StringIO()
    call_command("cases", pool="support", stdout=out)
    assert "holds all 1" in out.getvalue()
    with pytest.raises(CommandError, match="breaks 1 of 1"):
        call_command("cases", pool="support", model=better.name, stdout=out)
    assert names(out.getvalue())
    assert broken.reason in out.getvalue()


def evaluated(*words: str) -> tuple[str, int]:
    """What `evaluate` says in the end, and its exit code."""
    try:
        call_command("evaluate", "--pool", "support", *words, stdout=StringIO(), stderr=StringIO())
    except CommandError as error:
        return str(error), error.returncode
    return "", 0


def test_evaluate_ends_with_what_ci_needs(better: RouterModel, broken: MustPassCase, tmp_path: Path) -> None:
    report = tmp_path / "routing.xml"
    said, code = evaluated("--model", better.name, "--cases", "--junit", str(report))
    assert code == 1
    assert names(said)
    suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert broken.reason in suite.find("testcase/failure").get("message")
    broken.delete()
    assert evaluated("--model", better.name, "--cases", "--junit", str(report)) == ("", 0)


@pytest.mark.parametrize(("words", "code"), [(PERFECT, 0), (WEAK, 1)])
def test_evaluate_fails_under_a_share(word_model: Make, tmp_path: Path, words: Any, code: int) -> None:
    model = word_model(words)
    rows = [{"text": f"{word} {n}", "required_agents": [agent]} for word, agent in PERFECT.items() for n in range(30)]
    file = tmp_path / "queries.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said, ended = evaluated("--model", model.name, "--input", str(file), "--fail-under", "0.9")
    assert ended == code
    assert bool(code) == ("less than 0.9" in said)


def test_evaluate_says_where_too_few_can_tell(better: RouterModel) -> None:
    said, code = evaluated("--model", better.name, "--fail-under", "0.9")
    assert code == 1
    assert "cannot tell" in said


@pytest.mark.parametrize(("required", "code"), [([TECHNICAL], 0), ([], 1)])
def test_the_documented_step_reads_the_answer(better: RouterModel, tmp_path: Path, required: list, code: int) -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text("utf-8")
    (step,) = yaml.safe_load(re.findall(r"^```yaml\n(- name: Must-pass.*?)^```", page, re.MULTILINE | re.DOTALL)[0])
    add(better.pool, words_of(TECHNICAL), required)
    answer = application(better.pool, scopes=("ops",)).get(f"/api/models/{better.name}/cases/")
    (tmp_path / "cases.json").write_bytes(answer.content)
    last = shlex.split(step["run"].strip().splitlines()[-1])
    ended = subprocess.run([sys.executable, *last[1:]], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == code
    assert answer.json()["summary"] in ended.stdout


# ------------------------------------------------------------------------------------------- erased, found, exported


def test_a_case_goes_with_its_text(active: RouterModel, ops: User) -> None:
    query = Query.objects.first()
    assert query
    add(active.pool, query.text, [BILLING])
    add(active.pool, "good morning", [])
    erased_queries.erase(query, ops)
    assert [case.text for case in MustPassCase.objects.all()] == ["good morning"]
    assert AuditEntry.objects.filter(action="case.erased").count() == 1


def test_somebodys_case_is_found_and_removed(pool: Pool, ops: User) -> None:
    case = add(pool, "this is mia.meyer@example.com, call me", [BILLING])
    mia = Terms(["mia.meyer@example.com"])
    assert [place.keys for place in personal_data.find(mia) if place.model is MustPassCase] == [(case.pk,)]
    assert personal_data.erase(mia, ops) == []
    assert not MustPassCase.objects.exists()


def test_a_member_who_is_erased_is_nobodys_owner(pool: Pool, ops: User) -> None:
    case = cases.add(pool, "good morning", [], owner=ops, reason="we greet")
    personal.erase(ops, actor=None)
    case.refresh_from_db()
    assert "ops-person" not in case.owner_name
