"""A pool's redaction where texts come in, each by its own way, and its retention."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app import pools, privacy
from agents_app.models import AuditEntry, Pool, Privacy
from agents_app.redaction import BadPattern
from datasets_app.files import imports
from datasets_app.labeling import corrections
from datasets_app.models import Query
from tests import orchestration
from tests.training_app.served import Application
from training_app.answering import decisions
from training_app.models import Decision, Outcome, RouterModel
from training_app.rollout import outcomes

pytestmark = pytest.mark.usefixtures("fresh_process")
TEXT, STORED = "billing for bob@mail.example, K-123456", "billing for [e-mail], [customer]"


@pytest.fixture
def private(pool: Pool) -> Pool:
    """The pool redacts e-mail addresses and customers' numbers."""
    keep(pool)
    return pool


def keep(pool: Pool, **changes: Any) -> Privacy:
    values: dict[str, Any] = {"decision_days": None, "episode_days": None, **changes}
    return privacy.change(pool, kinds=["e-mail"], patterns=[("customer", r"\bK-\d{6}\b")], actor=None, **values)


@pytest.mark.parametrize("count", [1, 64])
def test_a_decision_answers_the_real_text_and_keeps_the_redacted(
    private: Pool, model: RouterModel, app: Application, count: int
) -> None:
    for _time in range(count):
        assert app.post("/api/route/", {"query": TEXT}).json()["agents"] == [0]
    decisions.buffer.write()
    assert list(Decision.objects.values_list("text", flat=True)) == [STORED] * count


def test_messages_before_are_redacted_too(private: Pool, model: RouterModel, app: Application) -> None:
    said = [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "billing"},
    ]
    app.post("/api/route/", {"messages": said})
    decisions.buffer.write()
    kept = Decision.objects.get()
    assert (kept.text, kept.messages[0]["content"]) == ("billing", STORED)


def test_another_pools_decisions_stay_as_they_are(private: Pool, model: RouterModel, app: Application) -> None:
    privacy.change(private, kinds=[], patterns=[], decision_days=None, episode_days=None, actor=None)
    app.post("/api/route/", {"query": TEXT})
    decisions.buffer.write()
    assert Decision.objects.get().text == TEXT


def test_comments_of_outcomes(private: Pool, model: RouterModel) -> None:
    outcomes.record(private, None, outcomes.Report(uuid.uuid4(), False, comment="ask bob@mail.example"))
    assert Outcome.objects.get().comment == "ask [e-mail]"


def test_imported_queries_their_other_keys_and_problems(private: Pool, tmp_path: Path) -> None:
    rows = (
        '{"text": "%s", "required_agents": [0], "from": "bob@mail.example"}\n'
        '{"text": "billing for eve@mail.example, K-999999", "required_agents": [1]}\n'
    )
    (tmp_path / "train.jsonl").write_text(rows % TEXT)
    done = imports.load_folder(private, tmp_path)[0]
    query = Query.objects.get()  # once redacted they are one text, and the second label contradicts the first
    assert (query.text, query.extra) == (STORED, {"from": "[e-mail]"})
    problem = done.problems.get()
    assert problem.field == "required_agents"
    assert "@" not in problem.excerpt


def test_a_correction_finds_the_redacted_query_again(private: Pool, ops: User) -> None:
    for required in ([0], [1]):
        corrections.correct(private, TEXT, required, ops, seen_at="playground")
    assert Query.objects.get().text == STORED


@orchestration.needed
def test_episodes_a_minute_after_their_end(private: Pool) -> None:
    from orchestration_app.episodes import episodes
    from orchestration_app.models import Episode, Step

    ended = {"status": "done", "finished_at": timezone.now() - timedelta(minutes=2)}
    old = Episode.objects.create(
        pool=private, policy="p", task=TEXT, messages=[{"content": TEXT}], answer=TEXT, plan={"for": TEXT}, **ended
    )
    Step.objects.create(
        episode=old, turn=0, number=0, call=0, agent=0, output=TEXT, metadata={"answer": TEXT}, state={"so far": [TEXT]}
    )
    fresh = Episode.objects.create(pool=private, policy="p", task=TEXT, status="done", finished_at=timezone.now())
    running = Episode.objects.create(pool=private, policy="p", task=TEXT, status="running")
    assert episodes.redact_ended() == 1
    assert episodes.redact_ended() == 0
    old.refresh_from_db()
    step = old.trajectory.get()
    assert (old.task, old.messages, old.answer) == (STORED, [{"content": STORED}], STORED)
    assert (step.output, step.metadata) == (STORED, {"answer": STORED})
    assert (old.plan, step.state) == ({"for": STORED}, {"so far": [STORED]})
    for other in (fresh, running):
        other.refresh_from_db()
        assert other.task == TEXT


@orchestration.needed
def test_each_pool_keeps_decisions_and_episodes_for_its_own_days(
    private: Pool, model: RouterModel, app: Application, settings: Any
) -> None:
    from orchestration_app.episodes import episodes
    from orchestration_app.models import Episode

    settings.DECISION_DAYS = settings.EPISODE_DAYS = 30
    other = pools.create_pool("Other")
    ten = timezone.now() - timedelta(days=10)
    for pool in (private, other):
        key = Decision.objects.create(pool=pool, model=model, text="x", agents=[], scores={}, confidence=1, steps=1,
                                      stop_reason="none", microseconds=1, at=ten).pk  # fmt: skip
        Outcome.objects.create(decision_id=key, pool=pool, success=True)
        made = Episode.objects.create(pool=pool, policy="p", task="x", status="done")
        Episode.objects.filter(pk=made.pk).update(created_at=ten)
    assert (decisions.prune(), episodes.prune()) == (0, 0)
    keep(private, decision_days=9, episode_days=9)
    Outcome.objects.create(decision_id=decisions.new_id(1.0), pool=pool, success=True, comment="without a decision")
    Outcome.objects.filter(comment="without a decision").update(at="2026-01-01T00:00Z")
    assert (decisions.prune(), episodes.prune()) == (1, 1)
    assert Decision.objects.get().pool == other
    assert Outcome.objects.get().pool == other
    assert Episode.objects.get().pool == other


# ---------------------------------------------------------------------------------------------------------- the page


def test_the_page_tries_saves_and_shows(pool: Pool, browser: Client) -> None:
    address = reverse("settings_privacy", args=("support",))
    sent = {"kinds": ["e-mail", "card"], "patterns": "customer: \\bK-\\d{6}\\b", "decision_days": "7", "sample": TEXT}
    tried = browser.post(address, {**sent, "try": "1"}).content.decode()
    assert "billing for [e-mail], [customer]" in tried
    assert not Privacy.objects.exists()
    browser.post(address, sent)
    kept = privacy.of(pool)
    assert (kept.kinds, kept.decision_days, kept.episode_days) == (["card", "e-mail"], 7, None)
    assert "customer: \\bK-\\d{6}\\b" in browser.get(address).content.decode()
    assert AuditEntry.objects.filter(action="pool.privacy").count() == 1


@pytest.mark.parametrize("patterns", ["no colon", "x: (", "x: a*", "[x]: a", "x: mail", "y: \\w"])
def test_the_page_says_what_is_wrong_with_a_pattern(pool: Pool, browser: Client, patterns: str) -> None:
    shown = browser.post(reverse("settings_privacy", args=("support",)), {"patterns": patterns})
    assert 'class="rw-error"' in shown.content.decode()
    assert not Privacy.objects.exists()


def test_bad_patterns_are_refused_by_the_function_too(make_model: Callable[..., Any], pool: Pool) -> None:
    with pytest.raises(BadPattern, match="At most 20"):
        privacy.change(pool, kinds=[], patterns=[("x", "qqq")] * 21, decision_days=None, episode_days=None, actor=None)
