"""Page: every word of the glossary."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from agents_app.glossary import TERMS
from routerweb.http import page


@require_GET
@login_required
def glossary(request: HttpRequest) -> HttpResponse:
    """The words that pages explain where one points at them, by alphabet; each has an address of its own."""
    terms = sorted(TERMS.items(), key=lambda item: str(item[1].word).casefold())
    return page(request, "agents_app/glossary.html", {"terms": terms}, title=_("Glossary"))
