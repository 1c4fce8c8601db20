"""What this package leaves to the workers: its kinds of job, and what it does by the clock."""

from collections.abc import Sequence

from django.utils.translation import gettext_lazy as _

from agents_app.background_work.jobs import JobKind
from agents_app.background_work.work import Running, Work, by_the_clock
from training_app.models import Run
from training_app.training import runs

HOUR, DAY = 60, 24 * 60
OLD_DECISIONS_STAY = _(
    "Old decisions stay in the database until this works. If the error names the archive (DECISION_ARCHIVE), give the workers the "
    "right to write there, free space, and a connection to it."
)


def kinds() -> Sequence[JobKind]:
    """For the hook `job_kinds`."""
    return (
        JobKind(
            "run", Run, "training_app.training.tasks.execute", runs.interrupted, runs.QUEUE, runs.DELIVER_AGAIN_SECONDS
        ),
    )


def _look_for_proposals(running: Running) -> int:
    from training_app.watching import proposals  # by the worker that does it

    return proposals.look_job(running)


def work() -> Sequence[Work]:
    """For the hook `background_work`."""
    return (
        by_the_clock("training_app.answering.decisions.prune", "Delete old decisions", DAY, OLD_DECISIONS_STAY),
        by_the_clock("training_app.answering.shadowing.prune", "Delete old shadow scores", DAY),
        by_the_clock("training_app.rollout.traffic_hours.count_all", "Count the hours of traffic that are over", 10),
        by_the_clock("training_app.rollout.outcomes.offer_failures", "Send reported failures to labeling", 1),
        by_the_clock("training_app.rollout.outcomes.offer_unsure", "Send unsure decisions to labeling", HOUR),
        by_the_clock("training_app.answering.suggesting.suggest_all", "Suggestions of the active models", 1),
        by_the_clock("training_app.watching.drift.look_all", "Look for drift", HOUR),
        by_the_clock("training_app.watching.promise_alarms.look_all", "Compare promised and delivered quality", HOUR),
        by_the_clock("training_app.watching.unsure_decisions.tell_all", "Send unsure decisions to webhooks", 1),
        by_the_clock("training_app.watching.proposals.look_all", "Propose agents", 7 * DAY),
        Work("proposals", _look_for_proposals),
        by_the_clock("training_app.versions.standings.measure_all", "Measure models on the same queries", 10),
        by_the_clock("training_app.versions.keeping.look", "Prune the artifacts of old models", DAY),
        by_the_clock("training_app.training.rules.evaluate", "Launch runs by rule", 1),
    )
