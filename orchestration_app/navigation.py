"""What this package adds to the shell of the pages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Exists, OuterRef
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents_app.access import Role
from agents_app.models import Pool
from agents_app.navigation import Entry
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


def waits(pool: Pool) -> Sequence[tuple[str, str, str]]:
    """For the hook `waits_for_ops`: episodes whose agents ask something, or whose calls somebody has to approve."""
    count = Episode.objects.filter(pool=pool, status=Episode.Status.WAITING).count()
    if not count:
        return ()
    words = ngettext("%(n)d episode waits for a person", "%(n)d episodes wait for a person", count) % {"n": count}
    return [(words, _("Look"), f"{reverse('episodes', args=[pool.slug])}?status=waiting")]


def sections() -> Iterable[Section]:
    """For the hook `settings_sections`."""
    return (
        Section("settings_executors", _("Executors"), {Role.OPS}, after="settings_live"),
        Section("settings_backends", _("Backends"), {Role.OPS}, after="settings_executors"),
    )
