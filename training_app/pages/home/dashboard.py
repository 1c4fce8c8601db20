"""What the home page shows ops and their managers: traffic, latency, agents chosen, quality, queue and processes of one pool.

Figures of single answers come from at most SAMPLED of each hour, the newest, weighed by how many that hour had: the page costs as much
for a million answers as for ten thousand. Up to FEW answers are read all, at once.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app.models import Agent, Pool
from training_app.models import Decision, LiveSettings, RouterModel, Run
from training_app.rollout import traffic_hours
from training_app.watching import watch

#: Hours that are shown → hours in one column.
PERIODS = {24: 1, 168: 6}
SAMPLED = 200
FEW = 1_000
#: The newest SAMPLED answers between two times, of the column of that number.
SAMPLE = f"""SELECT * FROM (
SELECT %s AS place, microseconds, agents FROM {Decision._meta.db_table} WHERE pool_id = %s AND at >= %s AND at < %s
ORDER BY at DESC LIMIT {SAMPLED}) AS newest"""  # noqa: S608 - our own names
#: Answers below which no time is given: half or 95 in 100 of a handful says nothing.
LEAST_TIMED = 20
OUTCOMES = timedelta(days=7)
BARS = 10


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the charts: its beginning, how many answers it had, and what a sample of them says."""

    start: datetime
    count: int
    microseconds: Sequence[int]
    agents: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Traffic:
    """A pool's answers in `hours`; times in milliseconds, None where there was no answer. `before` counts the period before, `none`
    answers that named no agent, `unsure` those whose set was likelier wrong than right, `asked` those with a question, None
    in a pool that asks none."""

    hours: int
    count: int
    before: int
    abstained: int
    none: int
    unsure: int
    asked: int | None
    p50: float | None
    p95: float | None
    per_answer: float | None
    agents: list[tuple[Agent, float]]
    volume: dict[str, Any] | None
    latency: dict[str, Any] | None

    @property
    def change(self) -> float | None:
        """How much more than in the period before, as a share; None where that had hardly any."""
        return self.count / self.before - 1 if self.before >= 20 else None

    @property
    def change_size(self) -> float:
        return abs(self.change or 0.0)

    @property
    def naming_none(self) -> float:
        return self.none / self.count if self.count else 0.0

    @property
    def doubting(self) -> float:
        return self.unsure / self.count if self.count else 0.0

    @property
    def asking(self) -> float:
        return (self.asked or 0) / self.count if self.count else 0.0

    @property
    def abstaining(self) -> float:
        return self.abstained / self.count if self.count else 0.0


def traffic(
    pool: Pool,
    hours: int = 24,
    counted: Sequence[traffic_hours.Hour] | None = None,
    roster: Sequence[Agent] | None = None,
) -> Traffic:
    """A pool's answers in the last so many hours; `hours` is one of PERIODS. `counted`: its hours of twice that time or more, and
    `roster`: all its agents, where somebody has read them already."""
    step = timedelta(hours=PERIODS[hours])
    end = traffic_hours.beginning(timezone.now()) + traffic_hours.HOUR
    starts = [end - step * i for i in range(hours // PERIODS[hours], 0, -1)]
    begin = starts[0]
    both = _since(pool, begin - timedelta(hours=hours), counted)
    recent = [row for row in both if row.hour >= begin]
    count = sum(row.answers for row in recent)
    asks = LiveSettings.objects.filter(pool=pool, ask_cost__isnull=False).exists()
    questions = Decision.objects.filter(pool=pool, at__gte=begin, detail__has_key="ask").count() if asks else None
    columns = _few(pool, starts) if count <= FEW else _sampled(pool, starts, step, recent)
    values = np.array([m for column in columns for m in column.microseconds], float) / 1000
    weights = np.array([column.count / len(column.microseconds) for column in columns for _m in column.microseconds])
    chosen: Counter[int] = Counter()
    each = iter(weights.tolist())
    for column in columns:
        for agents in column.agents:
            weight = next(each)
            for agent in agents:
                chosen[agent] += weight
    total = float(weights.sum())
    by_number = {agent.number: agent for agent in (pool.agents.all() if roster is None else roster)}
    ranked = [(by_number[number], weight / total) for number, weight in chosen.most_common() if number in by_number]
    return Traffic(
        hours=hours,
        count=count,
        before=sum(row.answers for row in both) - count,
        abstained=sum(row.abstained for row in recent),
        none=sum(row.none for row in recent),
        unsure=sum(row.unsure for row in recent),
        asked=questions,
        p50=quantile(values, weights, 0.50) if count >= LEAST_TIMED else None,
        p95=quantile(values, weights, 0.95) if count >= LEAST_TIMED else None,
        per_answer=sum(chosen.values()) / total if total else None,
        agents=ranked[:BARS],
        volume=_volume(columns, hours) if count else None,
        latency=_latency(columns, hours) if count else None,
    )


def _few(pool: Pool, starts: Sequence[datetime]) -> list[Column]:
    """The columns of so few answers that one query reads them all."""
    rows: list[list[Any]] = [[] for _start in starts]
    decisions = Decision.objects.filter(pool=pool, at__gte=starts[0]).order_by()
    for at, *row in decisions.values_list("at", "microseconds", "agents"):
        rows[bisect_right(starts, at) - 1].append(row)
    return [
        Column(start, len(inside), [row[0] for row in inside], [row[1] for row in inside])
        for start, inside in zip(starts, rows, strict=True)
    ]


def _sampled(
    pool: Pool, starts: Sequence[datetime], step: timedelta, hours: Sequence[traffic_hours.Hour]
) -> list[Column]:
    """The columns with the newest SAMPLED answers of each, read in one statement: a part of it for each column."""
    when = connection.ops.adapt_datetimefield_value
    values = [value for n, start in enumerate(starts) for value in (n, pool.pk, when(start), when(start + step))]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([SAMPLE] * len(starts)), values)
        rows = cursor.fetchall()
    sets = {text: json.loads(text) for text in {text for _place, _microseconds, text in rows}}  # few differ
    inside: list[list[tuple[int, list[int]]]] = [[] for _start in starts]
    for place, microseconds, text in rows:
        inside[place].append((microseconds, sets[text]))
    counts = [0] * len(starts)
    for hour in hours:
        counts[bisect_right(starts, hour.hour) - 1] += hour.answers
    return [
        Column(
            start,
            count,
            [microseconds for microseconds, _agents in column],
            [agents for _microseconds, agents in column],
        )
        for start, count, column in zip(starts, counts, inside, strict=True)
    ]


def _since(pool: Pool, since: datetime, counted: Sequence[traffic_hours.Hour] | None) -> Sequence[traffic_hours.Hour]:
    return traffic_hours.hours(pool, since) if counted is None else traffic_hours.later(counted, since)


def quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float | None:
    """The value that `share` of the weight lies at or below; None of nothing."""
    if not values.size:
        return None
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    place = min(int(np.searchsorted(reached, share * reached[-1])), values.size - 1)
    return float(values[order][place])


def _volume(columns: Sequence[Column], hours: int) -> dict[str, Any]:
    data = [column.count for column in columns]
    return {"type": "bar", "labels": _labels(columns, hours), "datasets": [{"label": _("answers"), "data": data}]}


def _latency(columns: Sequence[Column], hours: int) -> dict[str, Any]:
    datasets = []
    for label, share in ((_("half are quicker"), 50), (_("95 in 100 are quicker"), 95)):
        data = [
            round(float(np.percentile(c.microseconds, share)) / 1000, 3) if c.microseconds else None for c in columns
        ]
        datasets.append({"label": label, "data": data, "pointRadius": 2})
    return {"labels": _labels(columns, hours), "datasets": datasets, "y": _("milliseconds")}


def _labels(columns: Sequence[Column], hours: int) -> list[str]:
    return [date_format(timezone.localtime(column.start), "H:i" if hours <= 24 else "D H:i") for column in columns]


def success(pool: Pool, counted: Sequence[traffic_hours.Hour] | None = None) -> tuple[int, float | None]:
    """(outcomes of the last week, the share of them that were a success); `counted` as for `traffic`."""
    hours = _since(pool, timezone.now() - OUTCOMES, counted)
    count = sum(row.outcomes for row in hours)
    return count, sum(row.successes for row in hours) / count if count else None


def work(coming: Sequence[Run], labeling: int) -> dict[str, Any]:
    """What waits to be done, and who is there to do it: the runs that are `coming`, the queries to label, the processes."""
    alive = Counter(sign.part for sign in watch.alive())
    return {
        "labeling": labeling,
        "queued": sum(run.status == Run.Status.QUEUED for run in coming),
        "running": sum(run.status == Run.Status.RUNNING for run in coming),
        "processes": [(label, alive[value]) for value, label in watch.parts()],
    }


def in_words(
    pool: Pool, model: RouterModel | None, figures: Traffic, outcomes: tuple[int, float | None], *, has_agents: bool
) -> str:
    """How the pool is doing, in the words that one would say to somebody who passes by. `has_agents`: some are active."""
    if model is None:
        text = _("%(pool)s has no model yet. Its agents' descriptions answer meanwhile.")
        return text % {"pool": pool.name} if has_agents else _("Nothing answers yet.")
    period = _("the last 24 hours") if figures.hours == 24 else _("the last seven days")
    if not figures.count:
        return _("%(model)s is ready, and got no requests in %(period)s.") % {"model": model.name, "period": period}
    words = ngettext(
        "%(pool)s answered %(count)s query in %(period)s, now by %(model)s.",
        "%(pool)s answered %(count)s queries in %(period)s, now by %(model)s.",
        figures.count,
    ) % {
        "pool": pool.name,
        "model": model.name,
        "count": number_format(figures.count, force_grouping=True),
        "period": period,
    }
    if figures.p95 is not None:
        words += " " + _("95 in 100 took less than %(ms)s ms.") % {"ms": _ms(figures.p95)}
    if figures.abstaining >= 0.005:
        words += " " + _("It abstained on %(share)s in 100.") % {"share": f"{100 * figures.abstaining:.0f}"}
    count, share = outcomes
    if share is not None:
        words += " " + _reported(count, share)
    return words


def _reported(count: int, share: float) -> str:
    """How the outcomes that applications reported in a week turned out, in a sentence."""
    if count == 1 and share:
        return _("The one outcome that applications reported in a week was a success.")
    if count == 1:
        return _("The one outcome that applications reported in a week was a failure.")
    return ngettext(
        "Of %(count)s outcome that applications reported in a week, %(share)s in 100 were a success.",
        "Of %(count)s outcomes that applications reported in a week, %(share)s in 100 were a success.",
        count,
    ) % {"count": number_format(count, force_grouping=True), "share": f"{100 * share:.0f}"}


def _ms(value: float) -> str:
    digits = 2 if value < 100 else 0
    return str(number_format(round(value, digits), digits))
