"""How far the search for a scorer is: one number that never falls, whatever each fit reports."""

import numpy as np
import pytest

from training_app.engine.config import Config
from training_app.engine.data.examples import Agent
from training_app.engine.data.rows import Rows
from training_app.engine.reading.encoders import fit_encoder
from training_app.engine.reading.fit_progress import COSTS, STEPS, FitProgress


def test_each_fit_is_its_part_of_the_whole() -> None:
    reported: list[tuple[int, int, str]] = []
    progress = FitProgress(["linear", "sequence", "sequence, draw 2"], lambda *said: reported.append(said))
    progress.of("linear")(1, 2, "fold 1")
    progress.of("sequence")(0, 0, "reading")
    progress.of("sequence, draw 2")(3, 3, "done")
    whole = COSTS["linear"] + 2 * COSTS["sequence"]
    assert reported == [
        (round(STEPS * 0.5 / whole), STEPS, "linear: fold 1"),
        (round(STEPS * 1 / whole), STEPS, "sequence: reading"),
        (STEPS, STEPS, "sequence, draw 2: done"),
    ]


def test_a_fit_that_was_not_planned_is_the_whole() -> None:
    reported: list[int] = []
    FitProgress((), lambda done, *_rest: reported.append(done)).of("embedding")(1, 4, "")
    assert reported == [STEPS // 4]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"encoder": "fast"},
        {"encoder": "linear"},
        {"svm_c": 1.0},
        pytest.param({"encoder": "stack"}, marks=pytest.mark.at_length),
    ],
)
def test_the_number_of_a_whole_search_never_falls(settings: dict[str, object]) -> None:
    words = ["refund", "parcel", "login"]
    texts = [f"{words[i % 3]} please {i} and {words[(i + i // 3) % 3]}" for i in range(72)]
    required = np.array([[word in text for word in words] for text in texts])
    rows = Rows(texts, required, np.ones_like(required))
    agents = [Agent(id=i, name=word.title(), description=f"All about a {word}.") for i, word in enumerate(words)]
    reported: list[float] = []
    fit_encoder(
        Config.from_mapping({"sentences": False, **settings}), rows, [str(i) for i in range(len(texts))],
        rows.take(np.arange(12)), agents=agents, progress=lambda done, total, _said: reported.append(done / total),
    )  # fmt: skip
    assert reported == sorted(reported)
    assert 0 <= reported[0] <= reported[-1] <= 1
