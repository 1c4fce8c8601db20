"""What one request may ask of a trained router: other limits, and a threshold in the policy's place."""

import pytest

from tests.training_app import trained
from training_app.engine.routing.router import Router

TEXTS = ["refund the invoice", "refund the invoice and the app crashes", "where is my parcel", "good morning"]


@pytest.fixture(scope="module")
def router() -> Router:
    return Router.load(trained.result().artifact)


@pytest.mark.parametrize("text", TEXTS)
def test_limits_of_one_request(router: Router, text: str) -> None:
    plain = router.route(text)
    assert router.route(text, limits=router.limits) == plain
    for most in (1, 2):
        some = router.route(text, limits=(0, most))
        assert len(some.agents) <= most
        assert (some.stop_reason == "max_agents") == (len(some.agents) == most) or some.abstained
    assert len(router.route(text, limits=(2, 0)).agents) >= 2
    assert router.explain(text, limits=(0, 1)).route == router.route(text, limits=(0, 1))
    assert router.route(text, frozenset(), limits=(2, 0)).agents == ()


@pytest.mark.parametrize("text", TEXTS)
def test_another_operating_point(router: Router, text: str) -> None:
    at = router.calibration.margin
    assert router.route(text, margin=at) == router.route(text)
    sizes = [len(router.route(text, margin=margin).agents) for margin in (10.0, 0.2, 0.0, -0.2, -10.0)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (0, len(router.agents))
    explained = router.explain(text, margin=-10.0)
    assert explained.route == router.route(text, margin=-10.0)
    assert all(step["stop"] < -5 for step in explained.steps)


@pytest.mark.parametrize("text", TEXTS)
def test_a_threshold_takes_whoever_reaches_it(router: Router, text: str) -> None:
    for threshold in (0.0, 0.3, 0.7, 1.0):
        found = router.above(text, threshold)
        assert set(found.agents) == {agent for agent, p in found.scores.items() if p >= threshold}
        assert list(found.agents) == sorted(found.agents, key=lambda agent: -found.scores[agent])
        assert found.confidence == pytest.approx(float(router.confidences([text], [found.agents])[0]), abs=1e-6)
    assert len(router.above(text, 1.0, limits=(1, 0)).agents) == 1
    assert len(router.above(text, 0.0, limits=(0, 1)).agents) == 1
    assert router.above(text, 0.0, frozenset({1})).agents == (1,)
