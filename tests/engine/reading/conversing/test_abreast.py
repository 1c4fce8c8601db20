"""Several linear models in one pass: what each says is what it says alone, to the bit."""

import random

import numpy as np
import pytest

from training_app.engine.data.arrays import FloatArray
from training_app.engine.reading.conversing.abreast import Abreast
from training_app.engine.reading.linear import fit_tfidf
from training_app.engine.reading.text import LinearMargins

WORDS = [
    "a",
    "book",
    "of",
    "seven",
    "tables",
    "for",
    "one",
    "train",
    "to the",
    "old town's",
    "hotel,",
    "12",
    "films;",
    "again?",
]


def text(rng: random.Random, most: int = 30) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


@pytest.fixture(scope="module")
def models() -> list[LinearMargins]:
    """Four, of other vocabularies and other numbers of columns."""
    rng, draw = random.Random(0), np.random.default_rng(0)
    made = []
    for columns in (4, 5, 3, 3):
        tfidf, _ = fit_tfidf([text(rng) for _ in range(20)])
        weights: FloatArray = draw.normal(size=(tfidf.size, columns)).astype(np.float32)
        made.append(LinearMargins(tfidf, weights, np.zeros(columns, np.float32)))
    return made


def test_each_says_what_it_says_alone(models: list[LinearMargins]) -> None:
    abreast, rng = Abreast(models), random.Random(1)
    for _ in range(50):
        texts = [text(rng) if rng.random() < 0.8 else "" for _ in models]
        said = abreast.margins(texts)
        assert said.shape == (4, 5)
        for model, found, own in zip(models, said, texts, strict=True):
            columns = len(model.bias)
            expected = model.logits_of(own) if own else np.zeros(columns, np.float32)
            np.testing.assert_array_equal(found[:columns], expected)
            assert not found[columns:].any()


def test_fewer_texts_than_models_and_more(models: list[LinearMargins]) -> None:
    alone = Abreast(models).margins(["one train"])
    assert alone.shape == (1, 5)
    np.testing.assert_array_equal(alone[0, :4], models[0].logits_of("one train"))
    more = Abreast(models[:1]).margins(["one train", "to the old town", "", "again"])
    np.testing.assert_array_equal(more, alone[:, :4])


def test_a_text_of_nothing_known_says_nothing(models: list[LinearMargins]) -> None:
    assert not Abreast(models).margins(["\u4e00", "", "\u4e00 \u4e00", ""]).any()


def test_its_models_save_and_explain_as_those_it_was_given(models: list[LinearMargins]) -> None:
    for given, own in zip(models, Abreast(models).models, strict=True):
        assert own.config() == given.config()
        for name, array in given.tensors().items():
            np.testing.assert_array_equal(own.tensors()[name], array)
            assert own.tensors()[name].flags.c_contiguous
        assert own.explain("one train to the old town") == given.explain("one train to the old town")
