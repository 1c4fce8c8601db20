"""`python -m benchmarks.time_left [--pool SLUG]`: how far off the time left was that the page of a run showed.

Each finished run of the installation is walked through again: what the page would have said at its events is set against the time that
the run still took. Only runs that were launched earlier tell how long one takes. A phase that stopped early counts as if its last step
had been its total. The error is the factor between what was said and what came, in either direction, at a quarter, a half and three
quarters of the run.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")

import django

#: The shares of a run's time at which what was said is looked at.
AT = (0.25, 0.5, 0.75)
#: Seconds that are added to both sides of the factor: nobody minds three seconds instead of one.
SLACK = 5.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """At a share of a run's time: the seconds that the page said were left, and those that were."""

    run: int
    at: float
    said: float
    left: float

    @property
    def factor(self) -> float:
        """How many times too long or too short it was; 1 is exact."""
        said, left = self.said + SLACK, self.left + SLACK
        return max(said / left, left / said)


def of_run(key: int) -> list[Estimate]:
    """What the page would have said of a finished run at the event nearest before each share of AT."""
    from training_app.models import Run, RunEvent
    from training_app.training import stages

    run = Run.objects.select_related("snapshot", "pool").get(pk=key)
    assert run.started_at is not None
    assert run.finished_at is not None
    took = (run.finished_at - run.started_at).total_seconds()
    events = list(RunEvent.objects.filter(run=run, at__gte=run.started_at, at__lte=run.finished_at).exclude(phase=""))
    rows = []
    for share in AT:
        until = run.started_at + share * (run.finished_at - run.started_at)
        seen = [event for event in events if event.at <= until]
        run.phase, run.step = (seen[-1].phase, seen[-1].step) if seen else ("", 0)
        run.total = max((event.step for event in events if event.phase == run.phase), default=0)
        course = stages.course(run, until)
        if course is not None and course.left is not None:
            rows.append(Estimate(key, share, course.left.total_seconds(), (1 - share) * took))
    return rows


def of_runs(keys: Sequence[int]) -> list[Estimate]:
    """`of_run` of each."""
    return [one for key in keys for one in of_run(key)]


def lines(rows: Sequence[Estimate]) -> list[str]:
    """A table: at each share, the median factor, the ninth of ten, and the worst."""
    shown = [f"{'of the run':>10}  {'runs':>4}  {'median factor':>13}  {'9 of 10 within':>14}  {'worst':>6}"]
    for share in AT:
        factors = sorted(row.factor for row in rows if row.at == share)
        if factors:
            ninth = factors[min(len(factors) - 1, int(0.9 * len(factors)))]
            shown.append(
                f"{share:>10.0%}  {len(factors):>4}  {median(factors):>13.2f}  {ninth:>14.2f}  {factors[-1]:>6.2f}"
            )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.time_left", description=__doc__)
    parser.add_argument("--pool", default="", help="only runs of this pool")
    asked = parser.parse_args()
    django.setup()
    from training_app.models import Run

    done = Run.objects.filter(status=Run.Status.DONE, started_at__isnull=False, finished_at__isnull=False)
    if asked.pool:
        done = done.filter(pool__slug=asked.pool)
    keys = list(done.order_by("pk").values_list("pk", flat=True))
    print(f"{len(keys)} finished runs", *lines(of_runs(keys)), sep="\n")


if __name__ == "__main__":
    main()
