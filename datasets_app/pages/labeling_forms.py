"""Forms of the labeling queue's settings and of pre-labeling."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from agents_app import llm
from agents_app.models import Pool
from agents_app.views.forms import Monospace
from datasets_app.models import PrelabelJob, QueueSettings


class QueueSettingsForm(forms.ModelForm):
    """How a pool's queue is worked; shares are given in percent."""

    class Meta:
        model = QueueSettings
        fields = (
            "order",
            "order_agent",
            "seed",
            "overlap",
            "overlap_share",
            "blind_share",
            "evaluation_share",
            "idle_minutes",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        agents = self.fields["order_agent"]
        assert isinstance(agents, forms.ModelChoiceField)
        agents.queryset = self.instance.pool.agents.active()
        agents.empty_label = str(_("the whole set"))
        for name in ("overlap_share", "blind_share", "evaluation_share"):
            field = self.fields[name]
            field.widget = forms.NumberInput(attrs={"min": 0, "max": 100, "step": 1})
            field.label = f"{field.label} (%)"
            self.initial[name] = round(100 * getattr(self.instance, name))
            self.fields[name] = forms.IntegerField(
                label=field.label, help_text=field.help_text, min_value=0, max_value=100, widget=field.widget
            )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        for name in ("overlap_share", "blind_share", "evaluation_share"):
            if cleaned.get(name) is not None:
                cleaned[name] = cleaned[name] / 100
        return cleaned


class PrelabelForm(forms.ModelForm):
    """A pre-labeling job. `q` is the search line of the queries that it asks about; blank: those without gold and LLM label."""

    q = forms.CharField(
        label=_("Queries"),
        required=False,
        max_length=400,
        help_text=_("A search as on the page Queries. Blank: every query without gold that no LLM has labeled."),
    )
    limit = forms.IntegerField(label=_("At most"), required=False, min_value=1, help_text=_("Blank: all of them."))

    class Meta:
        model = PrelabelJob
        fields = (
            "base_url",
            "model",
            "batch_size",
            "concurrency",
            "temperature",
            "minimum",
            "maximum",
            "fallback",
            "price_in",
            "price_out",
            "budget",
        )

    field_order = ("q", "limit", "base_url", "model", "budget", "fallback", "batch_size", "concurrency", "temperature")

    def __init__(self, *args: Any, pool: Pool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        last = PrelabelJob.objects.filter(pool=pool).first()
        for name in self.Meta.fields:
            if name == "budget":
                continue  # each job has its own
            if last is not None:
                self.initial.setdefault(name, getattr(last, name))
        connection = llm.connection()
        self.ready = connection.ready
        if last is None or connection.saved:
            self.initial.update(base_url=connection.base_url, model=connection.model)
        if connection.saved:
            self.initial.update(price_in=connection.price_in, price_out=connection.price_out)
        self.fields["temperature"].widget.attrs |= {"min": 0, "max": 2, "step": "0.1"}
        self.fields["base_url"].help_text = _(
            "Any server with POST /chat/completions. The stored key is sent to %(url)s only."
        ) % {"url": connection.base_url}

    def main(self) -> list[Any]:
        """The fields that everybody looks at: which queries, and who is asked where no LLM is connected."""
        return [self[name] for name in (("q", "limit") if self.ready else ("q", "limit", "base_url", "model"))]

    def details(self) -> list[Any]:
        """The fields that stay folded."""
        shown = {field.name for field in self.main()}
        return [self[name] for name in self.fields if name not in shown]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("budget") == 0:
            self.add_error("budget", _("More than 0, or blank for no limit."))
        elif cleaned.get("budget") is not None and not (cleaned.get("price_in") or cleaned.get("price_out")):
            self.add_error(
                "budget", _("Enter the prices of a million tokens: without them nobody knows what is spent.")
            )
        return cleaned

    def clean_temperature(self) -> float:
        value = float(self.cleaned_data["temperature"])
        if not 0 <= value <= 2:
            raise forms.ValidationError(_("From 0 to 2."))
        return value


class BudgetForm(forms.Form):
    """Another budget for a job whose budget is spent."""

    budget = forms.FloatField(label=_("New budget"), required=False, min_value=0, help_text=_("Blank: no limit."))


class PromptForm(forms.Form):
    """A new version of the prompt."""

    text = forms.CharField(
        label=_("Instruction"),
        strip=False,
        max_length=20_000,
        widget=Monospace(rows=12),
        help_text=_(
            "A Jinja template that may use {{ pool }}, {{ guidelines }}, {{ agents }}, {{ minimum }} and {{ maximum }}. The agents, "
            "the queries and the form of the answer are added for you. Every change is a version of its own."
        ),
    )
