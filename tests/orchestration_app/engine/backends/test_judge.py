"""A judge's answer: JSON, asked for once more, and no figure at all where it failed."""

import pytest

from orchestration_app.engine.backends import judge, q_table
from training_app.engine.llm import Client, Completion, LLMError, Usage

GOOD = '{"relevance": 1, "accuracy": 0.5, "completeness": 0.5, "fit": 0}'


def told(monkeypatch: pytest.MonkeyPatch, *answers: str | Exception) -> tuple[dict[str, float] | None, int]:
    """What the judge says of these answers, and how often it was asked."""
    left, asked = list(answers), []

    def complete(self: Client, messages: object, schema: object = None) -> Completion:
        asked.append(messages)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Completion(answer, Usage())

    monkeypatch.setattr(Client, "complete", complete)
    with Client("http://llm.test", "m") as client:
        return judge.judge(client, "refund me", "Billing", "done"), len(asked)


def test_it_is_believed_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = told(monkeypatch, f"Sure: {GOOD}")
    assert (found, asked) == ({"relevance": 1.0, "accuracy": 0.5, "completeness": 0.5, "fit": 0.0}, 1)
    assert q_table.reward(found, 0.0, 0.0, 0.0) == 0.5


@pytest.mark.parametrize(
    "bad",
    [
        "no idea",
        '{"relevance": 1}',
        GOOD.replace("0.5", "7", 1),
        GOOD.replace("0.5", "true", 1),
        "[1]",
        LLMError("gone"),
    ],
)
def test_it_is_asked_once_more_and_gives_no_reward_where_it_fails_twice(
    bad: str | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, asked = told(monkeypatch, bad, GOOD)
    assert found is not None
    assert asked == 2
    nothing, asked = told(monkeypatch, bad, bad, GOOD)
    assert (nothing, asked) == (None, 2)
    assert q_table.reward(nothing, 0.0, 0.0, 0.0) is None
