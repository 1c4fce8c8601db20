"""Four eyes: what one person asks to promote, another approves; at every door alike."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from agents_app import keys, pools
from agents_app.models import AuditEntry, Pool
from tests.at_once import at_once
from tests.clients import signed_in
from tests.training_app.words import PERFECT, WEAK
from training_app.models import Alarm, Canary, Promotion, PromotionRequest, RouterModel
from training_app.rollout import trials
from training_app.versions import approvals, gate, registry
from training_app.watching import watch

Make = Callable[..., RouterModel]


@pytest.fixture
def ben(person: Callable[..., User]) -> User:
    return person("admin")


@pytest.fixture
def candidate(word_model: Make, snapshot: Any) -> RouterModel:
    """Better than the active model; promotions of its pool need a second person."""
    gate.promote(word_model(WEAK), actor=None)
    pools.set_four_eyes(snapshot.pool, True, actor=None)
    return word_model(PERFECT)


def asked_for(model: RouterModel, by: User | None) -> PromotionRequest:
    asked = gate.promote(model, actor=by, reason="fewer crashes missed")
    assert isinstance(asked, PromotionRequest)
    return asked


def active(model: RouterModel) -> str:
    found = registry.active(model.pool)
    assert found
    return found.name


def key_of(maker: User, pool: Pool) -> dict[str, str]:
    secret = keys.create_key(f"of {maker}", [pool], ["ops"], created_by=maker)[1]
    return {"Authorization": f"Bearer {secret}"}


def test_one_asks_and_another_approves(candidate: RouterModel, ops: User, ben: User) -> None:
    asked = asked_for(candidate, ops)
    assert active(candidate) == "support-1"
    promotion = gate.approve(asked, actor=ben, note="looked at the errors")
    assert active(candidate) == "support-2"
    asked.refresh_from_db()
    assert (asked.state, asked.author, asked.decided_by, asked.promotion) == ("approved", ops, ben, promotion)
    assert (promotion.author, promotion.reason) == (ben, "fewer crashes missed")
    said = AuditEntry.objects.get(action="promotion.approved")
    assert (said.actor, said.target, said.detail["asked_by"]) == (ben, "support-2", "ops-person")


def test_nobody_approves_what_they_asked_for(candidate: RouterModel, ops: User) -> None:
    asked = asked_for(candidate, ops)
    with pytest.raises(registry.RegistryError, match="another person"):
        gate.approve(asked, actor=ops)
    with pytest.raises(registry.RegistryError, match="needs a person"):
        gate.approve(asked, actor=None)
    assert active(candidate) == "support-1"
    assert approvals.waiting_for(candidate) == asked


def test_it_is_asked_for_once(candidate: RouterModel, ops: User, ben: User) -> None:
    asked_for(candidate, ops)
    with pytest.raises(registry.RegistryError, match="asked for already"):
        gate.promote(candidate, actor=ben)


def test_decline_and_withdraw(candidate: RouterModel, ops: User, ben: User) -> None:
    asked = asked_for(candidate, ops)
    with pytest.raises(registry.RegistryError, match="withdraw it"):
        approvals.decline(asked, actor=ops)
    with pytest.raises(registry.RegistryError, match="alone can withdraw"):
        approvals.withdraw(asked, actor=ben)
    approvals.decline(asked, actor=ben, note="not before the holidays")
    with pytest.raises(registry.RegistryError, match="decided"):
        gate.approve(asked, actor=ben)
    approvals.withdraw(asked_for(candidate, ops), actor=ops)
    assert list(PromotionRequest.objects.values_list("state", flat=True)) == ["withdrawn", "declined"]
    assert active(candidate) == "support-1"


def test_what_waits_lapses_when_another_model_answers(
    candidate: RouterModel, word_model: Make, ops: User, ben: User
) -> None:
    first = asked_for(candidate, ops)
    other = gate.promote(word_model(PERFECT), actor=ops, override="an experiment")
    assert isinstance(other, PromotionRequest)
    gate.approve(other, actor=ben)
    first.refresh_from_db()
    assert first.state == "lapsed"
    with pytest.raises(registry.RegistryError):
        gate.approve(first, actor=ben)


def test_roll_back_waits_for_nobody(candidate: RouterModel, ops: User, ben: User) -> None:
    gate.approve(asked_for(candidate, ops), actor=ben)
    registry.rollback(candidate.pool, actor=ops)
    assert active(candidate) == "support-1"


def test_the_gate_refuses_before_anybody_is_asked(
    candidate: RouterModel, word_model: Make, ops: User, ben: User
) -> None:
    worse = word_model({})
    with pytest.raises(gate.GateRefused):
        gate.promote(worse, actor=ops)
    gate.approve(gate.promote(worse, actor=ops, override="we need it"), actor=ben)  # type: ignore[arg-type]
    assert Promotion.objects.latest("pk").judgement.override == "we need it"


def test_a_setting_of_the_site_goes_for_every_pool(word_model: Make, settings: Any, ops: User) -> None:
    settings.FOUR_EYES = True
    asked_for(word_model(PERFECT), ops)
    assert not Promotion.objects.exists()


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_two_who_approve_at_once_promote_once(candidate: RouterModel, ops: User, ben: User) -> None:
    asked = asked_for(candidate, ops)
    said = at_once(2, lambda _number: gate.approve(PromotionRequest.objects.get(pk=asked.pk), actor=ben))
    assert sum(isinstance(answer, Promotion) for answer in said) == 1
    assert Promotion.objects.filter(model=candidate).count() == 1


# ------------------------------------------------------------------------------------------------------------ doors


def test_the_page_shows_who_asked_and_approves(candidate: RouterModel, ops: User, ben: User, browser: Client) -> None:
    address = reverse("model", args=("support", 2))
    browser.post(reverse("model_promote", args=("support", 2)), {"reason": "fewer crashes missed"})
    own = browser.get(address).content.decode()
    assert 'value="withdraw"' in own
    assert 'value="approve"' not in own
    browser.post(reverse("model_approval", args=("support", 2)), {"do": "approve"})
    assert active(candidate) == "support-1"
    bens = signed_in(ben)
    shown = bens.get(address).content.decode()
    assert "ops-person asks to let support-2 answer instead of support-1" in shown
    assert "fewer crashes missed" in shown
    assert "asked for by ops-person" in bens.get(reverse("models", args=("support",))).content.decode()
    bens.post(reverse("model_approval", args=("support", 2)), {"do": "approve", "note": "yes"})
    assert active(candidate) == "support-2"
    assert "approved by admin-person: “yes”" in bens.get(address).content.decode()


def test_the_api_asks_and_approves_as_the_keys_makers(
    fresh_process: None, candidate: RouterModel, ops: User, ben: User
) -> None:
    mine, theirs = key_of(ops, candidate.pool), key_of(ben, candidate.pool)

    def call(what: str, headers: dict[str, str]) -> Any:
        return Client().post(f"/api/models/support-2/{what}/", {}, "application/json", headers=headers)

    assert call("approve", theirs).json()["error"]["code"] == "cannot_promote"
    waits = call("promote", mine)
    assert (waits.status_code, waits.json()["state"], waits.json()["against"]) == (202, "waiting", "support-1")
    assert call("approve", mine).status_code == 409
    assert call("decline", theirs).json()["state"] == "declined"
    assert call("promote", mine).status_code == 202
    assert call("withdraw", mine).json()["state"] == "withdrawn"
    assert call("promote", mine).status_code == 202
    answers = call("approve", theirs)
    assert (answers.status_code, answers.json()["model"]) == (200, "support-2")
    assert active(candidate) == "support-2"


def test_a_canary_answers_once_another_person_approves(candidate: RouterModel, ops: User, ben: User) -> None:
    asked = trials.start_canary(candidate, 0.1, actor=ops, reason="to see it")
    assert isinstance(asked, PromotionRequest)
    assert trials.canary_of(candidate.pool) is None
    with pytest.raises(registry.RegistryError, match="canary of support-2 has been asked for"):
        gate.promote(candidate, actor=ben)
    with pytest.raises(registry.RegistryError, match="another person"):
        trials.approve(asked, actor=ops)
    assert trials.canary_of(candidate.pool) is None
    started = trials.approve(asked, actor=ben)
    assert isinstance(started, Canary)
    assert (started.share, started.reason, active(candidate)) == (0.1, "to see it", "support-1")
    assert isinstance(trials.start_canary(candidate, 0.05, actor=ops), Canary), "less of it needs nobody"
    assert isinstance(trials.start_canary(candidate, 0.1, actor=ops), PromotionRequest), "more of it does"
    trials.stop_canary(candidate.pool, actor=ops)
    assert AuditEntry.objects.get(action="canary.approved").detail["share"] == 0.1


def test_a_canary_is_asked_for_by_page_api_and_command_alike(
    fresh_process: None, candidate: RouterModel, ops: User, ben: User, browser: Client
) -> None:
    live = reverse("decisions_live", args=("support",))
    browser.post(live, {"do": "canary", "model": "2", "share": "10"})
    assert "ops-person asks to let support-2 answer 10" in browser.get(live).text
    own = browser.get(reverse("model", args=("support", 2))).text
    assert "as a canary, and support-1 the rest" in own
    assert 'value="approve"' not in own
    browser.post(reverse("model_approval", args=("support", 2)), {"do": "withdraw"})
    mine, theirs = key_of(ops, candidate.pool), key_of(ben, candidate.pool)

    def call(what: str, headers: dict[str, str], **body: float) -> Any:
        return Client().post(f"/api/models/support-2/{what}/", body, "application/json", headers=headers)

    waits = call("canary", mine, share=0.2)
    assert (waits.status_code, waits.json()["share"]) == (202, 0.2)
    assert call("approve", mine).status_code == 409
    assert call("withdraw", mine).json()["state"] == "withdrawn"
    call_command("canary", "support-2", "--share", "0.2", stdout=(out := StringIO()))
    assert "waits for a person" in out.getvalue()
    assert trials.canary_of(candidate.pool) is None
    answers = call("approve", theirs)
    assert (answers.status_code, answers.json()["share"], active(candidate)) == (201, 0.2, "support-1")


def test_the_command_asks_and_withdraws(candidate: RouterModel) -> None:
    out = StringIO()
    call_command("promote", "support-2", stdout=out)
    assert "waits for a person to approve it" in out.getvalue()
    assert active(candidate) == "support-1"
    call_command("promote", "support-2", "--withdraw", stdout=out)
    assert PromotionRequest.objects.get().state == "withdrawn"
    with pytest.raises(CommandError, match="Nobody has asked"):
        call_command("promote", "support-2", "--withdraw")


def test_those_who_may_approve_are_told(candidate: RouterModel, ops: User, ben: User) -> None:
    asked = asked_for(candidate, ops)
    alarm = Alarm.objects.get(kind="approval", resolved_at=None)
    assert alarm.sentence == "The promotion of support-2 waits for a second person."
    watch.look(workers=False)
    alarm.refresh_from_db()
    assert alarm.resolved_at is None
    gate.approve(asked, actor=ben)
    alarm.refresh_from_db()
    assert alarm.resolved_at is not None


def test_ops_turn_it_on_and_only_an_admin_off(pool: Pool, ops: User, ben: User, browser: Client) -> None:
    address = reverse("pool_four_eyes", args=("support",))
    browser.post(address, {"on": "1"})
    pool.refresh_from_db()
    assert pool.four_eyes
    assert browser.post(address, {"on": "0"}).status_code == 403
    assert "An admin can turn it off" in browser.get(reverse("settings_pool", args=("support",))).content.decode()
    bens = signed_in(ben)
    bens.post(address, {"on": "0"})
    pool.refresh_from_db()
    assert not pool.four_eyes
    assert AuditEntry.objects.filter(action="pool.four_eyes").count() == 2
