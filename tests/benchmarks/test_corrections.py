"""What the benchmark of corrections counts: words of test texts, and those that are read as another one."""

from benchmarks.corrections import corrected
from training_app.engine.data.examples import Example


def test_a_slip_counts_and_a_word_that_exists_does_not() -> None:
    texts = {"a": ("my insurance is late", "train"), "b": ("the form arrived", "train"), "c": ("a song", "train")}
    texts |= {"d": ("my insurace came from there", "test"), "e": ("nothing new", "val")}
    examples = [Example(name, text, frozenset(), split=split) for name, (text, split) in texts.items()]
    result = corrected("pool", examples, 2)
    assert (result.texts, result.words) == (2, 5)
    assert result.changes == {("insurace", "insurance"): 1}
    assert not corrected("pool", examples[1:], 2).changes  # nobody wrote of insurance
