"""Settings → Backends: rows, what another preference would take, and a secret that is never shown."""

from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse

from agents_app import sealing
from agents_app.models import Backend, BackendSettings, Pool, Provider
from tests.training_app.backends.conftest import rows  # noqa: F401

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process", "nothing_waits")]
FORM = {
    "agent": "", "provider_name": "acme", "address": "", "secret": "sk-of-acme", "model": "large", "price_in": "1", "price_out": "2",
    "tokens_in": "500", "tokens_out": "300", "quality": "0.9", "latency": "900", "requests_per_minute": "0", "tokens_per_minute": "0",
    "at_once": "4", "order": "0", "health_url": "", "active": "on",
}  # fmt: skip


def test_without_backends_the_page_teaches_the_next_step(browser: Client, pool: Pool) -> None:
    shown = browser.get(reverse("settings_backends", args=["support"])).content.decode()
    assert "No backends" in shown
    assert reverse("settings_backend_new", args=["support"]) in shown


def test_a_backend_is_made_changed_and_removed(browser: Client, pool: Pool) -> None:
    agent = pool.agents.get(number=0)
    assert (
        browser.post(reverse("settings_backend_new", args=["support"]), FORM | {"agent": agent.pk}).status_code == 302
    )
    made = Backend.objects.get()
    assert sealing.opened(Provider.objects.get().secret) == "sk-of-acme"
    address = reverse("settings_backend", args=["support", made.pk])
    assert "sk-of-acme" not in browser.get(address).content.decode()
    assert browser.post(address, FORM | {"secret": "", "at_once": "9"}).status_code == 302
    made.refresh_from_db()
    assert made.at_once == 9
    assert made.agent == agent
    assert sealing.opened(Provider.objects.get().secret) == "sk-of-acme", "blank keeps it"
    browser.post(reverse("backend_remove", args=["support", made.pk]))
    assert not Backend.objects.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"quality": "2"}, "1"),
        ({"price_in": "-1"}, "0"),
        ({"model": ""}, "required"),
        ({"price_in": "nan"}, "number"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(browser: Client, pool: Pool, change: dict, said: str) -> None:
    agent = pool.agents.get(number=0)
    answered = browser.post(reverse("settings_backend_new", args=["support"]), FORM | {"agent": agent.pk} | change)
    assert answered.status_code == 200
    assert said in answered.content.decode()
    assert not Backend.objects.exists()


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
