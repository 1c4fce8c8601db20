"""Flips in conversations, worked by hand."""

import numpy as np
import pytest

from training_app.engine.data.conversations import Message, text_of
from training_app.engine.judging.flips import Answered, figures


def test_figures_of_a_conversation() -> None:
    said: list[Message] = []
    texts = []
    for words, answer in (("table", "when?"), ("seven", "where?"), ("here", "done."), ("film", "which?"), ("that", "")):
        texts.append(text_of(words, said))
        said += [Message("user", words), Message("assistant", answer)]
    required = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]], np.bool_)
    sets = np.array([[1, 0], [0, 1], [1, 0], [1, 0], [0, 1]], np.bool_)
    found = figures(Answered(sets, np.arange(-1, 4)), required, texts)
    assert found is not None
    # Turns 1, 2 and 4 have the labels of the turn before, and all of them were answered with other agents.
    assert (found["flip_rate"]["turns"], found["flip_rate"]["mean"]) == (3, 1.0)
    assert found["flips_from_right"]["turns"] == 1
    assert found["replies_stay"]["mean"] == 0.0
    # The film is asked for in turn 3 and found in turn 4.
    assert (found["switches_found"]["turns"], found["switches_found"]["mean"]) == (1, 1.0)
    assert found["exact"]["mean"] == pytest.approx(2 / 4)
    assert figures(Answered(sets[:1], np.array([-1])), required[:1], texts[:1]) is None
