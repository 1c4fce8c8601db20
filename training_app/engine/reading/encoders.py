"""Which scorer reads the text: what `encoder` in the settings means.

Imported by workers only: it brings the modules that fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.config import Config
from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.examples import Agent, split_key
from training_app.engine.data.intervals import spread
from training_app.engine.data.rows import Rows, fold_of_group
from training_app.engine.progress import Job, ScorerProgress, at_once
from training_app.engine.reading import sentences
from training_app.engine.reading.beside import Beside
from training_app.engine.reading.conversing import turns_fit
from training_app.engine.reading.fit_progress import FitProgress
from training_app.engine.reading.fused_fit import FusedScorer, Taught, described
from training_app.engine.reading.held_out import faded, hold_out, mapped
from training_app.engine.reading.linear import ONE_MATRIX, EmbeddingScorer, LinearScorer, best_jaccards, choose_linear
from training_app.engine.reading.precedents import PrecedentScorer
from training_app.engine.reading.scorers import (
    CrossFit,
    Scorer,
    cores,
    cross_fit,
)
from training_app.engine.reading.sequences.sequence_fit import SequenceScorer
from training_app.engine.reading.stacking import (
    LEAST_JUDGES,
    SENTENCES,
    TEACHER,
    choose,
    corrected,
    crossed,
    drawn_platt,
    flattery,
    is_unbeatable,
    joined,
    served,
    settled,
    stack,
)
from training_app.engine.reading.teaching import coaching, student
from training_app.engine.reading.teaching.teacher_fit import TeacherScorer
from training_app.engine.reading.teaching.teacher_folder import TeacherFolder
from training_app.engine.reading.tidying.mending import mended, reading_of, tidied_rows
from training_app.engine.reading.tidying.tidied import Spelling, TidiedMargins

#: `auto` tries the sequence encoder from this many training rows on.
SEQUENCE_ROWS = 60
#: Below this many training rows words in order are learnt by several networks from different draws, whose sum is steadier: on subsets
#: of 200 labels of joined queries it brought 0.006 of Jaccard. Each costs a route its 100 µs.
SEVERAL_ROWS, SEVERAL = 500, 3
#: Below this many training rows the linear scorer is tried with the agents' descriptions as rows, too.
DESCRIBED_ROWS = 1_000
#: From this many training rows on neighbours in meaning are tried beside the other scorers: of 200 to 736 they
#: brought nothing, and each candidate more is one more that may win by chance.
PRECEDENT_ROWS = 1_000
#: From this many training rows on, linear scorers have five folds, not ten: four fifths of the rows teach nearly as well as nine
#: tenths. On five draws of 736 rows the router's Jaccard was 0.951 with either; with `linear.FEW_TOL` it took 0.75 of the time.
FEWER_FOLDS_ROWS = 500
LEAST_TEXTS = 50  # without labels, for a student to learn from
#: From this many training rows on, scorers are fitted once, with a part of the training rows held out, instead of once per fold. A
#: part of so many rows is enough for the policy, validation for the rest: of few rows an agent's map is drawn to that of all agents.
MANY_ROWS = 20_000
HELD_OUT = 4_000  # rows at most; a tenth of them all at most


def fit_encoder(
    config: Config,
    rows: Rows,
    groups: Sequence[str],
    validation: Rows,
    *,
    agents: Sequence[Agent] = (),
    beside: Beside | None = None,
    progress: ScorerProgress,
) -> tuple[CrossFit, dict[str, Any]]:
    """The scorer that the settings ask for, with log-odds of training rows it was not fitted on, and a report of what
    was chosen and why.

    `groups` (N) are the rows' group keys, `agents` (A) those of the columns, whose descriptions teach too, as do queries that were
    written for them and stand `beside`; of unlabeled texts there a fast scorer learns what a slow one makes of them
    (`student.py`). `auto` compares its candidates by their out-of-fold log-odds on the training rows and by what validation
    gets; in a large pool (`hold_out`), by the latter alone. No choice sees test. Where slips are not mended after all, a large
    pool's rows are read again as they will be served; out of fold they stay as they were read.
    """
    beside = beside or Beside()
    if reading_of(config) is None:
        return _fit_any(config, rows, groups, validation, agents, beside, progress)
    rows = tidied_rows(rows)
    spelling = Spelling.of(rows.texts)
    read = tidied_rows(validation, spelling)
    fit, report = _fit_any(config, rows, groups, read, agents, beside.tidied(), progress)
    report["spelling"] = spelling_report = mended(fit, spelling, validation, config.seed)
    if not spelling_report["kept"] and fit.held_out is not None:
        held, read = rows.take(fit.held_out), tidied_rows(validation)
        fit, report["faded"] = faded(mapped(fit.fitted, held.texts, held, read, fit.held_out), held, read, config.seed)
    fitted = TidiedMargins(fit.fitted, spelling.served() if spelling_report["kept"] else None)
    return dataclasses.replace(fit, fitted=fitted), report


def _fit_any(
    config: Config,
    rows: Rows,
    groups: Sequence[str],
    validation: Rows,
    agents: Sequence[Agent],
    beside: Beside,
    progress: ScorerProgress,
) -> tuple[CrossFit, dict[str, Any]]:
    """What reads queries, texts or conversations, as they are written."""
    if turns_fit.has_conversations(rows.texts):
        plain = partial(_fit_plain, config, rows, groups, validation, agents, beside, progress)
        return turns_fit.fit_turns(config, rows, groups, validation, agents, plain, progress, reading_of(config))
    return _fit_plain(config, rows, groups, validation, agents, beside, progress)


def _fit_plain(
    config: Config,
    rows: Rows,
    groups: Sequence[str],
    validation: Rows,
    agents: Sequence[Agent],
    beside: Beside,
    progress: ScorerProgress,
) -> tuple[CrossFit, dict[str, Any]]:
    """What reads plain texts; of a conversation the last turn."""
    apart = _held_out(config, rows, groups)
    if apart is None:
        return _Search(config, agents, rows, groups, validation, None, beside, progress).result()
    fit, report = _Search(config, agents, rows, groups, validation, apart, Beside(), progress).result()
    fit, share = faded(fit, rows.take(apart), validation, config.seed)
    return fit, {**report, "held_out": len(apart), "faded": share}


@dataclasses.dataclass
class _Search:
    """The search for the scorer of one run: candidates are added one after the other, simplest first, then one is chosen.

    `apart` are the numbers of the training rows held out, None where scorers are cross-fitted. `fits` are the candidates by name,
    `report` says what was found out. `alone`: only validation may judge.
    """

    config: Config
    agents: Sequence[Agent]
    rows: Rows
    groups: Sequence[str]
    validation: Rows
    apart: NDArray[np.int64] | None
    beside: Beside
    progress: ScorerProgress
    report: dict[str, Any] = dataclasses.field(default_factory=dict)
    fits: dict[str, CrossFit] = dataclasses.field(default_factory=dict)
    alone: bool = False

    @cached_property
    def fit_progress(self) -> FitProgress:
        """What the fits that are to come report to, in their order."""
        few, kind = len(self.rows) < DESCRIBED_ROWS, self.config.encoder
        if kind in ("embedding", "sequence"):
            return FitProgress((), self.progress)
        draws = SEVERAL if self.tries_all and len(self.rows) < SEVERAL_ROWS else 1
        ordered = len(self.rows) >= SEQUENCE_ROWS or kind == "stack"
        planned = {
            "choosing": not self.config.svm_c, "linear": True, "n-grams and descriptions": self.tries_all and few,
            "teacher": bool(self.config.teacher) and self.tries_all, "student": len(self.beside.unlabeled) >= LEAST_TEXTS,
            "sequence": ordered and kind != "linear",
            **{f"sequence, draw {n}": ordered and n <= draws for n in range(2, SEVERAL + 1)},
            "sentence encoder": self.meaning, "precedents": self.meaning and len(self.rows) >= PRECEDENT_ROWS,
        }  # fmt: skip
        return FitProgress([name for name, wanted in planned.items() if wanted], self.progress)

    @property
    def tries_all(self) -> bool:
        """Whether candidates are compared at all: in a large pool each takes too long."""
        return self.config.encoder in ("auto", "fast") and self.apart is None

    @cached_property
    def taught(self) -> Taught | None:
        """What the agents' descriptions teach, and what was written for them."""
        if not self.agents:
            return None
        return described(self.agents).and_also(self.beside.taught(self.agents, len(self.rows)))

    @cached_property
    def meaning(self) -> bool:
        """Whether the sentence encoder is tried."""
        wanted = self.config.sentences and self.config.encoder != "fast"
        return self.tries_all and self.taught is not None and wanted and sentences.installed()

    def result(self) -> tuple[CrossFit, dict[str, Any]]:
        """The scorer that the settings ask for, and the report."""
        folder = coaching.checked(self.config.teacher)
        kind = self.config.encoder
        if kind == "embedding":
            return self.only(kind, EmbeddingScorer(self.config.embedding_path))
        if kind == "sequence":
            return self.only(kind, SequenceScorer.for_rows(len(self.rows)))
        if kind == "linear":
            return self.only(kind, self.linear())
        self.fits |= self.first()
        self.add_described()
        coach = self.add_coach(folder)
        self.add_student(coach)
        base = self.base()
        if coach is None and self.is_enough(base):
            self.report["enough"] = base
            return self.finished(self.choice(coach, base))
        parts = self.judged(base, self.add_sequence(base))
        if "sequence" in self.fits:
            self.fits["stack"] = stack(parts, self.rows, self.validation if self.alone else None)
            self.report["stack_weights"] = self.fits["stack"].fitted.weights.tolist()  # type: ignore[attr-defined]
            if kind == "stack":
                self.report["encoder"] = "stack"
                return self.fits["stack"], self.report
        share = self.add_meaning(parts)
        if coach is not None:
            self.fits[TEACHER] = self.settled([*parts, coach.fit], share)
        return self.finished(self.choice(coach, base))

    # --- Fitting --------------------------------------------------------------------------------------------------

    def fitted(self, scorer: Scorer, what: str, seed: int | None = None) -> CrossFit:
        """A scorer with log-odds of rows that it was not fitted on."""
        rows, seed = self.rows, self.config.seed if seed is None else seed

        reading, report = reading_of(self.config), self.fit_progress.of(what)
        if self.apart is not None:
            return hold_out(scorer, rows, self.apart, self.validation, seed=seed, reading=reading, progress=report)
        folds = scorer.folds
        if len(rows) >= FEWER_FOLDS_ROWS:
            folds = min(folds, 3 if scorer.kind == "fused" and len(rows) >= DESCRIBED_ROWS else 5)
        return cross_fit(
            scorer,
            rows,
            self.groups,
            seed=seed,
            folds=self.config.folds or folds,
            reading=reading,
            progress=report,
        )

    def first(self) -> dict[str, CrossFit]:
        """The linear scorer; where another core is free in a large pool, beside it what reads words in order, which follows anyway."""
        if self.apart is None or cores() < 2:
            return {"linear": self.fitted(self.linear(), "linear")}

        def by_words(report: ScorerProgress) -> CrossFit:
            own = dataclasses.replace(self, progress=report)
            return own.fitted(SequenceScorer.for_rows(len(self.rows)), "sequence")

        def by_ngrams(report: ScorerProgress) -> CrossFit:
            own = dataclasses.replace(self, progress=report)
            with ONE_MATRIX:
                return own.fitted(own.linear(), "linear")

        jobs: list[Job[CrossFit]] = [("words in order", by_words), ("n-grams", by_ngrams)]
        sequence, linear = at_once(jobs, len(jobs), self.progress)
        return {"linear": linear, "sequence": sequence}

    def only(self, kind: str, scorer: Scorer) -> tuple[CrossFit, dict[str, Any]]:
        """The one scorer that the settings name."""
        fit = self.fitted(scorer, kind)
        return fit, self.report | {"encoder": kind}

    def linear(self) -> LinearScorer:
        """The linear scorer with the settings' strength, or the one that cross-validation chooses."""
        rows, config = self.rows, self.config
        if config.svm_c:
            scorer = LinearScorer(c=config.svm_c, max_features=config.max_features)
        else:
            scorer, self.report["candidates"] = choose_linear(
                rows.texts,
                rows.required,
                rows.asked,
                self.groups,
                seed=config.seed,
                max_features=config.max_features,
                progress=self.fit_progress.of("choosing"),
            )
        ranges = {"words": list(scorer.word_range), "characters": list(scorer.character_range)}
        self.report["linear"] = {"c": scorer.c, **ranges}
        return scorer

    def settled(self, parts: Sequence[CrossFit], share: float = 0.0) -> CrossFit:
        """The parts as one scorer."""
        return settled(parts, self.rows, self.validation, self.alone, share)

    # --- Candidates -----------------------------------------------------------------------------------------------

    def add_described(self) -> None:
        """The linear scorer with the agents' descriptions as rows, in a small pool."""
        if self.tries_all and self.taught is not None and len(self.rows) < DESCRIBED_ROWS:
            scorer = FusedScorer(self.taught, embedding=False)
            self.fits["described"] = self.fitted(scorer, "n-grams and descriptions")

    def add_coach(self, folder: TeacherFolder | None) -> coaching.Coach | None:
        """The sentence encoder that is fine-tuned on the labels, None without one."""
        if folder is None:
            return None
        self.report["teacher"] = folder.about()
        if not self.tries_all:
            return None
        tuned = TeacherScorer(folder, self.taught if len(self.rows) < DESCRIBED_ROWS else None)
        coach = coaching.Coach(tuned, self.fitted(tuned, "teacher"), self.rows)
        self.report["teacher"] |= coach.about()
        return coach

    def add_student(self, coach: coaching.Coach | None) -> None:
        """The fast scorer that learns from texts without labels what the slow ones make of them."""
        rows = self.rows
        if not self.tries_all or self.taught is None or len(self.beside.unlabeled) < max(LEAST_TEXTS, len(rows) // 4):
            return
        texts = student.some_of(self.beside.unlabeled, self.config.seed)
        slow = partial(_teacher, self.taught, self.meaning, coach)
        self.fits["student"] = self.fitted(student.StudentScorer(texts, slow, self.taught), "student")
        kinds = ["n-grams", *["sentence encoder"] * self.meaning, *["words in order"] * (len(rows) >= SEQUENCE_ROWS)]
        kinds += [coach.name] if coach is not None else []
        self.report["student"] = {"texts": len(texts), "taught_by": kinds}

    def base(self) -> str:
        """The best of the candidates so far, which all others join."""
        if not self.tries_all:
            return "linear"
        base, brought = self.chosen(self.fits)
        if "student" in self.fits:
            self.report["student"] |= {"kept": base == "student", "brought": brought["student"]}
        return base

    def is_enough(self, base: str) -> bool:
        """Whether no scorer that is yet to be fitted could be chosen over the base, however good, on any rows that may judge."""
        if not self.tries_all or "student" in self.fits:
            return False
        fit, rows, validation = self.fits[base], self.rows, self.validation
        log_odds = np.concatenate([fit.log_odds, served(fit, validation)])
        if not is_unbeatable(log_odds, joined(rows, validation), self.config.none_share):
            return False
        # Where out-of-fold figures may turn out to flatter, validation alone would judge.
        may_flatter = len(validation) >= LEAST_JUDGES
        return not may_flatter or is_unbeatable(crossed(fit, validation), validation, self.config.none_share)

    def add_sequence(self, base: str) -> list[CrossFit]:
        """The base and the scorers that read words in order, in a small pool several draws of it."""
        rows, parts = self.rows, [self.fits[base]]
        if len(rows) >= SEQUENCE_ROWS or self.config.encoder == "stack":
            reader = SequenceScorer.for_rows(len(rows))
            if "sequence" not in self.fits:
                self.fits["sequence"] = self.fitted(reader, "sequence")
            others = range(1, SEVERAL if self.tries_all and len(rows) < SEVERAL_ROWS else 1)
            more = [self.fitted(reader, f"sequence, draw {n + 1}", self.config.seed + n) for n in others]
            parts += [self.fits["sequence"], *more]
        return parts

    def add_meaning(self, parts: list[CrossFit]) -> float:
        """The sentence encoder, alone and beside the `parts`, which it joins; in larger pools neighbours in meaning too. Returns the
        share of "none of these" that their weights were learnt with."""
        if not self.meaning or self.taught is None:
            return 0.0
        own = self.fitted(FusedScorer(self.taught), "sentence encoder")
        self.fits["sentence"] = self.settled([own])
        self.fits["all"] = self.settled([*parts, own])
        self.report["sentence_weights"] = self.fits["all"].fitted.weights.tolist()  # type: ignore[attr-defined]
        parts.append(own)
        if len(self.rows) < PRECEDENT_ROWS:
            return 0.0
        # What a stranger is like is learnt from the few rows that need nobody: they count as the policy will draw them.
        share = self.config.none_share
        parts.append(self.fitted(PrecedentScorer(), "precedents"))
        self.fits["precedents"] = self.settled(parts, share)
        return share

    # --- Choosing -------------------------------------------------------------------------------------------------

    def judged(self, base: str, parts: list[CrossFit]) -> list[CrossFit]:
        """The parts, mapped by validation alone where out-of-fold figures flatter."""
        rows, validation = self.rows, self.validation
        doubt = None if self.apart is not None else flattery(parts, rows, validation)
        if doubt is not None:
            self.report["flattered"] = doubt
        self.alone = self.apart is not None or (doubt is not None and doubt["beyond_noise"])
        if self.apart is not None or not self.alone:
            return parts
        self.fits = {name: _on_validation(fit, rows, validation) for name, fit in self.fits.items()}
        return [self.fits[base], *[_on_validation(part, rows, validation) for part in parts[1:]]]

    def chosen(self, fits: dict[str, CrossFit]) -> tuple[str, dict[str, Any]]:
        """`_chosen` with what may judge now."""
        return _chosen(fits, self.rows, self.validation, self.alone, self.config.none_share)

    def choice(self, coach: coaching.Coach | None, base: str) -> str:
        """The name of the candidate that serves."""
        choice, self.report["comparison"] = self.chosen(self.fits)
        if coach is not None:
            if choice == TEACHER and not self.config.teacher_serves:
                choice, _ = self.chosen({name: fit for name, fit in self.fits.items() if name != TEACHER})
            self.report["teacher"]["serves"] = choice == TEACHER
        if "student" in self.report:
            slowest = next(reversed(self.fits))  # all that has taught
            fastest = "stack" if base == "student" and "stack" in self.fits else "student"
            pair = {slowest: self.fits[slowest], fastest: self.fits[fastest]}
            self.report["student"]["beside_teacher"] = self.chosen(pair)[1][fastest].get("against")
        self.report["encoder"] = choice
        self.compare_fast(choice)
        return choice

    def compare_fast(self, choice: str) -> None:
        """Note beside a scorer that asks the sentence encoder what the best one without it gets: the shares of the rows that may judge
        whose sets are right, each at its best threshold, and the interval of the lead."""
        quick_fits = {name: fit for name, fit in self.fits.items() if name not in (*SENTENCES, TEACHER)}
        if choice in quick_fits or not quick_fits:
            return
        best, _ = self.chosen(quick_fits)
        rows, validation = self.rows, self.validation
        both = validation if self.alone else joined(rows, validation)

        def right(fit: CrossFit) -> FloatArray:
            log_odds = (
                crossed(fit, validation) if self.alone else np.concatenate([fit.log_odds, served(fit, validation)])
            )
            return np.asarray(best_jaccards(log_odds, both.required, both.asked) == 1, np.float32)

        ours, theirs = right(self.fits[choice]), right(self.fits[best])
        lead = spread(ours - theirs).plain()
        self.report["fast"] = {"right": float(theirs.mean()), "chosen": float(ours.mean()), "lead": lead}

    def finished(self, choice: str) -> tuple[CrossFit, dict[str, Any]]:
        """The chosen scorer, its log-odds as sure as those of a text that it has not seen."""
        fit = self.fits[choice]
        if self.apart is not None:
            return fit, self.report
        if self.alone:
            fit, self.report["faded"] = faded(fit, self.rows, self.validation, self.config.seed)
        elif choice not in (*SENTENCES, TEACHER):
            fit = corrected(fit, self.validation)
        return fit, self.report


def quick(encoder: str, agents: Sequence[Agent]) -> Scorer:
    """The scorer that is fitted in a moment of those which the chosen `encoder` of a report reads with."""
    return FusedScorer(described(agents), embedding=encoder in SENTENCES)


def _teacher(
    taught: Taught, meaning: bool, coach: coaching.Coach | None, rows: Rows, texts: Sequence[str], seed: int
) -> FloatArray:
    """Log-odds of `texts` by the slow scorer, fitted on `rows`: the `Teacher` of a student. float32[M, A]."""
    scorers: list[Scorer] = [FusedScorer(taught, embedding=meaning)]
    if len(rows) >= SEQUENCE_ROWS * 2 // 3:
        scorers.append(SequenceScorer.for_rows(len(rows)))
    groups = [split_key(text) for text in rows.texts]
    fits = [cross_fit(s, rows, groups, seed=seed, folds=3) for s in scorers]
    if coach is not None:
        fits.append(coach.within(rows, seed))
    fit = settled(fits, rows, rows.take(np.zeros(0, np.int64)))
    return fit.platt(fit.fitted.logits(texts))


def _on_validation(fit: CrossFit, rows: Rows, validation: Rows) -> CrossFit:
    """The same scorer, served through a map that validation has taught; its out-of-fold rows have a map of their own."""
    platt = drawn_platt(fit.fitted.logits(validation.texts), validation.required, validation.asked)
    own = drawn_platt(fit.margins, rows.required, rows.asked)
    return dataclasses.replace(fit, platt=platt, log_odds=own(fit.margins))


def _chosen(
    fits: dict[str, CrossFit], rows: Rows, validation: Rows, alone: bool, none_share: float
) -> tuple[str, dict[str, Any]]:
    """`choose` on the rows that may judge: validation `alone`, or out of fold the training rows as well."""
    if alone:
        return choose({name: crossed(fit, validation) for name, fit in fits.items()}, validation, none_share)
    log_odds = {name: served(fit, validation) for name, fit in fits.items()}
    both = {name: np.concatenate([fit.log_odds, log_odds[name]]) for name, fit in fits.items()}
    return choose(both, joined(rows, validation), none_share)


def _held_out(config: Config, rows: Rows, groups: Sequence[str]) -> NDArray[np.int64] | None:
    """The numbers of the training rows to hold out, whole groups of them; None where scorers are cross-fitted."""
    if config.folds or len(rows) < MANY_ROWS:
        return None
    parts = max(10, -(-len(rows) // HELD_OUT))
    return np.flatnonzero(fold_of_group(groups, parts, config.seed) == 0)
