"""Home: what each role sees."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Pool
from datasets_app.labeling import queue
from datasets_app.queries import adding
from datasets_app.queries.adding import NewQuery
from tests.clients import signed_in
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
    client = signed_in(person("labeler"))
    page = client.get("/").content.decode()
    assert "You labeled 0 queries today" in page
    assert "Active model" not in page
    assert "/runs/" not in page


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("de", ("Was auf Sie wartet", "6 Anfragen zu markieren, etwa 1 Minute", "Wen fragen?", "Schreiben")),
        ("ru", ("Что вас ждёт", "6 запросов для разметки, около 1 минуты", "Кого спросить?", "Написать")),
    ],
)
def test_a_labelers_home_speaks_one_language(
    pool: Pool, browser: Client, person: Callable[[str], User], language: str, words: tuple[str, ...]
) -> None:
    adding.send(pool, [NewQuery(f"question {number}") for number in range(6)], actor=None)
    queue.fill(pool)
    User.objects.update(email="olga@example.com")
    client = Client(headers={"Accept-Language": language})
    client.force_login(person("labeler"))
    page = client.get("/").text
    assert [word for word in words if word not in page] == []


def test_home_without_a_pool_makes_one(browser: Client) -> None:
    page = browser.get("/").content.decode()
    assert 'action="/pools/new/"' in page
    assert "Make the pool" in page


def test_home_without_a_pool_of_somebody_who_may_make_none(person: Callable[[str], User]) -> None:
    client = signed_in(person("labeler"))
    page = client.get("/").content.decode()
    assert "No pools yet" in page
    assert 'action="/pools/new/"' not in page
