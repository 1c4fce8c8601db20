"""The scorecard of a trained router: what it does on the measured split, beside every baseline.

numpy only; the baselines' sets come in as arrays.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from math import ceil
from typing import Any

import numpy as np

from training_app.engine.data import metrics
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.conversations import before, earlier_as_json, text_of, transcript
from training_app.engine.data.examples import Example, group_key
from training_app.engine.data.prepared import Prepared
from training_app.engine.data.rows import Rows
from training_app.engine.judging import alike, flips, questions
from training_app.engine.judging import analysis as judging
from training_app.engine.judging.folds import key_of
from training_app.engine.judging.standard import Judged, priced, standard_of
from training_app.engine.reading.languages import RUN, counted
from training_app.engine.reading.logistic import sigmoid
from training_app.engine.reading.tidying.perturbations import PERTURBATIONS
from training_app.engine.routing.router import Router

#: A query that was answered wrongly, the ids of the agents that it needs, and of those that were chosen.
Wrong = tuple[Example, Collection[int], Collection[int]]

MAX_ERRORS = 2_000  # errors listed in a scorecard
PERTURBED = 1_000  # texts whose answers are tried with typos and the like, at most
NEIGHBOURS = 3  # nearest training queries beside each


# Over 60 lines. Mostly one dictionary: the scorecard, in the order in which pages show it.
def scorecard(
    router: Router,
    data: Prepared,
    baselines: Mapping[str, BoolArray],
    *,
    levels: Mapping[float, float] | None = None,
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Everything measured on the test rows of `data`, or where it has none on those of validation; JSON-able.

    `levels` are what `calibration.levels` found on validation: each is measured beside the one in force.

    `training` are the run's settings, whose goal says what the best baseline is best by; `baselines` maps names to sets
    bool[N, A]. Rows in which some agent was not asked enter the figures by agent and the calibration of scores, and leave those of
    sets.
    """
    agents, train, test, rows = data.agents, data.train.examples, data.measured.examples, data.measured.rows
    texts = rows.texts
    answers = router.answers(texts)
    log_odds, selected = answers.log_odds, answers.selected
    p = router.calibration.probabilities(log_odds)
    whole = np.asarray(rows.asked.all(axis=1))
    chosen, required = selected[whole], rows.required[whole]
    confidence = answers.confidence[whole]
    right = (chosen == required).all(axis=1)
    standard, goal = standard_of(training or {}), priced(training or {}, agents)
    ours = Judged.of(chosen, required, goal)
    train_keys = {group_key(e.text) for e in train}
    ids = [agent.id for agent in agents]
    answered = [texts[i] for i in np.flatnonzero(whole).tolist()]
    changed = perturbed(router, texts, seed=seed)

    card: dict[str, Any] = {
        "queries": int(whole.sum()),
        "partly_asked": int((~whole).sum()),
        "overlap_with_train": sum(group_key(text) in train_keys for text in texts),
        "metrics": ours.intervals(),
        "standard": standard.plain(),
        "empty": metrics.empty_sets(chosen, required),
        "by_size": metrics.by_size(chosen, required),
        "by_agent": metrics.by_agent(selected, rows.required, rows.asked, agents),
        "calibration": _calibration(sigmoid(log_odds)[rows.asked], p[rows.asked], rows.required[rows.asked], seed)
        | {
            "ece_confidence": metrics.calibration_error(confidence, right),
            "ece_confidence_floor": metrics.calibration_floor(confidence, seed=seed),
            "reliability_confidence": metrics.reliability(confidence, right),
        },
        "out_of_scope": out_of_scope(router, texts, rows, whole),
        "abstention": abstention(router, confidence, required, right, levels or {}, answers.strange[whole]),
        "robustness": robustness(changed),
        "robustness_jaccard": robustness_jaccard(
            changed if whole.all() else perturbed(router, answered, seed=seed), required
        ),
        "confusion": judging.confusion(selected, rows.required, rows.asked, ids),
        "operating_points": judging.operating_points(router, answered, required, seed=seed),
        "baselines": {},
    }
    for name, sets in baselines.items():
        theirs = Judged.of(sets[whole], required, goal)
        card["baselines"][name] = {
            "metrics": theirs.intervals(),
            "empty": metrics.empty_sets(sets[whole], required),
            "difference": ours.lead(theirs),
            "point": judging.point(sets[whole], required),
            **judging.beside(selected, sets, rows.required, rows.asked, ids),
        }
    # The rule that answers is no baseline of itself: on few queries no model could be shown to be no worse than it.
    others = [name for name in baselines if name != router.rule] or list(baselines)
    if others and whole.any():
        beside = {
            name: {m: figure["mean"] for m, figure in card["baselines"][name]["metrics"].items()} for name in others
        }
        card["best_baseline"] = standard.best(beside)
    wrong = np.flatnonzero(whole)[~right]
    order = np.argsort(ours.values["jaccard"][~right], kind="stable")
    chosen_ids = {i: [ids[a] for a in np.flatnonzero(selected[i])] for i in wrong.tolist()}
    listed = [(test[i], test[i].required, chosen_ids[i]) for i in wrong[order].tolist()]
    card |= {"errors": errors(train, listed), "error_count": len(listed)}
    card |= (
        {"asking": figures_of_asking}
        if (figures_of_asking := questions.asking(p[whole], chosen, required, confidence))
        else {}
    )
    tested = [test[i] for i in np.flatnonzero(whole).tolist()]
    card |= {"alike": alike.figures(tested, train), "spoken": spoken(tested)}
    groups = [example.fold_key for example in tested]
    card |= {"conversations": turns} if (turns := flips.conversations(router, answered, groups, required)) else {}
    return card


def _calibration(before: FloatArray, after: FloatArray, required: BoolArray, seed: int) -> dict[str, Any]:
    """How well p(agent needed) of the pairs that were asked about holds, before and after calibration."""
    return {
        "ece_before": metrics.calibration_error(before, required),
        "ece": metrics.calibration_error(after, required),
        "ece_before_floor": metrics.calibration_floor(before, seed=seed),
        "ece_floor": metrics.calibration_floor(after, seed=seed),
        "reliability": metrics.reliability(after, required),
    }


def out_of_scope(router: Router, texts: Sequence[str], rows: Rows, whole: BoolArray) -> dict[str, Any]:
    """AUROC and the false positive rate at 95% recall of telling queries that need an agent from those that need
    none, with their intervals; None where one of the two is missing."""
    score = router.reader.answerable(texts)[whole]
    needs = np.asarray(rows.required[whole].any(axis=1))
    return {
        "auroc": metrics.auroc(score, needs),
        "fpr95": metrics.fpr95(score, needs),
        "auroc_interval": metrics.auroc_interval(score, needs),
        "fpr95_interval": metrics.fpr95_interval(score, needs),
    }


def abstention(
    router: Router,
    confidence: Any,
    required: BoolArray,
    right: BoolArray,
    levels: Mapping[float, float],
    strangers: BoolArray,
) -> dict[str, Any]:
    """What the abstention level does here, and under "at" what the level of each α would: the share of all queries abstained
    from; that of answerable ones (false abstention, bounded by α on queries like the validation ones); that of queries
    that need nobody and get an agent all the same; and the exact match of what is still answered. `strangers`
    bool[N], answers abstained from because the text is like none, count in what is done here, and alone under "strangers"."""

    def at(level: float, away: BoolArray) -> dict[str, float | None]:
        needs = required.any(axis=1)
        wrong = ~needs & ~right
        return {
            "level": level,
            "rate": float(away.mean()) if away.size else None,
            "false_abstention": float(away[needs].mean()) if needs.any() else None,
            "misrouted_caught": float(away[wrong].mean()) if wrong.any() else None,
            "exact_answered": float(right[~away].mean()) if (~away).any() else None,
        }

    return {
        **at(router.calibration.abstain_below, (confidence < router.calibration.abstain_below) | strangers),
        "strangers": at(0.0, strangers),
        "at": [{"alpha": alpha, **at(level, confidence < level)} for alpha, level in sorted(levels.items())],
    }


# --------------------------------------------------------------------------------------------------------- robustness


#: Old turns that have nothing to do with the query; measured in pools of conversations.
STRANGE_TURNS = "strange_turns"


def perturbed(router: Router, texts: Sequence[str], *, seed: int = 0) -> dict[str, BoolArray]:
    """The sets that are selected for the first PERTURBED texts, as they are ("clean") and under each perturbation: bool[N, A] each;
    nothing without a text."""
    texts = list(texts[:PERTURBED])
    if not texts:
        return {}
    answers = {"clean": router.selections(texts)}
    for name, change in PERTURBATIONS.items():
        rng = random.Random(seed)  # noqa: S311 - a typo needs no secret
        answers[name] = router.selections([text_of(change(str(text), rng), before(text)) for text in texts])
    if any(before(text) for text in texts):
        answers[STRANGE_TURNS] = router.selections(with_strange_turns(texts, seed))
    return answers


def robustness(answers: Mapping[str, BoolArray]) -> dict[str, float]:
    """The share of answers that change under each perturbation; `answers` are those of `perturbed`."""
    return {name: metrics.flip_rate(answers["clean"], sets) for name, sets in answers.items() if name != "clean"}


def robustness_jaccard(answers: Mapping[str, BoolArray], required: BoolArray) -> dict[str, float]:
    """The mean Jaccard of texts as they are ("clean") and under each perturbation: an answer that flips may have been wrong before.
    `answers` are those of `perturbed` for texts that need these agents, bool[N, A]."""
    some = required[:PERTURBED]
    return {name: float(metrics.per_query(sets, some)["jaccard"].mean()) for name, sets in answers.items()}


def with_strange_turns(texts: Sequence[str], seed: int) -> list[str]:
    """Each query with the first exchange of another conversation as the oldest of what was said before it."""
    rng = random.Random(seed)  # noqa: S311 - as above
    exchanges = [before(text)[:2] for text in texts if len(before(text)) >= 2]
    strange = []
    for text in texts:
        others = [e for e in (rng.choice(exchanges) for _ in range(5)) if e != before(text)[:2]] if exchanges else []
        strange.append(text_of(str(text), [*others[0], *before(text)]) if others else text)
    return strange


# ------------------------------------------------------------------------------------------------------------- errors


def errors(learnt_from: Sequence[Example], wrong: Sequence[Wrong]) -> list[dict[str, Any]]:
    """The wrong answers as pages show them, the first MAX_ERRORS, each with its nearest among the queries of other groups that were
    learnt from: what was learnt looks like what.

    Near means many words in common, each weighted by how few of these queries hold it.
    """
    words = [frozenset(RUN.findall(e.text.lower())) for e in learnt_from] if wrong else []
    holding: dict[str, list[int]] = {}
    for i, words_of in enumerate(words):
        for word in words_of:
            holding.setdefault(word, []).append(i)
    most = max(20, len(learnt_from) // 10)
    index = {word: np.array(holders) for word, holders in holding.items() if len(holders) <= most}
    listed = []
    for example, required, selected in wrong[:MAX_ERRORS]:
        mine = frozenset(RUN.findall(example.text.lower()))
        # A set has another order in another process, and a sum another last digit.
        lists = [index[word] for word in sorted(mine) if word in index]
        holders, place = np.unique(np.concatenate([*lists, np.zeros(0, np.int64)]), return_inverse=True)
        score = np.bincount(place, np.repeat([1 / len(rows) for rows in lists], [len(rows) for rows in lists]))
        ranked = map(int, holders[np.argsort(-score, kind="stable")])
        near = list(islice((j for j in ranked if learnt_from[j].fold_key != example.fold_key), NEIGHBOURS))
        listed.append(
            {
                "id": example.id,
                "text": str(example.text),
                **({"messages": earlier_as_json(example.text)} if before(example.text) else {}),
                "required": sorted(required),
                "selected": sorted(selected),
                "nearest": [
                    {
                        "id": learnt_from[j].id,
                        "text": learnt_from[j].text,
                        "required": sorted(learnt_from[j].required),
                        "words_in_common": len(mine & words[j]),
                    }
                    for j in near
                ],
            }
        )
    return listed


def errors_of_folds(examples: Sequence[Example], answers: Mapping[str, Sequence[Sequence[int]]]) -> dict[str, Any]:
    """{"errors", "error_count", "alike", "spoken"} of all queries that `folds.cross_validated` judged, the worst first. Pages show its
    figures and not those of the few test queries, so the mistakes that they list are these too."""
    wrong: list[Wrong] = []
    for example in examples:
        required, selected = map(frozenset, answers.get(key_of(example), ((), ())))
        if required != selected:
            wrong.append((example, required, selected))
    wrong.sort(key=lambda row: len(set(row[1]) & set(row[2])) / len({*row[1], *row[2]}))
    judged = [example for example in examples if key_of(example) in answers]
    mistakes = {"errors": errors(examples, wrong), "error_count": len(wrong)}
    return {**mistakes, "alike": alike.figures(judged, examples), "spoken": spoken(judged)}


def spoken(tested: Sequence[Example]) -> dict[str, Any]:
    """In which languages the tested queries, or a sample of them, are, as far as that can be told: {"queries", "languages": {code:
    queries}}."""
    some = tested[:: max(1, ceil(len(tested) / alike.TESTED))]
    return {"queries": len(some), "languages": counted(transcript(example.text) for example in some)}
