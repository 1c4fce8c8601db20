"""Jobs on several machines: many runs at once, and workers that are killed."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.machines.bench import SMALL, Bench, say
from benchmarks.machines.site import wait_for
from tests.llm_server import Server as LlmServer

LONG = SMALL | {"total_steps": 25_000, "val_eval_freq": 500}
RUNS = 30


def runs(bench: Bench) -> None:
    """30 runs launched at once over both web servers, each handed to the queue three times; three machines train."""
    bench.need_workers(3)
    before = bench.one("SELECT coalesce(max(id), 0) FROM training_app_run")
    began = time.monotonic()
    with ThreadPoolExecutor(RUNS) as pool:
        ids = list(pool.map(lambda i: bench.launch(SMALL | {"seed": i}, i % 2), range(RUNS)))
    launched = time.monotonic() - began
    again = "from django_q.tasks import async_task; [async_task('training_app.tasks.execute', i, cluster='train') for i in %s]"
    bench.site.manage("shell", "-c", again % (ids + ids))
    ended = lambda: bench.one(  # noqa: E731
        "SELECT count(*) FROM training_app_run WHERE id > %s AND status IN ('done', 'failed', 'cancelled')", before
    )
    wait_for(lambda: ended() == RUNS, "the end of 30 runs", 900, 1)
    seconds = time.monotonic() - began
    count = "SELECT count(*) FROM training_app_run WHERE id > %s AND "
    done = bench.one(count + "status = 'done'", before)
    models = bench.query(
        "SELECT run_id, count(*) FROM training_app_routermodel WHERE run_id > %s GROUP BY run_id", before
    )
    written = bench.query(
        "SELECT job, count(DISTINCT attempt) AS attempts, count(DISTINCT port) AS ports, count(*) AS writes FROM seen_write "
        "WHERE kind = 'run' AND job > %s AND status IN ('running', 'done') GROUP BY job",
        before,
    )
    results = bench.query(
        "SELECT count(*) FROM django_q_task WHERE func = 'training_app.tasks.execute' AND args IS NOT NULL"
    )
    say(
        launched=f"{len(ids)} runs by 30 threads over 2 web servers in {launched:.1f} s, then each handed over twice more",
        done=f"{done} of {RUNS}, the last after {seconds:.0f} s",
        models=f"{len(models)} runs with a model, at most {max(row['count'] for row in models)} each",
        attempts=f"{sum(row['attempts'] for row in written)} over {len(written)} runs, at most "
        f"{max(row['attempts'] for row in written)} each; {sum(row['writes'] for row in written)} writes of runs seen by a trigger",
        jobs_that_the_queue_handed_out=results[0]["count"],
    )
    assert done == RUNS
    assert len(models) == RUNS
    assert len(written) == RUNS
    assert all(row["count"] == 1 for row in models)
    assert all(row["attempts"] == 1 for row in written)


def killed_training(bench: Bench) -> None:
    """kill -9 of the process that trains, then of a whole machine, then one that only sleeps and comes back."""
    bench.need_workers(3)
    for how in ("the process that trains", "its whole machine", "stopped for a while, then goes on"):
        _kill_training(bench, how)


def _kill_training(bench: Bench, how: str) -> None:
    run = bench.launch(LONG)
    wait_for(
        lambda: bench.one("SELECT count(*) FROM training_app_checkpoint WHERE run_id = %s", run),
        "a checkpoint",
        240,
    )
    machine, pid = bench.worker_of("run", run)
    first = bench.one("SELECT attempt FROM training_app_run WHERE id = %s", run)
    asleep: list[int] = []
    began = time.monotonic()
    if how == "its whole machine":
        machine.kill()
        bench.workers.remove(machine)
    elif how == "the process that trains":
        os.kill(pid, signal.SIGKILL)
    else:
        asleep = [pid]
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: bench.status("training_app_run", run) == "failed", "the mark of the dead run", 90)
    noticed = time.monotonic() - began
    reason = bench.one("SELECT error FROM training_app_run WHERE id = %s", run)
    bench.need_workers(3)
    again = f"from training_app.models import Run; from training_app import runs; runs.relaunch(Run.objects.get(pk={run}), None)"
    bench.site.manage("shell", "-c", again)
    wait_for(lambda: bench.status("training_app_run", run) == "running", "the second attempt", 60)
    mark = bench.one("SELECT max(id) FROM seen_write")
    for sleeper in asleep:
        os.kill(sleeper, signal.SIGCONT)
    wait_for(lambda: bench.status("training_app_run", run) in ("done", "failed"), "the end of the run", 400)
    late = bench.one("SELECT count(*) FROM seen_write WHERE kind = 'run' AND id > %s AND attempt = %s", mark, first)
    models = bench.one("SELECT count(*) FROM training_app_routermodel WHERE run_id = %s", run)
    resumed = bench.query(
        "SELECT message FROM training_app_runevent WHERE run_id = %s AND message LIKE 'Going on from%%'", run
    )
    print(f"  killed: {how}")
    say(
        noticed=f"after {noticed:.0f} s, marked failed: {reason[:74]}…",
        launched_again=f"{bench.status('training_app_run', run)}; {resumed[0]['message'] if resumed else 'from the beginning'}",
        writes_of_the_dead_attempt_afterwards=late,
        models_of_the_run=models,
    )
    assert noticed < 60
    assert late == 0
    assert models == 1
    assert resumed
    assert bench.status("training_app_run", run) == "done"


def killed_labeling(bench: Bench) -> None:
    """kill -9 of the process that asks an LLM about 300 queries, in the middle."""
    bench.need_workers(3)
    lines = "".join(f"a new question number {i}, about shipping or technical matters {i}\n" for i in range(300))
    path = bench.site.folder / "new.txt"
    path.write_text(lines)
    bench.site.manage("import_queries", str(path), "--pool", "shop")
    with LlmServer(delay=0.15) as llm:
        make = (
            "from datasets_app import prelabel; from agents_app.models import Pool; p = Pool.objects.get(slug='shop'); "
            f"j = prelabel.create(p, prelabel.unlabeled(p), base_url='{llm.url}', model='x', concurrency=4); prelabel.enqueue(j); "
            "print('job', j.pk)"
        )
        job = int(re.search(r"job (\d+)", bench.site.manage("shell", "-c", make).stdout)[1])  # type: ignore[index]
        wait_for(lambda: len(llm.answered) > 80, "80 answers", 120, 0.05)
        _machine, pid = bench.worker_of("prelabel", job)
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        table = "datasets_app_prelabeljob"
        wait_for(lambda: bench.status(table, job) == "failed", "the mark of the dead job", 90)
        noticed = time.monotonic() - began
        kept = bench.one("SELECT count(*) FROM datasets_app_llmanswer")
        asked = sum(llm.answered.values())
        again = (
            "from datasets_app.models import PrelabelJob; from datasets_app import prelabel; "
            f"prelabel.resume(PrelabelJob.objects.get(pk={job}))"
        )
        bench.site.manage("shell", "-c", again)
        wait_for(lambda: bench.status(table, job) == "done", "the end of the job", 300)
        twice = sum(count - 1 for count in llm.answered.values() if count > 1)
        labels = bench.query(
            "SELECT query_id, count(*) FROM datasets_app_label WHERE source = 'llm' AND superseded_at IS NULL GROUP BY query_id"
        )
        say(
            noticed=f"after {noticed:.0f} s, marked failed",
            kept=f"{kept} of {asked} answers that had left the server",
            gone_on_with=f"done: {len(labels)} of 300 queries have a label, at most {max(row['count'] for row in labels)} each",
            paid_twice=f"{twice} of 300, at most the 4 that were on their way and those of the last 0.4 s",
        )
        assert noticed < 60
        assert len(labels) == 300
        assert all(row["count"] == 1 for row in labels)
        assert twice <= 16
