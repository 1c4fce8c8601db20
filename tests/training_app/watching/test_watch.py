"""What the watch looks for: each alarm opens for its cause and for nothing else."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone
from django_q.models import OrmQ

from agents_app import keys, pools
from agents_app.models import ClusterSign, KeyMonth
from datasets_app.models import PrelabelJob
from datasets_app.prelabeling.prompts import current
from training_app.answering import serving
from training_app.models import Alarm, ProcessSign, Run, WatchTurn
from training_app.training import runs
from training_app.watching import watch
from training_app.watching.watch import Watch

Status = Run.Status


@pytest.fixture(autouse=True)
def fresh(monkeypatch: Any) -> None:
    monkeypatch.setattr(watch, "_seen_waiting", frozenset())
    serving.forget()


def seen(part: str, ago: timedelta = timedelta(), **more: Any) -> ProcessSign:
    return ProcessSign.objects.create(
        name=f"{part}-{more}{ago}", part=part, machine="m", at=timezone.now() - ago, **more
    )


def kinds() -> set[str]:
    return set(Alarm.objects.filter(resolved_at=None).values_list("kind", flat=True))


def end(run: Run, status: str, author: Any = None) -> Run:
    made = Run.objects.create(
        pool=run.pool,
        snapshot=run.snapshot,
        status=status,
        author=author,
        finished_at=timezone.now(),
        error="out of memory",
    )
    assert isinstance(made, Run)
    return made


def test_an_installation_that_is_well_has_no_alarm(run: Run) -> None:
    seen("web")
    seen("default")
    seen("train")
    for _ in range(2):
        watch.look()
    assert kinds() == set()


def test_a_process_gives_its_sign_and_what_it_dropped(db: None, monkeypatch: Any) -> None:
    monkeypatch.setattr(watch.decisions, "buffer", type("Buffer", (), {"dropped": 0, "__len__": lambda self: 3})())
    process = Watch("web")
    process.sign()
    assert ProcessSign.objects.get().dropped_at is None
    watch.decisions.buffer.dropped = 7
    process.sign()
    sign = ProcessSign.objects.get()
    assert (sign.waiting, sign.dropped, sign.dropped_at is not None) == (3, 7, True)
    watch.look(workers=False)
    assert kinds() == {"dropped"}
    ProcessSign.objects.update(dropped_at=timezone.now() - watch.DROPPED_LATELY - timedelta(seconds=1))
    Alarm.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    watch.look(workers=False)
    assert kinds() == set()


def test_a_machine_whose_clock_is_behind_counts_as_alive(db: None, monkeypatch: Any) -> None:
    now = timezone.now
    with monkeypatch.context() as behind:
        behind.setattr(timezone, "now", lambda: now() - timedelta(minutes=3))
        monkeypatch.setattr(watch.decisions, "buffer", type("Buffer", (), {"dropped": 7, "__len__": lambda self: 0})())
        for part in ("web", "default", "train"):
            Watch(part).sign()
    assert {sign.part for sign in watch.alive()} == {"web", "default", "train"}
    watch.look()
    assert kinds() == {"dropped"}


def test_one_of_many_processes_takes_a_turn(db: None) -> None:
    assert [watch.take_turn() for _ in range(3)] == [True, False, False]
    WatchTurn.objects.update(next_at=timezone.now())
    assert watch.take_turn()


@pytest.mark.parametrize("part", ["default", "train"])
def test_a_worker_that_was_there_and_is_gone_is_missed(db: None, part: str) -> None:
    other = {"default": "train", "train": "default"}[part]
    seen(other)
    seen(part, watch.MISSING - timedelta(seconds=30))
    watch.look()
    assert kinds() == set()
    ProcessSign.objects.filter(part=part).update(at=timezone.now() - watch.MISSING - timedelta(seconds=1))
    watch.look()
    assert kinds() == {"workers"}
    assert len(Alarm.objects.get().evidence) == 1


def test_a_worker_that_never_was_there_is_missed_once_a_run_waits(run: Run) -> None:
    watch.look()
    assert kinds() == set()
    Run.objects.update(created_at=timezone.now() - timedelta(minutes=3))
    watch.look()
    assert kinds() == {"workers"}


def test_a_process_that_has_just_started_does_not_miss_anybody(run: Run) -> None:
    Run.objects.update(created_at=timezone.now() - timedelta(minutes=3))
    Watch("web").round()
    assert kinds() == set()
    WatchTurn.objects.update(next_at=timezone.now())
    Watch("web", clock=iter([0.0, 1000.0]).__next__).round()
    assert kinds() == {"workers"}


def test_a_round_outlives_the_database(db: None, monkeypatch: Any) -> None:
    def away() -> None:
        raise OperationalError("gone")

    given_back: list[bool] = []
    process = Watch("web")
    monkeypatch.setattr(process, "sign", away)
    monkeypatch.setattr("training_app.watching.watch.give_back", lambda: given_back.append(True))
    process.round()
    assert given_back == [True]


def test_two_failed_runs_in_a_row_are_an_alarm_and_a_good_one_ends_it(run: Run, ops: Any) -> None:
    end(run, Status.FAILED, ops)
    watch.look(workers=False)
    assert kinds() == set(), "one that somebody launched is on their screen"
    end(run, Status.FAILED, ops)
    watch.look(workers=False)
    assert kinds() == {"runs"}
    assert "out of memory" in str(Alarm.objects.get().evidence)
    end(run, Status.DONE)
    Alarm.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    watch.look(workers=False)
    assert kinds() == set()


def test_one_failed_run_that_nobody_launched_is_enough(run: Run) -> None:
    end(run, Status.FAILED)
    watch.look(workers=False)
    assert kinds() == {"runs"}


def test_a_cancelled_run_is_no_failure_and_another_pools_is_not_ours(run: Run, ops: Any) -> None:
    end(run, Status.FAILED, ops)
    end(run, Status.CANCELLED, ops)
    watch.look(workers=False)
    assert kinds() == set()
    end(run, Status.FAILED)
    watch.look(workers=False)
    assert Alarm.objects.get().pool == run.pool
    assert not Alarm.objects.filter(pool=pools.create_pool("Other", "other", actor=None)).exists()


def test_a_run_that_waits_too_long_while_none_is_trained_is_an_alarm(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - watch.WAITS_TOO_LONG - timedelta(seconds=1))
    watch.look(workers=False)
    assert kinds() == set(), "it may have been launched again a moment ago"
    watch.look(workers=False)
    assert kinds() == {"queue"}


def test_a_run_behind_one_that_is_trained_only_waits_its_turn(run: Run) -> None:
    busy = runs.launch(run.pool, snapshot=run.snapshot, queue=False)
    runs.claim(busy.pk)
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - watch.WAITS_TOO_LONG - timedelta(seconds=1))
    for _ in range(2):
        watch.look(workers=False)
    assert kinds() == set()


def test_a_pre_labeling_job_that_nobody_takes_is_an_alarm(pool: Any) -> None:
    PrelabelJob.objects.create(pool=pool, base_url="https://x", model="m", prompt=current(pool))
    PrelabelJob.objects.update(created_at=timezone.now() - watch.WAITS_TOO_LONG - timedelta(seconds=1))
    for _ in range(2):
        watch.look(workers=False)
    assert Alarm.objects.get().evidence == [["Pre-labeling jobs", "1"]]


def test_a_model_that_a_web_process_cannot_load_is_an_alarm_of_its_pool(pool: Any) -> None:
    seen("web", problems={"support": "support-2 was refused: damaged"})
    watch.look(workers=False)
    alarm = Alarm.objects.get()
    assert (alarm.kind, alarm.pool) == ("refused", pool)
    assert "damaged" in str(alarm.evidence)


def test_processes_that_are_silent_for_a_day_are_forgotten(db: None) -> None:
    seen("web", watch.FORGOTTEN + timedelta(seconds=1))
    seen("web", watch.ALIVE + timedelta(seconds=1))
    watch.look(workers=False)
    assert ProcessSign.objects.count() == 1
    assert watch.alive() == []


def test_a_process_that_ends_in_order_takes_its_sign_away(db: None) -> None:
    process, other = Watch("train"), Watch("train")
    process.sign()
    other.sign()
    process.end()
    assert [sign.name for sign in ProcessSign.objects.all()] == [other.name]
    process.turn()
    assert ProcessSign.objects.count() == 1, "its thread has nothing more to say"


def test_a_key_that_ends_soon_is_told(pool: Any) -> None:
    key, _secret = keys.create_key("Shop", [pool], ["route"], expires_at=timezone.now() + timedelta(days=8))
    watch.look()
    assert "keys" not in kinds()
    keys.rotate(key, None, expires_at=timezone.now() + timedelta(days=6))
    key.refresh_from_db()
    watch.look()
    told = Alarm.objects.get(kind="keys")
    assert "“Shop” expires" in told.sentence
    assert told.evidence == [["Shop", f"{key.expires_at:%Y-%m-%d %H:%M} UTC"]]
    assert told.pool == pool
    keys.revoke(key, None)
    Alarm.objects.update(seen_at=timezone.now() - timedelta(minutes=3))
    watch.look()
    assert "keys" not in kinds()


def test_a_month_that_is_nearly_used_up_is_told_and_one_that_is(pool: Any) -> None:
    key, _secret = keys.create_key("Shop", [pool], ["route"])
    begins, _ends = KeyMonth.span(timezone.now().timestamp())
    month = KeyMonth.objects.create(api_key=key, month=begins.date(), queries=79)
    keys.set_quota(key, None, queries=100, characters=10)
    watch.look()
    assert not kinds() & {"quota", "spent"}
    KeyMonth.objects.filter(pk=month.pk).update(queries=80)
    watch.look()
    assert kinds() & {"quota", "spent"} == {"quota"}
    assert "has used 80 %" in Alarm.objects.get(kind="quota").sentence
    KeyMonth.objects.filter(pk=month.pk).update(characters=10)
    watch.look()
    assert kinds() & {"quota", "spent"} == {"quota", "spent"}
    assert Alarm.objects.get(kind="spent").evidence == [["Shop", "10 / 10 characters"]]


# --- Clusters that stand still --------------------------------------------------------------------------------------


def message(ago: timedelta) -> OrmQ:
    made = OrmQ.objects.create(key="default", payload="x", lock=timezone.now() - ago)
    assert isinstance(made, OrmQ)
    return made


def a_cluster(**told: Any) -> ClusterSign:
    values: dict[str, Any] = {"slot": "a", "queue": "default", "machine": "m", "guarded_at": timezone.now()}
    made = ClusterSign.objects.create(**{**values, **told})
    assert isinstance(made, ClusterSign)
    return made


def test_jobs_that_wait_for_workers_that_do_nothing_are_an_alarm(db: None) -> None:
    cluster = a_cluster(executed_at=timezone.now() - timedelta(minutes=5))
    message(timedelta(seconds=5))
    watch.look()
    assert kinds() == set(), "it waits for a moment only"
    message(timedelta(minutes=1))
    watch.look()
    assert kinds() == {"cluster"}
    alarm = Alarm.objects.get()
    assert (alarm.sentence, alarm.evidence) == (
        "Jobs wait, and no worker does anything: short jobs.",
        [["short jobs", "1 jobs wait, no worker does anything"]],
    )
    ClusterSign.objects.filter(pk=cluster.pk).update(executed_at=timezone.now())
    Alarm.objects.update(seen_at=timezone.now() - timedelta(minutes=3))
    watch.look()
    assert kinds() == set()


def test_a_busy_cluster_whose_queue_is_long_is_no_alarm(db: None) -> None:
    a_cluster(busy=1)
    message(timedelta(minutes=10))
    watch.look()
    assert kinds() == set()


def test_a_cluster_that_was_started_anew_is_told_for_a_while(db: None) -> None:
    a_cluster(executed_at=timezone.now(), restarted_at=timezone.now(), why="its worker ended with status -9")
    watch.look()
    alarm = Alarm.objects.get()
    assert alarm.sentence == "A job cluster was restarted: its worker ended with status -9."
    assert alarm.evidence == [["short jobs, m", "its worker ended with status -9"]]
    ClusterSign.objects.update(restarted_at=timezone.now() - timedelta(minutes=10))
    Alarm.objects.update(seen_at=timezone.now() - timedelta(minutes=3))
    watch.look()
    assert kinds() == set()
