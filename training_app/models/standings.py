"""How well each model of a pool does on queries that none of them learnt from."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from routerweb.holds import Holds


class Standing(models.Model):
    """One model's figures on the same queries as every other model of its pool that has a row. The rows of a pool are written at once.

    `answers` are the sets that it answers, and `required` those that are needed, query by query in the same order for all of the pool.
    `figures`: by measure {"ours", "theirs", "difference"}, each a mean with its 95 % interval; "theirs" is the active model, and where
    there is none the model itself; "retired" has the number of `queries` left out that need a retired agent. `stamp` says what was
    measured: the pool's gold, agents and models.
    """

    model = models.OneToOneField("training_app.RouterModel", on_delete=models.CASCADE, related_name="standing")
    against = models.ForeignKey(
        "training_app.RouterModel", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    queries = models.PositiveIntegerField(_("queries"))
    answers = models.JSONField(default=list)
    required = models.JSONField(default=list)
    figures = models.JSONField(_("figures"), default=dict)
    stamp = models.CharField(max_length=64)
    at = models.DateTimeField(auto_now_add=True)
    holds = Holds(neither=[answers, required, figures, stamp])

    def __str__(self) -> str:
        return str(self.model_id)
