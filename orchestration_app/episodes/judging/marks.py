"""Episodes' answers marked by the installation's LLM, and how far its marks agree with what people say of the same episodes."""

import hashlib
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from django.db.models import Case, IntegerField, Q, QuerySet, When
from django.utils import timezone

from agents_app import llm
from agents_app.models import Pool
from orchestration_app.engine.orchestrating import judges
from orchestration_app.episodes import episodes
from orchestration_app.episodes.judging import judge
from orchestration_app.models import ANSWERED, Episode, EpisodeLearning, EpisodeMark, Step
from training_app.engine.data import metrics, shares
from training_app.engine.llm import CallLimits, FailuresInARow, LLMError

#: From this mark on an answer counts as right.
ENOUGH = 0.5
#: The newest marks that an agreement reads.
MOST = 5_000
#: What a model's judgement counts while nobody compared it with people's, and at least.
UNCOMPARED = 0.5
#: Below so many episodes that both judged an agreement says little.
FEWEST = 30


@dataclass(frozen=True, slots=True)
class Marked:
    """How many episodes were marked, how many of them well; of how many the model gave no mark; and how many nobody had judged, for
    which the mark counts."""

    episodes: int = 0
    good: int = 0
    unmarked: int = 0
    counted: int = 0


def mark(
    pool: Pool, limit: int, rubric: str = judges.RUBRIC, chosen: Sequence[Episode] | None = None
) -> Marked:  # fmt: skip
    """Have episodes marked, the `chosen` ones or else the newest answered ones that this model has not marked by this rubric, at most
    so many: first those that people judged, so that its marks can be compared with theirs. Where nobody has judged, the mark is what
    counts until somebody does.

    Raises llm.LLMError where the server is not there.
    """
    connection = llm.connection()
    named, rubric_digest = connection.model[:200], hashlib.sha256(rubric.encode()).hexdigest()
    marks = EpisodeMark.objects.filter(judge=named, rubric=rubric_digest)
    by_people = Case(When(judge=Episode.Judge.PERSON, then=0), default=1, output_field=IntegerField())
    waiting = Episode.objects.filter(pool=pool, status__in=ANSWERED).exclude(pk__in=marks.values("episode"))
    cache = dict(marks.filter(episode__pool=pool).values_list("digest", "mark"))
    done = good = counted = 0
    failures = FailuresInARow()
    with llm.client(connection, limits=CallLimits(tries=3)) as client:
        marker = judges.LanguageModelJudge(client, rubric, cache)
        for episode in chosen if chosen is not None else list(waiting.order_by(by_people, "-created_at")[:limit]):
            try:
                score = marker.mark(episode.task, episode.answer)
            except LLMError as error:
                marker.unmarked += 1
                failures.add(error)
                continue
            failures.clear()
            if score is None:
                continue
            digest = marker.key(episode.task, episode.answer)
            EpisodeMark.objects.get_or_create(
                episode=episode, judge=named, rubric=rubric_digest, defaults={"digest": digest, "mark": score}
            )
            if not Episode.objects.filter(pk=episode.pk).exclude(judge="").exists():
                well, by = score >= ENOUGH, Episode.Judge.LANGUAGE_MODEL
                episodes.judge(episode, success=well, rating=score, judge=by)
                counted += 1
            done, good = done + 1, good + (score >= ENOUGH)
    return Marked(done, good, marker.unmarked, counted)


def weight(episodes: "QuerySet[Episode]") -> float:
    """What a language model's judgement of these episodes counts beside a person's: how far the share in which the two agree is above
    chance, UNCOMPARED where fewer than FEWEST were judged by both."""
    compared = agreement(episodes)
    if not compared or compared[0].few:
        return UNCOMPARED
    return judges.worth(compared[0].share["mean"])


def turn() -> int:
    """By the clock: in every pool with a budget for it, have ended episodes marked, and then calls of backends judged. How many."""
    if llm.in_use() is None:
        return 0
    done = 0
    for row in EpisodeLearning.objects.filter(judge_a_day__gt=0, pool__in=Pool.objects.in_use()).select_related("pool"):
        today = timezone.now().date()
        remaining = row.judge_a_day - (row.judged if row.judged_on == today else 0)
        if remaining <= 0:
            continue
        # Set aside first: what is asked before the server is gone was paid for.
        EpisodeLearning.objects.filter(pk=row.pk).update(judged_on=today, judged=row.judge_a_day)
        marked = mark(row.pool, remaining, chosen=chosen(row.pool, remaining))
        spent = marked.episodes + marked.unmarked
        if spent < remaining:
            calls = judge.calls(row.pool, remaining - spent)
            spent += calls.calls + calls.failed
        EpisodeLearning.objects.filter(pk=row.pk).update(judged=row.judge_a_day - remaining + spent)
        done += spent
    return done


def chosen(pool: Pool, limit: int) -> list[Episode]:
    """Answered episodes of the last day that this model has not marked: half of `limit` at random, half of those whose policy was
    least sure of a step."""
    marks = EpisodeMark.objects.filter(judge=llm.connection().model[:200])
    since = timezone.now() - timedelta(days=1)
    newest = Episode.objects.filter(pool=pool, status__in=ANSWERED, created_at__gte=since)
    keys = list(
        newest.exclude(pk__in=marks.values("episode")).order_by("-created_at").values_list("pk", flat=True)[:MOST]
    )
    random.shuffle(keys)
    drawn, others = keys[: -(-limit // 2)], keys[-(-limit // 2) :]
    sure = dict.fromkeys(others, 1.0)
    for key, probabilities in Step.objects.filter(episode__in=others).values_list("episode_id", "probabilities"):
        sure[key] = min(sure[key], max(probabilities, default=1.0))
    unsure = sorted(others, key=sure.__getitem__)[: limit // 2]
    return list(Episode.objects.filter(pk__in=[*drawn, *unsure]))


@dataclass(frozen=True, slots=True)
class Agreement:
    """A language model's marks beside people's judgements of the same `count` episodes, by one rubric (the start of its digest).

    `share` is in how many both say right or both say wrong, with its 95 % interval, `kappa` the same beyond chance, `apart` the mean
    distance of mark and rating with its interval; the four counts say how they differ.
    """

    judge: str
    rubric: str
    count: int
    share: dict[str, float]
    kappa: float
    apart: dict[str, float]
    both_right: int
    both_wrong: int
    only_judge: int
    only_people: int

    @property
    def differ(self) -> int:
        """On how many of them the two differ."""
        return self.only_judge + self.only_people

    @property
    def few(self) -> bool:
        """Whether too few episodes have both to rely on it."""
        return self.count < FEWEST


def agreement(episodes: "QuerySet[Episode]") -> list[Agreement]:
    """For each model and rubric that marked any of these episodes that a person judged, the most compared first."""
    judged = Episode.objects.filter(Q(success__isnull=False) | Q(rating__isnull=False), judge=Episode.Judge.PERSON)
    marks = EpisodeMark.objects.filter(episode__in=episodes.order_by().values("pk")).filter(
        episode__in=judged.values("pk")
    )
    by_judge: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in marks.select_related("episode").order_by("-pk")[:MOST]:
        by_judge[row.judge, row.rubric].append((row.mark, row.episode.score))
    agreements = [_agreement(judge, rubric[:8], pairs) for (judge, rubric), pairs in by_judge.items()]
    return sorted(agreements, key=lambda agreement_: -agreement_.count)


def _agreement(judge: str, rubric: str, pairs: list[tuple[float, float]]) -> Agreement:
    ours, theirs = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    right, people_right = ours >= ENOUGH, theirs >= ENOUGH
    same = int((right == people_right).sum())
    return Agreement(
        judge, rubric, len(pairs), shares.wilson(same, len(pairs)), judges.agreement(ours.tolist(), theirs.tolist(), ENOUGH)["kappa"],
        metrics.interval(np.abs(ours - theirs), "jaccard"), int((right & people_right).sum()), int((~right & ~people_right).sum()),
        int((right & ~people_right).sum()), int((~right & people_right).sum()),
    )  # fmt: skip
