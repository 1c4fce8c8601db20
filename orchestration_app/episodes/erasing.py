"""What erasing somebody's data does to episodes."""

from collections.abc import Sequence
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from agents_app.texts import columns
from orchestration_app.models import UNDER_WAY, Episode, Step
from routerweb.erasing import Erasing, Fate, RowRule


def rules() -> list[RowRule]:
    """An episode that has ended is deleted with its steps."""
    return [
        RowRule(
            Episode,
            Fate.DELETED,
            _delete,
            covers=[(Step, "episode")],
            waits=_under_way,
            wait=_("stays: under way; cancel them, or wait until they end"),
            beside=[(Step, "episode")],
            link=_link,
        )
    ]


def _link(episode: Episode) -> tuple[str, str]:
    return episode.task, reverse("episode", args=(episode.pool.slug, episode.pk))


def _under_way(keys: Sequence[Any]) -> set[Any]:
    return set(Episode.objects.filter(pk__in=keys, status__in=UNDER_WAY).values_list("pk", flat=True))


def _delete(keys: Sequence[Any], erasing: Erasing) -> None:
    for some in columns.chunks(keys):
        Episode.objects.filter(pk__in=some).delete()
