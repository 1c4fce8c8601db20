"""Pages: a pool's backends, what was measured of them, how they are chosen, and what another preference would choose."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Pool
from agents_app.views.settings import draw
from orchestration_app import providers
from orchestration_app.backends import figures, measured
from orchestration_app.models import Backend, BackendSettings, Provider
from orchestration_app.pages import pictures
from orchestration_app.providers import BackendError

WEIGHTS = ("quality", "cost", "latency")


class SettingsForm(forms.ModelForm):
    """How a pool chooses."""

    class Meta:
        model = BackendSettings
        fields = ("quality", "cost", "latency", "budget", "spread", "exploration")


class BackendForm(forms.ModelForm):
    """One backend and its provider, who is found by name or made."""

    provider_name = forms.CharField(label=gettext_lazy("Provider"), max_length=80)
    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=500,
        required=False,
        help_text=gettext_lazy("Of its OpenAI-compatible API."),
    )
    secret = forms.CharField(
        label=gettext_lazy("Secret"),
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Kept sealed and never shown. Blank keeps the provider's."),
    )

    health_url = forms.URLField(
        label=gettext_lazy("Health check"), max_length=500, required=False, assume_scheme="https"
    )

    class Meta:
        model = Backend
        fields = (
            "agent", "model", "price_in", "price_out", "tokens_in", "tokens_out", "quality", "latency", "requests_per_minute",
            "tokens_per_minute", "at_once", "order", "health_url", "active",
        )  # fmt: skip

    field_order = ("agent", "provider_name", "address", "secret")

    def __init__(self, pool: Pool, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.pool = pool
        self.fields["agent"].queryset = pool.agents.active()  # type: ignore[attr-defined]
        if self.instance.pk:
            self.fields["provider_name"].initial = self.instance.provider.name
            self.fields["address"].initial = self.instance.provider.address
            self.fields["agent"].disabled = True

    def _post_clean(self) -> None:
        """The backend is checked where it is kept, with its provider."""

    def keep(self, request: HttpRequest) -> Backend:
        """Save both. Raises BackendError."""
        values = dict(self.cleaned_data)
        agent, name, address = values.pop("agent"), values.pop("provider_name"), values.pop("address")
        secret = values.pop("secret") or None
        known = Backend.objects.filter(pk=self.instance.pk).first() if self.instance.pk else None
        provider: Provider = providers.save_provider(self.pool, name, address, secret=secret, actor=person(request))
        return providers.save(agent, provider, values, backend=known, actor=person(request))


def saved(request: HttpRequest, pool: Pool, form: forms.ModelForm[BackendSettings]) -> bool:
    """Whether the settings of a form, all of the pool's or some, are kept now; what is wrong stands at its field."""
    if not form.is_valid():
        return False
    try:
        providers.save_settings(pool, form.cleaned_data, actor=person(request))
    except BackendError as error:
        form.add_error(error.field if error.field in form.fields else None, str(error))
        return False
    return True


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def backend_list(request: HttpRequest, slug: str) -> HttpResponse:
    """Every backend with its price, figures and load, and how the pool chooses. Weights in the address are only tried."""
    pool = get_pool(request, slug)
    kept = BackendSettings.objects.filter(pool=pool).first() or BackendSettings(pool=pool)
    form = SettingsForm(request.POST or None, instance=kept)
    if request.method == "POST" and saved(request, pool, form):
        messages.success(request, _("From now on backends are chosen like this."))
        return redirect("settings_backends", slug)
    tried = {name: _weight(request.GET.get(name), getattr(kept, name)) for name in WEIGHTS}
    rows = figures.rows(pool)
    context = {
        "pool": pool, "form": form, "rows": rows, "tried": tried, "categories": figures.categories(rows),
        "choices": figures.choices(rows, tried), "spent": figures.spent_today(pool) if kept.budget else None, "kept": kept,
        "triangles": pictures.triangles(rows, tried, pool.currency), "traded": pictures.traded(rows),
        "days": pictures.spent_by_day(measured.log(pool.pk), kept.budget) if rows else [],
    }  # fmt: skip
    return draw(
        request, "orchestration_app/backends.html", "settings_backends", context, title=_("Backends"), pool=pool
    )


@require_role(Role.OPS)
@never_cache
@require_http_methods(["GET", "POST"])
def backend_edit(request: HttpRequest, slug: str, backend_id: int | None = None) -> HttpResponse:
    """A backend, a new one without an id."""
    pool = get_pool(request, slug)
    known = _backend(pool, backend_id) if backend_id else None
    form = BackendForm(pool, request.POST or None, instance=known)
    if request.method == "POST" and form.is_valid():
        try:
            kept = form.keep(request)
        except BackendError as error:
            field = {"name": "provider_name"}.get(error.field, error.field)
            form.add_error(field if field in form.fields else None, str(error))
        else:
            messages.success(request, _("%(backend)s may run %(agent)s.") % {"backend": kept, "agent": kept.agent.name})
            return redirect("settings_backends", slug)
    title = str(known) if known else _("New backend")
    return draw(
        request,
        "orchestration_app/backend.html",
        "settings_backends",
        {"form": form, "backend": known},
        title=title,
        pool=pool,
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


def _weight(value: str | None, otherwise: float) -> float:
    try:
        weight = float(value or "")
    except ValueError:
        return otherwise
    return weight if 0 <= weight <= 1 else otherwise
