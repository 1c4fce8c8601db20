"""The form of an executor: the fields of its kind, and the bounds that all have."""

import json
import shlex
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from agents_app import llm
from agents_app.models import Pool
from orchestration_app.calls import scripted
from orchestration_app.executors import CHOICES, LEAST_SECRET, OPTIONS
from orchestration_app.models import AnswerRule, EpisodeLearning, Executor

Kind = Executor.Kind
OWN: dict[str, tuple[str, ...]] = {
    Kind.CHAT: ("address", "model", "instruction", "tools", "price_in", "price_out", "most_tokens"),
    Kind.WEBHOOK: ("address",),
    Kind.CALLABLE: ("function",),
    Kind.SCRIPTED: ("script",),
    Kind.A2A: ("address", "version", "streaming"),
    Kind.MCP: ("address", "command", "secret_name", "tool", "arguments", "tools"),
    Kind.RESPONSES: ("address", "model", "instruction", "tools", "price_in", "price_out", "most_tokens"),
    Kind.HTTP: ("address", "method", "headers", "body", "query", "answer"),
}
ALL = (
    "active", "most_cost", "seconds", "retries", "repeatable", "most_kb", "at_once", "per_minute", "reads_others", "approval",
    "approval_above",
)  # fmt: skip
#: Fields of a kind that nearly everybody fills in; the others are folded away.
FIRST = frozenset({"address", "function", "script", "model", "method", "body", "answer", "secret", "forget"})
#: Fields of ALL that are drawn as switches, and those about what a call needs before it starts.
SWITCHES, BEFORE = ("active", "repeatable", "reads_others"), ("approval", "approval_above")
WITH_SECRET = frozenset({Kind.CHAT, Kind.WEBHOOK, Kind.A2A, Kind.MCP, Kind.RESPONSES, Kind.HTTP})
#: What the field Address means, by kind; a chat's is the field's own text.
ADDRESSES: dict[str, Any] = {
    Kind.WEBHOOK: _("https://… where each call is posted."),
    Kind.A2A: _("https://… where the agent answers JSON-RPC, as its card says."),
    Kind.MCP: _("https://… of the server, over streamable HTTP."),
    Kind.RESPONSES: _("https://… up to the part before /responses."),
    Kind.HTTP: _("https://… that is called."),
}


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


class CommandText(forms.CharField):
    """A command line as people write it; its parts as a list."""

    def prepare_value(self, value: Any) -> Any:
        return shlex.join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        try:
            return shlex.split(super().clean(value))
        except ValueError as error:
            raise forms.ValidationError(_("This is no command line: %(why)s") % {"why": error}) from None


class AnswerRuleForm(forms.ModelForm):
    """How a pool makes one answer."""

    class Meta:
        model = AnswerRule
        fields = ("rule", "composer")

    def __init__(self, pool: Pool, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        composer = self.fields["composer"]
        composer.queryset = pool.agents.active().filter(executor__active=True)  # type: ignore[attr-defined]
        composer.empty_label = _("The language model of this site") if llm.in_use() else _("Nobody yet")  # type: ignore[attr-defined]
        composer.help_text = _("For one text from all outputs: it gets the task and every output.")


class LearningForm(forms.ModelForm):
    """What a pool's episodes may try out, and how much of them the language model judges."""

    class Meta:
        model = EpisodeLearning
        fields = ("exploration", "judge_a_day")


class ExecutorForm(forms.ModelForm):
    """`kind` chooses the fields; a secret is only ever entered, never shown."""

    secret = forms.CharField(
        label=_("Key"), required=False, strip=True, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )
    forget = forms.BooleanField(label=_("Delete the stored key"), required=False)
    tools = JsonText(
        label=_("Tools"),
        required=False,
        help_text=_("A JSON list, passed on as it is. What the model wants called comes back as metadata."),
    )
    script = JsonText(label=_("Script"), required=False, help_text=_("What it does, as JSON."))
    version = forms.ChoiceField(label=_("Version of A2A"), choices=[("1.0", "1.0"), ("0.3", "0.3")], required=False)
    streaming = forms.BooleanField(label=_("The agent streams its answers"), required=False)
    command = CommandText(
        label=_("Command"),
        required=False,
        help_text=_("Instead of an address: a program on this machine that the setting MCP_COMMANDS names."),
    )
    secret_name = forms.CharField(
        label=_("The key's name for the command"),
        required=False,
        help_text=_("An environment variable. Blank: API_KEY."),
    )
    tool = forms.CharField(
        label=_("Tool"), required=False, help_text=_("Blank: the tool that fits the task best is chosen for each call.")
    )
    arguments = forms.CharField(
        label=_("Arguments"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "ep-code"}),
        help_text=_(
            "A Jinja template of a JSON object over task, messages and history. Blank: a tool with one text gets the task; for "
            "others the language model of this site fills them in."
        ),
    )
    method = forms.ChoiceField(label=_("Method"), choices=[(name, name) for name in CHOICES["method"]], required=False)
    headers = JsonText(
        label=_("Headers"), required=False, help_text=_("A JSON object. {{ secret }} stands for the key in its values.")
    )
    body = forms.CharField(
        label=_("Body"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "ep-code"}),
        help_text=_(
            "A Jinja template over task, messages, history, agent, key and step. Blank: a JSON object with the task."
        ),
    )
    query = forms.CharField(label=_("Parameter of the task"), required=False, help_text=_("For GET. Blank: q."))
    answer = forms.CharField(
        label=_("Where the answer is"),
        required=False,
        help_text=_("Names and numbers with dots between, such as choices.0.text. Blank: all that comes back."),
    )

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
            "seconds": _("For one attempt, from the DNS look-up to the last byte."),
            "retries": _(
                "After a rejection for lack of capacity, or without a connection; the wait doubles each time."
            ),
            "most_kb": _("In KiB; a larger one is a failure."),
        }
        widgets = {"instruction": forms.Textarea(attrs={"rows": 6, "class": "ep-code"})}

    def __init__(self, kind: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        keep = {*OWN[kind], *ALL} | ({"secret", "forget"} if kind in WITH_SECRET else set())
        for name in set(self.fields) - keep:
            del self.fields[name]
        for name in BEFORE:
            self.fields[name].required = False
        for name, value in self.instance.options.items():
            if name in self.fields:
                self.initial[name] = value
        if kind in ADDRESSES:
            self.fields["address"].help_text = ADDRESSES[kind]
        if kind == Kind.MCP:
            self.fields["tools"].help_text = _("As the server lists them. Blank: they are read from it when you save.")
        if kind == Kind.WEBHOOK:
            self.fields["secret"].label = _("Signing secret")
        if "secret" in self.fields:
            has_secret = bool(self.instance.secret)
            self.fields["secret"].help_text = (
                _("One is stored. Enter another to replace it.")
                if has_secret
                else _("Kept encrypted, and never shown again.")
            )
            if kind == Kind.WEBHOOK and not has_secret:
                words = _(
                    "Every call is signed by it. Choose at least %(least)d characters and give them to the agent's server."
                )
                self.fields["secret"].help_text = words % {"least": LEAST_SECRET}
            if not has_secret or kind == Kind.WEBHOOK:
                del self.fields["forget"]
        if "script" in self.fields:
            words = _("A JSON object: do is one of %(ways)s; text, outputs, cost, tokens, seconds, fails.")
            self.fields["script"].help_text = words % {"ways": ", ".join(scripted.WAYS)}

    def _post_clean(self) -> None:
        """What holds is `executors.save`'s to say, which pages, commands and files share."""

    @property
    def first(self) -> list[Any]:
        """The fields of the kind that nearly everybody fills in, drawn."""
        return [self[name] for name in (*OWN[self.kind], "secret", "forget") if name in self.fields and name in FIRST]

    @property
    def more(self) -> list[Any]:
        """The other fields of the kind."""
        return [self[name] for name in OWN[self.kind] if name not in FIRST]

    @property
    def unfolded(self) -> bool:
        """Whether something is wrong in a field that is folded away."""
        return bool(set(self.errors) - FIRST)

    @property
    def bounds(self) -> list[Any]:
        """The fields that every kind has, but for the switches."""
        return [self[name] for name in ALL if name not in (*SWITCHES, *BEFORE)]

    @property
    def before(self) -> list[Any]:
        """The fields about a person's approval."""
        return [self[name] for name in BEFORE]

    @property
    def switches(self) -> list[Any]:
        """The fields that are on or off."""
        return [self[name] for name in SWITCHES]

    def values(self) -> dict[str, Any]:
        """What `executors.save` takes."""
        values = {name: value for name, value in self.cleaned_data.items() if name not in ("secret", "forget")}
        values["approval"] = values["approval"] or Executor.Approval.NEVER
        values["approval_above"] = values["approval_above"] or 0.0
        options = {name: values.pop(name) for name in OPTIONS.get(self.kind, {})}
        values["options"] = {name: value for name, value in options.items() if value}
        return values | {
            name: values[name] or empty for name, empty in (("tools", []), ("script", {})) if name in values
        }

    def new_secret(self) -> str | None:
        """What is to become of the secret: None keeps it, "" forgets it."""
        if self.cleaned_data.get("secret"):
            return str(self.cleaned_data["secret"])
        return "" if self.cleaned_data.get("forget") else None
