"""Sweeps: which runs they launch, within which limits, how they are ranked, and cancelling."""

from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from agents_app import pools
from agents_app.models import AuditEntry, Pool
from datasets_app.models import Snapshot
from tests.clients import signed_in
from tests.training_app.served import Application, application
from tests.training_app.told import artifact
from training_app.answering import serving
from training_app.models import RouterModel, Run, Sweep
from training_app.pages.training.launch_form import SweepForm
from training_app.training import runs, sweeps

HTMX = {"HX-Request": "true"}
RESULT_QUERIES = 1


@pytest.fixture
def sweep(snapshot: Snapshot, ops: User) -> Sweep:
    """Two values of gamma, two seeds each: runs 1 and 2, 3 and 4."""
    return sweeps.launch(
        snapshot.pool, base={"total_steps": 50}, space={"gamma": [0.5, 1.0]}, seeds=2, snapshot=snapshot, author=ops
    )


def finish(run: Run, validation: float) -> RouterModel:
    attempt = runs.claim(run.pk)
    assert attempt
    return runs.finish(run.pk, attempt, artifact(), {"best_validation": {"val_jaccard": validation}})


@pytest.fixture
def ranked(sweep: Sweep, told_router: None) -> Sweep:
    """Three runs are done, the last one trains: gamma 0.5 has 0.7 and 0.9, gamma 1.0 has 0.85 and 0.2 so far."""
    first, second, third, fourth = sweep.runs.order_by("pk")
    for run, validation in ((first, 0.7), (second, 0.9), (third, 0.85)):
        finish(run, validation)
    attempt = runs.claim(fourth.pk)
    assert attempt
    runs.report(fourth.pk, attempt, [], phase="policy", step=1, total=50, metrics={"val_jaccard": 0.2})
    return sweep


# ---------------------------------------------------------------------------------------------------- the space


def test_the_space_is_read_as_people_write_it() -> None:
    text = "gamma: 0.9, 1.0\n\nlearning_rate = 0.0003..0.01\nhidden_layers: 32x32, 64"
    space = sweeps.read_space(text)
    assert space == {
        "gamma": ["0.9", "1.0"],
        "learning_rate": {"low": 0.0003, "high": 0.01},
        "hidden_layers": ["32, 32", "64"],
    }
    assert sweeps.written({"gamma": [0.9, 1.0], "hidden_layers": [[32, 32]], "lr": {"low": 0.0003, "high": 0.01}}) == (
        "gamma: 0.9, 1.0\nhidden_layers: 32x32\nlr: 0.0003..0.01"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gamma", "Line 1 must read like"),
        ("gamma: 1\ngamma: 2", "Line 2 names gamma again"),
        ("gamma: 1..x", "no range of numbers"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, said: str) -> None:
    with pytest.raises(sweeps.SweepError, match=said):
        sweeps.read_space(text)


def test_a_grid_is_every_combination_with_every_seed() -> None:
    found = sweeps.plan({"seed": 5}, {"gamma": ["0.5", "0.9"], "hidden_layers": ["8", "8, 8"]}, "grid", seeds=2)
    assert len(found) == 8
    assert {config["seed"] for config in found} == {5, 6}
    assert {(config["gamma"], tuple(config["hidden_layers"])) for config in found} == {
        (gamma, layers) for gamma in (0.5, 0.9) for layers in ((8,), (8, 8))
    }


def test_a_random_search_draws_different_points_within_its_ranges_and_the_same_again() -> None:
    space = {
        "learning_rate": {"low": 1e-4, "high": 1e-1},
        "batch_size": {"low": 8, "high": 64},
        "encoder": ["linear", "stack"],
    }
    found = sweeps.plan({}, space, "random", count=12)
    assert found == sweeps.plan({}, space, "random", count=12)
    assert len({str(config) for config in found}) == 12
    rates = [config["learning_rate"] for config in found]
    assert all(1e-4 <= rate <= 1e-1 for rate in rates)
    assert sum(rate < 1e-2 for rate in rates) > 4  # evenly over magnitudes, not over the range
    assert all(8 <= config.get("batch_size", 64) <= 64 for config in found)


def test_a_small_space_gives_no_more_points_than_it_has() -> None:
    assert len(sweeps.plan({}, {"gamma": [0.5, 0.9]}, "random", count=9)) == 2


@pytest.mark.parametrize(
    ("space", "method", "options", "field", "said"),
    [
        ({}, "grid", {}, "space", "at least one setting that varies"),
        ({"nothing": [1]}, "grid", {}, "space", "nothing is no setting"),
        ({"gamma": []}, "grid", {}, "space", "gamma has no value"),
        ({"gamma": {"low": 0, "high": 1}}, "grid", {}, "space", "a range is for numbers"),
        ({"encoder": {"low": 0, "high": 1}}, "random", {"count": 1}, "space", "a range is for numbers"),
        ({"gamma": {"low": 1, "high": 1}}, "random", {"count": 1}, "space", "to a larger one"),
        ({"gamma": {"low": 1}}, "random", {"count": 1}, "space", "to a larger one"),
        ({"gamma": [2]}, "grid", {}, "gamma", "must be from 0 to 1"),
        ({"seed": [1, 2]}, "grid", {"seeds": 2}, "space", "given twice"),
        ({"gamma": [1]}, "random", {}, "runs", "how many points"),
        ({"gamma": [0.1, 0.2, 0.3]}, "grid", {"seeds": 2}, "runs", "That would be 6 runs; at most 5"),
        ({"gamma": [0.1, 0.2, 0.3]}, "random", {"count": 6}, "runs", "That would be 6 runs; at most 5"),
    ],
)
def test_what_cannot_be_swept_is_refused(
    settings: object, space: dict, method: str, options: dict, field: str, said: str
) -> None:
    settings.SWEEP_RUNS = 5  # type: ignore[attr-defined]
    with pytest.raises(sweeps.SweepError, match=said) as refused:
        sweeps.plan({}, space, method, **options)
    assert refused.value.field == field


# ---------------------------------------------------------------------------------------------------- launching


def test_its_runs_share_a_snapshot_and_promote_nothing(sweep: Sweep, ops: User) -> None:
    found = list(sweep.runs.order_by("pk"))
    assert [(run.config["gamma"], run.seed) for run in found] == [(0.5, 0), (0.5, 1), (1.0, 0), (1.0, 1)]
    assert {(run.snapshot, run.status, run.promote, run.author, run.config["total_steps"]) for run in found} == {
        (sweep.snapshot, "queued", False, ops, 50)
    }
    assert sweep.space == {"gamma": [0.5, 1.0], "seed": [0, 1]}
    assert AuditEntry.objects.get(action="sweep.launched").detail["runs"] == 4


def test_all_or_none_are_launched(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    launch, count = runs.launch, iter(range(9))

    def failing(*given: object, **more: object) -> Run:
        if next(count) == 2:
            raise runs.RunError("no more")
        return launch(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "launch", failing)
    with pytest.raises(runs.RunError):
        sweeps.launch(snapshot.pool, base={}, space={"gamma": [0.1, 0.2, 0.3]}, snapshot=snapshot)
    assert (Run.objects.count(), Sweep.objects.count()) == (0, 0)


def test_cancelling_ends_what_has_not_ended(ranked: Sweep, ops: User) -> None:
    assert sweeps.cancel(ranked, actor=ops) == 1
    assert list(ranked.runs.order_by("pk").values_list("status", flat=True)) == ["done", "done", "done", "cancelled"]
    assert sweeps.cancel(ranked, actor=ops) == 0
    assert AuditEntry.objects.filter(action="sweep.cancelled").count() == 1


# ---------------------------------------------------------------------------------------------------- results


def test_results_are_of_validation_with_the_mean_over_seeds(ranked: Sweep, django_assert_num_queries: Callable) -> None:
    with django_assert_num_queries(RESULT_QUERIES):
        found = sweeps.results(ranked)
    assert [row.validation for row in found] == [0.7, 0.9, 0.85, 0.2]
    assert [row.mean for row in found] == [pytest.approx(0.8)] * 2 + [pytest.approx(0.525)] * 2
    assert [row.best for row in found] == [False, True, False, False]
    assert [row.model for row in found] == ["support-1", "support-2", "support-3", ""]
    assert found[0].point == {"gamma": 0.5, "seed": 0}


def test_a_run_that_is_not_done_is_not_the_best(ranked: Sweep) -> None:
    Run.objects.filter(status="running").update(metrics={"val_jaccard": 0.99})
    assert [row.best for row in sweeps.results(ranked)] == [False, True, False, False]


def test_rows_without_a_value_stand_last(ranked: Sweep) -> None:
    Run.objects.filter(status="running").update(metrics={})
    found = sweeps.results(ranked)
    assert [row.validation for row in sweeps.ranked(found, "validation", True)] == [0.9, 0.85, 0.7, None]
    assert [row.validation for row in sweeps.ranked(found, "validation", False)] == [0.7, 0.85, 0.9, None]
    assert [row.point["gamma"] for row in sweeps.ranked(found, "gamma", True)] == [1.0, 1.0, 0.5, 0.5]


# ---------------------------------------------------------------------------------------------------- pages


def address(name: str, *more: int) -> str:
    return reverse(name, args=["support", *more])


def form(**changes: str | None) -> dict[str, str]:
    empty = SweepForm(Pool(pk=0))
    sent = {}
    for name, field in empty.fields.items():
        value = empty.get_initial_for_field(field, name)
        if value is not None and value is not False:
            sent[name] = "on" if value is True else str(value)
    return {name: value for name, value in {**sent, "space": "gamma: 0.5, 1.0", **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("name", "method"),
    [("run_sweeps", "get"), ("run_sweep_new", "post"), ("run_sweep", "get"), ("run_sweep_cancel", "post")],
)
def test_only_ops_open_them(sweep: Sweep, person: Callable[..., User], name: str, method: str) -> None:
    client = signed_in(person("reviewer"))
    path = address(name, *([sweep.pk] if name in ("run_sweep", "run_sweep_cancel") else []))
    assert getattr(client, method)(path).status_code == 403
    assert Run.objects.filter(status="queued").count() == 4


def test_a_sweep_of_another_pool_is_not_found(sweep: Sweep, browser: Client) -> None:
    pools.create_pool("Sales", "sales", actor=None)
    assert browser.get(reverse("run_sweep", args=["sales", sweep.pk])).status_code == 404


def test_the_form_launches(snapshot: Snapshot, browser: Client) -> None:
    answer = browser.post(address("run_sweep_new"), form(seeds="3", total_steps="60", snapshot=str(snapshot.pk)))
    made = Sweep.objects.get()
    assert answer.headers["Location"] == address("run_sweep", made.pk)
    assert (made.runs.count(), made.base, made.snapshot) == (6, {"total_steps": 60}, snapshot)


def test_the_form_counts_the_runs_before_the_button(snapshot: Snapshot, browser: Client) -> None:
    page = browser.get(address("run_sweep_new"), form(seeds="3"), headers=HTMX).content.decode()
    assert "6 runs" in page
    assert "<html" not in page
    page = browser.get(address("run_sweep_new"), form(space="gama: 1"), headers=HTMX).content.decode()
    assert "gama is no setting; did you mean gamma?" in page
    assert not Sweep.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"space": "gamma: 3"}, "space"), ({"seeds": "0"}, "seeds"), ({"seeds": "20", "space": "gamma: 1, 0.5"}, "space"),
     ({"method": "random", "count": "99"}, "count"), ({"space": ""}, "space")],
)  # fmt: skip
def test_a_bad_field_is_marked_and_nothing_launched(
    snapshot: Snapshot, browser: Client, changes: dict[str, str], field: str
) -> None:
    answer = browser.post(address("run_sweep_new"), form(**changes))
    assert answer.status_code == 422
    assert field in answer.context["form"].errors
    assert not Run.objects.exists()


def test_the_page_ranks_by_validation_and_shows_no_test_figure(ranked: Sweep, browser: Client) -> None:
    page = browser.get(address("run_sweep", ranked.pk))
    assert [row.validation for row in page.context["rows"]] == [0.9, 0.85, 0.7, 0.2]
    text = page.content.decode()
    assert "Test Jaccard" not in text
    assert "support-2" in text
    assert "every 5s" in text
    assert 'data-rw-chart="sweep-gamma"' in text
    assert [row.run.pk for row in browser.get(address("run_sweep", ranked.pk) + "?sort=run").context["rows"]] == sorted(
        run.pk for run in ranked.runs.all()
    )
    assert browser.get(address("run_sweep", ranked.pk) + "?sort=nonsense").status_code == 200


def test_the_page_is_brought_anew_until_all_have_ended(ranked: Sweep, browser: Client) -> None:
    path = address("run_sweep", ranked.pk)
    assert "HX-Refresh" not in browser.get(path, headers=HTMX)
    assert "1 run is cancelled" in browser.post(address("run_sweep_cancel", ranked.pk), follow=True).content.decode()
    assert browser.get(path, headers=HTMX)["HX-Refresh"] == "true"
    assert "every 5s" not in browser.get(path).content.decode()


def test_the_list_and_its_empty_state(labeled: Pool, browser: Client, ops: User) -> None:
    assert "Start the first sweep" in browser.get(address("run_sweeps")).content.decode()
    sweeps.launch(labeled, base={}, space={"gamma": [0.5, 1.0]}, author=ops)
    assert "gamma: 0.5, 1.0" in browser.get(address("run_sweeps")).content.decode()


# ---------------------------------------------------------------------------------------------------- command and API


def test_the_command_launches_and_refuses(labeled: Pool) -> None:
    out = StringIO()
    call_command(
        "sweep", "--pool", "support", "--vary", "gamma=0.5,1.0", "--set", "total_steps=60", "--seeds", "2", stdout=out
    )
    assert "4 runs are queued on snapshot support-s1, 72 queries." in out.getvalue()
    call_command("sweep", "--pool", "support", "--vary", "gamma=0.5..0.9", "--random", "3", stdout=out)
    assert Sweep.objects.get(method="random").runs.count() == 3
    with pytest.raises(CommandError, match="gama is no setting"):
        call_command("sweep", "--pool", "support", "--vary", "gama=1")


@pytest.fixture
def app(snapshot: Snapshot) -> Iterator[Application]:
    """An application with a key of the scope `ops`, and a process that has loaded nothing yet."""
    serving.forget()
    yield application(snapshot.pool, scopes=("ops",))
    serving.forget()


def test_the_api_launches_shows_and_cancels(app: Application, snapshot: Snapshot) -> None:
    made = app.post("/api/sweeps/", {"space": {"gamma": [0.5, 1.0]}, "seeds": 2, "snapshot": snapshot.number})
    assert made.status_code == 201
    found = made.json()
    assert (len(found["runs"]), found["best"], found["space"]["seed"]) == (4, None, [0, 1])
    path = f"/api/sweeps/{found['id']}/"
    assert app.get(path).json() == found
    ended = app.post(path + "cancel/", {}).json()
    assert {run["status"] for run in ended["runs"]} == {"cancelled"}
    assert AuditEntry.objects.get(action="sweep.cancelled").actor_name == "key test"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"space": []}, "space"),
        ({"space": {"gamma": 1}}, "space"),
        ({"space": {"gamma": [3]}}, "config.gamma"),
        ({"space": {"gamma": [1]}, "method": "clever"}, "method"),
        ({"space": {"gamma": [1]}, "method": "random"}, "runs"),
        ({"space": {"gamma": [1]}, "seeds": 0}, "seeds"),
        ({"space": {"gamma": [1]}, "config": {"nothing": 1}}, "config.nothing"),
        ({"space": {"gamma": [1]}, "snapshot": 99}, "snapshot"),
    ],
)
def test_the_api_names_the_field_that_is_wrong(app: Application, body: dict, field: str) -> None:
    answer = app.post("/api/sweeps/", body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)
    assert not Sweep.objects.exists()


def test_the_api_does_not_know_a_sweep_of_another_pool(app: Application, labeled: Pool, sweep: Sweep) -> None:
    other = pools.create_pool("Sales", "sales", actor=None)
    Sweep.objects.update(pool=other)
    assert app.get(f"/api/sweeps/{sweep.pk}/").status_code == 404
    assert app.post(f"/api/sweeps/{sweep.pk}/cancel/", {}).status_code == 404
    assert app.get("/api/sweeps/99/").status_code == 404
    assert not Run.objects.exclude(status="queued").exists()
