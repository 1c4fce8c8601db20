"""The page of the LLM: who opens it, what it keeps and never shows, what its test says, and who may be called."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents_app import llm, sealing
from agents_app.models import AuditEntry, LlmConnection, Pool
from agents_app.outbound import guard
from tests.clients import signed_in
from tests.llm_server import Server

pytestmark = pytest.mark.django_db
PAGE = "/settings/llm/"


@pytest.fixture
def admin(db: None) -> Client:
    return signed_in(User.objects.create_superuser("root"))


@pytest.fixture
def server():
    with Server() as running:
        running.answer_plainly = "ready"
        yield running


def fields(server: Server, **more: str) -> dict[str, str]:
    return {"base_url": server.url, "model": "llama", "own_network": "on", "key": "sk-secret", **more}


@pytest.mark.parametrize("role", ["labeler", "reviewer", "ops"])
def test_only_admins_open_it(role: str, person: Callable[..., User]) -> None:
    client = signed_in(person(role))
    assert client.get(PAGE).status_code == 403
    assert client.post(PAGE, {"base_url": "https://llm.example/v1", "model": "m"}).status_code == 403
    assert not LlmConnection.objects.exists()


def test_it_is_saved_sealed_and_never_shown(admin: Client, server: Server) -> None:
    assert admin.post(PAGE, fields(server)).status_code == 302
    row = LlmConnection.objects.get()
    assert "sk-secret" not in row.secret
    assert sealing.opened(row.secret) == "sk-secret"
    known = llm.connection()
    assert (known.base_url, known.model, known.key, known.own_network) == (server.url, "llama", "sk-secret", True)
    assert "sk-secret" not in repr(known)
    html = admin.get(PAGE).content.decode()
    assert "sk-secret" not in html
    assert "A key is stored" in html
    assert "sk-secret" not in str(AuditEntry.objects.get(action="llm.saved").detail)
    admin.post(PAGE, {"forget": "1"})
    assert not LlmConnection.objects.exists()


def test_a_blank_key_keeps_the_one_of_the_same_address_only(admin: Client, server: Server) -> None:
    admin.post(PAGE, fields(server))
    admin.post(PAGE, fields(server, key="", model="other"))
    assert (llm.connection().model, llm.connection().key) == ("other", "sk-secret")
    admin.post(PAGE, {"base_url": "https://elsewhere.example/v1", "model": "m", "anyway": "1", "key": ""})
    assert (llm.connection().base_url, llm.connection().key) == ("https://elsewhere.example/v1", "")


def test_one_button_tests_and_saves(admin: Client, server: Server) -> None:
    html = admin.post(PAGE, fields(server), follow=True).content.decode()
    assert "It answered “ready” and is saved" in html
    assert server.keys == ["Bearer sk-secret"]
    assert LlmConnection.objects.exists()


def test_what_fails_the_test_is_saved_only_anyway(admin: Client, server: Server) -> None:
    server.refuse_key = True
    answer = admin.post(PAGE, fields(server))
    html = answer.content.decode()
    assert 'role="alert"' in html
    assert "Save anyway" in html
    assert "sk-secret" in html, "the key that was typed a moment ago need not be typed again"
    assert "no-store" in answer["Cache-Control"]
    assert not LlmConnection.objects.exists()
    html = admin.post(PAGE, fields(server, anyway="1"), follow=True).content.decode()
    assert "Saved untested" in html
    assert "sk-secret" not in html
    assert llm.connection().key == "sk-secret"
    assert len(server.keys) == 1


def test_it_goes_on_to_the_pool_that_it_was_opened_for(admin: Client, server: Server, pool: Pool) -> None:
    html = admin.get(f"{PAGE}?pool={pool.slug}").content.decode()
    assert f'action="?pool={pool.slug}"' in html
    assert f"?pool={pool.slug}&amp;preset=ollama" in html
    answer = admin.post(f"{PAGE}?pool={pool.slug}", fields(server))
    assert answer["Location"] == reverse("prelabel", args=[pool.slug])
    assert admin.post(f"{PAGE}?pool=unknown", fields(server))["Location"] == PAGE


def test_a_server_of_the_own_network_takes_the_checkbox(settings, admin: Client, server: Server) -> None:
    settings.LLM_BASE_URL, settings.INTERNAL_HOSTS = "https://api.example/v1", []
    said = fields(server)
    del said["own_network"]
    html = admin.post(PAGE, said).content.decode()
    assert "tick the box below" in html
    assert server.keys == []
    port = int(server.url.split(":")[2].split("/")[0])
    with pytest.raises(guard.Refused):
        guard.check(server.url)
    guard.check(server.url, own_server=("127.0.0.1", port))
    with pytest.raises(guard.Refused):
        guard.check(f"http://127.0.0.1:{port + 1}/v1", own_server=("127.0.0.1", port))


def test_presets_fill_in_the_address(admin: Client) -> None:
    html = admin.get(PAGE + "?preset=ollama").content.decode()
    assert 'value="http://127.0.0.1:11434/v1"' in html
    assert "checked" in html
    for preset in llm.PRESETS:
        guard.check_url(preset.base_url, own_server=llm.server_of(preset.base_url) if preset.own_network else None)


def test_without_a_row_the_settings_hold(settings, admin: Client) -> None:
    settings.LLM_BASE_URL, settings.LLM_MODEL, settings.LLM_API_KEY = "https://set.example/v1", "set", "key"
    known = llm.connection()
    assert (known.base_url, known.model, known.key, known.saved) == ("https://set.example/v1", "set", "key", False)


def test_prelabeling_leads_to_it_and_starts_with_it(admin: Client, server: Server, pool) -> None:
    assert f"{PAGE}?pool={pool.slug}" in admin.get(reverse("prelabel", args=[pool.slug])).content.decode()
    admin.post(PAGE, fields(server))
    html = admin.get(reverse("prelabel", args=[pool.slug])).content.decode()
    assert server.url in html
    assert 'value="llama"' in html
