"""A sequence scorer is stored and loaded without a change, and a damaged one is refused."""

import numpy as np
import pytest

from tests.engine.reading.sequences.orders import QUICK, small_pool
from training_app.engine.reading.scorers import FittedScorer, Scorer, load_scorer
from training_app.engine.reading.sequences.sequence import SequenceMargins
from training_app.engine.reading.sequences.sequence_fit import SequenceScorer


def test_it_is_stored_and_loaded_without_a_change(toy):
    fitted, texts, _ = toy
    loaded = load_scorer(fitted.kind, fitted.config(), fitted.tensors())
    assert isinstance(loaded, FittedScorer)
    assert np.array_equal(loaded.logits(texts), fitted.logits(texts))
    assert isinstance(SequenceScorer(), Scorer)


@pytest.mark.parametrize("damage", ["missing", "cut", "words"])
def test_a_damaged_artifact_is_refused_by_name(toy, damage):
    fitted, _, _ = toy
    config, tensors = fitted.config(), dict(fitted.tensors())
    if damage == "missing":
        del tensors["heads"]
    elif damage == "cut":
        tensors["layer1.weight"] = tensors["layer1.weight"][:-1]
    else:
        config["words"] = config["words"][:-1]
    name = {"missing": "heads", "cut": "layer1.weight", "words": "vectors"}[damage]
    with pytest.raises(ValueError, match=name):
        SequenceMargins.from_tensors(config, tensors)


def test_one_class_agents_are_stored_in_finite_numbers():
    texts, Y, asked = small_pool()
    Y[:, 1] = True
    fitted = QUICK.fit(texts, Y, asked, seed=0)
    tensors = fitted.tensors()
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())
    loaded = load_scorer(fitted.kind, fitted.config(), tensors)
    assert np.array_equal(loaded.logits(texts), fitted.logits(texts))
    assert len(set(loaded.logits(texts)[:, 1].tolist())) == 1
