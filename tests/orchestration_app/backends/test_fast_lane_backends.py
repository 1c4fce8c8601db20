"""The fast lane and the views beside each other in a pool with backends: who is assigned, by any preference, to the byte."""

import json
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents_app.models import Pool
from orchestration_app import providers
from orchestration_app.backends import state
from orchestration_app.backends.preferences import PREFERENCE
from orchestration_app.models import Backend
from tests.orchestration_app.backends.conftest import rows  # noqa: F401
from tests.thorough import many
from tests.training_app.api.test_fast_lane import maybe, near, texts, ways  # noqa: F401
from training_app.answering import loaded, serving

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("fresh_process", "nothing_waits"),
]
EXAMPLES = many(400)

names = st.lists(st.sampled_from(["billing", "shipping", "technical"]), min_size=1, max_size=3).map(" and ".join)
good_preferences = st.sampled_from(["best", "balanced", "cheapest", "fastest"]) | st.fixed_dictionaries(
    {"quality": st.floats(0.01, 3)}, optional={"cost": st.floats(0, 3), "latency": st.integers(0, 3)}
)
bodies = {
    "/api/route/": st.fixed_dictionaries(
        {"query": names | names | texts},
        optional={"preference": good_preferences | good_preferences | maybe(near(PREFERENCE.value.schema))},
    ),
    "/api/route/batch/": st.fixed_dictionaries(
        {"queries": st.lists(names, min_size=1, max_size=3) | st.lists(names | texts, max_size=3)},
        optional={"preference": good_preferences | good_preferences | maybe(near(PREFERENCE.value.schema))},
    ),
}


@pytest.mark.at_length
@pytest.mark.parametrize("path", bodies)
def test_who_is_assigned_is_the_same_either_way(
    rows: SimpleNamespace, pool: Pool, ways: Any, path: str, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    """A learner and exploration decide some: both ways begin with the same chance. One backend is out, one has limits."""
    same = {name: getattr(rows.large, name) for name in ("quality", "price_in", "price_out", "latency")}
    providers.save(rows.large.agent, rows.provider, {"model": "away", **same}, actor=None)
    Backend.objects.filter(model="away").update(healthy=False)
    # What the calls of one way leave in flight is nothing beside so many places, and moves no figure of the other.
    limits = {"requests_per_minute": 10**6, "tokens_per_minute": 10**9, "at_once": 2 * 10**9}
    Backend.objects.filter(pk=rows.ships.pk).update(**limits)
    providers.save_settings(
        pool, {"learner": "ucb1", "learning_share": 0.5, "learning_within": 1.0, "exploration": 0.1}, actor=None
    )
    serving.forget()
    serving.served()
    keys, views, lane = ways
    chance = random.Random()
    monkeypatch.setattr(loaded, "chance", chance)
    seen: Counter[str] = Counter()
    sent = [
        (b"host", b"127.0.0.1:8000"), (b"authorization", f"Bearer {keys['good']}".encode()), (b"content-type", b"application/json"),
        (b"accept", b"*/*"),
    ]  # fmt: skip

    def by(way: Any, scope: dict[str, Any], raw: bytes, seed: int) -> Any:
        chance.seed(seed)
        for one in state.of(pool.pk).by_key.values():  # what was given out before is not this request's
            one.times_taken, one.candidate.rank = 0, one.order * 1e12
        state.of(pool.pk).usage = type(state.of(pool.pk).usage)()
        return way(scope, raw)

    @settings(
        max_examples=EXAMPLES // len(bodies), deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(bodies[path], st.integers(0, 2**32))
    def check(body: dict[str, Any], seed: int) -> None:
        raw = json.dumps(body).encode()
        scope = {
            "method": "POST", "raw_path": path.encode(), "path": path, "query_string": b"", "http_version": "1.1", "scheme": "http",
            "headers": [*sent, (b"content-length", str(len(raw)).encode())], "server": ("127.0.0.1", 8000),
            "client": ("127.0.0.1", 5000),
        }  # fmt: skip
        fast, slow = by(lane, scope, raw, seed), by(views, scope, raw, seed)
        assert (fast is not None) == (slow[0] == 200)
        if fast is not None:
            assert fast == slow
            seen["assigned"] += b'"expected":{' in fast[2]
            assert b"acme/away" not in fast[2]

    check()
    assert seen["assigned"] > 0
