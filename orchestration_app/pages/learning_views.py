"""Page: who learns which backend to take, how that goes, what candidates would have brought, and tables that one can read."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role
from agents_app.views.settings import draw
from orchestration_app import providers
from orchestration_app.backends import figures, judging, learning, measured, pairs
from orchestration_app.engine.backends.choosing import Preference, scales
from orchestration_app.models import BackendSettings
from orchestration_app.pages import pictures
from orchestration_app.pages.backend_views import saved


class LearningForm(forms.ModelForm):
    """Who learns, and within which rails."""

    class Meta:
        model = BackendSettings
        fields = ("learner", "learning_share", "learning_within", "pairs")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["learner"] = forms.ChoiceField(
            label=self.fields["learner"].label,
            help_text=_("Learns from reported calls and decides a share of the assignments."),
            choices=[("", _("Nobody")), *BackendSettings.Learner.choices],
            required=False,
        )


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def backend_learning(request: HttpRequest, slug: str) -> HttpResponse:
    """The learner of a pool. With `judge` in the address candidates are judged from the log, which takes some seconds."""
    pool = get_pool(request, slug)
    settings_row = BackendSettings.objects.filter(pool=pool).first() or BackendSettings(pool=pool)
    form = LearningForm(request.POST or None, instance=settings_row)
    if request.method == "POST":
        if saved(request, pool, form):
            messages.success(request, _("From now on the pool learns like this."))
            return redirect("settings_backend_learning", slug)
        settings_row = BackendSettings.objects.filter(pool=pool).first() or BackendSettings(pool=pool)
    log = measured.log(pool.pk)
    rows = figures.rows(pool)
    of_agent: dict[int, list[figures.AgentBackend]] = {}
    for row in rows:
        of_agent.setdefault(row.backend.agent.number, []).append(row)
    table = judging.table_of(pool)
    agents, chains = pairs.of_pool(pool)
    ran, of_backends = pairs.backends_of(pool)
    context = {
        "form": form, "kept": settings_row, "judging": "judge" in request.GET, "log": len(log),
        "compared": learning.compared(
            log, Preference.of(settings_row.quality, settings_row.cost, settings_row.latency),
            {agent: scales([row.expected for row in some]) for agent, some in of_agent.items()}, settings_row.learning_since,
        ),
        "price": learning.price(settings_row.budget, log) if settings_row.budget and settings_row.learner else None,
        "heat": pictures.q_heat(table, rows) if table else [], "epsilon": table.table.epsilon if table else None,
        "agents": agents, "pairs": pictures.pair_heat(agents, chains), "ran": pictures.pair_heat(ran, of_backends),
        "judged": judging.judged(pool) if "judge" in request.GET else [], "known": len(judging.judgeable_calls(pool)),
    }  # fmt: skip
    title = _("Learning which backend to take")
    return draw(
        request, "orchestration_app/backend_learning.html", "settings_backends", context, title=title, pool=pool
    )


@require_role(Role.OPS)
@require_POST
def backend_learning_resume(request: HttpRequest, slug: str) -> HttpResponse:
    """A learner that was stopped decides its share again."""
    pool = get_pool(request, slug)
    providers.resume_learning(pool, actor=person(request))
    messages.success(request, _("The learner runs again, judged by calls from now on."))
    return redirect("settings_backend_learning", slug)
