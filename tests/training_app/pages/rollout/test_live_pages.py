"""Pages of live traffic: who enters, what they do and say, empty, refused and full."""

import re
from random import Random

import pytest

from agents_app import pools
from agents_app.models import AuditEntry
from datasets_app.labels import labels
from datasets_app.queries import adding
from tests.training_app.answering.test_finishing import ASKS_LEGAL, LEGAL
from tests.training_app.served import promoted
from training_app.answering import decisions, shadowing
from training_app.models import Canary, Decision, LiveSettings, Outcome, RouterModel
from training_app.rollout import trials
from training_app.versions import registry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process", "nothing_waits")]
LIVE, OUTCOMES, OFF = (f"/p/support/decisions/{name}/" for name in ("live", "outcomes", "off-policy"))
SETTINGS = "/p/support/settings/live/"


@pytest.fixture
def browser(person, client):
    client.force_login(person("ops"))
    return client


def text(response) -> str:
    return response.content.decode()


@pytest.mark.parametrize("path", [LIVE, OUTCOMES, OFF, SETTINGS])
def test_only_ops_and_admins_enter(model, person, client, path) -> None:
    assert client.get(path).status_code == 302
    for role, status in (("labeler", 403), ("reviewer", 403), ("admin", 200)):
        client.force_login(person(role))
        assert client.get(path).status_code == status
        if status == 403:
            assert client.post(path, {"do": "shadow", "model": "1"}).status_code == (
                405 if path in (OUTCOMES, OFF) else 403
            )


@pytest.mark.parametrize("path", [OUTCOMES, OFF])
def test_what_only_shows_takes_no_post(browser, model, path) -> None:
    assert browser.post(path).status_code == 405


def test_empty_pages_show_the_way(browser, pool) -> None:
    assert "No model is active" in text(browser.get(LIVE))
    assert "No candidate yet" in text(browser.get(OFF))
    assert "No outcome in the last 30 days" in text(browser.get(OUTCOMES))
    promoted(pool, (0, "Billing"))
    assert "Nothing is being tried" in text(browser.get(LIVE))


# --- Shadows and the canary ---------------------------------------------------------------------------------------


def test_a_shadow_is_started_compared_and_stopped(browser, app, candidate) -> None:
    page = text(browser.post(LIVE, {"do": "shadow", "model": "2"}, follow=True))
    assert "support-2 is a shadow" in page
    assert "No query has been scored yet" in page
    for words in ("billing", "technical", "billing and technical"):
        app.route(words)
    shadowing.turn(rest=0)
    decisions.buffer.write()
    page = text(browser.get(LIVE))
    assert "On 3 live queries the two sets agree with a Jaccard of 0.5" in page
    assert "the same in 33.3" in page
    assert page.count(f'href="/p/support/decisions/{Decision.objects.get(text="technical").pk}/"') == 1
    assert "is no longer a shadow" in text(browser.post(LIVE, {"do": "shadow_stop", "model": "2"}, follow=True))
    assert AuditEntry.objects.get(action="shadow.stopped").actor.username == "ops-person"


def test_a_canary_asks_for_a_reason_where_the_gate_refuses(browser, candidate) -> None:
    refused = browser.post(LIVE, {"do": "canary", "model": "2", "share": "20"})
    assert refused.status_code == 409
    assert "does not pass the gate" in text(refused)
    assert 'name="override"' in text(refused)
    assert 'value="20"' in text(refused)
    page = text(browser.post(LIVE, {"do": "canary", "model": "2", "share": "20", "override": "known"}, follow=True))
    assert "support-2 answers 20 % of the requests now" in page
    assert "this was the reason to start it anyway: known" in page
    assert "Not enough to tell" in page
    assert "Promote support-2" in page
    canary = Canary.objects.get()
    assert (canary.share, canary.author.username) == (0.2, "ops-person")
    browser.post(LIVE, {"do": "canary", "model": "2", "share": "30", "override": canary.override})
    canary.refresh_from_db()
    assert canary.share == 0.3
    page = text(browser.post(LIVE, {"do": "canary_stop"}, follow=True))
    assert "support-1 answers everything again." in page
    assert "Earlier canaries" in page


def test_a_canary_is_promoted_from_its_page(browser, candidate, canary) -> None:
    canary(0.2)
    browser.post("/p/support/models/2/promote/", {"override": "it held"})
    assert RouterModel.objects.get(state="active").version == 2
    assert Canary.objects.get().ended == "promoted"
    assert "Promoted, " in text(browser.get(LIVE))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"do": "canary", "model": "2", "share": "much"}, "must be a percentage"),
        ({"do": "canary", "model": "2", "share": "60", "override": "x"}, "at most 50 %"),
        ({"do": "shadow_stop", "model": "2"}, "is not a shadow"),
        ({"do": "canary_stop"}, "has no canary"),
        ({"do": "dance", "model": "2"}, "Choose an action"),
    ],
)
def test_what_cannot_be_done_says_why(browser, candidate, sent, said) -> None:
    assert said in text(browser.post(LIVE, sent, follow=True))
    assert not Canary.objects.exists()


@pytest.mark.parametrize("version", ["9", "x", "", "9" * 30])
def test_an_unknown_model_is_not_found(browser, candidate, version) -> None:
    assert browser.post(LIVE, {"do": "shadow", "model": version}).status_code == 404


def test_errors_are_shown(browser, candidate, canary) -> None:
    canary(0.2)
    shadowing.note(candidate.pk, "canary", errors=2, error="RuntimeError: <no tensor>")
    trials.start_shadow(candidate, actor=None)
    shadowing.note(candidate.pk, "shadow", errors=3, skipped=4, error="ValueError: x")
    shadowing.turn(rest=0)
    page = text(browser.get(LIVE))
    assert "It failed 2 times; the active model answered instead." in page
    assert "RuntimeError: &lt;no tensor&gt;" in page
    assert "ValueError: x" in page


# --- Off-policy, outcomes, settings -------------------------------------------------------------------------------


def test_off_policy_says_why_not(browser, app, candidate) -> None:
    app.route("technical")
    decisions.buffer.write()
    Outcome.objects.create(decision_id=Decision.objects.get().pk, pool=candidate.pool, success=True)
    page = text(browser.get(OFF))
    assert "Not estimable: this pool has not explored" in page
    assert "Exploration is off in this pool." in page


def test_off_policy_of_a_broken_artifact_is_an_error_not_a_fault(browser, app, candidate, monkeypatch) -> None:
    test_off_policy_says_why_not(browser, app, candidate)

    def broken(_model):
        raise registry.RegistryError("The artifact of support-2 is damaged")

    monkeypatch.setattr("training_app.rollout.off_policy_figures.serving.router_of", broken)
    assert "The artifact of support-2 is damaged" in text(browser.get(OFF))


def test_outcomes_by_model_and_agent(browser, app, model) -> None:
    app.post("/api/outcomes/", {"decision_id": app.route("billing").json()["decision_id"], "success": True})
    decisions.buffer.write()
    page = text(browser.get(OUTCOMES + "?days=7"))
    assert "100.0" in page
    assert "support-1" in page
    assert 'href="?days=7" aria-current="true"' in page
    assert browser.get(OUTCOMES + "?days=x").status_code == 200


def test_every_hint_of_the_settings_is_there_for_its_field(browser, pool) -> None:
    page = text(browser.get(SETTINGS))
    told = [one for ids in re.findall(r'aria-describedby="([^"]+)"', page) for one in ids.split()]
    assert "id_cold_helptext" in told
    assert [one for one in told if f'id="{one}"' not in page] == []


def test_settings_are_saved_and_bad_ones_named(browser, pool) -> None:
    good = {"exploration": "0.05", "cold": "on", "cold_threshold": "0.2", "failures": "on", "failures_per_day": "10"}
    assert "settings were saved" in text(browser.post(SETTINGS, good, follow=True))
    kept = LiveSettings.objects.get()
    assert (kept.exploration, kept.cold, kept.cold_threshold, kept.failures, kept.failures_per_day) == (
        0.05, True, 0.2, True, 10,
    )  # fmt: skip
    for field, value in (
        ("exploration", "0.2"),
        ("exploration", "nan"),
        ("cold_threshold", "0"),
        ("failures_per_day", "-1"),
    ):
        page = browser.post(SETTINGS, good | {field: value})
        assert page.status_code == 200
        assert "rw-error" in text(page)
    assert LiveSettings.objects.get().exploration == 0.05
    assert AuditEntry.objects.filter(action="live.settings").count() == 1


# --- Decisions ----------------------------------------------------------------------------------------------------


def test_a_decision_tells_how_it_was_made_and_what_is_near(browser, app, candidate, live, canary, monkeypatch) -> None:
    class Always(Random):
        def random(self) -> float:
            return 0.0

    monkeypatch.setattr("training_app.answering.loaded.chance", Always(4))
    added = adding.find_or_add(adding.dataset_of(candidate.pool), [adding.NewQuery("billing went wrong")], "file")[0]
    labels.record_many([labels.NewLabel(query_id=added[0].pk, source="import", required=[0], asked=[0, 1, 2])])
    pools.add_agent(candidate.pool, "Legal", **LEGAL)
    live(exploration=0.1, cold=True)
    canary(0.5)
    key = next(key for key in map(str, range(50)) if app.route("x", sticky_key=key).json()["model"] == "support-2")
    answer = app.route(f"billing, and {ASKS_LEGAL}", sticky_key=key).json()
    decisions.buffer.write()
    page = text(browser.get(f"/p/support/decisions/{answer['decision_id']}/"))
    assert "support-2 answered as the canary." in page
    assert "at random." in page
    assert "the identical answer. The random choice was not repeated." in page
    assert "Agents that the model had not learnt" in page
    assert "billing went wrong" in page
    for made in ("canary", "explored", "cold"):
        assert answer["decision_id"] in text(browser.get(f"/p/support/decisions/?made={made}"))
    assert answer["decision_id"] not in text(browser.get("/p/support/decisions/?outcome=failure"))
    app.post("/api/outcomes/", {"decision_id": answer["decision_id"], "success": False})
    assert answer["decision_id"] in text(browser.get("/p/support/decisions/?outcome=failure"))
    assert answer["decision_id"] not in text(browser.get("/p/support/decisions/?outcome=success"))


def test_the_playground_shows_cold_agents(browser, app, model, live) -> None:
    pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True)
    page = text(browser.post("/p/support/playground/", {"query": f"billing, and {ASKS_LEGAL}"}))
    assert "Chosen by its description, as the model has not learned it yet:" in page
    assert "&quot;cold&quot;: true" in page
    assert "cannot choose them" not in page
