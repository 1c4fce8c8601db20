"""The form of what concerns an agent's live traffic."""

from django import forms
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent


class AgentLiveForm(forms.Form):
    """An agent's health check, and whether it is routed before a model has learnt it."""

    url = forms.CharField(
        label=_("Health check"),
        required=False,
        max_length=500,
        widget=forms.TextInput(attrs={"inputmode": "url", "autocomplete": "off", "placeholder": "https://"}),
        help_text=_(
            "An http or https address that is asked every minute. Failures in a row pause the agent, a success brings it back. "
            "Blank: none."
        ),
    )
    cold = forms.ChoiceField(
        label=_("Before a model has learnt it"),
        choices=Agent.Cold.choices,
        help_text=_("Whether it is routed by its description until a model that knows it is promoted."),
    )


class PauseForm(forms.Form):
    """Pausing an agent, with the reason that is shown beside it."""

    why = forms.CharField(label=_("Reason"), required=False, max_length=200, help_text=_("Shown beside the agent."))
