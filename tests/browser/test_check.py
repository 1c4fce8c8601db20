"""Checking live answers by keys: agents, nobody, skip, undo, and a switch that turns them off."""

import uuid

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from playwright.sync_api import Page, expect

from tests.browser.axe import findings
from tests.browser.conftest import overflow
from tests.browser.test_labeling import make_pool
from training_app.models import CheckedAnswer, Decision, RouterModel


@pytest.mark.at_length
def test_a_round_by_keys(sign_in, person):
    model = RouterModel.objects.create(
        pool=make_pool(3, []), version=1, state="active", artifact_digest="", artifact_bytes=0
    )
    for n in range(5):
        Decision.objects.create(
            id=uuid.uuid4(), pool=model.pool, model=model, text=f"query {n}", agents=[0], scores={}, confidence=0.9, steps=1,
            stop_reason="stop", microseconds=300, at=timezone.now(),
        )  # fmt: skip
    ops = person("oda", "ops")
    ops.groups.add(Group.objects.get_or_create(name="labeler")[0])
    page: Page = sign_in(ops).new_page()
    page.goto(f"/p/{model.pool.slug}/check/")
    page.get_by_role("button", name="Check 30 answers").click()
    expect(page.get_by_text("0 of 5 checked")).to_be_visible()
    page.wait_for_load_state()  # its scripts listen

    def press(*keys: str) -> None:
        for key in keys:
            page.keyboard.press(key)

    first = page.locator("input[name=agent]").first
    press("0", "1")
    expect(first).to_be_checked()
    expect(page.locator("input[name=none]"), "an agent takes nobody back").not_to_be_checked()
    assert findings(page) == []
    assert overflow(page) == 0
    for keys, said in (
        (("Enter",), "1 of 5 checked"), (("2", "Enter"), "2 of 5 checked"), (("z",), "1 of 5 checked"),
        (("0", "Enter"), "2 of 5 checked"), (("s",), "2 of 4 checked"),
    ):  # fmt: skip
        press(*keys)
        expect(page.get_by_text(said)).to_be_visible()
    page.get_by_label("Single-key shortcuts").uncheck()
    page.locator("h2").first.click()
    press("1", "s")
    expect(first).not_to_be_checked()
    page.get_by_label("Single-key shortcuts").check()
    for left in (1, 0):
        press("1", "Enter")
        expect(page.get_by_text("3 of 4 checked" if left else "What was wrong in the last round")).to_be_visible()
    assert sorted(map(str, CheckedAnswer.objects.values_list("required", flat=True))) == ["[0]", "[0]", "[0]", "[]"]
