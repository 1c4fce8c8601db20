"""Queries that the LLM writes: what is asked for, what is kept, and that they are nobody's labels."""

import json
from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents_app import llm, pools
from agents_app.background_work import jobs as life
from datasets_app.labels import labels, snapshots
from datasets_app.models import Label, Query, WritingJob, WrittenQuery
from datasets_app.prelabeling import writing
from datasets_app.prelabeling.writing import Step, Wish

pytestmark = pytest.mark.django_db
ALL = [0, 1, 2, 3]


@pytest.fixture
def connected(server, settings):
    """The LLM of the site: the server of the tests."""
    settings.LLM_BASE_URL, settings.INTERNAL_HOSTS = "https://api.example/v1", []
    llm.save(llm.Connection(server.url, "m", "sk-own", own_network=True, price_in=1.0, price_out=2.0), actor=None)
    return server


def done(pool, wish: Wish) -> WritingJob:
    finished = writing.run(writing.create(pool, wish).pk)
    assert finished is not None
    return finished


def test_a_plan_asks_for_every_agent_pair_and_language(pool) -> None:
    steps = writing.plan(pools.roster(pool), Wish(25, 8, 3, ("en", "de")))
    wanted: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for step in steps:
        assert len(step.wanted) * step.count <= writing.PER_CALL
        wanted.update({(step.language, tuple(agents)): step.count for agents in step.wanted})
    for language in ("en", "de"):
        assert [wanted[language, (agent,)] for agent in ALL] == [25] * 4
        assert wanted[language, ()] == 3
        pairs = [wanted[language, pair] for pair in combinations(ALL, 2)]
        assert (sum(pairs), min(pairs), max(pairs)) == (8, 1, 2)
    assert writing.plan(pools.roster(pool)[:1], Wish(0, 8, 0, ("en",))) == []


def test_what_was_written_is_kept_and_labels_nothing(connected, pool) -> None:
    pool.guidelines = "Refunds are Billing's."
    pool.save()
    job = done(pool, Wish(3, 2, 1, ("de",)))
    assert (job.status, job.steps_done, job.calls, job.problems) == ("done", 6, 6, {})
    assert Counter(tuple(row.agents) for row in job.queries.all() if len(row.agents) == 1) == {(n,): 3 for n in ALL}
    assert sorted(len(row.agents) for row in job.queries.all()) == [0, *[1] * 12, 2, 2]
    assert {(row.language, row.model, row.rejected) for row in job.queries.all()} == {("de", "m", False)}
    assert (job.tokens_in, job.tokens_out) == (600, 60)
    assert job.cost == pytest.approx((600 + 2 * 60) / 1e6)
    assert set(connected.keys) == {"Bearer sk-own"}
    system = connected.bodies[0]["messages"][0]["content"]
    assert "German" in system
    assert "Refunds are Billing's." in system
    assert Query.objects.count() == Label.objects.count() == 0


def test_a_job_that_goes_on_asks_for_nothing_twice(connected, pool, monkeypatch) -> None:
    job = writing.create(pool, Wish(3, 0, 0, ("en",)))
    take_step, taken = writing._take_step, []

    def killed(*arguments: Any) -> None:
        if len(taken) == 2:
            raise life.Stopped
        taken.append(take_step(*arguments))

    with monkeypatch.context() as patch:
        patch.setattr(writing, "_take_step", killed)
        with pytest.raises(life.Stopped):
            writing.run(job.pk)
    job.refresh_from_db()
    assert (job.status, job.steps_done, job.queries.count()) == ("running", 2, 6)
    life.release_mine(WritingJob, job.pk)
    again = writing.run(job.pk)
    assert again is not None
    assert (again.status, again.queries.count()) == ("done", 12)
    assert max(connected.asked.values()) == 1
    assert len(set(connected.names)) == 4


def test_it_can_be_cancelled_and_goes_on(connected, pool) -> None:
    job = writing.create(pool, Wish(2, 0, 0, ("en",)))
    stopped = writing.run(job.pk, progress=lambda running: writing.cancel(running))
    assert stopped is not None
    assert stopped.status == "cancelled"
    assert 1 <= stopped.steps_done < 4
    assert writing.resume(stopped, now=False)
    assert not writing.resume(stopped, now=False)
    finished = writing.run(job.pk)
    assert finished is not None
    assert (finished.status, finished.queries.count()) == ("done", 8)
    assert not writing.cancel(finished)


@pytest.mark.parametrize("fault", ["not json", "wrong id", "empty"])
def test_answers_that_cannot_be_used_are_counted(connected, pool, fault: str) -> None:
    connected.fault = lambda text, nth: fault if "part 2" in text else ""
    job = done(pool, Wish(2, 0, 0, ("en",)))
    assert job.status == "done"
    assert WrittenQuery.objects.count() == 6
    assert sum(job.problems.values()) == (2 if fault == "wrong id" else 1)


@pytest.mark.parametrize("fault", ["429", "500", "cut", "prose"])
def test_a_server_that_stumbles_is_asked_again(connected, pool, fault: str) -> None:
    connected.fault = lambda text, nth: fault if nth == 1 and "part 2" in text else ""
    assert done(pool, Wish(2, 0, 0, ("en",))).queries.count() == 8


def test_a_refused_key_fails_the_job_and_loses_nothing(connected, pool) -> None:
    connected.refuse_key = True
    job = done(pool, Wish(2, 0, 0, ("en",)))
    assert job.status == "failed"
    assert "refused the key" in job.error
    connected.refuse_key = False
    assert writing.resume(job, now=False)
    finished = writing.run(job.pk)
    assert finished is not None
    assert (finished.status, finished.error, finished.queries.count()) == ("done", "", 8)


def test_an_answer_is_read_strictly() -> None:
    good = {"text": " my  bill \n is wrong ", "agents": [1]}
    items: list[Any] = [
        good, {"text": "", "agents": [1]}, "a text", {"text": "x" * 1_001, "agents": [1]}, {"text": "y", "agents": ["1"]},
        {"text": "y", "agents": [True]}, {"text": "y", "agents": [1, 2]}, {"text": "second", "agents": [1, 1]},
        {"text": "third", "agents": [1]},
    ]  # fmt: skip
    read, bad = writing.parsed(json.dumps({"queries": items}), Step([[1]], 2, "en"))
    assert read == [("my bill is wrong", [1]), ("second", [1])]
    assert sum(bad.values()) == len(items) - 2
    assert bad["more than were asked for"] == 1
    assert writing.parsed("[1]", Step([[1]], 2, "en"))[0] == []
    assert writing.parsed('{"queries": 3}', Step([[1]], 2, "en"))[0] == []


def test_the_same_again_is_not_kept_twice(connected, pool) -> None:
    first = done(pool, Wish(2, 0, 0, ("en",)))
    again = done(pool, Wish(2, 0, 0, ("en",)))
    assert (first.queries.count(), again.queries.count()) == (8, 0)
    assert again.problems == {"says the same as another": 8}


def test_an_estimate_is_what_a_job_takes(connected, pool) -> None:
    wish = Wish(3, 2, 1, ("en",))
    found = writing.estimate(pool, wish)
    job = done(pool, wish)
    assert (found.queries, found.calls) == (job.queries.count(), job.calls)
    assert found.cost == pytest.approx((found.tokens_in + 2 * found.tokens_out) / 1e6)
    sent = sum(len(message["content"]) for body in connected.bodies for message in body["messages"])
    assert found.tokens_in == pytest.approx(sent / 4, rel=0.01)


def test_what_cannot_be_asked_for_is_refused(pool, connected) -> None:
    with pytest.raises(writing.WritingError, match="at least one"):
        writing.create(pool, Wish(0, 0, 0, ("en",)))
    with pytest.raises(writing.WritingError, match="fewer"):
        writing.create(pool, Wish(2_000, 0, 0, ("en",)))
    writing.create(pool, Wish(1, 0, 0, ("en",)))
    with pytest.raises(writing.WritingError, match="already"):
        writing.create(pool, Wish(1, 0, 0, ("en",)))


def test_languages_are_those_of_the_queries(pool, add_query) -> None:
    assert writing.languages_of(pool) == ["en"]
    for n in range(3):
        add_query(f"Ich habe meine Rechnung Nummer {n} noch nicht bekommen, was ist damit passiert?")
    assert writing.languages_of(pool) == ["de"]


# ---------------------------------------------------------------------------------------------------------- snapshots


def test_a_snapshot_holds_the_kept_ones_and_counts_none(connected, pool, add_query) -> None:
    for n, split in enumerate(("train", "val", "test")):
        labels.record(labels.NewLabel(add_query(f"number {n}", split).pk, source="import", required=[n], asked=ALL))
    before = snapshots.take(pool)
    assert (before.written, snapshots.written(before)) == (0, [])
    done(pool, Wish(2, 1, 1, ("en",)))
    reject = WrittenQuery.objects.order_by("pk")[0]
    assert writing.set_rejected(pool, True, [reject.pk]) == 1
    after = snapshots.take(pool)
    assert (after.rows, after.split_sizes, after.judges) == (before.rows, before.split_sizes, before.judges)
    assert list(snapshots.examples(after)) == list(snapshots.examples(before))
    assert list(snapshots.jsonl(after)) == list(snapshots.jsonl(before))
    taught = snapshots.written(after)
    assert after.written == len(taught) == 9
    assert {example.text: sorted(example.required) for example in taught} == {
        row.text: row.agents for row in WrittenQuery.objects.filter(rejected=False)
    }
    assert snapshots.verify(after)
    assert snapshots.take(pool) == after
    writing.set_rejected(pool, True)
    assert snapshots.take(pool) == before
    assert snapshots.written(after) == taught
    snapshots.blank_rows(lambda row: row["text"] == taught[0].text)  # as erasing does
    assert snapshots.written(after) == taught[1:]
    assert snapshots.verify(after)


def test_an_agent_that_is_gone_takes_its_written_queries_along(connected, pool, add_query) -> None:
    labels.record(labels.NewLabel(add_query("one", "train").pk, source="import", required=[1], asked=ALL))
    done(pool, Wish(2, 0, 1, ("en",)))
    pool.agents.filter(number=0).update(state="retired")
    assert sorted(sorted(example.required) for example in snapshots.written(snapshots.take(pool))) == [
        [], *[[n] for n in (1, 1, 2, 2, 3, 3)],
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- the command


def test_the_command_writes_and_tells(connected, pool, capsys) -> None:
    call_command(
        "write_queries", "--pool", "support", "--per-agent", "2", "--joined", "1", "--language", "de", "--estimate"
    )
    assert "9 queries in 5 calls" in capsys.readouterr().out
    assert not WrittenQuery.objects.exists()
    call_command("write_queries", "--pool", "support", "--per-agent", "2", "--joined", "1", "--language", "de")
    assert "done: 9 queries written; 5 of 5 calls" in capsys.readouterr().out
    assert set(WrittenQuery.objects.values_list("language", flat=True)) == {"de"}
    with pytest.raises(CommandError, match="no job that stopped"):
        call_command("write_queries", "--pool", "support", "--resume")
    with pytest.raises(CommandError, match="0 or more"):
        call_command("write_queries", "--pool", "support", "--joined", "-1")
