"""What the sequence scorer learns, and that it learns the same whatever the machine."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.engine.reading.sequences.orders import QUICK, small_pool
from training_app.engine.data.rows import Rows
from training_app.engine.reading import scorers
from training_app.engine.reading.sequences import sequence, sequence_fit
from training_app.engine.reading.sequences.joining import Joining
from training_app.engine.reading.sequences.recurrence_fit import Recurrence
from training_app.engine.reading.sequences.sequence import ngram_buckets
from training_app.engine.reading.sequences.sequence_fit import Network, SequenceScorer


def joining(target: list[list[int]], share: float = 1.0, counted: list[list[int]] | None = None) -> Joining:
    y = torch.tensor(target, dtype=torch.float32)
    known = torch.ones_like(y) if counted is None else torch.tensor(counted, dtype=torch.float32)
    return Joining.between([torch.tensor([row + 1]) for row in range(len(y))], y, known, share)


def test_a_joined_row_needs_the_agents_of_both() -> None:
    target = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 1, 0]] * 20
    rows, draw, seen = joining(target), torch.Generator().manual_seed(0), set()
    texts, y, known = rows.of(list(range(100)), draw)
    for row, (words, needed) in enumerate(zip(texts, y.bool(), strict=True)):
        of_parts = torch.stack([torch.tensor(target[word - 1]).bool() for word in words.tolist()])
        assert torch.equal(needed, of_parts.any(dim=0))
        assert row + 1 in words.tolist()
        if len(words) == 2:
            seen.add("before" if int(words[1]) == row + 1 else "after")
            assert sorted(of_parts.sum(dim=1).tolist())[0] <= 1
    assert seen == {"before", "after"}
    assert bool((known == 1).all())
    # Two rows of five need several agents.
    assert 20 < sum(len(words) == 2 for words in texts) < 60


def test_no_row_is_joined_to_what_the_pool_never_asks() -> None:
    draw = torch.Generator().manual_seed(0)
    for target in ([[1, 0], [0, 1]] * 20, [[1, 1, 0], [0, 1, 1]] * 20):  # one agent always; never one
        texts, y, _ = joining(target).of(list(range(40)), draw)
        assert all(len(words) == 1 for words in texts)
        assert torch.equal(y, torch.tensor(target, dtype=torch.float32))
    target = [
        [1, 0, 0],
        [0, 1, 1],
    ] * 20  # two agents at most: a row that needs two is joined to none that needs the third
    texts, y, _ = joining(target, share=2.0).of(list(range(40)), draw)
    assert any(len(words) == 2 for words in texts)
    assert all(len(words) == 1 for words, needed in zip(texts, target, strict=True) if sum(needed) == 2)
    assert int(y.sum(dim=1).max()) == 2


def test_who_was_not_asked_about_one_half_is_not_known_to_be_unneeded_by_the_whole() -> None:
    target, counted = [[1, 0, 0], [0, 1, 1]] * 20, [[1, 1, 0], [1, 1, 1]] * 20
    rows = replace(joining(target, counted=counted), share=1.0, max_agents=3)
    texts, y, known = rows.of([1] * 40, torch.Generator().manual_seed(0))
    assert all(len(words) == 2 for words in texts)
    assert bool((y == 1).all())
    assert bool((known == 1).all())  # needed by one half is known, whatever the other was asked about
    _, y, known = rows.of([0] * 40, torch.Generator().manual_seed(0))
    assert bool((y[:, 0] == 1).all())
    assert bool((known[:, 1] == 1).all())
    assert bool((known[:, 2] == 0).all())


@pytest.mark.at_length
def test_it_learns_an_order_that_a_bag_of_words_cannot_see(toy):
    fitted, texts, Y = toy
    found = (fitted.logits(texts) > 0) == Y
    assert found.all(axis=1).mean() > 0.95
    # The same words, so the same bag, and two answers.
    one, other = "not get kara song and get lote game", "get kara song and not get lote game"
    assert sorted(one.split()) == sorted(other.split())
    assert (fitted.logits([one, other]) > 0).tolist() == [[False, True, False], [True, False, False]]


@pytest.mark.parametrize(("inputs", "window"), [(3, 3), (4, 1)])  # a highway of its own, and the input as highway
def test_a_layers_hand_written_gradient_is_that_of_its_equations(inputs: int, window: int):
    n, half = 4, 2
    layer = Recurrence(inputs, n, window, torch.Generator().manual_seed(1)).double()
    x = torch.randn(5, 3, inputs, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    mask = (torch.arange(5)[:, None] < torch.tensor([5, 3, 1])).double()[:, :, None]
    x = (x * mask).requires_grad_()
    places = torch.nn.functional.pad(x, (0, 0, 0, 0, window // 2, window // 2))
    projected = torch.cat([places[k : k + 5] for k in range(window)], dim=2) @ layer.weight + layer.bias
    candidate, forget, output = projected[..., :n], *projected[..., n : 3 * n].sigmoid().split(n, dim=2)
    c = [[torch.zeros(3, half, dtype=torch.double)] for _ in range(2)]
    for way, steps in enumerate((range(5), reversed(range(5)))):
        for t in steps:
            columns = slice(way * half, (way + 1) * half)
            f = forget[t, :, columns]
            c[way].append(f * c[way][-1] + (1 - f) * candidate[t, :, columns] * mask[t])
    memory = torch.cat([torch.stack(c[0][1:]), torch.stack(c[1][:0:-1])], dim=2)
    highway = projected[..., 3 * n :] if inputs != n else x
    expected = (output * memory.tanh() + (1 - output) * highway) * mask
    found = layer(x, mask)
    torch.testing.assert_close(found, expected)
    weigh = torch.randn(5, 3, n, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    wanted = [x, layer.weight, layer.bias]
    slopes = torch.autograd.grad((expected * weigh).sum(), wanted)
    torch.testing.assert_close(torch.autograd.grad((found * weigh).sum(), wanted), slopes)


def test_words_of_a_passage_that_many_texts_share_are_as_rare_as_the_passage():
    rng = np.random.default_rng(0)
    passages = [
        f"play {name}{number} by {name} now" for number, name in enumerate(["kara", "lote", "misu", "nudo"] * 6)
    ]
    joined = [f"{passages[i]} and {passages[j]}" for _ in range(6) for i, j in rng.permutation(24).reshape(12, 2)]
    once, often = (
        SequenceScorer(width=8, states=8, buckets=64, passes=1).fit(texts, *np.ones((2, len(texts), 1), bool), seed=0)
        for texts in (passages, joined)
    )
    assert set(often.config()["words"]) - {"and"} == set(once.config()["words"])
    assert "kara0" not in often.config()["words"]


def test_a_large_pool_learns_words_without_some_of_their_ngrams_but_never_without_all():
    large = SequenceScorer.for_rows(20_000)
    bags = torch.arange(1_000).reshape(100, 10)
    thin = large._thinned(bags, large.buckets, torch.Generator().manual_seed(0))
    lost = thin == large.buckets
    assert 0.2 < lost[:, 1:].float().mean() < 0.4
    assert torch.equal(thin[~lost], bags[~lost])
    assert not lost[:, 0].any()
    assert torch.equal(SequenceScorer.for_rows(700)._thinned(bags, large.buckets, torch.Generator()), bags)


def test_an_update_passes_over_the_ngrams_that_occur_and_the_others_stay_as_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts, Y, asked = small_pool()
    lexicons: list[sequence_fit.Lexicon] = []
    made = sequence_fit._lexicon
    monkeypatch.setattr(sequence_fit, "_lexicon", lambda *a: lexicons.append(made(*a)) or lexicons[-1])
    scorer = replace(QUICK, buckets=4_096)
    some = Y.any(axis=1)
    narrow = scorer.fit([t for t, kept in zip(texts, some, strict=True) if kept], Y[some], asked[some], seed=5)
    used = lexicons[-1].buckets.tolist()
    assert set(used) >= set(ngram_buckets("table", 4_096))
    assert len(used) < 1_000
    drawn = Network(scorer, len(lexicons[-1].own_words), 2, torch.Generator().manual_seed(5)).ngrams[:-1].detach()
    stayed = (narrow.tensors()["ngrams"] == drawn.half().numpy()).all(axis=1)
    assert np.delete(stayed, used).all()
    assert not stayed[ngram_buckets("table", 4_096)].any()

    def all_of_them(*arguments: Any) -> sequence_fit.Lexicon:
        lexicon = made(*arguments)
        numbers = torch.cat([lexicon.buckets, torch.tensor([4_096])])
        return replace(lexicon, buckets=torch.arange(4_096), bags=numbers[lexicon.bags])

    few = scorer.fit(texts, Y, asked, seed=5).logits(texts)
    monkeypatch.setattr(sequence_fit, "_lexicon", all_of_them)
    np.testing.assert_allclose(scorer.fit(texts, Y, asked, seed=5).logits(texts), few, atol=1e-5)


def test_the_same_seed_gives_the_same_scorer_and_another_seed_another():
    texts, Y, asked = small_pool()
    first, again, other = (QUICK.fit(texts, Y, asked, seed=seed).logits(texts) for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.at_length
def test_folds_on_several_cores_are_those_of_one(monkeypatch):
    texts, Y, asked = small_pool()
    fit = SequenceScorer.fit
    under_way: list[int] = []
    most: list[int] = []
    found: list[scorers.CrossFit] = []

    def counted(self, *arguments, **named):
        under_way.append(1)
        most[-1] = max(most[-1], len(under_way))
        time.sleep(0.05)
        fitted = fit(self, *arguments, **named)
        under_way.pop()
        return fitted

    monkeypatch.setattr(SequenceScorer, "fit", counted)
    for cores in (1, 3):
        monkeypatch.setattr(scorers, "cores", lambda cores=cores: cores)
        most.append(0)
        found.append(scorers.cross_fit(QUICK, Rows(texts, Y, asked), texts, seed=5))
    one, three = found
    assert most[0] == 1 < most[1] <= 3
    assert np.array_equal(one.margins, three.margins)
    assert np.array_equal(one.fitted.logits(texts), three.fitted.logits(texts))


def test_a_fit_takes_one_thread_whatever_there_are():
    texts, Y, asked = small_pool()
    torch.set_num_threads(2)
    used = set()
    QUICK.fit(texts, Y, asked, seed=5, progress=lambda *told: used.add(torch.get_num_threads()))
    assert used == {1}


def test_a_fit_neither_uses_nor_moves_the_global_generators():
    texts, Y, asked = small_pool()
    torch.manual_seed(0)
    np.random.seed(0)  # the global generator, of which fitting must not draw
    before = torch.get_rng_state().clone(), np.random.get_state()[1].tolist()
    first = QUICK.fit(texts, Y, asked, seed=5).logits(texts)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    torch.manual_seed(1)
    assert np.array_equal(QUICK.fit(texts, Y, asked, seed=5).logits(texts), first)


def test_few_rows_are_learnt_by_a_smaller_network_in_fewer_updates():
    few, many = SequenceScorer.for_rows(736), SequenceScorer.for_rows(40_000)
    assert (few.states, few.layers) < (many.states, many.layers)
    assert few.schedule(736)[1] == 500
    assert (few.gram_dropout, many.gram_dropout) == (0.0, 0.3)
    assert replace(many, gram_dropout=0.0) == SequenceScorer()
    assert many.schedule(40_000)[1] == 1_500
    assert few.schedule(40) == (16, 100)  # forty passes at most


def test_an_agent_of_one_class_and_answers_that_were_not_asked():
    """Agent 0 is always required, 1 never, 2 was never asked; 3 has Y set only where it was not asked."""
    texts, _, _ = small_pool()
    n = len(texts)
    Y = np.zeros((n, 5), bool)
    asked = np.ones((n, 5), bool)
    Y[:, 0], asked[:, 2] = True, False
    Y[::2, 3], asked[::2, 3] = True, False
    Y[::3, 4] = True
    margins = QUICK.fit(texts, Y, asked, seed=0).logits(["play", "something else"])
    assert np.array_equal(margins[0, :4], margins[1, :4])
    assert np.isfinite(margins).all()
    assert margins[0, 0] > 2
    assert margins[0, 1] < -2
    assert margins[0, 2] == 0
    assert margins[0, 3] < -2


def test_answers_that_were_not_asked_teach_nothing():
    texts, Y, asked = small_pool()
    asked = asked.copy()
    asked[:6, 1] = False
    flipped = Y.copy()
    flipped[:6, 1] ^= True
    one, other = (QUICK.fit(texts, labels, asked, seed=0).logits(texts) for labels in (Y, flipped))
    assert np.array_equal(one, other)


def test_hollow_texts_are_made_only_where_none_is_an_answer(monkeypatch):
    made = []
    original = SequenceScorer._hollowed
    monkeypatch.setattr(SequenceScorer, "_hollowed", lambda *a: made.append(1) or original(*a))
    texts, Y, asked = small_pool()
    QUICK.fit(texts, Y, asked, seed=0)
    assert made
    made.clear()
    some = Y.any(axis=1)
    QUICK.fit([text for text, kept in zip(texts, some, strict=True) if kept], Y[some], asked[some], seed=0)
    assert not made


def test_two_hundred_agents():
    texts = [f"word{i} here" for i in range(200)]
    Y = np.eye(200, dtype=bool)
    fitted = QUICK.fit(texts, Y, np.ones_like(Y), seed=0)
    assert fitted.logits(texts[:3]).shape == (3, 200)
    assert fitted.agents == 200


def test_progress_is_told_and_may_cancel():
    texts, Y, asked = small_pool()
    told = []
    SequenceScorer(width=8, states=8, buckets=64, passes=20, batch_size=6).fit(
        texts, Y, asked, seed=0, progress=lambda done, total, message: told.append((done, total))
    )
    assert told == [(20, 60), (40, 60), (60, 60)]

    def cancel(done: int, total: int, message: str) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        QUICK.fit(texts, Y, asked, seed=0, progress=cancel)


def test_validation_stops_training_and_keeps_the_best_weights(monkeypatch):
    """Validation answers are the training's opposite: the better it learns, the worse it is there."""
    texts, Y, asked = small_pool()
    scorer = SequenceScorer(width=8, states=8, buckets=64, min_count=1, batch_size=6, passes=60, learning_rate=3e-2)
    losses: list[float] = []
    original = SequenceScorer._loss
    monkeypatch.setattr(SequenceScorer, "_loss", lambda *a: losses.append(original(*a)) or losses[-1])
    kept = scorer.fit(texts, Y, asked, seed=0, validation=(texts, ~Y, asked))
    assert len(losses) < 20  # of twenty checks
    assert min(losses) < losses[-1]
    assert original(scorer, kept, texts, ~Y, asked) == pytest.approx(min(losses), abs=1e-6)


def test_no_texts_cannot_be_learnt_from():
    with pytest.raises(ValueError, match="at least one labeled text"):
        QUICK.fit([], np.zeros((0, 2), bool), np.zeros((0, 2), bool), seed=0)


@pytest.mark.at_length
def test_a_fit_imports_no_compiler() -> None:
    code = (
        "import sys; import numpy as np; "
        "from training_app.engine.reading.sequences.sequence_fit import SequenceScorer; "
        "Y = np.ones((4, 2), bool); "
        "SequenceScorer(width=8, states=8, buckets=64, passes=1).fit(['a b', 'c d'] * 2, Y, Y, seed=0); "
        "print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    root = Path(sequence.__file__).parents[4]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "False"]
