"""The scorer of turns: what it reads where, how far back it chooses to look, and what it must not be led by."""

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.thorough import many
from training_app.engine.config import Config
from training_app.engine.data.conversations import BadConversation, Message, Turn, before, text_of
from training_app.engine.data.examples import Agent, Example
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.progress import no_progress
from training_app.engine.reading import encoders
from training_app.engine.reading.conversing import turns_fit
from training_app.engine.reading.conversing.turns import TurnsMargins, channels_of
from training_app.engine.reading.conversing.turns_fit import fit_channels
from training_app.engine.reading.linear import LinearScorer
from training_app.engine.reading.scorers import FittedScorer, Platt, Scorer, load_scorer
from training_app.engine.routing.router import Router
from training_app.engine.train import train

pytestmark = pytest.mark.computes_long

AGENTS = tuple(Agent(2 * i + 1, name) for i, name in enumerate(("Tables", "Trains", "Hotels", "Films")))
THINGS = (
    ("table", "restaurant", "menu"),
    ("train", "ticket", "station"),
    ("room", "hotel", "bed"),
    ("film", "cinema", "seat"),
)
NEUTRAL = ("yes please do", "how much is it", "sounds good to me", "what is the phone number", "and for tomorrow")
THANKS = ("thanks that is all", "good bye", "no nothing else thank you")


def talk(rng: random.Random, *, tell: bool = False, strange: int | None = None) -> list[Example]:
    """The turns of one conversation: somebody is asked for, then a turn that only its context explains, another wish, a good-bye."""
    said: list[Message] = []
    if strange is not None:
        said += [Message("user", f"i want a {rng.choice(THINGS[strange])}"), Message("assistant", "done")]
    turns = []

    def speak(text: str, required: set[int]) -> None:
        turns.append(Example("", text_of(text, tuple(said)), frozenset(required), group=str(rng.random())))
        said.append(Message("user", text))
        answer = "here you are" if tell else f"we have a {rng.choice(THINGS[topic])}"
        said.append(Message("assistant", answer, (AGENTS[topic].id,) if tell else ()))

    for _ in range(2):
        topic = rng.randrange(4)
        speak(f"i want a {rng.choice(THINGS[topic])} number {rng.randrange(90)}", {AGENTS[topic].id})
        speak(rng.choice(NEUTRAL), {AGENTS[topic].id})
    speak(rng.choice(THANKS), set())
    group = f"c{rng.random()}"
    return [Example(t.id, t.text, t.required, t.asked, t.split, group) for t in turns]


def talks(count: int, seed: int = 0, tell: bool = False) -> list[Example]:
    rng = random.Random(seed)
    return [turn for _ in range(count) for turn in talk(rng, tell=tell)]


def fitted(examples: list[Example], **settings: object) -> tuple[FittedScorer, dict[str, object]]:
    rows = rows_of(examples, AGENTS)
    config = Config.from_mapping({"encoder": "linear", "svm_c": 1.0, "tidy": False, **settings})
    fit, report = encoders.fit_encoder(
        config, rows, [e.fold_key for e in examples], rows_of(talks(20, 9), AGENTS), agents=AGENTS, progress=no_progress
    )
    assert fit.log_odds.shape == rows.required.shape
    return fit.fitted, report


def share_right(scorer: FittedScorer, examples: list[Example]) -> float:
    rows = rows_of(examples, AGENTS)
    margins = scorer.logits(rows.texts)
    threshold = max(np.quantile(margins, np.linspace(0.5, 0.99, 50)), key=lambda t: _exact(margins > t, rows))
    return _exact(margins > threshold, rows)


def _exact(sets: np.ndarray, rows: Rows) -> float:
    return float((sets == rows.required).all(axis=1).mean())


class TestChannels:
    def test_what_is_said_now_the_exchange_before_and_the_rest(self) -> None:
        said = [
            ("system", "be kind"),
            ("user", "a"),
            ("assistant", "b"),
            ("user", "c"),
            ("assistant", "d"),
            ("tool", "e"),
        ]
        found = channels_of(Turn("now", [Message(role, text) for role, text in said]))
        assert found.texts == ("now", "d e", "c", "be kind a b")

    def test_agents_that_answered_before_and_earlier(self) -> None:
        said = [
            Message("user", "a"),
            Message("assistant", "b", (1,)),
            Message("user", "c"),
            Message("tool", "d", (3, 5)),
        ]
        found = channels_of(Turn("now", said))
        assert (found.agents_before, found.agents_earlier) == ({3, 5}, {1})

    def test_a_plain_text_is_said_now(self) -> None:
        assert channels_of("hello").texts == ("hello", "", "", "")


@pytest.fixture(scope="module")
def learnt() -> tuple[FittedScorer, dict[str, object]]:
    """A scorer of turns and its report."""
    return fitted(talks(many(60, 40)))


class TestFitting:
    @pytest.mark.at_length
    def test_learns_what_only_the_context_says(self, learnt: tuple[FittedScorer, dict[str, object]]) -> None:
        scorer, report = learnt
        assert scorer.kind == "turns"
        told = report["turns"]
        assert isinstance(told, dict)
        assert told["brings"]["exchange"]["low"] > 0
        assert share_right(scorer, talks(30, 1)) > 0.9

    @pytest.mark.at_length
    def test_reads_which_agents_answered(self) -> None:
        scorer, _report = fitted(talks(60, tell=True))
        assert share_right(scorer, talks(30, 1, tell=True)) > 0.9
        told = [Message("user", "please"), Message("assistant", "here you are", (AGENTS[2].id,))]
        margins = scorer.logits([Turn("yes please do", told)])[0]
        assert int(margins.argmax()) == 2

    def test_agents_of_the_answer_itself_are_nowhere_to_be_read(self) -> None:
        # The last message is the user's, so nothing that a row holds is said after its label.
        for example in talks(3, tell=True):
            own = channels_of(example.text)
            alone = Turn(str(example.text), before(example.text)) if before(example.text) else example.text
            assert channels_of(alone) == own

    def test_queries_that_explain_themselves_are_read_alone(self) -> None:
        rng = random.Random(3)
        examples = []
        for _ in range(150):
            own, other = rng.randrange(4), rng.randrange(4)
            noise = [Message("user", f"i want a {rng.choice(THINGS[other])}"), Message("assistant", "done")]
            text = f"i want a {rng.choice(THINGS[own])} number {rng.randrange(90)}"
            examples.append(Example("", Turn(text, noise), frozenset({AGENTS[own].id}), group=str(rng.random())))
        scorer, report = fitted(examples)
        assert scorer.kind != "turns"
        turns = report["turns"]
        assert isinstance(turns, dict)
        assert turns["depth"] == "now"

    @pytest.mark.at_length
    def test_strange_old_turns_do_not_mislead(self, learnt: tuple[FittedScorer, dict[str, object]]) -> None:
        scorer, _report = learnt
        rng = random.Random(5)
        clean = [turn for _ in range(40) for turn in talk(rng)]
        rng = random.Random(5)
        strange = [turn for _ in range(40) for turn in talk(rng, strange=rng.randrange(4))]
        assert share_right(scorer, strange) > share_right(scorer, clean) - 0.1

    @pytest.mark.at_length
    def test_first_turns_keep_their_answer_behind_another_conversation(
        self, learnt: tuple[FittedScorer, dict[str, object]]
    ) -> None:
        scorer, _report = learnt
        first = [turn for turn in talks(60, 6) if not before(turn.text)]
        others = [before(turn.text)[:2] for turn in talks(60, 7) if before(turn.text)]
        strange = [replace(turn, text=text_of(str(turn.text), others[i])) for i, turn in enumerate(first) if others[i]]
        assert share_right(scorer, strange) >= share_right(scorer, first) - 0.05

    @pytest.mark.at_length
    def test_a_turn_that_reads_like_a_first_one_is_known(self, learnt: tuple[FittedScorer, dict[str, object]]) -> None:
        scorer = learnt[0]
        assert isinstance(scorer, TurnsMargins)
        assert scorer.opens
        opening, going_on = (scorer.seen(text)[0, len(scorer.channels) + 3] for text in ("i want a train", NEUTRAL[0]))
        assert opening > going_on

    @pytest.mark.at_length
    def test_an_answer_that_ends_a_matter_is_known(self) -> None:
        """Where somebody else is asked for only after "anything else?"."""
        examples = []
        for number in range(60):
            one, other = number % 4, (number + 1) % 4
            said = [Message("user", f"i want a {THINGS[one][0]}"), Message("assistant", f"for when? {number}")]
            later = [*said, Message("user", "at seven"), Message("assistant", f"done, anything else? {number}")]
            wishes = (
                ((), said[0].content, {one}),
                (said, "at seven", {one}),
                (later, f"i want a {THINGS[other][0]} too", {other}),
            )
            for before_it, text, places in wishes:
                required = frozenset(AGENTS[place].id for place in places)
                examples.append(Example("", text_of(text, tuple(before_it)), required, group=f"c{number}"))
        rows = rows_of(examples, AGENTS)
        assert turns_fit._handed_over(rows, [e.group for e in examples]).tolist() == [-1, 0, 1] * 60
        scorer, _report = fitted(examples)
        assert isinstance(scorer, TurnsMargins)
        assert scorer.closes
        place = len(scorer.channels) + 3 + scorer.opens
        said = [Message("user", "i want a train")]
        open_, ended = (
            scorer.seen(Turn("i want a film", [*said, Message("assistant", text)]))[0, place]
            for text in ("for when?", "done, anything else?")
        )
        assert ended > open_

    def test_a_pool_of_texts_never_comes_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(encoders.turns_fit, "fit_turns", None)
        texts = [Example("", e.text, e.required) for e in talks(40) if not before(e.text)]
        assert fitted(texts)[0].kind == "linear"

    @pytest.mark.at_length
    def test_the_same_seed_gives_the_same_scorer(self, learnt: tuple[FittedScorer, dict[str, object]]) -> None:
        one, other = learnt[0], fitted(talks(many(60, 40)))[0]
        assert one.tensors()
        for name, tensor in one.tensors().items():
            assert np.array_equal(tensor, other.tensors()[name]), name


class TestServing:
    def scorer(self) -> TurnsMargins:
        examples = talks(40)
        rows = rows_of(examples, AGENTS)
        return fit_channels(rows.texts, rows.required, rows.asked, AGENTS, 0)

    def test_is_what_it_was_after_saving(self, learnt: tuple[FittedScorer, dict[str, object]]) -> None:
        scorer, _ = learnt
        again = load_scorer(scorer.kind, scorer.config(), scorer.tensors())
        texts = [e.text for e in talks(10, 2)]
        assert np.array_equal(scorer.logits(texts), again.logits(texts))

    def test_holds_a_scorer_of_the_last_turn_alone(self) -> None:
        examples = talks(20)
        rows = rows_of(examples, AGENTS)
        base = LinearScorer().fit(rows.texts, rows.required, rows.asked, seed=0)
        own = self.scorer()
        platt = Platt(np.full(4, 2, np.float32), np.ones(4, np.float32))
        mix = np.array([0.5, 2, 0.1], np.float32)
        mixed = TurnsMargins(own.channels, own.bias, own.answered, own.numbers, base=base, platt=platt, mix=mix)
        wanted = 0.5 * own.logits(rows.texts) + 2 * platt(base.logits(rows.texts)) + 0.1
        assert mixed.logits(rows.texts) == pytest.approx(wanted, abs=1e-5)
        again = load_scorer("turns", mixed.config(), mixed.tensors())
        assert np.array_equal(again.logits(rows.texts), mixed.logits(rows.texts))
        assert [child.kind for child in mixed.children] == ["linear"]

    def test_a_batch_answers_as_its_turns_would(self, learnt: tuple[FittedScorer, dict[str, object]]) -> None:
        scorer, _ = learnt
        texts = [e.text for e in talks(10, 2)]
        one_by_one = np.concatenate([scorer.logits([text]) for text in texts])
        assert np.array_equal(scorer.logits(texts), one_by_one)

    @pytest.mark.parametrize("name", ["bias", "answered", "mix", "now.weights"])
    def test_refuses_parts_that_do_not_fit(self, name: str) -> None:
        scorer = self.scorer()
        tensors = scorer.tensors()
        del tensors[name]
        with pytest.raises(ValueError, match="lacks"):
            load_scorer("turns", scorer.config(), tensors)

    def test_explains_what_in_which_turn_weighed(self) -> None:
        said = [Message("user", "i want a train"), Message("assistant", "we have a ticket")]
        parts = [part for part, _weight in self.scorer().explain(Turn("yes please do", said), top=40)[1]]
        assert any("train" in part and "(user, 2 back)" in part for part in parts)
        assert any("ticket" in part and "(assistant, 1 back)" in part for part in parts)
        assert any("(" not in part for part in parts)


def test_is_a_scorer() -> None:
    assert isinstance(TestServing().scorer(), FittedScorer)
    assert Scorer is not FittedScorer


class TestRouting:
    @pytest.mark.at_length
    def test_a_router_takes_messages(self) -> None:
        examples = [
            Example(e.id, e.text, e.required, split="train" if i % 4 else "val", group=e.group)
            for i, e in enumerate(talks(12))
        ]
        config = Config.from_mapping({"encoder": "linear", "decision": "threshold", "baselines": False})
        result = [p.result for p in train(config, AGENTS, examples)][-1]
        assert result is not None
        router = Router.load(result.artifact)
        talk = [{"role": "user", "content": "i want a train"}, {"role": "assistant", "content": "we have a ticket"}]
        messages = [*talk, {"role": "user", "content": "yes please do"}]
        turn = text_of("yes please do", [Message(m["role"], m["content"]) for m in talk])
        assert router.route(messages) == router.route(turn)
        assert router.route_batch([messages]) == router.route_batch([turn])
        assert router.route_batch([messages])[0].agents == router.route(turn).agents
        assert router.explain(messages).route == router.route(turn)
        with pytest.raises(BadConversation):
            router.route([{"role": "assistant", "content": "hello"}])
