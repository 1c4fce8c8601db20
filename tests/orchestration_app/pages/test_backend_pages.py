"""Settings → Backends: rows, what another preference would take, and a secret that is never shown."""

import uuid
from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app import sealing
from agents_app.models import Pool
from orchestration_app import catalog, providers
from orchestration_app.backends import judging, pairs, savings
from orchestration_app.engine.backends import chooser
from orchestration_app.engine.backends.chooser import ChooserConfig
from orchestration_app.models import Backend, BackendCall, BackendSettings, Episode, Executor, Provider, Step
from tests.orchestration_app.backends.conftest import rows  # noqa: F401
from tests.orchestration_app.backends.test_chooser import calls
from training_app.engine.data.examples import Agent
from training_app.models import Run
from training_app.versions import registry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process", "nothing_waits")]
NEW = {"provider": "OpenAI", "secret": "sk-of-acme", "model": "gpt-4.1-mini"}


def test_without_backends_the_page_teaches_the_next_step(browser: Client, pool: Pool) -> None:
    shown = browser.get(reverse("settings_backends", args=["support"])).content.decode()
    assert "No backends" in shown
    assert reverse("settings_backend_new", args=["support"]) in shown


def test_agents_that_are_called_at_servers_of_their_own_are_not_ticked(browser: Client, pool: Pool) -> None:
    webhook, chat, *others = pool.agents.active().order_by("number")
    Executor.objects.create(agent=webhook, kind="webhook", address="https://own.example")
    Executor.objects.create(agent=chat, kind="chat", address="https://llm.example/v1", model="m")
    shown = browser.get(reverse("settings_backend_new", args=["support"]))
    assert set(shown.context["form"].fields["agents"].initial) == {chat, *others}
    assert set(shown.context["form"].fields["agents"].queryset) == {webhook, chat, *others}


def test_three_fields_make_a_backend_for_many_agents(browser: Client, pool: Pool) -> None:
    agents = list(pool.agents.active())
    new = reverse("settings_backend_new", args=["support"])
    assert browser.post(new, NEW | {"agents": [agent.pk for agent in agents]}).status_code == 302
    assert Backend.objects.count() == len(agents)
    made = Backend.objects.first()
    listed = catalog.shipped()
    assert (made.price_in, made.context) == (0.4, 1_047_576)
    assert made.priced_on == listed.as_of
    assert made.provider.address == listed.addresses["OpenAI"]
    assert sealing.opened(made.provider.secret) == "sk-of-acme"
    assert browser.post(new, NEW | {"secret": "", "agents": [agents[0].pk]}).status_code == 302
    assert Backend.objects.count() == len(agents), "who may run on it already is left alone"
    assert sealing.opened(Provider.objects.get().secret) == "sk-of-acme", "blank keeps it"


def test_agents_with_backends_are_called_without_typing_anything_again(browser: Client, pool: Pool) -> None:
    first, second, *others = pool.agents.active().order_by("number")
    new, path = reverse("settings_backend_new", args=["support"]), reverse("settings_executors", args=["support"])
    browser.post(new, NEW | {"agents": [first.pk, second.pk]})
    address = Provider.objects.get().address
    page = browser.get(reverse("settings_executor", args=["support", first.number])).content.decode()
    assert f"Filled in from what is known of {address}" in page
    assert "How 2 agents are called is known" in browser.get(path).content.decode()
    assert browser.post(reverse("executors_set_up", args=["support"])).status_code == 302
    made = Executor.objects.filter(agent__in=(first, second))
    assert {(row.kind, row.address, row.model) for row in made} == {("chat", address, "gpt-4.1-mini")}
    assert {sealing.opened(row.secret) for row in made} == {"sk-of-acme"}
    assert not Executor.objects.filter(agent__in=others).exists()
    shown = browser.get(path).content.decode()
    assert "is called is known" not in shown
    assert shown.count("on 1 backend<") == 2


def test_the_form_of_a_choosers_run_says_what_it_learns_from_and_asks_for_no_labels(
    browser: Client, pool: Pool
) -> None:
    path = reverse("run_new", args=["support"]) + "?kind=backend_chooser"
    page = browser.get(path).content.decode()
    assert "calls of backends that were judged: 0 in this pool. About 320 are needed" in page
    assert "No labeled query in" not in page
    assert 'name="snapshot"' not in page
    preview = browser.get(path + "&seed=1", headers={"HX-Request": "true"}).content.decode()
    assert "Queries" not in preview
    rule = browser.get(reverse("run_rule_new", args=["support"]) + "?kind=backend_chooser").content.decode()
    assert "calls of backends that were judged: 0" in rule
    assert "without a new or changed gold label" not in rule
    assert "No labeled query in" not in rule
    run = Run.objects.get(
        pk=browser.post(path, {"seed": 1, "learner": "direct", "llm_labels": 0})["Location"].rstrip("/").split("/")[-1]
    )
    assert (run.kind, run.snapshot.rows) == ("backend_chooser", 0)


def test_a_providers_key_goes_to_no_other_address(browser: Client, pool: Pool) -> None:
    agent = pool.agents.active().order_by("number")[0]
    browser.post(reverse("settings_backend_new", args=["support"]), NEW | {"agents": [agent.pk]})
    bounds = {
        "seconds": 5,
        "retries": 0,
        "most_tokens": 10,
        "most_cost": 1,
        "most_kb": 10,
        "at_once": 0,
        "per_minute": 0,
    }
    bounds |= {
        "price_in": 0,
        "price_out": 0,
        "approval": "never",
        "approval_above": 0,
        "active": "on",
        "kind": "chat",
        "model": "m",
    }
    path = reverse("settings_executor", args=["support", agent.number])
    assert browser.post(path, bounds | {"address": "https://elsewhere.example/v1"}).status_code == 302
    assert Executor.objects.get(agent=agent).secret == ""
    assert browser.post(path, bounds | {"address": "https://here.example/v1", "secret": "sk-here"}).status_code == 302
    moved = browser.post(path, bounds | {"address": "https://elsewhere.example/v1"}).content.decode()
    assert "The key stays with the server that it was entered for" in moved
    assert browser.post(path, bounds | {"address": "https://here.example/v2"}).status_code == 302
    assert sealing.opened(Executor.objects.get(agent=agent).secret) == "sk-here"
    assert browser.post(path, bounds | {"address": "https://elsewhere.example/v1", "forget": "on"}).status_code == 302
    assert Executor.objects.get(agent=agent).secret == ""


def test_the_table_of_models_is_edited_for_all_agents(browser: Client, pool: Pool) -> None:
    agents = [agent.pk for agent in pool.agents.active()]
    sent = {"provider": "https://1.1.1.1/v1", "secret": "k", "model": "own", "agents": agents}
    assert browser.post(reverse("settings_backend_new", args=["support"]), sent).url.endswith("models/")
    terms = reverse("settings_backend_terms", args=["support"])
    assert "No price is known" in browser.get(terms).content.decode()
    first = Backend.objects.order_by("pk").first()
    row = {
        "price_in": "0.5", "price_out": "2", "priced_on": "", "context": "8000", "requests_per_minute": "60", "tokens_per_minute": "0",
        "at_once": "0",
    }  # fmt: skip
    assert browser.post(terms, {f"{first.pk}-{name}": value for name, value in row.items()}).status_code == 302
    for made in Backend.objects.all():
        assert (made.price_in, made.context, made.requests_per_minute) == (0.5, 8000, 60)
        assert made.priced_on == timezone.localdate()
    wrong = row | {"price_in": "-1", "price_out": "3"}
    assert browser.post(terms, {f"{first.pk}-{name}": value for name, value in wrong.items()}).status_code == 200
    assert set(Backend.objects.values_list("price_out", flat=True)) == {2.0}, "all of it or none"


def test_a_backend_is_changed_and_removed(browser: Client, rows: SimpleNamespace) -> None:  # noqa: F811
    address = reverse("settings_backend", args=["support", rows.large.pk])
    assert "sk-never-shown" not in browser.get(address).content.decode()
    assert browser.post(address, {"order": "3", "address": "", "secret": "sk-new"}).status_code == 302
    rows.large.refresh_from_db()
    assert (rows.large.order, rows.large.active) == (3, False)
    assert sealing.opened(Provider.objects.get().secret) == "sk-new"
    browser.post(reverse("backend_remove", args=["support", rows.large.pk]))
    assert not Backend.objects.filter(pk=rows.large.pk).exists()


def test_a_choosers_page_says_what_it_reads_off_a_query(browser: Client, pool: Pool) -> None:
    told = {
        "scale": 0.4, "labeled_by_llm": 200, "complexity": {"rows": 90, "error": 0.21},
        "category": {"rows": 80, "accuracy": 0.9, "confidence": 0.88, "names": ["code", "maths"]},
        "tool": {"rows": 70, "accuracy": 0.93, "brier": 0.061},
    }  # fmt: skip
    agents = [Agent(0, "Billing")]
    ended = [step.result for step in chooser.train(ChooserConfig(sentences=False), agents, [], calls=calls(7, 8))][-1]
    assert ended is not None
    assert ended.scorecard["estimator"].keys() == {"scale", "complexity", "labeled_by_llm"}
    card = {**ended.scorecard, "estimator": told}
    made = registry.register(None, pool, ended.artifact, card, kind="backend_chooser")
    shown = browser.get(reverse("model", args=["support", made.version])).content.decode()
    for words in ("code, maths", "off by 0.21", "right in 90", "Brier score 0.061", "200 queries"):
        assert words in shown


@pytest.mark.parametrize(
    ("change", "said"),
    [({"model": ""}, "required"), ({"provider": "acme://"}, "address"), ({"agents": []}, "required")],
)
def test_what_is_wrong_stands_beside_its_field(browser: Client, pool: Pool, change: dict, said: str) -> None:
    sent = NEW | {"agents": [pool.agents.get(number=0).pk]} | change
    answered = browser.post(reverse("settings_backend_new", args=["support"]), sent)
    assert answered.status_code == 200
    assert said in answered.content.decode()
    assert not Backend.objects.exists()


@pytest.mark.parametrize(("within", "same"), [(0.02, True), (0.319, False)])
def test_a_difference_that_the_log_does_not_know_is_not_called_the_same_quality(
    browser: Client,
    pool: Pool,
    rows: SimpleNamespace,  # noqa: F811
    within: float,
    same: bool,
) -> None:
    point = {"share": 1.0, "price": 0.1, "effective": 40.0, "change": -0.82, "difference": 0.01, "within": within}
    BackendSettings.objects.update_or_create(pool=pool, defaults={"study": {"calls": 338, "points": [point]}})
    page = browser.get(reverse("settings_backends", args=[pool.slug])).content.decode()
    assert f"± {100 * within:.1f} points of success" in page
    assert ("cost at the same quality" in page) is same


def test_a_point_that_is_not_estimable_cannot_be_used(
    browser: Client,
    pool: Pool,
    rows: SimpleNamespace,  # noqa: F811
) -> None:
    point = {"share": 1.0, "price": 0.1, "effective": 2.0, "more": 1000.0}
    BackendSettings.objects.update_or_create(pool=pool, defaults={"study": {"calls": 338, "points": [point]}})
    page, address = reverse("settings_backends", args=[pool.slug]), reverse("backend_point", args=[pool.slug])
    assert f'action="{address}"' not in browser.get(page).content.decode()
    answer = browser.post(address, {"share": "1.00"}, follow=True).content.decode()
    assert "Too few judged calls to say what keeps this share." in answer
    assert BackendSettings.objects.get(pool=pool).point is None


def test_a_point_in_use_stays_where_the_log_no_longer_says_what_it_brings(pool: Pool) -> None:
    BackendSettings.objects.update_or_create(
        pool=pool, defaults={"point": 1.0, "quality": 0.6, "cost": 0.4, "latency": 0.0}
    )
    assert savings.refresh(pool)["calls"] == 0
    kept = BackendSettings.objects.get(pool=pool)
    assert (kept.point, kept.quality, kept.cost) == (1.0, 0.6, 0.4)


def test_trying_a_preference_saves_nothing(browser: Client, rows: SimpleNamespace) -> None:  # noqa: F811
    address = reverse("settings_backends", args=["support"])
    best = browser.get(address, {"quality": "1", "cost": "0", "latency": "0"}).content.decode()
    assert "as tried" in best
    assert "acme/large" in best
    assert not BackendSettings.objects.exists()
    for value in ("nan", "-1", "x", "9" * 400):
        assert browser.get(address, {"quality": value}).status_code == 200


def test_how_the_pool_chooses_is_kept(browser: Client, rows: SimpleNamespace) -> None:  # noqa: F811
    address = reverse("settings_backends", args=["support"])
    sent = {"quality": "1", "cost": "0", "latency": "0", "budget": "5", "exploration": "0.05"}
    assert browser.post(address, sent).status_code == 302
    assert BackendSettings.objects.get().budget == 5
    assert browser.post(address, sent | {"quality": "0"}).status_code == 200
    assert browser.post(address, sent | {"exploration": "0.5"}).status_code == 200
    assert BackendSettings.objects.get().exploration == 0.05


def test_another_pools_backend_is_not_found(browser: Client, rows: SimpleNamespace) -> None:  # noqa: F811
    from agents_app import pools

    pools.create_pool("Other", "other")
    assert browser.get(reverse("settings_backend", args=["other", rows.large.pk])).status_code == 404


# --- Learning -----------------------------------------------------------------------------------------------------------


def reported(pool: Pool, rows: SimpleNamespace, count: int = 240) -> None:  # noqa: F811
    """Half of the calls go to `large`, as the direct estimate would have it, and half to `small` by lot, which fails more."""
    BackendCall.objects.bulk_create(
        BackendCall(
            decision_id=uuid.UUID(int=n), pool=pool, agent=0, backend=rows.small if n % 2 else rows.large, success=n % 10 != 1,
            cost=0.002, latency=100.0, category="refund", assigned=(rows.small if n % 2 else rows.large).pk, propensity=0.5,
            decided_by="lot" if n % 2 else "direct", as_direct=n % 2 == 0,
        )
        for n in range(count)
    )  # fmt: skip


def test_each_of_66_preferences_says_whom_it_takes(browser: Client, rows: SimpleNamespace) -> None:  # noqa: F811
    shown = browser.get(reverse("settings_backends", args=["support"])).content.decode()
    assert shown.count('<a href="?quality=') == 66
    assert "quality 10, cost 0, speed 0: acme/large" in shown
    assert "quality 0, cost 10, speed 0: acme/small" in shown
    assert "quality 0, cost 0, speed 10: acme/quick" in shown
    assert shown.count("bk-here") == 1


def test_what_was_measured_is_shown_by_category_and_billed_by_day(
    browser: Client, pool: Pool, rows: SimpleNamespace  # noqa: F811
) -> None:  # fmt: skip
    reported(pool, rows)
    shown = browser.get(reverse("settings_backends", args=["support"])).content.decode()
    assert "Measured by category" in shown
    assert "refund" in shown
    assert "0.4800" in shown


def test_a_learner_is_chosen_within_its_rails(browser: Client, rows: SimpleNamespace) -> None:  # noqa: F811
    address = reverse("settings_backend_learning", args=["support"])
    sent = {"learner": "linucb", "learning_share": "0.2", "learning_within": "0.1"}
    assert browser.post(address, sent | {"learning_share": "0.6"}).status_code == 200
    assert not BackendSettings.objects.exists()
    assert browser.post(address, sent).status_code == 302
    kept = BackendSettings.objects.get()
    assert (kept.learner, kept.learning_share) == ("linucb", 0.2)
    providers.stop_learning(kept.pool_id, "it did worse")
    assert "it did worse" in browser.get(address).content.decode()
    assert browser.post(reverse("backend_learning_resume", args=["support"])).status_code == 302
    assert BackendSettings.objects.get().learning_stopped is None


def test_candidates_are_judged_from_the_log(browser: Client, pool: Pool, rows: SimpleNamespace) -> None:  # noqa: F811
    address = reverse("settings_backend_learning", args=["support"])
    assert "No reported call of an agent" in browser.get(address, {"judge": "1"}).content.decode()
    reported(pool, rows)
    found = {one.name: one for one in judging.judged(pool)}
    best, cheapest = found["always the best"], found["always the cheapest"]
    assert best.estimates is not None
    assert cheapest.estimates is not None
    assert best.estimates.snips.value == pytest.approx(1.0)
    assert cheapest.estimates.snips.value == pytest.approx(0.8)
    assert cheapest.estimates.difference.high < 0
    shown = browser.get(address, {"judge": "1"}).content.decode()
    assert "always the cheapest" in shown
    assert "80.0" in shown


def test_too_few_calls_the_candidates_way_say_so(pool: Pool, rows: SimpleNamespace) -> None:  # noqa: F811
    reported(pool, rows)
    BackendCall.objects.filter(backend=rows.small).exclude(decision_id__in=[uuid.UUID(int=n) for n in (1, 3)]).delete()
    found = {one.name: one for one in judging.judged(pool)}
    assert found["always the cheapest"].estimates is None
    assert "2 calls" in found["always the cheapest"].why


def test_the_q_table_and_the_pairs_can_be_read(browser: Client, pool: Pool, rows: SimpleNamespace) -> None:  # noqa: F811
    reported(pool, rows)
    for success in (True, True, False):
        made = Episode.objects.create(pool=pool, policy="x", task="t", status="done", success=success)
        for turn, agent in enumerate((1, 0)):
            Step.objects.create(episode=made, turn=turn, number=turn, call=turn, agent=agent, status="done")
    agents, table = pairs.of_pool(pool)
    assert [agent.number for agent in agents] == [0, 1]
    assert table.matrix()[1, 0] == pytest.approx((2 + 1) / (3 + 2))
    assert table.matrix()[0, 1] == 0.5
    shown = browser.get(reverse("settings_backend_learning", args=["support"])).content.decode()
    assert "acme/large is hot" in shown
    assert "0.60" in shown


def test_the_admin_leads_on(browser: Client, rows: SimpleNamespace) -> None:  # noqa: F811
    listed = browser.get("/admin/orchestration_app/backend/").content.decode()
    assert reverse("settings_backend", args=["support", rows.large.pk]) in listed
    assert (
        reverse("settings_backends", args=["support"])
        in browser.get("/admin/orchestration_app/provider/").content.decode()
    )


def test_latencies_are_measured_and_enough_judged_calls_are_said(
    browser: Client, pool: Pool, rows: SimpleNamespace  # noqa: F811
) -> None:  # fmt: skip
    address = reverse("settings_backends", args=["support"])
    assert "There are 0 judged calls; 100 are needed" in browser.get(address).content.decode()
    reported(pool, rows)
    BackendCall.objects.update(latency=130.0)
    shown = browser.get(address).content.decode()
    row = shown[shown.index("acme/small</a>") :].partition("</tr>")[0]
    assert row.count('<td class="rw-number">130</td>') == 2, "p50 and p95"
    assert "240 calls are judged, which is enough." in shown
