"""What a pool's episodes may try out, and who judges them, so that orchestrators learn from how they ended."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.database.checks import check

#: The share of episodes that a pool explores which allows it, and the most that it may.
EXPLORED, MOST_EXPLORED = 0.02, 0.10


class EpisodeLearning(models.Model):
    """`exploration` is the share of one-shot episodes with one agent more or less, `judge_a_day` how often the LLM of the settings
    may be asked to mark in a day (UTC): on `judged_on` it was asked `judged` times."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="episode_learning")
    exploration = models.FloatField(
        _("share that is explored"),
        default=0.0,
        validators=[MinValueValidator(0.0), MaxValueValidator(MOST_EXPLORED)],
        help_text=_(
            "Share of the set router's episodes, 0 to 0.1, in which one agent is added or left out. 0.02 is enough in most pools."
        ),
    )
    judge_a_day = models.PositiveIntegerField(
        _("answers that the language model marks in a day"),
        default=0,
        help_text=_("Half are drawn at random, half are those that the policy was least sure of. 0: none."),
    )
    judged_on = models.DateField(null=True, editable=False)
    judged = models.PositiveIntegerField(default=0, editable=False)

    class Meta:
        verbose_name = _("learning from episodes")
        verbose_name_plural = _("learning from episodes")
        constraints = (check("episode_exploration_is_small", exploration__gte=0, exploration__lte=MOST_EXPLORED),)

    def __str__(self) -> str:
        return str(self.pool)
