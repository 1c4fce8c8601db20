"""The forms of the pages on pools, agents, keys, people and passwords."""

from collections.abc import Iterable
from typing import Any

from allauth.account.forms import LoginForm
from django import forms
from django.contrib.auth.forms import PasswordResetForm
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import BASE_INPUT_CLASSES

from agents_app.access import Role, roles_of
from agents_app.accounts import mail
from agents_app.models import Agent, AgentSource, ApiKey, Pool, PoolRole
from agents_app.sources import catalog
from routerweb.pages import parameters

ROLE_CHOICES = [
    (Role.LABELER.value, _("Labeler")),
    (Role.REVIEWER.value, _("Reviewer")),
    (Role.OPS.value, _("Ops")),
    (Role.ADMIN.value, _("Admin")),
]


class Monospace(forms.Textarea):
    """For what a program reads: every character as wide as the next, and no spelling looked at."""

    def __init__(self, rows: int) -> None:
        super().__init__({"rows": rows, "class": "rw-mono", "spellcheck": "false"})


class SignInForm(LoginForm):
    """Sign-in by e-mail address, in any case."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        login, password = self.fields["login"], self.fields["password"]
        login.label, password.help_text = _("E-mail"), ""
        look = {"class": " ".join(BASE_INPUT_CLASSES)}
        login.widget.attrs = {**look, "autocomplete": "username", "autocapitalize": "none", "autofocus": ""}
        password.widget.attrs = {**look, "autocomplete": "current-password"}


class ResetForm(PasswordResetForm):
    """Asks for an address; people who have not yet set their first password get a link too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].widget.attrs |= {"class": " ".join(BASE_INPUT_CLASSES), "autofocus": ""}

    def save(self, *args: Any, request: HttpRequest | None = None, **kwargs: Any) -> None:
        """Leave all of it to a worker, the question whether there is such an account too: the answer's time tells nothing."""
        assert request is not None
        mail.reset_link_later(self.cleaned_data["email"], request.build_absolute_uri("/"))


class AgentForm(forms.Form):
    """One agent's own facts; its id is given, not typed."""

    name = forms.CharField(label=_("Name"), max_length=120, widget=forms.TextInput(attrs={"autocomplete": "off"}))
    description = forms.CharField(
        label=_("Description"),
        required=False,
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_(
            "What it does, in the words of a query. Labelers read it. It also routes queries in a pool without a model, and to an "
            "agent that the model has not learnt where Settings, Live traffic, say so."
        ),
    )
    keywords = forms.CharField(
        label=_("Keywords"),
        required=False,
        max_length=2000,
        help_text=_("Separated by commas. Labelers see them underlined."),
    )
    code = forms.CharField(
        label=_("Code"),
        required=False,
        max_length=2,
        help_text=_("Two letters or digits; made from the name when blank."),
    )
    cost = forms.FloatField(
        label=_("Cost"),
        required=False,
        min_value=0,
        max_value=1e12,
        help_text=_("Of one call, in any unit that the pool shares."),
    )

    def clean_keywords(self) -> list[str]:
        return parameters.phrases(self.cleaned_data["keywords"])

    def clean_cost(self) -> float:
        return float(self.cleaned_data["cost"] or 0.0)


class AgentLiveForm(forms.Form):
    """An agent's health check, and whether it is routed before a model is trained on it."""

    url = forms.CharField(
        label=_("Health check"),
        required=False,
        max_length=500,
        widget=forms.TextInput(attrs={"inputmode": "url", "autocomplete": "off", "placeholder": "https://"}),
        help_text=_(
            "An http or https address that is checked every minute. Failures in a row pause the agent, a success brings it back. "
            "Blank: none."
        ),
    )
    cold = forms.ChoiceField(
        label=_("Before a model is trained on it"),
        choices=Agent.Cold.choices,
        help_text=_("If on, queries are routed to it by its description until a model trained on it is promoted."),
    )


class PauseForm(forms.Form):
    """Pausing an agent, with the reason that is shown beside it."""

    why = forms.CharField(label=_("Reason"), required=False, max_length=200, help_text=_("Shown beside the agent."))


class PoolForm(forms.Form):
    """A new pool and, pasted or from a file, its first agents."""

    name = forms.CharField(
        label=_("Name"), max_length=120, widget=forms.TextInput(attrs={"autofocus": "", "autocomplete": "off"})
    )
    slug = forms.SlugField(
        label=_("Slug"),
        max_length=50,
        required=False,
        help_text=_(
            "Its name in addresses, commands and the API. If blank, it is made from the name. It cannot change later."
        ),
    )
    agents = forms.CharField(
        label=_("Agents"),
        required=False,
        max_length=500_000,
        widget=Monospace(rows=8),
        help_text=_(
            "One per line, “Name: description”; or cells of a spreadsheet, JSON, YAML, an agent card. You can also add them later."
        ),
    )
    file = forms.FileField(
        label=_("or a file"),
        required=False,
        allow_empty_file=False,
        help_text=_("Excel, CSV, JSON, YAML, an agent card, an OpenAPI document or the tools of an MCP server."),
    )


class SeveralAgentsForm(forms.Form):
    """Several agents for a pool that stands already."""

    agents = PoolForm.base_fields["agents"]
    file = PoolForm.base_fields["file"]


class PoolDetailsForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120)
    description = forms.CharField(
        label=_("Description"), required=False, max_length=4000, widget=forms.Textarea(attrs={"rows": 3})
    )
    currency = forms.CharField(
        label=_("Currency"),
        required=False,
        max_length=3,
        help_text=_("The currency of all costs in this pool, as a three-letter code."),
    )


class PoolDeletionForm(forms.Form):
    typed = forms.CharField(
        label=_("The pool's name"), max_length=200, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )


class GuidelinesForm(forms.Form):
    guidelines = forms.CharField(
        label=_("Guidelines"),
        required=False,
        max_length=100_000,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 18, "class": "rw-mono"}),
        help_text=_("Markdown. Say what each agent is for, what it is not for, and how to decide difficult cases."),
    )


class PoolsField(forms.ModelMultipleChoiceField):
    """Some pools. A number that no key can be is refused before SQLite, which raises an error for it, is asked."""

    def clean(self, value: Any) -> Any:
        """The chosen pools. Raises ValidationError."""
        for sent in value or ():
            if parameters.key(str(sent)) is None:
                raise forms.ValidationError(self.error_messages["invalid_pk_value"], params={"pk": str(sent)[:40]})
        return super().clean(value)


class KeyForm(forms.Form):
    """A new API key, of some of `pools`."""

    name = forms.CharField(
        label=_("Name"),
        max_length=120,
        help_text=_("Name it after the application that will use it."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        label=_("May"),
        choices=ApiKey.Scope.choices,
        initial=[ApiKey.Scope.ROUTE],
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Labels made with the key count as yours."),
    )
    pools = PoolsField(label=_("In the pools"), queryset=Pool.objects.none(), widget=forms.CheckboxSelectMultiple)
    days = forms.IntegerField(
        label=_("Expires after days"), required=False, min_value=1, max_value=3650, help_text=_("Blank: never.")
    )

    def __init__(self, *args: Any, pools: Iterable[Pool], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["pools"]
        assert isinstance(field, PoolsField)
        field.queryset = Pool.objects.filter(pk__in=[pool.pk for pool in pools]).only("slug", "name")


class RotationForm(forms.Form):
    """A new secret for a key."""

    grace = forms.ChoiceField(
        label=_("The old secret works for"),
        choices=[
            ("now", _("It stops now")),
            ("1h", _("1 hour")),
            ("24h", _("24 hours")),
            ("7d", _("7 days")),
        ],
        initial="24h",
        help_text=_("Time to give the application the new secret. Until then both work."),
    )
    days = forms.IntegerField(
        label=_("Key expires after days"),
        required=False,
        min_value=1,
        max_value=3650,
        help_text=_("Blank: as it stands."),
    )


class QuotaForm(forms.Form):
    """What a key may send in a calendar month."""

    queries = forms.IntegerField(
        label=_("Queries a month"), required=False, min_value=1, max_value=10**12, help_text=_("Blank: no limit.")
    )
    characters = forms.IntegerField(
        label=_("Characters a month"),
        required=False,
        min_value=1,
        max_value=10**14,
        help_text=_("As the router reads them. Blank: no limit."),
    )


class TokenForm(forms.Form):
    """A token for an identity provider."""

    name = forms.CharField(
        label=_("Name"),
        max_length=120,
        help_text=_("Name it after the identity provider that will send it."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class GroupRoleForm(forms.Form):
    """The role that a group of an identity provider gives; "" is none."""

    role = forms.ChoiceField(choices=[("", _("None")), *ROLE_CHOICES], required=False)
    pool = forms.ModelChoiceField(queryset=Pool.objects.in_use(), required=False, to_field_name="slug")


class InviteForm(forms.Form):
    """Somebody who is to have an account. Who operates some pools, and is no admin, invites labelers to these alone."""

    email = forms.EmailField(label=_("E-mail"), max_length=150, widget=forms.EmailInput(attrs={"autocomplete": "off"}))
    role = forms.ChoiceField(label=_("Role"), choices=ROLE_CHOICES, initial=Role.LABELER.value)
    pool = forms.ModelChoiceField(
        label=_("In"), queryset=Pool.objects.none(), required=False, empty_label=_("All pools"), to_field_name="slug"
    )

    def __init__(self, *args: Any, inviter: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        pools = Pool.objects.in_use().only("slug", "name")
        held = roles_of(inviter)
        if Role.ADMIN not in held:
            self.fields["role"].choices = [choice for choice in ROLE_CHOICES if choice[0] == Role.LABELER]  # type: ignore[attr-defined]
            self.fields["role"].widget = forms.HiddenInput()
        if Role.OPS not in held:
            operated = [pool.pk for pool in pools if Role.OPS in roles_of(inviter, pool)]
            pools = pools.filter(pk__in=operated)
            self.fields["pool"].required = True
            self.fields["pool"].empty_label = None if len(operated) == 1 else ""  # type: ignore[attr-defined]
        self.fields["pool"].queryset = pools  # type: ignore[attr-defined]


class RoleForm(forms.Form):
    """A role for all pools; "" is none."""

    role = forms.ChoiceField(choices=[("", _("None")), *ROLE_CHOICES], required=False)


class PoolRoleForm(forms.Form):
    """A role in one pool; "" takes it away."""

    pool = forms.SlugField()
    role = forms.ChoiceField(choices=[("", _("None")), *PoolRole.Role.choices], required=False)


class SourcesForm(forms.Form):
    """Addresses of agents that describe themselves, or a file of their cards."""

    kind = forms.ChoiceField(label=_("They are"), choices=AgentSource.Kind.choices, initial=AgentSource.Kind.CARD)
    addresses = forms.CharField(
        label=_("Addresses"),
        required=False,
        max_length=20_000,
        widget=Monospace(rows=4),
        help_text=_(
            "One a line, such as https://travel.example.com. A card is looked for in its known place unless the address ends "
            "in .json."
        ),
    )
    key = forms.CharField(
        label=_("Key of the MCP server"),
        required=False,
        max_length=4_000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("Sent as a bearer token; kept sealed."),
    )
    each = forms.BooleanField(
        label=_("Make each tool of an MCP server an agent"),
        required=False,
        help_text=_("Otherwise all tools of a server are one agent."),
    )
    file = forms.FileField(
        label=_("or a file"), required=False, allow_empty_file=False, help_text=_("JSON: one agent card, or a list.")
    )

    def clean_addresses(self) -> list[str]:
        """The addresses, each once."""
        addresses = list(dict.fromkeys(self.cleaned_data["addresses"].split()))
        if len(addresses) > catalog.MOST_ADDRESSES:
            limit = {"most": catalog.MOST_ADDRESSES}
            raise forms.ValidationError(_("At most %(most)d addresses at once. The command accepts more.") % limit)
        return addresses

    def clean(self) -> dict[str, Any]:
        """Something has to be given."""
        values = super().clean() or {}
        if not self.errors and not values.get("addresses") and not values.get("file"):
            raise forms.ValidationError(_("Give at least one address, or choose a file."))
        return values
