"""Page: what a pool takes out of texts before they are stored, and how long it keeps decisions and episodes."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from agents_app import privacy, redaction
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.views.forms import Monospace
from agents_app.views.settings import draw

LABELS = {
    "IBAN": gettext_lazy("IBANs with valid check digits"),
    "card": gettext_lazy("Payment cards with a valid check digit"),
    "e-mail": gettext_lazy("E-mail addresses"),
    "phone": gettext_lazy("Phone numbers in a usual notation"),
}


class PrivacyForm(forms.Form):
    """What is redacted and kept; `sample` is a text to try it on."""

    kinds = forms.MultipleChoiceField(
        choices=LABELS.items(), required=False, widget=forms.CheckboxSelectMultiple, label=gettext_lazy("Redact")
    )
    patterns = forms.CharField(
        label=gettext_lazy("Own patterns"),
        required=False,
        max_length=20_000,
        widget=Monospace(rows=4),
        help_text=gettext_lazy(
            "One per line, as NAME: pattern, such as customer: \\bK-\\d{6}\\b. Matches are stored as [NAME]. The syntax is RE2's."
        ),
    )
    decision_days = forms.IntegerField(
        label=gettext_lazy("Days that decisions are kept"), required=False, min_value=1, max_value=3_650
    )
    episode_days = forms.IntegerField(
        label=gettext_lazy("Days that episodes are kept"), required=False, min_value=1, max_value=3_650
    )
    archive_days = forms.IntegerField(
        label=gettext_lazy("Days that archived decisions are kept"), required=False, min_value=1, max_value=3_650
    )
    sample = forms.CharField(
        label=gettext_lazy("A text to try it on"),
        required=False,
        max_length=5_000,
        widget=forms.Textarea(attrs={"rows": 3}),
    )

    def clean_patterns(self) -> list[tuple[str, str]]:
        """(name, pattern) of each line, checked."""
        patterns = []
        for number, line in enumerate(self.cleaned_data["patterns"].splitlines(), 1):
            if not line.strip():
                continue
            name, colon, pattern = line.partition(":")
            if not colon or not pattern.strip():
                raise forms.ValidationError(_("Line %(line)d must be “NAME: pattern”.") % {"line": number})
            patterns.append((name.strip(), pattern.strip()))
        try:
            privacy.check_patterns(patterns)
        except redaction.BadPattern as error:
            raise forms.ValidationError(str(error)) from None
        return patterns


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def pool_privacy(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's redaction and retention; with `try` a text is shown as it would be stored, and nothing is saved."""
    pool = get_pool(request, slug)
    now = privacy.of(pool)
    written = "\n".join(f"{pattern['name']}: {pattern['pattern']}" for pattern in now.patterns)
    form = PrivacyForm(
        request.POST or None,
        initial={
            "kinds": now.kinds,
            "patterns": written,
            "decision_days": now.decision_days,
            "episode_days": now.episode_days,
            "archive_days": now.archive_days,
        },
    )
    tried = None
    if request.method == "POST" and form.is_valid():
        values: dict[str, Any] = dict(form.cleaned_data)
        sample = values.pop("sample")
        if "try" in request.POST:
            tried = redaction.Redactor(values["kinds"], values["patterns"]).text(sample)
        else:
            privacy.change(pool, **values, actor=person(request))
            messages.success(request, _("Saved. Texts that are already stored do not change."))
            return redirect("settings_privacy", slug)
    context = {
        "form": form,
        "tried": tried,
        "decision_days": settings.DECISION_DAYS,
        "episode_days": settings.EPISODE_DAYS,
        "archive": bool(settings.DECISION_ARCHIVE),
        "archive_days": settings.ARCHIVE_DAYS,
        "for_all": Role.OPS in roles_of(request.user),
    }
    return draw(request, "agents_app/privacy.html", "settings_privacy", context, title=_("Privacy"), pool=pool)
