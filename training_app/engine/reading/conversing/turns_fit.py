"""Fitting the scorer of turns; what is learnt, and the serving half, stand in `turns`. Imported by workers only.

How far back to look is learnt too. The linear model is cross-fitted on the last turn alone, with the exchange before it, and with all
that was said; more is taken only where it helps beyond the noise. In a pool whose queries explain themselves nothing is taken: its
router is then the one that plain texts would have got.

The reader is fitted on what the linear model says of turns that it was not fitted on, whole conversations apart. It also learns from
turns with another conversation put in front, which were not fitted on either: old turns that have nothing to do with the last one are
common, and must not tell. First turns are few and lose most by it, so each of them is seen with several. Half of the time it is one
exchange of the other conversation, from anywhere in it, else all that was said there so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.svm import LinearSVC
from torch import Tensor, nn

from training_app.engine.adam import Adam
from training_app.engine.config import Config
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.conversations import USER, before, text_of
from training_app.engine.data.examples import Agent
from training_app.engine.data.intervals import spread
from training_app.engine.data.rows import Rows, fold_of_group
from training_app.engine.progress import ScorerProgress
from training_app.engine.reading.conversing.turns import (
    CHANNELS,
    DEPTHS,
    READER,
    Channels,
    Reader,
    TurnsMargins,
    channels_of,
)
from training_app.engine.reading.linear import MOST_WEIGHTS, best_jaccards, fit_machine, fit_tfidf
from training_app.engine.reading.scorers import CrossFit, Reading, fit_platt, prior_log_odds
from training_app.engine.reading.stack import fit_weights
from training_app.engine.reading.stacking import WORTH, corrected
from training_app.engine.reading.text import LinearMargins

#: Where looking back brings so much Jaccard, the last turn is not read by a scorer of its own as well.
DECIDES = 0.1
#: From this many rows on three folds are enough, and n-grams of a single row tell nothing.
MANY = 1_000
WIDTH, BATCH, RATE = 48, 128, 5e-3
PASSES, LEAST_UPDATES = 12, 300
#: How often the reader sees a turn with another conversation in front as well: one that has something before it, and at most a first
#: one; those of first turns are as many as the rows at most.
STRANGE, STRANGE_FIRST, STRANGE_ROWS = 0.25, 8.0, 1.0

#: Fewer turns that need somebody else than the turn before do not tell what such turns come after.
LEAST_HANDED = 5

Matrix = Any  # a scipy.sparse.csr_matrix; scipy has no types


@dataclass(frozen=True, slots=True)
class Looked:
    """A candidate: how far it looks back, and what it says of every training row, out of fold. `seen` float32[N, A, K], the
    sum first; `margins` float32[N, A]; `strange` float32[M, A, K] of the turns with another conversation in front."""

    name: str
    depth: str
    margins: FloatArray
    seen: FloatArray
    strange: FloatArray


def has_conversations(texts: Sequence[str]) -> bool:
    """Whether anything was said before any of the texts."""
    return any(before(text) for text in texts)


# Over 60 lines. One list of ways of looking back, and what chooses among them; each step uses what the one above fitted.
def fit_turns(
    config: Config,
    rows: Rows,
    groups: Sequence[str],
    validation: Rows,
    agents: Sequence[Agent],
    plain: Callable[[], tuple[CrossFit, dict[str, Any]]],
    progress: ScorerProgress,
    reading: Reading | None = None,
) -> tuple[CrossFit, dict[str, Any]]:
    """The scorer for rows of which some are turns, with out-of-fold log-odds, and a report.

    `plain()` fits what reads the last turn alone, as for a pool of texts; `reading` as in `cross_fit`. The report's "turns" has the
    out-of-fold Jaccard of each way of looking back ("looks"), what each brings beside the one before ("brings"), and which was taken
    ("depth", "reader").
    """
    folds = min(config.folds or (3 if len(rows) >= MANY else 5), len(set(groups)))
    channels = [channels_of(text) for text in rows.texts]
    numbers, strength = [agent.id for agent in agents], config.svm_c or 1.0
    fold = fold_of_group(groups, folds, config.seed)
    said_before = np.array([bool(before(text)) for text in rows.texts])
    opens = not said_before.all()
    handed = _handed_over(rows, groups)
    closes = bool(opens and (handed == 1).sum() >= LEAST_HANDED and (handed == 0).any())
    cues = Cues(said_before if opens else None, handed if closes else None)
    looked: dict[str, FloatArray] = {}
    for depth, _channels in DEPTHS.items():
        if depth == "all" and not any(t.texts[3] or t.agents_earlier for t in channels):
            continue
        looked[depth] = np.zeros(
            (*rows.required.shape, TurnsMargins.seen_numbers(DEPTHS[depth], False, opens, closes and depth != "now")),
            np.float32,
        )
    strange = _with_strange_turns(rows.texts, groups, fold, config.seed)
    misled = {
        depth: np.zeros((len(strange), *seen.shape[1:]), np.float32) for depth, seen in looked.items() if depth != "now"
    }
    for k in range(folds):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        progress(k, folds + 2, f"turns: fold {k + 1} of {folds}")
        features = [_Channel.of([channels[i].texts[c] for i in inside.tolist()], len(numbers), c) for c in range(4)]
        read = _as_it_is if reading is None else reading([rows.texts[i] for i in inside.tolist()])
        for depth in looked:
            fitted = _joint(features[: DEPTHS[depth]], channels, inside, rows, numbers, strength, config.seed, cues)
            looked[depth][outside] = [fitted.seen(read(rows.texts[i])) for i in outside.tolist()]
            for place, (i, text) in enumerate(strange if depth in misled else ()):
                if fold[i] == k:
                    misled[depth][place] = fitted.seen(read(text))
    candidates = [
        Looked(depth, depth, seen[:, :, 0], seen, misled.get(depth, seen[:0])) for depth, seen in looked.items()
    ]
    judged = {c.name: best_jaccards(c.margins, rows.required, rows.asked) for c in candidates}
    report: dict[str, Any] = {"looks": {name: float(values.mean()) for name, values in judged.items()}, "brings": {}}
    best = candidates[0]
    for earlier, candidate in pairwise(candidates):
        difference = spread(judged[candidate.name] - judged[earlier.name]).plain()
        report["brings"][candidate.name] = difference
        if _better(judged[candidate.name], judged[best.name]):
            best = candidate
    progress(folds, folds + 2, "turns: the last turn alone")
    decides = float((judged[best.name] - judged["now"]).mean()) >= DECIDES
    base, plain_report = (None, {}) if decides else plain()
    report["last_turn_alone"] = plain_report.get("encoder", "linear")
    if base is not None and (best.depth == "now" or base.held_out is not None):
        return base, {**plain_report, "turns": {**report, "depth": "now", "reader": False}}

    shown = _Shown.of(best, base, np.array([i for i, _text in strange], np.int64), said_before, rows, fold)
    seen, both = shown.seen, (shown.required, shown.asked)
    options = {best.name: seen[:, :, 0]}
    mix = np.array([1, 0, 0], np.float32)
    if base is not None:
        alone, count = seen[:, :, -1], len(rows)
        own = fit_platt(seen[:count, :, 0], rows.required, rows.asked)
        options = {"plain": alone}
        weights, shift = fit_weights([own(seen[:count, :, 0]), base.log_odds], rows.required, rows.asked)
        # The map of the sum is one for all agents here: a scale and a constant that the last map takes over.
        mix = np.array([weights[0] * float(np.median(own.scale)), weights[1], shift], np.float32)
        options["mix"] = np.asarray(mix[0] * seen[:, :, 0] + mix[1] * alone + mix[2], np.float32)
    options["reader"] = _read_out_of_fold(shown, config.seed, progress)
    choice = next(iter(options))
    # Turns with another conversation in front judge as well: what reads them right is worth more.
    scores = {name: best_jaccards(margins, *both) for name, margins in options.items()}
    for name in list(options)[1:]:
        if _better(scores[name], scores[choice]):
            choice = name
    report |= {"options": {name: float(v[: len(rows)].mean()) for name, v in scores.items()}, "depth": best.depth}
    report["reader"] = choice == "reader"
    if choice == "plain" and base is not None:
        return base, {**plain_report, "turns": {**report, "depth": "now"}}
    progress(folds + 1, folds + 2, "turns: all rows")
    every = np.arange(len(rows))
    features = [_Channel.of([t.texts[c] for t in channels], len(numbers), c) for c in range(DEPTHS[best.depth])]
    fitted = _joint(features, channels, every, rows, numbers, strength, config.seed, cues)
    reader = None
    if choice == "reader":
        reader = _fit_reader(shown, config.seed)
    fitted = TurnsMargins(
        fitted.channels, fitted.bias, fitted.answered, numbers,
        base=None if base is None else base.fitted, platt=None if base is None else base.platt, reader=reader, mix=mix,
        opens=fitted.opens, closes=fitted.closes,
    )  # fmt: skip
    margins = options[choice][: len(rows)]
    platt = fit_platt(margins, rows.required, rows.asked)
    fit = CrossFit(platt(margins), margins, fitted, platt)
    return corrected(fit, validation), {**plain_report, "encoder": "turns", "turns": report}


def _as_it_is(text: str) -> str:
    return text


def fit_channels(
    texts: Sequence[str], required: BoolArray, asked: BoolArray, agents: Sequence[Agent], seed: int
) -> TurnsMargins:
    """The linear model over all channels alone, without a reader: what a well-tuned classifier makes of conversations."""
    channels = [channels_of(text) for text in texts]
    features = [_Channel.of([t.texts[c] for t in channels], len(agents), c) for c in range(len(CHANNELS))]
    rows = Rows(list(texts), required, asked)
    return _joint(features, channels, np.arange(len(rows)), rows, [agent.id for agent in agents], 1.0, seed, Cues())


def _better(values: FloatArray, than: FloatArray) -> bool:
    """Whether a costlier way is worth it: beyond the noise, or by WORTH and more than a standard error."""
    difference = spread(values - than).plain()
    return bool(difference["low"] > 0 or (difference["mean"] >= WORTH and difference["low"] > -difference["mean"]))


# -------------------------------------------------------------------------------------------------------- the linear model


class _Channel(NamedTuple):
    """A channel's fitted features and the matrix of the texts they were fitted on; None where no text says anything."""

    tfidf: Any
    matrix: Matrix

    @classmethod
    def of(cls, texts: Sequence[str], agents: int, channel: int) -> _Channel:
        min_documents = 2 if len(texts) >= MANY else 1
        max_features = MOST_WEIGHTS // (agents * len(CHANNELS))
        try:
            return cls(*fit_tfidf(texts, max_features=max_features, min_documents=min_documents))
        except ValueError:
            # Nobody says anything here: one n-gram that no text holds keeps the place.
            tfidf, _ = fit_tfidf(["\u2400"])
            return cls(tfidf, sp.csr_matrix((len(texts), tfidf.size)))


class Cues(NamedTuple):
    """What else is told of rows by their text: first turns, by what is said now, `said_before` bool[N]; and by the answer whether
    somebody else is asked for next, `handed` int8[N], -1 where that is not known. None: not told."""

    said_before: BoolArray | None = None
    handed: NDArray[np.int8] | None = None


def _joint(
    features: Sequence[_Channel],
    turns: Sequence[Channels],
    inside: NDArray[np.intp],
    rows: Rows,
    numbers: Sequence[int],
    c: float,
    seed: int,
    cues: Cues,
) -> TurnsMargins:
    """One linear machine an agent over the channels' n-grams and the agents that answered before; of the rows `inside`. Each of the
    `cues` that is given is told by one more."""
    said_before, handed = cues
    size = len(numbers)
    place = {number: a for a, number in enumerate(numbers)}
    read = len(features)
    answered = sp.lil_matrix((len(inside), 2 * size))
    for row, i in enumerate(inside.tolist()):
        if read > 1:
            answered[row, [place[a] for a in turns[i].agents_before if a in place]] = 1
        if read > DEPTHS["exchange"]:
            answered[row, [size + place[a] for a in turns[i].agents_earlier if a in place]] = 1
    matrix = sp.hstack([*(channel.matrix for channel in features), answered.tocsr()]).tocsr()
    Y, asked = rows.required[inside], rows.asked[inside]
    weights = np.zeros((matrix.shape[1], size), np.float32)
    bias = prior_log_odds(Y, asked).copy()
    for a in range(size):
        y = Y[asked[:, a], a]
        if y.all() or not y.any():
            continue
        part = matrix if asked[:, a].all() else matrix[asked[:, a]]
        machine = LinearSVC(C=c, random_state=seed)
        fit_machine(machine, part, y)
        weights[:, a], bias[a] = machine.coef_[0], machine.intercept_[0]
    channels: list[LinearMargins] = []
    start = 0
    for channel in features:
        end = start + channel.matrix.shape[1]
        own = weights[start:end]
        if said_before is not None and not channels:
            # Its constant is left out: the reader has its own.
            own = np.concatenate([own, _telling(channel.matrix, ~said_before[inside], seed)], axis=1)
        if handed is not None and len(channels) == 1:
            was_handed = handed[inside] >= 0
            own = np.concatenate(
                [own, _telling(channel.matrix[was_handed], handed[inside][was_handed] == 1, seed)], axis=1
            )
        channels.append(LinearMargins(channel.tfidf, own, np.zeros(own.shape[1], np.float32)))
        start = end
    answered_before = weights[start:].reshape(2, size, size).copy()
    closes = handed is not None and read > 1
    return TurnsMargins(channels, bias, answered_before, numbers, opens=said_before is not None, closes=closes)


def _telling(matrix: Matrix, holds: BoolArray, seed: int) -> FloatArray:
    """What each n-gram of a channel says for `holds`, bool of its rows: float32[F, 1]."""
    if holds.all() or not holds.any():
        return np.zeros((matrix.shape[1], 1), np.float32)
    machine = LinearSVC(C=1.0, random_state=seed, class_weight="balanced")
    fit_machine(machine, matrix, holds)
    return np.asarray(machine.coef_.T, np.float32)


def _handed_over(rows: Rows, groups: Sequence[str]) -> NDArray[np.int8]:
    """Whether a turn needs an agent that the turn before it did not: int8[N], 1 or 0, and -1 where that turn is not among the rows."""
    needed: dict[tuple[str, str], BoolArray] = {}
    agents = np.full(len(rows), -1, np.int8)
    for i, (text, group) in enumerate(zip(rows.texts, groups, strict=True)):
        question = next((m.content for m in reversed(before(text)) if m.role == USER), None)
        last = None if question is None else needed.get((group, question))
        if last is not None:
            agents[i] = bool((rows.required[i] & ~last).any())
        needed[group, str(text)] = rows.required[i]
    return agents


def _with_strange_turns(
    texts: Sequence[str], groups: Sequence[str], fold: NDArray[np.int64], seed: int
) -> list[tuple[int, str]]:
    """Turns with what was said in another conversation, of the same fold, in front: (the turn's row, the query) each."""
    rng = np.random.Generator(np.random.PCG64(seed))
    pairs = []
    times = min(STRANGE_FIRST, STRANGE_ROWS * len(texts) / max(1, sum(not before(text) for text in texts)))
    others = {k: [i for i in np.flatnonzero(fold == k).tolist() if before(texts[i])] for k in np.unique(fold).tolist()}
    for i, text in enumerate(texts):
        own, there = before(text), others[int(fold[i])]
        for _ in range(int(rng.random() + (STRANGE if own else times))):
            other = there[int(rng.integers(len(there)))] if there else i
            if groups[other] != groups[i]:
                other_messages = before(texts[other])
                if rng.random() < 0.5:
                    asked = [at for at, message in enumerate(other_messages) if message.role == USER] or [0]
                    at = asked[int(rng.integers(len(asked)))]
                    other_messages = other_messages[at : at + 2]
                pairs.append((i, text_of(str(text), (*other_messages, *own))))
    return pairs


# ------------------------------------------------------------------------------------------------------------- the reader


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a reader learns from, N turns and then M turns with another conversation in front: seen float32[N + M, A, K], whether
    anything was said before, bool[N + M], required and asked bool[N + M, A], and the turn's fold int64[N + M]."""

    seen: FloatArray
    said_before: BoolArray
    required: BoolArray
    asked: BoolArray
    fold: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        looked: Looked,
        base: CrossFit | None,
        strange: NDArray[np.int64],
        said_before: BoolArray,
        rows: Rows,
        fold: NDArray[np.int64],
    ) -> _Shown:
        """`strange` int64[M] are the rows of the turns with another conversation in front."""
        strange = strange[: len(looked.strange)]
        turn = np.concatenate([np.arange(len(rows)), strange])
        seen = np.concatenate([looked.seen, looked.strange])
        if base is not None:
            seen = np.concatenate([seen, base.log_odds[turn][:, :, None]], axis=2)
        before_it = np.concatenate([said_before, np.ones(len(strange), np.bool_)])
        return cls(seen, before_it, rows.required[turn], rows.asked[turn], fold[turn])

    def take(self, rows: BoolArray) -> _Shown:
        """Those of `rows`, bool[N + M]."""
        return _Shown(self.seen[rows], self.said_before[rows], self.required[rows], self.asked[rows], self.fold[rows])


def _read_out_of_fold(shown: _Shown, seed: int, progress: ScorerProgress) -> FloatArray:
    """What readers say that were not fitted on the row, float32[N + M, A]; one a fold."""
    margins = np.zeros(shown.required.shape, np.float32)
    folds = int(shown.fold.max()) + 1
    for k in range(folds):
        progress(k, folds + 1, f"turns: reader {k + 1}")
        reader = _fit_reader(shown.take(shown.fold != k), seed)
        for i in np.flatnonzero(shown.fold == k).tolist():
            margins[i] = reader(shown.seen[i], bool(shown.said_before[i]))
    return margins


class _Network(nn.Module):
    """The reader in torch; see `turns` for the equations."""

    def __init__(self, numbers: int, draw: torch.Generator) -> None:
        super().__init__()
        h = WIDTH
        shapes = {"see": (numbers, h), "pool": (h, h), "join": (numbers + 2 * h + 1, h), "think": (h, h), "say": (h, 1)}
        self.w = nn.ParameterDict()
        for name, (rows, columns) in shapes.items():
            for key, shape in ((name, (rows, columns)), (f"{name}_bias", (columns,))):
                self.w[key] = nn.Parameter((torch.rand(*shape, generator=draw) * 2 - 1) * rows**-0.5)

    def forward(self, x: Tensor, anything: Tensor) -> Tensor:
        """x float32[B, A, K], anything float32[B, 1] -> margins float32[B, A]."""
        w = self.w
        h = torch.relu(x @ w["see"] + w["see_bias"])
        q = torch.relu(h @ w["pool"] + w["pool_bias"])
        pooled = torch.cat([h.amax(dim=1), q.mean(dim=1), anything], dim=1)[:, None].expand(-1, x.shape[1], -1)
        g = torch.relu(torch.cat([x, pooled], dim=2) @ w["join"] + w["join_bias"])
        g = torch.relu(g @ w["think"] + w["think_bias"])
        margins: Tensor = (g @ w["say"])[..., 0] + w["say_bias"] + 2 * x[..., 0]
        return margins


def one_cycle(update: int, updates: int) -> tuple[float, float]:
    """(rate, β₁) of an update: for three tenths of them the rate rises to RATE while β₁ falls, then both go back, along cosines."""
    peak = 0.3 * updates - 1
    last = updates - 1

    def between(start: float, end: float, share: float) -> float:
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    if update <= peak:
        return between(RATE / 25, RATE, update / peak), between(0.95, 0.85, update / peak)
    share = (update - peak) / (last - peak)
    return between(RATE, RATE / 250_000, share), between(0.85, 0.95, share)


def _fit_reader(shown: _Shown, seed: int) -> Reader:
    """Binary cross-entropy over asked (turn, agent) pairs, AdamW under a one-cycle rate (Smith and Topin 2018, arXiv 1708.07120)."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(seed)
    rng = np.random.Generator(np.random.PCG64(seed))
    seen = shown.seen
    scale = (1 / np.maximum(seen.std(axis=(0, 1)), 1e-2)).astype(np.float32)  # [K]
    network = _Network(seen.shape[2], draw)
    x, anything = torch.from_numpy(seen * scale), torch.from_numpy(shown.said_before.astype(np.float32)[:, None])
    y = torch.from_numpy((shown.required & shown.asked).astype(np.float32))
    counted = torch.from_numpy(shown.asked.astype(np.float32))
    batch = min(BATCH, max(16, len(seen) // 16))
    updates = max(LEAST_UPDATES, PASSES * -(-len(seen) // batch))
    optimizer = Adam(network.parameters(), betas=(0.9, 0.99), weight_decay=1e-3)
    order: list[int] = []
    for update in range(updates):
        if len(order) < batch:
            order = rng.permutation(len(seen)).tolist()
        chosen, order = order[:batch], order[batch:]
        margins = network(x[chosen], anything[chosen])
        loss = nn.functional.binary_cross_entropy_with_logits(margins, y[chosen], counted[chosen])
        loss.backward()
        optimizer.step(*one_cycle(update, updates))
    with torch.no_grad():
        learnt = [name for name in READER if name != "scale"]
        weights = {name: np.array(network.w[name].numpy(), np.float32, order="C") for name in learnt}
    return Reader(weights | {"scale": scale})
