"""One text as a web process reads it: what the batch gives, whatever the terms, and no text is embedded twice."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from orchestration_app.engine.backends import chooser
from orchestration_app.engine.backends.chooser import BackendChooser, Called, ChooserConfig
from orchestration_app.engine.backends.grams import Grams
from training_app.engine.data.examples import Agent
from training_app.engine.reading import sentences

PARTS = {"refund": 0, "parcel": 1, "audit": 2, "proof": 3}


def calls(count: int = 500, seed: int = 3) -> list[Called]:
    rng = np.random.Generator(np.random.PCG64(seed))
    made = []
    for row in range(count):
        agent, place = int(rng.integers(2)), int(rng.integers(3))
        word = list(PARTS)[int(rng.integers(4))]
        success = bool(rng.random() < (0.9 if (PARTS[word] + place) % 2 else 0.3))
        text = f"Be brief.\n\nplease see to the {word} of order {row % 40}, thank you, thank you"
        made.append(Called(text, agent, 10 * agent + place, success, 0.01, category=word))
    return made


@pytest.fixture(scope="module", params=[False, True], ids=["words", "meaning"])
def learned(request: pytest.FixtureRequest) -> BackendChooser:
    config = ChooserConfig(sentences=request.param)
    ended = next(p for p in chooser.train(config, [Agent(0, "A"), Agent(1, "B")], [], calls=calls()) if p.result)
    assert ended.result is not None
    return BackendChooser.load(ended.result.artifact)


@pytest.mark.parametrize("terms", [("kernel", "neighbour"), ("kernel",), ()])
@pytest.mark.parametrize("scale", [0.0, 0.7])
def test_one_text_is_read_as_many_are(learned: BackendChooser, terms: tuple[str, ...], scale: float) -> None:
    assert learned.heads is not None
    served = replace(
        learned, direct=replace(learned.direct, terms=terms, slope=0.8), heads=replace(learned.heads, scale=scale)
    )
    for text in (
        "audit of order 7",
        "Be brief.\n\nplease see to the proof of order 3, thank you, thank you",
        "",
        "…",
        "x " * 3_000,
    ):
        each = served.estimates(text, [1, 0, 5])
        assert set(each) == {0, 1}
        for agent, own in each.items():
            batch = chooser.success_probabilities([text], [str(agent)], served.direct, served.heads)[0]
            named = {key: float(p) for key, p in zip(served.direct.backends, batch, strict=True)}
            assert own == {backend: pytest.approx(named[f"{agent}/{backend}"], abs=2e-6) for backend in own}
            assert len(own) == 3
            assert served.estimate(text, agent) == own


def test_the_vector_that_a_route_has_is_used_again(learned: BackendChooser, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[str] = []
    whole = sentences._embedded

    def counted(texts: list[str]) -> Any:
        embedded.extend(texts)
        return whole(texts)

    sentences._one.cache_clear()
    monkeypatch.setattr(sentences, "_embedded", counted)
    text = "where is the parcel that was promised for Monday"
    sentences.embed([text])  # as a route does
    sentences.embed(["a clause"])
    learned.estimates(text, [0, 1])
    assert embedded == [text, "a clause"]  # once each, with or without meaning


def test_likeness_by_postings_is_the_cosine() -> None:
    texts = ["a parcel and a parcel", "the parcel of a friend", "nothing alike", ""]
    grams, idf = Grams.of(texts)
    dense = np.zeros((len(texts), len(idf)))
    dense[grams.rows, grams.at] = grams.weight
    other, _idf = Grams.of(["a parcel of nothing", "", "the friend"], idf)
    vectors = np.zeros((3, len(idf)))
    vectors[other.rows, other.at] = other.weight
    assert grams.likeness(other) == pytest.approx(vectors @ dense.T)


def test_nobody_is_estimated_for_no_agents(learned: BackendChooser) -> None:
    assert learned.estimates("anything", []) == {}
