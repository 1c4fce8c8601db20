"""One person's data: a customer's is found and erased, a member's is given out and erased. At a desk, on a phone and in the dark."""

import pytest
from playwright.sync_api import expect

from agents_app import audit, pools
from agents_app.models import Pool
from datasets_app.queries.adding import NewQuery, send
from tests.browser.axe import findings
from tests.browser.conftest import overflow
from tests.browser.test_four_eyes_walk import LOOKS, picture

pytestmark = pytest.mark.at_length

MAIL = "ana.luz@mail.example"


@pytest.fixture
def pool(transactional_db: None) -> Pool:
    pool = pools.create_pool("Support", "support")
    send(pool, [NewQuery(f"My parcel has not come, please write to {MAIL}"), NewQuery("Another")], actor=None)
    audit.record("query.asked", actor=None, target=MAIL)
    pools.set_guidelines(pool, f"Do not answer {MAIL}.", actor=None)
    return pool


@pytest.mark.parametrize("look", LOOKS)
def test_a_customers_and_a_members_data_are_found_and_erased(sign_in, person, pool, look, request):
    name = request.node.callspec.id
    person("lea", "labeler")
    page = sign_in(person("olga", "admin"), **look).new_page()

    def looked_at(what: str) -> None:
        assert overflow(page) == 0
        assert findings(page) == []
        picture(page, f"{what}-{name}")

    page.goto("/p/support/settings/privacy/")
    page.get_by_role("link", name="Find somebody's data").click()
    page.get_by_label("Search terms").fill(MAIL)
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text("the text is erased everywhere")).to_be_visible()
    page.get_by_text("Show", exact=True).click()
    expect(page.get_by_text("My parcel has not come")).to_be_visible()
    looked_at("personal-data")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download as ZIP").click()
    assert downloading.value.suggested_filename == "personal-data.zip"
    page.get_by_label("I understand that the texts cannot be recovered").check()
    page.get_by_role("button", name="Erase personal data").click()
    expect(page.get_by_text("Anything that still holds it is listed below")).to_be_visible()
    expect(page.get_by_text("Nothing stored holds it.")).to_be_visible()
    looked_at("personal-data-erased")

    page.goto("/people/")
    looked_at("people")
    page.get_by_role("link", name="Data of lea").click()
    looked_at("person-data")
    page.get_by_label("I understand that this cannot be undone").check()
    page.get_by_role("button", name="Erase", exact=True).click()
    expect(page.get_by_text("Erased. What they labeled")).to_be_visible()
    expect(page.get_by_role("rowheader", name="former member #")).to_be_visible()
    page.goto("/account/")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download").click()
    assert downloading.value.suggested_filename == "my-data.zip"
    looked_at("account-whole")
