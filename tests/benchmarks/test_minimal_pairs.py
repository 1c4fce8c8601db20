"""The pairs of opposite words are what they should be, and a part of them is trained and routed."""

import pytest

from benchmarks.minimal_pairs import LANGUAGES, MOST, measure, opposites, pool


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_thirty_pairs_whose_texts_no_training_query_has(language: str) -> None:
    words = opposites(language)
    pairs = [pair for each in words for pair in each.test]
    assert len(pairs) == 30
    assert all(first != second for first, second in pairs)
    trained = {text for each in words for pair in each.training for text in pair}
    assert trained.isdisjoint(text for pair in pairs for text in pair)
    agents, examples = pool(language)
    assert len(agents) == 12
    assert {split: sum(e.split == split for e in examples) for split in ("train", "val", "test")} == {
        "train": 144, "val": 72, "test": 60,
    }  # fmt: skip


@pytest.mark.parametrize("language", ["ru", "zh"])
def test_on_and_off_are_not_swapped(language: str) -> None:
    quick = {"encoder": "linear", "svm_c": "1", "folds": "5", "total_steps": "50", "sentences": "false"}
    result = measure(language, quick, some=2)
    assert result.queries == 20
    assert len(result.sure) <= MOST * result.queries
    assert result.corrected == 0
    assert result.right >= 14
