"""What a trained router answers to turns of a conversation, one by one as it serves them and all together as it is measured."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import training_app
from tests.engine.reading.conversing.test_continuing import turn
from tests.training_app import trained
from training_app.engine.data import artifact
from training_app.engine.judging import paired
from training_app.engine.routing import holding
from training_app.engine.routing.router import Router

TURNS = [
    turn("refund the invoice", "Which one?", "4711"),
    turn("refund the invoice", "It is refunded.", "now where is my parcel"),
    turn("where is my parcel", "What is the number?", "the one of monday", "And the street?", "high street 3"),
    turn("refund the invoice", "Which one?", "the big one", agents=(2,)),
    "refund the invoice",
]


@pytest.fixture(scope="module")
def parts() -> artifact.Artifact:
    return artifact.read(trained.result().artifact)


def test_a_reply_is_as_sure_as_it_is_that_the_agents_stay(parts: artifact.Artifact) -> None:
    router = Router.from_artifact(parts)
    alone = router.route(TURNS[0])
    held, continued = holding.continued(router, TURNS[0], alone)
    assert continued is not None
    assert continued.held
    assert held.confidence == continued.confidence
    # By the reply's scores alone, that set would be wrong.
    assert float(router.confidences([TURNS[0]], [held.agents])[0]) < continued.confidence


def test_a_level_of_abstention_lets_a_likely_reply_pass(parts: artifact.Artifact) -> None:
    alone = Router.from_artifact(parts)
    held, _continued = holding.continued(alone, TURNS[0], alone.route(TURNS[0]))
    for level, abstains in ((held.confidence - 0.01, False), (held.confidence + 0.01, True)):
        settings = {**parts.config["calibration"], "abstain_below": level}
        router = Router.from_artifact(dataclasses.replace(parts, config={**parts.config, "calibration": settings}))
        assert holding.continued(router, TURNS[0], router.route(TURNS[0]))[0].abstained == abstains


def test_turns_are_measured_as_they_are_served(parts: artifact.Artifact) -> None:
    router = Router.from_artifact(parts)
    answers = router.answers(TURNS)
    served = [holding.continued(router, text, router.route(text)) for text in TURNS]
    assert any(continued and continued.held for _route, continued in served)
    ids = [agent.id for agent in router.agents]
    assert [{ids[a] for a in np.flatnonzero(row)} for row in answers.selected] == [set(r.agents) for r, _c in served]
    np.testing.assert_allclose(answers.confidence, [route.confidence for route, _continued in served], atol=1e-5)
    assert (router.selections(TURNS) == answers.selected).all()


def test_two_models_are_compared_by_what_applications_get(parts: artifact.Artifact) -> None:
    router = Router.from_artifact(parts)
    served = [set(holding.continued(router, text, router.route(text))[0].agents) for text in TURNS]
    assert served != [set(route.agents) for route in router.route_batch(TURNS)], "a turn is held"
    assert paired.routed(router, TURNS, frozenset(agent.id for agent in router.agents)) == served


def test_nothing_judges_or_watches_a_model_by_what_applications_do_not_get() -> None:
    """`route_batch` does not know that a turn may stay with the agents before: only what answers requests builds on it."""
    package = Path(training_app.__file__).parent
    may = {package / "answering" / "answer.py", *(package / "engine" / "routing").glob("*.py")}
    using = {path for path in package.rglob("*.py") if ".route_batch(" in path.read_text(encoding="utf-8")}
    assert using <= may, using - may
    assert using
