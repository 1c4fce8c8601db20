"""When a user is asked, what, and what a reply means; worked by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

from training_app.engine.data.conversations import Message, text_of
from training_app.engine.judging.questions import asking
from training_app.engine.routing.asking import doubt, question, replied


@dataclass(frozen=True)
class Named:
    name: str
    description: str


AGENTS = {
    1: Named("Billing", "Invoices, payments and refunds. Also taxes."),
    2: Named("Account", "Log-in, passwords and permissions"),
    3: Named("Shipping", ""),
}


def test_two_close_agents_are_worth_a_question_and_a_sure_one_is_not() -> None:
    close = doubt({1: 0.5, 2: 0.4, 3: 0.01}, {1}, 0.4)
    assert close is not None
    assert close.agents == (1, 2)
    # 0.4 ((1 + 1) (1 + 2/3) - 1) = 0.93 is more than all that can be wrong.
    assert close.worth == pytest.approx(0.6)
    sure = doubt({1: 0.99, 2: 0.99, 3: 0.01}, {1, 2}, 0.97)
    assert sure is not None
    assert sure.worth == pytest.approx(0.97 * ((100 / 99) ** 2 - 1), rel=1e-4)
    three = doubt({1: 0.3, 2: 0.3, 3: 0.3}, set(), 0.2)
    assert three is not None
    assert three.agents == (1, 2, 3)
    assert doubt({1: 0.5}, {1}, 0.5) is None


def test_nobody_is_asked_about_an_agent_that_nobody_would_expect() -> None:
    """A question about two agents of which neither is likely confuses more than it helps; one in doubt is named beside the answer."""
    assert doubt({1: 0.14, 2: 0.14, 3: 0.01}, set(), 0.58) is None
    beside = doubt({1: 0.99, 2: 0.47, 3: 0.03}, {1}, 0.48)
    assert beside is not None
    assert beside.agents == (1, 2)


def test_nobody_is_asked_about_an_agent_that_comes_along_by_the_rules() -> None:
    found = doubt({1: 0.97, 2: 0.22, 3: 0.5}, {1, 2}, 0.12, settled={2})
    assert found is not None
    assert found.agents == (1, 3)


def test_a_question_names_agents_by_what_they_do() -> None:
    asked = "Is this about Billing (Invoices, payments and refunds), Account (Log-in, passwords and permissions) or Shipping?"
    assert question([AGENTS[1], AGENTS[2], AGENTS[3]]) == asked
    long = question([Named("A", "word " * 40), AGENTS[3]])
    assert len(long) < 120
    assert "…" in long


@pytest.mark.parametrize(
    ("reply", "meant"),
    [
        ("billing please", {1}),
        ("my password", {2}),
        ("both of them", {1, 2}),
        ("Beides, bitte", {1, 2}),
        ("the second one", {2}),
        ("la primera", {1}),
        ("One second please", None),
        ("That's all, thanks", None),
        ("the third one", None),
        ("neither of these", set()),
        ("all of the parcels that you sent me are damaged", None),
        ("it's about permissions", {2}),
        ("REFUNDS and log-in", {1, 2}),
    ],
)
def test_what_a_reply_means(reply: str, meant: set[int] | None) -> None:
    turn = text_of(reply, [Message("user", "help"), Message("assistant", question([AGENTS[1], AGENTS[2]]))])
    found = replied(turn, AGENTS)
    assert (None if found is None else found[1]) == (None if meant is None else frozenset(meant))
    other = text_of(reply, [Message("user", "help"), Message("assistant", "For when?")])
    assert replied(other, AGENTS) is None


def test_what_asking_brings() -> None:
    p = np.array([[0.55, 0.45], [0.99, 0.01]] * 10, np.float32)
    selected = p >= 0.5
    required = selected.copy()
    required[::4] = [[False, True]]
    confidence = np.array([0.55, 0.98] * 10, np.float32)
    found = asking(p, selected, required, confidence)
    assert found["exact"] == pytest.approx(0.75)
    exact = {row["share"]: row["exact"] for row in found["at"]}
    # One query in ten is asked about: of the first two, which are in doubt, the first was wrong.
    assert exact[0.1] == pytest.approx(0.8)
    assert exact[0.2] == pytest.approx(0.85)
    assert asking(p[:0], selected[:0], required[:0], confidence[:0]) == {}
