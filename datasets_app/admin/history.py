"""What the lists of this package share: history is read-only, and agents are shown by their codes."""

from collections.abc import Iterable

from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from unfold.admin import ModelAdmin, TabularInline

from agents_app.access import Role, roles_of
from agents_app.admin.leading_on import LeadsOn
from agents_app.admin.read_only import ReadOnly
from agents_app.models import Agent, Pool
from agents_app.templatetags.routerweb import agent_chip
from datasets_app.models import Query

NOTHING = "–"


def chips(agents: Iterable[Agent]) -> SafeString | str:
    """Agents by their codes, or a dash for none."""
    drawn = format_html_join(" ", "{}", ((agent_chip(agent, code_only=True),) for agent in agents))
    return drawn or _t("none of these")


def chips_of(numbers: Iterable[int], pool: Pool) -> SafeString | str:
    """The same for ids; the pool's agents must be prefetched where there is more than one row."""
    by_number = {agent.number: agent for agent in pool.agents.all()}
    return chips(by_number[number] for number in numbers if number in by_number)


def asked_chips(numbers: Iterable[int], pool: Pool) -> SafeString | str:
    """The same for the agents that were asked: one word where they were all."""
    everyone = {agent.number for agent in pool.agents.all() if agent.state == Agent.State.ACTIVE}
    return _t("all") if everyone <= set(numbers) else chips_of(numbers, pool)


def excerpt(query: Query) -> str:
    """The query's text in one line of at most 80 characters."""
    return _t("(erased)") if query.erased_at else str(query).replace("\n", " ")


class HistoryAdmin(LeadsOn, ReadOnly, ModelAdmin):
    """A list and a page to look at: nothing of it is added, changed or deleted here."""

    list_per_page = 50
    show_full_result_count = False

    def has_curate_permission(self, request: HttpRequest) -> bool:
        """Whether the person may assign splits, export and take snapshots."""
        return bool(roles_of(request.user) & {Role.REVIEWER, Role.OPS})


class HistoryInline(ReadOnly, TabularInline):
    extra = 0
    can_delete = False
