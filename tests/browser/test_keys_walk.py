"""A key's page: its secret is rotated and shown once, its quota set. At a desk, on a phone and in the dark."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from agents_app import keys, pools
from agents_app.models import ApiKey, KeyMonth, ScimGroup
from tests.browser.axe import findings
from tests.browser.conftest import overflow
from tests.browser.test_four_eyes_walk import LOOKS, picture

pytestmark = pytest.mark.at_length


@pytest.fixture
def key(transactional_db: None) -> ApiKey:
    pool = pools.create_pool("Support", "support")
    for name in ("analytics", "nightly batch"):
        keys.create_key(name, [pool], ["route", "ops"], None)
    made, _secret = keys.create_key("webshop", [pool], ["route"], expires_at=timezone.now() + timedelta(days=5))
    return made


@pytest.mark.parametrize("look", LOOKS)
def test_a_key_is_rotated_and_gets_a_quota(sign_in, person, key, look, request):
    page = sign_in(person("olga", "ops"), **look).new_page()
    page.goto("/p/support/settings/keys/")
    page.get_by_role("link", name="webshop", exact=True).click()
    expect(page.get_by_text("It expires soon")).to_be_visible()
    page.get_by_label("Queries a month").fill("1000")
    page.get_by_role("button", name="Save the quota").click()
    expect(page.get_by_text("0 of 1,000 queries, 1,000 left")).to_be_visible()
    begins, _ends = KeyMonth.span(timezone.now().timestamp())
    KeyMonth.objects.create(api_key=key, month=begins.date(), queries=843)
    page.get_by_label("The old secret works for").select_option("24h")
    page.get_by_label("Key expires after days").fill("90")
    page.get_by_role("button", name="Make a new secret").click()
    expect(page.get_by_text("Copy it now.")).to_be_visible()
    assert page.locator("#secret").inner_text().startswith("rw_")
    expect(page.get_by_text("843 of 1,000 queries, 157 left")).to_be_visible()
    expect(page.get_by_role("button", name="End it now")).to_be_visible()
    assert overflow(page) == 0
    assert findings(page) == []
    name = request.node.callspec.id
    picture(page, f"key-{name}")
    page.goto("/p/support/settings/keys/")
    assert overflow(page) == 0
    picture(page, f"keys-{name}")


@pytest.mark.parametrize("look", LOOKS)
def test_a_provider_gets_a_token_and_a_group_a_role(sign_in, person, key, look, request, settings):
    settings.SCIM = True
    ScimGroup.objects.create(name="Routing people")
    ScimGroup.objects.create(name="routerweb-support-labeler", role="labeler", pool=key.pools.get())
    page = sign_in(person("ada", "admin"), **look).new_page()
    page.goto("/people/")
    page.get_by_role("link", name="Provisioning").click()
    page.get_by_label("Name", exact=True).fill("Okta")
    page.get_by_role("button", name="Make a token").click()
    assert page.locator("#secret").inner_text().startswith("rwscim_")
    assert overflow(page) == 0
    assert findings(page) == []
    picture(page, f"provisioning-{request.node.callspec.id}")
    page.get_by_label("Role of Routing people", exact=True).select_option("ops")
    page.get_by_role("button", name="Change the role of Routing people").click()
    expect(page.get_by_text("have their role")).to_be_visible()
    assert ScimGroup.objects.get(name="Routing people").role == "ops"
    if request.node.callspec.id == "desk":
        # On a small screen tables wrap before they are cut, and the sections of the settings stand in two lines at most.
        page.set_viewport_size({"width": 960, "height": 800})
        for address in ("/people/", "/p/support/settings/keys/"):
            page.goto(address)
            expect(page.locator(".rw-cut")).to_have_count(0)
            assert page.locator(".rw-tabs a").evaluate_all("tabs => new Set(tabs.map(tab => tab.offsetTop)).size") <= 2
