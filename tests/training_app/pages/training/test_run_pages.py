"""Pages of runs and models: what each role sees, and what each answers to wrong methods and bad input."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents_app.models import Pool
from datasets_app.labels import snapshots
from datasets_app.models import Snapshot, SplitGroup
from tests import orchestration, page_cost
from tests.clients import signed_in
from tests.training_app.pages.figures import scorecard
from tests.training_app.told import artifact
from training_app.engine.config import Config
from training_app.engine.reading.teaching import teacher
from training_app.engine.reading.teaching.packaged import PackagedEncoder
from training_app.models import Checkpoint, Promotion, RouterModel, Run
from training_app.training import runs
from training_app.versions import registry

Make = Callable[..., RouterModel]
RUNS_QUERIES = 12
#: With orchestration, the page asks for models of its kinds too, and Home for episodes that wait for a person.
MODELS_QUERIES = 20 + 2 * orchestration.INSTALLED
HOME_QUERIES = 44 + 3 * orchestration.INSTALLED
POLL_QUERIES = 6
GET = ["runs", "run_new", "run", "models", "model"]
POST = ["run_cancel", "run_relaunch", "model_promote", "model_rollback"]


def address(name: str, run: Run) -> str:
    if name in ("run", "run_cancel", "run_relaunch"):
        return reverse(name, args=["support", run.pk])
    return reverse(name, args=["support", 1] if name in ("model", "model_promote") else ["support"])


@pytest.mark.parametrize("name", GET)
def test_pages_open_for_ops(done: Run, browser: Client, name: str) -> None:
    answer = browser.get(address(name, done))
    assert answer.status_code == 200
    assert "Support" in answer.content.decode()


@pytest.mark.parametrize("name", [*GET, *POST])
@pytest.mark.parametrize("role", ["labeler", "reviewer"])
def test_no_other_role_opens_them(done: Run, person: Callable[[str], User], name: str, role: str) -> None:
    client = signed_in(person(role))
    before = (Run.objects.values().get(), RouterModel.objects.values().get())
    answer = client.post(address(name, done)) if name in POST else client.get(address(name, done))
    assert answer.status_code == 403
    assert (Run.objects.values().get(), RouterModel.objects.values().get()) == before


@pytest.mark.parametrize("name", [*GET, *POST, "home"])
def test_strangers_are_asked_to_sign_in(done: Run, name: str) -> None:
    path = "/" if name == "home" else address(name, done)
    answer = Client().post(path) if name in POST else Client().get(path)
    assert answer.status_code == 302
    assert "login" in answer["Location"]


@pytest.mark.parametrize("name", POST)
def test_changes_need_a_post_with_a_token(done: Run, ops: User, browser: Client, name: str) -> None:
    assert browser.get(address(name, done)).status_code == 405
    strict = signed_in(ops, enforce_csrf_checks=True)
    assert strict.post(address(name, done)).status_code == 403
    assert not Promotion.objects.exists()


@pytest.mark.parametrize(
    "path", ["/p/nowhere/runs/", "/p/support/runs/999/", "/p/support/models/9/", "/p/nowhere/models/"]
)
def test_what_is_not_there_is_a_404(done: Run, browser: Client, path: str) -> None:
    assert browser.get(path).status_code == 404


def test_another_pools_run_is_not_shown_under_this_pool(done: Run, browser: Client) -> None:
    Pool.objects.create(slug="other", name="Other")
    assert browser.get(reverse("run", args=["other", done.pk])).status_code == 404
    assert browser.post(reverse("run_cancel", args=["other", done.pk])).status_code == 404
    assert browser.get(reverse("model", args=["other", 1])).status_code == 404


# ---------------------------------------------------------------------------------------------------- launching


def test_the_form_holds_twelve_choices_with_their_defaults_and_help(labeled: Pool, browser: Client) -> None:
    answer = browser.get(reverse("run_new", args=["support"]))
    page, shown = answer.content.decode(), set(answer.context["form"].fields) - {"snapshot", "include_llm", "promote"}
    assert len(shown) == 12
    assert {"preset", "goal", "most_wrong", "seed"} < shown
    for name in shown:
        assert f'name="{name}"' in page
    assert "Mean recall to reach on validation" in page
    assert "72" in page


def test_settings_of_a_run_that_no_page_shows_are_kept_when_it_is_trained_again(labeled: Pool, browser: Client) -> None:
    first = runs.launch(labeled, config={"gamma": 0.5, "sentences": False, "goal": "f1"})
    page = browser.get(reverse("run_new", args=["support"]), {"from": first.pk})
    shown = page.context["form"]
    assert [field.name for _title, fields, _open in shown.groups() for field in fields] == ["sentences", "gamma"]
    assert page.content.decode().count('name="also"') == 2
    values = {field.name: field.value() for field in shown}
    sent = {name: str(value) for name, value in values.items() if value is not None and value is not False}
    browser.post(reverse("run_new", args=["support"]), {**sent, "also": ["sentences", "gamma"]})
    again = Run.objects.latest("pk")
    assert again.pk != first.pk
    assert (again.config["gamma"], again.config["sentences"], again.config["goal"]) == (0.5, False, "f1")


def form(**changed: str) -> dict[str, str]:
    """What a browser sends of the form as it stands, but for what was changed."""
    from training_app.pages.training.launch_form import LaunchForm
    from training_app.versions import kinds

    bound = LaunchForm(kinds.of("set_router"), Pool.objects.get())
    values = {field.name: field.value() for field in bound}
    sent = {name: str(value) for name, value in values.items() if value is not None and value is not False}
    return {**sent, **changed}


def test_the_form_launches_a_run(labeled: Pool, browser: Client, ops: User) -> None:
    answer = browser.post(
        reverse("run_new", args=["support"]), form(total_steps="40", hidden_layers="16, 8", promote="on")
    )
    run = Run.objects.get()
    assert answer["Location"] == reverse("run", args=["support", run.pk])
    assert (run.status, run.author, run.promote) == ("queued", ops, True)
    assert (run.config["total_steps"], run.config["hidden_layers"], run.config["baselines"]) == (40, [16, 8], True)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("total_steps", "0", "greater than or equal to 1"),
        ("gamma", "many", "Enter a number"),
        ("hidden_layers", "a, b", "must be a number"),
        ("encoder", "magic", "valid choice"),
        ("max_agents", "-1", "greater than or equal to 0"),
        ("embedding_path", "", "needs the folder"),
        ("embedding_path", "/etc", "/etc is not in"),
        ("teacher", "/etc", "/etc is not in"),
        ("teacher", "../installation.env", "TEACHERS_DIR"),
        ("snapshot", "999", "valid choice"),
    ],
)
def test_bad_input_stands_at_its_field_and_launches_nothing(
    labeled: Pool, browser: Client, field: str, value: str, said: str
) -> None:
    more = {"encoder": "embedding"} if field == "embedding_path" else {}
    answer = browser.post(reverse("run_new", args=["support"]), form(**{field: value}, **more))
    assert answer.status_code == 422
    assert said in str(answer.context["form"].errors[field])
    assert not Run.objects.exists()


def teacher_options(page: str) -> dict[str, str]:
    """The options of the setting `teacher` by their values, with their attributes and text."""
    (select,) = re.findall(r'<select name="teacher".*?</select>', page, re.DOTALL)
    return dict(re.findall(r'<option value="([^"]*)"([^<]*)</option>', select))


@pytest.mark.parametrize("address", ["run_new", "run_sweep_new", "run_rule_new"])
def test_a_teacher_is_chosen_from_what_is_there(
    labeled: Pool, browser: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teacher, "find_spec", lambda name: object())
    monkeypatch.setattr(PackagedEncoder, "place", lambda self: Path("/somewhere"))
    page = browser.get(reverse(address, args=["support"])).content.decode()
    assert teacher_options(page) == {"": " selected>None", "minilm": ">MiniLM, English (packaged)"}
    monkeypatch.setattr(PackagedEncoder, "place", lambda self: None)
    page = browser.get(reverse(address, args=["support"])).content.decode()
    assert teacher_options(page)["minilm"] == " disabled>MiniLM, English (not installed)"
    assert "whoever runs the server installs" in page


def test_a_run_with_the_packaged_teacher_is_launched_and_offered_again(
    labeled: Pool, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PackagedEncoder, "place", lambda self: None)
    browser.post(reverse("run_new", args=["support"]), form(preset="full", teacher="minilm"))
    run = Run.objects.get()
    assert Config.from_mapping(run.config).teacher == "minilm"
    again = browser.get(reverse("run_new", args=["support"]), {"from": run.pk}).content.decode()
    assert " selected" in teacher_options(again)["minilm"]
    assert "disabled" not in teacher_options(again)["minilm"]


def test_a_teacher_that_is_not_offered_stays_chosen(labeled: Pool, browser: Client) -> None:
    run = runs.launch(labeled, config={"teacher": "intfloat/multilingual-e5-small"})
    page = browser.get(reverse("run_new", args=["support"]), {"from": run.pk}).content.decode()
    assert teacher_options(page)["intfloat/multilingual-e5-small"] == " selected>intfloat/multilingual-e5-small"


def test_the_fast_router_has_no_teacher(labeled: Pool, browser: Client) -> None:
    answer = browser.post(reverse("run_new", args=["support"]), form(preset="fast", teacher="minilm"))
    assert answer.status_code == 422
    assert "not the fast router" in str(answer.context["form"].errors["teacher"])
    assert not Run.objects.exists()


def test_a_pool_without_labels_says_so_at_the_form(pool: Pool, browser: Client) -> None:
    answer = browser.post(reverse("run_new", args=["support"]), form())
    assert answer.status_code == 422
    assert "no gold labels" in answer.content.decode()


def test_the_preview_follows_the_snapshot_and_warns(snapshot: Snapshot, browser: Client) -> None:
    path = reverse("run_new", args=["support"])
    page = browser.get(path, {"snapshot": snapshot.pk}, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in page
    assert "72" in page
    SplitGroup.objects.update(split="train")
    other = snapshots.take(snapshot.pool)
    page = browser.get(path, {"snapshot": other.pk}, headers={"HX-Request": "true"}).content.decode()
    assert "No labeled query in: Validation" in page


@orchestration.needed
def test_an_orchestrator_is_launched_from_its_own_form(labeled: Pool, browser: Client) -> None:
    address = reverse("run_new", args=["support"]) + "?kind=orchestrator"
    page = browser.get(address)
    assert {"price", "learner", "repeats"} <= page.context["form"].fields.keys()
    assert "total_steps" not in page.context["form"].fields
    values = {
        name: field.initial
        for name, field in page.context["form"].fields.items()
        if field.initial is not None and field.initial is not False
    }
    refused = browser.post(address, {**values, "price": "-1"})
    assert refused.status_code == 422
    assert list(refused.context["form"].errors) == ["price"]
    assert browser.post(address, {**values, "price": "0.3", "preset": "money"}).status_code == 302
    run = Run.objects.get()
    assert (run.kind, run.config["price"], run.config["preset"]) == ("orchestrator", 0.3, "money")
    again = browser.get(reverse("run_new", args=["support"]), {"from": run.pk}).context
    assert (again["kind"], again["form"]["price"].value()) == ("orchestrator", 0.3)


def test_launching_with_changes_begins_with_the_other_runs_settings(labeled: Pool, browser: Client) -> None:
    run = runs.launch(labeled, config={"total_steps": 77, "gamma": 0.5})
    page = browser.get(reverse("run_new", args=["support"]), {"from": run.pk}).context["form"]
    assert (page["total_steps"].value(), page["gamma"].value()) == (77, 0.5)
    assert browser.get(reverse("run_new", args=["support"]), {"from": "x"}).status_code == 404
    assert browser.get(reverse("run_new", args=["support"]), {"from": "999"}).status_code == 404


# ---------------------------------------------------------------------------------------------------- one run


def test_a_running_page_polls_and_an_ended_one_does_not(run: Run, browser: Client, ops: User) -> None:
    path = reverse("run", args=["support", run.pk])
    runs.claim(run.pk)
    assert 'hx-trigger="every 2s"' in browser.get(path).content.decode()
    fragment = browser.get(path, headers={"HX-Request": "true"})
    assert "<html" not in fragment.content.decode()
    assert "HX-Refresh" not in fragment
    runs.cancel(run, actor=ops)
    assert "every 2s" not in browser.get(path).content.decode()
    assert browser.get(path, headers={"HX-Request": "true"})["HX-Refresh"] == "true"


def test_cancel_and_launch_again_from_the_page(run: Run, browser: Client) -> None:
    assert browser.post(reverse("run_cancel", args=["support", run.pk])).status_code == 302
    run.refresh_from_db()
    assert run.status == "cancelled"
    page = browser.post(reverse("run_cancel", args=["support", run.pk]), follow=True).content.decode()
    assert "ended already" in page
    assert "training again starts over" in page
    Checkpoint.objects.create(run=run, step=12_500, content=b"x")
    page = browser.get(reverse("run", args=["support", run.pk])).content.decode()
    assert "continues from its last checkpoint." in page
    browser.post(reverse("run_relaunch", args=["support", run.pk]))
    run.refresh_from_db()
    assert run.status == "queued"


def test_a_queued_run_says_what_it_waits_for(run: Run, browser: Client) -> None:
    second = runs.launch(run.pool, snapshot=run.snapshot, queue=False)
    assert "usually within seconds" in browser.get(reverse("run", args=["support", run.pk])).text
    page = browser.get(reverse("run", args=["support", second.pk])).text
    assert "1 earlier run is waiting or running." in page
    assert "usually within seconds" not in page


def test_a_failed_run_shows_its_reason(run: Run, browser: Client) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    runs.fail(run.pk, attempt, "8 <labeled> queries are needed")
    page = browser.get(reverse("run", args=["support", run.pk])).content.decode()
    assert "8 &lt;labeled&gt; queries are needed" in page


# ---------------------------------------------------------------------------------------------------- models


def test_promote_and_roll_back_from_the_page(make_model: Make, browser: Client, pool: Pool, ops: User) -> None:
    first, second = make_model(), make_model()
    browser.post(reverse("model_promote", args=["support", 1]), {"reason": "the first"})
    browser.post(reverse("model_promote", args=["support", 2]), {"override": "no figures yet"})
    assert registry.active(pool) == second
    promotion = Promotion.objects.get(kind="first")
    assert (promotion.author, promotion.reason) == (ops, "the first")
    assert (
        "support-1 will answer every request instead of support-2"
        in browser.get(reverse("models", args=["support"])).content.decode()
    )
    browser.post(reverse("model_rollback", args=["support"]))
    assert registry.active(pool) == first
    page = browser.get(reverse("models", args=["support"])).content.decode()
    assert "answers this pool's requests." in page
    assert "Roll back" not in page
    page = browser.post(reverse("model_rollback", args=["support"]), follow=True).content.decode()
    assert "has no earlier model" in page


# ---------------------------------------------------------------------------------------------------- what a page costs


@pytest.mark.parametrize("count", [1, 12])
def test_lists_cost_the_same_however_long(
    labeled: Pool,
    snapshot: Snapshot,
    make_model: Make,
    browser: Client,
    django_assert_num_queries: Callable,
    count: int,
) -> None:
    for _ in range(count):
        run = runs.launch(labeled, snapshot=snapshot, queue=False)
        attempt = runs.claim(run.pk)
        assert attempt
        registry.promote(runs.finish(run.pk, attempt, artifact(), scorecard()), actor=None)
    browser.get("/")
    with django_assert_num_queries(page_cost.queries(RUNS_QUERIES)):
        browser.get(reverse("runs", args=["support"]))
    with django_assert_num_queries(page_cost.queries(MODELS_QUERIES + 2 * (count > 1))):
        browser.get(reverse("models", args=["support"]))
    with django_assert_num_queries(page_cost.queries(HOME_QUERIES)):
        browser.get("/")


def test_a_poll_costs_few_queries(done: Run, browser: Client, django_assert_num_queries: Callable) -> None:
    path = reverse("run", args=["support", done.pk])
    browser.get(path)
    with django_assert_num_queries(page_cost.queries(POLL_QUERIES)):
        browser.get(path, headers={"HX-Request": "true"})


def test_every_page_loads_the_stylesheet_of_the_classes_that_it_uses() -> None:
    folder = Path(settings.BASE_DIR) / "templates"

    def whole(path: Path) -> str:
        text = path.read_text() if path.exists() else ""  # unfold's own parts
        return text + "".join(whole(folder / name) for name in re.findall(r'{% include "([^"]+)"', text))

    pages = {path: whole(path) for path in folder.glob("*/*.html") if "{% extends" in path.read_text()}
    styled = {path.name for path, text in pages.items() if re.search(r'class="(?:[^"]* )?run-', text)}
    assert "run_new.html" in styled
    assert {
        path.name for path, text in pages.items() if path.name in styled and "routerweb/runs.css" not in text
    } == set()
