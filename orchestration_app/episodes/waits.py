"""Telling people and programs that an episode waits for them: through the receivers that the pool's alarms have."""

from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from orchestration_app.episodes import asides
from orchestration_app.models import Episode
from training_app.watching import deliveries

WAITING = "episode.waiting"


def begun(key: UUID) -> None:
    """Put messages on their way, in the transaction that lets the episode wait."""
    episode = Episode.objects.select_related("pool").get(pk=key)
    names = dict(episode.pool.agents.values_list("number", "name"))
    for row in asides.waiting(episode):
        question = asides.as_json(row, names)
        words = (
            _("%(agent)s waits for approval of a call.")
            if question["kind"] == asides.APPROVAL
            else _("%(agent)s asks something.")
        )
        path = reverse("episode", args=(episode.pool.slug, key), urlconf="routerweb.urls")
        deliveries.announce(episode.pool, WAITING, words % {"agent": question["name"]}, path)
