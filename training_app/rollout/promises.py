"""Promised against delivered: how a model's traffic differs from its labels, what to expect of it there, and what came of it.

A verdict is of labeled queries. Traffic may hold others, so an hourly look compares the two (`engine/judging/shift.py`) and widens the
range. What was delivered is known from answers that people check at random (`checks.py`) and from outcomes that applications report.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from agents_app.models import Pool
from datasets_app.labels import snapshots
from datasets_app.models import Snapshot
from training_app.answering import serving
from training_app.engine.data import intervals, shares
from training_app.engine.data.conversations import from_json
from training_app.engine.judging import sequential, shift
from training_app.engine.routing import holding
from training_app.models import (
    SET_ROUTER,
    CheckedAnswer,
    Decision,
    Interval,
    Outcome,
    Promotion,
    RouterModel,
    TrafficLook,
)
from training_app.rollout import traffic_hours
from training_app.versions import scorecards, verdict

#: The newest distinct texts that one look takes, and how old decisions may be; labels beyond which no more are read.
MOST, LABELED = 800, 2_000
WINDOW = timedelta(days=30)
#: Newest decisions whose outcomes count.
OUTCOMES = 5_000
#: A share of queries that differs by less is not named.
NAMED = 0.05
#: A range that is wider says nothing that anybody could go by.
VAGUE = 0.6
#: Outcomes are tested from the start of a period on, by so many days, each at a share of the level of its looks: a month shows a fall
#: of a pool with few outcomes; a day shows one that comes late in a month of many.
PERIODS = ((30, 1.0), (1, 0.004))
#: The first outcomes of a period that are tested.
TESTED = 8_000
#: A period that was broken is so only while all of its outcomes are as unlikely as this.
STILL = 0.05
#: What the first round of checked answers may have for chance, of 1; round k has a k (k + 1) / 2-th of it, 0.025 in all.
SURPRISING = 0.0125


@dataclass(frozen=True, slots=True)
class Figures:
    """What a look found: the engine's `Shift` in plain numbers, whether the texts are `live` ones or unlabeled queries, and the shares
    of them for which the model answers several agents and nobody."""

    live: bool
    labels: int
    texts: int
    auroc: dict[str, float]
    lengths: tuple[float, float]
    several: int
    nobody: int
    answers_several: float
    answers_nobody: float

    @property
    def shift(self) -> shift.Shift:
        """The engine's object."""
        auroc = intervals.Interval(self.auroc["mean"], self.auroc["low"], self.auroc["high"])
        return shift.Shift(self.labels, self.texts, auroc, self.lengths, self.several, self.nobody)

    def differences(self) -> list[str]:
        """What differs, in parts of a sentence, the largest first: (share in traffic against share in labels)."""
        result = []
        kinds = (
            (self.answers_several, self.several, _("several agents")),
            (self.answers_nobody, self.nobody, _("no agent")),
        )
        for live, labeled, what in sorted(kinds, key=lambda row: -abs(row[0] - row[1] / self.labels)):
            share = labeled / self.labels
            if abs(live - share) >= NAMED:
                more = _("more") if live > share else _("fewer")
                text = _("%(more)s queries for %(what)s (%(live)d %% against %(labels)d %%)")
                result.append(
                    text % {"more": more, "what": what, "live": round(100 * live), "labels": round(100 * share)}
                )
        ratio = self.lengths[1] / max(self.lengths[0], 1.0)
        if not 0.8 < ratio < 1.25:
            word = _("longer") if ratio > 1 else _("shorter")
            places = {"word": word, "live": round(self.lengths[1]), "labels": round(self.lengths[0])}
            result.append(_("%(word)s texts (%(live)d characters in the middle against %(labels)d)") % places)
        return result


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised of the active model: of labels, `labeled`; of traffic, `expected`, the same where the two are alike; and in one
    sentence what differs, "" where nothing does. `queries` are those that were checked."""

    model: RouterModel
    queries: int
    labeled: Interval
    expected: Interval
    sentence: str
    warned: bool

    @property
    def spread(self) -> float:
        """The standard error of what is promised of labels, from the width of its range."""
        return (self.labeled.high - self.labeled.low) / (2 * shares.Z)


def promise(model: RouterModel, judgement: verdict.Verdict | None = None) -> Promise | None:
    """What is promised of a model; None where too few answers were checked to promise anything. `judgement`: its verdict, where
    somebody has read that already."""
    judgement = judgement or verdict.of(model)
    if judgement is None or judgement.right is None:
        return None
    look = TrafficLook.objects.filter(model=model).first()
    if look is None:
        return Promise(model, judgement.queries, judgement.right, judgement.right, "", False)
    figures = Figures(**look.figures)
    expected = figures.shift.expected(
        intervals.Interval(judgement.right.mean, judgement.right.low, judgement.right.high)
    )
    range_ = Interval(expected.mean, expected.low, expected.high, expected.low)
    warned = figures.shift.differs or figures.shift.lacking
    return Promise(model, judgement.queries, judgement.right, range_, _sentence(figures, range_), warned)


def _sentence(figures: Figures, expected: Interval) -> str:
    """What differs, and what that does to the promise."""
    whom = _("Your traffic has") if figures.live else _("Your unlabeled queries have")
    places = {**verdict.of_100(expected), "whom": whom}
    missing = [
        word for count, word in ((figures.several, _("several agents")), (figures.nobody, _("no agent"))) if not count
    ]
    parts = []
    if missing:
        text = _("None of your %(labels)d labels needs %(missing)s, so nothing is known of such queries.")
        parts.append(text % {"labels": figures.labels, "missing": _(" and none needs ").join(missing)})
    if figures.shift.differs:
        what = figures.differences()
        if what:
            text = _("%(whom)s %(what)s than your labels.")
            parts.append(text % {**places, "what": _(" and ").join(what[:2])})
        else:
            parts.append(_("%(whom)s other words than your labels.") % places)
    if parts and expected.high - expected.low > VAGUE:
        parts.append(_("So the true share may be lower or higher: check 30 answers."))
    elif parts:
        parts.append(_("Expect %(low)d to %(high)d of 100 right.") % places)
    return " ".join(parts)


def look(model: RouterModel) -> TrafficLook | None:
    """Compare the model's traffic, or where it has too little the pool's unlabeled queries, with its labels, and keep what was found;
    None where either has too few texts."""
    snapshot = (
        model.run.snapshot if model.run else Snapshot.objects.filter(pool=model.pool_id).order_by("-number").first()
    )
    if snapshot is None:
        return None
    labeled = list(snapshots.examples(snapshot))[:LABELED]
    texts, live = _traffic(model), True
    if len(texts) < shift.LEAST:
        texts, live = list(dict.fromkeys(snapshots.unlabeled(model.pool, timezone.now(), MOST))), False
    comparison = shift.compare([e.text for e in labeled], [len(e.required) for e in labeled], texts, seed=model.pk)
    if comparison is None:
        return None
    sizes = [len(route.agents) for route in holding.routes(serving.router_of(model), texts)]
    figures = {
        "live": live,
        "labels": comparison.labels,
        "texts": comparison.texts,
        "auroc": comparison.auroc.plain(),
        "lengths": list(comparison.lengths),
        "several": comparison.several,
        "nobody": comparison.nobody,
        "answers_several": sum(size > 1 for size in sizes) / len(sizes),
        "answers_nobody": sum(size == 0 for size in sizes) / len(sizes),
    }
    return TrafficLook.objects.update_or_create(model=model, defaults={"figures": figures})[0]


def _traffic(model: RouterModel) -> list[str]:
    """The newest distinct texts of the pool's decisions, whoever answered them."""
    newest = Decision.objects.filter(pool=model.pool_id, at__gte=timezone.now() - WINDOW).order_by("-at")
    rows = newest.values_list("text", "messages")[: 4 * MOST]
    return list(dict.fromkeys(from_json(*row) for row in rows))[:MOST]


# ------------------------------------------------------------------------------------------------------- what was delivered


@dataclass(frozen=True, slots=True)
class Delivered:
    """What came of a model's answers: `good` of `count`, as a share with its range."""

    good: int
    count: int

    @property
    def share(self) -> Interval:
        """The share with its 95 % interval."""
        return Interval.of(shares.wilson(self.good, self.count))

    def words(self) -> str:
        """ "24 of 30: about 80 of 100 (63 to 90)"."""
        return _("%(good)d of %(count)d: about %(n)d of 100 (%(low)d to %(high)d)") % {
            "good": self.good, "count": self.count, **verdict.of_100(self.share),
        }  # fmt: skip


def checked(model: RouterModel, round_: int | None = None) -> Delivered:
    """Of a model's answers that were drawn at random and checked, all or those of one round, how many were right."""
    done = CheckedAnswer.objects.filter(model=model).done()
    rows = (done if round_ is None else done.filter(round=round_)).values_list("answered", "required")
    right = [set(answered) == set(required or ()) for answered, required in rows]
    return Delivered(sum(right), len(right))


def reported(model: RouterModel) -> Delivered:
    """Of a model's newest decisions with an outcome, how many were a success."""
    made = Decision.objects.filter(model=model).order_by("-at").values("pk")[:OUTCOMES]
    counts = Outcome.objects.filter(pool=model.pool_id, decision_id__in=made).aggregate(
        count=Count("pk"), good=Count("pk", filter=Q(success=True))
    )
    return Delivered(counts["good"], counts["count"])


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that what was delivered does not keep, in a sentence, with the evidence for an alarm."""

    sentence: str
    evidence: list[list[str]]


def broken(model: RouterModel) -> Broken | None:
    """Whether checked answers or reported outcomes show that what the verdict says is not kept; None where nothing shows it."""
    kept = promise(model)
    if kept is None:
        return None
    figures = {_("Checked answers"): checked(model), _("Reported outcomes"): reported(model)}
    shown, words = (
        _falls_short(kept),
        _("Of %(count)d outcomes that applications reported, about %(n)d of 100 were a success (%(low)d to %(high)d)."),
    )
    if (rounds := _surprising_round(kept)) is not None:
        shown, words = (
            rounds,
            _("Of %(count)d answers that people checked, about %(n)d of 100 were right (%(low)d to %(high)d)."),
        )
    if shown is None:
        return None
    promised = _("%(model)s promises about %(n)d of 100 right (%(low)d to %(high)d).")
    promised %= {"model": model.name, **verdict.of_100(kept.labeled)}
    sentence = f"{promised} {words % {'count': shown.count, **verdict.of_100(shown.share)}}"
    evidence = [[_("Promised"), _("%(n)d of 100 (%(low)d to %(high)d)") % verdict.of_100(kept.labeled)]]
    if kept.sentence:
        evidence.append([_("Why it may be"), kept.sentence])
    return Broken(sentence, evidence + [[what, figure.words()] for what, figure in figures.items() if figure.count])


def _falls_short(kept: Promise) -> Delivered | None:
    """The outcomes of the first period that shows the promise broken; None where none does.

    A period is the one that runs or, while that has too few outcomes to tell, the one before.
    """
    made = Decision.objects.filter(model=kept.model, pk=OuterRef("decision_id"))
    rows = (
        Outcome.objects.filter(Exists(made), pool=kept.model.pool_id)
        .order_by("at", "pk")
        .values_list("success", flat=True)
    )
    now, least = timezone.now(), sequential.FIRST_LOOKS[-1][0]
    for days, share in PERIODS:
        length = timedelta(days=days)
        began = now - (now - datetime.min.replace(tzinfo=UTC)) % length
        good = np.array(rows.filter(at__gte=began)[:TESTED], np.bool_)
        if len(good) < least and not sequential.broken(kept.labeled.mean, kept.spread, good, share):
            good = np.array(rows.filter(at__gte=began - length, at__lt=began)[:TESTED], np.bool_)
        seen = Delivered(int(good.sum()), len(good))
        if not sequential.broken(kept.labeled.mean, kept.spread, good, share):
            continue
        if sequential.surprise(kept.labeled.mean, kept.spread, seen.good, seen.count) <= STILL:
            return seen
    return None


def _surprising_round(kept: Promise) -> Delivered | None:
    """All that was checked up to the first finished round that is too far below the promise; None where there is none."""
    rows = list(
        CheckedAnswer.objects.filter(model=kept.model).order_by("round").values_list("round", "answered", "required")
    )
    for place, number in enumerate(sorted({row[0] for row in rows}), start=1):
        until = [row for row in rows if row[0] <= number]
        if any(required is None for _round, _answered, required in until):
            return None
        good = sum(set(answered) == set(required or ()) for _round, answered, required in until)
        level = SURPRISING * 2 / (place * (place + 1))
        if sequential.surprise(kept.labeled.mean, kept.spread, good, len(until)) <= level:
            return Delivered(good, len(until))
    return None


# ------------------------------------------------------------------------------------------------------- week by week

WEEKS = 12


@dataclass(frozen=True, slots=True)
class Week:
    """One week of a pool: what its model then promised of 100, what people checked and applications reported; None without any."""

    monday: Any
    promised: int | None
    checked: Delivered | None
    reported: Delivered | None


def _mondays() -> list[datetime]:
    """When each of the last WEEKS weeks began, oldest first."""
    today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    monday = today - timedelta(days=today.weekday())
    return [monday - timedelta(weeks=n) for n in range(WEEKS - 1, -1, -1)]


def hours_of_weeks(pool: Pool) -> list[traffic_hours.Hour]:
    """The hours that `weeks` draws."""
    return traffic_hours.hours(pool, _mondays()[0])


def weeks(
    pool: Pool, hours: Sequence[traffic_hours.Hour] | None = None, known: Mapping[int, Promise | None] | None = None
) -> list[Week]:
    """The last WEEKS weeks, oldest first, from the first one that has anything. `hours` are those of `hours_of_weeks`, and `known` the
    promises by the model's key, where somebody has read them already."""
    starts = _mondays()
    promotions = list(
        Promotion.objects.filter(pool=pool, model_kind=SET_ROUTER).order_by("at").select_related("model__pool")
    )
    promises = dict(known or {})
    rows = CheckedAnswer.objects.filter(pool=pool, decided_at__gte=starts[0]).done()
    answers = list(rows.values_list("decided_at", "answered", "required"))
    hours = hours_of_weeks(pool) if hours is None else hours
    sums = [[0, 0] for _start in starts]
    for hour in hours:
        if hour.outcomes and (place := bisect_right(starts, hour.hour)):
            sums[place - 1][0] += hour.outcomes
            sums[place - 1][1] += hour.successes
    result = []
    for start, (count, good) in zip(starts, sums, strict=True):
        end = start + timedelta(weeks=1)
        model = next((promotion.model for promotion in reversed(promotions) if promotion.at < end), None)
        if model is not None and model.pk not in promises:
            promises[model.pk] = promise(model)
        kept = promises[model.pk] if model is not None else None
        here = [set(answered) == set(needed or ()) for at, answered, needed in answers if start <= at < end]
        result.append(
            Week(
                start.date(),
                scorecards.of_100(kept.labeled.mean) if kept else None,
                Delivered(sum(here), len(here)) if here else None,
                Delivered(good, count) if count else None,
            )
        )
    first = next(
        (place for place, week in enumerate(result) if week.promised or week.checked or week.reported), len(result)
    )
    return result[first:]


def chart(weeks_shown: list[Week]) -> dict[str, Any] | None:
    """The weeks for the tag `chart`, in right answers of 100; None before anything was checked or reported."""
    if not any(week.checked or week.reported for week in weeks_shown):
        return None

    def shares_of(rows: list[Delivered | None]) -> list[int | None]:
        return [scorecards.of_100(row.share.mean) if row else None for row in rows]

    return {
        "labels": [date_format(week.monday, "j M") for week in weeks_shown],
        "datasets": [
            {"label": _("promised"), "data": [week.promised for week in weeks_shown], "pointRadius": 3},
            {
                "label": _("checked by people"),
                "data": shares_of([week.checked for week in weeks_shown]),
                "pointRadius": 4,
            },
            {
                "label": _("success reported"),
                "data": shares_of([week.reported for week in weeks_shown]),
                "pointRadius": 3,
            },
        ],
        "x": _("week from"),
        "y": _("of 100"),
    }
