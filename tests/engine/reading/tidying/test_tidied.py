"""What a text says whatever way it was written: slips that are mended, words that are left alone, and a scorer behind that."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from training_app.engine.config import Config
from training_app.engine.data.conversations import Message, Turn, before
from training_app.engine.data.examples import Agent
from training_app.engine.data.rows import Rows
from training_app.engine.progress import no_progress
from training_app.engine.reading import encoders
from training_app.engine.reading.scorers import FittedScorer, load_scorer
from training_app.engine.reading.tidying import mending
from training_app.engine.reading.tidying import tidied as reader
from training_app.engine.reading.tidying.perturbations import PERTURBATIONS
from training_app.engine.reading.tidying.real_words import RealWords, WordHashes
from training_app.engine.reading.tidying.tidied import Spelling, TidiedMargins, tidied


@pytest.fixture(scope="module")
def known() -> Spelling:
    return Spelling.of(
        ["where is my parcel", "the thermostat needs an update", "a parcel, the parcel", "посылка пришла"]
    )


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
    def test_a_word_one_slip_away_is_read_as_the_known_one(self, known: Spelling, typed: str, read: str) -> None:
        assert known(typed) == read

    @pytest.mark.parametrize("text", ["parcels", "посылку", "here", "barcel", "neds", "tablet 7", "", "wehre3"])
    def test_other_forms_other_beginnings_and_short_words_stay(self, known: Spelling, text: str) -> None:
        assert known(text) == text

    def test_a_text_of_known_words_is_the_same_object(self, known: Spelling) -> None:
        text = "Where is the Parcel"
        assert known(text) is text

    def test_of_several_the_most_frequent(self) -> None:
        assert Spelling({"charge": 5, "change": 3})("chrage") == "charge"
        assert Spelling({"delivery": 9, "deliverxy": 1, "delivexry": 2})("delivexxry") == "delivexry"

    @pytest.mark.at_length
    def test_what_was_said_before_is_known_and_left_alone(self) -> None:
        turn = Turn("my camrea", [Message("assistant", "which camera")])
        read = tidied(turn, Spelling.of([turn]))
        assert str(read) == "my camrea"
        other = tidied(Turn("my camear", [Message("user", "a camear")]), Spelling.of(["a camera"]))
        assert str(other) == "my camera"
        assert before(other) == (Message("user", "a camear"),)


#: Words that differ by one slip and mean different things, by language: whoever writes one does not mean the other.
PAIRS = {
    "en": "form from, sing sign, dairy diary, contract contact, shipping shopping, paying playing, united untied, trail trial, "
    "county country, finish finnish, quite quiet, angle angel, brother bother, increase decrease, insure ensure, adapter "
    "adopter, immigrate emigrate, precede proceed, discrete discreet, personal personnel, casualty causality, complement "
    "compliment, stationary stationery, taking talking",
    "de": "mieten mieter, laden landen, kaufen laufen, einzahlung auszahlung, sperren speeren, buchung buchungen, fahren "
    "fahnen, reisen reisten, konto kontor, heizung heilung, lieferung lieferant, kündigung kündigungen, zahlung zählung, "
    "versenden verwenden, wohnung wohnungen",
    "fr": "vendre rendre, poisson poison, dessert désert, carte charte, louer jouer, acheter achever, entrée rentrée, chambre "
    "chambres, paiement paiements, livraison livraisons, monter montrer, retrait retraite, commande commandes, accepter "
    "excepter",
    "es": "caro carro, perro pero, vender vencer, cambio camino, comprar compras, ingreso ingresos, retirar retirada, casado "
    "cansado, pagar pegar, cerrar cenar, depósito depósitos, transferencia transferencias, abono abonos, contrato "
    "contacto",
    "ru": "выключить включить, продать продано, купить копить, закрыть закрыта, перевод переводы, карта парта, открыть "
    "открыта, отключить подключить, снять снят, увеличить увеличит, компании кампании, следующей следующий, баланс "
    "балласт, оплата зарплата",
    "tr": "açmak almak, satmak saymak, kapalı kapılı, vermek sermek, kredi kredim, hesap hesabı, ödeme ödemek, yatırma "
    "yatırım, kalmak kalkmak",
}


class TestRealWords:
    @pytest.mark.parametrize("language", PAIRS)
    def test_a_word_that_exists_is_never_changed(self, language: str) -> None:
        pairs = [pair.split() for pair in PAIRS[language].split(", ")]
        for column in (0, 1):
            known = Spelling.of([" ".join(pair[column] for pair in pairs)])
            typed = [pair[1 - column] for pair in pairs]
            assert [known(word) for word in typed] == typed
            assert [known.served()(word) for word in typed] == typed

    @pytest.mark.parametrize(
        ("known", "typed"),
        [
            ("我想买这套房子吧", "我想卖这套房子吧"),
            ("電源を入れてください", "電源を切ってください"),
            ("ฉันต้องการเปิดบัญชี", "ฉันต้องการปิดบัญชี"),
            ("불을켜주세요", "불을꺼주세요"),
            ("मुझेखरीदनाहै", "मुझेबेचनाहै"),
            ("أريدفتحالحساب", "أريدغلقالحساب"),
            ("שלוםעולםחדש", "שלוםעולםחדיש"),
        ],
    )
    def test_other_scripts_are_never_corrected(self, known: str, typed: str) -> None:
        assert Spelling.of([known])(typed) == typed

    def test_a_word_with_a_combining_mark_is_left_alone(self) -> None:
        assert Spelling({"andern": 3})("a\u0308ndren") == "a\u0308ndren"

    def test_what_an_artifact_stores_corrects_as_the_whole_lists_do(self) -> None:
        spelling = Spelling.of(
            ["a refund for the insurance", "sign the contract from thursday", "the thermostat, please"]
        )
        served = spelling.served()
        assert len(served.decisive()) < 500
        for text in ("form sing contact", "insurace thusday", "termostat thermostats", "the contracts of insurances"):
            assert served(text) == spelling(text)
        assert served("insurace form") == "insurance form"

    @pytest.mark.at_length
    def test_what_an_artifact_stores_is_the_same_in_every_process(self) -> None:
        program = (
            "from training_app.engine.reading.tidying.tidied import Spelling\n"
            "print(sorted(Spelling.of(['a refund for the naïve café insurance on thursday']).decisive()))"
        )
        stored = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }
        assert len(stored) == 1
        assert b"thrusday" in stored.pop()

    def test_words_are_found_by_their_hashes(self) -> None:
        listed = WordHashes.of(["house", "mouse", "naïve"])
        assert listed.among(["mouse", "louse", "naïve", "house"]) == {"house", "mouse", "naïve"}
        assert listed.letters == set("housemnaïv")
        both = WordHashes.together([listed, WordHashes.of(["louse", "mouse"])])
        assert both.among(["louse", "naïve", "rouse"]) == {"louse", "naïve"}
        assert WordHashes.of([]).among(["house"]) == set(), "a language in other letters"

    def test_what_an_artifact_stores_is_each_real_word_that_would_be_corrected(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reader, "MOST_INDEXED", 40)
        rng = random.Random(0)
        known = {"".join(rng.choices("abc", k=rng.randint(4, 9))): 80 - n for n in range(80)}
        exist = frozenset("".join(rng.choices("abc", k=rng.randint(4, 9))) for _ in range(4_000))
        real = RealWords([])
        real.listed, real.letters = WordHashes.of(exist), frozenset("abc")
        spelling = Spelling(known, real)
        bare = Spelling(known)
        corrected = {word for word in exist if word not in known and bare(word) != word}
        assert len(corrected) > 200
        assert spelling.decisive() == corrected


AGENTS = tuple(Agent(i, name) for i, name in enumerate(("Parcels", "Invoices", "Passwords")))
#: Words that n-grams tell apart by a letter in the middle, so that a slip hides who is needed.
WORDS = (("bank", "cord", "tile"), ("bark", "card", "tale"), ("bulk", "curl", "tole"))


def rows(count: int, seed: int) -> Rows:
    rng = random.Random(seed)
    texts, required = [], np.zeros((count, 3), np.bool_)
    for i in range(count):
        agent = rng.randrange(3)
        required[i, agent] = True
        texts.append(f"{rng.choice(('where is', 'what about', 'help with'))} my {rng.choice(WORDS[agent])} {i}")
    return Rows(texts, required, np.ones_like(required))


def slips_everywhere(text: str, rng: random.Random) -> str:
    """The text with two letters swapped in each word of more than three: n-grams alone no longer read it."""
    return " ".join(w[:1] + w[2] + w[1] + w[3:] if len(w) > 3 else w for w in text.split(" "))


@pytest.fixture
def hard_slips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "slip", slips_everywhere)


def fitted(**settings: object) -> tuple[FittedScorer, dict[str, object]]:
    config = Config.from_mapping({"encoder": "linear", "svm_c": 1.0, **settings})
    known = rows(120, 0)
    fit, report = encoders.fit_encoder(config, known, known.texts, rows(40, 1), agents=AGENTS, progress=no_progress)
    return fit.fitted, report


@pytest.mark.usefixtures("hard_slips")
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
        texts = ["hi, my bnak", "where is the crad", ""]
        assert np.array_equal(again.logits(texts), scorer.logits(texts))
        assert isinstance(scorer, FittedScorer)

    def test_nothing_is_corrected_unless_it_surely_helps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mending, "slip", lambda text, rng: text)
        scorer, report = fitted()
        assert report["spelling"]["kept"] is False  # type: ignore[index]
        assert scorer.spelling is None  # type: ignore[attr-defined]

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
