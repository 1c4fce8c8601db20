"""A new installation offers a pool to look around in."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Pool
from datasets_app.models import Gold
from tests.clients import signed_in
from training_app.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    return signed_in(User.objects.create_superuser("ada@example.com"))


@pytest.mark.at_length
def test_one_button_makes_a_pool_whose_router_trains(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/pools/sample/" in admin.get("/").content.decode()
    home = admin.post("/pools/sample/", follow=True)
    pool = Pool.objects.get()
    assert home.redirect_chain == [("/p/sample/", 302)]
    assert "The sample pool is ready" in home.content.decode()
    assert pool.agents.count() == 10
    assert Gold.objects.filter(query__dataset__pool=pool).count() > 1_000
    run = Run.objects.get()
    assert (run.status, run.promote) == (Run.Status.QUEUED, True)
    admin.post("/pools/sample/")
    assert (Pool.objects.count(), Run.objects.count()) == (1, 1), "a second press makes no second one"


def test_only_who_may_make_pools_makes_it(person: Callable[..., User]) -> None:
    client = signed_in(person("labeler"))
    assert client.post("/pools/sample/").status_code == 403
    assert client.get("/pools/sample/").status_code == 405
    assert not Pool.objects.exists()
