"""Gaps and confusions on made-up vectors."""

from collections.abc import Sequence

import numpy as np
import pytest

from training_app.engine.data.conversations import Message, Turn
from training_app.engine.judging import gaps as module
from training_app.engine.judging.gaps import (
    Confusion,
    Labeled,
    Space,
    Traffic,
    confusions,
    conversation,
    gaps,
    spoken,
    words_of,
)


def around(direction: int, count: int, seed: int, also: int | None = None, spread: float = 0.15) -> np.ndarray:
    """Unit vectors around one axis of eight, or between two."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(0, spread, (count, 8))
    vectors[:, direction] += 1
    if also is not None:
        vectors[:, also] += 1
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def labeled(*agents: np.ndarray) -> Labeled:
    """Labeled queries, the agents' one after another."""
    owner = np.repeat(np.arange(len(agents)), [len(own) for own in agents])
    vectors = np.concatenate(agents)
    return Labeled(vectors, [f"labeled {row}" for row in range(len(vectors))], owner[:, None] == np.arange(len(agents)))


def traffic(*groups: np.ndarray, sent: Sequence[int], doubtful: bool = True, agents: int = 2) -> Traffic:
    """Queries of traffic, a group after another, each of which was sent to one agent: -1 is one without labels."""
    agent = np.repeat(sent, [len(group) for group in groups])
    vectors = np.concatenate(groups)
    conversations = [f"query {row}" for row in range(len(vectors))]
    return Traffic(vectors, conversations, agent[:, None] == np.arange(agents), np.full(len(vectors), doubtful))


TWO = labeled(around(0, 60, 1), around(3, 60, 2))


def rows(routed: Traffic, known: Labeled = TWO) -> list[list[int]]:
    """The rows of each gap."""
    return [sorted(gap.rows) for gap in gaps(routed, known)]


def test_a_group_that_no_agent_answers_is_a_gap_and_one_among_an_agents_queries_is_not() -> None:
    routed = traffic(around(0, 10, 3), around(1, 12, 4), around(2, 3, 5), sent=(0, 1, 1))
    assert rows(routed) == [list(range(10, 22))]
    assert gaps(routed, TWO)[0].alike > 0.7
    nobody = traffic(np.zeros((0, 8), np.float32), sent=(0,))
    assert gaps(nobody, TWO) == []


def test_a_pool_without_labels_lacks_what_is_asked_for() -> None:
    none = Labeled(np.zeros((0, 8), np.float32), [], np.zeros((0, 1), np.bool_))
    routed = traffic(around(0, 10, 3), around(1, 12, 4), around(2, 4, 5), sent=(-1, -1, -1), agents=1)
    assert rows(routed, none) == [list(range(10, 22)), list(range(10)), list(range(22, 26))]


def test_queries_unlike_those_of_their_agent_are_a_gap_however_sure_the_router_was() -> None:
    groups = around(0, 30, 3), around(1, 12, 4)
    assert rows(traffic(*groups, sent=(0, 1), doubtful=False)) == [list(range(30, 42))]
    assert rows(traffic(*groups, sent=(0, -1), doubtful=False)) == [], "an agent without labels has them"


def test_doubtful_traffic_that_labels_explain_is_no_gap() -> None:
    """Even if each agent that the labels name has too few of them to be compared with."""
    routed = traffic(around(0, 12, 6, also=5), around(3, 30, 7), sent=(0, 1))
    assert rows(routed) == [list(range(12))]
    small = [around(0, 4, seed, also=5) for seed in range(20, 35)]
    sent = np.pad(routed.sent, ((0, 0), (0, len(small))))
    routed = Traffic(routed.vectors, routed.conversations, sent, routed.doubtful)
    assert rows(routed, labeled(around(0, 60, 1), around(3, 60, 2), *small)) == []


def test_one_conversation_is_no_gap() -> None:
    routed = traffic(around(0, 10, 3), around(1, 12, 4), sent=(0, 1))

    def in_one(count: int) -> Traffic:
        """The same with the last `count` queries in one conversation."""
        conversations = [*routed.conversations[: 22 - count], *["the same"] * count]
        return Traffic(routed.vectors, conversations, routed.sent, routed.doubtful)

    assert rows(in_one(12)) == []
    assert rows(in_one(11)) == [], "one other query says no more"
    assert rows(in_one(3)) == [list(range(10, 22))]


def test_a_group_of_four_needs_clearer_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four queries of traffic and six labeled ones, each of which stands for two thirds of a query of traffic."""
    routed, few = traffic(around(1, 2, 4), around(1, 2, 5), sent=(0, 1)), labeled(around(0, 3, 1), around(3, 3, 2))
    monkeypatch.setattr(module, "AROUND", (5,))  # three others of its group and two labeled ones: a share of 0.69
    assert rows(routed, few) == []
    monkeypatch.setattr(module, "AROUND", (3,))
    assert rows(routed, few) == [[0, 1, 2, 3]]
    assert rows(traffic(around(1, 3, 4), sent=(0,)), few) == []


def test_an_agent_may_get_more_traffic_than_its_labels_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 15 agents has four labels, too few to be compared with, and four queries of traffic."""
    monkeypatch.setattr(module, "AROUND", (100,))
    small = [around(0, 4, seed, also=5) for seed in range(20, 35)]
    known, busy = labeled(around(0, 60, 1), around(3, 60, 2), *small), around(0, 60, 6, also=5)
    to_each = np.repeat(np.eye(17, dtype=np.bool_)[2:], 4, axis=0)
    routed = traffic(busy, sent=(0,), agents=17)
    assert len(rows(routed, known)) == 1
    assert rows(Traffic(routed.vectors, routed.conversations, to_each, routed.doubtful), known) == []


def test_what_varies_within_agents_tells_none_apart() -> None:
    """Each agent's queries lie along axis 7, either way, as those that say yes and those that ask."""
    place = Space.of(labeled(*(np.concatenate([around(a, 40, a, also=7), around(a, 40, 9 + a)]) for a in (0, 1, 2))))
    yes, yes_to_another, asks = around(4, 20, 30, also=7), around(5, 20, 31, also=7), around(4, 20, 32)

    def lead(mine: np.ndarray, other: np.ndarray, same: np.ndarray) -> float:
        """How much more alike the queries of one agent are than those of one manner."""
        return float((mine @ same.T).mean() - (mine @ other.T).mean())

    placed = [place(vectors) for vectors in (yes, yes_to_another, asks)]
    assert lead(*placed) > lead(yes, yes_to_another, asks) + 0.2
    assert np.allclose(np.linalg.norm(placed[0], axis=1), 1, atol=1e-5)


def test_the_queries_of_an_only_agent_keep_their_direction() -> None:
    only = labeled(around(0, 60, 1))
    routed = traffic(around(0, 10, 2), around(1, 12, 3), sent=(0, 0), agents=1)
    assert rows(routed, only) == [list(range(10, 22))]


def test_a_turn_is_compared_with_what_was_said_before_it() -> None:
    messages = [
        Message("user", "a table"),
        Message("assistant", "where?"),
        Message("user", "in Bern"),
        Message("assistant", "when?"),
    ]
    assert spoken(Turn("at nine", messages)) == "a table where? in Bern when? at nine"
    assert spoken(Turn("at nine", [Message("user", "hello"), *messages])) == "a table where? in Bern when? at nine"
    assert spoken("at nine") == "at nine"
    assert conversation(Turn("at nine", messages)) == conversation(Turn("in Bern", messages[:2])) == "a table\nin Bern"
    assert conversation("a table") == "a table"


def test_words_that_tell_texts_from_others() -> None:
    ours = ["reset my password now", "password forgotten again", "a new password please"]
    others = ["my parcel is late", "where is my parcel now", "a new parcel please"]
    assert words_of(ours, others)[0] == "password"
    assert "now" not in words_of(ours, others)


def test_the_most_mixed_pair_is_first() -> None:
    evidence = [(2, 1)] * 9 + [(1, 2)] + [(3, 1)] * 12 + [(4, 5)] * 2 + [(6, 6)] * 9
    found = confusions(evidence, {1: 200, 2: 10, 3: 100, 4: 2, 5: 2})
    assert [one.agents for one in found] == [(1, 2), (1, 3)]
    assert found[0] == Confusion((1, 2), 10, pytest.approx(1.0))


def test_gaps_with_means_alike_are_one() -> None:
    """Three groups: two with means at 50 degrees, a third at a right angle to both."""
    angle = np.radians(50)
    means = np.array([[1.0, 0, 0], [np.cos(angle), np.sin(angle), 0], [0, 0, 1.0]], np.float32)
    vectors = np.repeat(means, 4, axis=0)
    groups = [np.arange(0, 4), np.arange(4, 8), np.arange(8, 12)]
    assert sorted(sorted(rows.tolist()) for rows in module.joined(vectors, groups)) == [[*range(8)], [*range(8, 12)]]
    assert len(module.joined(vectors, [groups[0], groups[2]])) == 2
    assert module.joined(vectors, []) == []
