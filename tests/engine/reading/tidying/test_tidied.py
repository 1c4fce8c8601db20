"""What a text says whatever way it was written: slips that are mended, words that are left alone, and a scorer behind that."""

import random

import numpy as np
import pytest

from training_app.engine.config import Config
from training_app.engine.data.conversations import Message, Turn, before
from training_app.engine.data.examples import Agent
from training_app.engine.data.rows import Rows
from training_app.engine.progress import no_progress
from training_app.engine.reading import encoders
from training_app.engine.reading.scorers import FittedScorer, load_scorer
from training_app.engine.reading.tidying.perturbations import PERTURBATIONS
from training_app.engine.reading.tidying.tidied import Spelling, TidiedMargins, tidied

KNOWN = Spelling.of(["where is my parcel", "the thermostat needs an update", "a parcel, the parcel", "посылка пришла"])


class TestSpelling:
    @pytest.mark.parametrize(
        ("typed", "read"),
        [
            ("my pacrel", "my parcel"),
            ("parcle", "parcel"),
            ("the parrcel", "the parcel"),
            ("thermstat?", "thermostat?"),
            ("thermosdat", "thermostat"),
            ("upadte the thermostta", "update the thermostat"),
            ("моя посыкла", "моя посылка"),
        ],
    )
    def test_a_word_one_slip_away_is_read_as_the_known_one(self, typed: str, read: str) -> None:
        assert KNOWN(typed) == read

    @pytest.mark.parametrize("text", ["parcels", "посылку", "here", "barcel", "neds", "tablet 7", "", "wehre3"])
    def test_other_forms_other_beginnings_and_short_words_stay(self, text: str) -> None:
        assert KNOWN(text) == text

    def test_a_text_of_known_words_is_the_same_object(self) -> None:
        text = "Where is the Parcel"
        assert KNOWN(text) is text

    def test_of_several_the_most_frequent(self) -> None:
        assert Spelling({"charge": 5, "change": 3})("chrage") == "charge"
        assert Spelling({"delivery": 9, "deliverxy": 1, "delivexry": 2})("delivexxry") == "delivexry"

    def test_what_was_said_before_is_known_and_left_alone(self) -> None:
        turn = Turn("my camrea", [Message("assistant", "which camera")])
        read = tidied(turn, Spelling.of([turn]))
        assert str(read) == "my camrea"
        other = tidied(Turn("my camear", [Message("user", "a camear")]), Spelling.of(["a camera"]))
        assert str(other) == "my camera"
        assert before(other) == (Message("user", "a camear"),)


AGENTS = tuple(Agent(i, name) for i, name in enumerate(("Parcels", "Invoices", "Passwords")))
WORDS = (("parcel", "delivery", "courier"), ("invoice", "payment", "refund"), ("password", "account", "access"))


def rows(count: int, seed: int) -> Rows:
    rng = random.Random(seed)
    texts, required = [], np.zeros((count, 3), np.bool_)
    for i in range(count):
        agent = rng.randrange(3)
        required[i, agent] = True
        texts.append(f"{rng.choice(('where is', 'what about', 'help with'))} my {rng.choice(WORDS[agent])} {i}")
    return Rows(texts, required, np.ones_like(required))


def fitted(**settings: object) -> tuple[FittedScorer, dict[str, object]]:
    config = Config.from_mapping({"encoder": "linear", "svm_c": 1.0, **settings})
    known = rows(120, 0)
    fit, report = encoders.fit_encoder(config, known, known.texts, rows(40, 1), agents=AGENTS, progress=no_progress)
    return fit.fitted, report


class TestScorer:
    def test_changes_that_say_nothing_change_nothing(self) -> None:
        scorer, report = fitted()
        assert isinstance(scorer, TidiedMargins)
        assert report["spelling"] == {**report["spelling"], "kept": True}  # type: ignore[dict-item]
        texts = [text.rsplit(" ", 1)[0] for text in rows(30, 2).texts]
        plain = scorer.logits(texts)
        rng = random.Random(0)
        for name in ("prefix", "signature", "quoted_mail", "upper_case"):
            changed = [PERTURBATIONS[name](text, rng) for text in texts]
            assert np.allclose(scorer.logits(changed), plain, atol=1e-6), name

    def test_slips_change_fewer_answers_than_as_they_are_typed(self) -> None:
        texts = rows(60, 3).texts
        rng = random.Random(0)
        slips = [PERTURBATIONS["typos"](text, rng) for text in texts]
        moved = []
        for tidy in (True, False):
            scorer, _report = fitted(tidy=tidy)
            moved.append(float(np.abs(scorer.logits(slips) - scorer.logits(texts)).mean()))
        assert moved[0] < moved[1] / 2

    def test_is_what_it_was_after_saving(self) -> None:
        scorer, _report = fitted()
        again = load_scorer(scorer.kind, scorer.config(), scorer.tensors())
        texts = ["hi, my pacrel", "where is the invioce", ""]
        assert np.array_equal(again.logits(texts), scorer.logits(texts))
        assert isinstance(scorer, FittedScorer)

    def test_refuses_parts_that_do_not_fit(self) -> None:
        scorer, _report = fitted()
        with pytest.raises(ValueError, match="lacks"):
            load_scorer("tidied", {}, scorer.tensors())
        with pytest.raises(ValueError, match="tidied again"):
            load_scorer("tidied", {**scorer.config(), "child kind": "tidied"}, scorer.tensors())

    def test_can_be_switched_off(self) -> None:
        scorer, report = fitted(tidy=False)
        assert scorer.kind == "linear"
        assert "spelling" not in report
