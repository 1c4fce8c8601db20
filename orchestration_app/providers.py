"""Providers and backends: what may be set, how a secret is kept, and that running processes hear of a change."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, sealing
from agents_app.checks import FieldError
from agents_app.llm import server_of
from agents_app.models import Agent, Pool, Stamp
from agents_app.outbound import guard
from orchestration_app import catalog
from orchestration_app.models import Backend, BackendSettings, Provider
from training_app.engine.data import storable

#: Calls that failed in a row before a backend cools down, the first cool-down and the longest one; each is twice the one before.
FAILURES = 3
COOL_DOWN, LONGEST_COOL_DOWN = timedelta(seconds=30), timedelta(minutes=10)
MOST_SECRET = 4_000
#: What belongs to a model at its provider, the same for all agents.
TERMS = ("price_in", "price_out", "priced_on", "context", "requests_per_minute", "tokens_per_minute", "at_once")
LARGEST = 1e9
#: The share of assignments that a pool explores from its first backend on, until somebody says otherwise.
EXPLORED = 0.02


class BackendError(FieldError, ValueError):
    """A provider or a backend that cannot be kept."""


def save_provider(pool: Pool, name: str, address: str = "", *, secret: str | None = None, actor: audit.Who) -> Provider:
    """The pool's provider of that name, made or changed. `secret` None keeps the one that is there, for its server alone, "" forgets
    it.

    Raises BackendError.
    """
    with transaction.atomic():
        provider = Provider.objects.filter(pool=pool, name=name.strip()).first() or Provider(
            pool=pool, name=name.strip()
        )
        kept_for, provider.address = server_of(provider.address), address.strip()
        if provider.address:
            _check_address(provider.address, "address")
        if secret is not None:
            secret = secret.strip()
            if secret and (not secret.isascii() or not secret.isprintable() or len(secret) > MOST_SECRET):
                words = _("A secret has printable ASCII characters, at most %(most)d.")
                raise BackendError(words % {"most": MOST_SECRET}, "secret")
            provider.secret = sealing.seal(secret)
        elif provider.secret and kept_for != server_of(provider.address):
            raise BackendError(
                _("The key stays with the server that it was entered for. Enter the new server's key."), "secret"
            )
        _check(provider)
        provider.save()
        _told("provider.saved", pool, str(provider), {"secret": secret is not None}, actor)
    return provider


def save(
    agent: Agent, provider: Provider, values: Mapping[str, Any], *, backend: Backend | None = None,
    actor: audit.Who,
) -> Backend:  # fmt: skip
    """A backend of the agent, new or changed; fields that are left out stay. Raises BackendError."""
    if provider.pool_id != agent.pool_id:
        raise BackendError(_("The provider belongs to another pool."), "provider")
    with transaction.atomic():
        row = backend or Backend(agent=agent)
        row.agent, row.provider = agent, provider
        for name, value in values.items():
            setattr(row, name, value)
        _check(row)
        if row.health_url:
            _check_address(row.health_url, "health_url")
        else:
            row.healthy, row.health_said = True, ""
        row.save()
        _told("backend.saved", agent.pool, f"{agent}: {row}", {"changed": sorted(values)}, actor)
    return row


def apply(
    pool: Pool, agents: Sequence[Agent], provider: str, model: str, *, secret: str | None = None, actor: audit.Who
) -> list[Backend]:
    """Each of these agents may run on the model from now on; those that may already are left alone.

    `provider` is one of the catalog's or of the pool's, or the address of an OpenAI-compatible API. Prices and limits are those of the
    pool's table where it has the model, else the catalog's. A pool that has not said how it chooses explores EXPLORED from now on, so
    that every backend is observed. Raises BackendError, and then nothing has changed.
    """
    name, address = catalog.provider_of(provider)
    model = model.strip()
    if not agents:
        raise BackendError(_("Choose at least one agent."), "agents")
    with transaction.atomic():
        stored = Provider.objects.filter(pool=pool, name=name).first()
        row = save_provider(pool, name, address or (stored.address if stored else ""), secret=secret, actor=actor)
        like = Backend.objects.filter(provider=row, model=model).first()
        terms = {term: getattr(like, term) for term in TERMS} if like else catalog.terms_of(row.name, model)
        BackendSettings.objects.get_or_create(pool=pool, defaults={"exploration": EXPLORED})
        able = set(Backend.objects.filter(provider=row, model=model).values_list("agent_id", flat=True))
        return [save(agent, row, {"model": model, **terms}, actor=actor) for agent in agents if agent.pk not in able]


def save_terms(provider: Provider, model: str, values: Mapping[str, Any], *, actor: audit.Who) -> None:
    """Prices, limits and context of a model, for every agent that may run on it. Raises BackendError."""
    with transaction.atomic():
        rows = list(Backend.objects.filter(provider=provider, model=model).select_related("agent"))
        for row in rows:
            for name in TERMS:
                setattr(row, name, values.get(name, getattr(row, name)))
            _check(row)
            row.save(update_fields=TERMS)
        _told("backend.terms", provider.pool, f"{provider}/{model}", {"changed": sorted(values)}, actor)


def remove(backend: Backend, *, actor: audit.Who) -> None:
    """The agent is not run there any more; what was reported of it goes too."""
    with transaction.atomic():
        name, pool = f"{backend.agent}: {backend}", backend.agent.pool
        backend.delete()
        _told("backend.removed", pool, name, {}, actor)


def save_settings(pool: Pool, values: Mapping[str, Any], *, actor: audit.Who) -> BackendSettings:
    """How the pool chooses; fields that are left out stay. Raises BackendError."""
    with transaction.atomic():
        row = BackendSettings.objects.filter(pool=pool).first() or BackendSettings(pool=pool)
        before = row.learner, row.learning_share, row.learning_within
        for name, value in values.items():
            setattr(row, name, value)
        if before != (row.learner, row.learning_share, row.learning_within):
            row.learning_since, row.learning_stopped, row.learning_said = timezone.now(), None, ""
        _check(row)
        if not row.quality + row.cost + row.latency > 0:
            raise BackendError(_("One of the weights must be above 0."), "quality")
        row.save()
        _told("backends.set", pool, str(pool), dict(values), actor)
    return row


def stop_learning(pool: int, why: str) -> bool:
    """The pool's learner decides nothing from now on, in every process; whether it did until now."""
    with transaction.atomic():
        rows = BackendSettings.objects.filter(pool=pool, learning_stopped__isnull=True).exclude(learner="")
        if not rows.update(learning_stopped=timezone.now(), learning_said=why[:200]):
            return False
        _told("backends.learner_stopped", Pool.objects.get(pk=pool), "", {"why": why}, None)
    return True


def resume_learning(pool: Pool, *, actor: audit.Who) -> None:
    """The learner decides its share again; it is judged by the calls from now on."""
    with transaction.atomic():
        rows = BackendSettings.objects.filter(pool=pool).exclude(learner="")
        if rows.update(learning_since=timezone.now(), learning_stopped=None, learning_said=""):
            _told("backends.learner_resumed", pool, str(pool), {}, actor)


def called(backend: int, ok: bool) -> None:
    """A call of the backend ended. After FAILURES in a row it cools down, for every process; a success ends that."""
    with transaction.atomic():
        row = Backend.objects.select_for_update(no_key=True, of=("self",)).filter(pk=backend).first()
        if row is None or (ok and not row.failures and row.cooling_until is None):
            return
        row.failures = 0 if ok else row.failures + 1
        row.cooling_until = None
        if row.failures >= FAILURES:
            doubled = COOL_DOWN * 2 ** min(row.failures - FAILURES, 10)
            row.cooling_until = timezone.now() + min(doubled, LONGEST_COOL_DOWN)
        row.save(update_fields=("failures", "cooling_until"))


def _check_address(address: str, field: str) -> None:
    """Raises BackendError for an address that would not be asked."""
    try:
        guard.check(address, plain=field == "health_url")
    except guard.Refused as error:
        raise BackendError(str(error), field) from None
    except OSError:
        return  # not found today; a call will say so


def _check(row: Model) -> None:
    """Raises BackendError for what is wrong first."""
    for field in row._meta.concrete_fields:
        value = getattr(row, field.attname)
        if isinstance(value, float) and not (math.isfinite(value) and abs(value) <= LARGEST):
            raise BackendError(_("A number up to a billion."), field.name)
        if isinstance(value, str) and (fault := storable.text_fault(value)):
            raise BackendError(_("This cannot be stored: it %(why)s.") % {"why": fault}, field.name)
    try:
        row.full_clean(validate_constraints=False)
        row.validate_constraints()
    except ValidationError as error:
        for name, messages in error.message_dict.items():
            raise BackendError(str(messages[0]), "" if name == "__all__" else name) from None


def _told(action: str, pool: Pool, target: str, detail: dict[str, Any], actor: audit.Who) -> None:
    audit.record(action, actor=actor, target=target[:200], pool=pool, detail=detail)
    Stamp.bump()
