"""The router that a run ends with: calibrated on validation, abstaining as its promise asks, packed as an artifact."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.config import Config
from training_app.engine.data import artifact
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.artifact import Artifact
from training_app.engine.data.examples import Agent
from training_app.engine.data.prepared import Prepared
from training_app.engine.data.rows import Rows, draw_weights
from training_app.engine.judging.operating import operating_margin
from training_app.engine.reading import needed, sentences
from training_app.engine.reading.conversing import continuing
from training_app.engine.reading.conversing.continuing import Continuing
from training_app.engine.reading.conversing.turns_fit import has_conversations
from training_app.engine.reading.needed import Needed
from training_app.engine.reading.scorers import READ_MEANING, FittedScorer
from training_app.engine.reading.stacking import joined
from training_app.engine.reading.tidying.tidied import TidiedMargins
from training_app.engine.reading.unfamiliar import Unfamiliar
from training_app.engine.routing import calibration, guarantee
from training_app.engine.routing.calibration import Calibration
from training_app.engine.routing.checkpoints import Scores
from training_app.engine.routing.ddqn import Queries
from training_app.engine.routing.decision import Decision
from training_app.engine.routing.decision import selected as selected_by
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.guarantee import Guarantee, HeldOut
from training_app.engine.routing.policy import Policy
from training_app.engine.routing.router import Router
from training_app.engine.routing.text_reader import scorer_parts


@dataclass(frozen=True, slots=True)
class Wanted:
    """What tells whether anybody is needed, None where that is not learnt; the `report` of it; and the log-odds of the validation
    rows, float64[V]."""

    found: Needed | None
    report: dict[str, Any]
    validation: NDArray[np.float64] | None


@dataclass(frozen=True, slots=True)
class Learnt:
    """What the scorer and the policy have learnt, with the validation rows that judge it: `served` float[V, A] are their
    log-odds as the router will serve them, `whole` int[W] the rows in which every agent was asked, all where there is none, and
    `wanted` what says whether anybody is needed."""

    env: RoutingEnv
    scores: Scores
    decision: Decision
    validation: Queries
    served: FloatArray
    whole: NDArray[np.intp]
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The router, and what was chosen on validation for it. `selected` bool[V, A]; `anyone` float[W] are
    log-odds that somebody is needed. `promises`: what each of `guarantee.SHOWN` would take."""

    parts: Artifact
    router: Router
    margin: float
    selected: BoolArray
    anyone: NDArray[np.float64] | None
    guarantee: Guarantee | None = None
    promises: Sequence[Mapping[str, Any]] = ()


def validation_queries(
    scores: Scores, served: FloatArray, rows: Rows, needed: NDArray[np.float64] | None = None
) -> Queries:
    """The validation rows as the policy sees them: by their served log-odds, or by `features` where the recipe has its own, and by
    the log-odds `needed` float64[N] that anybody is needed, where these are known."""
    read = served if scores.features is None else scores.features.logits(rows.texts)
    return Queries(read, rows.required, rows.asked, groups=rows.groups, needed=needed)


def training_queries(config: Config, scores: Scores, rows: Rows) -> Queries:
    """The training rows as the policy learns from them."""
    shown = rows if scores.fit.held_out is None else rows.take(scores.fit.held_out)
    if scores.features is not None:
        read = scores.features.logits(shown.texts)
    elif config.cross_fitting:
        read = scores.fit.log_odds
    else:
        read = scores.fit.platt(scores.fit.fitted.logits(shown.texts))
    weight = draw_weights(shown.required, config.none_share, shown.asked)
    return Queries(read, shown.required, shown.asked, weight, groups=shown.groups)


def fit_wanted(config: Config, data: Prepared, scores: Scores, served: FloatArray) -> Wanted:
    """Whether anybody is needed, learnt from training rows where validation, of log-odds `served` float32[V, A], approves."""
    train_read, val_read = _as_read(scores, data.train.rows), _as_read(scores, data.val.rows)
    found, report = needed.fit(
        scores.fit.log_odds,
        train_read,
        served,
        val_read,
        scored=scores.fit.held_out,
        none_share=config.none_share,
        seed=config.seed,
        encoder=_encoder_for_nearness(config, scores),
    )
    asked = data.val.rows.asked
    return Wanted(found, report, None if found is None else found.logits(val_read.texts, served, asked))


def calibrate(config: Config, data: Prepared, learnt: Learnt) -> Calibrated:
    """Choose on validation how far a value must exceed STOP's, what confidence means, and whether nearness helps to abstain."""
    val, served, whole = data.val.rows, learnt.served, learnt.whole
    scores, policy = learnt.scores, learnt.decision.policy
    margin = operating_margin(config, learnt.env, policy, learnt.validation)
    selected = selected_by(learnt.env, policy, learnt.validation, margin)
    wanted = learnt.wanted
    anyone = None if wanted.validation is None else wanted.validation[whole]
    fitted = calibration.fit(
        served[whole],
        selected[whole],
        val.required[whole],
        val.asked[whole],
        margin=margin,
        abstain_alpha=config.abstain_alpha,
        needed=anyone,
        fold=val.take(whole).fold(calibration.FOLDS, config.seed),
    )
    if wanted.found is not None and config.strangers:
        level = calibration.stranger_level(wanted.report["none_share"], config.strangers)
        fitted = dataclasses.replace(fitted, stranger_below=level)
    unfamiliar = _unfamiliar(config, data)
    parts = _artifact(config, data.agents, scores, policy, fitted, wanted.found, unfamiliar)
    if (learnt_turns := _continuing(config, data, learnt, fitted, selected)) is not None:
        parts.config["continuing"] = learnt_turns.config()
    if (sizes := data.train.rows.required.sum(axis=1)).any():
        parts.config["several"] = round(float((sizes > 1).sum() / (sizes > 0).sum()), 4)
    if learnt.env.allowed is not None:
        parts.config["rules"] = learnt.env.allowed.rules.config()
    return Calibrated(parts, Router.from_artifact(parts), margin, selected, anyone)


def _continuing(
    config: Config, data: Prepared, learnt: Learnt, fitted: Calibration, selected: BoolArray
) -> Continuing | None:
    """Whether agents go on, learnt from what the scorer says of turns that it was not fitted on; `selected` bool[V, A]."""
    if learnt.scores.features is not None or not config.cross_fitting:
        return None
    held_out = learnt.scores.fit.held_out
    groups = np.array([example.fold_key for example in data.train.examples])
    rows = data.train.rows if held_out is None else data.train.rows.take(held_out)
    groups = groups if held_out is None else groups[held_out]
    if not has_conversations(rows.texts):
        return None
    x = np.concatenate([learnt.scores.fit.log_odds, learnt.served])
    training = training_queries(config, learnt.scores, data.train.rows)
    chosen = np.concatenate([selected_by(learnt.env, learnt.decision.policy, training, fitted.margin), selected])
    both = joined(rows, data.val.rows)
    keys = [*groups.tolist(), *(example.fold_key for example in data.val.examples)]
    whole = np.flatnonzero(both.asked.all(axis=1))
    some = both.take(whole)
    return continuing.fit(
        fitted.probabilities(x[whole]), chosen[whole], some.required, some.texts, [keys[i] for i in whole.tolist()]
    )


def _as_read(scores: Scores, rows: Rows) -> Rows:
    """The rows with their texts as the scorer reads them."""
    fitted = scores.fit.fitted
    return dataclasses.replace(rows, texts=fitted.tidied(rows.texts)) if isinstance(fitted, TidiedMargins) else rows


def promising(config: Config, data: Prepared, calibrated: Calibrated, held: HeldOut) -> Calibrated:
    """The same router, which abstains wherever its promise of few wrong answers asks for it."""
    router = calibrated.router
    shown = guarantee.table(held, config.wrong, router.calibration.abstain_below) if len(held.lost) else []
    calibrated = dataclasses.replace(calibrated, promises=shown)
    if not config.most_wrong:
        return calibrated
    promise = guarantee.promised(held, config.most_wrong, config.wrong, router.calibration.abstain_below)
    if not promise.kept:
        share = f"{100 * config.most_wrong:g} %"
        takes = f"it takes about {promise.needed}" if promise.needed else "too many of the surest answers are wrong"
        data.warnings.append(
            f"No promise of at most {share} wrong answers could be made: {promise.rows} queries were checked for it, and {takes}. "
            "The model answers as if most_wrong were 0: label more queries, or promise less."
        )
        return dataclasses.replace(calibrated, guarantee=promise)
    parts = calibrated.parts
    level = dataclasses.replace(router.calibration, abstain_below=promise.level)
    parts = dataclasses.replace(parts, config={**parts.config, "calibration": level.config()})
    return dataclasses.replace(calibrated, parts=parts, router=Router.from_artifact(parts), guarantee=promise)


def _unfamiliar(config: Config, data: Prepared) -> Unfamiliar | None:
    """What tells and reads texts in languages that no training query is in; the published recipe has none."""
    if config.recipe == "tfidf":
        return None
    meaning = config.sentences and sentences.installed()
    return Unfamiliar.fit(data.train.rows, data.agents, meaning=meaning, seed=config.seed)


def _encoder_for_nearness(config: Config, scores: Scores) -> str:
    """Whether nearness in meaning is to be tried: see `needed.fit`. Not in a large pool, where no scorer reads with the encoder."""
    if config.encoder != "auto" or not config.sentences or not sentences.installed():
        return ""
    if scores.fit.held_out is not None:
        return ""
    kinds = [scorer.kind for scorer in (scores.fit.fitted, *getattr(scores.fit.fitted, "children", ()))]
    return "there" if READ_MEANING.isdisjoint(kinds) else "loaded"


def _artifact(
    config: Config,
    agents: Sequence[Agent],
    scores: Scores,
    policy: Policy,
    calibrated: Calibration,
    wanted: Needed | None,
    unfamiliar: Unfamiliar | None,
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
    if unfamiliar is not None:
        tensors |= {f"unfamiliar.{name}": tensor for name, tensor in unfamiliar.tensors().items()}
    settings = {
        "features": features,
        "unfamiliar": None if unfamiliar is None else unfamiliar.config(),
        "needed": None if wanted is None else wanted.config(),
        "agents": [agent.facts for agent in agents],
        "scorer": entry,
        "policy": policy.config(),
        "calibration": calibrated.config(),
        "min_agents": min(config.min_agents, len(agents)),
        "max_agents": config.max_agents,
        "training": config.to_mapping(),
        "version_info": {"format": artifact.FORMAT, "encoder": _kind(scores.fit.fitted), "seed": config.seed},
    }
    return Artifact(settings, words, tensors)


def _kind(fitted: FittedScorer) -> str:
    """The kind of scorer that reads the text, tidied or not."""
    return fitted.child.kind if isinstance(fitted, TidiedMargins) else fitted.kind
