"""What a pool keeps of what people wrote, and for how long."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models.pools import Pool
from routerweb.holds import Holds

DAYS = (MinValueValidator(1), MaxValueValidator(3_650))


class Privacy(models.Model):
    """A pool's redaction and retention. Without a row nothing is redacted, and the site's settings say how long.

    `kinds` are names of `redaction.KINDS`; `patterns` are the pool's own: [{"name", "pattern"}, …].
    """

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="privacy")
    kinds = models.JSONField(_("what is redacted"), default=list, blank=True)
    patterns = models.JSONField(_("own patterns"), default=list, blank=True)
    decision_days = models.PositiveIntegerField(
        _("days that decisions are kept"), null=True, blank=True, validators=DAYS
    )
    episode_days = models.PositiveIntegerField(_("days that episodes are kept"), null=True, blank=True, validators=DAYS)
    archive_days = models.PositiveIntegerField(
        _("days that archived decisions are kept"), null=True, blank=True, validators=DAYS
    )
    holds = Holds(setting=[patterns], neither=[kinds])

    class Meta:
        verbose_name = _("privacy of a pool")
        verbose_name_plural = _("privacy of pools")

    def __str__(self) -> str:
        return self.pool.slug

    @property
    def redacts(self) -> bool:
        """Whether anything is."""
        return bool(self.kinds or self.patterns)
