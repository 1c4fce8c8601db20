from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, PHRASES, examples
from training_app.engine.config import Config
from training_app.engine.data import artifact
from training_app.engine.data.artifact import tensor_bytes, tensors_from
from training_app.engine.data.metrics import auroc
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.reading import nearness, needed, sentences
from training_app.engine.reading.nearness import Nearness
from training_app.engine.reading.precedents import UNIT, Likeness
from training_app.engine.routing import calibration
from training_app.engine.routing.router import Router
from training_app.engine.train import train

TEXTS = [
    "refund my invoice please",
    "send the invoice again",
    "where is my parcel now",
    "track the parcel for me",
    "reset my password",
    "I cannot log in",
    "tell me a joke",
]
REQUIRED = np.array([[1, 0]] * 2 + [[0, 1]] * 4 + [[0, 0]], bool)


def index(texts: list[str] = TEXTS, required=REQUIRED) -> Nearness:
    made = Nearness.fit(texts, required, seed=0)
    assert made is not None
    return made[0]


class TestNearness:
    def test_a_training_query_is_nearer_than_a_like_one_and_that_nearer_than_a_strange_one(self) -> None:
        found = index().of_all(["track the parcel for me", "track my parcels", "colourless green ideas"])
        assert found[0] > found[1] > found[2] >= 0
        assert found.max() <= 1

    def test_queries_that_need_nobody_are_not_neighbours(self) -> None:
        assert index().of("tell me a joke") < 0.1
        everybody = REQUIRED.copy()
        everybody[-1, 0] = True
        assert index(required=everybody).of("tell me a joke") > 0.3

    def test_new_words_count_against_a_text(self) -> None:
        near = index()
        assert near.of("reset my password") > 1.5 * near.of("reset my password zyxomorphic quuxly")

    def test_a_query_left_out_is_no_neighbour_of_its_own(self) -> None:
        near = index()
        whole = near.of("reset my password")
        assert near.of("reset my password", np.array([4])) < whole - 0.2

    def test_nearness_is_the_mean_of_the_three_largest_cosines(self) -> None:
        near = index()

        def vector(text: str) -> dict[int, float]:
            hashes = {h & (len(near.sizes) - 1) for h in nearness._hashes(text, {})}
            return {h: float(np.log(8 / (1 + near.documents[h]))) for h in hashes}

        def cosine(a: dict[int, float], b: dict[int, float]) -> float:
            shared = sum(a[h] * b[h] for h in a.keys() & b.keys())
            return shared / (sum(v * v for v in a.values()) * sum(v * v for v in b.values())) ** 0.5

        text = vector("track my invoice")
        expected = sorted(cosine(text, vector(t)) for t in TEXTS[:-1])[-3:]
        assert near.of("track my invoice") == pytest.approx(np.mean(expected), rel=1e-5)

    def test_what_most_queries_hold_is_in_the_lengths_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = index()
        monkeypatch.setattr(nearness, "COMMON", 1)
        rare = index()
        assert rare.sizes.max() == 1 < whole.sizes.max()
        assert 0 < rare.of("where is my parcel now") < whole.of("where is my parcel now")
        np.testing.assert_array_equal(rare.lengths, whole.lengths)

    def test_long_texts_read_a_bounded_number_of_entries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        near = index()
        whole = near.of("where is my parcel now")
        monkeypatch.setattr(nearness, "READ", 3)
        assert 0 < near.of("where is my parcel now") < whole

    @pytest.mark.parametrize("text", ["", "   ", "?", "\ud800", "我的包裹在哪里"])
    def test_any_text_has_a_nearness(self, text: str) -> None:
        assert 0 <= index().of(text) <= 1

    def test_it_is_kept_and_read_back(self) -> None:
        near = index()
        tensors = tensors_from(tensor_bytes(near.tensors()))
        again = Nearness.from_tensors(tensors)
        assert again.marks
        assert not Nearness.from_tensors({k: v for k, v in tensors.items() if k != "marks"}).marks
        np.testing.assert_array_equal(again.of_all(TEXTS), near.of_all(TEXTS))

    @pytest.mark.parametrize(
        "change",
        [
            lambda t: t | {"rows": t["rows"][:-1]},
            lambda t: t | {"rows": t["rows"] + np.uint16(60_000)},
            lambda t: t | {"sizes": t["sizes"][:-1]},
            lambda t: t | {"sizes": np.r_[t["sizes"][:-2] + 0, t["sizes"][-2:].sum() + 1, -1].astype(np.int32)},
            lambda t: t | {"documents": -t["documents"]},
            lambda t: t | {"documents": t["documents"].astype(np.float32)},
            lambda t: t | {"lengths": t["lengths"][:2]},
        ],
    )
    def test_parts_that_do_not_fit_are_refused(self, change) -> None:
        with pytest.raises(ValueError, match="nearness"):
            Nearness.from_tensors(change(index().tensors()))

    def test_too_few_queries_have_no_index(self) -> None:
        assert Nearness.fit(TEXTS[:2], REQUIRED[:2], seed=0) is None


def pool(count: int, seed: int, heat: float = 1.0) -> tuple[Rows, np.ndarray]:
    """Queries, and log-odds that take a quarter of those that need nobody for somebody's."""
    rows = rows_of(examples(count, seed), AGENTS)
    rng = np.random.default_rng(seed)
    x = np.where(rows.required, 2.0, -4.0) + rng.normal(scale=heat, size=rows.required.shape)
    fooled = ~rows.required.any(axis=1) & (rng.random(len(rows)) < 0.25)
    x[fooled, 0] = 2.0
    return rows, x.astype(np.float32)


class TestNeeded:
    def test_nearness_is_kept_where_it_helps(self) -> None:
        (train, x), (val, val_x), (test, test_x) = pool(600, 0), pool(300, 1), pool(600, 2)
        found, report = needed.fit(x, train, val_x, val, none_share=0.15, seed=0)
        assert found is not None
        assert report["kept"]
        assert report["auroc"]["with_nearness"] > report["auroc"]["scores"]
        needs = test.required.any(axis=1)
        with_nearness = auroc(found.logits(test.texts, test_x), needs)
        assert with_nearness > auroc(needed.score(test_x), needs) + 0.002

    def test_one_text_gets_what_a_batch_gets(self) -> None:
        (train, x), (val, val_x) = pool(600, 0), pool(300, 1)
        found, _ = needed.fit(x, train, val_x, val, none_share=0.15, seed=0)
        assert found is not None
        off = np.ones_like(val.asked)
        off[::2, 1] = False
        alone = [found.logit_of(found.nearness.of(val.texts[i]), val_x[i], off[i]) for i in range(40)]
        np.testing.assert_allclose(found.logits(val.texts[:40], val_x[:40], off[:40]), alone, rtol=1e-5)

    def test_an_agent_that_is_not_available_does_not_speak(self) -> None:
        x = np.array([[4.0, -4.0], [4.0, -4.0]], np.float32)
        on = np.array([[True, True], [False, True]])
        both, one = needed.score(x, on)
        assert both > 0 > one
        x[1, 0] = -5
        assert needed.score(x, on)[1] == one

    def test_where_the_scores_say_it_all_nothing_is_added(self) -> None:
        def sure(rows: Rows) -> np.ndarray:
            return np.where(rows.required, 9.0, -9.0).astype(np.float32)

        (train, _), (val, _) = pool(600, 0), pool(300, 1)
        found, report = needed.fit(sure(train), train, sure(val), val, none_share=0.15, seed=0)
        assert found is None
        assert not report["kept"]
        assert report["auroc"]["scores"] == 1

    def test_without_queries_that_need_nobody_there_is_nothing_to_learn(self) -> None:
        (train, x), (val, val_x) = pool(600, 0), pool(300, 1)
        some = np.flatnonzero(train.required.any(axis=1))
        rows = Rows([train.texts[i] for i in some], train.required[some], train.asked[some])
        assert needed.fit(x[some], rows, val_x, val, none_share=0.15, seed=0) == (None, {"kept": False})
        assert needed.fit(x, train, val_x[:0], rows_of([], AGENTS), none_share=0.15, seed=0)[0] is None

    def test_rows_that_were_partly_asked_teach_nothing(self) -> None:
        (train, x), (val, val_x) = pool(600, 0), pool(300, 1)
        asked = train.asked.copy()
        asked[~train.required.any(axis=1), 1] = False
        train = dataclasses.replace(train, asked=asked)
        assert needed.fit(x, train, val_x, val, none_share=0.15, seed=0)[0] is None

    def test_log_odds_of_some_rows_are_matched_by_number(self) -> None:
        (train, x), (val, val_x) = pool(600, 0), pool(300, 1)
        apart = np.arange(0, 600, 2)
        report = needed.fit(x[apart], train, val_x, val, scored=apart, none_share=0.15, seed=0)[1]
        assert report["weights"][0] > 0.5
        turned = needed.fit(x[apart[::-1]], train, val_x, val, scored=apart, none_share=0.15, seed=0)[1]
        assert turned["weights"][0] < report["weights"][0] / 2


class TestConfidence:
    def test_it_follows_whether_anybody_is_needed(self) -> None:
        rng = np.random.default_rng(0)
        needs = rng.random(800) < 0.5
        x = np.full((800, 2), -1.0, np.float32)
        said = np.where(needs, 2.0, -2.0) + rng.normal(size=800)
        required = np.stack([needs, np.zeros(800, bool)], axis=1)
        nobody = np.zeros((800, 2), bool)
        found = calibration.fit(x, nobody, required, np.ones_like(nobody), needed=said)
        sure = found.confidences(x, nobody, np.ones_like(nobody), said)
        assert sure[~needs].mean() > sure[needs].mean() + 0.4
        one = [found.of_one(x[i], [], np.ones(2, bool), float(said[i]))[1] for i in range(20)]
        np.testing.assert_allclose(one, sure[:20], rtol=1e-5)
        some = ~nobody
        both = found.confidences(x, some, np.ones_like(some), said)
        one = [found.of_one(x[i], [0, 1], np.ones(2, bool), float(said[i]))[1] for i in range(20)]
        np.testing.assert_allclose(one, both[:20], rtol=1e-5)


@pytest.fixture(scope="module")
def parts() -> artifact.Artifact:
    """A trained router's parts, its weights for nearness set by hand: the pool is too easy to need it."""
    settings = {"encoder": "linear", "svm_c": 1.0, "folds": 2, "baselines": False}
    steps = {"total_steps": 200, "epsilon_decay_steps": 100, "learning_rate": 0.01}
    *_, last = train(Config.from_mapping({**settings, **steps}), AGENTS, examples())
    assert last.result is not None
    found = artifact.read(last.result.artifact)
    assert found.config["needed"] is None
    assert last.result.scorecard["needed"]["kept"] is False
    rows = rows_of([e for e in examples() if e.split == "train"], AGENTS)
    made = Nearness.fit(rows.texts, rows.required, seed=0)
    assert made is not None
    found.config["needed"] = {"weights": [0.1, 1.0, -1.5]}
    found.config["calibration"]["confidence"][4] = 2.0
    found.tensors.update({f"needed.{name}": tensor for name, tensor in made[0].tensors().items()})
    return found


class TestRouting:
    @pytest.mark.at_length
    def test_alone_and_in_a_batch_alike(self, parts: artifact.Artifact) -> None:
        router = Router.from_artifact(parts)
        texts = [e.text for e in examples(40)]
        for available in (None, [0, 3]):
            batch = router.route_batch(texts, available)
            alone = [router.route(text, available) for text in texts]
            assert [r.agents for r in alone] == [r.agents for r in batch]
            np.testing.assert_allclose([r.confidence for r in alone], [r.confidence for r in batch], atol=1e-5)

    def test_a_strange_text_that_holds_an_agents_words_is_less_sure_than_before(self, parts: artifact.Artifact) -> None:
        router = Router.from_artifact(parts)
        without = Router.from_artifact(dataclasses.replace(parts, config={**parts.config, "needed": None}))
        known, strange = "refund my invoice", "refund the quixotic zephyrs of Ulaanbaatar, waltzing invoice gardens"
        assert router.route(known).agents == router.route(strange).agents == (0,)
        fall = without.route(strange).confidence - router.route(strange).confidence
        assert fall > without.route(known).confidence - router.route(known).confidence + 0.05
        assert np.ptp(router.reader.answerable([known, strange])) > np.ptp(without.reader.answerable([known, strange]))

    def test_it_abstains_from_naming_somebody_where_nobody_is_likelier(self, parts: artifact.Artifact) -> None:
        known, strange = "refund my invoice", "refund the quixotic zephyrs of Ulaanbaatar, waltzing invoice gardens"
        never = Router.from_artifact(parts)
        level = float(never.reader.needed([known, strange], never.reader.log_odds([known, strange])).mean())
        found = {**parts.config["calibration"], "stranger_below": level}
        router = Router.from_artifact(dataclasses.replace(parts, config={**parts.config, "calibration": found}))
        assert not never.route(strange).abstained
        assert (router.route(known).stop_reason, router.route(strange).stop_reason) == ("stop", "abstained")
        assert router.route(strange).agents == never.route(strange).agents  # its best guess all the same
        assert [route.abstained for route in router.route_batch([known, strange])] == [False, True]
        texts = [known, strange, "hello there"]
        answers = router.answers(texts)
        assert answers.strange.tolist() == [False, True, bool(answers.selected[2].any())]
        assert not never.answers(texts).strange.any()

    def test_the_level_is_that_of_the_traffic_reckoned_with(self) -> None:
        assert calibration.stranger_level(0.15, 0.15) == pytest.approx(0)
        # Nine of ten need somebody: log-odds of 9 to 1 are even where half of all queries need nobody.
        assert calibration.stranger_level(0.1, 0.5) == pytest.approx(np.log(9))
        assert calibration.stranger_level(0.1, 0.05) < 0
        found = calibration.Calibration(1.0, 0.0, calibration.SET_PRIOR, stranger_below=0.5)
        assert calibration.Calibration.from_config(found.config()).stranger_below == 0.5
        assert "stranger_below" not in calibration.Calibration(1.0, 0.0, calibration.SET_PRIOR).config()
        assert not found.abstained(0.9, False, 0.1)  # nobody was named
        assert not found.abstained(0.9, True, None)

    def test_the_answer_for_what_was_measured_is_the_answer_that_is_served(self, parts: artifact.Artifact) -> None:
        router = Router.from_artifact(parts)
        texts = [e.text for e in examples(40)]
        served = [route.confidence for route in router.route_batch(texts)]
        np.testing.assert_allclose(router.answers(texts).confidence, served, atol=1e-6)

    @pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, float("nan"), 0.0], ["x", 1, 2], None])
    def test_parts_that_do_not_fit_are_refused(self, parts: artifact.Artifact, weights) -> None:
        config = {**parts.config, "needed": {"weights": weights}}
        with pytest.raises(artifact.ArtifactError, match="do not fit"):
            Router.from_artifact(dataclasses.replace(parts, config=config))
        tensors = {name: t for name, t in parts.tensors.items() if name != "needed.rows"}
        with pytest.raises(artifact.ArtifactError, match="do not fit"):
            Router.from_artifact(dataclasses.replace(parts, tensors=tensors))


@pytest.fixture
def two_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder that knows whether a text is about an agent's matter, whatever its words: nothing is downloaded or loaded."""
    phrases = [phrase for of in PHRASES.values() for phrase in of]

    def embed(texts: list[str]) -> np.ndarray:
        about, else_ = np.random.default_rng(0).normal(size=(2, 512))
        asks = np.array([any(phrase in text for phrase in phrases) for text in texts])
        own = np.stack([np.random.default_rng(len(text)).normal(size=512) for text in texts])
        vectors = np.where(asks[:, None], about, else_) + 0.3 * own
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    monkeypatch.setattr(sentences, "embed", embed)


class TestMeaning:
    def test_it_is_taken_where_it_saves_more_than_n_grams(self, two_topics: None) -> None:
        (train, x), (val, val_x) = pool(600, 0), pool(300, 1)
        plain, told = needed.fit(x, train, val_x, val, none_share=0.15, seed=0)
        assert plain is not None
        found, report = needed.fit(x, train, val_x, val, none_share=0.15, seed=0, encoder="loaded")
        assert found is not None
        assert (plain.reads_meaning, found.reads_meaning) == (False, True)
        assert report["loss_saved"]["mean"] > needed.WORTH
        assert report["auroc"]["scores"] == told["auroc"]["scores"]
        assert report["grams"]["kept"]
        again = needed.Needed.from_parts(found.config(), tensors_from(tensor_bytes(found.tensors())))
        np.testing.assert_allclose(
            again.logits(val.texts[:20], val_x[:20]), found.logits(val.texts[:20], val_x[:20]), rtol=1e-6
        )

    def test_what_says_no_more_than_n_grams_is_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(0)
        monkeypatch.setattr(sentences, "embed", lambda texts: rng.normal(size=(len(texts), 512)).astype(np.float32))
        (train, x), (val, val_x) = pool(600, 0), pool(300, 1)
        found, report = needed.fit(x, train, val_x, val, none_share=0.15, seed=0, encoder="loaded")
        assert found is not None
        assert not found.reads_meaning
        assert report["kept"]
        assert not report["meaning"]["kept"]

    def test_where_less_is_lost_than_it_must_save_it_is_not_tried(self, two_topics: None) -> None:
        (train, x), (val, val_x) = pool(600, 0), pool(300, 1)
        _found, tried = needed.fit(x, train, val_x, val, none_share=0.15, seed=0, encoder="there")
        assert "grams" in tried or "meaning" in tried
        sure = (
            np.where(train.required, 9.0, -9.0).astype(np.float32),
            np.where(val.required, 9.0, -9.0).astype(np.float32),
        )
        found, report = needed.fit(sure[0], train, sure[1], val, none_share=0.15, seed=0, encoder="there")
        assert (found, report["kept"], "meaning" in report) == (None, False, False)

    def test_a_training_query_is_not_its_own_neighbour(self, two_topics: None) -> None:
        made = Likeness.fit(TEXTS, REQUIRED, seed=0)
        assert made is not None
        index, kept = made
        assert kept.tolist() == [0, 1, 2, 3, 4, 5]
        alone = index.of_all(TEXTS[:2], np.array([0, -1]))
        assert alone[0] <= index.of(TEXTS[0])
        assert alone[1] == pytest.approx(index.of(TEXTS[1]))
        cosines = sentences.embed(TEXTS[:1]) @ index.cosines.vectors.astype(np.float32).T / UNIT
        assert index.of(TEXTS[0]) == pytest.approx(np.sort(cosines[0])[-3:].mean(), abs=3e-3)
        assert alone[0] == pytest.approx(np.sort(np.delete(cosines[0], 0))[-3:].mean(), abs=3e-3)

    def test_another_encoder_is_refused(self, two_topics: None) -> None:
        (train, x), (val, val_x) = pool(600, 0), pool(300, 1)
        found, _ = needed.fit(x, train, val_x, val, none_share=0.15, seed=0, encoder="loaded")
        assert found is not None
        with pytest.raises(ValueError, match="train anew"):
            needed.Needed.from_parts({**found.config(), "sentence_encoder": "another"}, found.tensors())
        with pytest.raises(ValueError, match="likeness"):
            Likeness.from_tensors({"vectors": found.tensors()["vectors"][:2]})
