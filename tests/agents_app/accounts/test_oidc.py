"""Single sign-on, walked from the button to the page, against a provider that speaks the protocol over HTTP."""

import json
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal.auth import format_hotp_value, generate_totp_secret, hotp_value
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from agents_app.accounts import people, second_factor
from agents_app.signin import verified_address
from tests.agents_app.accounts.oidc_server import CLIENT_ID, CLIENT_SECRET, Provider

pytestmark = pytest.mark.django_db
ANA = {"sub": "7", "email": "Ana@Example.com", "email_verified": True, "name": "Ana"}


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider, settings: Any) -> Provider:
    running.claims, running.token_claims, running.configuration, running.broken = dict(ANA), {}, {}, {}
    running.sign = running.userinfo = None
    running.asked.clear()
    settings.OIDC_ISSUER, settings.OIDC_NAME = running.issuer, "Example ID"
    settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = CLIENT_ID, CLIENT_SECRET
    return running


@pytest.fixture
def ana(db: None) -> User:
    return people.invite("ana@example.com", "ops", None).user


def at_provider(address: str) -> str:
    """What the browser does with the address that the site sent it to: the path that the provider sends it back to."""
    url = urlsplit(address)
    connection = HTTPConnection(url.netloc, timeout=10)
    connection.request("GET", f"{url.path}?{url.query}")
    answer = connection.getresponse()
    connection.close()
    assert answer.status == 302, answer.status
    back = urlsplit(answer.getheader("Location", ""))
    assert back.netloc == "testserver"
    return f"{back.path}?{back.query}"


def walk(client: Client, **form: str):
    """Press the button, go to the provider and come back. Returns the site's answer to the return."""
    away = client.post("/login/oidc/", form)
    assert away.status_code == 302, away.content
    return client.get(at_provider(away["Location"]))


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_an_invited_person_comes_in_and_nothing_is_stored(client: Client, provider: Provider, ana: User) -> None:
    assert "Sign in with Example ID" in client.get("/login/?next=/audit/").content.decode()
    answer = walk(client, next="/audit/")
    assert (answer.status_code, answer["Location"]) == (302, "/audit/")
    assert client.session["_auth_user_id"] == str(ana.pk)
    assert client.get("/audit/").status_code == 200
    assert provider.asked[-1] == "/userinfo"
    assert "/jwks" in provider.asked
    for model in (SocialAccount, SocialToken, EmailAddress):
        assert not model.objects.exists()
    assert not mail.outbox
    assert walk(Client())["Location"] == "/"


def test_a_password_stays_and_the_link_of_an_invitation_too(client: Client, provider: Provider, ana: User) -> None:
    ana.set_password("horse battery 9")
    ana.save()
    assert walk(client).status_code == 302
    assert client.post("/login/", {"login": "ana@example.com", "password": "horse battery 9"}).status_code == 302
    ana.refresh_from_db()
    assert ana.check_password("horse battery 9")


def test_the_button_is_pressed_not_visited(client: Client, provider: Provider) -> None:
    assert client.get("/login/oidc/")["Location"] == "/login/"
    assert client.post("/login/other/").status_code == 404
    assert not provider.asked


def test_coming_back_leads_nowhere_else(client: Client, provider: Provider, ana: User) -> None:
    assert walk(client, next="https://evil.example/")["Location"] == "/"


@pytest.mark.parametrize("process", ["connect", "redirect"])
def test_no_account_is_tied_to_the_providers(client: Client, provider: Provider, ana: User, process: str) -> None:
    client.force_login(ana)
    provider.claims["sub"] = "another"
    walk(client, process=process)
    assert client.session["_auth_user_id"] == str(ana.pk)
    assert not SocialAccount.objects.exists()


@pytest.mark.parametrize(
    ("claims", "title"),
    [
        ({"email": "eve@example.com"}, "You have no account here"),
        ({"email_verified": False}, "Your address is not verified"),
        ({"email_verified": "false"}, "Your address is not verified"),
        ({"email_verified": None}, "Your address is not verified"),
        ({"email": None}, "Your address is not verified"),
    ],
)
def test_who_is_not_let_in_and_is_told_why(
    client: Client, provider: Provider, ana: User, claims: dict[str, Any], title: str
) -> None:
    provider.claims |= claims
    answer = walk(client)
    assert (answer.status_code, title in answer.content.decode()) == (403, True), answer.content.decode()
    assert not signed_in(client)
    assert User.objects.count() == 1


def test_a_deactivated_person_is_refused(client: Client, provider: Provider, ana: User) -> None:
    people.deactivate(ana, None)
    answer = walk(client)
    assert (answer.status_code, "Your account is deactivated" in answer.content.decode()) == (403, True)
    assert not signed_in(client)


def test_an_address_that_two_accounts_have_is_nobodys(client: Client, provider: Provider) -> None:
    for name in ("ana-one", "ana-two"):
        User.objects.create_user(name, "ana@example.com")
    assert walk(client).status_code == 403


def strange_key(provider: Provider) -> None:
    provider.sign = lambda claims: jwt.encode(claims, provider.strange_key, algorithm="RS256", headers={"kid": "one"})


def unknown_key(provider: Provider) -> None:
    provider.sign = lambda claims: jwt.encode(claims, provider.strange_key, algorithm="RS256", headers={"kid": "two"})


def no_signature(provider: Provider) -> None:
    provider.sign = lambda claims: jwt.encode(claims, None, algorithm="none", headers={"kid": "one"})


def the_clients_secret(provider: Provider) -> None:
    provider.sign = lambda claims: jwt.encode(claims, CLIENT_SECRET * 3, algorithm="HS256", headers={"kid": "one"})


def no_token(provider: Provider) -> None:
    provider.sign = lambda claims: ""


def other_claim(**claims: Any) -> Callable[[Provider], None]:
    return lambda provider: provider.token_claims.update(claims)


def broken(path: str, status: int, content: bytes) -> Callable[[Provider], None]:
    return lambda provider: provider.broken.update({path: (status, content)})


FAULTS = {
    "another key's signature": strange_key,
    "a key that is not published": unknown_key,
    "no signature": no_signature,
    "a signature by the client's secret": the_clients_secret,
    "no ID token": no_token,
    "of another issuer": other_claim(iss="https://evil.example"),
    "for another client": other_claim(aud="another"),
    "out of time": other_claim(exp=int(time.time()) - 3600),
    "without an end": other_claim(exp=None),
    "of another person than the userinfo": other_claim(sub="8"),
    "keys that cannot be read": broken("/jwks", 200, b"<html>"),
    "keys that are no object": broken("/jwks", 200, b"[]"),
    "keys that are away": broken("/jwks", 500, b""),
    "no token for the code": broken("/token", 400, json.dumps({"error": "invalid_grant"}).encode()),
    "a token answer that cannot be read": broken("/token", 200, b"<html>"),
    "a userinfo that is away": broken("/userinfo", 503, b""),
    "a userinfo that is no object": broken("/userinfo", 200, b"[]"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_answer_that_is_not_the_providers_lets_nobody_in(
    client: Client, provider: Provider, ana: User, fault: str
) -> None:
    FAULTS[fault](provider)
    answer = walk(client)
    assert (answer.status_code, "You are not signed in" in answer.content.decode()) == (401, True)
    assert not signed_in(client)


def test_a_state_that_is_not_ours_lets_nobody_in(client: Client, provider: Provider, ana: User) -> None:
    back = at_provider(client.post("/login/oidc/")["Location"])
    code = parse_qs(urlsplit(back).query)["code"][0]
    for path in (f"/login/oidc/callback/?code={code}&state=made-up", f"/login/oidc/callback/?code={code}"):
        assert client.get(path).status_code == 401
    # Somebody else's walk, ended in this browser.
    assert Client().get(back).status_code == 401
    assert not signed_in(client)


def test_a_way_back_works_once(client: Client, provider: Provider, ana: User) -> None:
    back = at_provider(client.post("/login/oidc/")["Location"])
    assert client.get(back).status_code == 302
    client.post("/logout/")
    assert client.get(back).status_code == 401
    assert not signed_in(client)


def test_stopping_at_the_provider_is_no_error(client: Client, provider: Provider) -> None:
    provider.claims = {}
    answer = walk(client)
    assert "You cancelled at Example ID" in answer.content.decode()


@pytest.mark.parametrize(
    "fault",
    [
        broken("/.well-known/openid-configuration", 503, b""),
        broken("/.well-known/openid-configuration", 200, b"<html>"),
        broken("/.well-known/openid-configuration", 200, b"{}"),
        broken("/.well-known/openid-configuration", 200, b"[]"),
        lambda provider: provider.configuration.update(issuer="https://evil.example"),
    ],
)
def test_a_provider_that_is_away_or_another_one_is_said_on_a_page(
    client: Client, provider: Provider, fault: Callable[[Provider], None]
) -> None:
    fault(provider)
    answer = client.post("/login/oidc/")
    assert (answer.status_code, "You are not signed in" in answer.content.decode()) == (401, True)


def test_a_provider_that_does_not_answer_at_all_is_said_on_a_page(
    client: Client, provider: Provider, settings: Any
) -> None:
    settings.OIDC_ISSUER = "http://127.0.0.1:1"
    assert client.post("/login/oidc/").status_code == 401


def test_a_provider_without_userinfo_says_it_in_the_token(client: Client, provider: Provider, ana: User) -> None:
    provider.broken["/userinfo"] = (404, b"{}")
    whole = provider._configuration()
    provider.broken["/.well-known/openid-configuration"] = (
        200,
        json.dumps({name: value for name, value in whole.items() if name != "userinfo_endpoint"}).encode(),
    )
    assert walk(client).status_code == 302
    assert signed_in(client)


def test_an_address_counts_with_its_own_parts_word_for_it_alone() -> None:
    mixed = {"userinfo": {"email": "ana@example.com"}, "id_token": {"email": "eve@example.com", "email_verified": True}}
    assert verified_address(mixed) == "eve@example.com"
    assert verified_address({"userinfo": {"email": "ana@example.com"}, "id_token": {"email_verified": True}}) == ""
    assert verified_address({"userinfo": {"email": ["a"], "email_verified": True}, "id_token": None}) == ""


@pytest.mark.parametrize("setting", [False, True])
def test_the_provider_asks_for_factors_of_its_own_unless_the_setting_says_otherwise(
    client: Client, provider: Provider, ana: User, settings: Any, setting: bool
) -> None:
    settings.SECOND_FACTOR, settings.SECOND_FACTOR_OIDC = "everybody", setting
    secret = generate_totp_secret()
    second_factor.turn_on(ana, secret, format_hotp_value(hotp_value(secret, int(time.time()) // 30)))
    answer = walk(client, next="/audit/")
    assert answer["Location"] == ("/login/second-factor/" if setting else "/audit/")
    assert signed_in(client) is not setting
