"""Traffic on several machines: while models are promoted, and while the database is away."""

import random
import signal
import time

from benchmarks.machines.bench import SMALL, Bench, say, settle
from benchmarks.machines.site import Answered, Load, wait_for


def promotions(bench: Bench) -> None:
    """50 promotions and roll-backs by both web servers, while 8 connections route."""
    names = [
        f"shop-{row['version']}" for row in bench.query("SELECT version FROM training_app_routermodel ORDER BY version")
    ]
    assert len(names) > 25, "run the scenario `runs` first: it makes the models"
    bench.first_model()
    start = bench.one("SELECT 'shop-' || version FROM training_app_routermodel WHERE state = 'active'")
    stack = [start]
    #: (model, from when at the earliest, from when at the latest) it was active, in monotonic seconds
    spans: list[tuple[str, float, float]] = [(start, 0.0, 0.0)]
    others = [name for name in names if name != start]
    kinds = {"promotion": 0, "rollback": 0}
    with Load(bench.web, bench.key, bench.texts) as load:
        time.sleep(1)
        for turn in range(50):
            before = time.monotonic()
            if turn % 3 == 2:
                status, said = bench.web[turn % 2].post(
                    "/api/rollback/", bench.key, {"pool": "shop", "reason": "to see"}
                )
                stack.pop()
                wanted = stack[-1]
            else:
                wanted = next(name for name in others if name != stack[-1])
                others.append(others.pop(others.index(wanted)))
                status, said = bench.promote(wanted, turn % 2)
                stack.append(wanted)
            assert (status, said.get("model")) == (200, wanted), said
            kinds[said["kind"]] += 1
            spans.append((wanted, before, time.monotonic()))
            time.sleep(random.Random(turn).uniform(0.3, 1.2))
        time.sleep(2.5)
    stale = sorted(staleness(one, spans) for one in load.answered if one.status == 200)
    per_server = {machine.name: sum(one.machine == machine.name for one in load.answered) for machine in bench.web}
    latest = {machine.name: [o.model for o in load.answered if o.machine == machine.name][-1] for machine in bench.web}
    times = sorted(one.ended - one.began for one in load.answered)
    say(
        changes=f"{kinds['promotion']} promotions, {kinds['rollback']} roll-backs in {spans[-1][2] - spans[1][1]:.0f} s",
        requests=f"{len(load.answered):,} over 8 connections {per_server}, failed: {len(load.failed)}",
        models_seen=len({one.model for one in load.answered}),
        time_ms=f"p50 {1000 * times[len(times) // 2]:.1f}, p99 {1000 * times[len(times) * 99 // 100]:.1f}",
        how_long_its_model_had_been_replaced_s=f"p50 {stale[len(stale) // 2]:.2f}, p99 {stale[len(stale) * 99 // 100]:.2f}, "
        f"longest {stale[-1]:.2f}",
        last_answers=latest,
    )
    assert not load.failed, load.failed[:3]
    assert stale[-1] <= 2.0
    assert set(latest.values()) == {stack[-1]}


def staleness(one: Answered, spans: list[tuple[str, float, float]]) -> float:
    """For how many seconds the answer's model had been inactive when the answer was begun; 0 while it was active."""
    best = float("inf")
    for place, (model, earliest, _latest) in enumerate(spans):
        if model == one.model and earliest <= one.ended:
            until = spans[place + 1][2] if place + 1 < len(spans) else float("inf")
            best = min(best, max(0.0, one.began - until))
    return best


def database(bench: Bench) -> None:
    """PostgreSQL stopped in order, then as by a crash, each for ten seconds under load; 300 decisions fit into a buffer."""
    bench.first_model()
    for how, number in (("stopped in order", signal.SIGINT), ("crashed", signal.SIGQUIT)):
        settle(bench)
        dropped = sum(found["decisions"]["dropped"] for found in bench.health())
        kept = bench.one("SELECT count(*) FROM training_app_decision")
        with Load(bench.web, bench.key, bench.texts) as load:
            time.sleep(2)
            bench.server.stop(number)
            away = time.monotonic()
            time.sleep(5)
            during = bench.health()
            time.sleep(5)
            at_the_end = bench.health()
            bench.server.start()
            back = time.monotonic()
            wait_for(lambda: all(found["database"] == "ok" for found in bench.health()), "recovery", 60, 0.1)
            recovered = time.monotonic() - back
            time.sleep(2)
        settle(bench)
        lost = sum(found["decisions"]["dropped"] for found in bench.health()) - dropped
        written = bench.one("SELECT count(*) FROM training_app_decision") - kept
        meanwhile = [one for one in load.answered if away <= one.began and one.ended <= back]
        print(f"  PostgreSQL {how}")
        say(
            requests=f"{len(load.answered):,}, {len(meanwhile):,} of them while it was away; failed: {len(load.failed)}",
            health=f"{[(f['status'], f['database'], f['decisions']['waiting']) for f in during]} after 5 s, "
            f"{[(f['decisions']['waiting'], f['decisions']['dropped'] - 0) for f in at_the_end]} waiting and dropped after 10 s",
            recovered=f"{recovered:.1f} s after its start, without a restart of ours",
            decisions=f"{len(load.answered):,} answered = {written:,} written + {lost:,} dropped and counted",
        )
        assert not load.failed, load.failed[:3]
        assert all(found["database"] == "away" for found in during)
        assert all(found["decisions"]["waiting"] <= 300 for found in at_the_end)
        assert len(load.answered) == written + lost
    launched = bench.launch(SMALL)
    wait_for(
        lambda: bench.status("training_app_run", launched) == "done", "a run by workers that saw it go and come", 180
    )
    say(workers="trained a run afterwards, not restarted")
