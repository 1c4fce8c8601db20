"""Which old models keep their artifacts: announced, taken back, pruned; pins."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app.models import AuditEntry, Pool
from tests.clients import signed_in
from training_app.models import Artifact, Decision, RouterModel
from training_app.versions import keeping, registry

Make = Callable[..., RouterModel]
DAY = timedelta(days=1)


@pytest.fixture
def old(make_model: Make, settings: object) -> list[RouterModel]:
    """Six models, each promoted after the one before; two retired ones are kept. The last one is active."""
    settings.KEEP_MODELS = 2  # type: ignore[attr-defined]
    found = [make_model() for _number in range(6)]
    for model in found:
        registry.promote(model, actor=None)
    return found


def names(models: object) -> list[str]:
    return [model.name for model in models]  # type: ignore[attr-defined]


def decide(model: RouterModel) -> None:
    Decision.objects.create(
        pool=model.pool,
        model=model,
        text="a",
        agents=[],
        scores={},
        confidence=1,
        steps=1,
        stop_reason="none",
        microseconds=1,
    )


def test_the_newest_are_kept_and_so_are_those_with_decisions_and_pinned_ones(
    old: list[RouterModel], pool: Pool
) -> None:
    assert names(keeping.to_prune(pool)) == ["support-1", "support-2", "support-3"]
    decide(old[0])
    keeping.pin(old[1], True, actor=None)
    assert names(keeping.to_prune(pool)) == ["support-3"]


def test_it_counts_from_when_a_model_answered_last(old: list[RouterModel], pool: Pool) -> None:
    registry.promote(old[0], actor=None)
    registry.promote(old[5], actor=None)
    assert names(keeping.to_prune(pool)) == ["support-2", "support-3", "support-4"]


def test_the_one_to_roll_back_to_is_kept(old: list[RouterModel], pool: Pool) -> None:
    for _number in range(3):
        registry.rollback(pool, actor=None)
    assert registry.rollback_target(pool) == old[1]
    assert names(keeping.to_prune(pool)) == ["support-1", "support-6"]


def test_candidates_stay(old: list[RouterModel], make_model: Make, pool: Pool) -> None:
    RouterModel.objects.filter(pk=old[0].pk).update(state="candidate")
    assert "support-1" not in names(keeping.to_prune(pool))


def test_it_is_announced_for_a_week_and_then_happens(old: list[RouterModel], pool: Pool) -> None:
    now = timezone.now()
    assert keeping.look(now) == 0
    assert names(keeping.announced(pool)) == ["support-1", "support-2", "support-3"]
    assert keeping.look(now + 6 * DAY) == 0
    assert keeping.look(now + 7 * DAY) == 3
    assert set(Artifact.objects.values_list("model__version", flat=True)) == {4, 5, 6}
    assert AuditEntry.objects.filter(action="model.pruned").count() == 3
    assert not keeping.announced(pool)
    assert keeping.look(now + 30 * DAY) == 0


def test_what_is_needed_again_is_taken_back_and_announced_anew(old: list[RouterModel], pool: Pool) -> None:
    now = timezone.now()
    keeping.look(now)
    decide(old[0])
    registry.promote(old[1], actor=None)
    old[1].refresh_from_db()
    assert old[1].prune_at is None
    keeping.look(now + 8 * DAY)
    old[0].refresh_from_db()
    assert old[0].prune_at is None
    Decision.objects.all().delete()
    assert keeping.look(now + 9 * DAY) == 0
    old[0].refresh_from_db()
    assert old[0].prune_at == now + 16 * DAY


def test_a_model_that_becomes_active_meanwhile_is_not_pruned(old: list[RouterModel], pool: Pool) -> None:
    stale = RouterModel.objects.select_related("pool").get(pk=old[0].pk)
    registry.promote(old[0], actor=None)
    assert keeping.prune(stale) is False
    assert Artifact.objects.filter(model=old[0]).exists()


def test_a_pruned_model_is_refused_with_the_reason(old: list[RouterModel]) -> None:
    assert keeping.prune(old[0])
    old[0].refresh_from_db()
    for act in (lambda: registry.promote(old[0], actor=None), lambda: keeping.pin(old[0], True, actor=None)):
        with pytest.raises(registry.RegistryError, match="was pruned on"):
            act()


def test_one_that_is_pruned_while_it_is_promoted_does_not_become_active(
    old: list[RouterModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = RouterModel.objects.select_related("pool").get(pk=old[0].pk)
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda *given: (load(*given), keeping.prune(old[0])))
    with pytest.raises(registry.RegistryError, match="has just been pruned"):
        registry.promote(stale, actor=None)
    assert registry.active(old[0].pool) == old[5]


def test_the_page_announces_and_pins(old: list[RouterModel], browser: Client, ops: User) -> None:
    keeping.look()
    path = reverse("models", args=["support"])
    page = browser.get(path).content.decode()
    assert "Artifacts that will be pruned" in page
    assert "Pin support-1" in page
    answer = browser.post(reverse("model_pin", args=["support", 1]), {"on": "1", "from": "list"}, follow=True)
    page = answer.content.decode()
    assert "support-1 is pinned" in page
    assert "Pin support-1" not in page
    assert AuditEntry.objects.get(action="model.pinned").actor == ops
    page = browser.get(reverse("model", args=["support", 1])).content.decode()
    assert "Pin no longer" in page
    browser.post(reverse("model_pin", args=["support", 1]), {"on": "0"})
    old[0].refresh_from_db()
    assert not old[0].pinned


def test_the_page_of_a_pruned_model_cannot_promote_it(old: list[RouterModel], browser: Client) -> None:
    keeping.prune(old[0])
    page = browser.get(reverse("model", args=["support", 1])).content.decode()
    assert "Its artifact was pruned" in page
    assert "Promote support-1" not in page
    assert "It answers the pool" not in page
    assert "It answers the pool" in browser.get(reverse("model", args=["support", 6])).content.decode()


def test_only_ops_pin(old: list[RouterModel], person: Callable[..., User]) -> None:
    client = signed_in(person("reviewer"))
    assert client.post(reverse("model_pin", args=["support", 1]), {"on": "1"}).status_code == 403
