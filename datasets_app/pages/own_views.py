"""My labels: what one has said, to look it up and put it right."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from agents_app.access import Role, get_pool, person, require_role
from datasets_app.figures import own
from datasets_app.labels import labels
from routerweb.http import page
from routerweb.pages import paging
from routerweb.pages.shown_errors import show_errors

ROWS = 50
#: Items in the list beside the labeling task, and the characters of a text there.
LISTED, BEGINNING = 10, 90


@require_GET
@require_role(Role.LABELER)
def my_labels(request: HttpRequest, slug: str) -> HttpResponse:
    """The person's own labels, newest first; `?q=` searches the queries' texts."""
    pool, who = get_pool(request, slug), person(request)
    search = request.GET.get("q", "").strip()[:200]
    labels = own.labels_of(pool, who, search)
    shown = paging.part(labels, ["-pk"], request.GET, ROWS)
    agents = {agent.number: agent for agent in pool.agents.all()}
    context = {
        "pool": pool,
        "search": search,
        "pace": own.pace(pool, who),
        "part": shown,
        "rows": [(label, [agents[n] for n in label.required if n in agents]) for label in shown.of(labels)],
    }
    crumbs = [(_("Label"), reverse("label", args=[slug]))]
    return page(request, "datasets_app/my_labels.html", context, title=_("My labels"), crumbs=crumbs)


@require_GET
@require_role(Role.LABELER)
def label_done(request: HttpRequest, slug: str, number: int | None = None) -> JsonResponse:
    """What the person submitted last, newest first, for the list beside the task:
    {"done": [{"query", "text", "choice": {"names", "none", "unsure", "note"}}]}."""
    pool = get_pool(request, slug)
    agent = None if number is None else get_object_or_404(pool.agents.active(), number=number)
    names = dict(pool.agents.values_list("number", "name"))
    done = [
        {
            "query": label.query.pk,
            "text": label.query.text[:BEGINNING],
            "choice": {
                "names": [names[n] for n in sorted(label.required) if n in names],
                "none": not label.required,
                "unsure": label.unsure,
                "note": label.note,
            },
        }
        for label in own.lately_done(pool, person(request), agent, LISTED)
    ]
    return JsonResponse({"done": done})


@require_POST
@require_role(Role.LABELER)
def label_note(request: HttpRequest, slug: str, label_id: int) -> HttpResponse:
    """Change the note on one of the person's own labels; "" takes it away."""
    pool = get_pool(request, slug)
    label = get_object_or_404(own.labels_of(pool, person(request)), pk=label_id)
    with show_errors(request, labels.LabelError):
        labels.annotate(label, request.POST.get("note", ""))
        messages.success(request, _("The note was saved."))
    return redirect("my_labels", slug)
