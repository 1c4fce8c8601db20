"""What judged episodes say that labels do not: a model of how an episode ends by whom it called, a world that is scored by it, and
what a policy would have earned on the log. numpy only.

An episode i of the log called the set A of agents (of its first path) with the probability P, cost C and was as good as s, 0 to 1; its
reward is r = `Reward.total(C, s)`. How good a set is for a task with log-odds x,

    m(x, A) = σ(w · [1, 1[a ∈ A], 1[a ∈ A] x_a, 1[a ∉ A] x_a for each agent a])

is fitted by logistic regression. What a policy that calls π(x) is worth is the doubly robust mean of

    r̂(x, π) + 1[π(x) = A] / P · (r − r̂(x, A))

with r̂ fitted on the other folds (Dudík, Langford and Li 2011). Episodes are weighed by how far their judge agrees with people. Where
the policy differs from those that made the log and too few episodes went its way, it is not estimable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.orchestrating.environment import RecordedPath, RecordedWorld, read_tasks
from orchestration_app.engine.orchestrating.logs import KeptEpisode
from orchestration_app.engine.orchestrating.policy import Orchestrator
from orchestration_app.engine.orchestrating.rewards import Reward
from orchestration_app.engine.orchestrating.state import Call
from training_app.engine.data import intervals
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent
from training_app.engine.reading.logistic import logistic, sigmoid

Floats = NDArray[np.float64]

#: Judged episodes below which outcomes decide nothing, and folds of the estimates.
LEAST, FOLDS = 100, 5
#: Episodes that must have gone a policy's way where it differs from the one-shot set, and the least effective sample.
LEAST_DIFFERING, LEAST_EFFECTIVE = 5, 10.0
#: What each agent that a set has more or less than the one-shot set takes from its score: the log tells less of it.
FURTHER = 0.1
#: Observations that "no agent matters" counts as, and log-odds beyond which a task says no more.
RIDGE, SURE = 2.0, 4.0


@dataclass(frozen=True, slots=True)
class SetLog:
    """N judged episodes as sets: log_odds float32[N, A] and the one-shot set bool[N, A] of each task, whom it called bool[N, A], and
    float64[N] the probability of that, how good it was, its cost as the reward counts it and the weight of its judge."""

    texts: tuple[str, ...]
    log_odds: FloatArray
    one_shot: BoolArray
    called: BoolArray
    propensity: Floats
    score: Floats
    cost: Floats
    weight: Floats

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, slots=True)
class OutcomeModel:
    """m: how good an episode will be."""

    weights: Floats

    def expected(self, log_odds: FloatArray, sets: BoolArray) -> Floats:
        """Of tasks float[N, A] whose sets are called, bool[N, A]: float64[N]."""
        return sigmoid(_features(log_odds, sets) @ self.weights)


def read(orchestrator: Orchestrator, logged: Sequence[KeptEpisode], reward: Reward) -> SetLog:
    """The judged episodes whose agents the orchestrator knows and whose probability is that of a set: at most one decision was
    drawn."""
    place = {identifier: a for a, identifier in enumerate(orchestrator.ids)}
    usable = [
        episode for episode in logged
        if all(call.agent in place for step in episode.steps for call in step.calls)
        and sum(step.propensity < 1 for step in episode.steps) <= 1
    ]  # fmt: skip
    tasks = read_tasks(orchestrator, [episode.task for episode in usable])
    called = np.zeros((len(usable), len(place)), np.bool_)
    for row, episode in enumerate(usable):
        called[row, [place[call.agent] for step in episode.steps for call in step.calls]] = True
    return SetLog(
        tasks.texts, tasks.log_odds, np.asarray(tasks.one_shot, np.bool_), called,
        np.array([float(np.prod([step.propensity for step in episode.steps])) for episode in usable]),
        np.array([episode.score for episode in usable]),
        np.array([sum(reward.cost(step.calls) for step in episode.steps) for episode in usable]),
        np.array([episode.weight for episode in usable]),
    )  # fmt: skip


def fit(log: SetLog, rows: BoolArray | None = None) -> OutcomeModel:
    """m on some rows of the log, or all. A score between 0 and 1 counts as a part of a success and the rest of a failure."""
    rows = np.ones(len(log), np.bool_) if rows is None else rows
    features = _features(log.log_odds[rows], log.called[rows])
    score, weight = log.score[rows], log.weight[rows]
    prior = np.zeros(features.shape[1])
    return OutcomeModel(
        logistic(
            np.concatenate([features, features]), np.arange(2 * len(features)) < len(features), prior, RIDGE,
            np.concatenate([weight * score, weight * (1 - score)]),
        )
    )  # fmt: skip


def _features(log_odds: FloatArray, sets: BoolArray) -> Floats:
    x = np.clip(np.asarray(log_odds, np.float64) / SURE, -1, 1)
    return np.concatenate([np.ones((len(x), 1)), sets, x * sets, x * ~sets], axis=1)


@dataclass(frozen=True)
class OutcomeWorld:
    """Recorded outputs, scored by m in place of labels, less FURTHER for each agent that sets it apart from the one-shot set; a call
    costs and takes what calls of its agent do on the log, `usual` by agent."""

    recorded: RecordedWorld
    model: OutcomeModel
    log_odds: Mapping[str, FloatArray]
    one_shot: Mapping[str, BoolArray]
    usual: Mapping[int, Call]

    @classmethod
    def of(
        cls, orchestrator: Orchestrator, logged: Sequence[KeptEpisode], paths: Sequence[RecordedPath], texts: Sequence[str]
    ) -> OutcomeWorld:  # fmt: skip
        """The world of the logged tasks, of `texts`, and of `paths` that say more of what agents answer."""
        log = read(orchestrator, logged, Reward())
        calls_by_agent: dict[int, list[Call]] = {}
        path_of_task = {path.task: path for path in paths}
        for episode in logged:
            calls = tuple(call for step in episode.steps for call in step.calls)
            for call in calls:
                calls_by_agent.setdefault(call.agent, []).append(call)
            path_of_task.setdefault(
                episode.task, RecordedPath(episode.task, frozenset(), calls, episode.score, ordered=True)
            )
        for text in texts:
            path_of_task.setdefault(text, RecordedPath(text, frozenset(), ()))
        tasks = read_tasks(orchestrator, list(path_of_task))
        return cls(
            RecordedWorld.of(orchestrator.agents, list(path_of_task.values())), fit(log),
            dict(zip(tasks.texts, tasks.log_odds, strict=True)),
            dict(zip(tasks.texts, np.asarray(tasks.one_shot, np.bool_), strict=True)),
            {agent: _usual(calls) for agent, calls in calls_by_agent.items()},
        )  # fmt: skip

    def spent(self, reward: Reward) -> Floats:
        """What a call of each agent costs as the reward counts it, time among it, float64[A]."""
        calls = [self.usual.get(agent.id, Call(agent.id, "", cost=agent.cost)) for agent in self.agents]
        return np.array([reward.cost((call,)) for call in calls])

    def paths(self, texts: Sequence[str], reward: Reward) -> list[RecordedPath]:
        """For each text the set that is worth most to call, of the one-shot set and those with one agent more or less, as a path to
        imitate, in any order."""
        log_odds = np.stack([self.log_odds[text] for text in texts])
        one_shot = np.stack([self.one_shot[text] for text in texts])
        spent = self.spent(reward)
        options = [one_shot, *(one_shot ^ (np.arange(len(spent)) == place) for place in range(len(spent)))]
        worth = [
            reward.total(sets @ spent, self.model.expected(log_odds, sets) - (FURTHER if place else 0.0))
            for place, sets in enumerate(options)
        ]
        best = np.array(options)[np.argmax(worth, axis=0), np.arange(len(texts))]
        paths = []
        for text, required in zip(texts, best, strict=True):
            called = [agent.id for agent, needed in zip(self.agents, required, strict=True) if needed]
            paths.append(RecordedPath(text, frozenset(called), tuple(self.call(text, (), agent) for agent in called)))
        return paths

    @property
    def agents(self) -> tuple[Agent, ...]:
        return self.recorded.agents

    def call(self, task: str, calls: Sequence[Call], agent: int) -> Call:
        answer = self.recorded.call(task, calls, agent)
        usual = self.usual.get(agent)
        if usual is None:
            return replace(answer, cost=next((agent_.cost for agent_ in self.agents if agent_.id == agent), 1.0))
        return replace(answer, cost=usual.cost, tokens=usual.tokens, latency=usual.latency)

    def score(self, task: str, calls: Sequence[Call]) -> float:
        called = {call.agent for call in calls}
        sets = np.array([[agent.id in called for agent in self.agents]])
        score = float(self.model.expected(self.log_odds[task][None, :], sets)[0])
        return max(score - FURTHER * int((sets[0] != self.one_shot[task]).sum()), 0.0)


def _usual(calls: Sequence[Call]) -> Call:
    """What calls of one agent cost and take in the mean."""
    cost, tokens, latency = np.mean([(call.cost, call.tokens, call.latency) for call in calls], axis=0).tolist()
    return Call(calls[0].agent, "", cost=cost, tokens=round(tokens), latency=latency)


def say_more(log: SetLog, by_labels: Floats) -> bool:
    """Whether outcomes tell beyond chance more of how episodes end than `by_labels` [N], the labels' score of the sets that were
    called, does: on folds that neither was fitted on, by squared error."""
    if len(log) < LEAST or len(np.unique(log.score >= 0.5)) < 2:
        return False
    ours, theirs = np.empty(len(log)), np.empty(len(log))
    for here in _folds(log):
        ours[here] = fit(log, ~here).expected(log.log_odds[here], log.called[here])
        inputs = np.stack([np.ones(len(log)), by_labels], axis=1)
        twice = np.concatenate([inputs[~here], inputs[~here]])
        counts = np.concatenate([log.weight[~here] * log.score[~here], log.weight[~here] * (1 - log.score[~here])])
        line = logistic(twice, np.arange(len(twice)) < len(twice) // 2, np.zeros(2), RIDGE, counts)
        theirs[here] = sigmoid(inputs[here] @ line)
    gained = (theirs - log.score) ** 2 - (ours - log.score) ** 2
    return intervals.spread(gained).low > 0


def off_policy(log: SetLog, sets: BoolArray, reward: Reward, costs: Floats) -> dict[str, Any]:
    """What a policy that calls `sets` bool[N, A] would have earned on the log, beside the one-shot set: {"ours", "one_shot",
    "difference"}, each with a 95 % interval, "episodes", "differing" (those that went its way where it differs from the one-shot set)
    and "effective". `costs` [A] are what a call of each agent costs. Without the three where it is not estimable."""
    model_score = np.empty((3, len(log)))
    for here in _folds(log):
        model = fit(log, ~here)
        for at, some in enumerate((sets, log.one_shot, log.called)):
            model_score[at, here] = model.expected(log.log_odds[here], some[here])
    spent = np.array([sets @ costs, log.one_shot @ costs, log.called @ costs])
    guess, earned = reward.total(spent, model_score), reward.total(log.cost, log.score)
    values, matched = [], []
    for at, some in enumerate((sets, log.one_shot)):
        same = (some == log.called).all(axis=1)
        matched.append(same)
        values.append((guess[at] + same / log.propensity * (earned - guess[2])) * log.weight / log.weight.mean())
    weight = matched[0] / log.propensity
    differs = (sets != log.one_shot).any(axis=1)
    figures: dict[str, Any] = {
        "episodes": len(log), "differs": float(differs.mean()), "differing": int((matched[0] & differs).sum()),
        "effective": float(weight.sum() ** 2 / max((weight**2).sum(), 1e-12)),
    }  # fmt: skip
    if figures["effective"] < LEAST_EFFECTIVE or (differs.any() and figures["differing"] < LEAST_DIFFERING):
        return figures
    named = {"ours": values[0], "one_shot": values[1], "difference": values[0] - values[1]}
    # The few episodes that went its way carry the variance.
    freedom = max(figures["differing"] - 1, 1) if differs.any() else len(log) - 1
    return figures | {name: _interval(value, freedom) for name, value in named.items()}


def _interval(values: Floats, freedom: int) -> dict[str, float]:
    mean = float(values.mean())
    half = intervals.student(freedom) * float(values.std(ddof=1)) / len(values) ** 0.5
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _folds(log: SetLog) -> list[BoolArray]:
    """The rows of each fold; all episodes of a task are in one."""
    at = {text: place % FOLDS for place, text in enumerate(dict.fromkeys(log.texts))}
    fold = np.array([at[text] for text in log.texts])
    return [fold == number for number in range(FOLDS)]
