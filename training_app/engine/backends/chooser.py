"""The backend chooser as a version: the direct estimate of every backend of a pool, learnt from calls that were reported.

A category is an agent, a backend one of its rows. Calls are what was served, so each query has an outcome on few backends; the
rest are not asked, and count as neither success nor failure. `train` has the shape of `training_app.engine.train.train`; numpy only.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from training_app.engine.backends import direct, online
from training_app.engine.backends.direct import DirectEstimate, Outcomes
from training_app.engine.backends.online import Arm, Past
from training_app.engine.data import artifact, intervals
from training_app.engine.data.artifact import Artifact, ArtifactError
from training_app.engine.data.examples import Agent, Example, group_key
from training_app.engine.data.prepared import TrainError
from training_app.engine.progress import Progress, Result
from training_app.engine.settings import Settings, setting

KIND = "backend_chooser"
LEAST = 50  # calls of each split but test
SPLITS = (("train", 70), ("val", 85), ("test", 100))

__all__ = ("BackendChooser", "Called", "ChooserConfig", "TrainError", "train")


@dataclass(frozen=True)
class ChooserConfig(Settings):
    """The settings of one run of the kind backend chooser."""

    seed: int = setting(0, "Seed of every random draw; nothing is drawn today.", low=0, high=2**31 - 1, group="run")
    learner: str = setting(
        "direct", "direct reads the query; linucb freezes what LinUCB learnt of agents, models and backends, and reads none.",
        choices=("direct", "linucb"), group="run",
    )  # fmt: skip
    sentences: bool = setting(True, "Read likeness in meaning, too: half a millisecond to four a query.", group="run")


class Called(NamedTuple):
    """One call that was served and judged; `cost` in the pool's currency. `model` names what ran, the same on other agents."""

    text: str
    agent: int
    backend: int
    success: bool
    cost: float
    model: str = ""


@dataclass(frozen=True)
class BackendChooser:
    """A loaded version: a direct estimate, or a learner's `means` {agent: {backend: p(success)}} where it reads no query."""

    agents: tuple[Agent, ...]
    direct: DirectEstimate
    means: Mapping[int, Mapping[int, float]] | None = None

    def estimate(self, text: str, agent: int) -> dict[int, float]:
        """p(success) of each backend of the agent that was learnt, by its id; {} for an agent that was not."""
        if self.means is not None:
            return dict(self.means.get(agent, {}))
        if str(agent) not in self.direct.categories:
            return {}
        success = self.direct.estimate([text], [str(agent)])[0][0]
        own = {
            int(key.partition("/")[2]): place for place, key in enumerate(self.direct.backends) if _agent(key) == agent
        }
        return {backend: float(success[place]) for backend, place in own.items()}

    @classmethod
    def load(cls, source: str | Path | bytes) -> BackendChooser:
        """From an artifact's path or bytes. Raises ArtifactError with the reason."""
        parts = artifact.read(source)
        if parts.config.get("kind") != KIND:
            raise ArtifactError(f"the artifact is a {parts.config.get('kind', 'set router')}, not a {KIND}")
        try:
            agents = tuple(Agent(int(one["id"]), str(one["name"])) for one in parts.config["agents"])
            told = parts.config.get("means")
            means = (
                None
                if told is None
                else {
                    int(agent): {int(backend): float(p) for backend, p in some.items()} for agent, some in told.items()
                }
            )
            return cls(agents, DirectEstimate.from_parts(parts.config["direct"], parts.tensors), means)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(f"the backend chooser cannot be read: {type(error).__name__}: {error}") from None


def train(
    config: ChooserConfig,
    agents: Sequence[Agent],
    examples: Sequence[Example],
    *,
    checkpoint: bytes | None = None,
    llm: Any = None,
    calls: Sequence[Called] = (),
) -> Iterator[Progress]:
    """Learn from calls. A text has the split of its example, or one by its hash. Raises TrainError for too few calls."""
    known = {group_key(example.text): example.split for example in examples}
    parts: dict[str, list[Called]] = {name: [] for name, _upto in SPLITS}
    for call in calls:
        key = group_key(call.text)
        parts[known.get(key) or _drawn(key)].append(call)
    for name in ("train", "val"):
        if len(parts[name]) < LEAST:
            raise TrainError(
                f"{len(parts[name])} judged calls in {name}; a backend chooser needs {LEAST}: report what was served."
            )
    yield Progress(
        "estimate", 0, 2, f"{len(parts['train']):,} calls of {len({call.backend for call in calls})} backends"
    )
    keys = tuple(sorted({f"{call.agent}/{call.backend}" for call in parts["train"]}))
    reads = config.learner == "direct"
    found = direct.fit(
        _outcomes(parts["train"], keys), _outcomes(parts["val"], keys), meaning=None if reads and config.sentences else False,
        terms=("kernel", "neighbour") if reads else (),
    )  # fmt: skip
    means = None if reads else frozen(parts["train"])
    yield Progress("measure", 1, 2)
    on = "test" if len(parts["test"]) >= LEAST else "val"
    card = scorecard(found, parts[on], keys, means) | {"measured_on": on}
    told = {
        "kind": KIND, "agents": [{"id": agent.id, "name": agent.name} for agent in agents], "direct": found.config(),
        "settings": config.to_mapping(),
    }  # fmt: skip
    if means is not None:
        told["means"] = {str(agent): {str(key): p for key, p in some.items()} for agent, some in means.items()}
    content = Artifact(told, {}, found.tensors(), card).to_bytes()
    yield Progress("measure", 2, 2, result=Result(content, card))


def frozen(calls: Sequence[Called]) -> dict[int, dict[int, float]]:
    """What LinUCB expects of each backend after these calls, by agent: {agent: {backend: p(success)}}."""
    mean = float(np.mean([call.success for call in calls]))
    arms = [Arm(*key, mean) for key in sorted({(call.backend, call.agent, call.model) for call in calls})]
    each = online.means(arms, [Past(call.agent, call.backend, call.success, call.cost, 0.0) for call in calls])
    found: dict[int, dict[int, float]] = {}
    for arm in arms:
        found.setdefault(arm.agent, {})[arm.backend] = each[arm.backend]
    return found


def scorecard(
    found: DirectEstimate, calls: Sequence[Called], keys: Sequence[str], means: Mapping[int, Mapping[int, float]] | None = None
) -> dict[str, Any]:  # fmt: skip
    """1 − Brier score of p(success) of what served, beside each backend's mean and the agent's ("constant"), with paired intervals."""
    some = [call for call in calls if f"{call.agent}/{call.backend}" in keys]
    place = {key: at for at, key in enumerate(keys)}
    served = [place[f"{call.agent}/{call.backend}"] for call in some]
    texts, names = [call.text for call in some], [str(call.agent) for call in some]
    truth, rows = np.array([float(call.success) for call in some]), np.arange(len(some))
    if means is None:
        ours = found.estimate(texts, names)[0][rows, served]
    else:
        ours = np.array([means[call.agent][call.backend] for call in some])
    mean = np.array([found.categories[name].mean[at] for name, at in zip(names, served, strict=True)])
    own = {name: [at for key, at in place.items() if str(_agent(key)) == name] for name in set(names)}
    constant = np.array([found.categories[name].mean[own[name]].mean() for name in names])
    fit = {who: 1 - (p - truth) ** 2 for who, p in (("ours", ours), ("constant", constant), ("by_backend", mean))}

    def figures(values: Any) -> dict[str, Any]:
        return {"fit": intervals.bounded(values).plain()}

    return {
        "queries": len(some),
        "metrics": figures(fit["ours"]),
        "best_baseline": max(("constant", "by_backend"), key=lambda name: float(fit[name].mean())),
        "baselines": {
            name: {
                "metrics": figures(fit[name]),
                "difference": {"fit": intervals.spread(fit["ours"] - fit[name]).plain()},
            }
            for name in ("constant", "by_backend")
        },
    }


def _outcomes(calls: Sequence[Called], keys: Sequence[str]) -> Outcomes:
    """One row for each text and agent; NaN where a backend did not serve it."""
    place = {key: at for at, key in enumerate(keys)}
    rows: dict[tuple[str, int], list[Called]] = {}
    for call in calls:
        if f"{call.agent}/{call.backend}" in place:
            rows.setdefault((call.text, call.agent), []).append(call)
    success, cost = np.full((2, len(rows), len(keys)), np.nan)
    for row, some in enumerate(rows.values()):
        for call in some:
            at = place[f"{call.agent}/{call.backend}"]
            success[row, at], cost[row, at] = float(call.success), call.cost
    return Outcomes([text for text, _ in rows], [str(agent) for _, agent in rows], success, cost, tuple(keys))


def _agent(key: str) -> int:
    return int(key.partition("/")[0])


def _drawn(key: str) -> str:
    at = zlib.crc32(key.encode("utf-8", "replace")) % 100
    return next(name for name, upto in SPLITS if at < upto)
