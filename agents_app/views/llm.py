"""The page *LLM*: address, model and key of the installation's LLM, tested and saved, and presets of well-known servers."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents_app import llm
from agents_app.access import Role, person, require_role
from agents_app.models import LlmConnection
from agents_app.navigation import pools_of
from agents_app.outbound import guard
from agents_app.views.settings import draw
from training_app.engine.llm import LLMError


class LlmForm(forms.ModelForm):
    """The connection; a blank key keeps the saved one, where the address stays the same server."""

    key = forms.CharField(
        label=_("Key"),
        required=False,
        strip=True,
        max_length=500,
        # What was typed comes back where the test fails, so that nobody enters it twice. A stored key is never an initial value.
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}, render_value=True),
        help_text=_("Stored encrypted and never shown again. A server of your own may need none."),
    )
    field_order = ("base_url", "own_network", "model", "key", "price_in", "price_out")

    class Meta:
        model = LlmConnection
        fields = ("base_url", "own_network", "model", "price_in", "price_out")
        help_texts = {
            "base_url": _("Any server with POST /chat/completions, for example https://api.openai.com/v1"),
            "model": _("As the server names it, for example gpt-4.1-mini or llama3.1"),
        }

    def __init__(self, *args: Any, before: llm.Connection, **options: Any) -> None:
        super().__init__(*args, **options)
        self._before = before
        for name in ("price_in", "price_out"):
            self.fields[name].required = False

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        server = llm.server_of(cleaned.get("base_url", "")) if cleaned.get("own_network") else None
        try:
            guard.check_url(cleaned.get("base_url", ""), own_server=server)
        except guard.Refused as refused:
            if "base_url" not in self.errors:
                plain = cleaned.get("base_url", "").lower().startswith("http://") and not cleaned.get("own_network")
                own_words = _t(
                    "Only https:// addresses are called. For a server of your own network, tick the box below."
                )
                self.add_error("base_url", own_words if plain else str(refused))
        return cleaned

    def connection(self) -> llm.Connection:
        """What the valid form says."""
        values = self.cleaned_data
        address = values["base_url"].rstrip("/")
        # A key is for the server that it was entered for: it goes to no other because somebody changed the address.
        stored_key = self._before.key if address == self._before.base_url else ""
        return llm.Connection(
            address,
            values["model"],
            values["key"] or stored_key,
            values["own_network"],
            values["price_in"] or 0.0,
            values["price_out"] or 0.0,
            saved=True,
        )


@require_role(Role.ADMIN)
@never_cache
@require_http_methods(["GET", "POST"])
def llm_page(request: HttpRequest) -> HttpResponse:
    """Show the connection; test and save it, or save it untested with `anyway`. `?preset=` fills in a well-known server; `?pool=`
    names the pool whose pre-labeling comes next."""
    before = llm.connection()
    preset = next((preset_ for preset_ in llm.PRESETS if preset_.name == request.GET.get("preset")), None)
    initial = {
        "base_url": preset.base_url if preset else before.base_url,
        "own_network": preset.own_network if preset else before.own_network,
        "model": before.model if preset is None or preset.base_url == before.base_url else "",
        "price_in": before.price_in or None,
        "price_out": before.price_out or None,
    }
    form = LlmForm(request.POST or None, initial=initial, before=before)
    problem = ""
    wanted = next((pool for pool in pools_of(request) if pool.slug == request.GET.get("pool")), None)
    if request.method == "POST" and "forget" in request.POST:
        llm.remove(actor=person(request))
        messages.success(request, _t("Forgotten. What the settings of the installation say holds again."))
        return redirect("settings_llm")
    if request.method == "POST" and form.is_valid():
        answer, problem = ("", "") if "anyway" in request.POST else _tried(form.connection())
        if not problem:
            llm.save(form.connection(), actor=person(request))
            messages.success(request, answer or _t("Saved untested. This LLM is used from now on."))
            return redirect("prelabel", wanted.slug) if wanted else redirect("settings_llm")
    context = {
        "form": form,
        "before": before,
        "presets": llm.PRESETS,
        "preset": preset,
        "problem": problem,
        "details_open": bool(form["price_in"].errors or form["price_out"].errors),
    }
    return draw(request, "agents_app/llm.html", "settings_llm", context, title=_t("LLM"), pool=wanted)


def _tried(new: llm.Connection) -> tuple[str, str]:
    """(what to say of its answer, "") or ("", why it does not answer)."""
    try:
        answer = llm.test(new) or _t("(nothing)")
    except (LLMError, guard.Refused, OSError) as error:
        return "", str(error) or type(error).__name__
    return _t("It answered “%(answer)s” and is saved. It is used from now on.") % {"answer": answer}, ""
