"""The LLM that this installation uses, as an admin set it up on a page."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from routerweb.holds import Holds


class LlmConnection(models.Model):
    """One row at most: address, model and sealed key of the LLM. Without it LLM_BASE_URL, LLM_MODEL and LLM_API_KEY hold."""

    base_url = models.CharField(_("address"), max_length=400)
    model = models.CharField(_("model"), max_length=120)
    secret = models.TextField(editable=False, blank=True)
    own_network = models.BooleanField(
        _("a server of our own network"),
        default=False,
        help_text=_("Allows plain http and addresses such as http://127.0.0.1:11434, for this server alone."),
    )
    price_in = models.FloatField(_("price of a million input tokens"), default=0.0)
    price_out = models.FloatField(_("price of a million output tokens"), default=0.0)
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    updated_at = models.DateTimeField(auto_now=True)
    holds = Holds(setting=[base_url, model], secret=[secret])

    class Meta:
        verbose_name = _("LLM")
        verbose_name_plural = _("LLMs")

    def __str__(self) -> str:
        return f"{self.model} · {self.base_url}"
