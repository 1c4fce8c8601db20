"""How likely a query needs each agent, by what the agents say of themselves. numpy only; no label of the pool is read.

    alike_a  = words_a + nearest_a + NAME · name_a                         of agent a and the text x
    log-odds = w · FEATURES

words is the cosine of n-grams (`said.py`), nearest the largest cosine of the text's embedding and those of the agent's phrases and
examples, name that of its name. `best` is the largest alike of all agents, `lead` how far an agent is above all others, `behind` how
far below `best`, and `nobody` the cosine to the nearest of some phrases that need no agent anywhere. Clauses are read each for itself
as well, for queries that join several needs. In a conversation, `before` is alike of the last turn together with the user turns before
it, and other weights count: "yes, the second one" says little itself. The few weights were learnt over many pools, with agents held
out (`benchmarks/descriptions`), so that they serve pools that nobody has labeled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.conversations import USER, before, text_of
from training_app.engine.data.examples import Agent
from training_app.engine.reading import sentences
from training_app.engine.reading.conversing.said import WordLikeness, phrases
from training_app.engine.reading.languages import COMPOUND
from training_app.engine.reading.scorers import fit_platt

NAME = 0.2  # of the name's own likeness in meaning; chosen on splits of five sets that are not test
#: `likeness` gives a sum of UNLIKE as ALIKE, less in proportion, more by as much as it is more: so much says as little as a cosine of
#: ALIKE between words does. Chosen on the demo pool and on first turns.
UNLIKE, ALIKE = 0.35, 0.10
LIMIT = 8.0  # log-odds beyond this say nothing more
#: Agents that a text needs at most, in expectation: nine in ten texts of the pools that taught the weights need three or fewer. And of
#: a text in which nothing was read: then nobody is likelier than any set.
MOST_NEEDED, MOST_UNREAD = 3, 0.5
EARLIER = 3  # user turns before the last that carry over, each with a word of its own
#: Characters and words of a text of which an explanation leaves out each word in turn: each is one more reading, of 3 ms.
LONGEST_EXPLAINED, MOST_EXPLAINED = 1_000, 60
_LETTERS = re.compile(r"[^\W\d_]{2}")
DIGITS = 3  # of a number of an order, a flight or a telephone; fewer stand in words (B2B, 5G)
LEAST_SAID = 0.05  # log-odds below which a word is not named
MOST_CLAUSES, LEAST_CLAUSE = 4, 10  # clauses that are read each for itself, and characters of one
#: What joins clauses: signs, and the words for "and", "also", "then" in the languages that join queries are written in.
_BREAK = re.compile(
    r"[.;:!?\n,。!?;,、،؛؟।！？；，]+|\b(?:and also|and then|and|also|then|und dann|und|außerdem|et puis|et|puis|y luego|y|también"
    r"|luego|а также|и ещё|и|затем|ve ayrıca|ve|e depois|e também|e poi)\b"
    r"|(?<!\S)(?:그리고|또한|और|तथा|ثم)(?!\S)|และ|แล้วก็|另外|并且|然后|そして|それと",
    re.IGNORECASE,
)
#: Of the ridge of `Labeled`, and labeled queries of an agent from which on it is trusted.
STRENGTH, LEAST_LABELED = 3.0, 10
LONGEST_EARLIER = 2_000  # characters of a conversation that are read beside its last turn
#: What needs no agent anywhere: a text that is more like one of these than like an agent needs nobody.
NOBODY = (
    "hello", "good morning", "thank you very much", "goodbye", "how are you", "who are you", "tell me a joke",
    "what is the weather", "who won the football world cup", "what is the capital of France", "how do I cook pasta",
    "write a poem", "translate this sentence", "help me with my homework", "I am looking for a job",
    "we offer search engine optimisation for your website", "wrong number", "what should I take against a headache",
    "what is the meaning of life", "how old is the universe", "my car does not start", "yes", "no", "okay", "sorry", "asdf",
)  # fmt: skip
FEATURES = (
    "alike", "words", "nearest", "lead", "behind", "behind squared", "above the mean", "best", "best squared", "nobody", "in a clause",
    "lead in a clause", "before", "lead before", "is a turn", "strange", "size", "one",
)  # fmt: skip
TURN = FEATURES.index("is a turn")
#: Where a text says anything of an agent: all 0 where no word was read, or none that an agent has and no meaning either.
READ = [FEATURES.index(name) for name in ("alike", "in a clause", "before")]


@dataclass(frozen=True, slots=True)
class Labeled:
    """A linear model per agent of the embeddings of labeled queries: `weights` float32[SIZE + 1, A], the constant last. It reads every
    language that the encoder does. Where it is `trusted`, bool[A], its log-odds and those of the description count alike."""

    weights: FloatArray
    trusted: NDArray[np.bool_]

    @classmethod
    def fit(cls, texts: Sequence[str], required: BoolArray, asked: BoolArray) -> Labeled:
        """Ridge regression on required bool[N, A], its predictions of rows left out, which have a closed form, mapped to log-odds by
        Platt's method. A row that was not asked about an agent counts as not needing it."""
        x = np.concatenate([sentences.embed(texts), np.ones((len(texts), 1), np.float32)], axis=1).astype(np.float64)
        y = (required & asked).astype(np.float64)
        strength = np.full(x.shape[1], STRENGTH)
        strength[-1] = 1e-3  # the constant
        inverse = np.linalg.inv(x.T @ x + np.diag(strength))
        weights = inverse @ (x.T @ y)  # (SIZE + 1, A)
        own = np.einsum("ni,ni->n", x @ inverse, x)[:, None]  # how much a row says of itself
        left_out = ((x @ weights - own * y) / np.maximum(1 - own, 1e-6)).astype(np.float32)
        platt = fit_platt(left_out, required, asked)
        weights = weights * platt.scale
        weights[-1] += platt.shift
        trusted = (required & asked).sum(axis=0) >= LEAST_LABELED
        return cls(weights.astype(np.float32), np.asarray(trusted & (platt.scale > 0)))

    def beside(self, described: FloatArray, vector: FloatArray) -> FloatArray:
        """The log-odds of both together, float32[A], of a text: those by description float32[A], its embedding float32[SIZE]."""
        own = np.clip(vector @ self.weights[:-1] + self.weights[-1], -LIMIT, LIMIT)
        return np.asarray(np.where(self.trusted, (described + own) / 2, described), np.float32)

    def checked(self, agents: int) -> Labeled:
        """Itself. Raises ValueError where it is not of so many agents."""
        if self.weights.shape != (sentences.SIZE + 1, agents) or self.trusted.shape != (agents,):
            raise ValueError("what labeled queries say does not fit the agents")
        return Labeled(self.weights, self.trusted.astype(np.bool_))


class Descriptions:
    """What the agents of a pool say of themselves, as a scorer that nothing was fitted for. Immutable but for what it remembers;
    safe to share between threads. Phrases are embedded when the first text comes."""

    kind: ClassVar[str] = "descriptions"

    def __init__(
        self,
        agents: Sequence[Agent],
        *,
        meaning: bool,
        examples: Mapping[int, Sequence[str]] | None = None,
        nobody: Sequence[str] = (),
        labeled: Labeled | None = None,
        beside_model: bool = False,
    ) -> None:
        """`agents` (A) are the pool's; `examples` are queries that an agent is for, by id, and `nobody` some that nobody is for.
        `meaning` asks the sentence encoder too, which is loaded with the first text; without it examples are not read. `labeled` has a
        say beside the descriptions. `beside_model`: a model reads what was said before a later turn, which is weighed as a plain text
        here."""
        self.agents, self.meaning, self.labeled = tuple(agents), meaning, labeled if meaning else None
        self.examples = {agent: tuple(texts) for agent, texts in (examples or {}).items() if texts}
        self.nobody, self.beside_model = tuple(nobody), beside_model
        self._learned("words" if not meaning else "examples" if self.examples else "meaning")

    def _learned(self, kind: str) -> None:
        """Take what was learnt of a kind: the weights of the features, float64[2, FEATURES] for plain texts and later turns, and those
        of the confidence in a set."""
        turns = "weights" if self.beside_model else "turns"
        self.weights: NDArray[np.float64] = np.stack([_of_file()[of][kind] for of in ("weights", turns)])
        self.confidence: NDArray[np.float64] = _of_file()["confidence"][kind]

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """The log-odds that each text needs each agent, float32[N, A], as `bounded` leaves them."""
        log_odds = np.empty((len(texts), len(self.agents)), np.float32)
        for row, text in enumerate(texts):
            features = self.features(text)
            log_odds[row] = bounded(weighed(features, *self.weights), features)
            if self.labeled is not None:
                log_odds[row] = self.labeled.beside(log_odds[row], sentences.embed([str(text)])[0])
        return log_odds

    def likeness(self, text: str) -> dict[int, float]:
        """How alike a text and each agent are, 0 to 1, by id, rounded to four decimals: what ranks agents, and no probability."""
        return {agent.id: round(value, 4) for agent, value in zip(self.agents, self.alike(text).tolist(), strict=True)}

    def alike(self, text: str) -> FloatArray:
        """The same in the agents' order, not rounded, float32[A]."""
        alike = self._alike(str(text))[2]
        if self.meaning and says_something(text):
            total = alike / np.float32(1 + NAME / 2)
            alike = np.clip(np.where(total < UNLIKE, ALIKE / UNLIKE * total, ALIKE + total - UNLIKE), 0, 1)
        return np.asarray(alike, np.float32)

    def features(self, text: str) -> FloatArray:
        """float32[A, FEATURES]."""
        agents = len(self.agents)
        words, nearest, alike, nobody = self._alike(str(text))
        clauses = [alike, *(self._alike(clause)[2] for clause in clauses_of(str(text)))]
        leads = [_lead(each) for each in clauses]
        earlier = self._earlier(text)
        best = float(alike.max(initial=0.0))
        behind = best - alike
        of_all = [best, best * best, nobody, float(earlier.any()), float(not words.any()), np.log(max(agents, 1)), 1.0]
        best_, squared, stranger, turn, strange, size, one = (np.full(agents, value) for value in of_all)
        columns = [alike, words, nearest, np.maximum(leads[0], 0), behind, behind * behind, alike - alike.mean(), best_, squared,
        stranger,
                   np.max(clauses, axis=0), np.max(leads, axis=0), earlier, _lead(earlier), turn, strange, size, one]  # fmt: skip
        return np.stack(columns, axis=1).astype(np.float32)

    @cached_property
    def _words(self) -> WordLikeness:
        return WordLikeness(self.agents, [agent.id for agent in self.agents])

    @cached_property
    def _said(self) -> tuple[FloatArray, NDArray[np.intp]]:
        """The embeddings of all phrases and examples, float32[P, SIZE], and where each agent's begin, its name first; last what needs
        nobody."""
        phrase_lists = [[*phrases(agent), *self.examples.get(agent.id, ())] or [""] for agent in self.agents]
        phrase_lists.append([*NOBODY, *self.nobody])
        first = np.cumsum([0, *(len(own) for own in phrase_lists)])[:-1]
        return sentences.embed([phrase for own in phrase_lists for phrase in own]), first

    def _alike(self, text: str) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """(words, nearest, alike, float32[A] each; the cosine to what needs nobody)."""
        words = self._words.of(text)
        if not self.meaning or not says_something(text):
            return words, np.zeros_like(words), words, 0.0
        vector = sentences.embed([text])[0]
        vectors, first = self._said
        cosines = vectors @ vector
        *nearest, nobody = np.maximum.reduceat(cosines, first)
        alike = words + np.array(nearest) + NAME * cosines[first[:-1]]
        return words, np.array(nearest, np.float32), alike.astype(np.float32), float(nobody)

    def _earlier(self, text: str) -> FloatArray:
        """How alike what was said before is to each agent, the latest user turns together with the last; 0 for a plain text."""
        user_turns = [message.content for message in before(text) if message.role == USER][-EARLIER:]
        if not user_turns:
            return np.zeros(len(self.agents), np.float32)
        return self._alike(" ".join([*user_turns, str(text)])[-LONGEST_EARLIER:])[2]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The embeddings, so that loading a model embeds nothing."""
        if not self.meaning:
            return {}
        vectors, first = self._said
        labeled = {} if self.labeled is None else {"head": self.labeled.weights, "trusted": self.labeled.trusted}
        return {"said": vectors.astype(np.float16), "first": first.astype(np.int64), **labeled}

    def config(self) -> dict[str, Any]:
        """All else; of the encoder its name."""
        agents = [{**agent.facts, "keywords": list(agent.keywords)} for agent in self.agents]
        encoder = {"sentence_encoder": sentences.NAME} if self.meaning else {}
        return {"agents": agents, "with_examples": bool(self.examples), **encoder}

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Descriptions:
        """Raises ValueError where the parts do not fit. Where the sentence encoder is not installed the words alone speak."""
        try:
            agents = [Agent(**{**agent, "keywords": tuple(agent["keywords"])}) for agent in config["agents"]]
            made = cls(agents, meaning="sentence_encoder" in config and sentences.installed())
            if made.meaning:
                sentences.check(str(config["sentence_encoder"]))
                vectors, first = tensors["said"].astype(np.float32), tensors["first"].astype(np.intp)
                if vectors.ndim != 2 or vectors.shape[1] != sentences.SIZE or len(first) != len(agents) + 1:
                    raise ValueError("the descriptions' vectors do not fit their agents")
                made.__dict__["_said"] = vectors, first  # in the place of what would be embedded
                if "head" in tensors:
                    made.labeled = Labeled(tensors["head"], tensors["trusted"]).checked(len(agents))
                made._learned("examples" if config["with_examples"] else "meaning")
            return made
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the descriptions lack {error}") from None

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """Per agent, the words whose absence changes its log-odds most, and by how much they are higher with the word. Nothing of one
        word, of a text without spaces, or of a long one: these are read as a whole only."""
        spans = [match.span() for match in COMPOUND.finditer(str(text))] if len(text) <= LONGEST_EXPLAINED else []
        if not 1 < len(spans) <= MOST_EXPLAINED:
            return [[] for _ in self.agents]
        earlier = before(text)
        without = [text_of(f"{text[:start]}{text[end:]}", earlier) for start, end in spans]
        log_odds = self.logits([text, *without])
        weights = log_odds[0] - log_odds[1:]  # (words, A)
        names = [text[start:end].lower() for start, end in spans]
        parts = [[(n, float(w)) for n, w in zip(names, own, strict=True) if abs(w) >= LEAST_SAID] for own in weights.T]
        return [sorted(dict(own).items(), key=lambda part: -abs(part[1]))[:top] for own in parts]


def weighed(features: FloatArray, plain: NDArray[np.float64], turn: NDArray[np.float64]) -> NDArray[np.float64]:
    """The log-odds of one text from its features float32[A, FEATURES], [A], by the weights that count for it."""
    is_turn = len(features) > 0 and features[0, TURN] > 0
    return np.asarray(np.clip(features @ (turn if is_turn else plain), -LIMIT, LIMIT))


def bounded(log_odds: NDArray[np.float64], features: FloatArray) -> NDArray[np.float64]:
    """The log-odds of one text, [A], from its features float32[A, FEATURES], none of them higher than before.

    The weights give each agent its chance alone. Of a text that the descriptions say nothing of, such as a name, each gets the same
    small one, and in a large pool a set of everybody was the best answer to that. So all chances together are at most MOST_NEEDED, and
    at most MOST_UNREAD where nothing tells the agents apart: nothing was read, or none is likelier needed than not while more than one
    of those beyond the MOST_NEEDED likeliest would be."""
    if not len(log_odds):
        return log_odds
    log_odds = _lowered(log_odds, MOST_NEEDED)
    chances = np.sort(_chance(log_odds))[::-1]
    alike = chances[0] < 0.5 and chances[MOST_NEEDED:].sum() > 1
    return _lowered(log_odds, MOST_UNREAD) if alike or not features[:, READ].any() else log_odds


def _lowered(log_odds: NDArray[np.float64], most: float) -> NDArray[np.float64]:
    """All log-odds less by the same, so that the chances together are at most `most`; as they are where these are not more."""
    if _chance(log_odds).sum() <= most:
        return log_odds
    low, high = 0.0, 4 * LIMIT
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _chance(log_odds - middle).sum() > most else (low, middle)
    return log_odds - high


def _chance(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-log_odds)))


def says_something(text: str) -> bool:
    """Whether there is a word in a text, which has a meaning; addresses and numbers of things name something, and need nobody."""
    return any(_LETTERS.search(part) and not _is_identifier(part) for part in text.split())


def _is_identifier(part: str) -> bool:
    """Whether it is an address, or a number of an order or the like. Other scripts write words and numbers without a space."""
    return part.isascii() and ("://" in part or "@" in part.strip("@.,;:!?") or sum(map(str.isdigit, part)) >= DIGITS)


def clauses_of(text: str) -> list[str]:
    """The parts of a text that may each ask for something of their own; [] where it is one."""
    parts = [part.strip() for part in _BREAK.split(text[:LONGEST_EARLIER])]
    kept = [part for part in parts if len(part) >= LEAST_CLAUSE or (len(part) >= 4 and not part.isascii())]
    return kept[:MOST_CLAUSES] if len(kept) > 1 else []


def _lead(values: FloatArray) -> FloatArray:
    """How far each agent's value is above the largest of the others, negative for all but the first; 0 of an agent alone."""
    if len(values) < 2:
        return np.zeros_like(values)
    second, first = np.partition(values, -2)[-2:]
    return np.where(values == first, first - second, values - first).astype(np.float32)


@lru_cache(maxsize=1)
def _of_file() -> dict[str, dict[str, NDArray[np.float64]]]:
    """What `benchmarks/descriptions` learnt, for scorers with the sentence encoder ("meaning"), with it and with examples, and
    without it ("words"): the weights of FEATURES for plain texts and for later turns, and what the confidence of a set is made of
    (`calibration.set_features`)."""
    stored = json.loads((Path(__file__).parent / "descriptions.json").read_text("utf-8"))
    learnt = {
        of: {kind: np.array([values[f] for f in FEATURES]) for kind, values in stored[of].items()}
        for of in ("weights", "turns")
    }
    return {**learnt, "confidence": {kind: np.array(v) for kind, v in stored["confidence"].items()}}
