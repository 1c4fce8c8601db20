"""The page that makes the first account of a new installation, and signs it in."""

from typing import Any

from allauth.account.utils import perform_login
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from unfold.widgets import BASE_INPUT_CLASSES

from agents_app.accounts import setup


class FirstAccountForm(forms.Form):
    """The first admin's address and password."""

    email = forms.EmailField(
        label=_("E-mail"), max_length=150, widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )
    password = forms.CharField(
        label=_("Password"),
        help_text=_("At least eight characters."),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for field in self.fields.values():
            field.widget.attrs["class"] = " ".join(BASE_INPUT_CLASSES)

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if values.get("password"):
            try:
                validate_password(
                    values["password"], User(username=values.get("email", ""), email=values.get("email", ""))
                )
            except forms.ValidationError as error:
                self.add_error("password", error)
        return values


@never_cache
@require_http_methods(["GET", "POST"])
def first_account(request: HttpRequest, token: str) -> HttpResponse:
    """Make the first admin and go on to Home, signed in. A link that is used up or too old leads to the sign-in page."""
    if not setup.opens(token):
        return redirect("account_login")
    form = FirstAccountForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        user = setup.make_first(form.cleaned_data["email"], form.cleaned_data["password"])
        if user is None:
            return redirect("account_login")
        answer: HttpResponse = perform_login(request, user, email_verification="none", redirect_url="/")
        return answer
    context = {**admin.site.each_context(request), "title": _t("Welcome"), "form": form}
    return render(request, "account/setup.html", context, status=422 if form.errors else 200)


def waiting(request: HttpRequest) -> HttpResponse:
    """What the sign-in page says while nobody has an account."""
    context = {**admin.site.each_context(request), "title": _t("Set it up")}
    return render(request, "account/setup_waiting.html", context)
