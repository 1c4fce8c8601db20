"""A scorer that reads a turn in its conversation, serving half: numpy only. `turns_fit` fits it.

"Yes, thanks. What's their phone number?" needs whom the turn before was about. What is said now and what was said before are not one
text: a name in the last turn is a wish, the same name three turns ago may be done with. So each is read in a channel of its own,

    now       the last user turn, which is routed
    answer    what assistants and tools have said since the user's turn before it
    question  that turn before it
    rest      everything older, and what the system said

by one linear model over the n-grams of all channels and over the agents that answered before, where the application tells:

    x_c(a) = tf-idf(channel c) W_c,a          joint(a) = sum_c x_c(a) + b_a          opens = tf-idf(now) v

`opens` says how much the turn reads like one that begins a conversation: what was said before such a turn is likely another matter.
`closes` says the same of the answer before it: whether after such words somebody else is asked for. Who is asked "for what time?" and
then wants a film has most likely begun anew.

A sum cannot say "the turn before counts, unless this one names somebody new, or says good-bye". The reader can. It sees for each agent
what every channel says of it, and what the channels say of all agents together (Deep Sets: Zaheer et al. 2017, arXiv 1703.06114):

    h_a = relu(x_a A + c_1)        p = [max_a h_a, mean_a relu(h_a P + c_2), whether anything was said before]
    margin(a) = relu(relu([x_a, p] B + c_3) D + c_4) o + c_5 + 2 joint(a)

Its weights are shared by all agents, so hundreds of turns teach it. `base`, where there is one, is a scorer of the last turn alone, as
strong as one for plain texts; its log-odds are one more number that is seen of each agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.conversations import USER, before
from training_app.engine.reading.conversing.abreast import Abreast
from training_app.engine.reading.scorers import FittedScorer, Platt, load_scorer
from training_app.engine.reading.text import LinearMargins

CHANNELS = ("now", "answer", "question", "rest")
#: How many channels are read when looking back not at all, to the exchange before, and all the way.
DEPTHS = {"now": 1, "exchange": 3, "all": 4}
#: Characters read of one older channel, its newest: an answer may hold a whole document.
MOST = 4_000
READER = (
    "see",
    "see_bias",
    "pool",
    "pool_bias",
    "join",
    "join_bias",
    "think",
    "think_bias",
    "say",
    "say_bias",
    "scale",
)


class Channels(NamedTuple):
    """What a query says in each channel, "" where nothing, and the agents that answered just before and earlier."""

    texts: tuple[str, str, str, str]
    agents_before: frozenset[int]
    agents_earlier: frozenset[int]


_NOBODY: frozenset[int] = frozenset()


def channels_of(text: str) -> Channels:
    """A query by channels; a plain text has only "now"."""
    earlier = before(text)
    if not earlier:
        return Channels((str(text), "", "", ""), _NOBODY, _NOBODY)
    answer: list[str] = []
    question: list[str] = []
    system: list[str] = []
    rest: list[str] = []
    exchange_agents: tuple[int, ...] = ()
    rest_agents: tuple[int, ...] = ()
    asked = False
    for message in reversed(earlier):
        role, content = message.role, message.content
        if role == "system":
            system.append(content)
        elif asked:
            rest.append(content)
            rest_agents += message.agents
        else:
            asked = role == USER
            (question if asked else answer).append(content)
            exchange_agents += message.agents
    return Channels(
        (str(text), _joined(answer), _joined(question), _joined(rest + system)),
        frozenset(exchange_agents),
        frozenset(rest_agents),
    )


def _joined(newest_first: Sequence[str]) -> str:
    return " ".join(newest_first[::-1])[-MOST:]


@dataclass(frozen=True, slots=True)
class Reader:
    """The weights of the equations above: A [K, H], P [H, H], B [K + 2 H + 1, H], D [H, H], o [H, 1], each with its bias; `scale`
    float32[K] is what the numbers seen of an agent are multiplied with first."""

    weights: Mapping[str, FloatArray]

    def __call__(self, seen: FloatArray, anything_before: bool) -> FloatArray:
        """seen float32[A, K], the sum of all channels first -> margins float32[A]."""
        w = self.weights
        x = seen * w["scale"]
        h = np.maximum(x @ w["see"] + w["see_bias"], 0)  # [A, H]
        q = np.maximum(h @ w["pool"] + w["pool_bias"], 0)
        own, width = len(w["scale"]), h.shape[1]
        pooled = np.empty(2 * width + 1, np.float32)
        np.maximum.reduce(h, axis=0, out=pooled[:width])
        np.add.reduce(q, axis=0, out=pooled[width:-1])
        pooled[width:-1] /= len(q)
        pooled[-1] = anything_before
        # What all agents share is multiplied once.
        g = np.maximum(x @ w["join"][:own] + (pooled @ w["join"][own:] + w["join_bias"]), 0)
        g = np.maximum(g @ w["think"] + w["think_bias"], 0)
        margins: FloatArray = (g @ w["say"])[:, 0] + w["say_bias"] + 2 * x[:, 0]
        return margins

    def checked(self, numbers: int) -> Reader:
        """This reader, if it takes so many numbers an agent. Raises ValueError."""
        h = self.weights["see"].shape[-1]
        shapes = {
            "see": (numbers, h), "pool": (h, h), "join": (numbers + 2 * h + 1, h), "think": (h, h), "say": (h, 1),
            "see_bias": (h,), "pool_bias": (h,), "join_bias": (h,), "think_bias": (h,), "say_bias": (1,), "scale": (numbers,),
        }  # fmt: skip
        for name, shape in shapes.items():
            if self.weights[name].shape != shape:
                raise ValueError(f"the reader's {name} has shape {self.weights[name].shape}, not {shape}")
        return self


class TurnsMargins:
    """A fitted scorer of turns. Immutable, safe to share between threads.

    channels: a `LinearMargins` without bias for each channel that is read, at most four; bias float32[A]; answered float32[2, A, A]:
    what an agent (rows) that answered just before, and earlier, adds to each agent's margin, agents numbered by `numbers`, their ids.
    base and platt: the scorer of the last turn alone and its map to log-odds. Without a `reader` the margin is
    mix[0] joint + mix[1] base + mix[2]. Where it `opens`, the first channel has a column more: whether a turn reads like a first one;
    where it `closes`, the second one has: whether an answer reads like the end of a matter.
    """

    kind: ClassVar[str] = "turns"

    def __init__(
        self,
        channels: Sequence[LinearMargins],
        bias: FloatArray,
        answered: FloatArray,
        numbers: Sequence[int],
        *,
        base: FittedScorer | None = None,
        platt: Platt | None = None,
        reader: Reader | None = None,
        mix: FloatArray | None = None,
        opens: bool = False,
        closes: bool = False,
    ) -> None:
        agents = len(bias)
        extra = (opens, closes)
        columns = [len(c.bias) - (place < 2 and extra[place]) for place, c in enumerate(channels)]
        if not 1 <= len(channels) <= len(CHANNELS) or any(c != agents for c in columns):
            raise ValueError(f"{len(channels)} channels do not fit {agents} agents")
        if answered.shape != (2, agents, agents) or len(numbers) != agents:
            raise ValueError(f"weights of agents that answered are {answered.shape} for {agents} agents")
        if (base is None) != (platt is None):
            raise ValueError("a scorer of the last turn needs its map to log-odds")
        self._abreast = Abreast(channels)
        self.channels = self._abreast.models
        self.bias, self.answered, self.numbers = bias, answered, list(map(int, numbers))
        self.base, self.platt, self.reader, self.opens, self.closes = base, platt, reader, opens, closes
        self.mix = np.array([1, 0, 0], np.float32) if mix is None else mix
        self._place = {number: place for place, number in enumerate(self.numbers)}
        self._tells = bool(np.any(answered))
        if reader is not None:
            reader.checked(self.seen_numbers(len(channels), base is not None, opens, closes))

    @staticmethod
    def seen_numbers(channels: int, base: bool, opens: bool = False, closes: bool = False) -> int:
        """How many numbers are seen of each agent: the sum, the channels, agents before and earlier, whether the turn reads like a
        first one and the answer before it like the end of a matter, which are the same for all, and the base's log-odds."""
        return 1 + channels + 2 + opens + closes + base

    @property
    def children(self) -> tuple[FittedScorer, ...]:
        """The scorers that the last turn is read with alone."""
        return () if self.base is None else (self.base, *getattr(self.base, "children", ()))

    def seen(self, text: str) -> FloatArray:
        """What is seen of each agent, float32[A, K]; the base's log-odds last, left 0 here."""
        channels = channels_of(text)
        size = self.seen_numbers(len(self.channels), self.base is not None, self.opens, self.closes)
        inputs = np.zeros((len(self.bias), size), np.float32)
        said = channels.texts
        margins = self._abreast.margins(said) if before(text) else self.channels[0].logits_of(said[0])[None]
        size, read = len(self.bias), len(self.channels)
        inputs[:, 1 : len(margins) + 1] = margins[:, :size].T
        # One column more says something of the conversation, not of an agent.
        if self.opens:
            inputs[:, read + 3] = margins[0, size]
        if self.closes and len(margins) > 1:
            inputs[:, read + 3 + self.opens] = margins[1, size]
        total = self.bias + inputs[:, 1 : len(self.channels) + 1].sum(axis=1)
        for side, agents in enumerate((channels.agents_before, channels.agents_earlier)):
            places = [self._place[agent] for agent in agents if agent in self._place]
            if places and len(self.channels) > (1 if side == 0 else DEPTHS["exchange"]):
                inputs[places, len(self.channels) + 1 + side] = 1
                if self._tells:
                    total = total + self.answered[side, places].sum(axis=0)
        inputs[:, 0] = total
        return inputs

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]. One by one: the answers of a batch are those of its texts."""
        out = np.empty((len(texts), len(self.bias)), np.float32)
        based = None
        if self.base is not None and self.platt is not None:
            based = self.platt(self.base.logits([str(text) for text in texts]))
        for row, text in enumerate(texts):
            seen = self.seen(text)
            if based is not None:
                seen[:, -1] = based[row]
            out[row] = self.margins(seen, bool(before(text)))
        return out

    def margins(self, seen: FloatArray, anything_before: bool) -> FloatArray:
        """float32[A, K] -> float32[A]."""
        if self.reader is not None:
            return self.reader(seen, anything_before)
        joint, base, constant = self.mix.tolist()
        margins = joint * seen[:, 0] + constant
        if base:
            margins = margins + base * seen[:, -1]
        return np.asarray(margins, np.float32)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        tensors: dict[str, NDArray[Any]] = {"bias": self.bias, "answered": self.answered, "mix": self.mix}
        for name, channel in zip(CHANNELS, self.channels, strict=False):
            tensors |= {f"{name}.{key}": tensor for key, tensor in channel.tensors().items() if key != "bias"}
        if self.reader is not None:
            tensors |= {f"reader.{key}": self.reader.weights[key] for key in READER}
        if self.base is not None and self.platt is not None:
            tensors |= {"base.scale": self.platt.scale, "base.shift": self.platt.shift}
            tensors |= {f"base.child.{name}": tensor for name, tensor in self.base.tensors().items()}
        return {name: np.ascontiguousarray(array) for name, array in tensors.items()}

    def config(self) -> dict[str, Any]:
        """The vocabularies, the agents' ids, and all about the scorer of the last turn."""
        values: dict[str, Any] = {
            "agents": self.numbers,
            "read": len(self.channels),
            "has_reader": self.reader is not None,
        }
        values |= {name: True for name, there in (("opens", self.opens), ("closes", self.closes)) if there}
        values |= {f"channel {n}": dict(c.config()) for n, c in zip(CHANNELS, self.channels, strict=False)}
        if self.base is not None:
            values |= {"base": self.base.kind, "base child": dict(self.base.config())}
        return values

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> TurnsMargins:
        """Raises ValueError where the parts do not fit."""
        try:
            bias = tensors["bias"].astype(np.float32)
            channels = []
            extra = {"now": bool(config.get("opens")), "answer": bool(config.get("closes"))}
            for name in CHANNELS[: int(config["read"])]:
                own = {k: tensors[f"{name}.{k}"] for k in ("idf", "weights")}
                none = np.zeros(len(bias) + extra.get(name, False), np.float32)
                channels.append(LinearMargins.from_tensors(config[f"channel {name}"], own | {"bias": none}))
            base = platt = reader = None
            if "base" in config:
                if config["base"] == cls.kind:
                    raise ValueError("a scorer of turns holds no other")
                start = "base.child."
                child = {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}
                base = load_scorer(config["base"], config["base child"], child)
                platt = Platt(tensors["base.scale"], tensors["base.shift"])
            if config.get("has_reader"):
                reader = Reader({key: tensors[f"reader.{key}"] for key in READER})
            mix = tensors["mix"]
            if mix.shape != (3,):
                raise ValueError(f"the mix has shape {mix.shape}, not (3,)")
            answered = tensors["answered"].astype(np.float32)
            return cls(
                channels, bias, answered, config["agents"], base=base, platt=platt, reader=reader, mix=mix,
                opens=extra["now"], closes=extra["answer"],
            )  # fmt: skip
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"the scorer of turns lacks {error}") from None

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """Per agent, the n-grams of all channels that weighed most in the sum, strongest first; those of an earlier turn with whose it
        was: "phone (assistant, 1 back)". The reader weighs the channels anew, so these tell where the evidence stands."""
        channels = channels_of(text)
        where = _places(text)
        parts_of_agent: list[dict[str, float]] = [{} for _ in self.bias]
        joint, based = (1.0, 1.0) if self.reader is not None else (float(self.mix[0]), float(self.mix[1]))
        for name, channel, channel_text in zip(CHANNELS, self.channels, channels.texts, strict=False):
            if channel_text:
                for a, parts in enumerate(channel.explain(channel_text, 2 * top)[: len(parts_of_agent)]):
                    for part, weight in parts:
                        shown = part if name == "now" else f"{part} ({_whose(part, where[name])})"
                        parts_of_agent[a][shown] = parts_of_agent[a].get(shown, 0.0) + joint * weight
        if self.base is not None and self.platt is not None:
            for a, parts in enumerate(self.base.explain(str(text), 2 * top)[: len(parts_of_agent)]):
                for part, weight in parts:
                    parts_of_agent[a][part] = (
                        parts_of_agent[a].get(part, 0.0) + based * float(self.platt.scale[a]) * weight
                    )
        for side, agents in enumerate((channels.agents_before, channels.agents_earlier)):
            for agent in agents & self._place.keys() if self._tells and len(self.channels) > 1 else ():
                when = "just before" if side == 0 else "earlier"
                for a, weight in enumerate(self.answered[side, self._place[agent]].tolist()):
                    if weight:
                        parts_of_agent[a][f"agent {agent} answered {when}"] = joint * weight
        return [sorted(parts.items(), key=lambda part: -abs(part[1]))[:top] for parts in parts_of_agent]


def _places(text: str) -> dict[str, list[tuple[str, str]]]:
    """By channel, (whose turn and how many turns back, its text in small letters), newest first."""
    places: dict[str, list[tuple[str, str]]] = {name: [] for name in CHANNELS}
    users = 0
    for back, message in enumerate(reversed(before(text)), 1):
        channel = "rest"
        if message.role != "system" and users == 0:
            channel = "question" if message.role == USER else "answer"
        users += message.role == USER
        places[channel].append((f"{message.role}, {back} back", message.content.lower()))
    return places


def _whose(part: str, places: Sequence[tuple[str, str]]) -> str:
    """The newest message that holds an n-gram, as `TfIdf.name` writes it."""
    wanted = part.strip("·").replace("␣", " ").strip()
    held = [where for where, content in places if wanted in content]
    return (held or [where for where, _content in places] or ["earlier"])[0]
