"""The admin of runs, models and decisions."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.clients import signed_in
from training_app.models import Promotion, RouterModel, Run
from training_app.versions import registry

Make = Callable[..., RouterModel]


@pytest.mark.parametrize("model", ["run", "routermodel", "promotion", "decision"])
def test_the_admin_shows_history_and_changes_none(
    done: Run, browser: Client, model: str, django_user_model: type[User]
) -> None:
    registry.promote(RouterModel.objects.get(), actor=None)
    root = signed_in(django_user_model.objects.create_superuser("root"))
    assert root.get(reverse(f"admin:training_app_{model}_changelist")).status_code == 200
    assert root.get(reverse(f"admin:training_app_{model}_add")).status_code == 403
    if model != "decision":
        row = {"run": Run, "routermodel": RouterModel, "promotion": Promotion}[model].objects.get()
        assert root.get(reverse(f"admin:training_app_{model}_change", args=[row.pk])).status_code == 200
        assert root.post(reverse(f"admin:training_app_{model}_change", args=[row.pk]), {}).status_code == 403
        assert root.post(reverse(f"admin:training_app_{model}_delete", args=[row.pk]), {}).status_code == 403


def test_admin_actions_cancel_relaunch_and_promote(run: Run, make_model: Make, django_user_model: type[User]) -> None:
    root = signed_in(django_user_model.objects.create_superuser("root"))

    def act(model: str, action: str, *rows: int) -> str:
        path = reverse(f"admin:training_app_{model}_changelist")
        answer = root.post(path, {"action": action, "_selected_action": rows}, follow=True)
        return " ".join(str(message) for message in answer.context["messages"])

    assert "is cancelled" in act("run", "cancel", run.pk)
    assert "ended already" in act("run", "cancel", run.pk)
    assert "queued again" in act("run", "launch_again", run.pk)
    first, second = make_model(), make_model()
    assert "only one active" in act("routermodel", "make_active", first.pk, second.pk)
    assert "is active now" in act("routermodel", "make_active", second.pk)
    assert "does not pass the gate" in act("routermodel", "make_active", first.pk)
    assert registry.active(run.pool) == second
