"""Pages: a pool's backends, what was measured of them, how they are chosen, and what another preference would choose."""

from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Agent, Pool
from agents_app.templatetags.routerweb import figure, percent
from agents_app.views.settings import draw
from orchestration_app import catalog, prefilled, providers
from orchestration_app.backends import figures, measured, savings
from orchestration_app.models import LANGUAGE_MODELS, Backend, BackendSettings, Executor
from orchestration_app.pages import pictures
from orchestration_app.providers import BackendError
from routerweb.pages.shown_errors import show_errors, show_errors_in

WEIGHTS = ("quality", "cost", "latency")
#: Half of a 95 % interval of success, above which a difference within it is not called the same quality: the log does not know.
CALLED_THE_SAME = 0.05


class SettingsForm(forms.ModelForm):
    """How a pool chooses."""

    class Meta:
        model = BackendSettings
        fields = ("quality", "cost", "latency", "budget", "spread", "exploration")


class ModelForm(forms.Form):
    """A model at a provider, for as many agents as are ticked. All else comes from the catalog and from traffic. Agents that are
    called at a server of their own are not ticked: no call of theirs runs on a model."""

    provider = forms.CharField(
        label=gettext_lazy("Provider"),
        max_length=500,
        help_text=gettext_lazy("One of the list, or the address of any OpenAI-compatible API."),
        widget=forms.TextInput(attrs={"list": "providers"}),
    )
    secret = forms.CharField(
        label=gettext_lazy("Key"),
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Kept sealed and never shown. Blank keeps the provider's."),
    )
    model = forms.CharField(
        label=gettext_lazy("Model"), max_length=200, widget=forms.TextInput(attrs={"list": "models"})
    )
    agents = forms.ModelMultipleChoiceField(
        Agent.objects.none(), label=gettext_lazy("May run"), widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, pool: Pool, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        agents = pool.agents.active()
        choice: Any = self.fields["agents"]
        others = Executor.objects.filter(agent__pool=pool).exclude(kind__in=LANGUAGE_MODELS)
        choice.queryset, choice.initial = agents, agents.exclude(pk__in=others.values("agent"))


class BackendForm(forms.ModelForm):
    """What may be changed of one backend; its prices and limits are the model's, for all agents."""

    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=500,
        required=False,
        help_text=gettext_lazy("Of its OpenAI-compatible API."),
    )
    secret = ModelForm.base_fields["secret"]
    health_url = forms.URLField(
        label=gettext_lazy("Health check"), max_length=500, required=False, assume_scheme="https"
    )
    field_order = ("address", "secret")

    class Meta:
        model = Backend
        fields = ("active", "order", "health_url")

    def _post_clean(self) -> None:
        """The backend is checked where it is kept, with its provider."""

    def keep(self, request: HttpRequest, backend: Backend) -> Backend:
        """Save it and its provider. Raises BackendError."""
        values = dict(self.cleaned_data)
        address, secret, who = values.pop("address"), values.pop("secret") or None, person(request)
        provider = providers.save_provider(backend.agent.pool, backend.provider.name, address, secret=secret, actor=who)
        return providers.save(backend.agent, provider, values, backend=backend, actor=who)


class TermsForm(forms.ModelForm):
    """Prices, context and limits of one model at its provider."""

    class Meta:
        model = Backend
        fields = (
            "price_in", "price_out", "priced_on", "context", "requests_per_minute", "tokens_per_minute", "at_once",
        )  # fmt: skip
        widgets = {"priced_on": forms.DateInput(attrs={"type": "date"})}

    def _post_clean(self) -> None:
        """They are checked where they are kept."""


def saved(request: HttpRequest, pool: Pool, form: forms.ModelForm[BackendSettings]) -> bool:
    """Whether the settings of a form, all of the pool's or some, are kept now; what is wrong stands at its field."""
    if not form.is_valid():
        return False
    values = dict(form.cleaned_data)
    if set(WEIGHTS) & set(form.changed_data):
        values["point"] = None  # a person's weights take the place of an operating point's
    with show_errors_in(form, BackendError):
        providers.save_settings(pool, values, actor=person(request))
        return True
    return False


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def backend_list(request: HttpRequest, slug: str) -> HttpResponse:
    """Every backend with its price, figures and load, and how the pool chooses. Weights in the address are only tried."""
    pool = get_pool(request, slug)
    settings_row = BackendSettings.objects.filter(pool=pool).first() or BackendSettings(pool=pool)
    form = SettingsForm(request.POST or None, instance=settings_row)
    if request.method == "POST" and saved(request, pool, form):
        messages.success(request, _("From now on backends are chosen like this."))
        return redirect("settings_backends", slug)
    tried = {name: _weight(request.GET.get(name), getattr(settings_row, name)) for name in WEIGHTS}
    rows = figures.rows(pool)
    context = {
        "pool": pool, "form": form, "rows": rows, "tried": tried, "categories": figures.categories(rows),
        "choices": figures.choices(rows, tried), "spent": figures.spent_today(pool) if settings_row.budget else None,
        "kept": settings_row,
        "triangles": pictures.triangles(rows, tried, pool.currency), "traded": pictures.traded(rows),
        "points": [(point, _saving(point)) for point in settings_row.study.get("points", ())],
        # As of the last study, where there is one; as of now, where it waits for more calls.
        "judged": settings_row.study.get("calls", 0) if settings_row.study.get("points") else sum(row.measured.judged for row in rows),
        "needed": savings.LEAST,
        "days": pictures.spent_by_day(measured.log(pool.pk), settings_row.budget) if rows else [],
        "prefilled": prefilled.waiting(pool) if rows else [],
    }  # fmt: skip
    return draw(
        request, "orchestration_app/backends.html", "settings_backends", context, title=_("Backends"), pool=pool
    )


@require_role(Role.OPS)
@never_cache
@require_http_methods(["GET", "POST"])
def backend_new(request: HttpRequest, slug: str) -> HttpResponse:
    """A model at a provider for many agents at once."""
    pool = get_pool(request, slug)
    form = ModelForm(pool, request.POST or None)
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        try:
            backends = providers.apply(
                pool, list(values["agents"]), values["provider"], values["model"], secret=values["secret"] or None,
                actor=person(request),
            )  # fmt: skip
        except BackendError as error:
            field = {"name": "provider", "address": "provider"}.get(error.field, error.field)
            form.add_error(field if field in form.fields else None, str(error))
        else:
            words = ngettext(
                "%(model)s may run %(count)d more agent.", "%(model)s may run %(count)d more agents.", len(backends)
            )
            messages.success(request, words % {"model": values["model"], "count": len(backends)})
            if backends and backends[0].priced_on is None:
                words = _("No price of %(model)s is known, so its calls would count as free. Enter it here.")
                messages.warning(request, words % {"model": backends[0]})
                return redirect("settings_backend_terms", slug)
            return redirect("settings_backends", slug)
    listed = catalog.shipped()
    names = [*listed.addresses, *pool.providers.exclude(name__in=listed.addresses).values_list("name", flat=True)]
    context = {"form": form, "providers": names, "models": listed.models, "listed": listed}
    return draw(
        request, "orchestration_app/backend_new.html", "settings_backends", context, title=_("New backend"), pool=pool
    )


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def backend_terms(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's table of models: prices as of a date, context and limits, each for all agents that may run on the model."""
    pool = get_pool(request, slug)
    first: dict[tuple[int, str], Backend] = {}
    for row in (
        Backend.objects.filter(agent__pool=pool).select_related("provider").order_by("provider__name", "model", "pk")
    ):
        first.setdefault((row.provider_id, row.model), row)
    rows = [
        (row, TermsForm(request.POST or None, instance=row, prefix=str(row.pk)), catalog.terms_of(row.provider.name, row.model))
        for row in first.values()
    ]  # fmt: skip
    valid = [form.is_valid() for _row, form, _listed in rows]  # every one of them, so that each says what is wrong
    if request.method == "POST" and all(valid) and _keep_terms(request, rows):
        messages.success(request, _("Prices and limits are saved."))
        return redirect("settings_backend_terms", slug)
    context = {"pool": pool, "rows": rows, "listed": catalog.shipped()}
    return draw(
        request, "orchestration_app/backend_terms.html", "settings_backends", context,
        title=_("Models, prices and limits"), pool=pool,
    )  # fmt: skip


def _keep_terms(request: HttpRequest, rows: list[tuple[Backend, TermsForm, dict[str, Any]]]) -> bool:
    """Whether what was changed is saved now, all of it or none; what is wrong stands at its field. A changed price is of today."""
    try:
        with transaction.atomic():
            for row, form, _listed in rows:
                values = {name: form.cleaned_data[name] for name in form.changed_data}
                if values.keys() & {"price_in", "price_out"} and "priced_on" not in values:
                    values["priced_on"] = timezone.localdate()
                wrong = form
                if values:
                    providers.save_terms(row.provider, row.model, values, actor=person(request))
    except BackendError as error:
        wrong.add_error(error.field if error.field in wrong.fields else None, str(error))
        return False
    return True


@require_role(Role.OPS)
@require_POST
def backend_point(request: HttpRequest, slug: str) -> HttpResponse:
    """Choose by an operating point from now on."""
    pool = get_pool(request, slug)
    with show_errors(request, BackendError):
        savings.use(pool, _weight(request.POST.get("share"), -1.0), actor=person(request))
        messages.success(request, _("From now on backends are chosen like this."))
    return redirect("settings_backends", slug)


@require_role(Role.OPS)
@never_cache
@require_http_methods(["GET", "POST"])
def backend_edit(request: HttpRequest, slug: str, backend_id: int) -> HttpResponse:
    """One backend of one agent."""
    backend = _backend(get_pool(request, slug), backend_id)
    form = BackendForm(request.POST or None, instance=backend, initial={"address": backend.provider.address})
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, BackendError):
            form.keep(request, _backend(backend.agent.pool, backend_id))
            messages.success(request, _("%(backend)s is saved.") % {"backend": backend})
            return redirect("settings_backends", slug)
    context = {"form": form, "backend": backend}
    title = f"{backend} · {backend.agent.name}"
    return draw(
        request, "orchestration_app/backend.html", "settings_backends", context, title=title, pool=backend.agent.pool
    )


@require_role(Role.OPS)
@require_POST
def backend_remove(request: HttpRequest, slug: str, backend_id: int) -> HttpResponse:
    """The agent is not run there any more."""
    backend = _backend(get_pool(request, slug), backend_id)
    name = str(backend)
    providers.remove(backend, actor=person(request))
    messages.success(request, _("%(backend)s is removed.") % {"backend": name})
    return redirect("settings_backends", slug)


def _backend(pool: Pool, backend_id: int) -> Backend:
    return get_object_or_404(Backend.objects.select_related("agent__pool", "provider"), agent__pool=pool, pk=backend_id)


def _saving(point: dict[str, Any]) -> str:
    """What an operating point saves, or how far the log is from saying so, in a sentence."""
    if "change" not in point:
        if not point.get("more"):
            return _("Not estimable yet: no judged call went this way. Exploration brings such calls.")
        return _(
            "Not estimable yet: with as much exploration as until now it takes about %(more)s more judged calls, "
            "with more exploration fewer."
        ) % {"more": figure(point["more"], 0)}
    figures = {
        "cost": ("+" if point["change"] > 0 else "") + percent(point["change"]), "within": figure(100 * point["within"], 1),
        "difference": ("+" if point["difference"] > 0 else "") + figure(100 * point["difference"], 1),
    }  # fmt: skip
    if abs(point["difference"]) <= point["within"] <= CALLED_THE_SAME:
        return _("%(cost)s cost at the same quality (%(difference)s ± %(within)s points of success)") % figures
    return _("%(cost)s cost, %(difference)s ± %(within)s points of success") % figures


def _weight(value: str | None, otherwise: float) -> float:
    try:
        weight = float(value or "")
    except ValueError:
        return otherwise
    return weight if 0 <= weight <= 1 else otherwise
