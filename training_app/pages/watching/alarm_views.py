"""Pages: what is wrong, how traffic drifts, and whom that is told to."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Pool
from agents_app.views.settings import draw
from routerweb.http import page
from routerweb.pages import parameters
from routerweb.pages.shown_errors import show_errors
from training_app.models import Alarm, AlarmDelivery, AlarmReceiver, ProcessSign
from training_app.pages.watching import drift_charts
from training_app.versions import registry
from training_app.watching import alarms, deliveries, drift, health, watch

ROWS = 25


def _crumbs(pool: Pool, *more: tuple[str, str]) -> list[tuple[str, str]]:
    return [(pool.name, reverse("home")), *more]


# --- Alarms -----------------------------------------------------------------------------------------------------------


@require_GET
@require_role(Role.OPS)
def alarm_list(request: HttpRequest, slug: str) -> HttpResponse:
    """What is wrong now in the pool and on the site, what was, and the processes that are there."""
    pool = get_pool(request, slug)
    passed = Paginator(alarms.past(pool), ROWS).get_page(request.GET.get("page"))
    parts = [(label, watch.alive(value)) for value, label in watch.parts()]
    context = {
        "pool": pool,
        "alarms": [(alarm, alarms.may_mute(alarm, person(request))) for alarm in alarms.open_alarms(pool)],
        "passed": passed,
        "hours": [(hours, _hours(hours)) for hours in alarms.MUTE_HOURS],
        "parts": parts,
        "receivers": AlarmReceiver.objects.kept().filter(pool=pool).count(),
        "looks": ProcessSign.objects.filter(at__gte=timezone.now() - watch.ALIVE).exists(),
    }
    return page(request, "training_app/alarms.html", context, title=_("Alarms"), crumbs=_crumbs(pool))


@require_GET
@never_cache
@require_role(Role.OPS)
def health_page(request: HttpRequest, slug: str) -> HttpResponse:
    """How the web process is that draws this page, with the pool's model as it has it."""
    pool = get_pool(request, slug)
    report = health.of_this_process((pool.slug,))
    began = None if report.running is None else timezone.now() - timedelta(seconds=report.running)
    context = {
        "pool": pool,
        "seen": report,
        "began": began,
        "megabytes": round(report.memory / 1e6),
        "model": report.models.get(pool.slug),
        "problem": report.problems.get(pool.slug, ""),
        "metrics": settings.METRICS,
        "traces": settings.TRACES,
        # Models of every pool, so for admins alone.
        "processes": _processes() if Role.ADMIN in roles_of(request.user) else None,
    }
    crumbs = _crumbs(pool, (_("Alarms"), reverse("alarms", args=[pool.slug])))
    return page(request, "training_app/health.html", context, title=_("Health of this process"), crumbs=crumbs)


def _processes() -> list[tuple[str, ProcessSign, int]]:
    """Every living process: what it does, what it said of itself, and its megabytes."""
    titles = dict(watch.parts())
    return [(titles.get(sign.part, sign.part), sign, round(sign.memory / 1e6)) for sign in watch.alive()]


def _hours(hours: int) -> str:
    if hours >= 48:
        return ngettext("%(n)d day", "%(n)d days", hours // 24) % {"n": hours // 24}
    return ngettext("%(n)d hour", "%(n)d hours", hours) % {"n": hours}


@require_POST
@require_role(Role.OPS)
def alarm_mute(request: HttpRequest, slug: str, alarm_id: int) -> HttpResponse:
    """Tell nobody of alarms of this kind for `hours`; 0 tells of them again. One of the whole site is for ops of all pools."""
    pool = get_pool(request, slug)
    alarm = get_object_or_404(Alarm.objects.filter(Q(pool=pool) | Q(pool=None)), pk=alarm_id)
    hours = parameters.number(request.POST.get("hours"))
    kind = alarm.get_kind_display()
    try:
        if hours == 0:
            alarms.unmute(alarm, person(request))
            messages.success(request, _("“%(kind)s” is no longer muted.") % {"kind": kind})
        elif hours in alarms.MUTE_HOURS:
            until = alarms.mute(alarm, hours, person(request)).until
            sentence = _("“%(kind)s” is muted until %(time)s.")
            when = date_format(timezone.localtime(until), "SHORT_DATETIME_FORMAT")
            messages.success(request, sentence % {"kind": kind, "time": when})
        else:
            messages.error(request, _("Choose one of the times in the list."))
    except alarms.MuteRefused as refused:
        raise PermissionDenied(str(refused)) from None
    return redirect("alarms", slug)


# --- Drift ------------------------------------------------------------------------------------------------------------


@require_GET
@require_role(Role.OPS)
def drift_page(request: HttpRequest, slug: str) -> HttpResponse:
    """How recent queries and answers differ from those that the active model was judged on."""
    pool = get_pool(request, slug)
    model = registry.active(pool)
    context: dict[str, Any] = {"pool": pool, "model": model}
    if model is not None:
        context |= drift_charts.read(model)
        # One look may be chance: the alarm waits for queries that came after it.
        context["alarmed"] = alarms.is_open(Alarm.Kind.DRIFT, pool)
    crumbs = _crumbs(pool, (_("Alarms"), reverse("alarms", args=[slug])))
    return page(request, "training_app/drift.html", context, title=_("Drift"), crumbs=crumbs)


@require_POST
@require_role(Role.OPS)
def drift_look(request: HttpRequest, slug: str) -> HttpResponse:
    """Look now instead of at the next full hour."""
    model = registry.active(get_pool(request, slug))
    if model is not None:
        point = drift.look(model)
        if point is None and drift.lacks_reference(model):
            messages.info(request, drift.why_no_reference(model))
        elif point is None:
            messages.info(request, _("There are not enough different queries to compare yet."))
        else:
            drift.tell(model, point)
    return redirect("drift", slug)


@require_POST
@require_role(Role.OPS)
def drift_accept(request: HttpRequest, slug: str) -> HttpResponse:
    """Use recent traffic as the new reference."""
    model = registry.active(get_pool(request, slug))
    if model is not None:
        with show_errors(request, drift.DriftError):
            drift.accept(model, person(request))
            messages.success(request, _("Recent traffic is the new reference for the next check."))
    return redirect("drift", slug)


# --- Receivers --------------------------------------------------------------------------------------------------------


@require_role(Role.OPS)
@never_cache
@require_http_methods(["GET", "POST"])
def receiver_list(request: HttpRequest, slug: str) -> HttpResponse:
    """Whom alarms are told to; a new webhook's secret is in the answer to its making, and nowhere else, ever."""
    pool = get_pool(request, slug)
    context: dict[str, Any] = {"kind": "webhook"}
    if request.method == "POST":
        kind, address = request.POST.get("kind", ""), request.POST.get("address", "")
        context |= {"kind": kind, "address": address}
        try:
            if kind not in AlarmReceiver.Kind.values:
                raise deliveries.ReceiverRefused(_("Choose how to send it."))
            receiver = deliveries.add_receiver(pool, kind, address, person(request))
        except deliveries.ReceiverRefused as refused:
            context["error"] = str(refused)
        else:
            if receiver.kind in (AlarmReceiver.Kind.SLACK, AlarmReceiver.Kind.TEAMS):
                messages.success(request, _("Alarms are posted to that channel. Send a test to see one."))
                return redirect("settings_alarms", slug)
            if receiver.kind in AlarmReceiver.SIGNED:
                context |= {"secret": deliveries.secret_of(receiver), "address": ""}
            else:
                messages.success(request, _("Alarms are mailed to %(address)s.") % {"address": receiver.address})
                return redirect("settings_alarms", slug)
    sent = AlarmDelivery.objects.filter(receiver__pool=pool).select_related("receiver", "alarm")
    context |= {
        "receivers": AlarmReceiver.objects.kept().filter(pool=pool).select_related("created_by"),
        "sent": Paginator(sent, ROWS).get_page(request.GET.get("page")),
        "kinds": AlarmReceiver.Kind.choices,
    }
    return draw(request, "training_app/receivers.html", "settings_alarms", context, title=_("Alarms"), pool=pool)


def _receiver(slug: str, receiver_id: int) -> AlarmReceiver:
    return get_object_or_404(AlarmReceiver.objects.select_related("pool"), pool__slug=slug, pk=receiver_id)


@require_POST
@require_role(Role.OPS)
def receiver_test(request: HttpRequest, slug: str, receiver_id: int) -> HttpResponse:
    """Send a test now, and say what came of it."""
    receiver = _receiver(slug, receiver_id)
    if receiver.removed_at is not None:
        messages.error(request, _("That address was removed."))
        return redirect("settings_alarms", slug)
    delivery = deliveries.send_test(receiver)
    if not delivery.log:
        shown = receiver.address.partition("?")[0]
        messages.info(
            request, _("A test is on its way to %(address)s. The list says how it ended.") % {"address": shown}
        )
        return redirect("settings_alarms", slug)
    last = delivery.log[-1]
    values = {
        "address": receiver.address.partition("?")[0],
        "said": f"{last['code'] or ''} {last['said']}".strip(),
        "ms": last["ms"],
    }
    if delivery.status == AlarmDelivery.Status.DELIVERED:
        messages.success(request, _("The test got through to %(address)s in %(ms)d ms: %(said)s") % values)
    else:
        messages.error(request, _("The test did not get through to %(address)s: %(said)s") % values)
    return redirect("settings_alarms", slug)


@require_POST
@require_role(Role.OPS)
def receiver_remove(request: HttpRequest, slug: str, receiver_id: int) -> HttpResponse:
    """Tell an address nothing more; `receiver_restore` undoes it."""
    receiver = _receiver(slug, receiver_id)
    deliveries.remove_receiver(receiver, person(request))
    undo = reverse("receiver_restore", args=[slug, receiver.pk])
    shown = receiver.address.partition("?")[0]
    messages.success(request, _("%(address)s receives no more alarms.") % {"address": shown}, extra_tags=f"undo:{undo}")
    return redirect("settings_alarms", slug)


@require_POST
@require_role(Role.OPS)
def receiver_restore(request: HttpRequest, slug: str, receiver_id: int) -> HttpResponse:
    """Tell a removed address again, with the secret that it had."""
    receiver = _receiver(slug, receiver_id)
    with show_errors(request, deliveries.ReceiverRefused):
        deliveries.restore_receiver(receiver, person(request))
        messages.success(
            request, _("%(address)s receives alarms again.") % {"address": receiver.address.partition("?")[0]}
        )
    return redirect("settings_alarms", slug)
