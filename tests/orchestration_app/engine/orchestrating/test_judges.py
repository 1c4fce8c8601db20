"""Marks by a language model, and kept episodes as training data."""

import numpy as np
import pytest

from orchestration_app.engine.orchestrating import judges
from orchestration_app.engine.orchestrating.environment import at_random, walk
from orchestration_app.engine.orchestrating.logs import KeptStep, walked
from orchestration_app.engine.orchestrating.state import Call
from tests.orchestration_app.engine.orchestrating.pools import identity

pytestmark = pytest.mark.any_database


class Marks:
    """Stands for a language model's client."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.asked = list(texts), 0

    def complete(self, messages: object, schema: object = None, *, key: str = "") -> object:
        self.asked += 1
        return type("Said", (), {"text": self.texts.pop(0)})()


def test_a_model_is_asked_once_about_the_same_answer() -> None:
    client = Marks('{"mark": 7}', '{"mark": 2}')
    judge = judges.LanguageModelJudge(client)
    assert judge.mark("sum?", "42") == judge.mark("sum?", "42") == 0.7
    assert client.asked == 1
    assert judge.mark("another sum?", "42") == 0.2
    assert client.asked == 2


@pytest.mark.parametrize("said", ["fine", '{"mark": 11}', '{"mark": true}', '{"mark": "7"}', "{}"])
def test_a_reply_without_a_mark_is_counted_and_not_kept(said: str) -> None:
    judge = judges.LanguageModelJudge(Marks(said, '{"mark": 10}'))
    assert judge.mark("sum?", "42") is None
    assert judge.unmarked == 1
    assert judge.mark("sum?", "42") == 1.0


def test_agreement_with_people_by_hand() -> None:
    found = judges.agreement([1, 1, 0, 0], [1, 0, 0, 0])
    assert found["share"] == 0.75
    assert found["kappa"] == pytest.approx(0.5)
    assert found["apart"] == 0.25
    assert judges.agreement([1, 1], [1, 1])["kappa"] == 0.0
    with pytest.raises(ValueError, match="at least one"):
        judges.agreement([], [])


def test_a_kept_episode_is_the_walk_that_it_was() -> None:
    environment = identity()
    walks = walk(environment, at_random(np.random.default_rng(0), stop=0.2), list(range(12)))
    assert len(walks) == 12
    for made in walks:
        steps = [KeptStep((call,), p) for call, p in zip(made.calls, made.propensities, strict=False)]
        steps.append(KeptStep((), made.propensities[-1]))
        again = walked(environment, made.task, steps, made.score)
        assert again is not None
        assert (again.actions, again.costs, again.propensities) == (made.actions, made.costs, made.propensities)
        assert all((a == b).all() for a, b in zip(again.per_agent, made.per_agent, strict=True))


def test_a_path_with_an_unknown_agent_teaches_nothing() -> None:
    assert walked(identity(), 0, [KeptStep((Call(77, "who?"),))], 1.0) is None
