"""What choosing saves: operating points from the log, the weights that a pool takes over, and when a chooser is trained."""

import uuid
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from agents_app.models import Pool
from orchestration_app import providers
from orchestration_app.backends import choosing, savings, state
from orchestration_app.backends.served_calls import ENOUGH
from orchestration_app.engine.backends import chooser
from orchestration_app.engine.backends.chooser import Called
from orchestration_app.engine.backends.choosing import PRESETS
from orchestration_app.models import BackendCall, BackendSettings
from orchestration_app.models.kinds import BACKEND_CHOOSER
from tests.orchestration_app.backends.test_chooser import learnt
from training_app.models import Decision, Run
from training_app.versions import registry

pytestmark = pytest.mark.django_db
SMALL, LARGE = 0, 1


def simulated(seed: int, count: int = 600) -> tuple[savings.Log, np.ndarray]:
    """A log of two backends, half of the calls by lot: the large one does 0.9 of everything, the small one 0.92 of what is easy and
    0.4 of what is hard, for a tenth of the price. With the true success [N, 2]."""
    rng = np.random.default_rng(seed)
    easy = rng.random(count) < 0.6
    truth = np.stack([np.where(easy, 0.92, 0.4), np.full(count, 0.9)], axis=1)
    served = np.where(rng.random(count) < 0.5, SMALL, LARGE)
    rows = np.arange(count)
    reward = (rng.random(count) < truth[rows, served]).astype(float)
    price = np.tile([0.001, 0.01], (count, 1))
    said = np.clip(truth + rng.normal(0, 0.05, truth.shape), 0.01, 0.99)
    log = savings.Log(
        np.ones((count, 2), bool), served, np.zeros(count, np.int64), rng.integers(2, size=count), np.full(count, 0.5), reward,
        price[rows, served], said, price, np.full(count, 0.01),
    )  # fmt: skip
    return log, truth


@pytest.mark.parametrize("share", [1.0, 0.95])
def test_a_point_saves_and_keeps_its_share_on_average(share: float) -> None:
    shares, costs = [], []
    for seed in range(20):
        log, truth = simulated(seed)
        taken = log.policy(savings.chosen(log, share, np.ones(len(log.served), bool)))
        shares.append(truth[np.arange(len(taken)), taken].mean() / truth[:, LARGE].mean())
        costs.append(log.cost[np.arange(len(taken)), taken].mean() / 0.01)
    assert np.mean(shares) >= share
    assert np.mean(costs) < 0.7


def test_what_a_point_claims_lies_within_its_interval() -> None:
    inside = 0
    for seed in range(40):
        log, truth = simulated(seed)
        point = savings._point(log, 1.0)
        taken = np.zeros(len(log.served), int)
        for half in (0, 1):
            price = savings.chosen(log, 1.0, log.half != half)
            taken[log.half == half] = log.policy(price)[log.half == half]
        gained = truth[np.arange(len(taken)), taken].mean() - truth[:, LARGE].mean()
        inside += abs(point["difference"] - gained) <= point["within"]
    assert inside >= 36


def test_too_few_explored_calls_say_how_many_more_it_takes() -> None:
    """Where one call in 50 is by lot, the cheap way is not judged by 600 calls; it is by as many more as they say."""
    log, _truth = explored(600)
    point = savings._point(log, 0.9)
    assert "change" not in point
    assert point["more"] >= 1_000
    assert "change" in savings._point(explored(600 + int(2 * point["more"]))[0], 0.9)
    nobody = replace(log, served=np.full(600, LARGE))
    assert savings._point(replace(nobody, success=np.tile([0.9, 0.1], (600, 1))), 0.9)["more"] is None


def test_a_backend_that_served_twice_is_no_best_to_be_compared_with() -> None:
    """338 calls, two of which explored: the dear backend did well both times, each time with a weight of a hundred."""
    count = 338
    rng = np.random.default_rng(0)
    served, propensity = np.full(count, SMALL), np.full(count, 0.99)
    served[[10, 11]], propensity[[10, 11]] = LARGE, 0.01
    reward = (rng.random(count) < 0.79).astype(float)
    reward[[10, 11]] = 1.0
    price, half = np.tile([0.00003, 0.00025], (count, 1)), np.arange(count) % 2
    log = savings.Log(
        np.ones((count, 2), bool), served, np.zeros(count, np.int64), half, propensity, reward, price[np.arange(count), served],
        np.tile([0.79, 0.58], (count, 1)), price, np.full(count, 0.00025),
    )  # fmt: skip
    assert (log.best_single(half == 0) == LARGE).all()
    for share in savings.POINTS:
        point = savings._point(log, share)
        assert "change" not in point
        assert point["effective"] < savings.LEAST_EFFECTIVE


def explored(count: int) -> tuple[savings.Log, np.ndarray]:
    """As `simulated`, with the small backend served in one of 100 calls, by lot."""
    log, truth = simulated(3, count)
    rng = np.random.default_rng(4)
    served = np.where(rng.random(count) < 0.01, SMALL, LARGE)
    rows = np.arange(count)
    reward = (rng.random(count) < truth[rows, served]).astype(float)
    propensity = np.where(served == SMALL, 0.01, 0.99)
    return replace(log, served=served, reward=reward, paid=log.cost[rows, served], propensity=propensity), truth


def served(pool: Pool, model: object, rows: SimpleNamespace, count: int = 600) -> None:
    """Half of the calls by lot: `small` does refunds only, for a tenth of what `large` costs."""
    rows.quick.delete()
    made, calls = [], []
    for n in range(count):
        easy, small, key = n % 5 > 1, n % 2 == 0, uuid.UUID(int=n * 2 + (n // 7) % 2)
        text = f"billing: {'refund my order' if easy else 'audit the ledger'} number {n}"
        made.append(Decision(
            pk=key, pool=pool, model=model, text=text, agents=[0], scores={}, confidence=1, steps=1, stop_reason="stop",
            microseconds=1,
        ))  # fmt: skip
        backend = rows.small if small else rows.large
        calls.append(BackendCall(
            decision_id=key, pool=pool, agent=0, backend=backend, success=easy or not small, cost=0.001 if small else 0.01,
            assigned=backend.pk, propensity=0.5, decided_by="lot", as_direct=not small,
        ))  # fmt: skip
    Decision.objects.bulk_create(made)
    BackendCall.objects.bulk_create(calls)


def test_the_pool_takes_over_the_weights_of_a_point(pool: Pool, model: object, rows: SimpleNamespace) -> None:
    with pytest.raises(providers.BackendError, match="Too few"):
        savings.use(pool, 1.0, actor=None)
    served(pool, model, rows, 1500)
    registry.register(None, pool, learnt(rows.large.pk, rows.small.pk), {}, kind=BACKEND_CHOOSER)
    registry.promote(pool.models.get(kind=BACKEND_CHOOSER), actor=None)
    found = savings.refresh(pool)
    point = found["points"][1]
    assert point["change"] < -0.2
    assert point["difference"] + point["within"] > -0.02
    savings.use(pool, 0.98, actor=None)
    assert BackendSettings.objects.get().point == 0.98
    state.load()
    taken = {
        text: choosing.assign(pool.pk, f"billing: {text}", [0])[0].backend.pk
        for text in ("refund my order", "audit the ledger")
    }
    assert taken == {"refund my order": rows.small.pk, "audit the ledger": rows.large.pk}


def test_a_chooser_is_trained_once_enough_was_observed(pool: Pool, model: object, rows: SimpleNamespace) -> None:
    """Without any label: it learns from judged calls alone."""
    served(pool, model, rows, ENOUGH - 1)
    assert savings.turn() == 1
    assert not Run.objects.filter(kind=BACKEND_CHOOSER).exists()
    BackendCall.objects.create(decision_id=uuid.uuid4(), pool=pool, agent=0, backend=rows.small, success=True)
    savings.turn()
    assert Run.objects.get(kind=BACKEND_CHOOSER).promote
    savings.turn()
    assert Run.objects.filter(kind=BACKEND_CHOOSER).count() == 1, "and again when twice as many were judged"


def test_agents_on_one_model_share_its_limit(pool: Pool, rows: SimpleNamespace) -> None:
    """Billing and Shipping run on acme/large, which takes three requests a minute from both together."""
    rows.small.delete()
    rows.quick.delete()
    providers.save_terms(rows.provider, "large", {"requests_per_minute": 3}, actor=None)
    state.load()
    given = [choosing.assign(pool.pk, "x", [n % 2])[0] for n in range(5)]
    assert sum(one.backend is not None for one in given) == 3
    assert given[-1].why == choosing.AT_LIMITS


def test_a_text_goes_to_a_backend_that_can_read_it(pool: Pool, rows: SimpleNamespace) -> None:
    providers.save_terms(rows.provider, "large", {"context": 10}, actor=None)
    state.load()
    best = PRESETS["best"]
    assert choosing.assign(pool.pk, "short", [0], best)[0].backend.pk == rows.large.pk
    assert choosing.assign(pool.pk, "x" * 50, [0], best)[0].backend.pk != rows.large.pk
    assert choosing.assign(pool.pk, "x" * 50, [1])[0].why == choosing.TOO_LONG


def test_the_first_chooser_of_a_pool_has_enough_to_learn_from() -> None:
    """Whatever its texts are: a run that fails, or has too few calls to be measured on, comes in less than one pool in ten."""
    small = 0
    for pool in range(40):
        calls = [Called(f"pool {pool} text {n}", 0, 1, True, 0.1) for n in range(ENOUGH)]
        try:
            small += len(chooser._split(calls, ())["test"]) < chooser.LEAST
        except chooser.TrainError:
            small += 1
    assert small <= 4
