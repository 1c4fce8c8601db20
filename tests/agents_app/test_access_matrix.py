"""Every address of this room against every role: who is let in, who is refused, who is asked to sign in."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents_app import keys
from agents_app.models import Pool
from agents_app.urls import urlpatterns

OPS, REVIEWER, ADMIN = {"ops", "admin"}, {"reviewer", "ops", "admin"}, {"admin"}
OPEN = None

# URL name → (who may open it, the arguments it takes besides the pool)
MATRIX = {
    "pool_new": (OPS, ()),
    "agents": (OPS, ("slug",)),
    "agents_export": (OPS, ("slug",)),
    "agent_add": (OPS, ("slug",)),
    "agents_add_several": (OPS, ("slug",)),
    "agent_edit": (OPS, ("slug", "number")),
    "agent_available": (OPS, ("slug", "number")),
    "agent_live": (OPS, ("slug", "number")),
    "agent_retire": (OPS, ("slug", "number")),
    "agent_restore": (OPS, ("slug", "number")),
    "agent_merge": (OPS, ("slug", "number")),
    "settings": (REVIEWER, ("slug",)),
    "settings_pool": (OPS, ("slug",)),
    "settings_keys": (OPS, ("slug",)),
    "key_revoke": (OPS, ("slug", "key")),
    "people": (ADMIN, ()),
    "person_role": (ADMIN, ("user",)),
    "person_link": (ADMIN, ("user",)),
    "person_deactivate": (ADMIN, ("user",)),
    "person_activate": (ADMIN, ("user",)),
    "audit": (OPS, ()),
    "admin_password_reset": (OPEN, ()),
    "password_reset_done": (OPEN, ()),
    "password_reset_complete": (OPEN, ()),
    "password_reset_confirm": (OPEN, ("uid", "token")),
    "account_login": (OPEN, ()),
    "account_inactive": (OPEN, ()),
    "openid_connect_login": (OPEN, ("provider",)),
    "openid_connect_callback": (OPEN, ("provider",)),
    "account_logout": (OPEN, ()),  # the last one: it signs out
}


def test_every_address_stands_in_the_matrix() -> None:
    assert {pattern.name for pattern in urlpatterns} == set(MATRIX)  # type: ignore[union-attr]


@pytest.mark.django_db
@pytest.mark.parametrize("role", ["anonymous", "labeler", "reviewer", "ops", "admin"])
def test_who_is_let_in(
    role: str, client_of: Callable[[str], Client], person: Callable[[str], User], pool: Pool
) -> None:
    key, _secret = keys.create_key("Shop", [pool], ["route"])
    person("admin")
    values = {
        "slug": "support",
        "number": 0,
        "key": key.pk,
        "user": person("labeler").pk,
        "uid": "MQ",
        "token": "a-b",
        "provider": "oidc",
    }
    for name, (allowed, wanted) in MATRIX.items():
        browser = client_of(role)
        path = reverse(name, args=[values[word] for word in wanted])
        for answer in (browser.get(path), browser.post(path)):
            if allowed is OPEN or role in allowed:
                assert answer.status_code in (200, 302, 400, 403, 404, 405), (name, answer.status_code)
                assert "/login/?next=" not in answer.get("Location", ""), name
            elif role == "anonymous":
                assert answer.status_code == 302, name
                assert answer["Location"].startswith("/login/?next="), name
            else:
                assert answer.status_code == 403, name
                assert "Your role does not open this page" in answer.content.decode()
