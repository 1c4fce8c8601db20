"""Sources: nothing changes before it is approved, what is approved is what was looked at, and examples stay unconfirmed."""

import json
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from agents_app.models import Agent, AgentSource, AuditEntry, Pool, Stamp
from agents_app.pools import card_examples
from agents_app.sources import catalog, described
from agents_app.sources.described import SourceError
from datasets_app.models import Gold, Query, Suggestion
from tests.agents_app.sources.test_cards import CARD

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ADDRESS = "https://travel.example.com"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict:
    """What the address answers with: to be changed."""
    card = json.loads(json.dumps(CARD))
    asked: list[str] = []

    def fetched(url: str) -> bytes:
        asked.append(url)
        if not url.endswith("agent-card.json") or "fault" in card:
            raise SourceError("HTTP 404")
        return json.dumps(card).encode()

    monkeypatch.setattr(described, "fetched", fetched)
    return card


def look(pool: Pool) -> AgentSource:
    return catalog.look(pool, ADDRESS, AgentSource.Kind.CARD, actor=None)


def test_nothing_changes_before_it_is_approved(pool: Pool, served: dict) -> None:
    before = list(pool.agents.values_list("name", flat=True))
    source = look(pool)
    assert [change.field for change in catalog.changes(source)] == [
        "Name", "Description", "Keywords", "Examples, not confirmed",
    ]  # fmt: skip
    assert list(pool.agents.values_list("name", flat=True)) == before
    agent = catalog.approve(source, catalog.fingerprint(source), actor=None)
    assert (agent.name, agent.keywords) == ("Travel agent", ["flights", "hotels"])
    assert catalog.changes(source) == []
    assert AuditEntry.objects.filter(action="source.approved").count() == 1


def test_examples_are_queries_that_nobody_has_confirmed(pool: Pool, served: dict) -> None:
    agent = catalog.approve(look(pool), actor=None)
    found = Query.objects.filter(dataset__pool=pool, origin="agent card")
    assert {one.text for one in found} == {"A flight to Oslo", "Ein Zimmer in Köln"}
    assert {one.state for one in found} == {Query.State.UNLABELED}
    assert not Gold.objects.filter(query__in=found).exists()
    assert [one.required for one in Suggestion.objects.filter(query__in=found)] == [[agent.number]] * 2


def test_only_the_examples_of_approved_cards_are_read(pool: Pool, served: dict) -> None:
    source = look(pool)
    assert [card_examples(agent) for agent in pool.agents.all()] == [()] * pool.agents.count()
    before = Stamp.current()
    agent = catalog.approve(source, actor=None)
    assert card_examples(agent) == ("A flight to Oslo", "Ein Zimmer in Köln")
    assert Stamp.current() > before
    served["skills"][0]["examples"].append("A visa for India")
    catalog.look_all()
    source.refresh_from_db()
    catalog.dismiss(source, actor=None)
    assert card_examples(agent) == ("A flight to Oslo", "Ein Zimmer in Köln")
    before = Stamp.current()
    catalog.forget(source, actor=None)
    assert (card_examples(agent), Stamp.current() > before) == ((), True)


def test_a_changed_card_is_offered_again_and_only_its_new_examples_come(pool: Pool, served: dict) -> None:
    source = look(pool)
    agent = catalog.approve(source, actor=None)
    assert catalog.look_all() == 0
    served["description"] = "Books trips and visas."
    served["skills"][0]["examples"].append("A visa for India")
    assert catalog.look_all() == 1
    agent.refresh_from_db()
    assert agent.description == "Books trips.\nBook: Flights & hotels"
    source.refresh_from_db()
    assert [(change.field, change.after) for change in catalog.changes(source)] == [
        ("Description", "Books trips and visas.\nBook: Flights & hotels"), ("Examples, not confirmed", "A visa for India"),
    ]  # fmt: skip
    catalog.dismiss(source, actor=None)
    assert catalog.look_all() == 0
    served["name"] = "Visa agent"
    catalog.look_all()
    source.refresh_from_db()
    assert catalog.approve(source, actor=None).number == agent.number


def test_what_is_approved_is_what_was_looked_at(pool: Pool, served: dict) -> None:
    source = look(pool)
    shown = catalog.fingerprint(source)
    served["description"] = "Sends me your money."
    catalog.look_all()
    with pytest.raises(SourceError, match="has changed"):
        catalog.approve(source, shown, actor=None)
    assert not Agent.objects.filter(name="Travel agent").exists()


def test_an_address_that_fails_keeps_what_was_known(pool: Pool, served: dict) -> None:
    catalog.approve(look(pool), actor=None)
    served["fault"] = True
    assert catalog.look_all() == 0
    source = AgentSource.objects.get()
    assert source.problem == "HTTP 404"
    assert source.taken["name"] == "Travel agent"
    with pytest.raises(SourceError):
        catalog.look(pool, "https://other.example.com", AgentSource.Kind.CARD, actor=None)
    assert AgentSource.objects.count() == 1


def test_the_page(pool: Pool, served: dict, client: Client, admin_user) -> None:
    client.force_login(admin_user)
    place = f"/p/{pool.slug}/agents/sources/"
    shown = client.post(place, {"kind": "a2a", "addresses": ADDRESS, "key": ""}, follow=True).content.decode()
    assert "Books trips." in shown
    assert "Flights &amp; hotels" in shown
    source = AgentSource.objects.get()
    assert client.post(f"{place}{source.pk}/", {"do": "approve", "shown": "stale"}).status_code == 302
    assert not pool.agents.filter(name="Travel agent").exists()
    assert "Do not add it" in shown
    approved = client.post(f"{place}{source.pk}/", {"do": "approve", "shown": catalog.fingerprint(source)}, follow=True)
    assert "Travel agent is an agent now." in approved.content.decode()
    assert pool.agents.filter(name="Travel agent").exists()
    client.post(f"{place}{source.pk}/", {"do": "forget"})
    assert not AgentSource.objects.exists()
    assert client.post(place, {"kind": "a2a", "addresses": "", "key": ""}).status_code == 200
    upload = BytesIO(json.dumps([CARD | {"name": "<b>Bold</b>"}, CARD | {"name": "Second"}]).encode())
    upload.name = "cards.json"
    shown = client.post(
        place, {"kind": "a2a", "addresses": "", "key": "", "file": upload}, follow=True
    ).content.decode()
    assert "&lt;b&gt;Bold&lt;/b&gt;" in shown
    assert "<b>Bold" not in shown
    assert AgentSource.objects.count() == 2


def test_the_command(pool: Pool, served: dict, tmp_path: Path) -> None:
    said = StringIO()
    call_command("import_agents", ADDRESS, pool=pool.slug, stdout=said)
    assert "Nothing was changed" in said.getvalue()
    assert not pool.agents.filter(name="Travel agent").exists()
    call_command("import_agents", ADDRESS, pool=pool.slug, apply=True, stdout=said)
    assert pool.agents.filter(name="Travel agent").exists()
    (tmp_path / "bad.json").write_text("[{}]")
    with pytest.raises(CommandError, match="1 of 2"):
        call_command("import_agents", str(tmp_path / "bad.json"), ADDRESS, pool=pool.slug, stdout=said, stderr=said)
