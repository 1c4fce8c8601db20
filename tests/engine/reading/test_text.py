from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from tests.engine.synthetic import examples
from training_app.engine.reading.linear import LinearScorer, choose_linear, fit_tfidf
from training_app.engine.reading.scorers import load_scorer, prior_log_odds
from training_app.engine.reading.text import Grams, LinearMargins, TfIdf, single_words

TEXTS = [e.text for e in examples(80)]
ODD = [
    "",
    "   ",
    "a",
    "İstanbul ǅ ß ﬁ ŉ",
    "e\u0301 é naïve",
    "日本語 テキスト です",
    "🙂🙂 🙂 👨‍👩‍👧",
    "\u1680ok\x1c there\x85you\u200b",
    "١٢٣ مرحبا",
    "refund refund refund my invoice " * 300,
    "Unknown_word_42 x-y z",
]


@pytest.mark.parametrize(
    ("words", "characters", "keep", "least"), [((1, 2), (2, 5), 0, 1), ((1, 1), (3, 5), 0, 1), ((1, 3), (2, 3), 0, 2)]
)
def test_features_equal_scikit_learns(words: tuple, characters: tuple, keep: int, least: int) -> None:
    train = TEXTS + ODD
    by_word = TfidfVectorizer(
        tokenizer=single_words, token_pattern=None, ngram_range=words, sublinear_tf=True, min_df=least
    )
    by_character = TfidfVectorizer(analyzer="char_wb", ngram_range=characters, sublinear_tf=True, min_df=least)
    expected = sp.hstack([by_word.fit_transform(train), by_character.fit_transform(train)]).tocsr()
    tfidf, fitted = fit_tfidf(
        train, word_range=words, character_range=characters, max_features=keep, min_documents=least
    )
    assert tfidf.words == list(by_word.get_feature_names_out())
    assert tfidf.characters == list(by_character.get_feature_names_out())
    assert abs(fitted - expected).max() < 1e-6
    starts, indices, values = tfidf.rows(train)
    assert abs(sp.csr_matrix((values, indices, starts), shape=expected.shape) - expected).max() < 1e-6
    for i, text in enumerate(train):
        row = np.zeros(tfidf.size, np.float32)
        at, value = tfidf.features(text)
        row[at] = value
        np.testing.assert_allclose(row, expected[i].toarray()[0], atol=1e-6)


def test_unseen_texts_equal_scikit_learns() -> None:
    by_word = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(TEXTS)
    by_character = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True).fit(TEXTS)
    tfidf, _ = fit_tfidf(TEXTS)
    expected = sp.hstack([by_word.transform(ODD), by_character.transform(ODD)]).toarray()
    starts, indices, values = tfidf.rows(ODD)
    found = sp.csr_matrix((values, indices, starts), shape=expected.shape).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_max_features_keeps_the_most_frequent_of_each_block() -> None:
    tfidf, _ = fit_tfidf(["b b b a a c", "b a"], word_range=(1, 1), character_range=(2, 2), max_features=4)
    assert tfidf.words == []  # scikit-learn's tokens have two letters
    assert tfidf.characters == [" a", " b", "a ", "b "]


def test_texts_without_a_word_or_character_cannot_be_learnt_from() -> None:
    with pytest.raises(ValueError, match="no word"):
        fit_tfidf(["", "  "])


@pytest.fixture(scope="module")
def fitted() -> LinearMargins:
    rows = examples(120)
    y = np.array([[a in e.required for a in (0, 3, 4, 7, 9)] for e in rows])
    asked = np.ones_like(y)
    asked[::2, 1] = False
    return LinearScorer().fit([e.text for e in rows], y, asked, seed=0)


def test_margins_of_one_text_are_those_of_a_batch(fitted: LinearMargins) -> None:
    texts = TEXTS + ODD
    batch = fitted.logits(texts)
    assert batch.dtype == np.float32
    assert np.isfinite(batch).all()
    np.testing.assert_allclose(batch, np.stack([fitted.logits_of(text) for text in texts]), atol=5e-6)
    assert fitted.logits([]).shape == (0, 5)


def test_an_agent_of_one_class_gets_its_priors_log_odds(fitted: LinearMargins) -> None:
    assert np.unique(fitted.logits(TEXTS)[:, 4]).tolist() == pytest.approx([np.log(0.5 / 120.5)], rel=1e-5)


def test_rows_that_were_not_asked_play_no_part() -> None:
    texts = ["refund the invoice", "track my parcel"] * 10
    y = np.array([[True], [False]] * 10)
    asked = np.ones_like(y)
    wrong = y.copy()
    wrong[:6] = ~wrong[:6]
    asked[:6] = False
    right = LinearScorer().fit(texts, y, asked, seed=0)
    assert np.array_equal(right.logits(texts), LinearScorer().fit(texts, wrong, asked, seed=0).logits(texts))
    assert prior_log_odds(wrong, asked) == pytest.approx([0.0])


def test_saved_and_loaded_it_says_the_same(fitted: LinearMargins) -> None:
    again = load_scorer("linear", fitted.config(), fitted.tensors())
    assert np.array_equal(again.logits(TEXTS), fitted.logits(TEXTS))


@pytest.mark.parametrize(
    ("key", "value"),
    [("words", None), ("words", [1]), ("characters", ["a"]), ("word_range", [2, 1]), ("character_range", "x")],
)
def test_parts_that_do_not_fit_are_refused(fitted: LinearMargins, key: str, value: object) -> None:
    config = {**fitted.config(), key: value}
    with pytest.raises((ValueError, TypeError)):
        load_scorer("linear", config, fitted.tensors())


def test_explanations_name_what_weighs_most(fitted: LinearMargins) -> None:
    parts = fitted.explain("please refund my invoice", top=5)
    names = [name for name, _ in parts[0]]
    assert len(names) == 5
    assert any("refund" in name or "invoice" in name or "inv" in name for name in names)
    weights = [abs(weight) for _, weight in parts[0]]
    assert weights == sorted(weights, reverse=True)


def test_grams_are_found_as_in_a_dictionary_in_a_third_of_its_memory() -> None:
    texts = [f"ab{number:x}"[-5:] + "ж" * (number % 3) for number in range(4_000)]
    grams = Grams(texts)
    assert list(grams) == texts
    wanted = ["", "ж", texts[7], "none", texts[3_999], texts[0], texts[7]]
    places, known = grams.lookup(wanted)
    assert places.tolist() == [7, 3_999, 0, 7]
    assert known.any(axis=1).tolist() == [False, False, True, False, True, True, True]
    assert Grams([]).lookup(["a", ""])[0].tolist() == []
    assert Grams(["a"]).lookup(["b", "a"])[0].tolist() == [0]
    assert Grams(["b", "a", "a", "a"]).lookup(["a", "b"])[0].tolist() == [1, 0]
    held = sys.getsizeof(grams._text) + sum(a.nbytes for a in (grams._ends, grams._places, grams._hashes, grams._first))
    dictionary = {text: place for place, text in enumerate(texts)}
    assert held < (sys.getsizeof(dictionary) + sum(map(sys.getsizeof, texts))) / 3


def test_marks_belong_to_their_letters() -> None:
    assert single_words("बत्ती चालू करो।") == ["बत्ती", "चालू", "करो"]
    assert single_words("اقرأ كِتَاب") == ["اقرأ", "كِتَاب"]
    assert single_words("cafe\u0301 x") == ["cafe\u0301"]
    assert single_words("ปิดไฟ") == list("ปิดไฟ")


def test_a_model_from_before_reads_words_without_their_marks() -> None:
    texts = ["बत्ती चालू करो", "बत्ती बंद करो", "पानी चालू करो", "पानी बंद करो"]
    tfidf = TfIdf(["चालू", "बंद", "बत"], [" ब"], np.ones(4, np.float32), (1, 1), (2, 2))
    model = LinearMargins(tfidf, np.ones((4, 1), np.float32), np.zeros(1, np.float32))
    config, tensors = model.config(), model.tensors()
    of_today = LinearMargins.from_tensors(config, tensors)
    from_before = LinearMargins.from_tensors({k: v for k, v in config.items() if k != "marks"}, tensors)
    assert [of_today.tfidf.counted(text)[2] for text in texts] == [1, 1, 1, 1]
    assert [from_before.tfidf.counted(text)[2] for text in texts] == [1, 1, 0, 0]
    assert "marks" in from_before.config()
    assert not from_before.config()["marks"]


def test_the_commonest_words_come_first() -> None:
    tfidf, _ = fit_tfidf(["refund please", "refund now", "refund it please"], word_range=(1, 2))
    assert tfidf.commonest_words(2) == ["refund", "please"]
    assert not [word for word in tfidf.commonest_words(99) if " " in word]


def test_the_memo_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_app.engine.reading.text._KEPT_TOKENS", 3)
    tfidf, _ = fit_tfidf(TEXTS)
    for i in range(10):
        tfidf.features(f"token{i}")
    assert len(tfidf._kept) == 3
    assert tfidf.features("token9")[0].size


def test_the_choice_of_features_is_deterministic_and_reported() -> None:
    rows = examples(60)
    y = np.array([[a in e.required for a in (0, 3, 4, 7)] for e in rows])
    groups = [str(i) for i in range(60)]
    texts = [e.text for e in rows]
    scorer, report = choose_linear(texts, y, np.ones_like(y), groups, seed=1)
    again, _ = choose_linear(texts, y, np.ones_like(y), groups, seed=1)
    assert (scorer.c, scorer.word_range) == (again.c, again.word_range)
    assert len(report) == 4
    best = max(line["jaccard"] for line in report)
    chosen = [line["jaccard"] for line in report if line["c"] == scorer.c]
    assert max(chosen) >= best - 1e-3


def test_a_vocabulary_and_frequencies_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 n-grams have 1"):
        TfIdf(["a"], ["b"], np.ones(1, np.float32), (1, 1), (2, 2))
