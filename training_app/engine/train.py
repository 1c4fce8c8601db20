"""One training run: from labeled examples to an artifact and its scorecard.

`train` is a generator of progress. Closing it cancels the run; a checkpoint that it gave lets a later call go on to
the same artifact. Imported by workers only: it brings torch and scikit-learn.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from training_app.engine import artifact, calibration, checkpoints, llm_baseline, needed
from training_app.engine.artifact import Artifact
from training_app.engine.baselines import BASELINES, CLASSIFIERS, classifier_policy
from training_app.engine.calibration import Calibration
from training_app.engine.checkpoints import CheckpointError, Learning, Scores, fingerprint
from training_app.engine.config import Config
from training_app.engine.data import Agent, Example, group_key
from training_app.engine.ddqn import Queries, learn
from training_app.engine.encoders import MANY_ROWS, fit_encoder
from training_app.engine.env import RoutingEnv, jaccard
from training_app.engine.judging import REACH
from training_app.engine.linear import fit_tfidf
from training_app.engine.llm import LLMError
from training_app.engine.llm_baseline import Asked, LanguageModel
from training_app.engine.needed import Needed
from training_app.engine.policy import Policy, greedy
from training_app.engine.progress import Progress, Result, streamed
from training_app.engine.published import learn_published
from training_app.engine.router import Router, scorer_parts
from training_app.engine.scorecard import scorecard
from training_app.engine.scorers import (
    BoolArray,
    FloatArray,
    Rows,
    ScorerProgress,
    cross_fit,
    draw_weights,
    rows_of,
)
from training_app.engine.text import TfIdfVectors

PHASES = ("features", "scorer", "policy", "baselines", "measure")
LEAST_TRAIN, LEAST_VAL = 8, 2
CHECKPOINT_EVERY = 5  # measurements between two checkpoints of the policy


class TrainError(Exception):
    """Data that no router can be trained on; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """Examples of one split as matrices: rows.required and rows.asked bool[N, A]."""

    examples: list[Example]
    rows: Rows

    @property
    def whole(self) -> BoolArray:
        """Rows in which every agent was asked: only those enter set metrics. bool[N]."""
        return np.asarray(self.rows.asked.all(axis=1))


def _matrices(examples: Sequence[Example], agents: Sequence[Agent]) -> Matrices:
    return Matrices(list(examples), rows_of(examples, agents))


def _checked(agents: Sequence[Agent], examples: Sequence[Example]) -> tuple[list[Agent], list[str]]:
    """The agents that can be learnt, and warnings. Raises TrainError."""
    if not agents:
        raise TrainError("The pool has no agent: describe at least one.")
    known = {agent.id for agent in agents}
    for example in examples:
        unknown = example.required - known
        if unknown:
            raise TrainError(f"Query {example.id} requires agent {min(unknown)}, which is not in the pool: add it.")
    train = [e for e in examples if e.split == "train"]
    val = [e for e in examples if e.split == "val"]
    if len(train) < LEAST_TRAIN:
        raise TrainError(
            f"{len(train)} labeled queries are in the train split; at least {LEAST_TRAIN} are needed. Label more "
            "queries, or split the dataset (dataset_split) if they have no split yet."
        )
    if len({group_key(e.text) for e in train}) < 2:
        raise TrainError("All queries of the train split have the same text: label different ones.")
    if len(val) < LEAST_VAL:
        raise TrainError(
            f"{len(val)} labeled queries are in the val split; at least {LEAST_VAL} are needed to tell when to stop. "
            "Split the dataset (dataset_split), or label more queries."
        )
    warnings = []
    covered = []
    for agent in agents:
        asked = [e for e in train if e.asked is None or agent.id in e.asked]
        if not asked:
            warnings.append(f"No label speaks about {agent.name}: it is left out until it has been asked about.")
            continue
        covered.append(agent)
        positives = sum(agent.id in e.required for e in asked)
        if positives == 0:
            warnings.append(f"No query of the train split requires {agent.name}: it will hardly ever be selected.")
        elif positives < 5:
            warnings.append(f"Only {positives} queries of the train split require {agent.name}: label more of them.")
    if not covered:
        raise TrainError("No label of the train split speaks about any agent: label queries first.")
    if not any(e.split == "test" for e in examples):
        warnings.append("There is no test split: the figures are measured on the validation split and flatter.")
    return covered, warnings


def train(
    config: Config,
    agents: Sequence[Agent],
    examples: Sequence[Example],
    *,
    checkpoint: bytes | None = None,
    llm: LanguageModel | None = None,
) -> Iterator[Progress]:
    """Train a router on `examples` (each with split train, val or test) and measure it.

    `llm` is the model that `llm_queries` asks. Yields Progress; the last one holds the Result. The same settings, data
    and machine give the same artifact, byte for byte, with or without a stop in between; but for what an LLM says,
    where one is asked. Raises TrainError before the first step where the data cannot be
    used or the checkpoint belongs to something else.
    """
    examples = [e for e in examples if e.split in ("train", "val", "test")]
    covered, warnings = _checked(agents, examples)
    belongs = fingerprint(config, agents, examples)
    try:
        saved = checkpoints.read(checkpoint, belongs) if checkpoint is not None else None
    except CheckpointError as error:
        raise TrainError(str(error)) from error
    splits = {s: _matrices([e for e in examples if e.split == s], covered) for s in ("train", "val", "test")}
    rows = splits["train"].rows
    timing: dict[str, float] = {}
    began = time.process_time()

    if saved is None:
        groups = [group_key(text) for text in rows.texts]
        scores = yield from _scorer_phase(config, rows, groups, splits["val"].rows)
        yield Progress("scorer", 1, 1, "scorer fitted", checkpoint=checkpoints.write(belongs, scores, None))
    else:
        scores = saved[0]
    timing["scorer"] = time.process_time() - began

    began = time.process_time()
    policy: Policy | None = None
    val_rows = splits["val"].rows
    if config.recipe == "classifier":
        fit, policy = classifier_policy(scores.fit, val_rows)
        scores = dataclasses.replace(scores, fit=fit)
    served = scores.fit.platt(scores.fit.fitted.logits(val_rows.texts))
    env = RoutingEnv(
        len(covered),
        config.reward_mode,
        config.gamma,
        config.step_cost,
        min(config.min_agents, len(covered)),
        config.max_agents,
        config.action_masking,
        config.max_steps_per_episode if config.recipe == "tfidf" else 0,
    )
    whole = np.flatnonzero(splits["val"].whole)
    whole = whole if whole.size else np.arange(len(val_rows))
    validation = _validation(scores, served, val_rows)
    if policy is None:
        resume = saved[1] if saved is not None else None
        keep = partial(checkpoints.write, belongs, scores)
        policy, log = yield from _policy_phase(config, env, scores, rows, validation.take(whole), resume, keep)
    else:
        sets = _select(env, policy, validation.take(whole), 0.0)
        log = [{"step": 1, "val_jaccard": float(jaccard(sets, val_rows.required[whole]).mean())}]
        yield Progress("policy", 1, 1, "one threshold", {"val_jaccard": log[0]["val_jaccard"]})
    best = max(log, key=lambda entry: entry.get("val_jaccard", 0.0), default={})
    timing["policy"] = time.process_time() - began

    began = time.process_time()
    margin = _operating_margin(config, env, policy, validation)
    selected = _select(env, policy, validation, margin)
    wanted, wanted_report = needed.fit(
        scores.fit.log_odds,
        rows,
        served,
        val_rows,
        scored=scores.fit.held_out,
        none_share=config.none_share,
        seed=config.seed,
    )
    anyone = None if wanted is None else wanted.logits(val_rows.texts, served, val_rows.asked)[whole]
    found = calibration.fit(
        served[whole],
        selected[whole],
        val_rows.required[whole],
        val_rows.asked[whole],
        margin=margin,
        abstain_alpha=config.abstain_alpha,
        needed=anyone,
    )
    parts = _artifact(config, covered, scores, policy, found, wanted)
    router = Router.from_artifact(parts)
    timing["calibration"] = time.process_time() - began

    measured_on = "test" if len(splits["test"].rows) else "val"
    baselines = {}
    if config.baselines:
        began = time.process_time()
        baselines = yield from _baseline_phase(covered, rows, val_rows, splits[measured_on].rows, config.seed)
        timing["baselines"] = time.process_time() - began

    answered: Asked | None = None
    if config.llm_queries and llm is None:
        warnings.append("llm_queries is set, and no LLM is configured: name it in LLM_MODEL. None was asked.")
    elif config.llm_queries and llm is not None:
        try:
            answered = yield from _llm_phase(config, llm, covered, splits[measured_on])
        except LLMError as error:
            warnings.append(f"The LLM was not measured: {error}.")

    yield Progress("measure", 0, 1, f"measuring on {measured_on}")
    began = time.process_time()
    card = scorecard(
        router,
        covered,
        splits["train"].examples,
        splits[measured_on].examples,
        splits[measured_on].rows,
        baselines,
        levels=calibration.levels(
            found.confidences(served[whole], selected[whole], val_rows.asked[whole], anyone),
            np.asarray(val_rows.required[whole].any(axis=1)),
        ),
        seed=config.seed,
    )
    card |= {
        "measured_on": measured_on,
        "warnings": warnings,
        "encoder": scores.report,
        "best_validation": best,
        "log": log,
        "config": config.to_mapping(),
        "data": {s: len(m.rows) for s, m in splits.items()},
        "operating_point": {"goal": config.goal, "margin": margin},
        "calibration_validation": calibration.cross_validated(
            served[whole],
            selected[whole],
            val_rows.required[whole],
            val_rows.asked[whole],
            needed=anyone,
            seed=config.seed,
        ),
        "needed": wanted_report,
    }
    if answered is not None:
        required = splits[measured_on].rows.required
        card["llm"] = llm_baseline.figures(answered, required, router.selections(splits[measured_on].rows.texts))
    data = Artifact(parts.config, parts.vocabulary, parts.tensors, card).to_bytes()
    timing["measure"] = time.process_time() - began
    yield Progress("measure", 1, 1, "done", {}, None, Result(data, {**card, "timing": timing}))


def _scorer_phase(config: Config, rows: Rows, groups: list[str], validation: Rows) -> Generator[Progress, None, Scores]:
    def work(progress: ScorerProgress) -> Scores:
        if config.recipe == "classifier":
            scorer = CLASSIFIERS[config.classifier]
            folds = config.folds or (scorer.folds if len(rows) < MANY_ROWS else 3)
            return Scores(
                cross_fit(
                    scorer,
                    rows.texts,
                    rows.required,
                    rows.asked,
                    groups,
                    seed=config.seed,
                    folds=folds,
                    progress=progress,
                ),
                {"encoder": config.classifier},
            )
        fit, report = fit_encoder(config, rows, groups, validation, progress=progress)
        features = None
        if config.recipe == "tfidf":
            tfidf, _ = fit_tfidf(
                rows.texts, word_range=(1, 1), characters=False, max_features=config.tfidf_max_features
            )
            features = TfIdfVectors(tfidf)
        return Scores(fit, report, features)

    yield Progress("features", 0, 1, "reading the queries")
    return (yield from streamed(work, "scorer"))


def _validation(scores: Scores, served: FloatArray, rows: Rows) -> Queries:
    """The validation rows as the policy sees them: by their served log-odds, or by `features` where the recipe has its own."""
    seen = served if scores.features is None else scores.features.logits(rows.texts)
    return Queries(seen, np.zeros((len(rows), 0), np.float32), rows.required, rows.asked)


def _policy_phase(
    config: Config,
    env: RoutingEnv,
    scores: Scores,
    rows: Rows,
    validation: Queries,
    resume: Learning | None,
    keep: Callable[[Learning], bytes],
) -> Generator[Progress, None, tuple[Policy, list[dict[str, float]]]]:
    """The policy that was best on validation, and the log; `keep` packs a checkpoint now and then."""
    shown = rows if scores.fit.held_out is None else rows.take(scores.fit.held_out)
    if scores.features is not None:
        seen = scores.features.logits(shown.texts)
    elif config.cross_fitting:
        seen = scores.fit.log_odds
    else:
        seen = scores.fit.platt(scores.fit.fitted.logits(shown.texts))
    weight = draw_weights(shown.required, config.none_share)
    training = Queries(seen, np.zeros((len(shown), 0), np.float32), shown.required, shown.asked, weight)
    method = learn if scores.features is None else learn_published
    policy: Policy | None = None
    log: list[dict[str, float]] = []
    for count, tick in enumerate(method(config, env, training, validation, resume), start=1):
        kept = None
        if tick.policy is None and count % CHECKPOINT_EVERY == 0:
            kept = keep((tick.state or {}, tick.meta or {}))
        yield Progress("policy", tick.step, config.total_steps, "Double DQN", tick.metrics, kept)
        policy = tick.policy
        log = (tick.meta or {}).get("log", [])
    assert policy is not None
    return policy, log


def _baseline_phase(
    agents: Sequence[Agent], rows: Rows, val: Rows, test: Rows, seed: int
) -> Generator[Progress, None, dict[str, BoolArray]]:
    """The sets that each baseline selects for the measured rows."""

    def work(progress: ScorerProgress) -> dict[str, BoolArray]:
        found = {}
        for i, (name, fit) in enumerate(BASELINES.items()):
            progress(i, len(BASELINES), name)
            found[name] = fit(agents, rows, val, seed).select(test.texts)
        return found

    return (yield from streamed(work, "baselines"))


def _llm_phase(
    config: Config, llm: LanguageModel, agents: Sequence[Agent], measured: Matrices
) -> Generator[Progress, None, Asked]:
    """What the LLM says of some of the rows in which every agent was asked."""
    rows = measured.rows
    whole = np.flatnonzero(measured.whole)

    def work(progress: ScorerProgress) -> Asked:
        found = llm_baseline.ask(
            llm,
            agents,
            [rows.texts[i] for i in whole.tolist()],
            config.llm_queries,
            min_agents=min(config.min_agents, len(agents)),
            max_agents=config.max_agents,
            seed=config.seed,
            progress=progress,
        )
        return dataclasses.replace(found, rows=whole[found.rows])

    return (yield from streamed(work, "baselines"))


def _select(env: RoutingEnv, policy: Policy, queries: Queries, margin: float) -> BoolArray:
    return greedy(
        policy,
        queries.x,
        queries.extra,
        queries.asked,
        min_agents=env.min_agents,
        max_agents=env.max_agents,
        margin=margin,
    )[0]


def _operating_margin(config: Config, env: RoutingEnv, policy: Policy, val: Queries) -> float:
    """What an agent's value must exceed STOP's by, so that the goal is met on validation; 0 for the goal jaccard."""
    if config.goal == "jaccard" or not len(val):
        return 0.0
    required = val.required & val.asked

    def meets(margin: float) -> bool:
        selected = _select(env, policy, val, margin)
        if config.goal == "size":
            return float(selected.sum(axis=1).mean()) <= config.average_agents
        needed = required.any(axis=1)
        if not needed.any():
            return True
        hits = (selected & required).sum(axis=1)[needed] / required.sum(axis=1)[needed]
        return float(hits.mean()) >= config.recall_floor

    # Recall falls and size falls as the margin grows: the largest margin that keeps recall, the smallest that keeps
    # size. Learnt values of actions lie within -1 and 1.
    grid = (np.linspace(-1, 1, 201) * REACH.get(policy.kind, 1.0)).tolist()
    fitting = [margin for margin in grid if meets(margin)]
    if config.goal == "recall":
        return max(fitting, default=grid[0])
    return min(fitting, default=grid[-1])


def _artifact(
    config: Config,
    agents: Sequence[Agent],
    scores: Scores,
    policy: Policy,
    found: Calibration,
    wanted: Needed | None,
) -> Artifact:
    entry, vocabulary, tensors = scorer_parts("scorer", scores.fit.fitted)
    tensors |= {"platt.scale": scores.fit.platt.scale, "platt.shift": scores.fit.platt.shift}
    tensors |= {f"policy.{name}": tensor for name, tensor in policy.tensors().items()}
    words = {"scorer": vocabulary}
    features = None
    if scores.features is not None:
        features, words["features"], arrays = scorer_parts("features", scores.features)
        tensors |= arrays
    if wanted is not None:
        tensors |= {f"needed.{name}": tensor for name, tensor in wanted.tensors().items()}
    settings = {
        "features": features,
        "needed": None if wanted is None else wanted.config(),
        "agents": [asdict(agent) for agent in agents],
        "scorer": entry,
        "policy": policy.config(),
        "calibration": found.config(),
        "min_agents": min(config.min_agents, len(agents)),
        "max_agents": config.max_agents,
        "training": config.to_mapping(),
        "version_info": {"format": artifact.FORMAT, "encoder": scores.fit.fitted.kind, "seed": config.seed},
    }
    return Artifact(settings, words, tensors)


__all__ = ["PHASES", "TrainError", "train"]
