"""Putting a label right where its error is seen: chips that are a form, beside the answer, and as a page of their own."""

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.guidelines import rendered
from datasets_app.labeling import corrections, one_query
from datasets_app.pages.correction_form import CorrectionForm
from routerweb.http import page, wants_fragment
from routerweb.pages import parameters


@require_http_methods(["GET", "POST"])
@require_role(Role.LABELER)
def correct(request: HttpRequest, slug: str) -> HttpResponse:
    """`text`, what stands as its answer (`set`), and where that was seen (`at`).

    A POST saves what this person says: the set with the agent `toggle` in or out, the set `right` as it is, or `none`. A reviewer
    decides with it, everybody else labels. `undo` takes the label of that id back.
    """
    pool = get_pool(request, slug)
    data = request.POST if request.method == "POST" else request.GET
    shown = frozenset(parameters.listed(data.get("set")))
    form = CorrectionForm.of(pool, data.get("text", ""), shown, data.get("at", "")[:40])
    if request.method == "POST":
        try:
            form = _undone(request, form) if "undo" in request.POST else _saved(request, form, shown)
        except one_query.ChoiceError as error:
            form = replace(form, problem=str(error))
    context = {"pool": pool, "form": form}
    if wants_fragment(request):
        return render(request, "datasets_app/_correct.html", context)
    if request.method == "POST" and not form.problem:
        return redirect("my_labels", slug)
    context |= {
        "query": corrections.find(pool, form.text) if form.text else None,
        "guidelines": rendered(pool.guidelines) if pool.guidelines else "",
    }
    status = 422 if form.problem else 200
    return page(request, "datasets_app/correct.html", context, title=_("Correct an answer"), status=status)


def _saved(request: HttpRequest, form: CorrectionForm, shown: frozenset[int]) -> CorrectionForm:
    """The form once the click is a label. Raises ChoiceError."""
    toggled = parameters.number(request.POST.get("toggle"))
    if toggled is not None:
        chosen = shown ^ {toggled}
    elif "right" in request.POST:
        chosen = frozenset(parameters.listed(request.POST["right"]))
    elif "none" in request.POST:
        chosen = frozenset()
    else:
        raise one_query.ChoiceError(_("Choose agents or “None of these agents”."))
    decides = Role.REVIEWER in roles_of(request.user, form.pool)
    label = corrections.correct(form.pool, form.text, chosen, person(request), seen_at=form.seen_at, decides=decides)
    return replace(form, chosen=chosen, before=shown, label=label)


def _undone(request: HttpRequest, form: CorrectionForm) -> CorrectionForm:
    """The form as it was before the last click. Raises ChoiceError."""
    corrections.take_back(form.pool, parameters.key(request.POST["undo"]), person(request))
    return replace(form, chosen=frozenset(parameters.listed(request.POST.get("before"))))
