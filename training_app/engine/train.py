"""One training run: from labeled examples to an artifact and its scorecard.

`train` is a generator of progress. Closing it cancels the run; a checkpoint that it gave lets a later call go on to
the same artifact. Imported by workers only: it brings torch and scikit-learn.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Self

import numpy as np

from training_app.engine import rivals
from training_app.engine.config import Config
from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.artifact import Artifact
from training_app.engine.data.examples import Agent, Example, news
from training_app.engine.data.metrics import jaccard
from training_app.engine.data.prepared import Prepared, TrainError, prepared
from training_app.engine.data.rows import draw_weights
from training_app.engine.finished_router import (
    Calibrated,
    Learnt,
    calibrate,
    fit_wanted,
    promising,
    training_queries,
    validation_queries,
)
from training_app.engine.judging import folds, llm_baseline
from training_app.engine.judging.baselines import CLASSIFIERS, classifier_policy
from training_app.engine.judging.llm_baseline import LanguageModel, LlmResult
from training_app.engine.judging.scorecard import errors_of_folds, scorecard
from training_app.engine.progress import Progress, Result, ScorerProgress, begun, streamed, watched
from training_app.engine.reading import sentences
from training_app.engine.reading.encoders import MANY_ROWS, Beside, fit_encoder
from training_app.engine.reading.linear import fit_tfidf
from training_app.engine.reading.scorers import cores, cross_fit
from training_app.engine.reading.text import TfIdfVectors
from training_app.engine.routing import calibration, checkpoints, guarantee
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.checkpoints import CheckpointError, Learning, Scores, fingerprint
from training_app.engine.routing.decision import Decision, decide, environment
from training_app.engine.routing.decision import selected as selected_by
from training_app.engine.routing.goals import why_nobody
from training_app.engine.routing.guarantee import HeldOut
from training_app.engine.routing.policy import Policy
from training_app.engine.routing.router import Router

PHASES = ("features", "scorer", "policy", "baselines", "folds", "measure")


#: Of so many labeled queries a promise of few wrong answers is made on the answers of folds; of more a share is set aside for it.
MOST_FOLDED = 2_000


def train(
    config: Config,
    agents: Sequence[Agent],
    examples: Sequence[Example],
    *,
    checkpoint: bytes | None = None,
    llm: LanguageModel | None = None,
    unlabeled: Sequence[str] = (),
    written: Sequence[Example] = (),
    rules: Rules | None = None,
) -> Iterator[Progress]:
    """Train a router on `examples` (each with split train, val or test) and measure it.

    `llm` is the model that `llm_queries` asks; `unlabeled` are texts of the pool that nobody has labeled; `written` are queries that
    were written for agents, which teach the scorer and are no rows: nothing is validated, tested, folded, promised or counted by them,
    and one that says the same as an example is left out; `rules` say which sets are allowed, which the policy learns under and the
    artifact keeps.
    Yields Progress; the last one holds the Result. The same settings, data
    and machine give the same artifact, byte for byte, with or without a stop in between; but for what an LLM says,
    where one is asked. Raises TrainError before the first step where the data cannot be
    used or the checkpoint belongs to something else.
    """
    with sentences.remembering():
        beside = Beside(unlabeled if config.unlabeled else (), written)
        yield from _trained(config, agents, examples, checkpoint, llm, beside, rules or Rules())


def _trained(
    config: Config,
    agents: Sequence[Agent],
    examples: Sequence[Example],
    checkpoint: bytes | None,
    llm: LanguageModel | None,
    beside: Beside,
    rules: Rules,
) -> Iterator[Progress]:
    examples = [e for e in examples if e.split in ("train", "val", "test")]
    beside = dataclasses.replace(beside, written=news(beside.written, examples))
    apart: list[Example] = []
    if config.most_wrong and len(examples) > MOST_FOLDED:
        examples, apart = guarantee.set_aside(examples, config.seed)
    data = prepared(agents, examples)
    needed_agents = data.val.rows.required & data.val.rows.asked
    if not config.min_agents and (nobody := why_nobody(config.goal, data.agents, config.query_value, needed_agents)):
        raise TrainError(nobody)
    belongs = fingerprint(config, agents, [*examples, *beside.written])
    try:
        saved = checkpoints.read(checkpoint, belongs) if checkpoint is not None else None
    except CheckpointError as error:
        raise TrainError(str(error)) from error
    timing: dict[str, float] = {}

    baselines: dict[str, BoolArray] = {}
    with _Baselines(config, data, rules) as measuring:
        with _timed(timing, "scorer"):
            if saved is None:
                scores = yield from watched(_scorer_phase(config, data, beside), measuring.begin)
                yield Progress("scorer", 1, 1, "scorer fitted", checkpoint=checkpoints.write(belongs, scores, None))
            else:
                scores = saved[0]
        with _timed(timing, "policy"):
            resume = None if saved is None else saved[1]
            policy = _policy_phase(config, data, scores, belongs, resume, rules)
            learnt = yield from watched(policy, measuring.begin)
        with _timed(timing, "calibration"):
            calibrated = calibrate(config, data, learnt)
        if config.baselines:
            with _timed(timing, "baselines"):
                baselines = yield from measuring.found()
            if config.recipe == "scores":
                baselines |= _rules_as_baselines(data, learnt, calibrated.router)
    answered = yield from rivals.llm_phase(config, llm, data)
    coming = yield from rivals.next_labels_phase(config, data, learnt.scores)
    judged, held = yield from _folds_phase(config, data, examples, timing, (beside, rules))
    calibrated = promising(
        config, data, calibrated, held or guarantee.answers_set_aside(config.wrong, data, calibrated.router, apart)
    )
    yield Progress("measure", 0, 1, f"measuring on {data.measured_on}")
    with _timed(timing, "measure"):
        written = len(beside.written) if config.recipe == "scores" else 0
        card = _measured(config, data, learnt, calibrated, baselines, answered, written)
        if judged is not None:
            card |= {"cross_validated": judged, **errors_of_folds(examples, judged["answers"])}
        card |= {} if coming is None else {"next_labels": coming}
        parts = calibrated.parts
        content = Artifact(parts.config, parts.vocabulary, parts.tensors, card).to_bytes()
    yield Progress("measure", 1, 1, "done", {}, None, Result(content, {**card, "timing": timing}))


@contextmanager
def _timed(timing: dict[str, float], phase: str) -> Iterator[None]:
    """Note the seconds of processor time that a phase took, and what was done beside it."""
    began = time.process_time()
    yield
    timing[phase] = time.process_time() - began


class _Baselines:
    """What measures the baselines: in a large pool, where another core is free, beside the training, else when they are asked for."""

    def __init__(self, config: Config, data: Prepared, rules: Rules) -> None:
        self._measure = partial(rivals.baselines, data, config.seed, rules)
        self._beside = config.baselines and len(data.train.rows) >= MANY_ROWS and cores() > 1
        self._ending = ExitStack()
        self._begun: Generator[Progress, None, dict[str, BoolArray]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._ending.close()

    def begin(self, step: Progress) -> None:
        """Begin as soon as a scorer is being fitted, or the policy where the scorer is that of a checkpoint."""
        fitting = step.phase == "policy" or (step.phase == "scorer" and step.step > 0)
        if self._beside and self._begun is None and fitting:
            self._begun = self._ending.enter_context(begun(self._measure, "baselines"))

    def found(self) -> Generator[Progress, None, dict[str, BoolArray]]:
        """The sets that each selects for the measured rows, bool[N, A]."""
        return (yield from self._begun or streamed(self._measure, "baselines"))


def _scorer_phase(config: Config, data: Prepared, beside: Beside) -> Generator[Progress, None, Scores]:
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
            config,
            rows,
            groups,
            data.val.rows,
            agents=data.agents,
            beside=beside,
            progress=progress,
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
    wanted = fit_wanted(config, data, scores, served)
    validation = validation_queries(scores, served, val, wanted.validation)
    if policy is None:
        keep = partial(checkpoints.write, belongs, scores)
        training = training_queries(config, scores, data.train.rows)
        weights = draw_weights(val.required[whole], config.none_share, val.asked[whole])
        decision = yield from decide(config, env, training, validation.take(whole), weights, resume, keep)
    else:
        sets = selected_by(env, policy, validation.take(whole))
        entry = {"step": 1, "val_jaccard": float(jaccard(sets, val.required[whole]).mean())}
        decision = Decision(policy, {}, [entry], entry, {"rule": "threshold", "why": "recipe", "goal": config.goal})
        yield Progress("policy", 1, 1, "one threshold", {"val_jaccard": entry["val_jaccard"]})
    return Learnt(env, scores, decision, validation, served, whole, wanted)


def _folds_phase(
    config: Config,
    data: Prepared,
    examples: Sequence[Example],
    timing: dict[str, float],
    more: tuple[Beside, Rules],
) -> Generator[Progress, None, tuple[dict[str, Any] | None, HeldOut | None]]:
    """What cross-validation says where the test split is small, and the answers of its folds; these also where a promise is asked of a
    pool of at most MOST_FOLDED. `more`: what is learnt from beside labels, and the rules of allowed sets."""
    judging = bool(config.baselines and config.judging_folds and folds.few(examples))
    if not judging and not (config.most_wrong and len(examples) <= MOST_FOLDED):
        return None, None
    answers: list[HeldOut] = []
    learn = partial(_folded, config, *more, answers, judging)
    with _timed(timing, "folds"):
        judged = yield from folds.cross_validated(data.agents, examples, config, learn)
    held = HeldOut.together(answers, folds.INFLATION) if judged is not None else None
    return judged if judging else None, held


def _folded(
    config: Config, beside: Beside, rules: Rules, answers: list[HeldOut], baselines: bool, data: Prepared
) -> Generator[Progress, None, dict[str, BoolArray]]:
    """What the whole recipe, learnt from the train and validation rows of a fold, answers to its test rows: see `folds.Fold`. To
    `answers` it adds what a promise goes by."""
    scores = yield from _scorer_phase(config, data, beside)
    learnt = yield from _policy_phase(config, data, scores, "", None, rules)
    router = calibrate(config, data, learnt).router
    answers.append(guarantee.answers_of_fold(config.wrong, data, router))
    sets = (yield from rivals.baseline_phase(data, config.seed, rules)) if baselines else {}
    if baselines and config.recipe == "scores":
        sets |= _rules_as_baselines(data, learnt, router)
    return {"": router.selections(data.measured.rows.texts), **sets}


def _rules_as_baselines(data: Prepared, learnt: Learnt, router: Router) -> dict[str, BoolArray]:
    """The sets that one threshold, the exact rule and the network, on the same scores, select for the measured rows."""
    rows = data.measured.rows
    log_odds = router.reader.log_odds(rows.texts)
    queries = validation_queries(learnt.scores, log_odds, rows, router.reader.needed(rows.texts, log_odds))
    everyone = dataclasses.replace(queries, asked=np.ones_like(queries.asked))
    rules = [name for name in ("threshold", "bayes", "ddqn") if name in learnt.decision.rules]
    return {name: selected_by(learnt.env, learnt.decision.rules[name], everyone) for name in rules}


def _measured(
    config: Config,
    data: Prepared,
    learnt: Learnt,
    calibrated: Calibrated,
    baselines: dict[str, BoolArray],
    answered: LlmResult | None,
    written: int,
) -> dict[str, Any]:
    """The scorecard of the router on the measured rows. `written`: how many written queries it learnt from."""
    val, whole, measured = data.val.rows, learnt.whole, data.measured
    judged = (learnt.served[whole], calibrated.selected[whole], val.required[whole], val.asked[whole])
    folds_of_rows = val.take(whole).fold(calibration.FOLDS, config.seed)
    anyone = calibrated.anyone
    card = scorecard(
        calibrated.router,
        data,
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
        "needed": learnt.wanted.report,
    }
    if written:
        card["written"] = written
    if calibrated.promises:
        card["promises"] = [dict(row) for row in calibrated.promises]
    if calibrated.guarantee is not None:
        card["guarantee"] = calibrated.guarantee.plain()
    if answered is not None:
        card["llm"] = llm_baseline.figures(
            answered, measured.rows.required, calibrated.router.selections(measured.rows.texts)
        )
    return card


__all__ = ["PHASES", "TrainError", "train"]
