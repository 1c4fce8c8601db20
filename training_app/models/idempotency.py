"""Answers that are kept for a while, so that a call which is sent again is not done again."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import ApiKey
from routerweb.holds import Holds


class KeptAnswer(models.Model):
    """What a key's call under that Idempotency-Key was answered with. `digest` is the SHA-256 of method, address and body."""

    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    body = models.TextField(default="")
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    holds = Holds(remark=[key, body], neither=[digest], backup=False)

    class Meta:
        verbose_name = _("kept answer")
        verbose_name_plural = _("kept answers")
        constraints = (models.UniqueConstraint(fields=("api_key", "key"), name="one_answer_per_idempotency_key"),)

    def __str__(self) -> str:
        return f"{self.api_key}: {self.key}"
