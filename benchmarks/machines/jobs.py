"""Jobs on several machines: many runs at once, and workers that are killed."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.machines.bench import SMALL, Bench, say
from benchmarks.machines.site import Machine, wait_for
from tests.llm_server import Server as LlmServer

LONG = SMALL | {"total_steps": 8_000, "val_eval_freq": 500}
RUNS = 30


def runs(bench: Bench) -> None:
    """30 runs launched at once over both web servers, each handed to the queue three times; three machines train."""
    bench.need_workers(3)
    before = bench.one("SELECT coalesce(max(id), 0) FROM training_app_run")
    began = time.monotonic()
    with ThreadPoolExecutor(RUNS) as pool:
        ids = list(pool.map(lambda i: bench.launch(SMALL | {"seed": i}, i % 2), range(RUNS)))
    launched = time.monotonic() - began
    again = "from django_q.tasks import async_task as a; [a('agents_app.tasks.execute', 'run', str(i), cluster='train') for i in %s]"
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
        "SELECT count(*) FROM django_q_task WHERE func = 'training_app.training.tasks.execute' AND args IS NOT NULL"
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


def sweep(bench: Bench) -> None:
    """Sweeps over three training clusters: of three runs, and of 12 of unequal length; which machine did which run."""
    bench.need_workers(3)
    _sweep(bench, {"gamma": [1.0]}, SMALL | {"total_steps": 1500})
    _sweep(bench, {"total_steps": [300, 1500], "gamma": [0.9, 1.0]}, SMALL)


def _sweep(bench: Bench, space: dict, config: dict) -> None:
    status, launched = bench.web[0].post(
        "/api/sweeps/", bench.key, {"pool": "shop", "config": config, "space": space, "seeds": 3}
    )
    assert status == 201, launched
    began, number = time.monotonic(), launched["id"]
    rows = (
        "SELECT r.id, r.status, r.attempts, r.worker, r.started_at, r.finished_at, m.version FROM training_app_run r "
        "LEFT JOIN training_app_routermodel m ON m.run_id = r.id WHERE r.sweep_id = %s ORDER BY r.id"
    )
    ended = lambda: all(row["status"] in ("done", "failed") for row in bench.query(rows, number))  # noqa: E731
    wait_for(ended, "the end of the sweep", 900, 0.5)
    seconds = time.monotonic() - began
    found = bench.query(rows, number)
    machines = {pid: machine.name for machine in bench.workers for pid in machine.processes()}
    first = min(row["started_at"] for row in found)
    done_by: dict[str, list[str]] = {machine.name: [] for machine in bench.workers}
    for row in found:
        since, until = [(row[at] - first).total_seconds() for at in ("started_at", "finished_at")]
        done_by[machines[int(row["worker"].rpartition(":")[2])]].append(f"{row['id']} ({since:.0f} to {until:.0f} s)")
    print(f"  {len(found)} runs")
    for name, runs_of in done_by.items():
        print(f"    {name}: {len(runs_of)} runs: {', '.join(runs_of)}")
    said = bench.web[1].get(f"/api/sweeps/{number}/", bench.key)[1]
    seen = bench.one("SELECT count(*) FROM seen_write w JOIN training_app_run r ON r.id = w.job AND w.kind = 'run' "
                     "WHERE r.sweep_id = %s AND w.status = 'done'", number)  # fmt: skip
    say(
        done=f"{sum(row['status'] == 'done' for row in found)} of {len(found)} in {seconds:.0f} s; "
        f"at most {max(row['attempts'] for row in found)} attempt each, ended {seen} times in all",
        its_page=f"{len(said['runs'])} results, the best is run {said['best']}",
    )
    assert all(row["status"] == "done" and row["version"] for row in found)
    assert all(row["attempts"] == 1 for row in found)
    assert seen == len(found)
    assert all(done_by.values()), "every cluster takes part"


def killed_training(bench: Bench) -> None:
    """kill -9 of the process that trains, of a whole machine, one that sleeps and comes back; then of whoever trains, three times."""
    bench.need_workers(3)
    for how in ("the process that trains", "its whole machine", "stopped for a while, then goes on"):
        _kill_training(bench, how)
    _kill_again_and_again(bench)


def _kill_training(bench: Bench, how: str) -> None:
    run, pid, machine = _training(bench)
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
    noticed, resumed = _noticed_and_resumed(bench, run, first, began)
    mark = bench.one("SELECT max(id) FROM seen_write")
    for sleeper in asleep:
        os.kill(sleeper, signal.SIGCONT)
    wait_for(lambda: bench.status("training_app_run", run) in ("done", "failed"), "the end of the run", 900)
    bench.need_workers(3)
    late = bench.one("SELECT count(*) FROM seen_write WHERE kind = 'run' AND id > %s AND attempt = %s", mark, first)
    models = bench.one("SELECT count(*) FROM training_app_routermodel WHERE run_id = %s", run)
    events = "SELECT message FROM training_app_runevent WHERE run_id = %s ORDER BY id"
    log = [row["message"] for row in bench.query(events, run)]
    said = [line for line in log if line.startswith(("Resuming from", "The worker"))]
    print(f"  killed: {how}")
    say(
        noticed=f"after {noticed:.0f} s; another worker trained it after {resumed:.0f} s, nobody having asked for it",
        its_log=said,
        run=f"{bench.status('training_app_run', run)}, {models} model",
        writes_of_the_dead_attempt_afterwards=late,
    )
    assert noticed < 60
    assert late == 0
    assert models == 1
    assert any(line.startswith("Resuming from") for line in said)
    assert bench.status("training_app_run", run) == "done"


def _kill_again_and_again(bench: Bench) -> None:
    """A run that takes every worker down with it: RUN_RETRIES times it goes back, then it fails with the reason."""
    run, pid, _machine = _training(bench)
    for turn in range(3):
        if turn:
            _machine, pid = bench.worker_of("run", run)
        attempt = bench.one("SELECT attempt FROM training_app_run WHERE id = %s", run)
        os.kill(pid, signal.SIGKILL)
        if turn < 2:
            _noticed_and_resumed(bench, run, attempt, time.monotonic())
            wait_for(partial(_writes_of_another, bench, run, attempt), "a write of the next attempt", 60)
    wait_for(lambda: bench.status("training_app_run", run) == "failed", "the end of the run", 90)
    print("  killed: whoever trains it, three times")
    say(run=bench.query("SELECT status, attempts, losses, error FROM training_app_run WHERE id = %s", run)[0])


def _writes_of_another(bench: Bench, run: int, attempt: object) -> int:
    later = "id > (SELECT max(id) FROM seen_write WHERE job = %s AND attempt = %s)"
    count = (
        "SELECT count(*) FROM seen_write WHERE kind = 'run' AND job = %s AND status = 'running' AND attempt <> %s AND "
    )
    return int(bench.one(count + later, run, attempt, run, attempt))


def _training(bench: Bench) -> tuple[int, int, Machine]:
    """A run that has a checkpoint, with the process that trains it and its machine."""
    run = bench.launch(LONG)
    wait_for(
        lambda: bench.one("SELECT count(*) FROM training_app_checkpoint WHERE run_id = %s", run), "a checkpoint", 240
    )
    machine, pid = bench.worker_of("run", run)
    return run, pid, machine


def _noticed_and_resumed(bench: Bench, run: int, attempt: object, began: float) -> tuple[float, float]:
    """Seconds until the attempt was taken away from its worker, and until another worker had the run."""
    row = "SELECT status, attempt FROM training_app_run WHERE id = %s"
    wait_for(lambda: bench.query(row, run)[0]["attempt"] != attempt, "the mark of the dead attempt", 90)
    noticed = time.monotonic() - began
    wait_for(lambda: bench.query(row, run)[0]["status"] == "running", "the next attempt", 90)
    return noticed, time.monotonic() - began


def killed_labeling(bench: Bench) -> None:
    """kill -9 of the process that asks an LLM about 300 queries, in the middle; with a server that honours Idempotency-Key and one
    that does not."""
    bench.need_workers(3)
    for honours in (True, False):
        _kill_labeling(bench, honours)


def _kill_labeling(bench: Bench, honours: bool) -> None:
    what = "technical" if honours else "billing"
    lines = "".join(f"a new question number {i}, about shipping or {what} matters {i}\n" for i in range(300))
    path = bench.site.folder / "new.txt"
    path.write_text(lines)
    bench.site.manage("import_queries", str(path), "--pool", "shop")
    with LlmServer(delay=0.15) as llm:
        llm.honours_keys = honours
        make = (
            "from datasets_app.prelabeling import jobs as prelabel; from agents_app.models import Pool; "
            "p = Pool.objects.get(slug='shop'); "
            f"j = prelabel.create(p, prelabel.unlabeled(p), base_url='{llm.url}', model='x', concurrency=4); prelabel.enqueue(j); "
            "print('job', j.pk)"
        )
        before = bench.one("SELECT count(*) FROM datasets_app_llmanswer")
        job = int(re.search(r"job (\d+)", bench.site.manage("shell", "-c", make).stdout)[1])  # type: ignore[index]
        wait_for(lambda: len(llm.answered) > 80, "80 answers", 120, 0.05)
        _machine, pid = bench.worker_of("prelabel", job)
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        table = "datasets_app_prelabeljob"
        wait_for(lambda: bench.one(f"SELECT losses FROM {table} WHERE id = %s", job), "the mark of the dead job", 90)
        noticed = time.monotonic() - began
        kept = bench.one("SELECT count(*) FROM datasets_app_llmanswer") - before
        charged = sum(llm.charged.values())
        wait_for(lambda: bench.status(table, job) == "done", "the end of the job", 300)
        twice = sum(count - 1 for count in llm.charged.values())
        labels = bench.query(
            "SELECT query_id, count(*) FROM datasets_app_label WHERE source = 'llm' AND superseded_at IS NULL "
            "AND query_id IN (SELECT query_id FROM datasets_app_prelabelitem WHERE job_id = %s) GROUP BY query_id",
            job,
        )
        print(f"  a server that {'honours' if honours else 'ignores'} Idempotency-Key")
        say(
            noticed=f"after {noticed:.0f} s; it went on by itself",
            kept=f"{kept} of {charged} answers that were charged by then",
            gone_on_with=f"done: {len(labels)} of 300 queries have a label, at most {max(row['count'] for row in labels)} each",
            charged_twice=f"{twice} of 300, with 4 calls at once",
        )
        assert noticed < 60
        assert len(labels) == 300
        assert all(row["count"] == 1 for row in labels)
        assert twice <= (0 if honours else 4)
