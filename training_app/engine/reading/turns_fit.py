"""Fitting the scorer of turns; what is learnt, and the serving half, stand in `turns`. Imported by workers only.

How far back to look is learnt too. The linear model is cross-fitted on the last turn alone, with the exchange before it, and with all
that was said; more is taken only where it helps beyond the noise. In a pool whose queries explain themselves nothing is taken: its
router is then the one that plain texts would have got.

The reader is fitted on what the linear model says of turns that it was not fitted on, whole conversations apart. In a part of its rows
the oldest channel is another conversation's: old turns that have nothing to do with the last one are common, and must not tell.
"""

from __future__ import annotations

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

from training_app.engine.config import Config
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.conversations import before
from training_app.engine.data.examples import Agent
from training_app.engine.data.intervals import spread
from training_app.engine.data.rows import Rows
from training_app.engine.progress import ScorerProgress
from training_app.engine.reading.linear import MOST_WEIGHTS, best_jaccards, fit_tfidf
from training_app.engine.reading.scorers import CrossFit, fit_platt, fold_of_group, prior_log_odds
from training_app.engine.reading.stack import fit_weights
from training_app.engine.reading.stacking import WORTH, corrected
from training_app.engine.reading.text import LinearMargins
from training_app.engine.reading.turns import CHANNELS, DEPTHS, READER, Channels, Reader, TurnsMargins, channels_of

#: Where looking back brings so much Jaccard, the last turn is not read by a scorer of its own as well.
DECIDES = 0.1
#: From this many rows on three folds are enough, and n-grams of a single row tell nothing.
MANY = 1_000
WIDTH, BATCH, RATE = 48, 128, 5e-3
PASSES, LEAST_UPDATES = 12, 300
#: The share of rows whose oldest turns the reader sees replaced by another conversation's.
STRANGE = 0.1

Matrix = Any  # a scipy.sparse.csr_matrix; scipy has no types


@dataclass(frozen=True, slots=True)
class Looked:
    """A candidate: how far it looks back, and what it says of every training row, out of fold. `seen` float32[N, A, K], the
    sum first; `margins` float32[N, A]."""

    name: str
    depth: str
    margins: FloatArray
    seen: FloatArray


def has_conversations(texts: Sequence[str]) -> bool:
    """Whether anything was said before any of the texts."""
    return any(before(text) for text in texts)


def fit_turns(
    config: Config,
    rows: Rows,
    groups: Sequence[str],
    validation: Rows,
    agents: Sequence[Agent],
    plain: Callable[[], tuple[CrossFit, dict[str, Any]]],
    progress: ScorerProgress,
) -> tuple[CrossFit, dict[str, Any]]:
    """The scorer for rows of which some are turns, with out-of-fold log-odds, and a report.

    `plain()` fits what reads the last turn alone, as for a pool of texts. The report's "turns" has the out-of-fold Jaccard of each way
    of looking back ("looks"), what each brings beside the one before ("brings"), which was taken ("depth", "reader").
    """
    folds = min(config.folds or (3 if len(rows) >= MANY else 5), len(set(groups)))
    told = [channels_of(text) for text in rows.texts]
    numbers, strength = [agent.id for agent in agents], config.svm_c or 1.0
    fold = fold_of_group(groups, folds, config.seed)
    looked: dict[str, FloatArray] = {}
    for depth, _channels in DEPTHS.items():
        if depth == "all" and not any(t.texts[3] or t.agents_earlier for t in told):
            continue
        looked[depth] = np.zeros((*rows.required.shape, TurnsMargins.seen_numbers(DEPTHS[depth], False)), np.float32)
    for k in range(folds):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        progress(k, folds + 2, f"turns: fold {k + 1} of {folds}")
        features = [_Channel.of([told[i].texts[c] for i in inside.tolist()], len(numbers), c) for c in range(4)]
        for depth in looked:
            fitted = _joint(features[: DEPTHS[depth]], told, inside, rows, numbers, strength, config.seed)
            looked[depth][outside] = [fitted.seen(rows.texts[i]) for i in outside.tolist()]
    candidates = [Looked(depth, depth, seen[:, :, 0], seen) for depth, seen in looked.items()]
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

    seen = best.seen
    options = {best.name: seen[:, :, 0]}
    mix = np.array([1, 0, 0], np.float32)
    if base is not None:
        seen = np.concatenate([seen, base.log_odds[:, :, None]], axis=2)
        own = fit_platt(seen[:, :, 0], rows.required, rows.asked)
        options = {"plain": base.log_odds}
        weights, shift = fit_weights([own(seen[:, :, 0]), base.log_odds], rows.required, rows.asked)
        # The map of the sum is one for all agents here: a scale and a constant that the last map takes over.
        mix = np.array([weights[0] * float(np.median(own.scale)), weights[1], shift], np.float32)
        options["mix"] = np.asarray(mix[0] * seen[:, :, 0] + mix[1] * base.log_odds + mix[2], np.float32)
    said_before = np.array([bool(before(text)) for text in rows.texts])
    options["reader"] = _read_out_of_fold(seen, said_before, rows, fold, best, config.seed, progress)
    choice = next(iter(options))
    scores = {name: best_jaccards(margins, rows.required, rows.asked) for name, margins in options.items()}
    for name in list(options)[1:]:
        if _better(scores[name], scores[choice]):
            choice = name
    report |= {"options": {name: float(v.mean()) for name, v in scores.items()}, "depth": best.depth}
    report["reader"] = choice == "reader"
    if choice == "plain" and base is not None:
        return base, {**plain_report, "turns": {**report, "depth": "now"}}
    progress(folds + 1, folds + 2, "turns: all rows")
    every = np.arange(len(rows))
    features = [_Channel.of([t.texts[c] for t in told], len(numbers), c) for c in range(DEPTHS[best.depth])]
    fitted = _joint(features, told, every, rows, numbers, strength, config.seed)
    reader = None
    if choice == "reader":
        reader = _fit_reader(seen, said_before, rows.required, rows.asked, fold, best, config.seed)
    fitted = TurnsMargins(
        fitted.channels, fitted.bias, fitted.answered, numbers,
        base=None if base is None else base.fitted, platt=None if base is None else base.platt, reader=reader, mix=mix,
    )  # fmt: skip
    margins = options[choice]
    platt = fit_platt(margins, rows.required, rows.asked)
    found = CrossFit(platt(margins), margins, fitted, platt)
    return corrected(found, validation), {**plain_report, "encoder": "turns", "turns": report}


def fit_channels(
    texts: Sequence[str], required: BoolArray, asked: BoolArray, agents: Sequence[Agent], seed: int
) -> TurnsMargins:
    """The linear model over all channels alone, without a reader: what a well-tuned classifier makes of conversations."""
    told = [channels_of(text) for text in texts]
    features = [_Channel.of([t.texts[c] for t in told], len(agents), c) for c in range(len(CHANNELS))]
    rows = Rows(list(texts), required, asked)
    return _joint(features, told, np.arange(len(rows)), rows, [agent.id for agent in agents], 1.0, seed)


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
        least = 2 if len(texts) >= MANY else 1
        most = MOST_WEIGHTS // (agents * len(CHANNELS))
        try:
            return cls(*fit_tfidf(texts, max_features=most, min_documents=least))
        except ValueError:
            # Nobody says anything here: one n-gram that no text holds keeps the place.
            tfidf, _ = fit_tfidf(["\u2400"])
            return cls(tfidf, sp.csr_matrix((len(texts), tfidf.size)))


def _joint(
    features: Sequence[_Channel],
    told: Sequence[Channels],
    inside: NDArray[np.intp],
    rows: Rows,
    numbers: Sequence[int],
    c: float,
    seed: int,
) -> TurnsMargins:
    """One linear machine an agent over the channels' n-grams and the agents that answered before; of the rows `inside`."""
    size = len(numbers)
    place = {number: a for a, number in enumerate(numbers)}
    read = len(features)
    answered = sp.lil_matrix((len(inside), 2 * size))
    for row, i in enumerate(inside.tolist()):
        if read > 1:
            answered[row, [place[a] for a in told[i].agents_before if a in place]] = 1
        if read > DEPTHS["exchange"]:
            answered[row, [size + place[a] for a in told[i].agents_earlier if a in place]] = 1
    matrix = sp.hstack([*(channel.matrix for channel in features), answered.tocsr()]).tocsr()
    Y, asked = rows.required[inside], rows.asked[inside]
    weights = np.zeros((matrix.shape[1], size), np.float32)
    bias = prior_log_odds(Y, asked).copy()
    for a in range(size):
        y = Y[asked[:, a], a]
        if y.all() or not y.any():
            continue
        part = matrix if asked[:, a].all() else matrix[asked[:, a]]
        machine = LinearSVC(C=c, random_state=seed).fit(part, y)
        weights[:, a], bias[a] = machine.coef_[0], machine.intercept_[0]
    channels, start = [], 0
    for channel in features:
        end = start + channel.matrix.shape[1]
        channels.append(LinearMargins(channel.tfidf, weights[start:end], np.zeros(size, np.float32)))
        start = end
    return TurnsMargins(channels, bias, weights[start:].reshape(2, size, size).copy(), numbers)


# ------------------------------------------------------------------------------------------------------------- the reader


def _read_out_of_fold(
    seen: FloatArray,
    said_before: BoolArray,
    rows: Rows,
    fold: NDArray[np.int64],
    looked: Looked,
    seed: int,
    progress: ScorerProgress,
) -> FloatArray:
    """What readers say that were not fitted on the row, float32[N, A]; one a fold."""
    margins = np.zeros(rows.required.shape, np.float32)
    for k in range(int(fold.max()) + 1):
        progress(k, int(fold.max()) + 2, f"turns: reader {k + 1}")
        inside, outside = fold != k, np.flatnonzero(fold == k)
        reader = _fit_reader(
            seen[inside], said_before[inside], rows.required[inside], rows.asked[inside], fold[inside], looked, seed
        )
        for i in outside.tolist():
            margins[i] = reader(seen[i], bool(said_before[i]))
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


class _Strange:
    """Old turns that have nothing to do with the last one, put into a share of a batch: a turn's oldest channel becomes another row's,
    and what had nothing before it gets all that another row had."""

    def __init__(self, scale: FloatArray, channels: int, others: NDArray[np.intp]) -> None:
        """scale float32[K]; `others` are the rows that had something before."""
        self.has, self._others, self._channels = channels > 1 and len(others) > 0, others, channels
        self._to_sum = torch.from_numpy(scale[0] / scale[: channels + 1])

    def __call__(self, shown: Tensor, anything: Tensor, x: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """shown float32[B, A, K] and anything float32[B, 1] of a batch out of x float32[N, A, K]: both with strange turns."""
        drawn = torch.from_numpy(rng.random(len(shown)) < STRANGE)
        other = x[rng.choice(self._others, len(shown))]
        shown = shown.clone()
        alone = drawn & (anything[:, 0] == 0)
        kinds = [(place, alone) for place in range(2, self._channels + 1)]
        if self._channels == len(CHANNELS):
            kinds[-1] = (self._channels, drawn)
        for place, where in kinds:
            change = torch.where(where[:, None], other[:, :, place] - shown[:, :, place], 0.0)
            shown[:, :, place] += change
            shown[:, :, 0] += change * self._to_sum[place]
        return shown, torch.where(alone[:, None], 1.0, anything)


def _fit_reader(
    seen: FloatArray,
    said_before: BoolArray,
    required: BoolArray,
    asked: BoolArray,
    fold: NDArray[np.int64],
    looked: Looked,
    seed: int,
) -> Reader:
    """Binary cross-entropy over asked (turn, agent) pairs, AdamW under a one-cycle rate (Smith and Topin 2018, arXiv 1708.07120)."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(seed)
    rng = np.random.Generator(np.random.PCG64(seed))
    scale = (1 / np.maximum(seen.std(axis=(0, 1)), 1e-2)).astype(np.float32)  # [K]
    network = _Network(seen.shape[2], draw)
    x, anything = torch.from_numpy(seen * scale), torch.from_numpy(said_before.astype(np.float32)[:, None])
    y, counted = torch.from_numpy((required & asked).astype(np.float32)), torch.from_numpy(asked.astype(np.float32))
    strange = _Strange(scale, DEPTHS[looked.depth], np.flatnonzero(said_before))
    batch = min(BATCH, max(16, len(seen) // 16))
    updates = max(LEAST_UPDATES, PASSES * -(-len(seen) // batch))
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-3, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=updates)
    order: list[int] = []
    for _ in range(updates):
        if len(order) < batch:
            order = rng.permutation(len(seen)).tolist()
        chosen, order = order[:batch], order[batch:]
        shown, any_before = x[chosen], anything[chosen]
        if strange.has:
            shown, any_before = strange(shown, any_before, x, rng)
        margins = network(shown, any_before)
        loss = nn.functional.binary_cross_entropy_with_logits(margins, y[chosen], counted[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        learnt = [name for name in READER if name != "scale"]
        weights = {name: np.array(network.w[name].numpy(), np.float32, order="C") for name in learnt}
    return Reader(weights | {"scale": scale})
