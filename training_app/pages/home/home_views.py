"""The home page: what a person's role has to see first of the pool that they are in."""

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from agents_app import navigation
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Pool
from agents_app.views.forms import PoolForm
from datasets_app.figures import progress
from datasets_app.labels import queue
from routerweb.http import LAST_POOL, page, reads_file, remember_pool
from training_app.models import RouterModel, Run
from training_app.pages.home import dashboard, first_steps, inbox, questions
from training_app.rollout import promises, trials
from training_app.training import previews, sample
from training_app.versions import kinds, more_labels, registry, scorecards, verdict
from training_app.watching import alarms

RECENT = timedelta(days=7)


@require_GET
@login_required
def home(request: HttpRequest) -> HttpResponse:
    """What waits for the person across their pools; below, the pool that they were in last, or else the one where most waits."""
    pools = navigation.pools_of(request)
    waiting = inbox.lines([(pool, roles_of(request.user, pool)) for pool in pools], person(request))
    last = request.COOKIES.get(LAST_POOL)
    pool = next(
        (pool for pool in pools if pool.slug == last), inbox.busiest(waiting) or navigation.current_pool(request)
    )
    return _draw(request, pool, {"inbox": waiting, "shows_inbox": bool(pools)})


@require_GET
@login_required
def pool_home(request: HttpRequest, slug: str) -> HttpResponse:
    """One pool: for ops its dashboard, of `?hours=` 24 or 168; for labelers one big button."""
    pool = get_pool(request, slug)
    if not roles_of(request.user, pool):
        raise PermissionDenied
    if pool.deleted_at is not None:
        return render(request, "410.html", {"pool": pool}, status=410)
    return _draw(request, pool, {})


@reads_file  # it reads some thousand rows, as an import does
@require_POST
@require_role(Role.OPS)
def sample_pool(request: HttpRequest) -> HttpResponse:
    """Make the sample pool, and open it."""
    pool = sample.make(actor=person(request))
    messages.success(
        request, _("The sample pool is ready. Its first router is being trained, and answers when it is done.")
    )
    answer = redirect("pool_home", pool.slug)
    remember_pool(request, answer, pool.slug)
    return answer


def _draw(request: HttpRequest, pool: Pool | None, more: dict[str, Any]) -> HttpResponse:
    roles = roles_of(request.user, pool)
    context: dict[str, Any] = {**more, "pool": pool}
    if pool is None and Role.OPS in roles_of(request.user):
        context["pool_form"] = PoolForm()
    if pool:
        if Role.LABELER in roles:
            context["labeling"] = labeling(pool, person(request))
        if roles & {Role.OPS, Role.REVIEWER}:
            context |= {
                "states": progress.states(pool),
                "labeled": progress.labeled(pool),
                "counted_at": progress.counted_at(pool),
            }
        if Role.OPS in roles:
            hours = request.GET.get("hours", "")
            to_label = context["labeling"]["left"].total if "labeling" in context else None
            context |= operations(pool, 168 if hours == "168" else 24, labeling=to_label)
        if roles & {Role.OPS, Role.REVIEWER}:
            context["path"] = first_steps.path(pool, roles, context["labeled"])
            waiting = [line for line in context.get("inbox", ()) if line.pool == pool]
            if "inbox" not in context:
                waiting = inbox.lines([(pool, roles)], person(request), context["labeling"]["left"])
            context["questions"] = questions.questions(pool, waiting, person(request))
        elif roles:
            context["whom"] = questions.whom(pool)
    return page(request, "training_app/home.html", context, title=pool.name if pool else _("Home"))


def labeling(pool: Pool, person: User) -> dict[str, Any]:
    """A labeler's own figures: what is left for them and for others, what they did today."""
    return {
        "left": progress.left(pool, person),
        "today": queue.done_today(pool, person),
        "address": navigation.address("label", pool),
        "check": navigation.address("check_answers", pool) if registry.active(pool) else "",
    }


def operations(pool: Pool, hours: int = 24, labeling: int | None = None) -> dict[str, Any]:
    """What ops see: how the pool does in words and pictures, alarms, the active model, the last runs, and what wants attention.
    `labeling` is what is left to label, where it is known."""
    model = registry.active(pool)
    last_runs = list(Run.objects.filter(pool=pool).select_related("pool", "author").order_by("-pk")[:5])
    traffic, outcomes = dashboard.traffic(pool, hours), dashboard.success(pool)
    return {
        "active": model,
        "figures": scorecards.verdict(model) if model else None,
        "verdict": verdict.of(model) if model else None,
        **delivery(pool, model),
        "next_labels": more_labels.forecast(model) if model else "",
        "sentence": dashboard.in_words(pool, model, traffic, outcomes),
        "traffic": traffic,
        "periods": [(24, _("24 hours")), (168, _("7 days"))],
        "outcomes": outcomes,
        "work": dashboard.work(pool, labeling),
        "alarms": [alarm for alarm in alarms.open_alarms(pool) if alarm.muted_until is None],  # type: ignore[attr-defined]
        "runs": last_runs,
        "attention": attention(pool, has_model=bool(model or kinds.in_use_beside_router(pool)), last_runs=last_runs),
        "answering": trials.answering(pool),
        "away": list(pool.agents.active().filter(available=False).order_by("number")),
        "operates": True,
    }


def delivery(pool: Pool, model: RouterModel | None) -> dict[str, Any]:
    """What the model in use promises of live traffic, and week by week what was promised, checked and reported."""
    if model is None:
        return {}
    weeks = promises.weeks(pool)
    return {"promise": promises.promise(model), "weeks": weeks, "weeks_chart": promises.chart(weeks)}


def attention(pool: Pool, *, has_model: bool, last_runs: list[Run]) -> list[tuple[str, str]]:
    """(sentence, address) of each thing that somebody should look at; the address may be ""."""
    lines: list[tuple[str, str]] = []
    if not has_model:
        lines.append(
            (_("No model is active: the agents' descriptions answer requests."), navigation.address("runs", pool))
        )
    failed = [run for run in last_runs if run.status == Run.Status.FAILED and run.created_at > timezone.now() - RECENT]
    if failed:
        text = ngettext("%(count)d of the last runs failed.", "%(count)d of the last runs failed.", len(failed))
        lines.append((text % {"count": len(failed)}, navigation.address("runs", pool) + "?status=failed"))
    lines += [warning for warning in previews.as_counted(pool).warnings if warning.address]
    return lines
