"""What this package adds to the shell of the pages."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, Sum
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents_app.access import Role
from agents_app.models import Pool
from agents_app.navigation import Entry
from agents_app.templatetags.routerweb import money
from agents_app.views.settings import Section
from orchestration_app.models import Episode, Executor


def entries() -> Iterable[Entry]:
    """For the hook `sidebar_entries`."""
    belongs = ("episode",)
    return (
        Entry(
            "episodes",
            gettext_lazy("Episodes"),
            "timeline",
            frozenset({Role.OPS}),
            belongs,
            "orchestrates",
            "decisions",
        ),
    )


def annotations() -> Mapping[str, Any]:
    """For the hook `pool_annotations`: a pool orchestrates where one of its agents is called."""
    return {"orchestrates": Exists(Executor.objects.filter(agent__pool=OuterRef("pk"), active=True))}


def waits(pools: Sequence[Pool]) -> Mapping[int, Sequence[tuple[str, str, str]]]:
    """For the hook `waits_for_ops`: episodes whose agents ask something, or whose calls somebody has to approve."""
    waiting = Episode.objects.filter(pool__in=pools, status=Episode.Status.WAITING).order_by()
    counts = dict(waiting.values_list("pool").annotate(Count("pk")))
    return {pool.pk: [_waiting(pool, counts[pool.pk])] for pool in pools if pool.pk in counts}


def _waiting(pool: Pool, count: int) -> tuple[str, str, str]:
    words = ngettext("%(n)d episode waits for a person", "%(n)d episodes wait for a person", count) % {"n": count}
    return words, _("Look"), f"{reverse('episodes', args=[pool.slug])}?status=waiting"


def newest(pool: Pool) -> Sequence[tuple[datetime, Sequence[int], str]]:
    """For the hook `newest_answers`: the last episode, and whom it called."""
    episode = Episode.objects.filter(pool=pool).order_by("-created_at").only("pk", "created_at").first()
    if episode is None:
        return ()
    called = episode.trajectory.filter(agent__isnull=False).order_by("call").values_list("agent", flat=True)
    agents = list(dict.fromkeys(agent for agent in called if agent is not None))
    return [(episode.created_at, agents, reverse("episode", args=[pool.slug, episode.pk]))]


def costs(pool: Pool, since: datetime) -> Sequence[str]:
    """For the hook `pool_costs`: what calls of agents cost in the episodes since then."""
    month = Episode.objects.filter(pool=pool, created_at__gte=since).aggregate(episodes=Count("pk"), cost=Sum("cost"))
    if not month["episodes"]:
        return ()
    words = ngettext(
        "Calls of agents in %(n)s episode cost %(cost)s.",
        "Calls of agents in %(n)s episodes cost %(cost)s.",
        month["episodes"],
    )
    return [
        words
        % {"n": number_format(month["episodes"], force_grouping=True), "cost": money(month["cost"], pool.currency)}
    ]


def sections() -> Iterable[Section]:
    """For the hook `settings_sections`."""
    return (
        Section("settings_executors", _("Executors"), {Role.OPS}, after="settings_live"),
        Section("settings_backends", _("Backends"), {Role.OPS}, after="settings_executors"),
    )
