"""The backend chooser as a version: the direct estimate of every backend of a pool, learnt from calls that were reported.

A category is an agent, a backend one of its rows. Calls are what was served, so each query has an outcome on few backends; the
rest are not asked, and count as neither success nor failure. What the estimator tells of difficulty, category and need of a tool is
added as far as it holds on validation (`heads`). `train` has the shape of `training_app.engine.train.train`; numpy only.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends import direct, heads, online
from orchestration_app.engine.backends.direct import DirectEstimate, Outcomes
from orchestration_app.engine.backends.estimator import Labels
from orchestration_app.engine.backends.heads import Heads
from orchestration_app.engine.backends.one_text import OneText
from orchestration_app.engine.backends.online import Arm, Past
from training_app.engine.data import artifact, intervals
from training_app.engine.data.artifact import Artifact, ArtifactError
from training_app.engine.data.examples import Agent, Example, group_key
from training_app.engine.data.prepared import TrainError
from training_app.engine.progress import Progress, Result
from training_app.engine.settings import Settings, setting

if TYPE_CHECKING:
    from orchestration_app.engine.backends.query_labels import QueryLabels

KIND = "backend_chooser"
LEAST = 50  # calls of each split but test
BASELINES = ("constant", "by_backend", "linear", "neighbours")
LEAST_OF_A_CATEGORY = 5  # calls in train that name one
SPLITS = (("train", 60), ("val", 80), ("test", 100))

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
    estimator: bool = setting(
        True, "Learn difficulty, category and need of a tool, and add what they tell of each backend.", group="run"
    )
    llm_labels: int = setting(
        0, "Texts that the connected LLM labels for the estimator, drawn at random; it costs money. 0: outcomes and categories alone.",
        low=0, high=5_000, group="run",
    )  # fmt: skip


class Called(NamedTuple):
    """One call that was served and judged; `cost` in the pool's currency. `model` names what ran, the same on other agents.

    `category` is what the application called it, "" where it did not; `tool` whether it called for a tool and `complexity` 0..1 how
    hard it was, None where nobody knows.
    """

    text: str
    agent: int
    backend: int
    success: bool
    cost: float
    model: str = ""
    category: str = ""
    tool: bool | None = None
    complexity: float | None = None


@dataclass(frozen=True)
class BackendChooser:
    """A loaded version: a direct estimate, or a learner's `means` {agent: {backend: p(success)}} where it reads no query."""

    agents: tuple[Agent, ...]
    direct: DirectEstimate
    means: Mapping[int, Mapping[int, float]] | None = None
    heads: Heads | None = None

    def estimate(self, text: str, agent: int) -> dict[int, float]:
        """p(success) of each backend of the agent that was learnt, by its id; {} for an agent that was not."""
        return self.estimates(text, [agent]).get(agent, {})

    def estimates(self, text: str, agents: Sequence[int]) -> dict[int, dict[int, float]]:
        """The same for several agents, whose text is read once; those that were not learned are left out."""
        if self.means is not None:
            return {agent: dict(self.means[agent]) for agent in agents if agent in self.means}
        success = self._one_text.success(text, [str(agent) for agent in agents])
        return {int(agent): dict(zip(self._backends[agent], p.tolist(), strict=True)) for agent, p in success.items()}

    @cached_property
    def _one_text(self) -> OneText:
        return OneText(self.direct, self.heads)

    @cached_property
    def _backends(self) -> dict[str, list[int]]:
        """The ids of each agent's backends, in the order of its columns."""
        return {
            agent: [int(self.direct.backends[at].partition("/")[2]) for at in product.columns.tolist()]
            for agent, product in self._one_text.products.items()
        }

    @classmethod
    def load(cls, source: str | Path | bytes) -> BackendChooser:
        """From an artifact's path or bytes. Raises ArtifactError with the reason."""
        parts = artifact.read(source)
        if parts.config.get("kind") != KIND:
            raise ArtifactError(f"the artifact is a {parts.config.get('kind', 'set router')}, not a {KIND}")
        try:
            agents = tuple(Agent(int(agent["id"]), str(agent["name"])) for agent in parts.config["agents"])
            stored = parts.config.get("means")
            means = (
                None
                if stored is None
                else {
                    int(agent): {int(backend): float(p) for backend, p in some.items()}
                    for agent, some in stored.items()
                }
            )
            estimator = parts.config.get("heads")
            heads = None if estimator is None else Heads.from_parts(estimator, parts.tensors)
            return cls(agents, DirectEstimate.from_parts(parts.config["direct"], parts.tensors), means, heads)
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
    parts = _split(calls, examples)
    labeled = yield from _labels(config, parts, sorted({call.category for call in calls if call.category}), llm)
    yield Progress(
        "estimate", 1, 3, f"{len(parts['train']):,} calls of {len({call.backend for call in calls})} backends"
    )
    keys = tuple(sorted({f"{call.agent}/{call.backend}" for call in parts["train"]}))
    reads = config.learner == "direct"
    rows = {name: _outcomes(parts[name], keys) for name in parts}
    estimate = direct.fit(
        rows["train"], rows["val"], meaning=None if reads and config.sentences else False,
        terms=("kernel", "neighbour") if reads else (),
    )  # fmt: skip
    means = None if reads else frozen(parts["train"])
    estimated = None
    if reads and config.estimator:
        names = categories_of(parts["train"], labeled)
        labels = {name: labels_of(parts[name], keys, estimate, names, labeled) for name in parts}
        estimated = heads.fit(estimate, rows["train"], labels["train"], rows["val"], labels["val"], names, config.seed)
    yield Progress("measure", 2, 3)
    on = "test" if len(parts["test"]) >= LEAST else "val"
    neighbours = direct.tuned_neighbours(estimate, rows["val"])
    card = scorecard(estimate, parts[on], keys, means, estimated, neighbours) | {
        "measured_on": on,
        "neighbours": neighbours,
    }
    if estimated is not None:
        card["estimator"] = heads.figures(estimated, labels[on]) | {"labeled_by_llm": len(labeled)}
    written: dict[str, Any] = {
        "kind": KIND, "agents": [{"id": agent.id, "name": agent.name} for agent in agents], "direct": estimate.config(),
        "settings": config.to_mapping(),
    }  # fmt: skip
    if means is not None:
        written["means"] = {str(agent): {str(key): p for key, p in some.items()} for agent, some in means.items()}
    tensors = estimate.tensors()
    if estimated is not None:
        written["heads"] = estimated.config()
        tensors |= estimated.tensors()
    content = Artifact(written, {}, tensors, card).to_bytes()
    yield Progress("measure", 3, 3, result=Result(content, card))


def _split(calls: Sequence[Called], examples: Sequence[Example]) -> dict[str, list[Called]]:
    """The calls by split. Raises TrainError where train or val has too few."""
    split_of = {group_key(example.text): example.split for example in examples}
    parts: dict[str, list[Called]] = {name: [] for name, _upto in SPLITS}
    for call in calls:
        key = group_key(call.text)
        parts[split_of.get(key) or drawn_split(key)].append(call)
    for name in ("train", "val"):
        if len(parts[name]) < LEAST:
            raise TrainError(
                f"{len(parts[name])} judged calls in {name}; a backend chooser needs {LEAST}: report what was served."
            )
    return parts


def _labels(
    config: ChooserConfig, parts: Mapping[str, Sequence[Called]], categories: Sequence[str], llm: Any
) -> Generator[Progress, None, Mapping[str, QueryLabels]]:
    """What the LLM says of the texts of train and val, by text: {} where it is not to be asked, or does not answer."""
    if not config.llm_labels:
        return {}
    if llm is None:
        yield Progress(
            "labels",
            0,
            3,
            "llm_labels is set, and no LLM is connected: do so under Settings, LLM, or name it in LLM_MODEL. None was asked.",
        )
        return {}
    # What asks over HTTP is not for a web process, which loads this file to serve.
    from orchestration_app.engine.backends.query_labels import ask
    from training_app.engine.llm import LLMError

    yield Progress("labels", 0, 3, f"{llm.model} labels {config.llm_labels:,} texts at most")
    try:
        return ask(llm, [call.text for name in ("train", "val") for call in parts[name]], config.llm_labels, categories)
    except LLMError as error:
        yield Progress("labels", 0, 3, f"The LLM gave no labels: {error}")
        return {}


def frozen(calls: Sequence[Called]) -> dict[int, dict[int, float]]:
    """What LinUCB expects of each backend after these calls, by agent: {agent: {backend: p(success)}}."""
    mean = float(np.mean([call.success for call in calls]))
    arms = [Arm(*key, mean) for key in sorted({(call.backend, call.agent, call.model) for call in calls})]
    each = online.means(arms, [Past(call.agent, call.backend, call.success, call.cost, 0.0) for call in calls])
    means: dict[int, dict[int, float]] = {}
    for arm in arms:
        means.setdefault(arm.agent, {})[arm.backend] = each[arm.backend]
    return means


def success_probabilities(
    texts: Sequence[str], agents: Sequence[str], direct: DirectEstimate, more: Heads | None
) -> NDArray[np.float64]:
    """p(success) of each text on each backend, float64[N, B], with what the estimator adds."""
    success = direct.estimate(texts, agents)[0]
    if more is None or not more.scale:
        return success
    return np.clip(success + more.added(texts, agents), 0.01, 0.99)


def categories_of(calls: Sequence[Called], llm_labels: Mapping[str, QueryLabels]) -> tuple[str, ...]:
    """The categories that applications or the LLM name in LEAST_OF_A_CATEGORY calls or more."""
    names = Counter(_category(call, llm_labels) for call in calls)
    return tuple(sorted(name for name, count in names.items() if name and count >= LEAST_OF_A_CATEGORY))


def labels_of(
    calls: Sequence[Called],
    keys: Sequence[str],
    direct: DirectEstimate,
    names: Sequence[str],
    llm_labels: Mapping[str, QueryLabels],
) -> Labels:
    """What is known of the rows that `_outcomes` makes of the calls: as applications say, or else the LLM. How hard a query is, where
    neither does: how much oftener it failed than its backends do, beside how often calls fail."""
    place = {key: at for at, key in enumerate(keys)}
    rows = _rows(calls, place)
    mean = 1 - float(np.mean([call.success for call in calls])) if calls else 0.5
    complexity, tool = np.full((2, len(rows)), np.nan)
    category = np.full(len(rows), -1, np.int64)
    for row, ((text, agent), some) in enumerate(rows.items()):
        usual = direct.categories[str(agent)].mean if str(agent) in direct.categories else np.full(len(keys), 1 - mean)
        beyond = [float(call.success) - usual[place[f"{call.agent}/{call.backend}"]] for call in some]
        hard = [call.complexity for call in some if call.complexity is not None]
        if hard:
            complexity[row] = float(np.mean(hard))
        else:
            difficulty = min(max(mean - float(np.mean(beyond)), 0.0), 1.0)
            complexity[row] = llm_labels[text].complexity if text in llm_labels else difficulty
        wanted = [call.tool for call in some if call.tool is not None]
        if wanted or text in llm_labels:
            tool[row] = float(any(wanted) if wanted else llm_labels[text].tool)
        name = next((name for call in some if (name := _category(call, llm_labels))), "")
        if name in names:
            category[row] = names.index(name)
    return Labels([text for text, _agent in rows], complexity, category, tool)


def _category(call: Called, llm_labels: Mapping[str, QueryLabels]) -> str:
    return call.category or (llm_labels[call.text].category if call.text in llm_labels else "")


def scorecard(
    estimate: DirectEstimate, calls: Sequence[Called], keys: Sequence[str], means: Mapping[int, Mapping[int, float]] | None = None,
    more: Heads | None = None, neighbours: int = direct.NEIGHBOURS[0],
) -> dict[str, Any]:  # fmt: skip
    """1 − Brier score of p(success) of what served, beside each backend's mean and the agent's ("constant"), the linear model alone
    and so many nearest neighbours, with paired intervals."""
    some = [call for call in calls if f"{call.agent}/{call.backend}" in keys]
    place = {key: at for at, key in enumerate(keys)}
    served = [place[f"{call.agent}/{call.backend}"] for call in some]
    texts, names = [call.text for call in some], [str(call.agent) for call in some]
    truth, rows = np.array([float(call.success) for call in some]), np.arange(len(some))
    if means is None:
        ours = success_probabilities(texts, names, estimate, more)[rows, served]
    else:
        ours = np.array([means[call.agent][call.backend] for call in some])
    mean = np.array([estimate.categories[name].mean[at] for name, at in zip(names, served, strict=True)])
    linear = replace(estimate, terms=("kernel",)).estimate(texts, names)[0][rows, served] if estimate.terms else mean
    near = estimate.nearest(texts, names, neighbours)[rows, served]
    places_by_agent = {name: [at for key, at in place.items() if str(_agent(key)) == name] for name in set(names)}
    constant = np.array([estimate.categories[name].mean[places_by_agent[name]].mean() for name in names])
    predictions = {"ours": ours, "constant": constant, "by_backend": mean, "linear": linear, "neighbours": near}
    fit = {who: 1 - (p - truth) ** 2 for who, p in predictions.items()}

    def figures(values: Any) -> dict[str, Any]:
        return {"fit": intervals.bounded(values).plain()}

    return {
        "queries": len(some),
        "metrics": figures(fit["ours"]),
        "best_baseline": max(BASELINES, key=lambda name: float(fit[name].mean())),
        "baselines": {
            name: {
                "metrics": figures(fit[name]),
                "difference": {"fit": intervals.spread(fit["ours"] - fit[name]).plain()},
            }
            for name in BASELINES
        },
    }


def _outcomes(calls: Sequence[Called], keys: Sequence[str]) -> Outcomes:
    """One row for each text and agent; NaN where a backend did not serve it."""
    place = {key: at for at, key in enumerate(keys)}
    rows = _rows(calls, place)
    success, cost = np.full((2, len(rows), len(keys)), np.nan)
    for row, some in enumerate(rows.values()):
        for call in some:
            at = place[f"{call.agent}/{call.backend}"]
            success[row, at], cost[row, at] = float(call.success), call.cost
    return Outcomes([text for text, _ in rows], [str(agent) for _, agent in rows], success, cost, tuple(keys))


def _rows(calls: Sequence[Called], place: Mapping[str, int]) -> dict[tuple[str, int], list[Called]]:
    rows: dict[tuple[str, int], list[Called]] = {}
    for call in calls:
        if f"{call.agent}/{call.backend}" in place:
            rows.setdefault((call.text, call.agent), []).append(call)
    return rows


def _agent(key: str) -> int:
    return int(key.partition("/")[0])


def drawn_split(key: str) -> str:
    """The split of a text that no example has, by its group's key: train, val or test."""
    at = zlib.crc32(key.encode("utf-8", "replace")) % 100
    return next(name for name, upto in SPLITS if at < upto)
