"""The second factor: asked for after the password, kept sealed, each code once, asked of whom the site says, reset by admins."""

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from allauth.account.internal.flows.login import record_authentication
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client, RequestFactory

from agents_app import keys, sealing
from agents_app.accounts import people, second_factor
from agents_app.models import AuditEntry, Pool, PoolRole
from agents_app.views import second_factor as views
from tests.at_once import at_once

pytestmark = pytest.mark.django_db
PASSWORD = "a long enough one"
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


def code(which: int = 0, secret: str = SECRET) -> str:
    """A code that is right now: of the half minute before (0), of this one (1), of the next (2)."""
    return format_hotp_value(hotp_value(secret, list(yield_hotp_counters_from_time())[which]))


def with_factor(user: User) -> list[str]:
    return second_factor.turn_on(user, SECRET, code())


def sign_in(client: Client, login: str = "ops@example.com", **more: str) -> Any:
    return client.post("/login/", {"login": login, "password": PASSWORD, **more})


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))


def test_a_code_is_asked_for_after_the_password_and_signs_in_once(
    client: Client, person: Callable[[str], User]
) -> None:
    with_factor(person("ops"))
    answer = sign_in(client, next="/audit/")
    assert (answer.status_code, answer["Location"], signed_in(client)) == (302, "/login/second-factor/", False)
    assert "ops@example.com" in client.get("/login/second-factor/").content.decode()
    wrong = client.post("/login/second-factor/", {"code": "000000"})
    assert "This code is wrong" in wrong.content.decode()
    assert not signed_in(client)
    now = code(1)
    right = client.post("/login/second-factor/", {"code": now})
    assert (right.status_code, right["Location"], signed_in(client)) == (302, "/audit/", True)
    assert "routerweb_known" in right.cookies
    assert client.get("/login/second-factor/").status_code == 302
    # Whoever looked over the shoulder cannot use it again, though its half minute may still run.
    other = Client()
    sign_in(other)
    cache.delete(f"allauth.mfa.totp.used?user={person('ops').pk}&code={now}")
    assert other.post("/login/second-factor/", {"code": now}).status_code == 200
    assert not signed_in(other)


def test_neither_door_leads_past_it(client: Client, person: Callable[[str], User]) -> None:
    with_factor(person("admin"))
    assert client.get("/admin/login/?next=/admin/")["Location"] == "/login/?next=%2Fadmin%2F"
    sign_in(client, "admin@example.com", next="/admin/")
    assert client.post("/admin/login/", {"username": "admin@example.com", "password": PASSWORD}).status_code == 302
    assert client.get("/admin/")["Location"].startswith("/admin/login/")
    assert client.get("/people/")["Location"].startswith("/login/")
    assert client.get("/login/")["Location"] == "/login/second-factor/"
    assert client.post("/login/second-factor/", {"cancel": "1"})["Location"] == "/login/"
    assert client.get("/login/").status_code == 200
    assert client.get("/login/second-factor/")["Location"] == "/login/"


def test_a_recovery_code_signs_in_once_and_is_told_of(client: Client, person: Callable[[str], User]) -> None:
    codes = with_factor(person("ops"))
    assert len(set(codes)) == 10 == second_factor.codes_left(person("ops"))
    sign_in(client)
    assert client.post("/login/second-factor/", {"code": f"{codes[3][:4]} {codes[3][4:]}"}).status_code == 302
    assert signed_in(client)
    assert second_factor.codes_left(person("ops")) == 9
    assert actions()[-1] == "person.recovery_code_used"
    again = Client()
    sign_in(again)
    assert again.post("/login/second-factor/", {"code": codes[3]}).status_code == 200


def test_guesses_are_limited_for_each_person(client: Client, person: Callable[[str], User]) -> None:
    with_factor(person("ops"))
    sign_in(client)
    for _guess in range(5):
        assert "This code is wrong" in client.post("/login/second-factor/", {"code": "000000"}).content.decode()
    assert "Too many failed" in client.post("/login/second-factor/", {"code": code(1)}).content.decode()
    # From elsewhere, too: the password is known to who guesses.
    other = Client(REMOTE_ADDR="10.0.0.9")
    sign_in(other)
    assert "Too many failed" in other.post("/login/second-factor/", {"code": code(1)}).content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["app", "recovery"])
def test_one_right_code_from_eight_sessions_at_once_uses_up_no_guess(person: Callable[[str], User], kind: str) -> None:
    recovery = with_factor(person("ops"))
    right, later = (code(1), code(2)) if kind == "app" else (recovery[0], recovery[1])
    clients = [Client() for _session in range(8)]
    for browser in clients:
        sign_in(browser)
    answers = at_once(8, lambda number: clients[number].post("/login/second-factor/", {"code": right}))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [302]
    refused = [answer.content.decode() for answer in answers if answer.status_code == 200]
    assert all("This code is wrong" in page for page in refused)
    out = next(browser for browser, answer in zip(clients, answers, strict=True) if answer.status_code == 200)
    for _time in range(6):
        assert "This code is wrong" in out.post("/login/second-factor/", {"code": right}).content.decode()
    late = Client()
    sign_in(late)
    assert late.post("/login/second-factor/", {"code": later}).status_code == 302, "the guess limit is untouched"


def test_what_is_stored_is_sealed(person: Callable[[str], User], settings: Any) -> None:
    codes = with_factor(person("ops"))
    stored = " ".join(str(row) for row in Authenticator.objects.values_list("data", flat=True))
    assert SECRET not in stored
    assert not any(each in stored for each in codes)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another one, and long", [settings.SECRET_KEY]
    assert second_factor.reseal() == 2
    settings.SECRET_KEY_FALLBACKS = []
    secret = Authenticator.objects.get(type="totp").data["secret"]
    assert sealing.opened(secret) == SECRET


def test_a_lost_secret_key_is_said_and_no_error(client: Client, person: Callable[[str], User]) -> None:
    with_factor(person("ops"))
    for kept in Authenticator.objects.all():
        kept.data = {name: "x" if name in ("secret", "seed") else value for name, value in kept.data.items()}
        kept.save()
    sign_in(client)
    answer = client.post("/login/second-factor/", {"code": "123456"})
    assert "cannot be read any more" in answer.content.decode()


def test_the_picture_holds_what_an_app_reads(person: Callable[[str], User]) -> None:
    address = second_factor.Adapter().build_totp_url(person("ops"), SECRET)
    assert address == f"otpauth://totp/ops%40example.com?secret={SECRET}&issuer=Routerweb"


def offered(page: Any) -> str:
    """The secret that a set-up page shows."""
    return re.search(r'<code id="key">([A-Z2-7 ]+)<', page.content.decode())[1].replace(" ", "")  # type: ignore[index]


def sealed(page: Any) -> dict[str, str]:
    """The secret as the form sends it back."""
    return {"offered": html.unescape(re.search(r'name="offered" value="([^"]+)"', page.content.decode())[1])}  # type: ignore[index]


def test_it_is_set_up_by_a_code_and_the_password(client_of: Callable[[str], Client]) -> None:
    client = client_of("labeler")
    page = client.get("/account/second-factor/")
    secret = offered(page)
    assert "<svg" in page.content.decode()
    assert secret not in str(sealed(page))
    now = code(1, secret)
    for sent, said in (
        ({"code": now, "password": "wrong"}, "This is not your password"),
        ({"code": "000000", "password": PASSWORD}, "This code is wrong"),
    ):
        answer = client.post("/account/second-factor/", sent | sealed(page)).content.decode()
        assert said in answer
        assert secret[:4] in answer
    assert not Authenticator.objects.exists()
    done = client.post("/account/second-factor/", {"code": now, "password": PASSWORD, **sealed(page)}).content.decode()
    codes = re.findall(r"\b(\d{4} \d{4})\b", done)
    assert len(set(codes)) == 10
    assert "data:text/plain" in done
    assert actions() == ["person.second_factor_on"]
    again = client.get("/account/").content.decode()
    assert "10 recovery codes are left" in again
    assert codes[0] not in again
    assert client.get("/account/second-factor/")["Location"] == "/account/"


def test_turning_it_on_ends_the_other_sessions(client_of: Callable[[str], Client]) -> None:
    client, other = client_of("labeler"), client_of("labeler")
    page = client.get("/account/second-factor/")
    client.post("/account/second-factor/", {"code": code(1, offered(page)), "password": PASSWORD, **sealed(page)})
    assert (client.get("/account/").status_code, other.get("/account/").status_code) == (200, 302)


def test_who_has_no_password_turns_it_off_by_a_code(client: Client, person: Callable[[str], User]) -> None:
    user = person("ops")
    with_factor(user)
    user.set_unusable_password()
    user.save()
    client.force_login(user)
    assert 'name="password"' not in client.get("/account/second-factor/off/").content.decode()
    for sent in ({}, {"code": "000000"}):
        assert client.post("/account/second-factor/off/", sent).status_code == 200
        assert second_factor.has_one(user)
    assert client.post("/account/second-factor/off/", {"code": code(1)}).status_code == 302
    assert not second_factor.has_one(user)


def test_new_codes_end_the_old_ones_and_off_asks_for_the_password(
    client_of: Callable[[str], Client], person: Callable[[str], User]
) -> None:
    client, user = client_of("labeler"), person("labeler")
    old = with_factor(user)
    assert "not your password" in client.post("/account/second-factor/codes/", {"password": "no"}).content.decode()
    new = client.post("/account/second-factor/codes/", {"password": PASSWORD}).content.decode()
    assert old[0][:4] + " " + old[0][4:] not in new
    assert "not your password" in client.post("/account/second-factor/off/", {"password": "no"}).content.decode()
    assert second_factor.has_one(user)
    assert client.post("/account/second-factor/off/", {"password": PASSWORD})["Location"] == "/account/"
    assert not Authenticator.objects.exists()
    assert actions()[1:] == ["person.recovery_codes", "person.second_factor_off"]
    for _guess in range(10):
        client.post("/account/second-factor/off/", {"password": "no"})
    assert "Too many attempts" in client.post("/account/second-factor/off/", {"password": PASSWORD}).content.decode()


@pytest.mark.parametrize(
    ("asked", "led"), [("nobody", ()), ("ops", ("ops", "admin")), ("everybody", ("labeler", "ops", "admin"))]
)
def test_whom_the_site_asks_reaches_nothing_else(
    client_of: Callable[[str], Client], person: Callable[[str], User], settings: Any, asked: str, led: tuple[str, ...]
) -> None:
    settings.SECOND_FACTOR = asked
    for role in ("labeler", "ops", "admin"):
        client = client_of(role)
        page = client.get("/glossary/?x=1")
        if role not in led:
            assert page.status_code == 200
            continue
        assert page["Location"] == "/account/second-factor/?next=%2Fglossary%2F%3Fx%3D1"
        for path in ("/", "/admin/", "/account/", "/admin/password_change/"):
            assert client.get(path)["Location"].startswith("/account/second-factor/?next=")
        assert client.post("/account/sessions/").status_code == 403
        page = client.get("/account/second-factor/?next=/glossary/")
        assert "This site requires a second factor" in page.content.decode()
        assert "nav-sidebar" not in page.content.decode()
        sent = {"code": code(1, offered(page)), "password": PASSWORD, **sealed(page)}
        done = client.post("/account/second-factor/?next=/glossary/", sent)
        assert 'href="/glossary/"' in done.content.decode()
        assert client.get("/glossary/").status_code == 200
        refused = client.post("/account/second-factor/off/", {"password": PASSWORD})
        assert "you cannot turn yours off" in refused.content.decode()
        assert second_factor.has_one(person(role))
        other = client_of(role)
        assert other.post("/admin/logout/")["Location"] == "/login/"


def test_a_role_in_one_pool_counts(person: Callable[[str], User], pool: Pool, settings: Any) -> None:
    settings.SECOND_FACTOR = "ops"
    user = User.objects.create_user("here@example.com", "", PASSWORD)
    assert not second_factor.is_asked_of(user)
    PoolRole.objects.create(user=user, pool=pool, role="ops")
    assert second_factor.is_asked_of(User.objects.get(pk=user.pk))


@pytest.mark.parametrize("setting", [False, True])
def test_who_comes_by_the_provider_is_exempt_unless_the_setting_says_otherwise(
    client: Client, person: Callable[[str], User], settings: Any, setting: bool
) -> None:
    settings.SECOND_FACTOR, settings.SECOND_FACTOR_OIDC = "everybody", setting
    user = person("ops")
    for method in ("socialaccount", "password"):
        client.force_login(user)
        request = RequestFactory().get("/")
        request.session, request.user = client.session, user
        record_authentication(request, user, method)
        request.session.save()
        assert second_factor.is_missing(request) is (setting or method == "password")
        assert client.get("/glossary/").status_code == (302 if setting or method == "password" else 200)


def test_api_keys_know_nothing_of_it(client: Client, pool: Pool, person: Callable[[str], User], settings: Any) -> None:
    settings.SECOND_FACTOR = "everybody"
    _key, secret = keys.create_key("shop", [pool], ["route"], created_by=person("ops"))
    answer = client.get("/api/agents/?pool=support", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 200


def test_admins_reset_it_and_it_is_audited(
    client_of: Callable[[str], Client], person: Callable[[str], User], client: Client
) -> None:
    user = person("labeler")
    theirs = client_of("labeler")
    with_factor(user)
    admin = client_of("admin")
    assert "Reset second factor" in admin.get("/people/").content.decode()
    assert admin.post(f"/people/{user.pk}/second-factor/").status_code == 302
    assert not Authenticator.objects.exists()
    assert theirs.get("/glossary/").status_code == 302  # signed out
    assert actions()[-1] == "person.second_factor_reset"
    sign_in(client, "labeler@example.com")
    assert signed_in(client)
    boss = User.objects.create_superuser("boss", "", PASSWORD)
    with_factor(boss)
    admin.post(f"/people/{boss.pk}/second-factor/")
    assert second_factor.has_one(boss)
    with pytest.raises(people.PeopleError):
        second_factor.reset(boss, person("admin"))
    call_command("reset_second_factor", "boss")
    assert not second_factor.has_one(boss)


def test_codes_forms_are_ours() -> None:
    from allauth.mfa import app_settings

    assert {"authenticate": f"{views.CodeForm.__module__}.{views.CodeForm.__qualname__}"} == app_settings.FORMS
