"""Page: what is stored of somebody in all pools: found, given out, erased. What is looked for is posted, so that no log keeps it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Model
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents_app.access import Role, person, require_role
from agents_app.views.settings import draw
from datasets_app.models import Query
from routerweb.downloads import download
from training_app.models import Decision, Episode
from training_app.personal import erasing
from training_app.personal.finding import PersonalDataError, Place, Terms, find

SHOWN = 20
#: Erasing a query looks through all that is stored: more of them would keep a page waiting for minutes.
QUERIES = 10


class TermsForm(forms.Form):
    """What somebody is known by, one a line."""

    terms = forms.CharField(
        label=gettext_lazy("What they are known by"),
        max_length=5_000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy(
            "One a line: an e-mail address, a customer number, a name, in any case. Each is found as a whole word or number."
        ),
    )

    def clean_terms(self) -> Terms:
        """The lines, checked."""
        try:
            return Terms(self.cleaned_data["terms"].splitlines())
        except PersonalDataError as error:
            raise forms.ValidationError(str(error)) from None


@require_role(Role.OPS)
@never_cache
@require_http_methods(["GET", "POST"])
def personal_data(request: HttpRequest) -> HttpResponseBase:
    """`do` is find, export or erase; erasing is done with `sure`."""
    form = TermsForm(request.POST or None)
    context: dict[str, Any] = {"form": form, "most_queries": QUERIES}
    if request.method == "POST" and form.is_valid():
        terms, actor, asked = form.cleaned_data["terms"], person(request), request.POST.get("do")
        if asked == "export":
            return download([erasing.export(terms, actor)], "application/zip", "personal-data.zip")
        if asked == "erase" and request.POST.get("sure") == "1":
            try:
                places = erasing.erase(terms, actor, most_queries=QUERIES)
            except PersonalDataError as error:
                messages.error(request, str(error))
                places = find(terms)
            else:
                messages.success(
                    request, _("Erased. What still holds it stands below; backups from before hold it too.")
                )
        else:
            places = find(terms)
            erasing.record_search(terms, places, actor)
        context |= {"places": [(place, _examples(place)) for place in places], "found": True}
        context["erasable"] = any(place.erasable for place in places)
    return draw(
        request, "training_app/personal_data.html", "settings_privacy", context, title=_("One person's data"), pool=None
    )


def _examples(place: Place) -> list[tuple[str, str]]:
    """(text, address) of the first rows that have pages."""
    if place.model not in (Query, Decision, Episode):
        return []
    found = place.model._base_manager.filter(pk__in=place.keys[:SHOWN])
    return [_example(row) for row in found.order_by("pk")]


def _example(row: Model) -> tuple[str, str]:
    if isinstance(row, Query):
        return row.text[:160], reverse("query", args=(row.dataset.pool.slug, row.pk))
    if isinstance(row, Decision):
        return row.text[:160], reverse("decision", args=(row.pool.slug, row.pk))
    assert isinstance(row, Episode)
    return row.task[:160], reverse("episode", args=(row.pool.slug, row.pk))
