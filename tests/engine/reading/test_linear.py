from __future__ import annotations

import numpy as np
import pytest

from training_app.engine.reading import linear


class TestManyRows:
    """A pool of thousands of rows in which one query in fifty needs the second agent."""

    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(400)]
    texts: list[str] = []
    for i in range(6000):
        needed = ["needle", "thread"][i % 2] if i % 50 == 0 else "needle?" if i % 50 == 1 else ""
        texts.append(" ".join([*rng.choice(words, 6), needed]))
    Y = np.stack([np.arange(6000) % 3 == 0, np.arange(6000) % 50 == 0], axis=1)

    @pytest.mark.parametrize("model", ["svm", "logreg"])
    def test_a_scarce_agent_is_fitted_as_on_all_rows(self, monkeypatch, model) -> None:
        scorer = linear.LinearScorer(model=model)
        asked = np.ones_like(self.Y)
        whole = scorer.fit(self.texts, self.Y, asked, seed=0).logits(self.texts)
        sizes: list[int] = []
        fit_part = linear._fit_part
        monkeypatch.setattr(linear, "MANY_ROWS", 5_000)
        monkeypatch.setattr(linear, "MANY_TOL", linear.FEW_TOL)
        monkeypatch.setattr(
            linear,
            "_fit_part",
            lambda machine, features, y, parts: (
                sizes.append(sum(len(rows) for rows, _ in parts)) or fit_part(machine, features, y, parts)
            ),
        )
        part = scorer.fit(self.texts, self.Y, asked, seed=0).logits(self.texts)
        assert len(sizes) == 2  # the scarce agent alone, in its two fits
        assert max(sizes) < 5_000
        assert np.array_equal(whole[:, 0], part[:, 0])
        assert not np.array_equal(whole[:, 1], part[:, 1])
        assert np.abs(whole[:, 1] - part[:, 1]).max() < 0.25 * whole[:, 1].std()
        assert ((whole[:, 1] > 0) == (part[:, 1] > 0)).mean() > 0.999

    @pytest.mark.parametrize("model", ["svm", "logreg"])
    def test_the_tolerance_of_many_rows_changes_margins_little(self, monkeypatch, model) -> None:
        scorer, asked = linear.LinearScorer(model=model), np.ones_like(self.Y)
        exact = scorer.fit(self.texts, self.Y, asked, seed=0).logits(self.texts)
        monkeypatch.setattr(linear, "FEW_TOL", linear.MANY_TOL)
        soon = scorer.fit(self.texts, self.Y, asked, seed=0).logits(self.texts)
        assert 0 < np.abs(soon - exact).max() < 0.1 * exact.std()

    def test_many_agents_keep_fewer_features(self, monkeypatch) -> None:
        monkeypatch.setattr(linear, "MOST_WEIGHTS", 200)
        fitted = linear.LinearScorer().fit(self.texts[:300], self.Y[:300], np.ones((300, 2), np.bool_), seed=0)
        assert len(fitted.tfidf.words) == len(fitted.tfidf.characters) == 100
        fitted = linear.LinearScorer(max_features=7).fit(
            self.texts[:300], self.Y[:300], np.ones((300, 2), np.bool_), seed=0
        )
        assert len(fitted.tfidf.words) == len(fitted.tfidf.characters) == 7


def test_all_agents_of_every_query_can_be_the_best_set() -> None:
    margins = np.arange(12, dtype=np.float32).reshape(4, 3)
    every = np.ones(margins.shape, np.bool_)
    assert linear.best_jaccards(margins, every, every).tolist() == [1.0] * 4
