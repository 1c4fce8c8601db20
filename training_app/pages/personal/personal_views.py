"""Page: what is stored of somebody in all pools: found, given out, erased. What is looked for is posted, so that no log keeps it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents_app.access import Role, person, require_role
from agents_app.texts import personal_data as stored
from agents_app.texts.matching import PersonalDataError, Terms
from agents_app.texts.personal_data import Place, find
from agents_app.views.settings import draw
from routerweb.pages.downloads import download

SHOWN = 20
#: Queries that a page erases at once. Erasing reads all that is stored a few times, and writes each query by itself.
QUERIES = 200


class TermsForm(forms.Form):
    """What somebody is known by, one a line."""

    terms = forms.CharField(
        label=gettext_lazy("Search terms"),
        max_length=5_000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy(
            "One per line: an e-mail address, a customer number, a name, in any case. Each is searched as a whole word or number."
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
    context: dict[str, Any] = {"form": form}
    if request.method == "POST" and form.is_valid():
        terms, actor, action = form.cleaned_data["terms"], person(request), request.POST.get("do")
        try:
            if action == "export":
                return download([stored.export(terms, actor)], "application/zip", "personal-data.zip")
            if action == "erase" and request.POST.get("sure") == "1":
                places = _erased(request, terms)
            else:
                places = find(terms)
                stored.record_search(terms, places, actor)
        except PersonalDataError as error:  # where a place cannot be read, nothing is said of the others
            messages.error(request, str(error))
        else:
            context |= {"places": [(place, _examples(place)) for place in places], "found": True}
            context["erasable"] = any(place.erasable for place in places)
            context["too_many"] = stored.queries_in(places) > QUERIES
    return draw(
        request, "training_app/personal_data.html", "settings_privacy", context, title=_("One person's data"), pool=None
    )


def _erased(request: HttpRequest, terms: Terms) -> list[Place]:
    """Erase it, or say why not; what still holds it. Raises PersonalDataError where that cannot be read."""
    try:
        places = stored.erase(terms, person(request), most_queries=QUERIES)
    except PersonalDataError as error:
        places = find(terms)
        messages.error(request, str(error))
    else:
        messages.success(
            request, _("Erased. Anything that still holds it is listed below. Earlier backups still contain it.")
        )
    return places


def _examples(place: Place) -> list[tuple[str, str]]:
    """(text, address) of the first rows that have pages."""
    if place.link is None:
        return []
    rows = place.model._base_manager.filter(pk__in=place.keys[:SHOWN]).order_by("pk")
    return [(text[:160], address) for text, address in map(place.link, rows)]
