"""What a trained router answers to turns of a conversation, one by one as it serves them and all together as it is measured."""

import dataclasses

import numpy as np
import pytest

from tests.engine.reading.conversing.test_continuing import turn
from tests.training_app import trained
from training_app.engine.data import artifact
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
