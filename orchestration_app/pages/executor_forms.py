"""The form of an executor: the fields of its kind, and the bounds that all have."""

import json
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from orchestration_app.episodes import scripted
from orchestration_app.models import AnswerRule, Executor

Kind = Executor.Kind
OWN: dict[str, tuple[str, ...]] = {
    Kind.CHAT: ("address", "model", "instruction", "tools", "price_in", "price_out", "most_tokens"),
    Kind.WEBHOOK: ("address",),
    Kind.CALLABLE: ("function",),
    Kind.SCRIPTED: ("script",),
}
ALL = ("active", "most_cost", "seconds", "retries", "repeatable", "most_kb", "at_once", "per_minute")


class JsonText(forms.CharField):
    """JSON as people write it."""

    widget = forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "ep-code"})

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(_("This is not JSON: %(why)s") % {"why": error}) from None


class AnswerRuleForm(forms.ModelForm):
    """How a pool makes one answer."""

    class Meta:
        model = AnswerRule
        fields = ("rule", "composer")

    def __init__(self, pool: Pool, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        composer = self.fields["composer"]
        composer.queryset = pool.agents.active().filter(executor__active=True)  # type: ignore[attr-defined]
        composer.empty_label = _("The language model of this site")  # type: ignore[attr-defined]
        composer.help_text = _("For one text from all outputs: it gets the task and every output.")


class ExecutorForm(forms.ModelForm):
    """`kind` chooses the fields; a secret is only ever entered, never shown."""

    secret = forms.CharField(
        label=_("Key"), required=False, strip=True, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )
    forget = forms.BooleanField(label=_("Forget the key that is kept"), required=False)
    tools = JsonText(
        label=_("Tools"),
        required=False,
        help_text=_("A JSON list, passed on as it is. What the model wants called comes back as metadata."),
    )
    script = JsonText(label=_("Script"), required=False, help_text=_("What it does, as JSON."))

    class Meta:
        model = Executor
        fields = (*OWN[Kind.CHAT], "function", "script", *ALL)
        labels = {
            "address": _("Address"),
            "price_in": _("Price in"),
            "price_out": _("Price out"),
            "most_kb": _("Largest answer"),
        }
        help_texts = {
            "address": _("https://… up to the part before /chat/completions."),
            "model": _("As the provider names it."),
            "instruction": _(
                "The system message, a Jinja template over task, messages, history (agent, content, failed), agent (name, "
                "description) and step. Blank: who it is, and what others have said."
            ),
            "function": _("A dotted path that the setting EXECUTOR_FUNCTIONS names."),
            "price_in": _("Of a million tokens in, in the pool's currency."),
            "price_out": _("Of a million tokens out."),
            "most_tokens": _("Tokens of an answer at most. With the prices, they bound what a call may cost."),
            "seconds": _("For one attempt, from the look-up of the name to the last byte."),
            "retries": _("After a refusal for want of room, or no connection: with a wait that doubles."),
            "most_kb": _("In KiB; a larger one is a failure."),
        }
        widgets = {"instruction": forms.Textarea(attrs={"rows": 6, "class": "ep-code"})}

    def __init__(self, kind: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        keep = {*OWN[kind], *ALL} | ({"secret", "forget"} if kind in (Kind.CHAT, Kind.WEBHOOK) else set())
        for name in set(self.fields) - keep:
            del self.fields[name]
        if kind == Kind.WEBHOOK:
            self.fields["address"].help_text = _("https://… where each call is posted.")
            self.fields["secret"].label = _("Signing secret")
        if "secret" in self.fields:
            kept = bool(self.instance.secret)
            self.fields["secret"].help_text = (
                _("One is kept. Enter another to replace it.") if kept else _("Kept encrypted, and never shown again.")
            )
            if not kept or kind == Kind.WEBHOOK:
                del self.fields["forget"]
        if "script" in self.fields:
            words = _("A JSON object: do is one of %(ways)s; text, outputs, cost, tokens, seconds, fails.")
            self.fields["script"].help_text = words % {"ways": ", ".join(scripted.WAYS)}

    def _post_clean(self) -> None:
        """What holds is `executors.save`'s to say, which pages, commands and files share."""

    @property
    def own(self) -> list[Any]:
        """The fields of the kind, drawn."""
        return [self[name] for name in (*OWN[self.kind], "secret", "forget") if name in self.fields]

    @property
    def bounds(self) -> list[Any]:
        """The fields that every kind has, but for the switches."""
        return [self[name] for name in ALL if name not in ("active", "repeatable")]

    def values(self) -> dict[str, Any]:
        """What `executors.save` takes."""
        found = {name: value for name, value in self.cleaned_data.items() if name not in ("secret", "forget")}
        return found | {name: found[name] or empty for name, empty in (("tools", []), ("script", {})) if name in found}

    def new_secret(self) -> str | None:
        """What is to become of the secret: None keeps it, "" forgets it."""
        if self.cleaned_data.get("secret"):
            return str(self.cleaned_data["secret"])
        return "" if self.cleaned_data.get("forget") else None
