"""Home: what each role sees."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Pool
from training_app.models import RouterModel, Run
from training_app.versions import registry


@pytest.mark.at_length
def test_home_of_ops(done: Run, browser: Client, pool: Pool) -> None:
    page = browser.get("/").content.decode()
    assert "No model is active" in page
    registry.promote(RouterModel.objects.get(), actor=None)
    page = browser.get("/").content.decode()
    assert "No model is active" not in page
    assert "Too few answers to judge: 12 checked" in page
    assert "0.900" not in page


def test_home_of_a_labeler_has_no_operations(done: Run, person: Callable[[str], User]) -> None:
    client = Client()
    client.force_login(person("labeler"))
    page = client.get("/").content.decode()
    assert "You labeled 0 queries today" in page
    assert "Active model" not in page
    assert "/runs/" not in page


def test_home_without_a_pool_makes_one(browser: Client) -> None:
    page = browser.get("/").content.decode()
    assert 'action="/pools/new/"' in page
    assert "Make the pool" in page


def test_home_without_a_pool_of_somebody_who_may_make_none(person: Callable[[str], User]) -> None:
    client = Client()
    client.force_login(person("labeler"))
    page = client.get("/").content.decode()
    assert "No pools yet" in page
    assert 'action="/pools/new/"' not in page
