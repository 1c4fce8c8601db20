from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.db.models import Model
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpResponse
    from django.urls import URLPattern
    from rest_framework.serializers import Field

    from agents_app.access import Role
    from agents_app.models import Pool
    from routerweb.erasing import RowRule
    from training_app.api.views.base import ApiView
    from training_app.installation import DemoPool


class OrchestrationAppConfig(AppConfig):
    name = "orchestration_app"
    verbose_name = _("Agents that are called")

    def ready(self) -> None:
        from orchestration_app import ending, gauges, kinds, navigation, readiness, schedules
        from orchestration_app.backends import assigned, preferences, state
        from routerweb import hooks

        hooks.model_kinds.register(kinds.kinds)
        hooks.models_loaded.register(state.load)
        hooks.answer_made.register(assigned.to_answer)
        hooks.request_options.register(preferences.options)
        hooks.answer_fields.register(answer_fields)
        hooks.outcome_fields.register(outcome_fields)
        hooks.outcome_reported.register(keep_served)
        hooks.api_addresses.register(addresses)
        hooks.chat_answered.register(chat_answered)
        hooks.chat_models.register(chat_models)
        hooks.job_kinds.register(schedules.kinds)
        hooks.background_work.register(schedules.work)
        hooks.processes.register(schedules.processes)
        hooks.pool_put_away.register(ending.of_putting_away)
        hooks.pool_contents.register(ending.holds)
        hooks.row_rules.register(episode_rules)
        hooks.waits_for_ops.register(navigation.waits)
        hooks.pool_costs.register(navigation.costs)
        hooks.newest_answers.register(navigation.newest)
        hooks.run_problems.register(readiness.run_problems)
        hooks.sealed_models.register(sealed)
        hooks.role_permissions.register(permissions)
        hooks.sidebar_entries.register(navigation.entries)
        hooks.pool_annotations.register(navigation.annotations)
        hooks.settings_sections.register(navigation.sections)
        hooks.gauges.register(gauges.gauges)
        hooks.demo_pools.register(demo_pools)


# What calls agents is loaded with its first use: most processes never need it.


def episode_rules() -> "Sequence[RowRule]":
    """How somebody's data are erased from episodes."""
    from orchestration_app.episodes import erasing

    return erasing.rules()


def answer_fields() -> "Mapping[str, Field[Any, Any, Any, Any]]":
    """What an answer of the API says of backends."""
    from orchestration_app.api import backend_serializers

    return backend_serializers.answer_fields()


def outcome_fields() -> "Mapping[str, Field[Any, Any, Any, Any]]":
    """What an outcome may report of backends."""
    from orchestration_app.api import backend_serializers

    return backend_serializers.outcome_fields()


def keep_served(pool: "Pool", decision: "UUID", report: Mapping[str, Any]) -> None:
    """Store which backends served a decision."""
    from orchestration_app.api import outcomes

    outcomes.keep_served(pool, decision, report)


def addresses() -> "Sequence[URLPattern]":
    """The API's addresses of episodes."""
    from orchestration_app.api import urls

    return urls.patterns()


def chat_answered(view: "ApiView", body: Mapping[str, Any]) -> "HttpResponse | None":
    """The answer of a pool's agents as a chat completion."""
    from orchestration_app.api import gateway

    return gateway.chat(view, body)


def chat_models(pools: Sequence[str]) -> Sequence[str]:
    """The pools whose agents answer."""
    from orchestration_app.api import gateway

    return gateway.models(pools)


def demo_pools() -> "Sequence[DemoPool]":
    """The demo pool whose agents are called."""
    from orchestration_app import demo

    return demo.pools()


def sealed() -> Iterable[type[Model]]:
    """The models that keep a secret."""
    from orchestration_app.models import Executor, Provider

    return Executor, Provider


def permissions(role: "Role") -> Mapping[str, Mapping[str, str]]:
    """Ops and admins look at everything; pages change it."""
    return {"orchestration_app": {"*": "v"}} if role in ("ops", "admin") else {}
