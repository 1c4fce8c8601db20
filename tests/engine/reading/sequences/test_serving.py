"""numpy serves what torch trained, to the same answer whatever was read before."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.engine.reading.sequences.orders import SMALL, small_pool
from training_app.engine.reading.sequences import recurrence, sequence
from training_app.engine.reading.sequences.sequence import SequenceMargins, ngram_buckets, split_words
from training_app.engine.reading.sequences.sequence_fit import Network, SequenceScorer


@pytest.mark.at_length
def test_the_votes_of_the_words_explain_a_margin(toy):
    fitted, _, _ = toy
    text = "get kara song and not get lote game"
    everything = fitted.explain(text, top=100)
    margins = fitted.logits([text])[0]
    for agent in range(3):
        votes = [vote for _, vote in everything[agent]]
        assert len(votes) == 8
        assert sum(votes) + fitted.tensors()["bias"][agent] == pytest.approx(margins[agent], abs=1e-3)
        assert np.abs(votes).tolist() == sorted(np.abs(votes).tolist(), reverse=True)
        assert fitted.explain(text, top=2)[agent] == everything[agent][:2]
    assert fitted.explain("") == [[], [], []]


def test_numpy_serves_what_torch_trained():
    """One network through both implementations, with texts of different lengths in one batch."""
    draw = torch.Generator().manual_seed(3)
    network = Network(SMALL, words=4, agents=5, draw=draw)
    with torch.no_grad():
        network.ngrams.copy_(network.ngrams.half().float())
        network.own.copy_(network.own.half().float())
    layers = [
        sequence.Layer(*(p.detach().numpy() for p in (layer.weight, layer.bias)), layer.window, layer.states)
        for layer in network.layers
    ]
    served = SequenceMargins(
        [],
        np.zeros((0, 16), np.float16),
        network.own[1].detach().numpy().astype(np.float16),
        network.ngrams[:512].detach().numpy().astype(np.float16),
        layers,
        sequence.Votes(
            torch.cat([network.speaks, network.looks], dim=1).detach().numpy(),
            network.head_bias.detach().numpy(),
            network.bias.detach().numpy(),
        ),
        np.full(5, np.nan, np.float32),
    )
    texts = ["one", "a text of some more words than the first", "two words", "ещё один, на другом языке: ура!"]
    split = [split_words(text) for text in texts]
    steps = max(map(len, split))
    x, mask = torch.zeros(steps, len(texts), 16), torch.zeros(steps, len(texts), 1)
    for column, words in enumerate(split):
        bags = torch.full((len(words), sequence.MAX_NGRAMS), 512)
        for t, word in enumerate(words):
            buckets = ngram_buckets(word, 512)
            bags[t, : len(buckets)] = torch.tensor(buckets)
        x[: len(words), column] = network.vectors(torch.ones(len(words), dtype=torch.int64), bags)
        mask[: len(words), column] = 1
    expected = network(x, mask).detach().numpy()
    assert np.abs(expected - expected.mean(axis=0)).max() > 0.01  # the texts do differ
    np.testing.assert_allclose(served.logits(texts), expected, atol=1e-4)
    alone = np.concatenate([served.logits([text]) for text in texts])
    np.testing.assert_allclose(alone, expected, atol=2e-5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "\n",
        "?!",
        "🙂🙂",
        "неизвестное слово",
        "播放音乐然后预订餐厅",
        "\ud800",
        "x" * 5_000,
        "play " * 5_000,
        "\x00",
    ],
)
def test_odd_texts_get_finite_margins(toy, text):
    fitted, _, _ = toy
    margins = fitted.logits([text, "get kara song"])
    assert margins.shape == (2, 3)
    assert np.isfinite(margins).all()
    np.testing.assert_allclose(margins[:1], fitted.logits([text]), atol=1e-5)


def test_a_word_kept_from_another_text_scores_as_if_new(toy):
    """Words of earlier texts, and a cache that starts again in the middle of one, change no margin."""
    fitted, texts, _ = toy
    fresh = SequenceMargins.from_tensors(fitted.config(), fitted.tensors())
    expected = fresh.logits(texts[:40])  # a batch takes nothing from the cache
    assert not fresh._products.of_word
    longest = max(len(set(split_words(text))) for text in texts[:40])
    for kept in (longest, longest - 1):  # with one less, the longest text finds no room at all
        fresh._room = kept
        for _ in range(2):
            alone = np.concatenate([fresh.logits([text]) for text in texts[:40]])
            np.testing.assert_allclose(alone, expected, atol=1e-5)
        assert 0 < len(fresh._products.of_word) <= kept


def test_an_answer_is_the_same_to_the_bit_whatever_was_read_before() -> None:
    texts, Y, asked = small_pool()
    # As wide as those of real pools: narrow products are the same in whatever way they are taken.
    fitted = SequenceScorer(width=64, states=96, buckets=64, min_count=1, passes=1).fit(texts, Y, asked, seed=0)
    words = [f"{first}{second}ing" for first in "bdgkl" for second in ("rea", "oa", "ie")]
    alone = {word: fitted._products_of([word]) for word in words}
    fitted.logits([" ".join(words[:7])])
    fitted.logits([" ".join(words[5:])])
    kept, each = fitted._products, len(fitted._blank)
    for word in words:
        start = kept.of_word[word]
        assert np.array_equal(kept.table[start : start + each], alone[word]), word


def test_threads_that_learn_words_and_forget_them_score_as_one_does(toy):
    fitted, texts, _ = toy
    expected = fitted.logits(texts[:60])
    fresh = SequenceMargins.from_tensors(fitted.config(), fitted.tensors())
    fresh._room = 16
    rounds = [text for seed in range(8) for text in np.random.default_rng(seed).permutation(60).tolist()]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda row: fresh.logits([texts[row]])[0], rounds))
    np.testing.assert_allclose(found, expected[rounds], atol=1e-5)


@pytest.mark.parametrize(("steps", "blocks"), [(1, 1), (1, 5), (4, 1), (3, 4)])
def test_blocks_of_steps_side_by_side_are_the_recurrence_one_by_one(steps, blocks):
    rng = np.random.default_rng(0)
    keep, fed = rng.random((steps, blocks, 6)), rng.normal(size=(steps, blocks, 6))
    c, expected = np.zeros(6), np.empty_like(fed)
    for k in range(blocks):
        for j in range(steps):
            c = expected[j, k] = keep[j, k] * c + fed[j, k]
    found = fed.astype(np.float32)
    recurrence.scan(keep.astype(np.float32), found)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_first_layer_as_wide_as_its_input_carries_it_on():
    """Three groups of columns: the highway is the word's own vector."""
    draw = torch.Generator().manual_seed(4)
    network = Network(SequenceScorer(width=8, states=8, buckets=64, window=3), words=0, agents=2, draw=draw)
    layers = [
        sequence.Layer(*(p.detach().numpy() for p in (layer.weight, layer.bias)), layer.window, layer.states)
        for layer in network.layers
    ]
    vectors = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float16)
    served = SequenceMargins(
        list("abcdef"),
        vectors,
        np.zeros(8, np.float16),
        np.zeros((64, 8), np.float16),
        layers,
        sequence.Votes(
            torch.cat([network.speaks, network.looks], dim=1).detach().numpy(),
            np.zeros(3, np.float32),
            np.zeros(2, np.float32),
        ),
        np.full(2, np.nan, np.float32),
    )
    x = torch.from_numpy(vectors.astype(np.float32))[:, None]
    expected = network(x, torch.ones(6, 1, 1)).detach().numpy()
    np.testing.assert_allclose(served.logits(["a b c d e f"]), expected, atol=1e-5)


def test_a_model_from_before_reads_words_without_their_marks(toy):
    config, tensors = toy[0].config(), toy[0].tensors()
    from_before = SequenceMargins.from_tensors({k: v for k, v in config.items() if k != "marks"}, tensors)
    assert config["marks"]
    assert not from_before.config()["marks"]
    for texts in (["चालू"], ["चालू", "चालू"]):
        spelled = toy[0].logits([" ".join(text) for text in texts])
        assert np.abs(from_before.logits(texts) - spelled).max() < 1e-5
        assert np.abs(toy[0].logits(texts) - spelled).max() > 1e-5


def test_no_texts_give_no_margins(toy):
    assert toy[0].logits([]).shape == (0, 3)


def test_words_of_any_script():
    assert split_words("Ｐlay 3 songs, please!") == ["play", "3", "songs", ",", "please", "!"]
    assert split_words("播放 jazz") == ["播", "放", "jazz"]
    assert split_words("बत्ती चालू करो।") == ["बत्ती", "चालू", "करो", "।"]
    assert split_words("चालू", marks=False) == list("चालू")
    assert len(split_words("a " * 10_000)) == sequence.MAX_WORDS
    for word in ["a", "x" * 100, "播", "\ud800"]:
        buckets = ngram_buckets(word, 7)
        assert 1 <= len(buckets) <= sequence.MAX_NGRAMS
        assert set(buckets) <= set(range(7))


def test_serving_imports_neither_torch_nor_scikit_learn():
    root = Path(sequence.__file__).parents[4]
    code = (
        "import sys, training_app.engine.reading.sequences.sequence; "
        "print({'torch', 'sklearn', 'django', 'scipy'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
