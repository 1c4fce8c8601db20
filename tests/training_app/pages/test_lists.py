"""Lists that sort by their address, models without a scorecard, and what runs by the clock."""

from collections.abc import Callable
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django_q.models import Schedule

from agents_app import pools, tasks
from agents_app.background_work import schedules, work
from agents_app.models import BackgroundJob, Pool
from datasets_app.labels import snapshots
from datasets_app.models import Snapshot
from tests.clients import signed_in
from tests.training_app.pages.figures import scorecard
from tests.training_app.told import artifact
from training_app.models import Decision, RouterModel
from training_app.pages.training import curves
from training_app.training import runs
from training_app.versions import registry

pytestmark = pytest.mark.both_databases

Make = Callable[..., RouterModel]


def measured(jaccard: float) -> dict:
    card = scorecard() | {"queries": 60}
    card["metrics"]["jaccard"] = {"mean": jaccard, "low": jaccard - 0.1, "high": jaccard + 0.1}
    return card


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("sort", "versions"),
    [
        ("", [4, 3, 2, 1]),
        ("model", [1, 2, 3, 4]),
        ("jaccard", [3, 1, 2, 4]),
        ("-jaccard", [2, 1, 3, 4]),
        ("nonsense", [4, 3, 2, 1]),
        ("-made", [4, 3, 2, 1]),
    ],
)
def test_models_sort_and_those_without_a_figure_come_last(
    make_model: Make, browser: Client, sort: str, versions: list[int]
) -> None:
    for jaccard in (0.5, 0.9, 0.1):
        make_model(measured(jaccard))
    make_model({})
    answer = browser.get(reverse("models", args=["support"]), {"sort": sort})
    assert [model.version for model in answer.context["rows"]] == versions


@pytest.mark.both_databases
def test_of_too_few_queries_nothing_is_listed_or_sorted_by(make_model: Make, browser: Client) -> None:
    folded = {"queries": 60, "folds": 5, "metrics": measured(0.2)["metrics"], "baselines": {}}
    cards = [measured(0.5), measured(0.9) | {"queries": 49}, measured(0.7) | {"measured_on": "val"}]
    for content in [*cards, measured(0.8) | {"queries": 6, "cross_validated": folded}]:
        make_model(content)
    answer = browser.get(reverse("models", args=["support"]), {"sort": "-jaccard"})
    assert [(model.version, model.headline.get("jaccard")) for model in answer.context["rows"]] == [
        (1, 0.5), (4, 0.2), (3, None), (2, None),
    ]  # fmt: skip
    page = answer.content.decode()
    assert "too few to say; check 1 more" in page
    assert "too few to say; check 50 more" in page
    call_command("list_models", pool="support", stdout=(said := StringIO()))
    listed = said.getvalue().splitlines()[1:]
    assert ["too few" in line for line in listed] == [False, True, True, False]


@pytest.mark.both_databases
def test_figures_of_different_test_queries_are_not_sorted_together(
    snapshot: Snapshot, told_router: None, browser: Client
) -> None:
    pools.add_agent(snapshot.pool, "Returns")
    later = snapshots.take(snapshot.pool)
    for of, jaccard in ((snapshot, 0.5), (later, 0.4), (snapshot, 0.9), (later, 0.6)):
        run = runs.launch(snapshot.pool, snapshot=of, queue=False)
        attempt = runs.claim(run.pk)
        assert attempt
        runs.finish(run.pk, attempt, artifact(), measured(jaccard))
    answer = browser.get(reverse("models", args=["support"]), {"sort": "-exact"})
    assert [model.version for model in answer.context["rows"]] == [4, 2, 3, 1]
    assert answer.content.decode().count("Measured on queries of support-s") == 2
    assert "Measured on queries of" not in browser.get(reverse("models", args=["support"])).content.decode()


def test_a_run_keeps_its_colour_whatever_is_drawn_beside_it() -> None:
    assert curves.colours_of([7, 3])[7] == curves.colours_of([7, 9, 4])[7] == curves.colours_of([7])[7]
    beside = curves.colours_of([3, 8, 13])
    assert len(set(beside.values())) == 3, "runs of one chart never look alike"
    assert beside[3] == curves.colours_of([3])[3]


@pytest.mark.both_databases
def test_runs_of_different_snapshots_are_not_sorted_together(
    browser: Client, told_router: None, snapshot: Snapshot
) -> None:
    pools.add_agent(snapshot.pool, "Returns")
    later = snapshots.take(snapshot.pool)
    for of, jaccard in ((snapshot, 0.9), (later, 0.4), (later, 0.6)):
        run = runs.launch(snapshot.pool, snapshot=of, queue=False)
        attempt = runs.claim(run.pk)
        assert attempt
        runs.finish(run.pk, attempt, artifact(), measured(jaccard))
    answer = browser.get(reverse("runs", args=["support"]), {"sort": "-exact"})
    shown = [(run.snapshot, model.headline["jaccard"]) for run, _changed, model in answer.context["rows"]]
    assert shown == [(later, 0.6), (later, 0.4), (snapshot, 0.9)]
    assert answer.content.decode().count("Measured on queries of") == 2


@pytest.mark.parametrize(("sort", "order"), [("", [2, 1, 0]), ("run", [0, 1, 2]), ("-exact", [1, 0, 2])])
def test_runs_sort_by_what_their_models_reach(
    snapshot: Snapshot, told_router: None, browser: Client, sort: str, order: list[int]
) -> None:
    made = [runs.launch(snapshot.pool, snapshot=snapshot, queue=False) for _ in range(3)]
    for run, jaccard in zip(made, (0.5, 0.9), strict=False):
        attempt = runs.claim(run.pk)
        assert attempt
        runs.finish(run.pk, attempt, artifact(), measured(jaccard))
    answer = browser.get(reverse("runs", args=["support"]), {"sort": sort})
    assert [row[0].pk for row in answer.context["rows"]] == [made[i].pk for i in order]
    assert 'aria-sort="' in answer.content.decode()


def test_home_and_the_models_page_stand_without_a_scorecard(make_model: Make, browser: Client, pool: Pool) -> None:
    registry.promote(make_model({}), actor=None)
    home = browser.get("/")
    assert home.status_code == 200
    assert "It came without a scorecard." in home.content.decode()
    assert browser.get(reverse("model", args=["support", 1])).status_code == 200


SCHEDULED = sorted(name for name, one in work.every().items() if one.every)


def test_schedules_are_made_once_and_a_changed_one_stays(db: None) -> None:
    made = Schedule.objects.filter(func=schedules.FUNCTION)
    schedules.install()
    assert sorted(made.values_list("args", flat=True)) == sorted(f"('{name}',)" for name in SCHEDULED)
    made.update(schedule_type="W")
    made.create(name="Renamed since", func=schedules.FUNCTION, args="('agents_app.work.prune',)")
    call_command("migrate", verbosity=0)
    assert set(made.values_list("schedule_type", flat=True)) == {"W"}
    assert made.count() == len(SCHEDULED)


@pytest.mark.parametrize("name", SCHEDULED)
def test_what_is_scheduled_is_there_and_runs_once_for_each_time_that_it_is_due(db: None, name: str) -> None:
    due = "2026-01-01T00:00:00+00:00"
    assert tasks.scheduled(name, due) == "done"
    assert tasks.scheduled(name, due) == "done already"
    assert tasks.scheduled(name, "2026-01-02T00:00:00+00:00") == "done"
    job = BackgroundJob.objects.get(work=name)
    assert (job.attempts, job.error) == (2, "")


@pytest.mark.parametrize(
    "path",
    [
        "/p/support/decisions/",
        "/p/support/decisions/?format=jsonl",
        "/admin/training_app/decision/",
        "/admin/training_app/promotion/",
    ],
)
def test_lists_leave_scorecards_in_the_database(
    make_model: Make, pool: Pool, django_user_model: type[User], path: str
) -> None:
    first, second = make_model(scorecard()), make_model(scorecard())
    for model in (first, second):
        registry.promote(model, actor=None)
        Decision.objects.create(
            pool=pool, model=model, text="a", agents=[], scores={}, confidence=1, steps=1, stop_reason="none", microseconds=1,
        )  # fmt: skip
    browser = signed_in(django_user_model.objects.create_superuser("root"))
    browser.get(path)
    with CaptureQueriesContext(connection) as asked:
        answer = browser.get(path)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert b"support-2" in body
    assert [
        query["sql"] for query in asked if "training_app_scorecard" in query["sql"] and "content" in query["sql"]
    ] == []
