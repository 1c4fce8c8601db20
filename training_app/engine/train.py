"""One training run: from labeled examples to an artifact and its scorecard.

`train` is a generator of progress. Closing it cancels the run; a checkpoint that it gave lets a later call go on to
the same artifact. Imported by workers only: it brings torch and scikit-learn.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine import rivals
from training_app.engine.config import Config
from training_app.engine.data import artifact
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.artifact import Artifact
from training_app.engine.data.examples import Agent, Example
from training_app.engine.data.metrics import jaccard
from training_app.engine.data.prepared import Prepared, TrainError, prepared
from training_app.engine.data.rows import Rows, draw_weights
from training_app.engine.judging import folds, llm_baseline
from training_app.engine.judging.baselines import CLASSIFIERS, classifier_policy
from training_app.engine.judging.llm_baseline import LanguageModel, LlmResult
from training_app.engine.judging.operating import operating_margin
from training_app.engine.judging.scorecard import scorecard
from training_app.engine.progress import Progress, Result, ScorerProgress, streamed
from training_app.engine.reading import needed, sentences
from training_app.engine.reading.conversing import continuing
from training_app.engine.reading.conversing.continuing import Continuing
from training_app.engine.reading.conversing.turns_fit import has_conversations
from training_app.engine.reading.encoders import MANY_ROWS, fit_encoder
from training_app.engine.reading.linear import fit_tfidf
from training_app.engine.reading.needed import Needed
from training_app.engine.reading.scorers import READ_MEANING, FittedScorer, cross_fit
from training_app.engine.reading.stacking import joined
from training_app.engine.reading.text import TfIdfVectors
from training_app.engine.reading.tidying.tidied import TidiedMargins
from training_app.engine.reading.unfamiliar import Unfamiliar
from training_app.engine.routing import calibration, checkpoints, guarantee
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.calibration import Calibration
from training_app.engine.routing.checkpoints import CheckpointError, Learning, Scores, fingerprint
from training_app.engine.routing.ddqn import Queries
from training_app.engine.routing.decision import Decision, decide, environment
from training_app.engine.routing.decision import selected as selected_by
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.goals import why_nobody
from training_app.engine.routing.guarantee import Guarantee, HeldOut
from training_app.engine.routing.policy import Policy
from training_app.engine.routing.router import Router
from training_app.engine.routing.text_reader import scorer_parts

PHASES = ("features", "scorer", "policy", "baselines", "folds", "measure")


#: Of so many labeled queries a promise of few wrong answers is made on the answers of folds; of more a share is set aside for it.
MOST_FOLDED = 2_000


@dataclass(frozen=True, slots=True)
class Learnt:
    """What the scorer and the policy have learnt, with the validation rows that judge it: `served` float[V, A] are their
    log-odds as the router will serve them, `whole` int[W] the rows in which every agent was asked, all where there is none."""

    env: RoutingEnv
    scores: Scores
    decision: Decision
    validation: Queries
    served: FloatArray
    whole: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The router, and what was chosen on validation for it. `selected` bool[V, A]; `anyone` float[W] are
    log-odds that somebody is needed. `promises`: what each of `guarantee.SHOWN` would take."""

    parts: Artifact
    router: Router
    margin: float
    selected: BoolArray
    anyone: NDArray[np.float64] | None
    needed_report: dict[str, Any]
    guarantee: Guarantee | None = None
    promises: Sequence[Mapping[str, Any]] = ()


def train(
    config: Config,
    agents: Sequence[Agent],
    examples: Sequence[Example],
    *,
    checkpoint: bytes | None = None,
    llm: LanguageModel | None = None,
    unlabeled: Sequence[str] = (),
    rules: Rules | None = None,
) -> Iterator[Progress]:
    """Train a router on `examples` (each with split train, val or test) and measure it.

    `llm` is the model that `llm_queries` asks; `unlabeled` are texts of the pool that nobody has labeled; `rules` say which sets are
    allowed, which the policy learns under and the artifact keeps.
    Yields Progress; the last one holds the Result. The same settings, data
    and machine give the same artifact, byte for byte, with or without a stop in between; but for what an LLM says,
    where one is asked. Raises TrainError before the first step where the data cannot be
    used or the checkpoint belongs to something else.
    """
    with sentences.remembering():
        texts = unlabeled if config.unlabeled else ()
        yield from _trained(config, agents, examples, checkpoint, llm, texts, rules or Rules())


def _trained(
    config: Config,
    agents: Sequence[Agent],
    examples: Sequence[Example],
    checkpoint: bytes | None,
    llm: LanguageModel | None,
    unlabeled: Sequence[str],
    rules: Rules,
) -> Iterator[Progress]:
    examples = [e for e in examples if e.split in ("train", "val", "test")]
    apart: list[Example] = []
    if config.most_wrong and len(examples) > MOST_FOLDED:
        examples, apart = guarantee.set_aside(examples, config.seed)
    data = prepared(agents, examples)
    needed_agents = data.val.rows.required & data.val.rows.asked
    if not config.min_agents and (nobody := why_nobody(config.goal, data.agents, config.query_value, needed_agents)):
        raise TrainError(nobody)
    belongs = fingerprint(config, agents, examples)
    try:
        saved = checkpoints.read(checkpoint, belongs) if checkpoint is not None else None
    except CheckpointError as error:
        raise TrainError(str(error)) from error
    timing: dict[str, float] = {}

    with _timed(timing, "scorer"):
        if saved is None:
            scores = yield from _scorer_phase(config, data, unlabeled)
            yield Progress("scorer", 1, 1, "scorer fitted", checkpoint=checkpoints.write(belongs, scores, None))
        else:
            scores = saved[0]
    with _timed(timing, "policy"):
        resume = None if saved is None else saved[1]
        learnt = yield from _policy_phase(config, data, scores, belongs, resume, rules)
    with _timed(timing, "calibration"):
        calibrated = _calibrated(config, data, learnt)
    baselines: dict[str, BoolArray] = {}
    if config.baselines:
        with _timed(timing, "baselines"):
            baselines = yield from rivals.baseline_phase(data, config.seed)
        if config.recipe == "scores":
            baselines |= _rules_as_baselines(data, learnt, calibrated.router)
    answered = yield from rivals.llm_phase(config, llm, data)
    coming = yield from rivals.next_labels_phase(config, data, learnt.scores)
    judged, held = yield from _folds_phase(config, data, examples, timing, (unlabeled, rules))
    calibrated = _promising(
        config, data, calibrated, held or guarantee.answers_set_aside(config.wrong, data, calibrated.router, apart)
    )
    yield Progress("measure", 0, 1, f"measuring on {data.measured_on}")
    with _timed(timing, "measure"):
        card = _measured(config, data, learnt, calibrated, baselines, answered)
        card |= {} if judged is None else {"cross_validated": judged}
        card |= {} if coming is None else {"next_labels": coming}
        parts = calibrated.parts
        content = Artifact(parts.config, parts.vocabulary, parts.tensors, card).to_bytes()
    yield Progress("measure", 1, 1, "done", {}, None, Result(content, {**card, "timing": timing}))


@contextmanager
def _timed(timing: dict[str, float], phase: str) -> Iterator[None]:
    """Note the seconds of processor time that a phase took."""
    began = time.process_time()
    yield
    timing[phase] = time.process_time() - began


def _scorer_phase(config: Config, data: Prepared, unlabeled: Sequence[str]) -> Generator[Progress, None, Scores]:
    rows = data.train.rows
    groups = [example.fold_key for example in data.train.examples]

    def work(progress: ScorerProgress) -> Scores:
        if config.recipe == "classifier":
            scorer = CLASSIFIERS[config.classifier]
            folds = config.folds or (scorer.folds if len(rows) < MANY_ROWS else 3)
            return Scores(
                cross_fit(
                    scorer,
                    rows,
                    groups,
                    seed=config.seed,
                    folds=folds,
                    progress=progress,
                ),
                {"encoder": config.classifier},
            )
        fit, report = fit_encoder(
            config, rows, groups, data.val.rows, agents=data.agents, unlabeled=unlabeled, progress=progress
        )
        features = None
        if config.recipe == "tfidf":
            tfidf, _ = fit_tfidf(
                rows.texts, word_range=(1, 1), characters=False, max_features=config.tfidf_max_features
            )
            features = TfIdfVectors(tfidf)
        return Scores(fit, report, features)

    yield Progress("features", 0, 1, "reading the queries")
    return (yield from streamed(work, "scorer"))


def _policy_phase(
    config: Config, data: Prepared, scores: Scores, belongs: str, resume: Learning | None, rules: Rules
) -> Generator[Progress, None, Learnt]:
    """The policy that decides on the scores; the recipe of a classifier brings one threshold of its own."""
    policy: Policy | None = None
    val = data.val.rows
    if config.recipe == "classifier":
        fit, policy = classifier_policy(scores.fit, data.train.rows, val)
        scores = dataclasses.replace(scores, fit=fit)
    served = scores.fit.platt(scores.fit.fitted.logits(val.texts))
    env = environment(config, data.agents, rules)
    whole = np.flatnonzero(data.val.whole)
    whole = whole if whole.size else np.arange(len(val))
    validation = _validation(scores, served, val)
    if policy is None:
        keep = partial(checkpoints.write, belongs, scores)
        training = _training(config, scores, data.train.rows)
        weights = draw_weights(val.required[whole], config.none_share, val.asked[whole])
        decision = yield from decide(config, env, training, validation.take(whole), weights, resume, keep)
    else:
        sets = selected_by(env, policy, validation.take(whole))
        entry = {"step": 1, "val_jaccard": float(jaccard(sets, val.required[whole]).mean())}
        decision = Decision(policy, {}, [entry], entry, {"rule": "threshold", "why": "recipe", "goal": config.goal})
        yield Progress("policy", 1, 1, "one threshold", {"val_jaccard": entry["val_jaccard"]})
    return Learnt(env, scores, decision, validation, served, whole)


def _validation(scores: Scores, served: FloatArray, rows: Rows) -> Queries:
    """The validation rows as the policy sees them: by their served log-odds, or by `features` where the recipe has its own."""
    read = served if scores.features is None else scores.features.logits(rows.texts)
    return Queries(read, np.zeros((len(rows), 0), np.float32), rows.required, rows.asked, groups=rows.groups)


def _training(config: Config, scores: Scores, rows: Rows) -> Queries:
    """The training rows as the policy learns from them."""
    shown = rows if scores.fit.held_out is None else rows.take(scores.fit.held_out)
    if scores.features is not None:
        read = scores.features.logits(shown.texts)
    elif config.cross_fitting:
        read = scores.fit.log_odds
    else:
        read = scores.fit.platt(scores.fit.fitted.logits(shown.texts))
    weight = draw_weights(shown.required, config.none_share, shown.asked)
    nothing = np.zeros((len(shown), 0), np.float32)
    return Queries(read, nothing, shown.required, shown.asked, weight, groups=shown.groups)


def _calibrated(config: Config, data: Prepared, learnt: Learnt) -> Calibrated:
    """Choose on validation how far a value must exceed STOP's, what confidence means, and whether nearness helps to abstain."""
    val, served, whole = data.val.rows, learnt.served, learnt.whole
    scores, policy = learnt.scores, learnt.decision.policy
    margin = operating_margin(config, learnt.env, policy, learnt.validation)
    train_read, val_read = _as_read(scores, data.train.rows), _as_read(scores, val)
    selected = selected_by(learnt.env, policy, learnt.validation, margin)
    wanted, wanted_report = needed.fit(
        scores.fit.log_odds,
        train_read,
        served,
        val_read,
        scored=scores.fit.held_out,
        none_share=config.none_share,
        seed=config.seed,
        encoder=_encoder_for_nearness(config, scores),
    )
    anyone = None if wanted is None else wanted.logits(val_read.texts, served, val.asked)[whole]
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
    if wanted is not None and config.strangers:
        level = calibration.stranger_level(wanted_report["none_share"], config.strangers)
        fitted = dataclasses.replace(fitted, stranger_below=level)
    unfamiliar = _unfamiliar(config, data)
    parts = _artifact(config, data.agents, scores, policy, fitted, wanted, unfamiliar)
    if (learnt_turns := _continuing(config, data, learnt, fitted, selected)) is not None:
        parts.config["continuing"] = learnt_turns.config()
    if learnt.env.allowed is not None:
        parts.config["rules"] = learnt.env.allowed.rules.config()
    return Calibrated(parts, Router.from_artifact(parts), margin, selected, anyone, wanted_report)


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
    training = _training(config, learnt.scores, data.train.rows)
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


def _folds_phase(
    config: Config,
    data: Prepared,
    examples: Sequence[Example],
    timing: dict[str, float],
    more: tuple[Sequence[str], Rules],
) -> Generator[Progress, None, tuple[dict[str, Any] | None, HeldOut | None]]:
    """What cross-validation says where the test split is small, and the answers of its folds; these also where a promise is asked of a
    pool of at most MOST_FOLDED. `more`: unlabeled texts, and the rules of allowed sets."""
    judging = bool(config.baselines and config.judging_folds and folds.few(examples))
    if not judging and not (config.most_wrong and len(examples) <= MOST_FOLDED):
        return None, None
    answers: list[HeldOut] = []
    learn = partial(_folded, config, *more, answers, judging)
    with _timed(timing, "folds"):
        judged = yield from folds.cross_validated(data.agents, examples, config, learn)
    held = HeldOut.together(answers, folds.INFLATION) if judged is not None else None
    return judged if judging else None, held


def _promising(config: Config, data: Prepared, calibrated: Calibrated, held: HeldOut) -> Calibrated:
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
    """Whether nearness in meaning is to be tried: see `needed.fit`."""
    if config.encoder != "auto" or not config.sentences or not sentences.installed():
        return ""
    kinds = [scorer.kind for scorer in (scores.fit.fitted, *getattr(scores.fit.fitted, "children", ()))]
    return "there" if READ_MEANING.isdisjoint(kinds) else "loaded"


def _folded(
    config: Config, unlabeled: Sequence[str], rules: Rules, answers: list[HeldOut], baselines: bool, data: Prepared
) -> Generator[Progress, None, dict[str, BoolArray]]:
    """What the whole recipe, learnt from the train and validation rows of a fold, answers to its test rows: see `folds.Fold`. To
    `answers` it adds what a promise goes by."""
    scores = yield from _scorer_phase(config, data, unlabeled)
    learnt = yield from _policy_phase(config, data, scores, "", None, rules)
    router = _calibrated(config, data, learnt).router
    answers.append(guarantee.answers_of_fold(config.wrong, data, router))
    sets = (yield from rivals.baseline_phase(data, config.seed)) if baselines else {}
    if baselines and config.recipe == "scores":
        sets |= _rules_as_baselines(data, learnt, router)
    return {"": router.selections(data.measured.rows.texts), **sets}


def _rules_as_baselines(data: Prepared, learnt: Learnt, router: Router) -> dict[str, BoolArray]:
    """The sets that one threshold, the exact rule and the network, on the same scores, select for the measured rows."""
    rows = data.measured.rows
    validation_queries = _validation(learnt.scores, router.reader.log_odds(rows.texts), rows)
    everyone = dataclasses.replace(validation_queries, asked=np.ones_like(validation_queries.asked))
    rules = [name for name in ("threshold", "bayes", "ddqn") if name in learnt.decision.rules]
    return {name: selected_by(learnt.env, learnt.decision.rules[name], everyone) for name in rules}


def _measured(
    config: Config,
    data: Prepared,
    learnt: Learnt,
    calibrated: Calibrated,
    baselines: dict[str, BoolArray],
    answered: LlmResult | None,
) -> dict[str, Any]:
    """The scorecard of the router on the measured rows."""
    val, whole, measured = data.val.rows, learnt.whole, data.measured
    judged = (learnt.served[whole], calibrated.selected[whole], val.required[whole], val.asked[whole])
    folds_of_rows = val.take(whole).fold(calibration.FOLDS, config.seed)
    anyone = calibrated.anyone
    card = scorecard(
        calibrated.router,
        data.agents,
        data.train.examples,
        measured.examples,
        measured.rows,
        baselines,
        levels=calibration.levels(
            calibration.held_out_confidences(*judged, needed=anyone, fold=folds_of_rows),
            np.asarray(val.required[whole].any(axis=1)),
        ),
        training=config.to_mapping(),
        seed=config.seed,
    )
    card |= {
        "measured_on": data.measured_on,
        "warnings": data.warnings,
        "encoder": learnt.scores.report,
        "best_validation": learnt.decision.best,
        "log": learnt.decision.log,
        "decision": learnt.decision.report,
        "config": config.to_mapping(),
        "data": {s: len(m.rows) for s, m in data.splits.items()},
        "operating_point": {"goal": config.goal, "margin": calibrated.margin},
        "calibration_validation": calibration.cross_validated(*judged, needed=anyone, fold=folds_of_rows),
        "needed": calibrated.needed_report,
    }
    if calibrated.promises:
        card["promises"] = [dict(row) for row in calibrated.promises]
    if calibrated.guarantee is not None:
        card["guarantee"] = calibrated.guarantee.plain()
    if answered is not None:
        card["llm"] = llm_baseline.figures(
            answered, measured.rows.required, calibrated.router.selections(measured.rows.texts)
        )
    return card


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


__all__ = ["PHASES", "TrainError", "train"]
