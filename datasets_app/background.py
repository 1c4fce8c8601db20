"""What this package leaves to the workers: its kinds of job, its small pieces of work, and what it does by the clock."""

from collections.abc import Sequence

from agents_app.background_work.jobs import JobKind
from agents_app.background_work.work import Work, by_the_clock
from datasets_app import labeling_tasks, tasks
from datasets_app.files import imports
from datasets_app.models import Import, PrelabelJob, WritingJob
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import writing
from datasets_app.traces import names
from datasets_app.traces import storing as traces

HOUR, DAY = 60, 24 * 60


def kinds() -> Sequence[JobKind]:
    """For the hook `job_kinds`."""
    return (
        JobKind("import", Import, "datasets_app.tasks.read_upload", imports.interrupted),
        JobKind("prelabel", PrelabelJob, "datasets_app.labeling_tasks.prelabel", prelabel.interrupted),
        JobKind("writing", WritingJob, "datasets_app.labeling_tasks.write_queries", writing.interrupted),
    )


def work() -> Sequence[Work]:
    """For the hook `background_work`."""
    return (
        Work("bulk_change", labeling_tasks.bulk_change),
        Work("fill_reask", labeling_tasks.fill_reask),
        Work("recompose_pool", tasks.recompose_pool),
        Work(traces.WORK, traces.work_of, kept=False),
        Work(names.WORK, names.work_of, kept=False),
        by_the_clock(
            "datasets_app.labeling.filling.fill_all", "Put new queries into the labeling queues", 1,
            name="datasets_app.labels.filling.fill_all",
        ),
        by_the_clock(
            "datasets_app.labeling.filling.fill_all_again", "Look for queries that no queue holds", HOUR,
            name="datasets_app.labels.filling.fill_all_again",
        ),
        by_the_clock("datasets_app.traces.storing.put_all_together", "Put the spans of traces together", 1),
        by_the_clock("datasets_app.traces.storing.prune", "Delete old traffic", DAY),
        by_the_clock("datasets_app.figures.counting.count_all", "Count the queries of large pools", 1),
        by_the_clock("datasets_app.files.imports.forget_unchosen", "Drop files that nobody went on with", DAY),
    )  # fmt: skip
