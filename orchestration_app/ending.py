"""What ends in a pool that is put away, and what goes with it."""

from django.utils.translation import gettext as _

from agents_app.audit import Who
from agents_app.models import Pool
from orchestration_app.episodes import episodes
from orchestration_app.models import UNDER_WAY, Episode


def of_putting_away(pool: Pool, actor: Who) -> None:
    """Cancel the episodes that are under way."""
    for episode in Episode.objects.filter(pool=pool, status__in=UNDER_WAY).select_related("pool"):
        try:
            episodes.cancel(episode, actor=actor)
        except episodes.EpisodeError:
            continue  # it has ended meanwhile


def holds(pool: Pool) -> list[tuple[str, int]]:
    """How many episodes a pool has."""
    return [(_("Episodes"), Episode.objects.filter(pool=pool).count())]
