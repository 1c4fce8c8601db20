"""The form that begins an episode."""

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from orchestration_app.engine.orchestrating.turns import MOST_PATHS


class EpisodeForm(forms.Form):
    """A task, and what its episode may do."""

    task = forms.CharField(
        label=_("Task"),
        max_length=settings.MAX_QUERY_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 4, "autofocus": ""}),
    )
    max_steps = forms.IntegerField(
        label=_("Most steps"),
        required=False,
        min_value=1,
        max_value=settings.EPISODE_STEPS,
        help_text=_("Blank: the version's own."),
    )
    budget = forms.FloatField(
        label=_("Budget"),
        required=False,
        min_value=0,
        max_value=1e9,
        help_text=_("In the pool's currency. Blank: no limit."),
    )
    paths = forms.IntegerField(
        label=_("Paths"),
        required=False,
        min_value=1,
        max_value=MOST_PATHS,
        help_text=_("Side by side; the majority answers."),
    )
