"""What is stored on a person who uses the product: all of it given out, nothing of who they are left, and their labels kept."""

import io
import json
import zipfile
from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.test import Client

from agents_app import audit, keys
from agents_app.accounts import people, personal, second_factor
from agents_app.models import AuditEntry, Pool, PoolRole, ScimPerson
from datasets_app.labels import labels
from datasets_app.models import Label
from datasets_app.queries.adding import NewQuery, send
from routerweb import holds
from routerweb.holds import Content
from tests.agents_app.accounts.test_second_factor import SECRET, code
from training_app.models import AlarmDelivery, AlarmReceiver
from training_app.watching import deliveries

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NAME = "labeler@example.com"


@pytest.fixture
def lea(pool: Pool, person: Callable[[str], User], client_of: Callable[[str], Client]) -> User:
    """Somebody who has left a trace wherever one can."""
    user = person("labeler")
    client_of("labeler").get("/account/")
    user.first_name = "Lea"
    user.save()
    second_factor.turn_on(user, SECRET, code())
    PoolRole.objects.create(user=user, pool=pool, role="ops")
    _dataset, places = send(pool, [NewQuery("where is my parcel")], actor=user)
    query_id = places[0].pk
    query = Label._meta.get_field("query").related_model.objects.get(pk=query_id)
    labels.record(labels.NewLabel(query.pk, source="human", author=user, required=[1], asked=[0, 1, 2]))
    ScimPerson.objects.create(user=user, external_id="ext-7", attributes={"emails": [{"value": NAME}]})
    keys.create_key("shop", [pool], ["route", "label"], created_by=user, labels_as=user)
    audit.record("person.role", actor=None, target=NAME, detail={"who": f"{NAME} and others", "by": [NAME]})
    kind = ContentType.objects.get_for_model(User)
    LogEntry.objects.create(
        user=person("admin"), content_type=kind, object_id=str(user.pk), object_repr=NAME, action_flag=2
    )
    return user


def opened(content: bytes) -> dict[str, list[dict]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name.endswith(".jsonl")]
        return {name: [json.loads(line) for line in archive.read(name).splitlines()] for name in names}


def test_all_that_refers_to_a_person_is_given_out_but_secrets(lea: User, client_of: Callable[[str], Client]) -> None:
    answer = client_of("labeler").post("/account/data/")
    content = b"".join(answer.streaming_content)
    files = opened(content)
    assert files["account.jsonl"][0]["email"] == NAME
    assert files["datasets_app.label.author.jsonl"][0]["required"] == [1]
    assert files["mfa.authenticator.user.jsonl"]
    assert files["agents_app.apikey.created_by.jsonl"][0]["name"] == "shop"
    assert files["agents_app.auditentry.target.jsonl"][0]["action"] == "person.role"
    assert files["agents_app.auditentry.actor.jsonl"]
    said = json.dumps(files)
    assert not any(secret in said for secret in ('"password"', "digest", "session_key", '"secret"'))
    assert AuditEntry.objects.filter(action="person.exported", actor=lea).exists()


def test_who_they_are_goes_and_what_they_said_stays(
    lea: User, person: Callable[[str], User], client_of: Callable[[str], Client]
) -> None:
    theirs, admin = client_of("labeler"), client_of("admin")
    page = admin.get(f"/people/{lea.pk}/data/").content.decode()
    assert '<th scope="row">Labels: author</th><td><code>datasets_app.label.author</code></td>' in page
    assert "datasets_app.label.author" in page
    admin.post(f"/people/{lea.pk}/data/")  # without saying that one is sure
    assert User.objects.get(pk=lea.pk).username == NAME
    admin.post(f"/people/{lea.pk}/data/", {"sure": "1"})
    user = User.objects.get(pk=lea.pk)
    former = f"former member #{user.pk}"
    assert (user.username, user.email, user.first_name, user.is_active) == (former, "", "", False)
    assert not user.has_usable_password()
    assert not user.groups.exists()
    assert people.keys_of(user).count() == 0
    assert Label.objects.get().author == user
    assert theirs.get("/account/").status_code == 302
    assert not ScimPerson.objects.exists()
    left = {name: count for _words, name, count in personal.counts(user) if not name.startswith("agents_app.")}
    assert set(left) == {"account", "datasets_app.label.author"}
    for entry in AuditEntry.objects.all():
        assert NAME not in f"{entry.actor_name} {entry.target} {json.dumps(entry.detail)}"
    told = AuditEntry.objects.get(action="person.erased")
    assert (told.actor, told.target) == (person("admin"), former)
    assert AuditEntry.objects.get(action="person.role").detail == {"who": f"{former} and others", "by": [former]}
    assert LogEntry.objects.get(object_id=str(user.pk)).object_repr == former
    assert Label.objects.get().query.origin == f"sent by {former}"
    assert former in admin.get("/people/").content.decode()
    for refused in (lambda: personal.erase(user, None), lambda: people.reactivate(user, None)):
        with pytest.raises(people.PeopleError):
            refused()


def test_a_name_inside_another_stays(person: Callable[[str], User], pool: Pool) -> None:
    ana = User.objects.create_user("ana", "", "a long enough one")
    audit.record("person.role", actor=None, target="ana@example.com", detail={"who": "banana, ana, diana, ana-b"})
    personal.erase(ana, None)
    entry = AuditEntry.objects.get(action="person.role")
    assert entry.target == "ana@example.com"
    assert entry.detail == {"who": f"banana, former member #{ana.pk}, diana, ana-b"}


def test_nobody_erases_the_last_admin_or_a_superuser(person: Callable[[str], User]) -> None:
    admin = person("admin")
    with pytest.raises(people.PeopleError, match="last active admin"):
        personal.erase(admin, admin)
    boss = User.objects.create_superuser("boss", "", "a long enough one")
    with pytest.raises(people.PeopleError, match="superuser"):
        personal.erase(boss, admin)
    personal.erase(admin, admin)
    assert AuditEntry.objects.get(action="person.erased").actor_name == f"former member #{admin.pk}"


def test_a_name_is_replaced_in_every_column_that_declares_a_persons_name(lea: User) -> None:
    changed = {}
    for model in holds.tables():
        for field in holds.columns(model, Content.PERSON):
            row = model._base_manager.first()
            if model is not User and row is not None and not isinstance(field, models.GenericIPAddressField):
                value = {"by": [f"said by {NAME}"]} if isinstance(field, models.JSONField) else f"by {NAME.upper()}"
                model._base_manager.filter(pk=row.pk).update(**{field.name: value})
                changed[f"{model._meta.label}.{field.name}"] = (model, field.name)
    assert {"agents_app.AuditEntry.actor_name", "datasets_app.Label.provenance"} <= set(changed)
    personal.erase(lea, None)
    for name, (model, column) in changed.items():
        assert NAME not in json.dumps(list(model._base_manager.values_list(column, flat=True))).casefold(), name


def test_alarms_are_mailed_to_an_erased_member_no_longer(lea: User, pool: Pool) -> None:
    receiver = AlarmReceiver.objects.create(pool=pool, kind="email", address=NAME)
    delivery = AlarmDelivery.objects.create(receiver=receiver, event="alarm.opened", body="{}")
    personal.erase(lea, None)
    receiver.refresh_from_db()
    delivery.refresh_from_db()
    assert receiver.removed_at
    assert NAME not in receiver.address
    assert delivery.status == "failed"
    with pytest.raises(deliveries.ReceiverRefused):
        deliveries.restore_receiver(receiver, lea)
