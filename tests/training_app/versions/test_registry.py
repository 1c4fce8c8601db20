"""The registry: versions, the one active model, and going back."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from agents_app.models import AuditEntry, Pool, Stamp
from tests.at_once import at_once
from tests.training_app.told import artifact
from training_app.models import Artifact, Promotion, RouterModel
from training_app.versions import registry

pytestmark = pytest.mark.both_databases

Make = Callable[..., RouterModel]


def states(pool: Pool) -> list[str]:
    return list(RouterModel.objects.filter(pool=pool).order_by("version").values_list("state", flat=True))


def test_register_counts_versions_within_the_pool_and_keeps_the_roster(pool: Pool, make_model: Make) -> None:
    other = Pool.objects.create(slug="other", name="Other")
    first, second = make_model(), make_model()
    elsewhere = registry.register(None, other, artifact(), {})
    assert [m.name for m in (first, second, elsewhere)] == ["support-1", "support-2", "other-1"]
    assert first.state == "candidate"
    assert [entry["name"] for entry in first.roster] == ["Billing", "Shipping", "Technical"]
    assert registry.artifact_bytes(first) == artifact()


def test_what_cannot_be_loaded_is_not_registered(pool: Pool, told_router: None) -> None:
    with pytest.raises(registry.RegistryError, match="not an artifact"):
        registry.register(None, pool, b"nonsense", {})
    assert not RouterModel.objects.exists()
    assert not Artifact.objects.exists()


def test_promotions_are_recorded_and_told(pool: Pool, make_model: Make, ops: User) -> None:
    first, second = make_model(), make_model()
    stamp = Stamp.current()
    promotion = registry.promote(first, actor=ops)
    assert (promotion.kind, promotion.previous) == ("first", None)
    promotion = registry.promote(second, actor=ops, reason="better")
    assert (promotion.kind, promotion.previous, promotion.reason) == ("promotion", first, "better")
    assert states(pool) == ["retired", "active"]
    assert registry.active(pool) == second
    assert Stamp.current() == stamp + 2
    entry = AuditEntry.objects.filter(action="model.promoted").first()
    assert entry
    assert (entry.actor, entry.target, entry.detail["previous"]) == (ops, "support-2", "support-1")


def test_the_active_model_is_not_promoted_again(pool: Pool, make_model: Make) -> None:
    model = make_model()
    registry.promote(model, actor=None)
    stamp = Stamp.current()
    with pytest.raises(registry.RegistryError, match="active model already"):
        registry.promote(model, actor=None)
    assert Promotion.objects.count() == 1
    assert Stamp.current() == stamp


def test_a_damaged_artifact_is_refused_and_the_active_model_stays(pool: Pool, make_model: Make) -> None:
    good, damaged, missing = make_model(), make_model(), make_model()
    registry.promote(good, actor=None)
    Artifact.objects.filter(model=damaged).update(content=artifact("Someone"))
    Artifact.objects.filter(model=missing).delete()
    with pytest.raises(registry.RegistryError, match="checksum"):
        registry.promote(damaged, actor=None)
    with pytest.raises(registry.RegistryError, match="missing"):
        registry.promote(missing, actor=None)
    assert registry.active(pool) == good


def test_rolling_back_goes_one_further_each_time(pool: Pool, make_model: Make, ops: User) -> None:
    first, second, third = make_model(), make_model(), make_model()
    for model in (first, second, third):
        registry.promote(model, actor=ops)
    assert registry.rollback(pool, actor=ops).model == second
    assert registry.rollback(pool, actor=ops).model == first
    assert states(pool) == ["active", "retired", "retired"]
    with pytest.raises(registry.RegistryError, match="no earlier model"):
        registry.rollback(pool, actor=ops)
    registry.promote(third, actor=ops)
    promotion = registry.rollback(pool, actor=ops)
    assert (promotion.kind, promotion.model, promotion.previous) == ("rollback", first, third)
    assert AuditEntry.objects.filter(action="model.rolled_back").count() == 3


def test_nothing_to_roll_back_to(pool: Pool, make_model: Make) -> None:
    with pytest.raises(registry.RegistryError, match="no earlier model"):
        registry.rollback(pool, actor=None)
    registry.promote(make_model(), actor=None)
    with pytest.raises(registry.RegistryError, match="no earlier model"):
        registry.rollback(pool, actor=None)


def test_the_database_holds_one_active_model(pool: Pool, make_model: Make) -> None:
    first, second = make_model(), make_model()
    registry.promote(first, actor=None)
    with pytest.raises(IntegrityError), transaction.atomic():
        RouterModel.objects.filter(pk=second.pk).update(state="active")


@pytest.mark.parametrize(
    "name", ["support-9", "support", "nowhere-1", "", "support--1", "support-99999999999999999999"]
)
def test_find_says_what_a_name_looks_like(pool: Pool, make_model: Make, name: str) -> None:
    model = make_model()
    assert registry.find(" support-1 ") == model
    with pytest.raises(registry.RegistryError, match="support-3"):
        registry.find(name)


@pytest.mark.django_db(transaction=True)
def test_registering_at_once_gives_each_its_version(pool: Pool, told_router: None) -> None:
    found = at_once(6, lambda _: registry.register(None, pool, artifact(), {}).version)
    assert sorted(found) == [1, 2, 3, 4, 5, 6]


@pytest.mark.django_db(transaction=True)
def test_promoting_at_once_leaves_one_active_and_an_unbroken_chain(pool: Pool, make_model: Make) -> None:
    models = [make_model() for _ in range(6)]
    stamp = Stamp.current()
    found = at_once(6, lambda number: registry.promote(models[number], actor=None))
    assert all(isinstance(one, Promotion) for one in found), found
    assert RouterModel.objects.filter(state="active").count() == 1
    chain = list(Promotion.objects.order_by("pk"))
    assert [link.previous_id for link in chain] == [None, *(link.model_id for link in chain[:-1])]
    assert [link.kind for link in chain] == ["first", *["promotion"] * 5]
    assert registry.active(pool) == chain[-1].model
    assert Stamp.current() == stamp + 6


@pytest.mark.django_db(transaction=True)
def test_rolling_back_twice_at_once_goes_back_twice_or_refuses(pool: Pool, make_model: Make) -> None:
    for _ in range(4):
        registry.promote(make_model(), actor=None)
    found = at_once(3, lambda _: registry.rollback(pool, actor=None))
    done = [one for one in found if isinstance(one, Promotion)]
    refused = [one for one in found if isinstance(one, registry.RegistryError)]
    assert len(done) + len(refused) == 3, found
    assert len(done) >= 1
    active = registry.active(pool)
    assert active
    assert active.version == 4 - len(done)
