"""What `tests.chaos.work` does for the test of every kind of job: how each is begun, seen to be under way and ended, and checked."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.chaos.work import BATCH, BIG, CALLS, EPISODES, OLD, SMALL, addresses, call, somebody, the_pool

__all__ = ["CALLS"]


@dataclass(frozen=True)
class Kind:
    """How tests begin a job, see that it is under way, see that it has ended, and what they find wrong with it then."""

    begin: Callable[[str], Any]
    under_way: Callable[[Any], bool]
    ended: Callable[[Any], bool]
    faults: Callable[[Any], list[str]]


KINDS: dict[str, Kind] = {}


@call
def begin(kind: str, name: str) -> Any:
    """Begin a job of that kind; what names it."""
    return KINDS[kind].begin(name)


@call
def under_way(kind: str, key: Any) -> bool:
    """Whether it has begun, and is not at its end yet."""
    return bool(KINDS[kind].under_way(key))


@call
def ended(kind: str, key: Any) -> bool:
    """Whether it has ended."""
    return bool(KINDS[kind].ended(key))


@call
def faults(kind: str, key: Any) -> list[str]:
    """What was lost, done twice, or went wrong."""
    return KINDS[kind].faults(key)


def _status(model: Any, key: Any) -> str:
    return str(model.objects.values_list("status", flat=True).get(pk=key))


OVER = ("done", "failed", "cancelled")


def _begin_run(_name: str) -> list[int]:
    from training_app.training import runs

    return [runs.launch(the_pool("shop"), config=SMALL | {"seed": 7}).pk]


def _begin_sweep(_name: str) -> list[int]:
    from training_app.training import sweeps

    sweep = sweeps.launch(the_pool("shop"), base=SMALL, space={"learning_rate": [0.001, 0.002]})
    return list(sweep.runs.values_list("pk", flat=True))


def _run_under_way(keys: list[int]) -> bool:
    from training_app.models import Run

    return bool(Run.objects.filter(pk__in=keys, status="running").exclude(phase="").exists())


def _runs_ended(keys: list[int]) -> bool:
    from training_app.models import Run

    return not Run.objects.filter(pk__in=keys).exclude(status__in=OVER).exists()


def _run_faults(keys: list[int]) -> list[str]:
    from training_app.models import RouterModel, Run

    wrong = [
        f"run {run.pk} {run.status}: {run.error}" for run in Run.objects.filter(pk__in=keys).exclude(status="done")
    ]
    for key in keys:
        made = RouterModel.objects.filter(run=key).count()
        if made != 1:
            wrong.append(f"run {key} made {made} models")
    return wrong


KINDS["training"] = Kind(_begin_run, _run_under_way, _runs_ended, _run_faults)
KINDS["sweep"] = Kind(_begin_sweep, _run_under_way, _runs_ended, _run_faults)

ROWS = 4_000


def _begin_import(name: str) -> list[Any]:
    from django.core.files.uploadedfile import SimpleUploadedFile

    from datasets_app.files import uploads
    from datasets_app.queries import adding

    lines = (json.dumps({"text": f"{name} row {n}", "required_agents": [n % 5]}) for n in range(ROWS))
    file = SimpleUploadedFile(f"{name}.jsonl", "\n".join(lines).encode())
    return [uploads.receive(adding.dataset_of(the_pool("inbox"), "Inbox"), file, format="jsonl").pk, name]


def _import_faults(key: list[Any]) -> list[str]:
    from datasets_app.models import Import, Label, Query

    upload = Import.objects.get(pk=key[0])
    stored = Query.objects.filter(dataset__pool__slug="inbox", text__startswith=f"{key[1]} row ")
    told = Label.objects.filter(query__in=stored.values("pk"))
    wrong = [] if upload.status == "done" else [f"import {upload.status}: {upload.error}"]
    counts = (stored.count(), told.count(), upload.rows_read, upload.queries_added)
    return wrong if counts == (ROWS,) * 4 else [*wrong, f"of {ROWS} rows: {counts}"]


def _import_under_way(key: list[Any]) -> bool:
    from datasets_app.models import Import

    return bool(Import.objects.filter(pk=key[0], status="running", rows_read__gt=0).exists())


def _import_ended(key: list[Any]) -> bool:
    from datasets_app.models import Import

    return _status(Import, key[0]) in OVER


KINDS["import"] = Kind(_begin_import, _import_under_way, _import_ended, _import_faults)


def _begin_prelabeling(name: str) -> int:
    from datasets_app.models import Query
    from datasets_app.prelabeling import jobs as prelabel
    from datasets_app.queries import adding

    pool = the_pool("ask")
    texts = [adding.NewQuery(f"{name} question {n} for Billing") for n in range(BATCH)]
    found, _new = adding.find_or_add(adding.dataset_of(pool, "Questions"), texts, "chaos")
    chosen = Query.objects.filter(pk__in=[query.pk for query in found])
    job = prelabel.create(pool, chosen, base_url=addresses["llm"], model="m", concurrency=4)
    prelabel.enqueue(job)
    return int(job.pk)


def _prelabel_under_way(key: int) -> bool:
    from datasets_app.models import PrelabelJob

    return bool(PrelabelJob.objects.filter(pk=key, status="running", calls__gt=0).exists())


def _prelabel_ended(key: int) -> bool:
    from datasets_app.models import PrelabelJob

    return _status(PrelabelJob, key) in OVER


def _prelabel_faults(key: int) -> list[str]:
    from datasets_app.models import Label, PrelabelItem, PrelabelJob

    job = PrelabelJob.objects.get(pk=key)
    asked = PrelabelItem.objects.filter(job=job)
    answered = asked.filter(status__in=("answered", "cached")).count()
    told = Label.objects.filter(query__in=asked.values("query"), source="llm").count()
    wrong = [] if job.status == "done" else [f"pre-labeling {job.status}: {job.error}"]
    return wrong if (answered, told) == (BATCH, BATCH) else [*wrong, f"{answered} answers, {told} labels of {BATCH}"]


KINDS["pre-labeling"] = Kind(_begin_prelabeling, _prelabel_under_way, _prelabel_ended, _prelabel_faults)


def _begin_bulk(_name: str) -> int:
    from datasets_app.labeling import bulk, bulk_actions
    from datasets_app.models import Query

    pool = the_pool("big")
    billed, chosen = pool.agents.get(number=1), Query.objects.of(pool)
    action = bulk.ADD if bulk_actions.ACTIONS[bulk.ADD].affected(chosen, billed).exists() else bulk.REMOVE
    change = bulk.carry_out(bulk.start(pool, chosen, action, billed, author=somebody()))
    assert change.total == BIG
    assert change.finished_at is None, "a worker does it"
    return int(change.pk)


def _bulk_under_way(key: int) -> bool:
    from datasets_app.models import BulkChange

    return bool(BulkChange.objects.filter(pk=key, changed__gt=0, finished_at=None).exists())


def _bulk_ended(key: int) -> bool:
    from datasets_app.models import BulkChange

    return bool(BulkChange.objects.filter(pk=key, finished_at__isnull=False).exists()) and _work_ended("bulk_change")


def _bulk_faults(key: int) -> list[str]:
    from agents_app.models import BackgroundJob
    from datasets_app.models import BulkChange, BulkChangeEntry, Label

    change = BulkChange.objects.get(pk=key)
    made = Label.objects.filter(provenance__change=key, query__dataset__pool=change.pool)
    counts = (
        change.changed, made.count(), made.values("query").distinct().count(),
        BulkChangeEntry.objects.filter(change=change, before__isnull=False).count(),
    )  # fmt: skip
    wrong = [] if counts == (BIG,) * 4 else [f"of {BIG} queries: {counts}"]
    jobs = list(
        BackgroundJob.objects.filter(work="bulk_change", arguments__change=key).values_list("status", flat=True)
    )
    return wrong if jobs == ["done"] else [*wrong, f"jobs {jobs}"]


def _work_ended(name: str) -> bool:
    from agents_app.models import BackgroundJob

    return not BackgroundJob.objects.filter(work=name).exclude(status__in=OVER).exists()


KINDS["bulk change"] = Kind(_begin_bulk, _bulk_under_way, _bulk_ended, _bulk_faults)


def _begin_merge(_name: str) -> int:
    from agents_app import pools
    from agents_app.models import BackgroundJob

    pool = the_pool("big")
    third, fourth = pool.agents.get(number=3), pool.agents.get(number=4)
    if third.merged_into_id:
        pools.restore(third, actor=None)
    else:
        pools.merge(third, fourth, None)
    return int(BackgroundJob.objects.filter(work="recompose_pool").latest("pk").pk)


def _job_under_way(key: int) -> bool:
    from agents_app.models import BackgroundJob

    return bool(BackgroundJob.objects.filter(pk=key, status="running").exclude(progress={}).exists())


def _job_ended(key: int) -> bool:
    from agents_app.models import BackgroundJob

    return _status(BackgroundJob, key) in OVER


def _merge_faults(key: int) -> list[str]:
    from agents_app.models import BackgroundJob
    from datasets_app.labels import gold

    job = BackgroundJob.objects.get(pk=key)
    wrong = [] if job.status == "done" else [f"recomposing {job.status}: {job.error}"]
    if job.result != str(BIG):
        wrong.append(f"{job.result} queries changed, not {BIG}")
    left = gold.recompose_pool(the_pool("big"))
    return wrong if not left else [*wrong, f"{left} queries were not composed anew"]


KINDS["merge"] = Kind(_begin_merge, _job_under_way, _job_ended, _merge_faults)


def _begin_retention(_name: str) -> list[Any]:
    from datetime import timedelta

    from django.utils import timezone
    from django_q.tasks import async_task

    from training_app.models import Decision, RouterModel

    model = RouterModel.objects.filter(pool__slug="shop").earliest("pk")
    old = timezone.now() - timedelta(days=400)
    told = {"agents": [], "scores": {}, "confidence": 0.5, "steps": 1, "stop_reason": "stop", "microseconds": 1}
    for _page in range(OLD // 2_000):
        Decision.objects.bulk_create(
            [Decision(pool_id=model.pool_id, model=model, text="old", at=old, **told) for _n in range(2_000)]
        )
    due = timezone.now().isoformat()
    async_task("agents_app.tasks.scheduled", PRUNE, due=due, q_options={"cluster": "default"})
    return [PRUNE, due]


PRUNE = "training_app.answering.decisions.prune"


def _turn(key: list[Any]) -> Any:
    from agents_app.models import BackgroundJob

    return BackgroundJob.objects.filter(work=key[0], key="schedule", arguments__due=key[1]).first()


def _turn_under_way(key: list[Any]) -> bool:
    job = _turn(key)
    return job is not None and job.status == "running"


def _turn_ended(key: list[Any]) -> bool:
    job = _turn(key)
    return job is not None and job.status in OVER


def _retention_faults(key: list[Any]) -> list[str]:
    from training_app.models import Decision

    job = _turn(key)
    wrong = [] if job.status == "done" else [f"retention {job.status}: {job.error}"]
    left = Decision.objects.filter(text="old").count()
    return wrong if not left else [*wrong, f"{left} old decisions are left"]


KINDS["retention"] = Kind(_begin_retention, _turn_under_way, _turn_ended, _retention_faults)


def _begin_episodes(name: str) -> list[str]:
    from orchestration_app.engine.orchestrating.state import task_of
    from orchestration_app.episodes import episodes, policies
    from training_app.answering import serving

    pool = serving.served().pools["crew"]
    orchestra = policies.orchestra(pool)
    made = []
    for n in range(EPISODES):
        wanted = episodes.Wanted([{"role": "user", "content": f"{name} episode {n}"}], max_steps=5)
        decider = orchestra.deciding(task_of(wanted.messages))
        made.append(str(episodes.begin(pool.pk, wanted, decider, orchestra)[0].pk))
    return made


def _episodes_under_way(keys: list[str]) -> bool:
    from orchestration_app.models import Episode, Step

    running = Episode.objects.filter(pk__in=keys, status="running")
    return bool(running.exists() and Step.objects.filter(episode__in=keys).exists())


def _episodes_ended(keys: list[str]) -> bool:
    from orchestration_app.models import Episode

    return not Episode.objects.filter(pk__in=keys).exclude(status__in=OVER).exists()


def _episode_faults(keys: list[str]) -> list[str]:
    from orchestration_app.models import Episode, Step

    wrong = [
        f"episode {one.pk} {one.status}: {one.error}"
        for one in Episode.objects.filter(pk__in=keys).exclude(status="done")
    ]
    for key in keys:
        calls = list(
            Step.objects.filter(episode=key, agent__isnull=False).order_by("turn").values_list("agent", flat=True)
        )
        if calls != [0, 1, 2]:
            wrong.append(f"episode {key} called {calls}")
    return wrong


KINDS["episodes"] = Kind(_begin_episodes, _episodes_under_way, _episodes_ended, _episode_faults)


# --- What another process does while processes of the installation are killed ----------------------------------------------


def _begin_erase(name: str) -> list[Any]:
    from datasets_app.queries import adding

    texts = [adding.NewQuery(f"letter {n} of {name}@example.com") for n in range(12)]
    adding.find_or_add(adding.dataset_of(the_pool("ask"), "Questions"), texts, "chaos")
    return [_command(name, "personal_data", "erase", f"{name}@example.com", "--yes"), name]


def _begin_backup(name: str) -> list[Any]:
    file = f"{os.environ['DATA_DIR']}/{name}.zip"
    return [_command(name, "backup", file), file]


_commands: dict[str, subprocess.Popen[bytes]] = {}


def _command(name: str, *words: str) -> str:
    with open(f"{os.environ['DATA_DIR']}/{name}.log", "wb") as log:
        _commands[name] = subprocess.Popen([sys.executable, "manage.py", *words], stdout=log, stderr=log)
    return name


@call
def stop_commands() -> None:
    """End the commands that still run."""
    for command in _commands.values():
        command.kill()
        command.wait()


def _command_runs(key: list[Any]) -> bool:
    return _commands[key[0]].poll() is None


def _command_ended(key: list[Any]) -> bool:
    return not _command_runs(key)


def _erase_faults(key: list[Any]) -> list[str]:
    from datasets_app.models import Query

    left = Query.objects.filter(text__contains=f"{key[1]}@example.com").count()
    wrong = [f"{left} queries still name them"] if left else []
    return wrong if _commands[key[0]].returncode == 0 else [*wrong, "the command failed"]


def _backup_faults(key: list[Any]) -> list[str]:
    import zipfile

    if _commands[key[0]].returncode:
        return ["the command failed"]
    with zipfile.ZipFile(key[1]) as file:
        bad = file.testzip()
    os.unlink(key[1])
    return [f"{bad} cannot be read"] if bad else []


KINDS["erase"] = Kind(_begin_erase, _command_runs, _command_ended, _erase_faults)
KINDS["backup"] = Kind(_begin_backup, _command_runs, _command_ended, _backup_faults)
