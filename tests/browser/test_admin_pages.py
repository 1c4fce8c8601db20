"""The admin's lists and forms, each with something on it: no serious or critical finding of axe-core, at a desk
and on a phone, in light and in dark. `make test` looks at one of each kind."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import RequestFactory
from django.urls import reverse
from django.utils import timezone
from django_q.models import Failure, Schedule, Task

from agents_app import keys
from agents_app.models import BackgroundJob, Pool
from datasets_app.files import imports
from datasets_app.labeling import bulk
from datasets_app.models import Dataset, Query
from tests import orchestration
from tests.browser.axe import findings, on_a_phone
from tests.browser.test_everybody import trained_pool  # noqa: F401
from tests.browser.test_review import worked  # noqa: F401
from tests.thorough import EVERYTHING

#: All lists are drawn by one template, and all forms by another.
ON_A_PHONE = ("index", "Query list", "Query form", "User form", "RouterModel form")


@pytest.fixture
def filled(worked: Pool, trained_pool: Pool, person) -> User:  # noqa: F811
    """An admin, and something of every kind that the admin shows."""
    adam = person("adam", "admin")
    User.objects.filter(pk=adam.pk).update(is_superuser=True)
    keys.create_key("Shop", [worked, trained_pool], ["route"])
    BackgroundJob.objects.create(work="mail")
    dataset = Dataset.objects.get(pool=worked)
    imports.read_file(dataset, io.BytesIO(b'{"text": "one more"}\n{"text": ""}\n'), "jsonl", file_name="more.jsonl")
    bulk.apply(worked, Query.objects.filter(dataset__pool=worked), bulk.ADD, worked.agents.first(), author=adam)
    if orchestration.INSTALLED:
        _orchestrated(worked, adam)
    now = timezone.now()
    Schedule.objects.create(name="nightly", func="training_app.training.tasks.prune", next_run=now + timedelta(days=1))
    Task.objects.create(
        id="0" * 32,
        name="failed",
        func="training_app.training.tasks.execute",
        started=now,
        stopped=now,
        success=False,
        result="No.",
    )
    assert Failure.objects.exists()
    return User.objects.get(pk=adam.pk)


def _orchestrated(pool: Pool, by: User) -> None:
    from orchestration_app import executors, providers
    from orchestration_app.models import Episode, Executor

    executors.save(pool.agents.first(), {"kind": Executor.Kind.SCRIPTED, "script": {"do": "echo"}}, actor=by)
    acme = providers.save_provider(pool, "acme", actor=by)
    providers.save(pool.agents.first(), acme, {"model": "large"}, actor=by)
    Episode.objects.create(pool=pool, task="say something", policy="fixed order")


def addresses(user: User) -> dict[str, str]:
    """Every list, form and empty form of the admin that this person may open, by what it is."""
    request = RequestFactory().get("/")
    request.user = user
    found = {"index": reverse("admin:index")}
    for model, of in admin.site._registry.items():
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        if not of.has_view_permission(request):
            continue
        found[f"{model.__name__} list"] = reverse(f"{name}_changelist")
        some: Any = of.get_queryset(request).order_by("-pk").first()
        assert some is not None, f"there is no {model.__name__} to look at"
        found[f"{model.__name__} form"] = reverse(f"{name}_change", args=[some.pk])
        if of.has_add_permission(request):
            found[f"{model.__name__} new"] = reverse(f"{name}_add")
    return found


@pytest.mark.any_database
@pytest.mark.at_length
def test_every_list_and_form_of_the_admin_can_be_used_by_everybody(sign_in, filled):
    page = sign_in(filled).new_page()
    page.set_default_timeout(60_000)
    wrong: dict[str, list[str]] = {}
    looked_at = addresses(filled)
    if not EVERYTHING:
        looked_at = {what: looked_at[what] for what in ON_A_PHONE}
    for what, path in looked_at.items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, what
        page.set_viewport_size({"width": 1280, "height": 800})
        found = findings(page)
        if what in (ON_A_PHONE if EVERYTHING else ON_A_PHONE[1:3]):
            found += on_a_phone(page)
        if found:
            wrong[what] = found
    assert wrong == {}
