"""Pages: forgotten passwords and first ones. Django's own views, by whose links people are invited too, in the sign-in page's look."""

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.utils import perform_login
from allauth.core import ratelimit
from django.contrib import admin
from django.contrib.auth import views
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods
from django.views.generic.edit import FormView
from unfold.widgets import BASE_INPUT_CLASSES

from agents_app.accounts import mail
from agents_app.views.forms import ResetForm


class NewPasswordForm(SetPasswordForm):
    """Two fields in the sign-in page's look."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["class"] = " ".join(BASE_INPUT_CLASSES)

    def validate_password_for_user(self, user: User, password_field_name: str = "") -> None:
        """What is wrong with a password stands beside the password, not beside its repetition, where Django has it."""
        super().validate_password_for_user(user, "new_password1")


class NewPasswordView(views.PasswordResetConfirmView):
    def get_user(self, uidb64: str) -> User | None:
        user = super().get_user(uidb64)
        return user if user is not None and user.is_active else None

    @method_decorator(sensitive_post_parameters())
    @method_decorator(never_cache)
    def dispatch(self, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer at the link's own address. Django's view writes the token into the session and redirects, so that no other site
        learns it from a Referer; here the Referrer-Policy sees to that."""
        self.user = self.get_user(kwargs["uidb64"])
        self.validlink = self.user is not None and self.token_generator.check_token(self.user, kwargs["token"])
        if not self.validlink:
            return self.render_to_response(self.get_context_data())
        return FormView.dispatch(self, *args, **kwargs)

    def form_valid(self, form: "SetPasswordForm[User]") -> HttpResponse:
        form.save()
        get_adapter(self.request).forget_failures(self.request, form.user)
        # Signed in at once; somebody with a second factor is asked for it first.
        answer: HttpResponse = perform_login(
            self.request, form.user, email_verification="none", redirect_url=reverse("home")
        )
        return answer


def _shell(request: HttpRequest, title: str) -> dict[str, Any]:
    return {**admin.site.each_context(request), "title": title}


@require_http_methods(["GET", "HEAD", "POST"])
def reset(request: HttpRequest) -> HttpResponseBase:
    """Asks for an address and mails a link to it, if it has an account; the answer is the same if not."""
    address = request.POST.get("email", "").strip().lower()
    if not ratelimit.consume(request, action="reset_password", key=address):
        return ratelimit.respond_429(request)
    view = views.PasswordResetView.as_view(
        form_class=ResetForm,
        extra_context={**_shell(request, _("Reset your password")), "can_mail": mail.set_up()},
    )
    return view(request)


def reset_sent(request: HttpRequest) -> HttpResponseBase:
    """Says that the link is on its way."""
    title = _("Check your mail") if mail.set_up() else _("No mail is sent from here")
    shell = _shell(request, title)
    return views.PasswordResetDoneView.as_view(extra_context={**shell, "can_mail": mail.set_up()})(request)


@require_http_methods(["GET", "HEAD", "POST"])
def set_password(request: HttpRequest, uidb64: str, token: str) -> HttpResponseBase:
    """Where an invitation or a reset link leads: sets the password, once."""
    view = NewPasswordView.as_view(form_class=NewPasswordForm, extra_context=_shell(request, _("Choose a password")))
    return view(request, uidb64=uidb64, token=token)


def set_done(request: HttpRequest) -> HttpResponseBase:
    """Says that the password is set."""
    return views.PasswordResetCompleteView.as_view(extra_context=_shell(request, _("Your password is set")))(request)
