"""The forms of the pages on pools, agents, keys, people and passwords."""

from collections.abc import Iterator
from typing import Any

from allauth.account.forms import LoginForm
from django import forms
from django.contrib.auth.forms import PasswordResetForm
from django.contrib.auth.models import User
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from unfold.widgets import BASE_INPUT_CLASSES

from agents_app.access import IMPLIED, Role
from agents_app.models import ApiKey, Pool

ROLE_CHOICES = [
    (Role.LABELER.value, _("Labeler")),
    (Role.REVIEWER.value, _("Reviewer")),
    (Role.OPS.value, _("Ops")),
    (Role.ADMIN.value, _("Admin")),
]


class SignInForm(LoginForm):
    """Sign-in by e-mail address, in any case."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        login, password = self.fields["login"], self.fields["password"]
        login.label, password.help_text = _("E-mail"), ""
        look = {"class": " ".join(BASE_INPUT_CLASSES)}
        login.widget.attrs = {**look, "autocomplete": "username", "autocapitalize": "none", "autofocus": ""}
        password.widget.attrs = {**look, "autocomplete": "current-password"}

    def clean_login(self) -> str:
        typed: str = self.cleaned_data["login"].strip()
        # People's user names are addresses in small letters; an account made otherwise keeps its own spelling.
        return typed.lower() if "@" in typed and not User.objects.filter(username=typed).exists() else typed


class ResetForm(PasswordResetForm):
    """Asks for an address; people who have not yet set their first password get a link too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].widget.attrs |= {"class": " ".join(BASE_INPUT_CLASSES), "autofocus": ""}

    def get_users(self, email: str) -> Iterator[User]:
        # Django leaves out accounts without a password; an invited person who lost the invitation is one of those.
        yield from User.objects.filter(email__iexact=email, is_active=True)


def _keywords(value: str) -> list[str]:
    return [word.strip() for word in value.replace("\n", ",").split(",") if word.strip()]


class AgentForm(forms.Form):
    """One agent's own facts; its id is given, not typed."""

    name = forms.CharField(label=_("Name"), max_length=120, widget=forms.TextInput(attrs={"autocomplete": "off"}))
    description = forms.CharField(
        label=_("Description"),
        required=False,
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("What it does, in the words of a query. Labelers read it, and a new agent is routed to by it."),
    )
    keywords = forms.CharField(
        label=_("Keywords"),
        required=False,
        max_length=2000,
        help_text=_("Comma between. Labelers see them underlined."),
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
        return _keywords(self.cleaned_data["keywords"])

    def clean_cost(self) -> float:
        return float(self.cleaned_data["cost"] or 0.0)


class PoolForm(forms.Form):
    """A new pool and, pasted or from a file, its first agents."""

    name = forms.CharField(
        label=_("Name"), max_length=120, widget=forms.TextInput(attrs={"autofocus": "", "autocomplete": "off"})
    )
    slug = forms.SlugField(
        label=_("Slug"),
        max_length=50,
        required=False,
        help_text=_("Its name in addresses, commands and the API. Made from the name when blank; it stays as it is."),
    )
    agents = forms.CharField(
        label=_("Agents"),
        required=False,
        max_length=500_000,
        widget=forms.Textarea(attrs={"rows": 8, "class": "rw-mono", "spellcheck": "false"}),
        help_text=_("One a line, “Name: description”. They can also be added later."),
    )
    file = forms.FileField(
        label=_("or a file"),
        required=False,
        allow_empty_file=False,
        help_text=_("agents.jsonl, one JSON object a line."),
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


class GuidelinesForm(forms.Form):
    guidelines = forms.CharField(
        label=_("Guidelines"),
        required=False,
        max_length=100_000,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 18, "class": "rw-mono"}),
        help_text=_(
            "Markdown. Say what each agent is for, what it is not for, and how to decide the cases people stumble over."
        ),
    )


class KeyForm(forms.Form):
    """A new API key."""

    name = forms.CharField(
        label=_("Name"),
        max_length=120,
        help_text=_("After the application that will use it."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        label=_("May"), choices=ApiKey.Scope.choices, initial=[ApiKey.Scope.ROUTE], widget=forms.CheckboxSelectMultiple
    )
    pools = forms.ModelMultipleChoiceField(
        label=_("In the pools"), queryset=Pool.objects.none(), widget=forms.CheckboxSelectMultiple
    )
    labels_as = forms.ModelChoiceField(
        label=_("Labels as"),
        queryset=User.objects.none(),
        required=False,
        help_text=_("For keys that may label: whose labels they are."),
    )
    days = forms.IntegerField(
        label=_("Expires after days"), required=False, min_value=1, max_value=3650, help_text=_("Blank: never.")
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        pools = self.fields["pools"]
        assert isinstance(pools, forms.ModelMultipleChoiceField)
        pools.queryset = Pool.objects.only("slug", "name")
        labels_as = self.fields["labels_as"]
        assert isinstance(labels_as, forms.ModelChoiceField)
        may_label = Q(groups__name__in=[role for role in Role if Role.LABELER in IMPLIED[role]]) | Q(is_superuser=True)
        labels_as.queryset = User.objects.filter(may_label, is_active=True).order_by("username").distinct()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if ApiKey.Scope.LABEL in cleaned.get("scopes", ()) and not cleaned.get("labels_as"):
            self.add_error("labels_as", _("Choose whose labels they will be."))
        return cleaned


class InviteForm(forms.Form):
    email = forms.EmailField(label=_("E-mail"), max_length=150, widget=forms.EmailInput(attrs={"autocomplete": "off"}))
    role = forms.ChoiceField(label=_("Role"), choices=ROLE_CHOICES, initial=Role.LABELER.value)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=ROLE_CHOICES)
