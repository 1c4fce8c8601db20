"""The home page: what a person's role has to see first of the pool that they are in."""

from collections.abc import Collection, Mapping, Sequence
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
from datasets_app.labeling import queue
from routerweb.http import LAST_POOL, page, reads_file, remember_pool
from training_app.models import RouterModel, Run
from training_app.pages.home import dashboard, facts, first_steps, inbox, questions
from training_app.pages.home.facts import Facts
from training_app.rollout import promises, trials
from training_app.rollout.traffic_hours import Hour
from training_app.training import previews, sample
from training_app.versions import more_labels, scorecards, verdict

RECENT = timedelta(days=7)


@require_GET
@login_required
def home(request: HttpRequest) -> HttpResponse:
    """What waits for the person across their pools; below, the pool that they were in last, or else the one where most waits."""
    pools = navigation.pools_of(request)
    facts_by_pool = facts.of(pools[: inbox.MOST_POOLS])
    waiting = inbox.lines([(pool, roles_of(request.user, pool)) for pool in pools], person(request), facts_by_pool)
    last = request.COOKIES.get(LAST_POOL)
    pool = next(
        (pool for pool in pools if pool.slug == last), inbox.busiest(waiting) or navigation.current_pool(request)
    )
    return _draw(request, pool, {"inbox": waiting, "shows_inbox": bool(pools)}, facts_by_pool)


@require_GET
@login_required
def pool_home(request: HttpRequest, slug: str) -> HttpResponse:
    """One pool: for ops its dashboard, of `?hours=` 24 or 168; for labelers one big button."""
    pool = get_pool(request, slug)
    if not roles_of(request.user, pool):
        raise PermissionDenied
    if pool.deleted_at is not None:
        return render(request, "410.html", {"pool": pool}, status=410)
    return _draw(request, pool, {}, {})


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


def _draw(
    request: HttpRequest, pool: Pool | None, more: dict[str, Any], facts_by_pool: Mapping[int, Facts]
) -> HttpResponse:
    """The page of a pool, or of none; `facts_by_pool` are facts that somebody has read already."""
    roles = roles_of(request.user, pool)
    context: dict[str, Any] = {**more, "pool": pool}
    if pool is None and Role.OPS in roles_of(request.user):
        context["pool_form"] = PoolForm()
    if pool and roles:
        context |= _of_pool(
            request, pool, roles, more.get("inbox"), facts_by_pool.get(pool.pk) or facts.of([pool])[pool.pk]
        )
    return page(request, "training_app/home.html", context, title=pool.name if pool else _("Home"))


def _of_pool(
    request: HttpRequest, pool: Pool, roles: Collection[Role], lines: list[inbox.Line] | None, pool_facts: Facts
) -> dict[str, Any]:
    """What the page says of one pool. `lines`: what waits for the person in all pools, where that was read."""
    context: dict[str, Any] = {}
    left = progress.left(pool, person(request)) if Role.LABELER in roles else None
    if left is not None:
        context["labeling"] = labeling(pool, person(request), left, pool_facts)
    if not {Role.OPS, Role.REVIEWER} & set(roles):
        return context | {"whom": questions.whom(pool)}
    states, labeled = progress.states_and_labeled([pool])[pool.pk]
    context |= {"states": states, "labeled": labeled, "counted_at": progress.counted_at(pool)}
    hours = promises.hours_of_weeks(pool)
    judged = verdict.of(pool_facts.active) if pool_facts.active else None
    if Role.OPS in roles:
        days = 168 if request.GET.get("hours") == "168" else 24
        context |= operations(pool, pool_facts, days, hours, judged, (left or progress.left(pool)).total)
    context["path"] = first_steps.path(pool, roles, labeled, pool_facts, left)
    if lines is None:
        counted = {} if left is None else {pool.pk: left}
        lines = inbox.lines([(pool, roles)], person(request), {pool.pk: pool_facts}, counted)
    waiting = [line for line in lines if line.pool == pool]
    context["questions"] = questions.questions(pool, waiting, person(request), pool_facts, judged, hours)
    return context


def labeling(pool: Pool, person: User, left: progress.Left, pool_facts: Facts) -> dict[str, Any]:
    """A labeler's own figures: what is left for them and for others, what they did today."""
    return {
        "left": left,
        "today": queue.done_today(pool, person),
        "address": navigation.address("label", pool),
        "check": navigation.address("check_answers", pool) if pool_facts.active else "",
    }


def operations(
    pool: Pool,
    pool_facts: Facts,
    hours: int,
    counted: Sequence[Hour],
    judged: verdict.Verdict | None,
    to_label: int,
) -> dict[str, Any]:
    """What ops see: how the pool does in words and pictures, alarms, the active model, the last runs, and what wants attention.
    `counted`: the hours of `promises.hours_of_weeks`; `judged`: the verdict on the model in use; `to_label`: what is left to label."""
    model = pool_facts.active
    last_runs = list(Run.objects.filter(pool=pool).select_related("pool", "author").order_by("-pk")[:5])
    traffic, outcomes = dashboard.traffic(pool, hours, counted, pool_facts.agents), dashboard.success(pool, counted)
    return {
        "active": model,
        "figures": scorecards.verdict(model) if model else None,
        "verdict": judged,
        **delivery(pool, model, counted, judged),
        "next_labels": more_labels.forecast(model) if model else "",
        "sentence": dashboard.in_words(pool, model, traffic, outcomes, has_agents=bool(pool_facts.roster)),
        "traffic": traffic,
        "periods": [(24, _("24 hours")), (168, _("7 days"))],
        "outcomes": outcomes,
        "work": dashboard.work(pool_facts.coming, to_label),
        "alarms": pool_facts.alarms,
        "runs": last_runs,
        "attention": attention(pool, has_model=pool_facts.in_use, last_runs=last_runs),
        "answering": trials.answering_with(pool, model, pool_facts.shadows),
        "away": [agent for agent in pool_facts.roster if not agent.available],
        "operates": True,
    }


def delivery(
    pool: Pool, model: RouterModel | None, counted: Sequence[Hour], judged: verdict.Verdict | None
) -> dict[str, Any]:
    """What the model in use promises of live traffic, and week by week what was promised, checked and reported."""
    if model is None:
        return {}
    promise = promises.promise(model, judged)
    weeks = promises.weeks(pool, counted, {model.pk: promise})
    return {"promise": promise, "weeks": weeks, "weeks_chart": promises.chart(weeks)}


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
    lines += [warning for warning in previews.preview(pool).warnings if warning.address]
    return lines
