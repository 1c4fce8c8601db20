"""Shadows and canaries in the registry: who may be one, what ends it, and what is kept."""

import threading

import pytest
from django.db import connection

from agents_app.audit import Actor
from agents_app.models import AuditEntry, Stamp
from tests.training_app.conftest import OVERRIDE
from tests.training_app.served import artifact, promoted
from training_app.models import Artifact, Canary, RouterModel
from training_app.rollout import trials
from training_app.versions import gate, keeping, registry

pytestmark = pytest.mark.django_db


def refused(words: str):
    return pytest.raises(registry.RegistryError, match=words)


# --- Shadows ------------------------------------------------------------------------------------------------------


def test_a_shadow_starts_and_goes_back_to_what_it_was(model: RouterModel, candidate: RouterModel) -> None:
    stamp = Stamp.current()
    trials.start_shadow(candidate, actor=Actor("test"))
    assert trials.shadows_of(model.pool) == [candidate]
    assert Stamp.current() > stamp
    trials.stop_shadow(candidate, actor=Actor("test"))
    candidate.refresh_from_db()
    assert candidate.state == "candidate"
    assert list(
        AuditEntry.objects.filter(action__startswith="shadow").values_list("action", "target", "actor_name")
    ) == [
        ("shadow.stopped", "support-2", "test"),
        ("shadow.started", "support-2", "test"),
    ]


def test_a_shadow_that_answered_before_is_retired_again(model: RouterModel) -> None:
    promoted(model.pool, (0, "Billing"))
    model.refresh_from_db()
    trials.start_shadow(model, actor=None)
    trials.stop_shadow(model, actor=None)
    assert RouterModel.objects.get(pk=model.pk).state == "retired"


def test_who_cannot_be_a_shadow(model: RouterModel, candidate: RouterModel) -> None:
    with refused("active model already"):
        trials.start_shadow(model, actor=None)
    with refused("is not a shadow"):
        trials.stop_shadow(candidate, actor=None)
    trials.start_shadow(candidate, actor=None)
    with refused("shadow already"):
        trials.start_shadow(candidate, actor=None)
    for _ in range(trials.MOST_SHADOWS - 1):
        trials.start_shadow(registry.register(None, model.pool, artifact((0, "Billing")), {}), actor=None)
    with refused("3 shadows already"):
        trials.start_shadow(registry.register(None, model.pool, artifact((0, "Billing")), {}), actor=None)


def test_a_shadow_needs_an_active_model_and_an_artifact(pool, model: RouterModel, candidate: RouterModel) -> None:
    Artifact.objects.filter(model=candidate).update(content=b"broken")
    with refused("checksum"):
        trials.start_shadow(candidate, actor=None)
    other = registry.register(None, pool, artifact((0, "Billing")), {})
    RouterModel.objects.filter(pk=model.pk).update(state="retired")
    with refused("no active model"):
        trials.start_shadow(other, actor=None)


# --- Canaries -----------------------------------------------------------------------------------------------------


def test_the_gate_applies_and_its_override_is_kept(model: RouterModel, candidate: RouterModel) -> None:
    with pytest.raises(gate.GateRefused):
        trials.start_canary(candidate, 0.1, actor=None)
    assert not Canary.objects.exists()
    started = trials.start_canary(candidate, 0.1, actor=Actor("test"), reason="try", override=f" {OVERRIDE} ")
    assert (started.model, started.against, started.share) == (candidate, model, 0.1)
    assert (started.passed, started.override, started.reason) == (False, OVERRIDE, "try")
    assert {finding["check"] for finding in started.findings} >= {"test", "active"}
    assert AuditEntry.objects.get(action="canary.started").detail["share"] == 0.1
    assert AuditEntry.objects.get(action="gate.overridden").detail["reason"] == OVERRIDE


@pytest.mark.parametrize("share", [0.0, -0.1, 0.51, 1.0])
def test_a_share_is_above_none_and_at_most_half(candidate: RouterModel, share: float) -> None:
    with refused("at most 50 %"):
        trials.start_canary(candidate, share, actor=None, override=OVERRIDE)


def test_one_canary_a_pool_and_its_share_can_change(model: RouterModel, candidate: RouterModel, canary) -> None:
    first, stamp = canary(0.1), Stamp.current()
    assert canary(0.3).pk == first.pk
    assert Stamp.current() > stamp
    assert AuditEntry.objects.get(action="canary.share").detail["before"] == 0.1
    other = registry.register(None, model.pool, artifact((0, "Billing")), {})
    with refused("support-2 is the canary"):
        canary(0.1, other)
    with refused("active model already"):
        canary(0.1, model)
    trials.stop_canary(model.pool, actor=None)
    assert canary(0.1, other).model == other
    assert [c.ended for c in Canary.objects.order_by("pk")] == ["stopped", ""]
    with refused("has no canary"):
        trials.stop_canary(model.pool, actor=None)
        trials.stop_canary(model.pool, actor=None)


def test_a_pool_without_an_active_model_has_no_canary(pool, model: RouterModel, candidate: RouterModel, canary) -> None:
    RouterModel.objects.filter(pk=model.pk).update(state="retired")
    with refused("no active model"):
        canary()


@pytest.mark.parametrize("how", ["promoted", "other", "rollback"])
def test_a_change_of_the_active_model_ends_the_canary(
    model: RouterModel, candidate: RouterModel, canary, how: str
) -> None:
    if how == "rollback":
        promoted(model.pool, (0, "Billing"))
    started = canary()
    if how == "promoted":
        registry.promote(candidate, actor=None)
    elif how == "other":
        promoted(model.pool, (0, "Billing"))
    else:
        registry.rollback(model.pool, actor=None)
    started.refresh_from_db()
    assert started.ended == how
    assert started.ended_at is not None
    assert trials.canary_of(model.pool) is None


def test_a_retired_canary_keeps_its_artifact(model: RouterModel, canary, settings) -> None:
    settings.KEEP_MODELS = 0
    for _ in range(2):
        promoted(model.pool, (0, "Billing"))
    assert [old.pk for old in keeping.to_prune(model.pool)] == [model.pk]
    canary(0.1, model)
    assert keeping.to_prune(model.pool) == []
    assert not keeping.prune(model)
    trials.stop_canary(model.pool, actor=None)
    assert keeping.prune(model)


@pytest.mark.parametrize("what", ["shadow", "canary"])
def test_what_is_pruned_between_the_look_and_the_lock_is_not_started(
    candidate: RouterModel, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(registry, "load", lambda *_given: Artifact.objects.filter(model=candidate).delete())
    monkeypatch.setattr(gate, "judge", lambda model: gate.Verdict(model, registry.active(model.pool), ()))
    with refused("has just been pruned"):
        if what == "shadow":
            trials.start_shadow(candidate, actor=None)
        else:
            trials.start_canary(candidate, 0.1, actor=None)


def test_settings_are_audited_once_they_change(pool, live) -> None:
    stamp = Stamp.current()
    live(exploration=0.05, cold=True)
    assert Stamp.current() > stamp
    live(exploration=0.05)
    entry = AuditEntry.objects.get(action="live.settings")
    assert entry.detail == {"exploration": [0.0, 0.05], "cold": [False, True]}


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_two_who_start_at_once_leave_one_canary(model: RouterModel, candidate: RouterModel) -> None:
    other = registry.register(None, model.pool, artifact((0, "Billing")), {})
    together, said = threading.Barrier(2), []

    def start(which: RouterModel) -> None:
        together.wait()
        try:
            trials.start_canary(which, 0.2, actor=None, override=OVERRIDE)
            said.append("started")
        except registry.RegistryError as error:
            said.append(str(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=start, args=(which,)) for which in (candidate, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(word == "started" for word in said) == [False, True], said
    assert Canary.objects.filter(ended_at=None).count() == 1


def test_who_answers_is_told_in_one_place(candidate: RouterModel) -> None:
    told = trials.answering(candidate.pool)
    assert told.active is not None
    assert (told.canary, told.shadows) == (None, ())
    trials.start_shadow(candidate, actor=None)
    assert trials.answering(candidate.pool).shadows == (candidate,)
    trials.start_canary(candidate, 0.1, actor=None, override="to see")
    told = trials.answering(candidate.pool)
    assert told.canary is not None
    assert told.canary.model == candidate
    assert told.shadows == (), "a shadow that has become the canary is a canary everywhere"
